"""The commands on a user's own files: .h5ad and .bed as anndata and bed-reader write them, .csv and .npz."""

import json
import re
import shutil
from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from bed_reader import to_bed
from scipy import sparse
from typer.testing import CliRunner

import gsat
from gsat.cli import app

QUICK = ["--n-outer", "40", "--n-inner", "4", "--group-size", "50", "--eta0", "0.01"]
TYPES = np.array(["B cell", "NK/T cell", "monocyte"], dtype=object)
N, D = 150, 18
GENES = [f"gene{j}" for j in range(D)]


def run(*args: object, code: int = 0):
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def words(*args: object) -> str:
    """What the command says when it refuses, on one line."""
    return " ".join(run(*args, code=2).output.split())


def expression(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    kind, donor = rng.integers(0, 3, N), rng.integers(0, 3, N)
    X = rng.normal(0, 1, (N, D)) + 0.5 * donor[:, None]
    X[np.arange(N), 4 * kind] += 3
    return (5 + 2 * X).astype(np.float32), kind, donor


def text(values) -> pd.Categorical:
    values = np.asarray(values, dtype=object)
    return pd.Categorical(values, categories=pd.Index(np.unique(values), dtype=object))


def write_h5ad(path: Path, seed: int, genes: list[str] = GENES) -> None:
    X, kind, donor = expression(seed)
    frame = pd.DataFrame(X, columns=GENES).assign(other=0.0)[genes]
    anndata.AnnData(
        sparse.csr_array(frame.to_numpy(np.float32)),
        obs=pd.DataFrame(
            {"cell_type": text(TYPES[kind]), "donor": text([f"d{d}" for d in donor])},
            index=pd.Index([f"s{seed}_{i}" for i in range(N)], dtype=object),
        ),
        var=pd.DataFrame(index=pd.Index(genes, dtype=object)),
        layers={"log": np.log1p(np.abs(frame.to_numpy(np.float32)))},
    ).write_h5ad(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_h5ad(folder / "cells.h5ad", 0)
    write_h5ad(folder / "new.h5ad", 1)
    X, kind, donor = expression(0)
    frame = pd.DataFrame(X, columns=GENES).assign(cell_type=TYPES[kind], donor=donor)
    frame.to_csv(folder / "cells.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def trained(folder) -> Path:
    args = ["--label", "cell_type", "--batch", "donor", "--defence", "universal"]
    run("train", folder / "cells.h5ad", *args, "--out", folder / "run", *QUICK)
    return folder / "run"


def test_a_run_on_a_file(folder, trained):
    assert {path.name for path in trained.iterdir()} >= {"config.json", "log.jsonl", "checkpoint", "model"}
    config = json.loads((trained / "config.json").read_text())
    assert (config["label"], config["batch"], config["standardize"]) == ("cell_type", "donor", True)
    classifier = gsat.load(trained / "model")
    assert classifier.classes_.tolist() == sorted(TYPES)
    assert classifier.feature_names_in_.tolist() == GENES
    table = gsat.data.load(folder / "cells.h5ad", label="cell_type", batch="donor")
    donors, sizes = np.unique(table.batch, return_counts=True)
    rows = table.subset(table.batch != donors[sizes.argmax()])  # the largest donor is held out
    same = gsat.GSATClassifier(
        "universal", alpha=0.2, n_outer=40, n_inner=4, group_size=50, eta0=0.01, module="elu"
    ).fit_run(pd.DataFrame(rows.X, columns=GENES), rows.y, batch=rows.batch, seed=0)
    for name, value in same.module_.state_dict().items():  # standardised, and with one shift for each donor
        assert torch.equal(value, classifier.module_.state_dict()[name])
    assert np.allclose(classifier.mean_, rows.X.mean(0), rtol=1e-5)


def test_a_stopped_run_goes_on_and_ends_with_the_same_bits(folder, trained, tmp_path):
    stopped = tmp_path / "run"
    shutil.copytree(trained, stopped)
    shutil.rmtree(stopped / "model")
    shutil.rmtree(max((stopped / "checkpoint").iterdir()))  # what is left is from before the first step
    for command in (["predict", stopped, folder / "new.h5ad", "--out", tmp_path / "p.csv"], ["attack", stopped]):
        assert "has no model yet: its training was stopped; --resume goes on" in words(*command)
    args = ["--label", "cell_type", "--batch", "donor", "--defence", "universal", "--out", stopped, *QUICK]
    run("train", folder / "cells.h5ad", *args, "--resume")
    for file in ("log.jsonl", "model/weights.safetensors", "model/model.json"):
        assert (stopped / file).read_bytes() == (trained / file).read_bytes()
    assert "label was 'cell_type', is 'donor'" in words(
        "train", folder / "cells.h5ad", "--label", "donor", *args[2:], "--resume"
    )


def test_predictions_do_not_depend_on_the_order_of_the_genes(folder, trained, tmp_path):
    run("predict", trained, folder / "new.h5ad", "--out", tmp_path / "a.csv")
    write_h5ad(tmp_path / "turned.h5ad", 1, [*reversed(GENES), "other"])
    said = run("predict", trained, tmp_path / "turned.h5ad", "--out", tmp_path / "b.csv", "--label", "cell_type").output
    assert re.search(r"features +18 of 18 matched by name, 1 extra left out \(other\)", said)
    a, b = (pd.read_csv(tmp_path / f"{name}.csv") for name in "ab")
    assert a.columns.tolist() == ["id", "prediction", "p_B cell", "p_NK/T cell", "p_monocyte"]
    assert a["id"].tolist() == [f"s1_{i}" for i in range(N)]
    pd.testing.assert_frame_equal(a, b.drop(columns="label"))
    table = gsat.data.load(folder / "new.h5ad", label="cell_type")
    classifier = gsat.load(trained)
    assert a["prediction"].tolist() == classifier.predict(pd.DataFrame(table.X, columns=GENES)).tolist()
    assert float(re.search(r"accuracy +(\S+)", said)[1]) == pytest.approx((a["prediction"] == table.y).mean(), abs=1e-3)


def test_missing_features_are_told_or_filled(trained, tmp_path):
    write_h5ad(tmp_path / "fewer.h5ad", 1, [gene for gene in GENES if gene not in ("gene2", "gene9")])
    args = ["predict", trained, tmp_path / "fewer.h5ad", "--out", tmp_path / "p.csv"]
    assert "must have all 18 features of the model, 2 are missing: gene2, gene9" in words(*args)
    assert not (tmp_path / "p.csv").exists()
    found = json.loads(run(*args, "--missing-features", "mean", "--json").stdout)
    assert (found["missing"], found["extra"], found["samples"]) == (["gene2", "gene9"], [], N)
    classifier = gsat.load(trained)
    X, _, _ = expression(1)
    X[:, [2, 9]] = classifier.mean_[[2, 9]]
    chances = pd.read_csv(tmp_path / "p.csv").filter(like="p_").to_numpy()
    assert chances == pytest.approx(classifier.predict_proba(pd.DataFrame(X, columns=GENES)), abs=1e-5)
    run(*args, "--missing-features", "zero", "--force")
    assert not np.allclose(pd.read_csv(tmp_path / "p.csv").filter(like="p_").to_numpy(), chances)


def test_samples_without_names_are_matched_by_place_with_a_note(trained, tmp_path):
    X, kind, _ = expression(1)
    np.savez(tmp_path / "plain.npz", X=X)
    assert "matched by place" in run("predict", trained, tmp_path / "plain.npz", "--out", tmp_path / "p.csv").output
    assert (pd.read_csv(tmp_path / "p.csv")["prediction"] == TYPES[kind]).mean() > 0.8
    np.savez(tmp_path / "plain.npz", X=X[:, 1:])
    said = words("predict", trained, tmp_path / "plain.npz", "--out", tmp_path / "q.csv")
    assert "must have the 18 features of the model, got 17, and the samples have no feature names" in said
    pd.DataFrame(X, columns=[f"probe{j}" for j in range(D)]).to_csv(tmp_path / "probes.csv", index=False)
    assert "got none of them but probe0" in words(
        "predict", trained, tmp_path / "probes.csv", "--out", tmp_path / "q.csv"
    )
    assert not (tmp_path / "q.csv").exists()


def test_nothing_is_overwritten_unasked(folder, trained, tmp_path):
    (tmp_path / "mine.csv").write_text("mine")
    args = ["predict", trained, folder / "new.h5ad", "--out", tmp_path / "mine.csv"]
    assert "--out must be a new file" in words(*args)
    assert (tmp_path / "mine.csv").read_text() == "mine"
    run(*args, "--force")
    assert (tmp_path / "mine.csv").read_text().startswith("id,prediction")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]
    assert "--out must be a file, got the folder" in words(*args[:-1], tmp_path)


def test_a_layer_is_read_as_in_training(folder, tmp_path):
    args = [
        "--label",
        "cell_type",
        "--layer",
        "log",
        "--defence",
        "erm",
        "--test-fraction",
        "0",
        "--out",
        tmp_path / "r",
    ]
    found = json.loads(run("train", folder / "cells.h5ad", *args, *QUICK, "--json").stdout)
    assert found["test_accuracy"] is None
    assert found["samples"] == "150 to train on, 0 for the test"
    said = run("predict", tmp_path / "r", folder / "new.h5ad", "--out", tmp_path / "p.csv").output
    assert "layer = 'log', as in training" in said
    table = gsat.data.load(folder / "new.h5ad", layer="log")
    wanted = gsat.load(tmp_path / "r").predict(pd.DataFrame(table.X, columns=GENES))
    assert pd.read_csv(tmp_path / "p.csv")["prediction"].tolist() == wanted.tolist()
    assert "trained with --test-fraction 0" in words("attack", tmp_path / "r")


def test_attack_reads_the_same_rows_again(folder, trained, tmp_path):
    copy, data = tmp_path / "run", tmp_path / "cells.h5ad"
    shutil.copytree(trained, copy)
    args = ["attack", copy, "--structure", "low-rank", "--ranks", "2", "--eps", "0.3", "--steps", "6", "--json"]
    found = json.loads(run(*args).stdout)
    donors = gsat.data.load(folder / "cells.h5ad", batch="donor").batch
    assert found[0]["n"] == np.unique(donors, return_counts=True)[1].max()  # the donor that was held out
    assert found[1]["accuracy"] < found[0]["accuracy"]
    shutil.copy(folder / "cells.h5ad", data)
    moved = json.loads(run(*args, "--data", data, "--out", tmp_path / "again.csv").stdout)
    assert [row["accuracy"] for row in moved] == [row["accuracy"] for row in found]
    write_h5ad(data, 5)
    assert "must be what" in words(*args, "--data", data, "--force")
    assert "its content changed since" in words(*args, "--data", data, "--force")


def test_labels_are_coded_by_the_model_where_the_test_rows_lack_a_class(tmp_path):
    X, kind, _ = expression(0)
    kind = np.where((np.arange(N) < 50) & (kind == 0), 1, kind)  # batch a has no B cells ...
    names = np.where((np.arange(N) < 5), "mast cell", TYPES[kind])  # ... and is the only one with mast cells
    batch = np.where(np.arange(N) < 50, "a", "b")
    X[np.arange(N), 4 * kind] += 6
    frame = pd.DataFrame(X, columns=GENES).assign(kind=names, lab=batch)
    frame.to_csv(tmp_path / "x.csv", index=False)
    args = ["--label", "kind", "--batch", "lab", "--test-batch", "a", "--defence", "universal", "--out", tmp_path / "r"]
    found = json.loads(run("train", tmp_path / "x.csv", *args, *QUICK, "--json").stdout)
    assert found["samples"] == "100 to train on, 50 for the test"
    assert found["not_tested"] == "5 samples of classes that are not among the training samples"
    assert found["test_accuracy"] > 0.6
    table = json.loads(run("attack", tmp_path / "r", "--structure", "fgm", "--eps", "0", "--json").stdout)
    assert table[0]["n"] == 45
    assert table[0]["accuracy"] == pytest.approx(found["test_accuracy"])


def test_compare_on_a_file(folder, tmp_path):
    args = ["--label", "cell_type", "--batch", "donor", "--defences", "erm,low-rank", "--attacks", "low-rank:1@0.2"]
    small = ["--seeds", "1", "--steps", "4", "--n-validation", "20", "--out", tmp_path / "c", *QUICK]
    run("compare", folder / "cells.csv", *args, *small)
    config = json.loads((tmp_path / "c" / "config.json").read_text())
    assert (config["plan"]["standardize"], config["plan"]["per_batch"], config["label"]) == (True, True, "cell_type")
    clean = pd.read_csv(tmp_path / "c" / "chosen.csv").query("case == 'none'")
    assert clean["accuracy"].min() > 0.6
    for model in (tmp_path / "c" / "models").iterdir():
        assert gsat.load(model).classes_.tolist() == sorted(TYPES)


def test_select_ranks_and_draws(folder, tmp_path):
    args = ["select", folder / "cells.h5ad", "--label", "cell_type", "-k", "4", "--out", tmp_path / "out" / "genes.csv"]
    run(*args, "--n-resamples", "3", "--n-outer", "20")
    table = pd.read_csv(tmp_path / "out" / "genes.csv")
    assert table.columns.tolist() == ["rank", "name", "score", "selection_frequency", "score_low", "score_high"]
    assert table["rank"].tolist() == [1, 2, 3, 4]
    assert {"gene0", "gene4", "gene8"} <= set(table["name"])
    assert table["selection_frequency"].between(0, 1).all()
    assert (table["score_low"] <= table["score"]).all()
    assert (tmp_path / "out" / "genes.png").read_bytes().startswith(b"\x89PNG")
    assert "--out must be a new file" in words(*args)
    (tmp_path / "out" / "genes.csv").unlink()
    assert "genes.png" in words(*args)  # the picture alone is kept too
    found = json.loads(run(*args, "--force", "--n-resamples", "0", "--n-outer", "20", "--all", "--json").stdout)
    assert len(found) == D
    assert set(found[0]) == {"rank", "name", "score"}


def genotypes(path: Path, seed: int, *, other_allele: bool = False) -> None:
    """Twelve SNPs, of which rs3 and rs7 differ between the continents; the .bim file says what is counted."""
    rng = np.random.default_rng(seed)
    where = rng.integers(0, 2, 120)
    share = np.full((120, 12), 0.4)
    share[:, [3, 7]] = np.where(where, 0.95, 0.05)[:, None]
    counts = rng.binomial(2, share).astype(float)
    alleles = (["A"] * 12, ["G"] * 12)
    ids = [f"p{i}" for i in range(120)]
    to_bed(
        path,
        2 - counts if other_allele else counts,
        properties={
            "iid": ids,
            "sid": [f"rs{j}" for j in range(12)],
            "allele_1": alleles[other_allele],
            "allele_2": alleles[not other_allele],
        },
    )
    table = pd.DataFrame({"IID": ids, "continent": np.array(["Asia", "Europe"])[where]})
    table.to_csv(path.with_suffix(".tsv"), sep="\t", index=False)


@pytest.mark.parametrize("coding", [[], ["--one-hot"]])
def test_snps_are_matched_with_the_allele_they_count(coding, tmp_path):
    genotypes(tmp_path / "a.bed", 0)
    args = ["--pheno", tmp_path / "a.tsv", "--label", "continent", *coding]
    run("train", tmp_path / "a.bed", *args, "--defence", "group-sparse", "--out", tmp_path / "r", *QUICK)
    classifier = gsat.load(tmp_path / "r")
    assert classifier.feature_names_in_[0] == ("rs0_A=0" if coding else "rs0_A")
    assert classifier.feature_groups == ([j // 3 for j in range(36)] if coding else None)
    for name, turned in (("same", False), ("turned", True)):
        genotypes(tmp_path / f"{name}.bed", 1, other_allele=turned)
        said = run(
            "predict", tmp_path / "r", tmp_path / f"{name}.bed", "--out", tmp_path / f"{name}.csv",
            "--pheno", tmp_path / f"{name}.tsv", "--label", "continent",
        ).output  # fmt: skip
        assert float(re.search(r"accuracy +(\S+)", said)[1]) > 0.9
        assert ("12 SNPs count the other allele" in said) == turned
        assert ("one_hot = True, as in training" in said) == bool(coding)
    assert (tmp_path / "same.csv").read_bytes() == (tmp_path / "turned.csv").read_bytes()
    labels = (tmp_path / "a.tsv").read_text()
    (tmp_path / "a.tsv").write_text(labels.replace("Asia", "Africa", 1))
    assert "its labels or split changed since; train again" in words("attack", tmp_path / "r")
    bim = (tmp_path / "same.bim").read_text()
    (tmp_path / "same.bim").write_text(bim.replace("\tA\tG", "\tT\tC", 1))
    said = words("predict", tmp_path / "r", tmp_path / "same.bed", "--out", tmp_path / "other.csv")
    assert re.search(r"[13] are missing: rs0_A", said)


def test_select_counts_snps(tmp_path):
    genotypes(tmp_path / "a.bed", 0)
    run(
        "select", tmp_path / "a.bed", "--pheno", tmp_path / "a.tsv", "--label", "continent", "--one-hot", "-k", "2",
        "--n-resamples", "2", "--n-outer", "20", "--out", tmp_path / "f.csv",
    )  # fmt: skip
    assert set(pd.read_csv(tmp_path / "f.csv")["name"]) == {"rs3", "rs7"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", "cells.h5ad"], r"--label must name the column or key of .*cells.h5ad that is to be predicted"),
        (["train", "cells.h5ad", "--label", "kind"], r"must have the key of .obs that label='kind' names, it has"),
        (["train", "cells.h5ad", "--label", "cell_type", "--layer", "raw"], r"layer='raw'"),
        (["train", "cells.h5ad", "--label", "cell_type", "--one-hot"], r"one_hot must not be given for"),
        (["train", "cells.h5ad", "--label", "cell_type", "--test-batch", "d9"], r"--test-batch needs --batch"),
        (["train", "cells.h5ad", "--label", "cell_type", "--batch", "donor", "--test-batch", "d9"], r"one of 'd0', "),
        (["train", "cells.h5ad", "--label", "cell_type", "--test-fraction", "1"], r"test_fraction must leave"),
        (["train", "cells.csv", "--label", "gene1"], r"column 'cell_type' must be a number, got"),
        (["train", "cells.xls", "--label", "x"], r"must end in one of .h5ad, .zarr, .bed"),
        (["train", "absent.h5ad", "--label", "x"], r"absent.h5ad is missing"),
        (["predict", "nowhere", "new.h5ad"], r"nowhere must be a folder with model.json"),
        (["predict", "run", "absent.csv"], r"absent.csv is missing"),
        (["predict", "run", "new.h5ad", "--missing-features", "guess"], r"'guess' is not one of"),
        (["select", "cells.h5ad", "--label", "cell_type", "-k", "0"], r"k must be a whole number >= 1, got 0"),
        (["select", "cells.h5ad", "--label", "cell_type", "--out", "genes.txt"], r"--out must end in .csv or .tsv"),
        (["attack", "run", "--structure", "hammer"], r"attack must be one of universal, .*got 'hammer'"),
    ],
)
def test_what_is_wrong_is_named(args, message, folder, trained, tmp_path, monkeypatch):
    for name in ("cells.h5ad", "new.h5ad", "cells.csv"):
        (tmp_path / name).symlink_to(folder / name)
    (tmp_path / "run").symlink_to(trained)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert re.search(message, words(*args))
    assert sorted(tmp_path.iterdir()) == before


def test_numbers_are_not_classes(tmp_path):
    X, _, _ = expression(0)
    pd.DataFrame(X, columns=GENES).to_csv(tmp_path / "x.csv", index=False)
    said = words("train", tmp_path / "x.csv", "--label", "gene1", "--out", tmp_path / "r")
    assert re.search(r"--label must name classes, got numbers such as \S+ in 'gene1'", said)


@pytest.fixture(scope="module")
def centred(folder) -> Path:
    args = ["--label", "cell_type", "--batch", "donor", "--prepare", "centre"]
    run("train", folder / "cells.csv", *args, "--out", folder / "centred", *QUICK)
    return folder / "centred"


def test_a_centred_run_predicts_by_the_batches_of_training(folder, centred, tmp_path):
    assert json.loads((centred / "config.json").read_text())["prepare"] == "centre"
    classifier = gsat.load(centred)
    X, kind, donor = expression(1)
    frame = pd.DataFrame(X, columns=GENES)
    frame.assign(donor=donor).to_csv(tmp_path / "new.csv", index=False)
    frame.to_csv(tmp_path / "bare.csv", index=False)
    frame.assign(donor=donor, site=kind).to_csv(tmp_path / "sites.csv", index=False)
    expected = {
        ("new.csv",): (donor, "batch = 'donor', as in training"),
        ("bare.csv",): (None, "bare.csv are taken as one batch; --batch would name their batches"),
        ("sites.csv", "--batch", "site"): (kind, ""),
    }
    for (name, *options), (batch, told) in expected.items():
        said = run("predict", centred, tmp_path / name, *options, "--out", tmp_path / "p.csv", "--force").output
        assert told in " ".join(said.split())
        found = pd.read_csv(tmp_path / "p.csv")[[f"p_{name}" for name in classifier.classes_]].to_numpy()
        np.testing.assert_allclose(found, classifier.predict_proba(frame, batch), atol=1e-5)


def test_a_batch_is_attacked_as_all_its_test_samples_centre_it(folder, centred):
    table = gsat.data.load(folder / "cells.csv", label="cell_type", batch="donor")
    test = table.subset(table.batch == np.bincount(table.batch).argmax())
    classifier = gsat.load(centred)
    chances = classifier.predict_proba(pd.DataFrame(test.X, columns=GENES), test.batch)
    loss = -np.log(chances[np.arange(len(test)), np.searchsorted(classifier.classes_, test.y)])
    args = ["--structure", "fgm", "--eps", "0", "--n", "9", "--out", folder / "attacked.csv", "--json"]
    table = json.loads(run("attack", centred, *args).stdout)
    assert table[0]["n"] == 9
    assert table[0]["loss"] == pytest.approx(loss[:9].mean(), rel=1e-4)


def test_batches_as_in_training_are_found_in_h5ad_files_too(folder, centred, tmp_path):
    said = run("predict", centred, folder / "new.h5ad", "--out", tmp_path / "p.csv").output
    assert "batch = 'donor', as in training" in said
    shutil.copy(folder / "new.h5ad", tmp_path / "bare.h5ad")
    with h5py.File(tmp_path / "bare.h5ad", "a") as file:
        del file["obs/donor"]
        file["obs"].attrs["column-order"] = ["cell_type"]
    said = run("predict", centred, tmp_path / "bare.h5ad", "--out", tmp_path / "q.csv").output
    assert "are taken as one batch" in said
    assert not pd.read_csv(tmp_path / "p.csv").equals(pd.read_csv(tmp_path / "q.csv"))


def test_a_single_sample_of_a_batch_is_refused_by_a_centred_model(centred, tmp_path):
    X, _, donor = expression(1)
    frame = pd.DataFrame(X, columns=GENES).assign(donor=np.where(np.arange(N) == 7, 9, donor))
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert "got 1 of batch 9; a model with prepare" in words(
        "predict", centred, tmp_path / "new.csv", "--out", tmp_path / "p.csv"
    )


def test_test_samples_alone_in_their_batch_are_counted_apart(folder, tmp_path):
    frame = pd.read_csv(folder / "cells.csv")
    rows = gsat.data.load(folder / "cells.csv", label="cell_type", batch="donor").split_at_random(0.25, seed=0)
    first = int(np.flatnonzero(rows.split == "test")[0])
    others = np.flatnonzero(rows.split == "train")[:2]
    frame.loc[[first, *others], "donor"] = 7
    frame.to_csv(tmp_path / "cells.csv", index=False)
    args = ["--label", "cell_type", "--batch", "donor", "--prepare", "centre", "--test-fraction", "0.25", "--json"]
    said = json.loads(run("train", tmp_path / "cells.csv", *args, "--out", tmp_path / "run", *QUICK).stdout)
    assert said["not_tested"] == "1 samples alone in their batch, which cannot be centred"
    assert 0 < said["test_accuracy"] <= 1


def test_a_set_that_has_batches_is_centred_by_them(tmp_path, data_dir):
    args = ["--prepare", "centre", "--n-outer", "5", "--n-inner", "1", "--data-dir", data_dir, "--json"]
    said = json.loads(run("train", "bbbc021-moa", *args, "--out", tmp_path / "run").stdout)
    assert said["samples"] == "509 to train on, 123 for the test"
    classifier = gsat.load(tmp_path / "run")
    test = gsat.data.load("bbbc021-moa", data_dir=data_dir).test
    frame = pd.DataFrame(test.X, columns=list(test.feature_names))
    assert said["test_accuracy"] == np.mean(classifier.predict(frame, test.batch) == test.y)
