"""What the selector and the basis ask of their samples and of the number they are to keep."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator


class FromAdversary(BaseEstimator):  # type: ignore[misc]
    """Labels are needed; samples may be sparse."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = True
        tags.classifier_tags = None
        return tags


def cut(name: str, wanted: int, there: int, *, taken: bool = True) -> int:
    """`wanted`, a whole number of at least 1, or all that are there where it is more, with a warning if it is taken."""
    if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer) or wanted < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {wanted!r}")
    if wanted > there and taken:
        warnings.warn(f"{name} = {wanted} is more than there are ({there}); all are taken", UserWarning, stacklevel=3)
    return min(int(wanted), there)
