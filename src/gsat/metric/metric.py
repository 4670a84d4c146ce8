"""The ground metric: along which directions real batches differ, so that moving there is cheap and elsewhere dear."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from gsat import _checks, _defaults
from gsat._arrays.norms import rows
from gsat._show import Card, Shown, drawing
from gsat.metric.spread import KINDS, Spread, spread


@dataclass(frozen=True, eq=False, repr=False)
class Metric(Shown):
    """A symmetric map A of feature space; costs act on Z where Δ = Z·A, that is, c_A(Δ) = c(Δ·A⁻¹).

    A = rest·I + Vᵀ·diag(stretch − rest)·V. A perturbation along direction k is stretch_k times as long as what it
    costs, one across all directions `rest` times.

    Parameters
    ----------
    directions : Tensor, (r, d)
        V, orthonormal rows.
    stretch : Tensor, (r,)
        Along each of them, above 0.
    rest : float
        Everywhere else, above 0.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> metric = gsat.Metric(torch.tensor([[1.0, 0.0]]), torch.tensor([3.0]))
    >>> metric
    Metric(1 directions of 2 features, stretch up to 3, 1 elsewhere)
    >>> metric.apply(torch.ones(1, 2))  # three times as far along the first feature, at the same cost
    tensor([[3., 1.]])
    """

    directions: Tensor
    stretch: Tensor
    rest: float = 1.0
    _last: tuple[Tensor | None, Metric] | None = field(default=None, init=False)  # what `like` found last

    def __post_init__(self) -> None:
        directions, stretch = torch.as_tensor(self.directions).detach(), torch.as_tensor(self.stretch).detach()
        if directions.ndim != 2 or not directions.is_floating_point():
            raise ValueError(f"directions must be numbers of shape (r, d), got {tuple(directions.shape)}")
        r, d = directions.shape
        if stretch.shape != (r,):
            raise ValueError(f"stretch must have one number per direction ({r}), got shape {tuple(stretch.shape)}")
        _checks.number("rest", self.rest, above=0)
        if r and not (bool(stretch.isfinite().all()) and float(stretch.min()) > 0):
            raise ValueError(f"stretch must be finite and above 0, got {float(stretch.min()):g} as the least")
        apart = directions.double() @ directions.double().T - torch.eye(
            r, dtype=torch.float64, device=directions.device
        )
        if r > d or not float(apart.abs().max() if r else 0.0) <= 1e3 * torch.finfo(directions.dtype).eps:
            raise ValueError("directions must be orthonormal rows, got others")
        object.__setattr__(self, "directions", directions)
        object.__setattr__(self, "stretch", stretch.to(directions.dtype))

    @classmethod
    def from_batches(
        cls,
        X: Any,
        y: Any = None,
        batch: Any = None,
        *,
        gamma: float = _defaults.GAMMA,
        rank: int = _defaults.METRIC_RANK,
        kind: str | None = None,
        weights: Any = None,
    ) -> Metric:
        """The metric in which moving as the training samples differ is cheap: A² = (I + γ·S)/(1 + γ), trace(S) = d.

        S is S_b, how the batches are shifted against each other, or S_w, how samples vary inside a class and a batch,
        or the mean of both. `gsat.metric.spread` says how they are found; the leading `rank` directions are kept. The
        mean square stretch of A is 1.

        Parameters
        ----------
        X : array, (n, d) or (n, *features)
            Training samples as the model sees them: an array, a tensor, a DataFrame, a list of rows, a sparse matrix,
            or what is indexed like an array: a memory map, or rows that stay in a file, which are read a few at a time.
        y : array, (n,), optional
            Their classes; None for one class.
        batch : array, (n,), optional
            Their batches; None for one batch.
        gamma : float
            How much cheaper; 0 gives the identity.
        rank : int
            Directions at the most.
        kind : {"batches", "within", "between"}, optional
            Which S: the mean of S_w and S_b, S_w or S_b. None for "batches" where there are two batches or more, else
            "within".
        weights : array, (n,), optional
            How often each sample counts, above 0; None for once.

        Returns
        -------
        Metric
            In float32, or float64 where X is.
        """
        gamma = _checks.number("gamma", gamma, least=0)
        rank = _checks.count("rank", rank, least=1)
        if kind is not None:
            _checks.one_of("kind", kind, KINDS)
        return cls.of_spread(spread(X, y, batch, kind=kind, rank=rank, weights=weights), gamma)

    @classmethod
    def of_spread(cls, found: Spread, gamma: float) -> Metric:
        """The metric of a spread S ≈ Vᵀ·diag(values)·V + floor·I: A² in proportion to I + γ·S.

        Parameters
        ----------
        found
            Directions and values of S.
        gamma
            How much cheaper moving along S is.

        Returns
        -------
        Metric
            With a mean square stretch of 1.
        """
        d = found.directions.shape[1]
        rest, along = 1 + gamma * found.floor, 1 + gamma * (found.floor + found.values)
        mean = rest + float((along - rest).sum()) / d
        return cls(found.directions, (along / mean).sqrt().to(found.directions.dtype), math.sqrt(rest / mean))

    def apply(self, z: Tensor) -> Tensor:
        """Z·A, the perturbation Δ whose cost is c(Z); (m, *features) or (d,)."""
        return self._mapped("z", z, self.stretch, self.rest)

    def solve(self, delta: Tensor) -> Tensor:
        """Δ·A⁻¹, the inverse of `apply`; (m, *features) or (d,)."""
        return self._mapped("delta", delta, 1 / self.stretch, 1 / self.rest)

    def restricted(self, mask: Tensor | None) -> Metric:
        """The metric among the features that may move: A² cut to them, the identity times `rest` for the others.

        Parameters
        ----------
        mask
            Boolean (*features), False where nothing may move; None for no restriction.

        Returns
        -------
        Metric
            One that moves no masked feature by an unmasked one.
        """
        if mask is None:
            return self
        kept = self.directions.double() * mask.reshape(-1).to(self.directions)
        frame, triangle = torch.linalg.qr(kept.T)
        more = self.stretch.double().square() - self.rest**2
        values, vectors = torch.linalg.eigh(triangle @ (more[:, None] * triangle.T))
        keep = values.abs() > 1e-12 * self.rest**2  # directions outside the mask, or that a short frame filled up
        directions = (frame @ vectors[:, keep]).T * mask.reshape(-1)  # rounding passes the mask
        stretch = (self.rest**2 + values[keep]).sqrt()
        return Metric(directions.to(self.directions.dtype), stretch.to(self.directions.dtype), self.rest)

    def like(self, x: Tensor, mask: Tensor | None) -> Metric:
        """The metric in the precision and on the device of x (m, *features), restricted to the mask.

        The last one is kept: training and attacks ask for the same in every group.

        Parameters
        ----------
        x
            Samples.
        mask
            As in `restricted`.

        Returns
        -------
        Metric
            This one where it is as wanted.
        """
        dtype, device = torch.promote_types(x.dtype, torch.float32), x.device
        fits = self.directions.dtype == dtype and self.directions.device == device
        if fits and mask is None:
            return self
        if self._last is not None:
            cut, found = self._last
            same = cut is None if mask is None else cut is not None and torch.equal(cut, mask)
            if same and (found.directions.dtype, found.directions.device) == (dtype, device):
                return found
        with torch.inference_mode(False):  # what is kept must do for later calls, with gradients or without
            there = self.directions.to(device, dtype), self.stretch.to(device, dtype)
            found = (self if fits else Metric(*there, self.rest)).restricted(mask)
            object.__setattr__(self, "_last", (None if mask is None else mask.clone(), found))
        return found

    def _mapped(self, name: str, v: Tensor, along: Tensor, rest: float) -> Tensor:
        """Each row v_i becomes rest·v_i + Σ_k (along_k − rest)·⟨v_i, V_k⟩·V_k."""
        v, d = _checks.group(name, v), self.directions.shape[1]
        flat = v[None] if v.ndim == 1 else rows(v)
        if flat.shape[1] != d:
            raise ValueError(f"{name} must have the {d} features of the metric, got shape {tuple(v.shape)}")
        directions = self.directions.to(flat)
        seen = flat @ directions.T
        return torch.addmm(flat, seen * (along.to(flat) - rest), directions, beta=rest).view_as(v)

    @property
    def fingerprint(self) -> str:
        """A hash of all its numbers, which tells metrics apart whose repr is the same."""
        numbers = torch.cat([self.directions.reshape(-1), self.stretch]).double().cpu().numpy()
        about = f"{tuple(self.directions.shape)} {self.rest!r}".encode()
        return hashlib.sha256(about + numbers.tobytes()).hexdigest()[:16]

    def _card(self) -> Card:
        r, d = self.directions.shape
        most = f", stretch up to {float(self.stretch.max()):.3g}" if r else ""
        facts = {
            "directions": f"{r} of {d} features",
            "stretch along the first of them": self.stretch.sort(descending=True).values[:5].tolist(),
            "everywhere else": float(self.rest),
        }
        return Card(f"{r} directions of {d} features{most}, {self.rest:.3g} elsewhere", facts)

    def plot(self, *, ax: Any = None, show: bool | None = None) -> Any:
        """Draw the stretch along each direction, the largest first, and everywhere else.

        Parameters
        ----------
        ax
            Matplotlib axes; None for new ones.
        show
            Whether the figure is shown; None: in a notebook, where no axes are given.

        Returns
        -------
        Axes
            Those given, or new ones, which pyplot does not keep.
        """
        stretch = self.stretch.sort(descending=True).values.tolist()
        with drawing(ax, show) as ax:
            ax.plot(range(1, len(stretch) + 1), stretch, marker="o", ms=4, ls="", label="along a direction")
            ax.axhline(self.rest, color="grey", ls=":", label="everywhere else")
            ax.xaxis.get_major_locator().set_params(integer=True)
            ax.set_xlabel("direction")
            ax.set_ylabel("stretch: how far a move of cost 1 goes")
            ax.grid(alpha=0.3)
            ax.legend()
        return ax


def fitting(metric: Metric | None, x: Tensor, mask: Tensor | None = None) -> Metric | None:
    """The metric in the precision and on the device of x (m, *features), restricted to the mask; None for None."""
    if metric is None:
        return None
    if not isinstance(metric, Metric):
        raise TypeError(f"metric must be a gsat.Metric or None, got {metric!r}")
    d, own = math.prod(x.shape[1:]), metric.directions.shape[1]
    if own != d:
        raise ValueError(f"metric must be of the {d} features of a sample, got one of {own}")
    return metric.like(x, mask)
