"""`gsat train` and `gsat predict` on files as users have them: counts, metadata, missing labels, other names."""

import json

import anndata
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gsat
from gsat.cli import app

QUICK = ["--n-outer", "40", "--n-inner", "2", "--group-size", "40", "--eta0", "0.01"]
N, D = 120, 24
GENES = [f"ENSG{10_000_000 + j:011d}" for j in range(D)]


def run(*args, code=0):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def said(*args, code=0):
    return " ".join(run(*args, code=code).output.split())


def counts(seed, depth=1.0):
    """Counts of two kinds of cells of unequal depth, with the frame of what is known of them."""
    rng = np.random.default_rng(seed)
    kind, lab = rng.integers(2, size=N), rng.integers(3, size=N)
    rate = rng.uniform(2, 30, D)[None] * np.where(kind, 1, 3)[:, None] ** (np.arange(D) < 6)
    X = rng.poisson(rate * rng.uniform(0.5, 2, N)[:, None] * depth)
    known = pd.DataFrame({"kind": np.array(["T", "B"])[kind], "lab": [f"lab{b}" for b in lab]})
    return X, known.assign(
        age=rng.integers(20, 80, N), sex=rng.choice(["F", "M"], N), cell=[f"s{seed}c{i}" for i in range(N)]
    )


def write(path, X, known):
    pd.concat([pd.DataFrame(X, columns=GENES), known], axis=1).to_csv(path, index=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("input")
    X, known = counts(0)
    write(folder / "counts.csv", X, known)
    new, known_new = counts(1, depth=3.0)
    write(folder / "new.csv", new, known_new)
    write(folder / "log.csv", np.log1p(1e6 * new / new.sum(1, keepdims=True)), known_new)
    return folder


COLUMNS = ["--label", "kind", "--batch", "lab", "--ids", "cell", "--drop", "age,sex"]


@pytest.fixture(scope="module")
def normalised(folder):
    run("train", folder / "counts.csv", *COLUMNS, "--normalise", "log1p-cpm", *QUICK, "--out", folder / "cpm")
    return folder / "cpm"


def test_raw_counts_are_told_and_normalised_by_the_model(folder, normalised, tmp_path):
    text = said("train", folder / "counts.csv", *COLUMNS, *QUICK[:2], "--out", tmp_path / "raw")
    assert "the samples look like raw counts (whole numbers, 0 to" in text
    assert "--normalise log1p-cpm takes it away" in text
    assert "features 24: ENSG00010000000," in text
    out = tmp_path / "p.csv"
    text = said("predict", normalised, folder / "new.csv", "--out", out, "--label", "kind")
    assert "warning" not in text
    assert "ids = 'cell', as in training" in text
    assert "normalised log1p-cpm, by the model, as in training" in text
    found, X = pd.read_csv(out), counts(1, depth=3.0)[0]
    assert found["id"].tolist() == [f"s1c{i}" for i in range(N)]
    classifier = gsat.load(normalised)  # and in Python
    assert found["prediction"].tolist() == classifier.predict(pd.DataFrame(X, columns=GENES)).tolist()
    assert np.mean(found["prediction"] == found["label"]) > 0.75
    text = said("predict", normalised, folder / "log.csv", "--out", tmp_path / "q.csv")
    assert "the new samples look like logarithms" in text
    assert "the model takes raw counts and normalises them itself" in text
    assert "counts >= 0" in said("train", _signed(folder, tmp_path), *COLUMNS, "--normalise", "log1p-cpm",
                                 *QUICK, "--out", tmp_path / "signed", code=2)  # fmt: skip


def _signed(folder, tmp_path):
    frame = pd.read_csv(folder / "counts.csv")
    frame[GENES[0]] -= 100
    frame.to_csv(tmp_path / "signed.csv", index=False)
    return tmp_path / "signed.csv"


def test_logarithms_to_counts_and_depths_are_told(folder, tmp_path):
    run("train", folder / "log.csv", *COLUMNS, *QUICK[:2], "--out", tmp_path / "log")
    text = said("predict", tmp_path / "log", folder / "counts.csv", "--out", tmp_path / "p.csv")
    assert "the new samples look like raw counts" in text
    assert "or train with --normalise log1p-cpm on raw counts" in text
    X, known = counts(2)
    write(tmp_path / "ten.csv", np.log1p(1e4 * X / X.sum(1, keepdims=True)), known)
    text = said("predict", tmp_path / "log", tmp_path / "ten.csv", "--out", tmp_path / "q.csv")
    assert "another normalisation?" in text


def test_metadata_is_no_silent_feature(folder, tmp_path):
    columns = COLUMNS[:-2]
    text = said("train", folder / "counts.csv", *columns, *QUICK, "--out", tmp_path / "run", code=2)
    assert "column 'sex' must be a number, got" in text
    assert "others go with --drop (drop=)" in text
    text = said("train", folder / "counts.csv", *columns, "--drop", "sex", *QUICK[:2], "--out", tmp_path / "run")
    assert "the feature age is unlike the others and trained on with them; --drop age leaves out" in text
    assert gsat.load(tmp_path / "run").feature_names_in_.tolist() == [*GENES, "age"]
    for name, options in (("a", ["--drop", "sex,age"]), ("b", ["--features", "ENSG*"])):
        text = said("train", folder / "counts.csv", *columns, *options, *QUICK[:2], "--out", tmp_path / name)
        assert "unlike the others" not in text
        assert gsat.load(tmp_path / name).feature_names_in_.tolist() == GENES
    text = said("train", folder / "counts.csv", *columns, "--drop", "sexx", "--out", tmp_path / "c", code=2)
    assert "must have the columns that drop='sexx' names" in text
    assert json.loads((tmp_path / "a" / "config.json").read_text())["drop"] == "sex,age"
    run("attack", tmp_path / "a", "--structure", "pgd", "--steps", "1")  # reads the same columns again


@pytest.mark.parametrize("ending", ["csv", "parquet", "h5ad", "npz"])
def test_samples_without_label_or_batch(ending, tmp_path):
    X, known = counts(3)
    known.loc[:9, "kind"] = None
    known.loc[20:22, "lab"] = None
    path = tmp_path / f"x.{ending}"
    frame = pd.concat([pd.DataFrame(X.astype(np.float32), columns=GENES), known[["kind", "lab", "cell"]]], axis=1)
    ids = ["--ids", "cell"]
    if ending == "csv":
        frame.to_csv(path, index=False)
    elif ending == "parquet":
        frame.to_parquet(path, index=False)
    elif ending == "npz":
        text = {name: known[name].fillna("").to_numpy(dtype=str) for name in ("kind", "lab", "cell")}
        np.savez(path, X=X, feature_names=GENES, **text)
    else:
        obs = pd.DataFrame(known[["kind", "lab"]].astype(object).to_numpy(), columns=["kind", "lab"]).astype("category")
        for name in obs:
            obs[name] = obs[name].cat.rename_categories(pd.Index(obs[name].cat.categories, dtype=object))
        obs.index = pd.Index(known["cell"].to_numpy(dtype=object), dtype=object)
        var = pd.DataFrame(index=pd.Index(GENES, dtype=object))
        anndata.AnnData(X.astype(np.float32), obs, var).write_h5ad(path)
        ids = []
    args = ["train", path, "--label", "kind", "--batch", "lab", *ids, *QUICK[:2], "--normalise", "log1p-cpm"]
    text = said(*args, "--out", tmp_path / "r", code=2)
    assert "got none for 10 of 120" in text
    assert "--unlabelled drop leaves them out, predict predicts them" in text
    text = said(*args, "--unlabelled", "drop", "--out", tmp_path / "d")
    assert "13 samples without a label or a batch, left out" in text
    assert not (tmp_path / "d" / "unlabelled.csv").exists()
    text = said(*args, "--unlabelled", "predict", "--out", tmp_path / "p")
    assert "13 samples without a label or a batch, predicted in unlabelled.csv" in text
    found = pd.read_csv(tmp_path / "p" / "unlabelled.csv")
    rows = [*range(10), 20, 21, 22]
    assert found["id"].tolist() == known["cell"].iloc[rows].tolist()
    classifier = gsat.load(tmp_path / "p")
    assert found["prediction"].tolist() == classifier.predict(pd.DataFrame(X[rows], columns=GENES)).tolist()
    data = json.loads((tmp_path / "p" / "metrics.json").read_text())["data"]
    assert data["n_train"] + data["n_test"] == N - 13


def test_samples_that_were_trained_on_are_told(folder, normalised, tmp_path):
    n_train = json.loads((normalised / "metrics.json").read_text())["data"]["n_train"]
    text = said("predict", normalised, folder / "counts.csv", "--out", tmp_path / "p.csv")
    assert f"{n_train} of 120 samples were trained on (the same values)" in text
    frame = pd.read_csv(folder / "counts.csv")
    frame[GENES] += 1
    frame[[*GENES[::-1], "cell"]].to_csv(tmp_path / "other.csv", index=False)
    text = said("predict", normalised, tmp_path / "other.csv", "--out", tmp_path / "q.csv")
    assert f"{n_train} of 120 samples have the id of a training sample, with other values" in text
    frame[GENES] -= 1
    frame[GENES[::-1]].to_csv(tmp_path / "bare.csv", index=False)  # no ids, another order
    text = said("predict", normalised, tmp_path / "bare.csv", "--out", tmp_path / "r.csv")
    assert f"{n_train} of 120 samples were trained on (the same values)" in text


def test_other_names_of_the_same_genes_have_a_hint(folder, normalised, tmp_path):
    frame = pd.read_csv(folder / "new.csv")
    frame.rename(columns={gene: f"{gene.lower()}.7" for gene in GENES}).to_csv(tmp_path / "v.csv", index=False)
    args = ["predict", normalised, tmp_path / "v.csv", "--out", tmp_path / "p.csv"]
    text = said(*args, code=2)
    assert "24 of 24 match without Ensembl versions and without regard to case: --loose-names" in text
    assert "24 of 24 matched by name" in said(*args, "--loose-names")
    run("predict", normalised, folder / "new.csv", "--out", tmp_path / "q.csv")
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "q.csv").read_bytes()
    frame.rename(columns={gene: f"TP{j}" for j, gene in enumerate(GENES)}).to_csv(tmp_path / "s.csv", index=False)
    text = said("predict", normalised, tmp_path / "s.csv", "--out", tmp_path / "r.csv", code=2)
    assert "the model has Ensembl ids and the samples other names, such as symbols" in text


def test_unsure_predictions_are_unassigned(folder, normalised, tmp_path):
    args = ["predict", normalised, folder / "new.csv", "--label", "kind", "--out", tmp_path / "p.csv"]
    text = said(*args, "--unassigned-below", "0.9999")
    found = pd.read_csv(tmp_path / "p.csv")
    sure = found[["p_B", "p_T"]].max(axis=1) >= 0.9999
    assert ((found["prediction"] == "unassigned") == ~sure).all()
    assert (~sure).any()
    np.testing.assert_allclose(found["probability"], found[["p_B", "p_T"]].max(axis=1))
    assert "probabilities are not calibrated" in text
    assert "--unassigned-below must be >= 0 and <= 1, got 2" in said(
        *args, "--force", "--unassigned-below", "2", code=2
    )


def test_an_accuracy_on_new_samples_of_one_class_is_told(normalised, folder, tmp_path):
    frame = pd.read_csv(folder / "new.csv")
    alone = frame[frame["kind"] == "T"]
    alone.to_csv(tmp_path / "t.csv", index=False)
    told = f"all {len(alone)} labelled samples are of one class, T: always saying T would be right on all of them"
    args = ["--label", "kind", "--out", tmp_path / "p.csv", "--force"]
    assert told in said("predict", normalised, tmp_path / "t.csv", *args)
    assert "of one class" not in said("predict", normalised, folder / "new.csv", *args)


def test_raw_of_anndata_is_a_layer(tmp_path):
    X, known = counts(4)
    index = pd.Index(known["cell"].to_numpy(dtype=object), dtype=object)
    kinds = pd.Categorical.from_codes(known["kind"].eq("T").to_numpy(dtype=int), pd.Index(["B", "T"], dtype=object))
    obs, var = pd.DataFrame({"kind": kinds}, index), pd.DataFrame(index=pd.Index(GENES, dtype=object))
    part = anndata.AnnData(np.log1p(X[:, :5]).astype(np.float32), obs, var[:5])
    part.raw = anndata.AnnData(X.astype(np.float32), obs, var)
    part.write_h5ad(tmp_path / "x.h5ad")
    table = gsat.data.load(tmp_path / "x.h5ad", label="kind", layer="raw")
    assert table.feature_names == tuple(GENES)
    np.testing.assert_array_equal(table.X, X)
    assert gsat.data.load(tmp_path / "x.h5ad").feature_names == tuple(GENES[:5])
