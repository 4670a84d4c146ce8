"""A table of bad calls of the library, and of predict, attack and report: each ends with its message, at once."""

import json
import os
import re
import shutil
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import tally
import torch
from scipy import sparse
from typer.testing import CliRunner

import gsat
from gsat.cli import app
from gsat.report import build

pytestmark = pytest.mark.campaign

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5)).astype(np.float32)
Y = np.where(X[:, 0] > 0, "b", "a")
CODES = torch.as_tensor(X[:, 0] > 0).long()
T = torch.as_tensor(X)
BATCH = np.repeat([0, 1], 20)
NAN = np.where(np.arange(5) == 3, np.nan, X).astype(np.float32)
QUICK = {"n_outer": 3, "hidden": 4, "random_state": 0}
CELLS = anndata.AnnData(
    X, obs=pd.DataFrame({"kind": Y, "batch": BATCH.astype(str)}, index=[f"c{i}" for i in range(40)])
)
NET = gsat.models.build("elu", (5,), 2, hidden=4).eval()
FITTED = gsat.ERMClassifier(**QUICK).fit(X, Y)
COST = gsat.LowRank(0.3)
A = gsat.attacks


def fit(X=X, y=Y, batch=None, **params):
    return gsat.GSATClassifier(**{"n_inner": 2, **QUICK, **params}).fit(X, y, batch=batch)


def certify(model=NET, X=T, y=CODES, radii=0.1, cost=COST, **options):
    return gsat.certify(model, X, y, radii, cost, **{"group_size": 4, "n_groups": 3, "n_inner": 3, **options})


def broken(value):
    """A network with a weight of this value."""
    net = gsat.models.build("elu", (5,), 2, hidden=4)
    with torch.no_grad():
        net[1].weight[0, 0] = value
    return net


def predicted_by(value):
    clf = gsat.ERMClassifier(**QUICK).fit(X, Y)
    clf.module_ = broken(value)
    return clf.predict(X)


CALLS = {
    # AnnData where a matrix is wanted
    "fit AnnData": (lambda: fit(CELLS), r"X must be an array.* got an AnnData object; take gsat.tl.fit"),
    "predict AnnData": (lambda: FITTED.predict(CELLS), r"got an AnnData object; take gsat.tl.predict"),
    "predict_proba AnnData": (lambda: FITTED.predict_proba(CELLS), r"got an AnnData object; take gsat.tl.predict"),
    "perturb AnnData": (lambda: FITTED.perturb(CELLS, Y), r"got an AnnData object"),
    "regressor AnnData": (lambda: gsat.GSATRegressor(**QUICK).fit(CELLS, X[:, 0]), r"got an AnnData object"),
    "diagnose AnnData": (lambda: gsat.diagnose(CELLS, BATCH), r"object; take gsat.diagnose\(adata.X, adata.obs"),
    "diagnose of AnnData alone": (lambda: gsat.diagnose(CELLS, "batch"), r"got an AnnData object"),
    "select AnnData": (lambda: gsat.GroupSparseSelector(2).fit(CELLS, Y), r"AnnData object; take .*fit\(adata.X"),
    "basis AnnData": (lambda: gsat.LowRankBasis(2).fit(CELLS, Y), r"got an AnnData object"),
    "evaluate AnnData": (lambda: gsat.evaluate(FITTED, CELLS, Y, []), r"got an AnnData object"),
    "certify AnnData": (lambda: certify(X=CELLS), r"got an AnnData object"),
    "tl.fit of a matrix": (lambda: gsat.tl.fit(X, "kind"), r"adata must be an AnnData object, got ndarray"),
    "tl.predict of a matrix": (lambda: gsat.tl.predict(X, FITTED), r"adata must be an AnnData object, got ndarray"),
    "tl.fit no such key": (lambda: gsat.tl.fit(CELLS, "nothing"), r"labels_key must be a column of .obs"),
    "tl.fit no such batch": (lambda: gsat.tl.fit(CELLS, "kind", "lab"), r"batch_key must be a column of .obs"),
    "tl.fit no such layer": (lambda: gsat.tl.fit(CELLS, "kind", layer="raw"), r"layer must be one of none, got 'raw'"),
    # numbers that are none
    "fit NaN": (lambda: fit(NAN), r"Input X contains NaN"),
    "fit huge": (lambda: fit(X.astype(float) * 1e300), r"X must be within ±3.4e\+38, .*got "),
    "fit huge sparse": (lambda: fit(sparse.csr_matrix(X.astype(float) * 1e300)), r"X must be within ±3.4e\+38"),
    "fit huge unscaled": (lambda: fit(X.astype(float) * 1e300, standardize=False), r"X must be within ±3.4e\+38"),
    "predict huge": (lambda: FITTED.predict(X.astype(float) * 1e300), r"X must be within ±3.4e\+38"),
    "proba huge": (lambda: FITTED.predict_proba(X.astype(float) * -1e300), r"X must be within ±3.4e\+38"),
    "perturb huge": (lambda: fit().perturb(X.astype(float) * 1e300, Y), r"X must be within ±3.4e\+38"),
    "select huge": (lambda: gsat.GroupSparseSelector(2).fit(X.astype(float) * 1e300, Y), r"X must be within ±3.4e\+38"),
    "basis huge": (lambda: gsat.LowRankBasis(2).fit(X.astype(float) * 1e300, Y), r"X must be within ±3.4e\+38"),
    "diagnose huge": (lambda: gsat.diagnose(X.astype(float) * 1e300, BATCH), r"X must be within ±3.4e\+38"),
    "predict with NaN weights": (lambda: predicted_by(np.nan), r"the outputs of the module must be finite, got"),
    "predict with infinite weights": (lambda: predicted_by(np.inf), r"the outputs of the module must be finite, got"),
    "load infinite number": (lambda: gsat.load("nowhere\0"), r"model"),
    # attacks
    "PGD NaN": (lambda: A.PGD(1.0)(NET, torch.as_tensor(NAN), CODES), r"x must be finite, got"),
    "FGM NaN": (lambda: A.FGM(1.0)(NET, torch.as_tensor(NAN), CODES), r"x must be finite, got"),
    "LowRank NaN": (lambda: A.LowRank(1.0, rank=1).perturb(NET, torch.as_tensor(NAN), CODES), r"x must be finite, got"),
    "Universal inf": (lambda: A.Universal(1.0).perturb(NET, T / 0, CODES), r"x must be finite, got"),
    "GroupSparse NaN, fit": (lambda: A.GroupSparse(1.0, k=1).fit(NET, T * np.nan, CODES), r"x must be finite, got"),
    "apply NaN": (lambda: A.Universal(1.0).fit(NET, T, CODES).apply(NET, T * np.nan, CODES), r"x must be finite"),
    "attack NaN weights": (lambda: A.PGD(1.0).perturb(broken(np.nan), T, CODES), r"outputs .*finite"),
    "eps huge, low-rank": (lambda: A.LowRank(1e300, rank=2)(NET, T, CODES), r"eps must be <= "),
    "eps huge, universal": (lambda: A.Universal(1e300)(NET, T, CODES), r"eps must be <= "),
    "eps large, low-rank": (lambda: A.LowRank(1e30, rank=2)(NET, T, CODES), r"eps must be <= "),
    "eps negative": (lambda: A.PGD(-1.0), r"eps must be >= 0, got -1.0"),
    "eps NaN": (lambda: A.PGD(float("nan")), r"eps must be >= 0 and finite, got nan"),
    "eps text": (lambda: A.PGD("1"), r"eps must be a number, got '1'"),
    "eps of 400 digits": (lambda: A.PGD(10**400), r"eps must be"),
    "rank negative": (lambda: A.LowRank(1.0, rank=-1), r"rank must be >= 0, got -1"),
    "columns negative": (lambda: A.GroupSparse(1.0, k=-1), r"k must be >= 0, got -1"),
    "steps 0": (lambda: A.PGD(1.0, steps=0), r"steps must be >= 1, got 0"),
    "labels missing": (lambda: A.PGD(1.0)(NET, T, CODES[:3]), r"y must have one label per sample \(40\)"),
    "labels beyond the classes": (lambda: A.PGD(1.0)(NET, T, CODES + 7), r"y must be .*2 classes.*got 8"),
    "labels below the classes": (lambda: A.LowRank(1.0, rank=1).perturb(NET, T, CODES - 1), r"y must be .*got -1"),
    "an array for a tensor": (lambda: A.PGD(1.0)(NET, X, CODES), r"x must be a torch tensor, got ndarray"),
    "no model": (lambda: A.PGD(1.0)(None, T, CODES), r"model must be a torch module, got None"),
    # the adversary
    "Adversary(None)": (lambda: gsat.Adversary(None, lam=1.0), r"cost must be an instance.* got None"),
    "Adversary of a class": (lambda: gsat.Adversary(gsat.LowRank, lam=1.0), r"cost must be an instance"),
    "adversary NaN": (lambda: gsat.Adversary(COST, lam=1.0)(NET, T * np.nan, CODES), r"loss or gradient is not finite"),
    "adversary, no model": (lambda: gsat.Adversary(COST, lam=1.0)(None, T, CODES), r"model must be a torch module"),
    "lam 0": (lambda: gsat.Adversary(COST, lam=0), r"lam must be > 0, got 0"),
    "n_inner 0": (lambda: gsat.Adversary(COST, lam=1.0, n_inner=0), r"n_inner must be >= 1, got 0"),
    "solver": (lambda: gsat.Adversary(COST, lam=1.0, solver="magic"), r"solver must be one of .* got 'magic'"),
    # selectors
    "k 0": (lambda: gsat.GroupSparseSelector(0).fit(X, Y), r"k must be a whole number >= 1, got 0"),
    "k None": (lambda: gsat.GroupSparseSelector(None).fit(X, Y), r"k must be a whole number >= 1, got None"),
    "k True": (lambda: gsat.GroupSparseSelector(True).fit(X, Y), r"k must be a whole number >= 1, got True"),
    "n_groups 0": (lambda: gsat.GroupSparseSelector(2, n_groups=0).fit(X, Y), r"n_groups must be >= 1, got 0"),
    "n_resamples -1": (lambda: gsat.GroupSparseSelector(2, n_resamples=-1).fit(X, Y), r"n_resamples must be >= 0"),
    "selector n_outer 0": (lambda: gsat.GroupSparseSelector(2, n_outer=0).fit(X, Y), r"n_outer must be >= 1, got 0"),
    "selector hidden 0": (lambda: gsat.GroupSparseSelector(2, hidden=0).fit(X, Y), r"hidden must be >= 1, got 0"),
    "selector eta0": (lambda: gsat.GroupSparseSelector(2, eta0=-1).fit(X, Y), r"eta0 must be > 0, got -1"),
    "selector budget": (lambda: gsat.GroupSparseSelector(2, budget=-1).fit(X, Y), r"budget must be > 0, got -1"),
    "basis n_groups 0": (lambda: gsat.LowRankBasis(2, n_groups=0).fit(X, Y), r"n_groups must be >= 1, got 0"),
    "n_components 0": (lambda: gsat.LowRankBasis(0).fit(X, Y), r"n_components must be a whole number >= 1, got 0"),
    # estimators
    "hidden -1": (lambda: fit(hidden=-1), r"hidden must be >= 0, got -1"),
    "hidden text": (lambda: fit(hidden="many"), r"hidden must be a whole number, got 'many'"),
    "group_size 0": (lambda: fit(group_size=0), r"group_size must be >= 1, got 0"),
    "n_outer 0": (lambda: fit(n_outer=0), r"n_outer must be >= 1, got 0"),
    "in_shape": (lambda: fit(in_shape=(2, 2)), r"in_shape must have as many entries as there are features \(5\)"),
    "in_shape 5": (lambda: fit(in_shape=5), r"in_shape must be a list of whole numbers, got 5"),
    "module of no module": (lambda: fit(module="elu2"), r"model must be one of elu, alexnet"),
    "module_options": (lambda: fit(module_options=3), r"module_options must be a dict, got 3"),
    "unknown option": (lambda: fit(module_options={"depth": 2}), r"depth"),
    "structure": (lambda: fit(structure="random"), r"structure must be one of .* got 'random'"),
    "one class": (lambda: fit(y=np.zeros(40)), r"at least two classes"),
    "batch too short": (lambda: fit(structure="universal", batch=[0, 1]), r"batch must have one id per sample"),
    "labels unknown": (lambda: FITTED.certificate(X, np.full(40, "z"), 0.1), r"y must hold only labels of fit"),
    "wrong features": (lambda: FITTED.predict(X[:, :3]), r"X has 3 features, but ERMClassifier is expecting 5"),
    "save over a file": (lambda: FITTED.save(Path(__file__)), r"to a new folder or over another model"),
    # certificates, diagnosis, evaluation
    "n_groups 0, certificate": (lambda: certify(n_groups=0), r"n_groups must be >= 2, got 0"),
    "radii negative": (lambda: certify(radii=-1), r"radii must be >= 0, got -1"),
    "radii NaN": (lambda: certify(radii=[0.1, np.nan]), r"radii must be .*finite, got nan"),
    "level": (lambda: certify(level=1), r"level must be > 0 and < 1, got 1"),
    "certify NaN": (lambda: certify(X=T * np.nan), r"finite"),
    "certify NaN weights": (lambda: certify(model=broken(np.nan)), r"finite"),
    "diagnose one batch": (lambda: gsat.diagnose(X, np.zeros(40)), r"batch must name at least two batches"),
    "diagnose NaN batch": (lambda: gsat.diagnose(X, np.full(40, np.nan)), r"batch must have an entry for every sample"),
    "diagnose n_splits": (lambda: gsat.diagnose(X, BATCH, n_splits=0), r"n_splits must be >= 2, got 0"),
    "diagnose n_permutations": (lambda: gsat.diagnose(X, BATCH, n_permutations=-1), r"n_permutations must be >= 199"),
    "diagnose random_state": (lambda: gsat.diagnose(X, BATCH, random_state=-1), r"random_state must be >= 0, got -1"),
    "evaluate attacks": (lambda: gsat.evaluate(FITTED, X, Y, ["pgd"]), r"attacks must be of gsat.attacks, got 'pgd'"),
    "evaluate nothing": (lambda: gsat.evaluate(FITTED, X, Y, None), r"attacks must be of gsat.attacks, got None"),
    "evaluate no model": (lambda: gsat.evaluate(None, X, Y, []), r"model must be a torch module or a fitted"),
    "evaluate group_size": (lambda: gsat.evaluate(FITTED, X, Y, [], group_size=0), r"group_size must be >= 1, got 0"),
    "evaluate NaN": (lambda: gsat.evaluate(NET, T * np.nan, CODES, [A.PGD(1.0)]), r"x must be finite|not finite on x"),
    "evaluate random_state": (lambda: gsat.evaluate(FITTED, X, Y, [], random_state="x"), r"random_state must be a"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_bad_call_ends_with_its_message(name):
    call, message = CALLS[name]
    try:
        with pytest.raises((ValueError, TypeError, OSError, FloatingPointError), match=message):
            call()
    except BaseException:
        tally.count("bad inputs: calls of the library", 1, 0, 1)
        raise
    tally.count("bad inputs: calls of the library", 1, 1, 0)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A run with a table, folders of results, and links that lead nowhere."""
    home = tmp_path_factory.mktemp("home")
    frame = pd.DataFrame(X, columns=list("abcde")).assign(kind=Y)
    frame.to_csv(home / "table.csv", index=False)
    frame.assign(a=frame["a"].astype(float) * 1e300).to_csv(home / "huge.csv", index=False)
    frame.assign(kind="x").to_csv(home / "one-class.csv", index=False)
    frame.head(0).to_csv(home / "header.csv", index=False)
    (home / "taken" / "universal").mkdir(parents=True)
    (home / "taken" / "universal" / "thesis.tex").write_text("mine")
    (home / "link.csv").symlink_to("table.csv")
    quick = ("--n-outer", "3", "--n-inner", "2", "--out", home / "run")
    assert _run("train", home / "table.csv", "--label", "kind", *quick)[0] == 0
    (home / "loop").symlink_to(home / "loop")
    FITTED.save(home / "model")
    gsat.GSATRegressor(n_inner=2, **QUICK).fit(X, X[:, 0]).save(home / "regressor")
    for name, file, text in (
        ("nested", "config.json", "[" * 100_000),
        ("list", "config.json", "[1]"),
        ("nested-run", "config.json", '{"data": ' + "[" * 50_000),
        ("foreign", "config.json", '{"data": "digits"}'),
        ("partial", "config.json", '{"rows_checksum": 3}'),
    ):
        shutil.copytree(home / "run", home / name)
        (home / name / file).write_text(text)
        (home / name / "results.csv").write_text("attack,accuracy,strength,eps\nnone,0.5,0,0\n")
    for name, place in (("pipe", "results.csv"), ("pipe-beside", "more.csv"), ("pipe-run", "config.json")):
        shutil.copytree(home / "run", home / name)
        (home / name / place).unlink(missing_ok=True)
        os.mkfifo(home / name / place)
    rows = "attack,strength,eps,accuracy,defence\nnone,0,0,{0},erm\npgd,1,0.1,{0},erm\n"
    tables = {
        "infinite": ("results.csv", rows.format("inf")),
        "minus": ("results.csv", rows.format("-inf")),
        "differences": ("differences.csv", "this,that\n1,2\n"),
        "text-differences": ("differences.csv", "ours,baseline,difference\ngsat,pgd,many\n"),
        "no-accuracy": ("results.csv", "attack,strength\nnone,0\n"),
        "empty": ("results.csv", ""),
        "binary": ("results.csv", "a,b\n\xff\xfe,1\n"),
        "deep": ("perturbations.json", "[" * 100_000),
        "wrong": ("perturbations.json", '{"perturbations": 3}'),
        "log": ("log.jsonl", '{"t": 1}\n' + "[" * 100_000 + '\n{"t": 2}\n'),
        "timing": ("timing.csv", "a\n1\n"),
        "infinite-strength": ("results.csv", "attack,strength,eps,accuracy\nnone,0,0,1\npgd,inf,inf,0.5\n"),
    }
    for name, (file, text) in tables.items():
        (home / name).mkdir(exist_ok=True)
        (home / name / "results.csv").write_text(rows.format("0.5"))
        (home / name / file).write_text(text, encoding="latin-1")
    return home


def _run(*args):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    return result.exit_code, result.output, result.exception


TRAIN = ("train", "table.csv", "--label", "kind", "--out", "new")
COMPARE = ("compare", "table.csv", "--label", "kind", "--n-outer", "2", "--seeds", "1", "--out", "new")
COMMANDS = {
    "predict nowhere": (("predict", "nowhere", "table.csv"), "nowhere must be a folder with model.json"),
    "predict loop": (("predict", "loop", "table.csv"), "loop"),
    "predict no user": (("predict", "~nosuchuser/x", "table.csv"), "~nosuchuser"),
    "predict file": (("predict", "table.csv", "table.csv"), "must be a folder with model.json"),
    "predict no data": (("predict", "model", "gone.csv"), "gone.csv"),
    "predict regressor": (("predict", "regressor", "table.csv", "--label", "kind"), "must hold a classifier"),
    "predict huge": (("predict", "model", "huge.csv", "--label", "kind"), "must hold finite float32 numbers"),
    "predict over": (("predict", "model", "table.csv", "--out", "huge.csv"), "--out must be a new file"),
    "predict to a folder": (("predict", "model", "table.csv", "--out", "run"), "--out must be a file"),
    "predict to a loop": (("predict", "model", "table.csv", "--label", "kind", "--out", "loop/x.csv"), "loop"),
    "predict nested": (("predict", "nested", "table.csv", "--label", "kind"), "config.json must be JSON.*nested"),
    "predict list": (("predict", "list", "table.csv", "--label", "kind"), "must be a run of"),
    "attack nowhere": (("attack", "nowhere"), "nowhere must be a folder with model.json"),
    "attack loop": (("attack", "loop"), "loop"),
    "attack no user": (("attack", "~nosuchuser/run"), "~nosuchuser"),
    "attack a model": (("attack", "model"), "config.json"),
    "attack structure": (("attack", "run", "--structure", "magic"), "attack must be one of"),
    "attack ranks": (("attack", "run", "--ranks", "a,b"), "--ranks must be numbers"),
    "attack negative": (("attack", "run", "--ranks", "-1"), "rank must be >= 0, got -1|attack must read"),
    "attack eps": (("attack", "run", "--eps", "x"), "--eps must be numbers"),
    "attack huge eps": (("attack", "run", "--eps", "1e300"), "eps must be <= "),
    "attack infinite eps": (("attack", "run", "--eps", "inf"), "eps must be .*finite, got inf"),
    "attack nan eps": (("attack", "run", "--eps", "nan"), "eps must be .*finite, got nan"),
    "attack large eps": (("attack", "run", "--eps", "1e30", "--ranks", "2"), "eps must be <= "),
    "attack steps": (("attack", "run", "--steps", "0"), "steps must be >= 1, got 0"),
    "attack n": (("attack", "run", "--n", "0"), "--n must be >= 1, got 0"),
    "attack group": (("attack", "run", "--group-size", "0"), "group_size must be >= 1, got 0|--group-size must be"),
    "attack seed": (("attack", "run", "--seed", "-1"), "--seed must be >= 0"),
    "attack nested": (("attack", "nested-run"), "config.json must be JSON.*nested"),
    "attack foreign": (("attack", "foreign"), "must be a run of `gsat train`"),
    "attack partial": (("attack", "partial"), "config.json .*data"),
    "attack data moved": (("attack", "run", "--data", "gone.csv"), "gone.csv"),
    "report nowhere": (("report", "nowhere"), "needs a folder of results, got .*nowhere, which is not there"),
    "report loop": (("report", "loop"), "needs a folder of results, got .*loop"),
    "report no user": (("report", "~nosuchuser"), "needs a folder of results"),
    "report file": (("report", "table.csv"), "needs a folder of results"),
    "report over": (("report", "run", "--out", "table.csv"), "--out must be a new file or a report of gsat"),
    "report infinite": (("report", "infinite"), r"infinite/results.csv: .*accuracy.* must be finite, got inf"),
    "report minus": (("report", "minus"), r"minus/results.csv: .*accuracy.* must be finite, got -inf"),
    "report infinite x": (("report", "infinite-strength"), r"results.csv: .* must be finite, got inf"),
    "report nested": (("report", "nested"), "config.json must be JSON.*nested"),
    "report list": (("report", "list"), "config.json must be a JSON object, got list"),
    "report differences": (("report", "differences"), "differences.csv must have the columns ours, base"),
    "report text": (("report", "text-differences"), "differences.csv.* difference must be numbers, got 'many'"),
    "report no accuracy": (("report", "no-accuracy"), "results.csv: the column 'accuracy' is missing"),
    "report empty": (("report", "empty"), "results.csv must be a table with a header, got an empty file"),
    "report binary": (("report", "binary"), "results.csv must be a CSV table in UTF-8"),
    "report deep": (("report", "deep"), "perturbations.json must be JSON.*nested"),
    "report wrong": (("report", "wrong"), "perturbations.json must be"),
    "report log": (("report", "log"), "log.jsonl, line 2 must be a JSON object"),
    "report timing": (("report", "timing"), "timing.csv must have the column 'seconds'"),
    "report pipe": (("report", "pipe"), "pipe/results.csv is no file|needs a folder with one of"),
    "report pipe beside": (("report", "pipe-beside"), "pipe-beside/more.csv is no file"),
    "predict over the data": (
        ("predict", "model", "table.csv", "--label", "kind", "--out", "table.csv", "--force"),
        "--out must be another file than the data",
    ),
    "predict over a link to the data": (
        ("predict", "model", "table.csv", "--label", "kind", "--out", "link.csv", "--force"),
        "--out must be another file than the data",
    ),
    "select over the data": (
        ("select", "table.csv", "--label", "kind", "--out", "table.csv", "--force"),
        "--out must be another file than the data",
    ),
    "predict config is a pipe": (("predict", "pipe-run", "table.csv", "--label", "kind"), "config.json is no file"),
    "train resume a pipe": ((*TRAIN[:-1], "pipe-run", "--resume"), "--resume needs a run in --out"),
    "report to a folder": (("report", "run", "--out", "model"), "--out must be a file, got the folder"),
    "train defence": (("train", "table.csv", "--label", "kind", "--defence", "magic"), "--defence must be one of"),
    "train lam": (("train", "table.csv", "--label", "kind", "--lam", "much"), "--lam must be a number"),
    "train lam 0": ((*TRAIN, "--lam", "0"), "lam must be > 0, got 0"),
    "train lam nan": ((*TRAIN, "--lam", "nan"), "lam must be .*got nan"),
    "train n_outer": ((*TRAIN, "--n-outer", "0"), "n_outer must be >= 1, got 0"),
    "train huge whole number": ((*TRAIN, "--n-outer", "9" * 40), "n_outer must be <= 999999999"),
    "train group": ((*TRAIN, "--group-size", "0"), "group_size must be >= 1, got 0"),
    "train k": ((*TRAIN, "--k", "-3"), "k must be"),
    "train alpha": ((*TRAIN, "--alpha", "2"), "alpha must be .*got 2"),
    "train budget": ((*TRAIN, "--budget", "-1"), "budget must be > 0, got -1"),
    "train eps": ((*TRAIN, "--defence", "pgd", "--eps", "-1"), "eps must be .*got -1"),
    "train solver": ((*TRAIN, "--solver", "magic"), "solver must be one of .*got 'magic'"),
    "train schedule": ((*TRAIN, "--schedule", "magic"), "schedule must be"),
    "train ema": ((*TRAIN, "--ema", "7"), "ema must be .*got 7"),
    "train threads": ((*TRAIN, "--threads", "0"), "--threads must be >= 1, got 0"),
    "train seed": ((*TRAIN, "--seed", "-1"), "--seed must be >= 0 and < 4294967296, got -1"),
    "train huge seed": ((*TRAIN, "--seed", "9" * 30), "--seed must be >= 0 and < 4294967296, got 9+"),
    "train model": ((*TRAIN, "--model", "resnet"), "model must be one of elu, alexnet"),
    "train module": ((*TRAIN, "--model", "nowhere.at.all:net"), "nowhere"),
    "train width": ((*TRAIN, "--model", "alexnet", "--width", "-1"), "in_shape must be .channels, height, width."),
    "train fraction": ((*TRAIN, "--test-fraction", "1.5"), "test_fraction must leave .*got 1.5"),
    "train no such batch": ((*TRAIN, "--batch", "lab"), "must have the column that batch='lab' names"),
    "train left-out batch": ((*TRAIN, "--batch", "kind2", "--test-batch", "z"), "kind2"),
    "train memory": ((*TRAIN, "--max-memory", "many"), "max.memory must be"),
    "train over a file": (("train", "table.csv", "--label", "kind", "--out", "table.csv"), "--out must be a folder"),
    "train over others": (
        ("train", "table.csv", "--label", "kind", "--out", "."),
        "--out must be a new folder or a run",
    ),
    "train over a run": (("train", "table.csv", "--label", "kind", "--out", "run"), "--force to overwrite it"),
    "train loop": (("train", "table.csv", "--label", "kind", "--out", "loop/x"), "loop"),
    "train resume nothing": ((*TRAIN, "--resume"), "--resume needs a run in --out"),
    "train resume others": (
        ("train", "table.csv", "--label", "kind", "--out", "run", "--resume", "--seed", "5"),
        "--resume needs the options of the run: .*seed was 0, is 5",
    ),
    "train resume nested": (("train", "table.csv", "--label", "kind", "--out", "nested", "--resume"), "--resume needs"),
    "train one class": (("train", "one-class.csv", "--label", "kind", "--out", "new"), "at least two classes|classes"),
    "train rows 0": (("train", "header.csv", "--label", "kind", "--out", "new"), "must hold at least one sample"),
    "train huge numbers": (("train", "huge.csv", "--label", "kind", "--out", "new"), "must hold finite float32"),
    "train no label": (("train", "table.csv", "--out", "new"), "--label must"),
    "train no such set": (("train", "nosuchset", "--out", "new"), "nosuchset"),
    "select k": (("select", "table.csv", "--label", "kind", "-k", "0", "--out", "new.csv"), "k must be"),
    "select ending": (
        ("select", "table.csv", "--label", "kind", "--out", "new.xlsx"),
        "--out must end in .csv or .tsv",
    ),
    "select over": (("select", "table.csv", "--label", "kind", "--out", "huge.csv"), "--out must be a new file"),
    "select resamples": (
        ("select", "table.csv", "--label", "kind", "-k", "2", "--n-resamples", "-1", "--out", "new.csv"),
        "n_resamples must be >= 0",
    ),
    "select one class": (("select", "one-class.csv", "--label", "kind", "--out", "new.csv"), "class"),
    "diagnose no batch": (("diagnose", "table.csv", "--label", "kind"), "--batch must name the column"),
    "diagnose one batch": (("diagnose", "one-class.csv", "--batch", "kind"), "batch must name at least two batches"),
    "diagnose to a file": (
        ("diagnose", "table.csv", "--batch", "kind", "--out", "table.csv"),
        "--out must be a folder",
    ),
    "diagnose splits": (
        ("diagnose", "table.csv", "--batch", "kind", "--n-splits", "0"),
        "n_splits must be >= 2, got 0",
    ),
    "diagnose samples": (("diagnose", "table.csv", "--batch", "kind", "--max-samples", "0"), "max_samples must be"),
    "diagnose rank": (("diagnose", "table.csv", "--batch", "kind", "--max-rank", "-1"), "max_rank must be"),
    "diagnose seed": (("diagnose", "table.csv", "--batch", "kind", "--seed", "-1"), "--seed must be >= 0"),
    "compare defences": ((*COMPARE, "--defences", "erm,magic"), "--defences must be of .*got 'magic'"),
    "compare attacks": ((*COMPARE, "--attacks", "magic@0.1"), "attack must be one of"),
    "compare strength": ((*COMPARE, "--attacks", "pgd@lots"), "an attack must read"),
    "compare negative": ((*COMPARE, "--attacks", "low-rank:-1@0.1"), "rank must be >= 0"),
    "compare seeds": ((*COMPARE, "--seeds", "0"), "--seeds must be >= 1, got 0"),
    "compare jobs": ((*COMPARE, "--jobs", "0"), "--jobs must be >= 1, got 0"),
    "compare rule": ((*COMPARE, "--rule", "magic"), "--rule must be matched or tuned"),
    "compare grid": ((*COMPARE, "--grid", "a"), "--grid must be numbers"),
    "compare over a file": (
        ("compare", "table.csv", "--label", "kind", "--out", "table.csv"),
        "--out must be a folder",
    ),
    "compare fraction": ((*COMPARE, "--test-fraction", "0"), "--test-fraction must leave samples to attack"),
    "demo over others": (("demo", "--out", "."), "--out must be a new folder or a run of gsat"),
    "demo over a file": (("demo", "--out", "table.csv"), "--out must be a folder"),
    "demo threads": (("demo", "--threads", "-2", "--out", "new"), "--threads must be >= 1, got -2"),
    "demo steps": (("demo", "--n-outer", "0", "--out", "new"), "n_outer must be >= 1, got 0"),
    "reproduce name": (("reproduce", "magic", "--out", "new"), "NAME must be one of .* got 'magic'"),
    "reproduce scale": (("reproduce", "universal", "--scale", "huge", "--out", "new"), "--scale must be one of"),
    "reproduce seeds": (("reproduce", "universal", "--seeds", "0", "--out", "new"), "--seeds must be >= 1, got 0"),
    "reproduce jobs": (("reproduce", "universal", "--jobs", "0", "--out", "new"), "--jobs must be >= 1, got 0"),
    "reproduce to a file": (("reproduce", "universal", "--out", "table.csv"), "--out must be a folder"),
    "reproduce over others": (
        ("reproduce", "universal", "--quick", "--out", "taken"),
        "--out must not hold other results",
    ),
    "reproduce over no results": (
        ("reproduce", "universal", "--quick", "--out", "taken", "--force"),
        "--force replaces results only",
    ),
    "fetch name": (("data", "fetch", "magic"), "name must be one of"),
    "fetch into a file": (("data", "fetch", "mnist", "--data-dir", "table.csv"), "table.csv"),
    "info name": (("data", "info", "magic"), "magic"),
    "info label": (("data", "info", "table.csv", "--label", "no\nsuch"), "must have the column that label='no"),
    "info no user": (("data", "info", "table.csv", "--data-dir", "~nosuchuser/x", "--label", "nope"), "nope"),
    "list no user": (("data", "list", "--data-dir", "~nosuchuser/x"), "~nosuchuser/x must start with the home folder"),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_bad_command_ends_with_one_line(name, home, monkeypatch):
    monkeypatch.chdir(home)
    args, message = COMMANDS[name]
    code, output, error = _run(*args)
    made = [path for path in (home / "report.html", *home.glob("new*")) if path.exists()]
    for path in made:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    clean = code == 2 and isinstance(error, SystemExit) and "Traceback" not in output and not made
    right = re.search(message, output) is not None
    tally.count("bad inputs: options and folders of commands", 1, int(clean and right), int(not (clean and right)))
    assert clean, (code, output, error, made)
    assert right, output


def test_the_table_is_as_long_as_promised():
    assert len(CALLS) + len(COMMANDS) >= 120


@pytest.mark.parametrize("n", ["0.2", "many", "inf", "-1", "0"])
def test_a_wrong_number_of_samples_is_left_out_of_a_report(n, tmp_path):
    (tmp_path / "results.csv").write_text(f"attack,strength,eps,accuracy,n\nnone,0,0,0.9,{n}\npgd,1,0.1,0.4,{n}\n")
    assert "standard error up to" not in build(tmp_path)


def test_missing_accuracies_are_left_out_of_a_report(tmp_path):
    rows = "attack,strength,eps,accuracy\nnone,0,0,0.9\npgd,1,0.1,\npgd,2,0.2,0.4\n"
    (tmp_path / "results.csv").write_text(rows)
    (tmp_path / "config.json").write_text(json.dumps({"defence": "erm"}))
    assert "</html>" in build(tmp_path)
