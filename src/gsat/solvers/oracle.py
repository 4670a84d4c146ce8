"""What a solver may ask of the loss: its values and gradient at x + Δ."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from gsat import _checks, _defaults
from gsat._arrays.norms import column_norms, length, norm, rows, total
from gsat.metric import Metric

Loss = Callable[[Tensor], Tensor]
FAR = 1e3  # ‖Δ‖_F at the most, in units of ‖x‖_F: an ascent without end stops there


class Oracle:
    """Δ -> per-sample losses (m,) and the gradient (m, *features) of their sum, zero where the mask is False.

    With bounds, the loss sees clamp(x + Δ, lo, hi); Δ itself is not clamped and keeps its structure. With a metric,
    what solvers move is Z, and the loss sees x + Z·A; its gradient in Z is ∇ℓ·A. A solver may ask for n_inner
    gradients. `group` is the group itself, where x holds other coordinates of it.
    """

    def __init__(
        self,
        loss: Loss,
        x: Tensor,
        mask: Tensor | None = None,
        bounds: tuple[Tensor, Tensor] | None = None,
        n_inner: int = _defaults.N_INNER,
        group: Tensor | None = None,
        metric: Metric | None = None,
    ) -> None:
        self.x, self.mask, self.bounds = x.detach().clone() if x.is_inference() else x.detach(), mask, bounds
        self.metric, self.n_inner, self.n_gradients = metric, n_inner, 0
        self.at_zero = x.new_empty(0)  # the losses of the first evaluation, which is at Δ = 0
        self._loss, self._group = loss, self.x if group is None else group.detach()

    @cached_property
    def size(self) -> float:
        """‖x‖_F of the group, also where squares would leave the range of float32."""
        return float(length(column_norms(rows(self._group)).double()))

    @cached_property
    def floor(self) -> float:
        """Σ_i ℓ_i at Δ = 0, known from the first evaluation on."""
        return float(total(self.at_zero))

    @property
    def reach(self) -> float:
        """‖Δ‖_F at the most, 1000·‖x‖_F; 1000 where x is 0."""
        return FAR * (self.size or 1.0)

    def is_near(self, delta: Tensor) -> bool:
        """Whether ‖Δ‖_F is below a tenth of the reach; an ascent that came farther has not ended by itself."""
        return float(norm(delta)) < self.reach / 10

    def within_reach(self, delta: Tensor) -> Tensor:
        """Δ, scaled down where it is longer than the reach; scaling keeps every structure."""
        size = float(norm(delta))
        return delta if not self.reach < size < math.inf else delta * (self.reach / size)

    def __call__(self, delta: Tensor) -> tuple[Tensor, Tensor]:
        """The losses at x + Δ and their gradient in Δ."""
        with torch.enable_grad():
            x = self.x.detach().requires_grad_()  # not x + Δ, which is let go where the model does not keep it
            losses = _checks.per_sample(self._loss(clamped(x + self._shift(delta), self.bounds)), len(self.x))
            if not losses.requires_grad:
                raise ValueError("loss must be differentiable in its input, got a result without a gradient")
            (gradient,) = torch.autograd.grad(losses, x, torch.ones_like(losses), allow_unused=True)
        if gradient is None:
            raise ValueError("loss must be differentiable in its input, got a result that does not depend on it")
        if self.n_gradients == 0:
            self.at_zero = losses.detach()
        self.n_gradients += 1
        gradient = self._shift(gradient.contiguous())  # a model of images may answer with the channels last
        return losses.detach(), gradient if self.mask is None else torch.where(self.mask, gradient, 0)

    def losses(self, delta: Tensor) -> Tensor:
        """The losses at x + Δ alone, at the price of a forward pass."""
        moved = clamped(self.x + self._shift(delta), self.bounds)
        return _checks.per_sample(self._loss(moved), len(self.x)).detach()

    def _shift(self, z: Tensor) -> Tensor:
        """Z·A; A is symmetric, so that this is also what a gradient in Δ is in Z."""
        return z if self.metric is None else self.metric.apply(z)


def clamped(x: Tensor, bounds: tuple[Tensor, Tensor] | None) -> Tensor:
    """`x` inside the bounds (lo, hi), where there are any."""
    return x if bounds is None else torch.clamp(x, *bounds)
