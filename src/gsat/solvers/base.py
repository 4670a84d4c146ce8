"""What a solver is, what it returns, and the points between which it moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from gsat._arrays.norms import finite, total
from gsat.costs import Penalised
from gsat.solvers.oracle import Oracle


@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found.

    Attributes
    ----------
    delta : Tensor, (m, *features)
        The perturbation, with the structure of the cost.
    objective : float
        S(Δ)/m.
    residual : float
        ‖δ − z‖_F for ADMM, the length of the next step ‖Δ − prox(Δ + η∇ℓ, ηλ)‖_F for the others.
    n_steps : int
        Accepted steps.
    n_gradients : int
        Evaluated gradients, rejected trials included.
    unbounded : bool
        Whether the problem seems to have no maximum, of which a warning told.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> found = gsat.maximise(lambda z: z.sum(1), torch.zeros(5, 4), gsat.Unstructured(), lam=0.5)
    >>> round(found.objective, 4), found.unbounded  # δ_i = (1, 1, 1, 1): 4 − ½·4
    (2.0, False)
    """

    delta: Tensor
    objective: float
    residual: float
    n_steps: int
    n_gradients: int
    unbounded: bool = False


@dataclass(frozen=True)
class Point:
    """A perturbation, the losses (m,) and the gradient there, their sum `loss`, and `objective` = S(Δ).

    `image` is what the loss sees of the perturbation, in the coordinates of the gradient: Δ itself, save in
    `ColumnAscent`.
    """

    delta: Tensor
    image: Tensor
    losses: Tensor
    gradient: Tensor
    loss: float
    objective: float

    @classmethod
    def at(cls, delta: Tensor, losses: Tensor, gradient: Tensor, penalty: float, image: Tensor | None = None) -> Point:
        """What was evaluated at Δ; the penalty is λ·c(Δ)."""
        loss = float(total(losses))
        return cls(delta, delta if image is None else image, losses, gradient, loss, loss - penalty)

    @property
    def is_finite(self) -> bool:
        """Whether every loss and every entry of the gradient is finite."""
        return finite(self.losses, self.gradient)


Answer = tuple[Tensor, Tensor | None]  # a perturbation, and the losses there if they were evaluated


class Ending(NamedTuple):
    """What a solver leaves: perturbations that may be the best, the residual, and how far a step still goes."""

    answers: list[Answer]
    residual: float
    travel: float


class Solver(Protocol):
    """Frozen hyper-parameters, a state of its own with `n_steps` and `done`, and steps that evaluate one gradient each.

    `axis_free` says that a rotation of the features rotates every iterate with it, so that the row space is enough;
    `by_columns` that `shortcuts.columns` may take these steps where a cost sees the norms of columns alone.
    """

    @property
    def axis_free(self) -> bool: ...
    @property
    def by_columns(self) -> bool: ...

    def init(self, oracle: Oracle, cost: Penalised, *, lam: float) -> Any:
        """The state after the first gradient, at Δ = 0, or after the first few of them."""

    def step(self, oracle: Oracle, cost: Penalised, state: Any, *, lam: float) -> Any:
        """The state after one more gradient."""

    def finish(self, cost: Penalised, state: Any, *, lam: float) -> Ending:
        """What is left when the steps have ended; it evaluates no gradient."""


def start(oracle: Oracle) -> Point:
    """The point Δ = 0, where a loss or gradient that is not finite cannot be mended by a shorter step."""
    zero = oracle.x.new_zeros(()).expand(oracle.x.shape)  # to be read only: it takes no memory
    point = Point.at(zero, *oracle(zero), penalty=0.0)
    if not point.is_finite:
        raise FloatingPointError(
            "loss or gradient is not finite at step 0, where nothing has moved yet; look at x, y and the model"
        )
    return point


def raise_if_stuck(step_length: float, oracle: Oracle) -> None:
    """A loss that is not finite rejects the step that led there, unless the step can hardly be shorter."""
    if step_length <= torch.finfo(oracle.x.dtype).eps * oracle.size:
        raise FloatingPointError(
            f"loss or gradient is not finite at step {oracle.n_gradients - 1}, however short the step"
        )
