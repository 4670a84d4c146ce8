"""AnnData objects for tests, made as users make them."""

import anndata
import numpy as np
import pandas as pd

QUICK = {"n_outer": 60, "n_inner": 4, "eta0": 1e-2, "hidden": 20, "group_size": 80, "random_state": 0}
TYPES = np.array(["B/plasma cell", "NK cell", "T cell"], dtype=object)  # a slash must not end up in a key of the file


def plainly(seed=0, n=150):
    """Cells as a user has them, with text as pandas makes it: three types and donors; the first 30 have no label."""
    rng = np.random.default_rng(seed)
    kind, donor = rng.integers(0, 3, n), np.arange(n) % 3
    counts = rng.poisson(0.7 + 6.0 * (np.arange(12) % 6 == kind[:, None])).astype(np.float32)
    counts[donor == 1] += rng.poisson(1.5, size=12)
    obs = pd.DataFrame({"type": TYPES[kind], "donor": [f"d{i}" for i in donor]}, index=[f"cell{i}" for i in range(n)])
    obs["true"] = obs["type"]
    obs.loc[obs.index[:30], "type"] = np.nan
    return anndata.AnnData(counts, obs=obs, var=pd.DataFrame(index=[f"gene{j}" for j in range(12)]))
