"""Tools for AnnData objects, as scanpy has them: each writes what it found into the object.

`diagnose` names the structure of the shift between batches, `fit` trains and `predict` predicts; `gsat.pl` draws what
they wrote. All of it can be written with `adata.write_h5ad`.
"""

from gsat.tl.shifts import diagnose
from gsat.tl.training import fit, predict

__all__ = ["diagnose", "fit", "predict"]
