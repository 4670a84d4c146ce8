"""Tools for AnnData objects, as scanpy has them: each writes what it found into the object.

`check` says whether robust training helps on the next batch, `diagnose` names the structure of the shift between
batches, `fit` trains and `predict` predicts; `gsat.pl` draws what they wrote. All of it can be written with
`adata.write_h5ad`.
"""

from gsat.tl.checking import check
from gsat.tl.shifts import diagnose
from gsat.tl.training import fit, predict

__all__ = ["check", "diagnose", "fit", "predict"]
