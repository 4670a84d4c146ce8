"""Which features a trained model decides by: how much of the lead of the right class comes from each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsat._arrays.chunks import pieces
from gsat.data import Table
from gsat.estimators.from_table import Trained, samples
from gsat.models import layout
from gsat.models.modes import frozen

LISTED = 100  # features, at the most
ROWS = 1000  # training samples, at the most
SPLITS = 10  # into two halves each


def relevance(trained: Trained, train: Table) -> pd.DataFrame | None:
    """The features by which a model decides, the first most, and how stable that is over half-samples.

    The lead of sample i is the output of its class less the largest other one, l_i = f_y(z_i) − max_{k≠y} f_k(z_i). A
    feature's part of it is, to first order, what is lost where the feature is set to its training mean,
    z_ij·∂l_i/∂z_ij; for a linear model it is that exactly. The score is the mean part over the samples, divided by the
    sum of the absolute mean parts of all features. One gradient of at most 1000 training samples is all that it takes.

    Parameters
    ----------
    trained
        The classifier, with its plan.
    train
        The samples that it was trained on.

    Returns
    -------
    DataFrame or None
        feature, score, stability: at most 100 features and at most half of them. stability is the share of 20 random
        halves of the samples in which the feature is among as many of the best; the model is the same in all of them.
        Features that belong together (`feature_groups`) are added up. None for images: one pixel means nothing.
    """
    if train.X.ndim > 2:
        return None
    classifier = trained.classifier
    rows = classifier._rows(samples(train), train.batch if trained.plan.per_batch else None)
    chosen = np.linspace(0, len(train) - 1, min(ROWS, len(train))).astype(np.int64)
    targets = torch.as_tensor(np.searchsorted(classifier.classes_, train.y))  # type: ignore[arg-type]
    weights = np.vstack([np.full(len(chosen), 1 / len(chosen)), _halves(len(chosen), trained.plan.seed)])
    parts = np.zeros((len(weights), rows.shape[1]))
    for part in pieces(len(chosen), rows.shape[1], times=4):
        own = chosen[part]
        parts += weights[:, part] @ _lead_parts(classifier.module_, rows[own], targets[own])
    first, names = _blocks(train)
    if train.feature_groups is not None:
        blocks = np.searchsorted(np.unique(train.feature_groups), train.feature_groups)
        parts = np.stack([np.bincount(blocks, row, minlength=len(first)) for row in parts])
    count = min(LISTED, max(1, parts.shape[1] // 2))
    order = np.argsort(-parts[0], kind="stable")[:count]
    ranks = np.argsort(np.argsort(-parts[1:], axis=1, kind="stable"), axis=1)
    total = float(np.abs(parts[0]).sum()) or 1.0
    return pd.DataFrame(
        {
            "feature": [names[j] for j in order],
            "score": parts[0][order] / total,
            "stability": (ranks[:, order] < count).mean(0),
        }
    )


def block_name(names: Sequence[str], groups: Any, first: int) -> str:
    """The name of a block of features: the SNP of snp=0, snp=1, snp=2; of any other the first name and how many follow.

    Parameters
    ----------
    names, groups
        One for each feature.
    first
        The position of the block's first feature.

    Returns
    -------
    str
        The name.
    """
    members = [name for name, group in zip(names[first:], groups[first:], strict=True) if group == groups[first]]
    stems = {name.rpartition("=")[0] for name in members}
    if len(stems) == 1 and (stem := stems.pop()):
        return stem
    return members[0] if len(members) == 1 else f"{members[0]} and {len(members) - 1} more"


def _lead_parts(module: Any, z: NDArray[np.float32], targets: Tensor) -> NDArray[np.float64]:
    """z_ij·∂l_i/∂z_ij for the samples z (m, d)."""
    like = next(module.parameters())
    x = torch.from_numpy(z).to(like).requires_grad_()
    own = targets.to(like.device)[:, None]
    with frozen(module), torch.enable_grad():
        outputs = layout.outputs(module, x)
        rival = outputs.scatter(1, own, -torch.inf).amax(1)
        (slope,) = torch.autograd.grad((outputs.gather(1, own)[:, 0] - rival).sum(), x)
    found: NDArray[np.float64] = (slope * x).detach().cpu().double().numpy()
    return found


def _halves(n: int, seed: int) -> NDArray[np.float64]:
    """A row of weights for each of 2·SPLITS halves of n samples (2·SPLITS, n): the mean over the half."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(SPLITS):
        first = np.zeros(n, bool)
        first[rng.permutation(n)[: n // 2]] = True
        found += [half / max(1, half.sum()) for half in (first, ~first)]
    return np.array(found)


def _blocks(table: Table) -> tuple[NDArray[np.int64], list[str]]:
    """The first feature of each block, and its name; without blocks every feature is one."""
    d = table.X.shape[1]
    names = [f"feature {j}" for j in range(d)] if table.feature_names is None else list(table.feature_names)
    if table.feature_groups is None:
        return np.arange(d), names
    first = np.unique(table.feature_groups, return_index=True)[1]
    return first, [block_name(names, table.feature_groups, j) for j in first.tolist()]
