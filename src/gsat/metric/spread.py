"""How training samples differ where they should be alike: between batches, and inside a class and a batch.

The additive model x = class mean + batch shift + noise is fitted by least squares, so that batches with other mixes of
classes are not taken for shifted, and a class that one batch alone has is not taken for its shift. The shifts E (B, d)
give S_b = EᵀE. What is left inside a class and a batch gives the covariance S_w. Few samples in many features differ by
chance: shifts are shortened by what chance would make them (James and Stein), S_w is shrunk (Ledoit and Wolf, 2004),
and what either loses by that becomes a multiple of the identity. Both have the trace d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from gsat import _checks
from gsat._arrays.chunks import pieces
from gsat._arrays.norms import norm, rows

KINDS = ("batches", "within", "between")
SMALL = 2048  # features up to which a covariance is computed as a whole
MOST_ROWS = 10_000  # by which a covariance is measured: its leading directions need no more
SPARE = 10  # more vectors than are kept, in the search for the leading ones
PASSES = 3  # of that search
TIMES = 8  # blocks of rows are 8 times as large as usual: products of few rows with many columns are slow


@dataclass(frozen=True)
class Spread:
    """S ≈ Vᵀ·diag(values)·V + floor·I: directions V (r, d), orthonormal rows; values (r,), in descending order.

    variance: the trace before it was made d, that is, the mean squared length of a residual
    """

    directions: Tensor
    values: Tensor
    floor: float = 0.0
    variance: float = 0.0


@dataclass(frozen=True)
class Cells:
    """Samples that share class and batch: the cell of each sample, and of each cell its class, batch, size and mean.

    cell: (n,); weight: (n,), how often each sample counts; size: (cells,); mean: (cells, d); all sums in float64
    """

    cell: Tensor
    weight: Tensor
    label: Tensor
    batch: Tensor
    size: Tensor
    mean: Tensor


def spread(
    X: Any, y: Any = None, batch: Any = None, *, kind: str | None = None, rank: int, weights: Any = None
) -> Spread:
    """S of the samples, its leading `rank` directions; the arguments are those of `gsat.Metric.from_batches`."""
    X = _indexed(X)
    n = X.shape[0]
    if n == 0:
        raise ValueError("X must hold at least one sample, got none")
    labels, batches = _codes("y", y, n), _codes("batch", batch, n)
    if kind is None:
        kind = "within" if int(batches.max()) == 0 else "batches"
    if kind != "within" and int(batches.max()) == 0:
        raise ValueError(f"kind={kind!r} needs at least two batches, got {'none' if batch is None else 'one'}")
    cells = _cells(X, labels, batches, _counts(weights, n))
    parts = list[Tensor]()  # rows F with S = FᵀF + floor·I
    floor, share = 0.0, 0.5 if kind == "batches" else 1.0
    d, within = cells.mean.shape[1], _within(X, cells, rank)
    if kind != "within":
        shifts, certain = _certain(cells, 0.0 if within is None else within.variance)
        floor += share * (1 - certain)
        parts.append(math.sqrt(share * certain) * shifts)
    if kind != "between" and within is not None:
        floor += share * within.floor
        parts.append((share * within.values).sqrt()[:, None] * within.directions)
    factor = torch.cat(parts) if parts else torch.zeros(0, d, dtype=torch.float64)
    values, left = (found.flip(-1) for found in torch.linalg.eigh(factor @ factor.T))
    keep = min(rank, d, int((values > 1e-10 * d).sum()))
    directions = torch.linalg.qr((left[:, :keep].T @ factor).T).Q.T
    return Spread(directions.to(_precision(X)).contiguous(), values[:keep], floor)


def shifts_of(cells: Cells) -> tuple[Tensor, Tensor]:
    """E (B, d), one shift per batch, by least squares of x = μ_class + e_batch + noise; the sum of the shifts is 0.

    With N (C, B) the number of samples, n_c and n_b its sums, and T_c and T_b the sums of samples, eliminating μ leaves
    M·E = T_b − Nᵀ·diag(1/n_c)·T_c with M = diag(n_b) − Nᵀ·diag(1/n_c)·N. Where batches share no class this is singular;
    the solution of least norm then says nothing about how they differ. Returns E and M⁺ (B, B), the covariance of the
    shifts in units of the noise.
    """
    n_classes, n_batches = int(cells.label.max()) + 1, int(cells.batch.max()) + 1
    sums = cells.mean * cells.size[:, None]
    counts = torch.zeros(n_classes, n_batches, dtype=torch.float64)
    counts[cells.label, cells.batch] = cells.size
    by_class = torch.zeros(n_classes, sums.shape[1], dtype=torch.float64).index_add_(0, cells.label, sums)
    by_batch = torch.zeros(n_batches, sums.shape[1], dtype=torch.float64).index_add_(0, cells.batch, sums)
    mixed = counts.T / counts.sum(1)
    inverse: Tensor = torch.linalg.pinv(torch.diag(counts.sum(0)) - mixed @ counts, rtol=1e-9, hermitian=True)
    return inverse @ (by_batch - mixed @ by_class), inverse


def _certain(cells: Cells, within: float) -> tuple[Tensor, float]:
    """The shifts, each times max(0, 1 − chance_b/‖e_b‖²), with trace(EᵀE) = d; and the share of ‖E‖² that is left.

    chance_b = σ²·M⁺_bb is the mean ‖e_b‖² of batches that do not differ, σ² the mean squared length of the noise: the
    squared residuals of the additive model, `within` a cell and between the means of the cells, per degree of freedom.
    """
    shifts, inverse = shifts_of(cells)
    centred = cells.mean - shifts[cells.batch]
    weight = cells.size / torch.bincount(cells.label, cells.size)[cells.label]
    by_class = torch.zeros(int(cells.label.max()) + 1, shifts.shape[1], dtype=torch.float64)
    by_class.index_add_(0, cells.label, weight[:, None] * centred)
    between = float(cells.size @ (centred - by_class[cells.label]).square().sum(1))
    free = float(cells.size.sum()) - len(by_class) - int(torch.linalg.matrix_rank(inverse, hermitian=True))
    noise = (within * float(cells.size.sum()) + between) / free if free > 0 else math.inf
    square = shifts.square().sum(1)
    whole = float(square.sum())
    if whole == 0 or not math.isfinite(noise):
        return shifts, 0.0
    kept = (1 - noise * inverse.diagonal() / square.clamp(min=torch.finfo(torch.float64).tiny)).clamp(min=0)
    left = shifts * kept[:, None]
    square = left.square().sum()
    return left * math.sqrt(shifts.shape[1]) / square.sqrt().clamp(min=1e-300), float(square) / whole


def _within(X: Any, cells: Cells, rank: int) -> Spread | None:
    """S_w, shrunk: (1 − ρ)·S + ρ·I with trace d; None where nothing varies inside a class and a batch.

    ρ = min(1, (Σ_i‖r_i‖⁴/n − ‖S‖²)/n / (‖S‖² − (tr S)²/d)) for residuals r_i (Ledoit and Wolf). Above 2,048 features
    the leading directions are found by subspace iteration from random vectors, which estimate ‖S‖² too.
    """
    n, d = len(cells.cell), cells.mean.shape[1]
    used = torch.arange(n)
    if n > MOST_ROWS:
        used = torch.randperm(n, generator=Generator().manual_seed(0))[:MOST_ROWS].sort().values
    whole, basis = d <= SMALL, None
    if not whole:
        basis = torch.randn(d, min(rank + SPARE, d), generator=Generator().manual_seed(0), dtype=torch.float64)
    weight = cells.weight[used]
    size = float(weight.sum())
    image, squares = _image(X, cells, used, basis)
    trace = float(weight @ squares) / size
    if trace <= 1e-12 * float(cells.mean.square().sum(1).mean() + trace):
        return None
    square = float(image.square().sum()) / (1 if basis is None else basis.shape[1])  # ‖S‖²_F
    noise = (float(weight @ squares.square()) / size - square) / size
    apart = square - trace**2 / d
    shrunk = min(1.0, max(0.0, noise / apart)) if apart > 1e-12 * square else 1.0
    for _ in range(0 if whole else PASSES):
        basis = torch.linalg.qr(image).Q
        image, _ = _image(X, cells, used, basis)
    image = image if basis is None else basis.T @ image
    values, vectors = torch.linalg.eigh((image + image.T) / 2)
    values, vectors = values.flip(0)[:rank].clamp(min=0), vectors.flip(1)[:, :rank]
    directions = (vectors if basis is None else basis @ vectors).T
    return Spread(directions, (1 - shrunk) * values * (d / trace), floor=shrunk, variance=trace)


def _image(X: Any, cells: Cells, used: Tensor, basis: Tensor | None) -> tuple[Tensor, Tensor]:
    """S·basis, or S for None, for the covariance S of the residuals of the rows `used`; and their squared norms."""
    d = cells.mean.shape[1]
    squares = torch.empty(len(used), dtype=torch.float64)  # one piece: many small ones keep large ones from reuse
    image = torch.zeros(d, d if basis is None else basis.shape[1], dtype=torch.float64)
    for part in pieces(len(used), d, times=TIMES):
        residuals, weight = _dense(X, used[part]), cells.weight[used[part], None]
        residuals -= cells.mean[cells.cell[used[part]]]
        squares[part] = norm(residuals, dim=1).double().square()
        seen = residuals if basis is None else residuals @ basis.to(residuals.dtype)
        image += residuals.T @ (seen * weight.to(seen.dtype))
    return image / float(cells.weight[used].sum()), squares


def _cells(X: Any, labels: Tensor, batches: Tensor, weight: Tensor) -> Cells:
    """One pass over the samples."""
    pairs, cell = torch.unique(torch.stack([labels, batches], 1), dim=0, return_inverse=True)
    size = torch.bincount(cell, weight)
    sums = torch.zeros(len(pairs), math.prod(X.shape[1:]), dtype=torch.float64)
    for part in pieces(len(labels), sums.shape[1], times=TIMES):
        sums.index_add_(0, cell[part], weight[part, None] * _dense(X, part).double())
    if not bool(sums.isfinite().all()):
        raise ValueError("X must be finite, got NaN or an infinite number")
    return Cells(cell, weight, pairs[:, 0], pairs[:, 1], size, sums / size[:, None])


def _counts(weights: Any, n: int) -> Tensor:
    """How often each sample counts, (n,): whole weights are repetitions, others are scaled to a mean of 1."""
    if weights is None:
        return torch.ones(n, dtype=torch.float64)
    found = torch.as_tensor(weights, dtype=torch.float64)
    if found.shape != (n,) or not bool(found.isfinite().all()) or float(found.min()) <= 0:
        raise ValueError(f"weights must be {n} numbers above 0, one per sample, got {_checks.shown(weights)}")
    return found if bool((found == found.floor()).all()) else found * (n / found.sum())


def _codes(name: str, values: Any, n: int) -> Tensor:
    """The place of each sample's value among the distinct ones, (n,); 0 for all where there are none."""
    return torch.zeros(n, dtype=torch.long) if values is None else _checks.batch_codes(values, n, name).cpu()


def _indexed(X: Any) -> Any:
    """The samples (n, *features) as a tensor, or as something whose rows are found by their numbers, as in an array."""
    _checks.not_anndata("X", X, "its matrix adata.X, or a layer")
    if isinstance(X, list | tuple):
        try:
            X = torch.stack([torch.as_tensor(row, dtype=torch.float64) for row in X]) if X else torch.zeros(0, 1)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"X must be rows of numbers, all of one length, got {_checks.shown(X)}") from error
    elif hasattr(X, "tocsr"):  # a sparse matrix: others than CSR have no rows, or find them slowly
        X = X.tocsr()
    elif hasattr(X, "to_numpy"):  # a DataFrame
        X = X.to_numpy()
    if not hasattr(X, "shape") or not hasattr(X, "__getitem__"):
        raise TypeError(f"X must be an array, a tensor, a DataFrame or a sparse matrix, got {_checks.shown(X)}")
    if len(X.shape) < 2 or math.prod(X.shape[1:]) == 0:
        raise ValueError(f"X must have shape (n, d) or (n, *features), got {tuple(X.shape)}")
    kind = str(getattr(X, "dtype", "float")).removeprefix("torch.")
    if not kind.startswith(("float", "bfloat", "int", "uint", "bool")):
        raise ValueError(f"X must hold numbers, got {kind}")
    return X


def _dense(X: Any, index: Any) -> Tensor:
    """Rows of X as a matrix of their own; of many features in the precision of X, to save memory and time."""
    dtype = torch.float64 if math.prod(X.shape[1:]) <= SMALL else _precision(X)
    if isinstance(X, Tensor):
        return rows(X[index]).to("cpu", dtype, copy=True)
    found = X[index if isinstance(index, slice) else index.numpy()]
    found = found.toarray() if hasattr(found, "toarray") else found
    return rows(torch.from_numpy(found.astype(str(dtype).removeprefix("torch."))))


def _precision(X: Any) -> torch.dtype:
    return torch.float64 if str(getattr(X, "dtype", "")).endswith("float64") else torch.float32
