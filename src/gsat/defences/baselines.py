"""What GSAT is compared with: attacks as the adversary, one shift carried over, and eps as long as that of GSAT."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from gsat import _checks, _defaults, attacks
from gsat._arrays.norms import mean_row, rows
from gsat.attacks.sets import inside, unit_rows
from gsat.defences.base import Defence
from gsat.losses import SampleLoss, checked_loss, named_loss
from gsat.models import layout
from gsat.models.modes import frozen, untouched
from gsat.solvers.oracle import Oracle, clamped

SPAN_RANKS = (attacks.PGD, attacks.FGM, attacks.Universal, attacks.GroupSparse, attacks.LowRank)  # not of one's own


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
        self.attack, self.spans_ranks = attack, isinstance(attack, SPAN_RANKS)

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
