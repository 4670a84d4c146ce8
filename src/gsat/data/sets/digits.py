"""The digits that come with scikit-learn."""

from __future__ import annotations

import numpy as np

from gsat.data.table import Table, content_checksum


def digits() -> Table:
    """scikit-learn's 1797 digits of 8x8 pixels in [0, 1], a quarter of each class on the test side."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    X = (bunch.data / 16).astype(np.float32)  # 17 grey levels, 0 to 16
    y = bunch.target.astype(np.int64)
    table = Table(
        X,
        y,
        feature_names=tuple(bunch.feature_names),
        source="digits of scikit-learn",
        checksum=content_checksum(X, y),
    )
    return table.split_at_random(test_fraction=0.25, seed=0)
