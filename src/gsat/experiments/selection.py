"""Features ranked by the adversary, by the LASSO and by gradients, and the paper's test of a ranking: retraining.

A method gives a score to each block of columns (a block is a column where nothing belongs together); more is better.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from torch import Generator

from gsat import _defaults, models
from gsat._arrays.standardise import Standardised, mean_and_scale
from gsat._files import replace_files
from gsat.data import Table
from gsat.defences import ERM
from gsat.estimators.baselines import ERMClassifier
from gsat.estimators.gsat import GSATClassifier
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
        return by_block(selector.scores_, blocks, np.maximum)


@dataclass(frozen=True)
class Once:
    """The paper's selection: one network is trained against the group-sparse adversary, the columns of Δ are sorted.

    Δ is that of n_groups random groups of training samples for the trained network, in units of a column's deviation.
    Blocks that the adversary moves in no group have no score. options: of `GSATClassifier`.
    """

    n_groups: int = 20
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, X: NDArray[Any], y: NDArray[Any], blocks: NDArray[np.int64], seed: int) -> Scores:
        """√(Σ_i Σ_{j in block} Δ_ij²)."""
        own = {"n_outer": 300, "hidden": 100, **self.options}
        net = GSATClassifier("group-sparse", feature_groups=blocks.tolist(), random_state=seed, **own).fit(X, y)
        rng = np.random.default_rng(seed)
        square = np.zeros(X.shape[1])
        for _ in range(self.n_groups):
            rows = np.sort(rng.choice(len(X), min(net.group_size, len(X)), replace=False))
            square += np.square((net.perturb(X[rows], y[rows]) / net.scale_).astype(np.float64)).sum(0)
        return np.sqrt(by_block(square, blocks, np.add))


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
        Z = self._scaled(X)
        classes = np.unique(y)
        entered = np.zeros(Z.shape[1])
        for label in classes[1:] if len(classes) == 2 else classes:
            entered = np.maximum(entered, self._path(Z, y == label, seed))
        return by_block(entered, blocks, np.maximum)

    def own_number(self, X: NDArray[Any], y: NDArray[Any], blocks: NDArray[np.int64], seed: int) -> int:
        """How many blocks the LASSO keeps at the penalty of its path that predicts best in a cross-validation."""
        Z = self._scaled(X)
        hits = np.zeros(self.n_path)
        for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(Z, y):
            classes, models = self._models(Z[train], y[train], seed)
            for step in range(self.n_path):
                values = np.column_stack([path[step].decision_function(Z[test]) for path in models])
                guess = (values[:, 0] > 0).astype(int) if len(models) == 1 else values.argmax(1)
                hits[step] += np.sum(classes[guess] == y[test])
        _, models = self._models(Z, y, seed)
        kept = np.any([path[int(hits.argmax())].coef_[0] != 0 for path in models], axis=0)
        return len(np.unique(blocks[kept]))

    def _models(self, Z: NDArray[np.float64], y: NDArray[Any], seed: int) -> tuple[NDArray[Any], list[list[Any]]]:
        """The classes, and the path of each of them against the others; of two classes the second has one."""
        classes = np.unique(y)
        told = classes[1:] if len(classes) == 2 else classes
        return classes, [list(self._fitted(Z, y == label, seed)) for label in told]

    def _fitted(self, Z: NDArray[np.float64], y: NDArray[np.bool_], seed: int) -> Iterator[LogisticRegression]:
        """The models of the path, the largest penalty first."""
        least = 1 / np.abs(Z.T @ (y - y.mean())).max()  # the inverse penalty at which the first column enters
        for c in least * np.geomspace(1, self.span, self.n_path + 1)[1:]:
            yield LogisticRegression(
                C=c, solver="liblinear", tol=1e-3, max_iter=300, intercept_scaling=INTERCEPT, random_state=seed, **L1
            ).fit(Z, y)

    def _scaled(self, X: NDArray[Any]) -> NDArray[np.float64]:
        found = Standardised(X, *mean_and_scale(X))[:] if self.standardize else X
        return np.asarray(found, np.float64)

    def _path(self, Z: NDArray[np.float64], y: NDArray[np.bool_], seed: int) -> Scores:
        entered = np.zeros(Z.shape[1])
        for step, model in enumerate(self._fitted(Z, y, seed)):
            size = np.abs(model.coef_[0])
            new = (entered == 0) & (size > 0)
            entered[new] = self.n_path - step + size[new] / (1 + size[new])
        return entered


FOLDS = 3  # of the cross-validation in which the LASSO chooses its penalty
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
        return np.sqrt(by_block(square, blocks, np.add))


OWN_NUMBER = ", its own number"  # of features: what is added to the name of the LASSO


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
            settings: dict[str, Any] = asdict(method) if is_dataclass(method) and not isinstance(method, type) else {}
            methods[name] = {"kind": type(method).__name__, **settings}
        return {**about, "methods": methods}


def select_and_retrain(
    table: Table, protocol: Protocol, *, on_result: Callable[[dict[str, Any]], None] = lambda row: None
) -> pd.DataFrame:
    """The paper's protocol: a row per seed, method and k, with the accuracy on the test side; k = 0 means all blocks.

    The LASSO has a row more, for the number of blocks that it keeps by itself, as in the paper.

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
            cuts = [(name, k) for k in protocol.ks]
            if isinstance(method, Lasso):
                cuts.append((name + OWN_NUMBER, method.own_number(train.X, train.codes, blocks, seed)))
            for label, k in cuts:
                columns = np.flatnonzero(np.isin(blocks, order[:k]))
                record(seed=seed, method=label, k=k, accuracy=retrained_accuracy(train, test, columns, **options))
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


def by_block(values: Scores, blocks: NDArray[np.int64], join: np.ufunc) -> Scores:
    """The sum (np.add) or the largest (np.maximum) of the values of each block's columns."""
    joined = np.full(int(blocks.max()) + 1, 0.0 if join is np.add else -np.inf)
    join.at(joined, blocks, values)
    return joined
