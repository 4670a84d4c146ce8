"""partial_fit: a few more groups for a network that has begun to learn."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Generator, nn
from torch.optim import Optimizer

from gsat import _defaults
from gsat._arrays.standardise import Standardised
from gsat.defences import Defence
from gsat.estimators.samples import Samples
from gsat.estimators.weighted import View
from gsat.losses import SampleLoss
from gsat.training.budget import Control, control_for
from gsat.training.history import History
from gsat.training.interrupt import training_mode
from gsat.training.loop import iterate
from gsat.training.state import Run, adam

FOREVER = 2**31  # steps: nobody knows how many calls will come


@dataclass
class Progress:
    """What one call leaves for the next: Adam with its moments, what the defence carries over, λ, and the draws."""

    module: nn.Module
    optimizer: Optimizer
    defence: Defence
    control: Control
    generator: Generator


def partial_fit(estimator: Any, samples: Samples, n_outputs: int, loss: SampleLoss) -> None:
    """One pass over the samples with the estimator's network, a new one in the first call.

    Parameters
    ----------
    estimator
        Of `gsat.estimators`, fitted or not.
    samples
        What is trained on.
    n_outputs, loss
        Of the network.
    """
    if estimator.prepare == "centre":
        raise ValueError(
            'prepare must be "none" or "zscore" for partial_fit, got "centre": the mean of a batch is that of all its '
            "samples, of which a call has a part"
        )
    samples = samples.prepared(estimator.prepare, estimator.normalise)
    positions = estimator._positions(samples, samples.used)
    first = not hasattr(estimator, "module_")
    seed = estimator._seed()
    if first:
        rows, module = estimator._ready(samples, positions, n_outputs, seed, None)
        estimator.history_ = History()
    else:
        rows, module = Standardised(samples.X, estimator.mean_, estimator.scale_, estimator.in_shape), estimator.module_
        rows.mean_norm = estimator.mean_norm_
    X = View(rows, positions)
    progress = None if first else getattr(estimator, "_progress", None)
    if progress is None or progress.module is not module:
        progress = _begin(estimator, module, X, loss, seed)
        progress.control.lam = progress.control.lam if first else estimator.lam_
    before = 0 if first else estimator.n_iter_
    n_steps = math.ceil(positions.size / estimator.group_size)
    run = Run(
        module,
        X,
        View(samples.targets, positions),
        progress.defence,
        n_outer=before + n_steps,
        group_size=min(estimator.group_size, positions.size),
        optimizer=progress.optimizer,
        batch=samples.batches(positions),
        loss=loss,
        generator=progress.generator,
        control=progress.control,
        t=before,
        history=estimator.history_,
    )
    with training_mode(module):
        while not run.over:
            run.history.steps.append(iterate(run))
            for listener in estimator.callbacks or ():
                listener(run.latest, module)
    estimator._progress = progress
    run.finish()
    estimator._finish(module, run.t)


def _begin(estimator: Any, module: nn.Module, X: View, loss: SampleLoss, seed: int) -> Progress:
    """The start of the first call, or of the first after `fit` or `gsat.load`."""
    defence = estimator._defence(estimator.mean_norm_, loss, seed)
    rule = {"lam": _defaults.LAM, "budget": _defaults.BUDGET, **estimator._rule()}
    control = control_for(defence, X, rule["lam"], rule["budget"], FOREVER)
    return Progress(module, adam(module, estimator.eta0), defence, control, Generator().manual_seed(seed))
