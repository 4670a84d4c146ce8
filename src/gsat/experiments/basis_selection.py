"""Basis selection (appendix A of the paper): what k directions keep of the labels, on planted subspaces and on TCGA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.preprocessing import LabelBinarizer

from gsat._arrays.standardise import Standardised, mean_and_scale
from gsat.data import Table, load
from gsat.estimators.baselines import ERMClassifier
from gsat.experiments.paired import in_words, summed_up, with_wins
from gsat.experiments.pictures import Panel, curves, lines
from gsat.experiments.plan import Experiment, Outcome, Piece, Place
from gsat.experiments.setting import Scale
from gsat.selectors import LowRankBasis

Floats = NDArray[np.float64]
Method = Callable[[Floats, NDArray[Any], int, int], Floats]  # Z (standardised), y, k, seed -> directions (≤ k, d)
GSAT = "GSAT low-rank"
PLANTED = ("linear", "curved")
DATA = (*PLANTED, "tcga")
KS = {"linear": (1, 2, 3, 5, 10), "curved": (1, 2, 3, 5, 10), "tcga": (1, 2, 3, 4, 5, 10)}
N, D, RANK, LOUD = 1000, 60, 3, 5  # samples, features, planted directions, and directions of much variance and no use
SEEDS = {"quick": 1, "cpu": 5, "overnight": 10, "paper": 10}
N_OUTER = {"quick": 5}
USUAL = 500
SECONDS = 30.0


def planted(name: str, seed: int) -> tuple[Table, Floats]:
    """Samples (1000, 60) whose labels depend on three directions, and these (3, 60) for standardised columns.

    Five other directions have nine times the variance. linear: which of four corners of a simplex the coordinates are
    nearest to, in a noise of half their size; curved: whether their sum of squares is above its median.
    """
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(D, D)))[0].T
    latent = rng.normal(size=(N, D)) * np.where(np.arange(D) < LOUD, 3.0, 1.0)
    X = latent @ basis
    Z = (X - X.mean(0)) / X.std(0)
    directions = np.linalg.qr((basis[LOUD : LOUD + RANK] * X.std(0)).T)[0].T
    z = Z @ directions.T
    z = z / z.std(0)
    if name == "curved":
        radius = np.square(z).sum(1)
        y = (radius > np.median(radius)).astype(np.int64)
    else:
        corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], float)
        y = (z @ corners.T + 0.5 * rng.normal(size=(N, 4))).argmax(1)
    return Table(X.astype(np.float32), y, checksum=f"{name} {seed}"), directions


def gsat(n_outer: int) -> Method:
    """The directions of the low-rank adversary."""

    def found(Z: Floats, y: NDArray[Any], k: int, seed: int) -> Floats:
        return np.asarray(LowRankBasis(k, n_outer=n_outer, random_state=seed).fit(Z, y).components_, np.float64)

    return found


def pca(Z: Floats, y: NDArray[Any], k: int, seed: int) -> Floats:
    """The directions of largest variance."""
    return np.asarray(PCA(k, random_state=seed).fit(Z).components_)


def lda(Z: Floats, y: NDArray[Any], k: int, seed: int) -> Floats:
    """Fisher's directions, one less than there are classes."""
    model = LinearDiscriminantAnalysis().fit(Z, y)
    return np.asarray(model.scalings_.T[: min(k, len(np.unique(y)) - 1)])


def pls(Z: Floats, y: NDArray[Any], k: int, seed: int) -> Floats:
    """The directions of partial least squares on the indicators of the classes."""
    return np.asarray(PLSRegression(k, scale=False).fit(Z, LabelBinarizer().fit_transform(y)).x_rotations_.T)


def chance(Z: Floats, y: NDArray[Any], k: int, seed: int) -> Floats:
    """Random directions."""
    return np.random.default_rng(seed).normal(size=(k, Z.shape[1]))


def compared(place: Place, data: str, seed: int, n_outer: int) -> pd.DataFrame:
    """A row for each method and k: what its directions keep of the labels of the test rows.

    kept:     the share of the variance of the classes' indicators that least squares on the coordinates explains
    accuracy: of a network with 100 ELU units on the coordinates
    overlap:  the mean squared cosine between the planted directions and the subspace; none on real data
    """
    if data in PLANTED:
        table, truth = planted(data, seed)
        halves = table.split_at_random(0.4, seed)
    else:
        truth, halves = None, load(data, data_dir=place.data_dir).split_at_random(0.375, seed)
    train, test = halves.train, halves.test
    center, scale = mean_and_scale(train.X)
    Z, other = (Standardised(part.X, center, scale)[:].astype(np.float64) for part in (train, test))
    methods: dict[str, Method] = {GSAT: gsat(n_outer), "PCA": pca, "LDA": lda, "PLS": pls, "random": chance}
    rows = []
    for name, method in methods.items():
        directions = method(Z, train.codes, max(KS[data]), seed)
        for k in KS[data]:
            own = np.linalg.qr(directions[:k].T)[0]
            row = {"method": name, "k": k, "dimensions": own.shape[1], "kept": _kept(Z @ own, other @ own, train, test)}
            row["accuracy"] = _accuracy(Z @ own, other @ own, train, test, n_outer, seed)
            if truth is not None:
                row["overlap"] = float(np.square(truth @ own).sum()) / len(truth)
            rows.append(row)
    return pd.DataFrame(rows).assign(data=data, seed=seed)


def _kept(a: Floats, b: Floats, train: Table, test: Table) -> float:
    """R² on the test rows, over the indicators of all classes together."""
    binary = LabelBinarizer().fit(train.y)
    told, wanted = (binary.transform(part.y).astype(np.float64) for part in (train, test))
    off = wanted - LinearRegression().fit(a, told).predict(b).reshape(wanted.shape)
    return 1 - float(np.square(off).sum() / np.square(wanted - told.mean(0)).sum())


def _accuracy(a: Floats, b: Floats, train: Table, test: Table, n_outer: int, seed: int) -> float:
    net = ERMClassifier(n_outer=n_outer, eta0=5e-3, hidden=100, random_state=seed).fit(a, train.y)
    return float(net.score(b, test.y))


def pieces(scale: Scale, seeds: int | None) -> list[Piece]:
    """One for each data set and seed."""
    n_outer = N_OUTER.get(scale.name, USUAL)
    return [
        Piece(f"basis, {data}, seed {seed}", compared, {"data": data, "seed": seed, "n_outer": n_outer}, effort=SECONDS)
        for data in DATA
        for seed in range(SEEDS[scale.name] if seeds is None else seeds)
    ]


def differences(found: pd.DataFrame) -> pd.DataFrame:
    """GSAT less each other method in points of the variance of the labels and of accuracy, paired over seeds."""
    rows = []
    for (data, k), own in found.groupby(["data", "k"], sort=False):
        for value in ("kept", "accuracy"):
            wide = 100 * own.pivot_table(index="seed", columns="method", values=value, sort=False)
            for name in (name for name in wide if name != GSAT):
                about = {"ours": GSAT, "baseline": name, "data": data, "k": k, "what": value}
                rows.append({**about, **summed_up(wide[GSAT] - wide[name])})
    return with_wins(rows)


def finish(found: pd.DataFrame, scale: Scale) -> Outcome:
    """Means, paired differences and curves over k."""
    gaps = differences(found)
    numbers = [name for name in ("kept", "accuracy", "overlap") if name in found]
    means = (100 * found.groupby(["data", "method", "k"], sort=False)[numbers].mean()).round(2).reset_index()
    panels = [
        Panel(f"{data}: {title}", "directions kept", lines(rows, "k", series="method", y=value))
        for data, rows in found.groupby("data", sort=False)
        for value, title in (("kept", "variance of the labels"), ("accuracy", "accuracy"))
    ]
    return Outcome(
        tables={
            "results": found,
            "means": means,
            "differences": gaps.assign(case=[f"{r.data}, {r.k} directions, {r.what}" for r in gaps.itertuples()]),
        },
        headline="; ".join(_line(means, gaps, str(data)) for data in dict.fromkeys(found["data"])),
        config={
            "protocol": f"Columns standardised with the training rows, 60 % of {N:,} samples x {D} features of the "
            "planted problems and 62.5 % of TCGA; directions are found on these, and what they keep is measured on the "
            "others: the share of the variance of the classes' indicators that least squares on the coordinates "
            "explains, and the accuracy of a network of 100 ELU units. GSAT low-rank is gsat.LowRankBasis with its "
            f"defaults; nothing was chosen. {found['seed'].nunique()} seeds.",
            "notes": [
                "The paper proposes this in appendix A and shows no figure of it.",
                "LDA has one direction less than there are classes, and keeps them all where k is larger.",
            ],
            "report": {
                "x": "k", "x_label": "directions kept", "series": "method", "facets": ["data"],
                "title": "Accuracy on a few directions",
            },
        },
        pictures={"basis.png": curves(panels, columns=2, y_label="percent")},
    )  # fmt: skip


def _line(means: pd.DataFrame, gaps: pd.DataFrame, data: str) -> str:
    """At three directions: the variance of the labels that each method keeps, and GSAT less PCA and LDA."""
    at = means[(means["data"] == data) & (means["k"] == RANK)].set_index("method")["kept"]
    cells = ", ".join(f"{name} {value:.1f}" for name, value in at.items())
    own = gaps[(gaps["data"] == data) & (gaps["k"] == RANK) & (gaps["what"] == "kept")].set_index("baseline")
    less = ", ".join(f"{name} {in_words(own.loc[name])}" for name in ("PCA", "LDA"))
    return f"{data}, {RANK} directions, percent of the labels' variance: {cells}; GSAT less {less}"


EXPERIMENT = Experiment(
    "basis",
    "Basis selection: directions of the low-rank adversary, PCA and LDA",
    "appendix A proposes it; no figure is given",
    pieces,
    finish,
)
