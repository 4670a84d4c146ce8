"""What perturbs a group during training: the GSAT adversary, the baselines, or nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from gsat import _checks, _defaults, attacks
from gsat._arrays.budgets import budget_used, by_class
from gsat._arrays.norms import mean, mean_row, norm, rows
from gsat.adversary import Adversary
from gsat.attacks.sets import inside, unit_rows
from gsat.costs import GroupCost, Metric, PerBatch, penalised, scaled
from gsat.losses import SampleLoss, checked_loss, named_loss
from gsat.models import layout
from gsat.models.modes import frozen, untouched
from gsat.shortcuts import Path
from gsat.solvers import Proximal, Solution, Solver
from gsat.solvers.oracle import Oracle, clamped

__all__ = ["ERM", "FGM", "GSAT", "PGD", "Defence", "Structured", "UniversalAT", "match_norm"]

FARTHEST = 3.0  # ‖δ_i‖ of a sample at the most, in units of the wanted mean (docs/choose.md)
MOST = 2.0  # of its budget that a group uses at the most
TOL = 1e-3  # of "proximal" in training: half the gradients, at less than half a percent of the gain (docs/paper.md)


class Defence(ABC):
    """x_adv = defence(model, x, y): the group that the weights are trained on; `delta` is the last perturbation.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> class Noise(gsat.defences.Defence):
    ...     name = "noise"
    ...
    ...     def __call__(self, model, x, y, batch=None):
    ...         return x + 0.1 * torch.randn_like(x)
    >>> model, x, y = torch.nn.Linear(6, 3), torch.randn(8, 6), torch.arange(8) % 3
    >>> len(gsat.gdadmm(model, x, y, Noise(), n_outer=5))
    5
    """

    name: ClassVar[str]
    spans_ranks: bool = False  # whether a group that lies on several ranks is moved as one
    _compact: Tensor | None = None  # the last perturbation, in the coordinates of the path on which it was found
    _path: Path | None = None

    @abstractmethod
    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The perturbed group, without a gradient; model, x and y are left as they are."""

    def objective(self, model: nn.Module, x: Tensor, y: Tensor, loss: SampleLoss, batch: Any = None) -> Tensor:
        """What the weights descend on, a scalar with a gradient: the mean loss of the perturbed group x."""
        return loss(layout.outputs(model, x), y).mean()

    @property
    def delta(self) -> Tensor | None:
        """The last perturbation (m, *features), formed when it is asked for."""
        return self._compact if self._path is None or self._compact is None else self._path.perturbation(self._compact)

    @delta.setter
    def delta(self, value: Tensor | None) -> None:
        self._compact, self._path = value, None

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies: the perturbation itself, without the model that its path refers to."""
        return {**vars(self), "_compact": self.delta, "_path": None}

    @property
    def norms(self) -> Tensor:
        """‖δ_i‖₂ of the last perturbation, in a metric ‖z_i‖₂, (m,); a single 0 where nothing was perturbed."""
        return torch.zeros(1) if self._compact is None else norm(rows(self._compact), dim=1)

    @property
    def mean_norm(self) -> float:
        """The mean of `norms`, over all ranks where the group lies on several."""
        return mean(self.norms.double())

    def measure(self) -> float | None:
        """How structured the last perturbation is: columns that move, or rank; None where that has no meaning."""
        return None

    def state_dict(self) -> dict[str, Tensor]:
        """What must be kept so that a resumed run equals an unbroken one."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a state that `state_dict` gave."""
        if set(state) != set(self.state_dict()):
            raise ValueError(f"the state of {self.name} must hold {sorted(self.state_dict())}, got {sorted(state)}")


class ERM(Defence):
    """Nothing is perturbed: empirical risk minimisation.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(6, 3), torch.randn(8, 6), torch.arange(8) % 3
    >>> bool((gsat.defences.ERM()(model, x, y) == x).all())
    True
    """

    name, spans_ranks = "erm", True

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The group as it is."""
        return x.detach()


class GSAT(Defence):
    """The structured adversary: argmax_Δ Σ_i ℓ(x_i + δ_i) − λ·c(Δ), or with Δ = Z·A and c(Z) in a metric A.

    `lam`, `scale` (the s of `gsat.costs.Scaled`, or None for the plain cost) and `targets`, the wanted mean ‖δ_i‖ of
    each class, are set by `gsat.gdadmm`. With a scale no sample moves farther than 3·s, also where the inner problem
    has no maximum, and no group uses more than twice its budget: where a structure is all or nothing, a few groups
    would use that of all.

    Parameters
    ----------
    cost, feature_mask, bounds, metric
        As in `gsat.maximise`.
    solver, n_inner
        As there, but "proximal" stands for `Proximal(tol=1e-3, residual=False)`: easy groups take fewer gradients.
    loss
        ℓ, a function (outputs, y) -> (m,), or "cross-entropy" (the default), "margin" or "dlr".
    generator
        Of the random batches of a `PerBatch` cost; by default one with seed 0.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(6, 3), torch.randn(8, 6), torch.arange(8) % 3
    >>> defence = gsat.defences.GSAT(gsat.LowRank(k=2))
    >>> len(gsat.gdadmm(model, x, y, defence, n_outer=5, budget=0.1)), defence.delta.shape
    (5, torch.Size([8, 6]))
    """

    name, spans_ranks = "gsat", True

    def __init__(
        self,
        cost: GroupCost | PerBatch,
        *,
        solver: str | Solver = "proximal",
        n_inner: int = _defaults.N_INNER_GSAT,
        loss: SampleLoss | str | None = None,
        feature_mask: Any = None,
        bounds: Any = None,
        generator: Generator | None = None,
        metric: Metric | None = None,
    ) -> None:
        self.cost = cost
        self.adversary = Adversary(
            cost,
            lam=1.0,
            solver=Proximal(tol=TOL, residual=False) if solver == "proximal" else solver,
            n_inner=n_inner,
            loss=loss,
            feature_mask=feature_mask,
            bounds=bounds,
            generator=generator,
            metric=metric,
        )
        self.scale: float | None = None
        self.targets: list[float] = []
        self._told = False  # of a problem without a maximum, once for all groups
        self.solution: Solution | None = None  # of the last group, in the coordinates of the path that was taken

    @property
    def lam(self) -> float:
        """The price of the cost."""
        return self.adversary.lam

    @lam.setter
    def lam(self, value: float) -> None:
        self.adversary.lam = _checks.number("lam", value, above=0)

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The group moved to where the loss less λ·c(Δ) is largest."""
        self._path = self._compact = self.solution = None  # they may be as large as the group: let them go first
        self.adversary.cost = self.cost if self.scale is None else scaled(self.cost, self.scale)
        self._path, found = self.adversary.solve(model, x, y, batch, warn=self.scale is None and not self._told)
        self._told |= found.unbounded
        if self.scale is not None:
            found = replace(found, delta=self._cut(rows(found.delta), y, self.scale).view_as(found.delta))
        self.solution, self._compact = found, found.delta
        with torch.inference_mode(False), torch.no_grad():
            moved = self._path.moved(x.detach(), self._compact)
            return clamped(moved, _checks.bounds(self.adversary.bounds, x))

    def _cut(self, delta: Tensor, y: Tensor, scale: float) -> Tensor:
        """Long rows of Δ (m, d) cut, then all of it scaled: equal rows stay equal, columns and ranks as few."""
        delta = inside(delta, FARTHEST * scale)
        used = budget_used(*by_class(norm(delta, dim=1), y), self.targets)
        return delta if used is None or used <= MOST else delta * (MOST / used)

    def describe(self) -> dict[str, Any]:
        """How the inner problem is solved, for JSON."""
        metric = {} if (found := self.adversary.metric) is None else {"metric": f"{found!r} {found.fingerprint}"}
        return {"solver": repr(self.adversary.solver), "n_inner": self.adversary.n_inner, **metric}

    def state_dict(self) -> dict[str, Tensor]:
        """The generator that draws the batches of a `PerBatch` cost."""
        return {"generator": self.adversary.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue the draws."""
        super().load_state_dict(state)
        self.adversary.generator.set_state(state["generator"])

    def measure(self) -> float | None:
        """The number of columns (or blocks) that move, or the rank."""
        inner = self.cost.cost if isinstance(self.cost, PerBatch) else self.cost
        return None if self._compact is None else penalised(inner).measure(self._compact)


class Structured(Defence):
    """An attack as the adversary; `match_norm` and a tuned eps are the two ways to set its size.

    Parameters
    ----------
    attack
        One of `gsat.attacks`.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(6, 3), torch.randn(8, 6), torch.arange(8) % 3
    >>> defence = gsat.defences.Structured(gsat.attacks.GroupSparse(0.5, k=2, steps=10))
    >>> moved = defence(model, x, y)
    >>> int((moved != x).any(dim=0).sum())  # the columns that move
    2
    """

    name = "structured"

    def __init__(self, attack: attacks.Attack) -> None:
        self.attack, self.spans_ranks = attack, isinstance(attack, attacks.PGD | attacks.FGM)  # which share nothing

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The attacked group."""
        self.delta = None  # the last one is as large as the group: let it go first
        delta = self.delta = self.attack.perturb(model, x, y, batch)
        return clamped(x.detach() + delta, _checks.bounds(self.attack.bounds, x))

    def measure(self) -> float | None:
        """The attack's number of columns or rank."""
        return self.attack.size if isinstance(self.attack, attacks.Structured) else None


class PGD(Structured):
    """Ordinary adversarial training: each sample moves on its own, by projected gradient ascent.

    Parameters
    ----------
    eps, steps, step_size, **options
        Of `gsat.attacks.PGD`, with keep="last": all steps have one length, by default 2·eps/steps.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(6, 3), torch.randn(8, 6), torch.arange(8) % 3
    >>> moved = gsat.defences.PGD(0.5, steps=5)(model, x, y)
    >>> bool(((moved - x).norm(dim=1) <= 0.5 + 1e-6).all())
    True
    """

    name = "pgd"

    def __init__(
        self, eps: float, *, steps: int = _defaults.N_INNER, step_size: float | None = None, **options: Any
    ) -> None:
        super().__init__(attacks.PGD(eps, steps=steps, step_size=step_size, keep="last", **options))


class FGM(Structured):
    """One gradient per group: the fast gradient method, or with direction="sign" FGSM with an L2-matched norm.

    Parameters
    ----------
    eps, **options
        Of `gsat.attacks.FGM`.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(6, 3), torch.randn(8, 6), torch.arange(8) % 3
    >>> moved = gsat.defences.FGM(0.5)(model, x, y)
    >>> bool(((moved - x).norm(dim=1) <= 0.5 + 1e-6).all())
    True
    """

    name = "fgm"

    def __init__(self, eps: float, **options: Any) -> None:
        super().__init__(attacks.FGM(eps, **options))


class UniversalAT(Defence):
    """Universal adversarial training (Shafahi et al.): one shift, carried over, and one gradient of it per group.

    Parameters
    ----------
    eps, step_size
        The length of the shift at the most, and of its step at a group; None for eps/5.
    loss
        A function (outputs, y) -> (m,), or "cross-entropy" (the default), "margin" or "dlr".

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(6, 3), torch.randn(8, 6), torch.arange(8) % 3
    >>> defence = gsat.defences.UniversalAT(0.5)
    >>> first, second = defence(model, x, y), defence(model, x, y)  # the shift is carried on
    >>> bool(((second - x).norm(dim=1) <= 0.5 + 1e-6).all())
    True
    """

    name, spans_ranks = "universal-at", True

    def __init__(self, eps: float, *, step_size: float | None = None, loss: SampleLoss | str | None = None) -> None:
        self.eps = _checks.number("eps", eps, least=0)
        self.step_size = eps / 5 if step_size is None else _checks.number("step_size", step_size, above=0)
        self.loss = checked_loss(loss)
        self.shift = torch.zeros(0)

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The group with the carried shift, after one more step of it."""
        x = _checks.group("x", x)
        flat = self.shift.to(x) if self.shift.numel() else torch.zeros_like(rows(x[:1]))
        with frozen(model), untouched(x):
            loss = named_loss(self.loss, lambda: layout.outputs(model, x), y)
            _, gradient = Oracle(lambda z: loss(layout.outputs(model, z), y), x)(flat.view_as(x[:1]))
        ascent = unit_rows(mean_row(rows(gradient)))
        self.shift = inside(flat + self.step_size * ascent, self.eps)
        delta = self.delta = self.shift.view_as(x[:1]).expand_as(x)
        return x.detach() + delta

    def state_dict(self) -> dict[str, Tensor]:
        """The carried shift."""
        return {"shift": self.shift}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Carry on with that shift."""
        super().load_state_dict(state)
        self.shift = state["shift"]


def match_norm(defence: Defence, mean_norm: float) -> Defence:
    """The baseline with eps set to the mean ‖δ_i‖ that GSAT used: the paper's rule for a fair comparison.

    Parameters
    ----------
    defence
        One with an eps: `PGD`, `FGM`, `Structured` or `UniversalAT`.
    mean_norm
        The wanted mean ‖δ_i‖, as `History.mean_norm` has it.

    Returns
    -------
    Defence
        A copy.

    Examples
    --------
    >>> import gsat
    >>> gsat.defences.match_norm(gsat.defences.PGD(0.1), 0.3).attack.eps
    0.3
    """
    mean_norm = _checks.number("mean_norm", mean_norm, least=0)
    matched = copy(defence)
    if isinstance(matched, UniversalAT):
        matched.step_size = mean_norm / 5 if matched.eps == 0 else matched.step_size * mean_norm / matched.eps
        matched.eps, matched.shift = mean_norm, torch.zeros(0)
    elif isinstance(matched, Structured):
        step, before = matched.attack.step_size, matched.attack.eps
        longer = None if step is None or before == 0 else step * mean_norm / before
        matched.attack = replace(matched.attack, eps=mean_norm, step_size=longer or None)
    else:
        raise ValueError(f"match_norm needs a defence with an eps, got {defence.name}")
    return matched
