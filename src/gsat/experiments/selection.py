"""Features ranked by the adversary, by the LASSO and by gradients, and the paper's test of a ranking: retraining.

A method gives a score to each block of columns (a block is a column where nothing belongs together); more is better.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Generator

from gsat import _defaults, models
from gsat._arrays.standardise import Standardised, mean_and_scale
from gsat._files import replace_files
from gsat.data import Table
from gsat.defences import ERM
from gsat.estimators.baselines import ERMClassifier
from gsat.selectors.selector import GroupSparseSelector
from gsat.training.loop import gdadmm

Scores = NDArray[np.float64]
Method = Callable[[NDArray[Any], NDArray[Any], NDArray[np.int64], int], Scores]  # X, y, blocks, seed


@dataclass(frozen=True)
class Adversary:
    """Effort of the group-sparse adversary: `gsat.GroupSparseSelector`, whose options are given."""

    k: int = 10
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, X: NDArray[Any], y: NDArray[Any], blocks: NDArray[np.int64], seed: int) -> Scores:
        """The share of the effort on each block."""
        selector = GroupSparseSelector(self.k, feature_groups=blocks, random_state=seed, **self.options).fit(X, y)
        return _by_block(selector.scores_, blocks, np.maximum)


@dataclass(frozen=True)
class Lasso:
    """The order in which blocks enter the path of the L1-penalised logistic regression, one class against the others.

    The path has n_path penalties in geometric progression, from the one at which the first column enters to 1/span
    of it. Columns that enter at the same penalty are ordered by the size of their weights.
    """

    n_path: int = 30
    span: float = 30.0
    standardize: bool = True

    def __call__(self, X: NDArray[Any], y: NDArray[Any], blocks: NDArray[np.int64], seed: int) -> Scores:
        """The number of penalties of the path at which a block is in, and the size of its weight as it enters."""
        Z = Standardised(X, *mean_and_scale(X))[:].astype(np.float64) if self.standardize else np.asarray(X, np.float64)
        classes = np.unique(y)
        entered = np.zeros(Z.shape[1])
        for label in classes[1:] if len(classes) == 2 else classes:
            entered = np.maximum(entered, self._path(Z, y == label, seed))
        return _by_block(entered, blocks, np.maximum)

    def _path(self, Z: NDArray[np.float64], y: NDArray[np.bool_], seed: int) -> Scores:
        entered = np.zeros(Z.shape[1])
        least = 1 / np.abs(Z.T @ (y - y.mean())).max()  # the inverse penalty at which the first column enters
        for step, c in enumerate(least * np.geomspace(1, self.span, self.n_path + 1)[1:]):
            model = LogisticRegression(
                C=c, solver="liblinear", tol=1e-3, max_iter=300, intercept_scaling=INTERCEPT, random_state=seed, **L1
            )
            size = np.abs(model.fit(Z, y).coef_[0])
            new = (entered == 0) & (size > 0)
            entered[new] = self.n_path - step + size[new] / (1 + size[new])
        return entered


INTERCEPT = 100.0  # liblinear penalises the intercept too; times 100 it hardly does
# the L1 penalty by the name that the installed scikit-learn has for it
L1 = {"l1_ratio": 1.0} if signature(LogisticRegression).parameters["penalty"].default != "l2" else {"penalty": "l1"}


@dataclass(frozen=True)
class Gradient:
    """The norm over the training samples of the loss gradient by each block, for a network trained as usual.

    The network has one layer of ELU units and sees standardised columns. `eta0` is the learning rate of Adam, or with
    descent=True of gradient descent with momentum, in units of 1/E‖X‖².
    """

    n_outer: int = 100
    eta0: float = 2.0
    descent: bool = True
    group_size: int = 200
    hidden: int = 100
    first_weights: float = 0.1  # the size of the first ones of the first layer, in units of the usual

    def __call__(self, X: NDArray[Any], y: NDArray[Any], blocks: NDArray[np.int64], seed: int) -> Scores:
        """√(Σ_i Σ_{j in block} (∂ℓ_i/∂x_ij)²)."""
        x = torch.from_numpy(Standardised(X, *mean_and_scale(X))[:])
        classes, codes = np.unique(y, return_inverse=True)
        target = torch.from_numpy(codes)
        net = models.build("elu", x.shape[1:], len(classes), seed=seed, hidden=self.hidden)
        with torch.no_grad():
            next(net.parameters()).mul_(self.first_weights)
        rate = self.eta0 / float(x.square().sum(1).mean()) if self.descent else self.eta0
        optimizer: torch.optim.Optimizer = (
            torch.optim.SGD(net.parameters(), rate, momentum=0.9)
            if self.descent
            else torch.optim.Adam(net.parameters(), rate)
        )
        generator = Generator().manual_seed(seed)
        gdadmm(
            net, x, target, ERM(), n_outer=self.n_outer, group_size=self.group_size, optimizer=optimizer,
            generator=generator,
        )  # fmt: skip
        point = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(torch.nn.functional.cross_entropy(net(point), target, reduction="sum"), point)
        square = slope.double().square().sum(0).numpy()
        return np.sqrt(_by_block(square, blocks, np.add))


def retrained_accuracy(
    train: Table,
    test: Table,
    columns: NDArray[np.int64],
    *,
    seed: int,
    n_outer: int = 300,
    eta0: float = _defaults.ETA0,
) -> float:
    """Accuracy on `test` of a network with 100 ELU units that is trained on these columns of `train` alone."""
    net = ERMClassifier(n_outer=n_outer, eta0=eta0, hidden=100, random_state=seed).fit(train.X[:, columns], train.y)
    return float(net.score(test.X[:, columns], test.y))


@dataclass(frozen=True)
class Protocol:
    """One ranking per method and seed, cut at each k, and a network retrained on what is left.

    Each seed has its own split (a quarter for the test, classes in proportion), network and groups.
    """

    methods: Mapping[str, Method]
    ks: tuple[int, ...] = (5, 10, 20, 50, 100)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    test_fraction: float = 0.25
    n_outer: int = 300
    eta0: float = _defaults.ETA0

    def describe(self) -> dict[str, Any]:
        """The protocol as JSON."""
        about = {name: getattr(self, name) for name in ("ks", "seeds", "test_fraction", "n_outer", "eta0")}
        methods: dict[str, Any] = {}
        for name, method in self.methods.items():
            options = asdict(method) if isinstance(method, Adversary | Lasso | Gradient) else {}
            methods[name] = {"kind": type(method).__name__, **options}
        return {**about, "methods": methods}


def select_and_retrain(
    table: Table, protocol: Protocol, *, on_result: Callable[[dict[str, Any]], None] = lambda row: None
) -> pd.DataFrame:
    """The paper's protocol: a row per seed, method and k, with the accuracy on the test side; k = 0 means all blocks.

    k counts the blocks of `table.feature_groups` (three columns of a SNP are one), or columns where there are none.
    """
    width = table.X.shape[1]
    blocks = np.arange(width) if table.feature_groups is None else np.asarray(table.feature_groups)
    rows: list[dict[str, Any]] = []

    def record(**row: Any) -> None:
        rows.append(row)
        on_result(row)

    for seed in protocol.seeds:
        halves = table.split_at_random(protocol.test_fraction, seed)
        train, test = halves.train, halves.test
        options: dict[str, Any] = {"seed": seed, "n_outer": protocol.n_outer, "eta0": protocol.eta0}
        accuracy = retrained_accuracy(train, test, np.arange(width), **options)
        record(seed=seed, method="all", k=0, accuracy=accuracy)
        for name, method in protocol.methods.items():
            order = np.argsort(-method(train.X, train.codes, blocks, seed), kind="stable")
            for k in protocol.ks:
                columns = np.flatnonzero(np.isin(blocks, order[:k]))
                record(seed=seed, method=name, k=k, accuracy=retrained_accuracy(train, test, columns, **options))
    return pd.DataFrame(rows)


def summary(results: pd.DataFrame, by: Sequence[str] = ("method", "k")) -> pd.DataFrame:
    """Accuracy in percent, mean and standard deviation over the seeds, for each of the `by`."""
    grouped = 100 * results.groupby(list(by), sort=False)["accuracy"].agg(["mean", "std"])
    return grouped.reset_index()


def write(out: Path, results: pd.DataFrame, config: Mapping[str, Any]) -> None:
    """results.csv, summary.csv and config.json in the folder `out`."""
    out.mkdir(parents=True, exist_ok=True)
    by = [name for name in results.columns if name not in ("seed", "accuracy")]
    files = {
        "results.csv": results.to_csv(index=False).encode(),
        "summary.csv": summary(results, by).round(2).to_csv(index=False).encode(),
        "config.json": json.dumps(dict(config), indent=1).encode(),
    }
    replace_files(out, files)


def _by_block(values: Scores, blocks: NDArray[np.int64], join: np.ufunc) -> Scores:
    joined = np.zeros(int(blocks.max()) + 1)
    join.at(joined, blocks, values)
    return joined
