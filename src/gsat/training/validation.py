"""Robust accuracy or loss on samples that are held out, by which a run may stop early."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from gsat import _checks
from gsat._arrays.chunks import take, take_labels
from gsat._arrays.norms import mean, total
from gsat._ranks import ALONE, Ranks, shared
from gsat.attacks import Attack
from gsat.defences import Defence
from gsat.defences.budgets import budget_used, by_class
from gsat.losses import SampleLoss
from gsat.models import layout
from gsat.models.modes import frozen
from gsat.solvers.oracle import clamped
from gsat.training.groups import take_ids


@dataclass(frozen=True)
class Validation:
    """Stop early on robust accuracy or loss; the weights of the best measurement are those the run ends with.

    Parameters
    ----------
    X, y
        The held-out samples (n, *features) and their labels (n,).
    attack
        The attack under which the accuracy is measured; None for the accuracy without one.
    measure
        "accuracy", or "loss": the mean loss under the adversary of training, at the length of its budget.
    batch, weights
        For the loss: one batch id for each sample, and one weight in the mean; None for neither.
    every
        Steps from one measurement to the next.
    patience
        Measurements without a gain after which the run stops.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> table = gsat.data.make_batches(80, 10)
    >>> x, y = torch.as_tensor(table.X).float(), torch.as_tensor(table.codes)
    >>> stop = gsat.Validation(x[60:], y[60:], every=5, patience=2)
    >>> model = gsat.models.ELUNet(10, 3)
    >>> options = {"n_outer": 100, "group_size": 50, "eta0": 0.05}
    >>> history = gsat.gdadmm(model, x[:60], y[:60], gsat.defences.ERM(), validation=stop, **options)
    >>> history.stopped_early, len(history) < 100
    (True, True)
    """

    X: Any
    y: Any
    attack: Attack | None = None
    every: int = 50
    patience: int = 10
    measure: Literal["accuracy", "loss"] = "accuracy"
    batch: Any = None
    weights: Any = None

    def __post_init__(self) -> None:
        _checks.one_of("measure", self.measure, ("accuracy", "loss"))
        _checks.count("every", self.every, least=1)
        _checks.count("patience", self.patience, least=1)
        if len(self.X) == 0 or len(self.y) != len(self.X):
            raise ValueError(f"y must have one label per sample of X ({len(self.X)}, at least 1), got {len(self.y)}")

    def better(self, found: float, best: float | None) -> bool:
        """Whether a measurement is better than the best one before, if there was one."""
        return best is None or (found > best if self.measure == "accuracy" else found < best)

    def accuracy(self, model: nn.Module, like: Tensor, group_size: int, ranks: Ranks = ALONE) -> float:
        """The share of the samples that the model gets right under the attack, group by group.

        Parameters
        ----------
        model
            A classifier; it is used in eval mode and left as it is.
        like
            A tensor with the dtype and the device of the model.
        group_size
            Samples that are attacked together.
        ranks
            Among which the groups are shared out.

        Returns
        -------
        float
            Robust accuracy, from 0 to 1.
        """
        hits = 0
        for begin in range(ranks.rank * group_size, len(self.X), ranks.world * group_size):
            rows = torch.arange(begin, min(begin + group_size, len(self.X)))
            x, y = take(self.X, rows).to(like), take_labels(self.y, rows).to(like.device)
            if self.attack is not None:
                x = clamped(x + self.attack.perturb(model, x, y), _checks.bounds(self.attack.bounds, x))
            with frozen(model), torch.no_grad():
                hits += int((layout.outputs(model, x).argmax(1) == y).sum())
        return ranks.sums(hits)[0] / len(self.X)

    def loss(
        self,
        model: nn.Module,
        defence: Defence,
        loss: SampleLoss,
        like: Tensor,
        group_size: int,
        targets: Sequence[float] = (),
        ranks: Ranks = ALONE,
    ) -> float:
        """The mean loss on the samples, moved by the defence group by group.

        While λ looks for the budget, perturbations are too short or too long, and losses of different steps do not
        compare: with `targets`, Δ is stretched to the budget.

        Parameters
        ----------
        model
            Used in eval mode and left as it is.
        defence
            The adversary, of which a copy is used: its draws and what it carries over stay those of training.
        loss
            (outputs, y) -> (m,).
        like
            A tensor with the dtype and the device of the model.
        group_size
            Samples that are moved together.
        targets
            The wanted mean ‖δ_i‖₂ of each class, whose mean over classes each group then meets; () leaves Δ as it is.
        ranks
            Among which the groups are shared out.

        Returns
        -------
        float
            The robust loss, summed in float64.
        """
        adversary = deepcopy(defence)
        parts, seen = [torch.zeros(0, dtype=torch.float64, device=like.device)], [torch.zeros(0, dtype=torch.long)]
        for begin in range(ranks.rank * group_size, len(self.X), ranks.world * group_size):
            rows = torch.arange(begin, min(begin + group_size, len(self.X)))
            x, y = take(self.X, rows).to(like), take_labels(self.y, rows).to(like.device)
            moved = adversary(model, x, y, take_ids(self.batch, rows))
            if targets and (used := budget_used(*by_class(adversary.norms, y), targets)):
                moved = x + (moved - x) / used
            x = moved
            with frozen(model), torch.no_grad():
                parts.append(loss(layout.outputs(model, x), y).double())
            seen.append(rows)
        losses = torch.cat(parts)
        with shared(ranks):
            if self.weights is None:
                return mean(losses)
            weights = torch.as_tensor(self.weights, dtype=torch.float64)[torch.cat(seen)].to(losses.device)
            return float(total(losses * weights) / total(weights))
