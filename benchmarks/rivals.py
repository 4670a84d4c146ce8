"""One iteration of PGD training as users of other libraries write it; both come with benchmarks/requirements.txt.

`missing` names the libraries that are not installed, with the command that installs them.
"""

import contextlib
import io
import math
from importlib.util import find_spec

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from problems import N_INNER, Problem
from timing import Job

MODULES = {"torchattacks": "torchattacks", "ART": "art"}
INSTALL = "make .venv/bench.stamp"


def missing() -> list[str]:
    """The libraries without which a row stays empty."""
    return [name for name, module in MODULES.items() if find_spec(module) is None]


def jobs(problem: Problem) -> dict[str, Job]:
    """The jobs of the libraries that are installed, on samples in [0, 1]."""
    makers = {"torchattacks": torchattacks_loop, "ART": art_trainer}
    return {name: makers[name](problem) for name in MODULES if name not in missing()}


def torchattacks_loop(problem: Problem) -> Job:
    """PGD-L2 of torchattacks with the steps of ours, and a step of Adam."""
    import torchattacks

    model, groups = problem.fresh(), problem.groups()
    optimizer = torch.optim.Adam(model.parameters(), lr=problem.eta0)
    step = 2 * problem.eps / N_INNER
    attack = torchattacks.PGDL2(model, eps=problem.eps, alpha=step, steps=N_INNER, random_start=False)

    def job() -> None:
        x, y = groups.next()
        moved = attack(x, y)
        optimizer.zero_grad()
        cross_entropy(model(moved), y).backward()
        optimizer.step()

    return job


def art_trainer(problem: Problem) -> Job:
    """The Madry trainer of the Adversarial Robustness Toolbox, which has the maximum norm and a random start."""
    from art.defences.trainer import AdversarialTrainerMadryPGD
    from art.estimators.classification import PyTorchClassifier

    model, groups = problem.fresh(), problem.groups()
    classifier = PyTorchClassifier(
        model,
        loss=nn.CrossEntropyLoss(),
        optimizer=torch.optim.Adam(model.parameters(), lr=problem.eta0),
        input_shape=tuple(problem.X.shape[1:]),
        nb_classes=int(problem.y.max()) + 1,
        clip_values=(0.0, 1.0),
        device_type="cpu",
    )
    eps = problem.eps / math.sqrt(problem.X[0].numel())
    trainer = AdversarialTrainerMadryPGD(
        classifier, nb_epochs=1, batch_size=problem.m, eps=eps, eps_step=2 * eps / N_INNER, max_iter=N_INNER
    )

    def job() -> None:
        x, y = groups.next()
        with contextlib.redirect_stderr(io.StringIO()):  # progress bars
            trainer.fit(x.numpy(), y.numpy())

    return job
