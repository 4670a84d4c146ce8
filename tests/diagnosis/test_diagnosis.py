"""Diagnosis: it names the structure that was put in, measures its size, and refuses what it cannot compare."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from typer.testing import CliRunner

import gsat
from gsat.cli import app
from gsat.data import make_shift
from gsat.diagnosis.cells import LEAST, Design
from gsat.diagnosis.exchange import exchangeability
from gsat.diagnosis.moments import Moments, leading_directions, leading_features, overlap

SEEDS = range(9000, 9020)  # not those that the constants of the method were chosen on
SIZES = (0.3, 0.5, 1.0)  # mean norms of the shift, in mean norms of the clean samples
CASES = [
    ("none", 0.0),
    *((kind, size) for kind in ("universal", "per class", "group-sparse", "low-rank") for size in SIZES),
]


def shifted(kind, strength, seed, **options):
    """X, the batch (1 is the one that moves) and the labels."""
    table = make_shift(shift=kind, strength=strength, seed=seed, **options)
    return table.X.astype(np.float64), (table.batch == "moved").astype(int), table.y


@pytest.mark.parametrize(("kind", "size"), CASES)
def test_the_true_structure_is_named(kind, size):
    found = [gsat.diagnose(*shifted(kind, size, seed)).structure for seed in SEEDS]
    assert sum(name == kind for name in found) >= 19, found


@pytest.mark.parametrize(("kind", "size"), [("universal", 0.4), ("per class", 0.7), ("low-rank", 0.6)])
def test_the_size_of_the_shift(kind, size):
    X, batch, y = shifted(kind, size, 31, n=600)
    found = gsat.diagnose(X, batch, y, standardize=False)
    assert found.structure == kind
    assert found.mean_norm == pytest.approx(gsat.mean_norm(X), rel=1e-5)
    clean = gsat.mean_norm(shifted("none", 0.0, 31, n=600)[0])
    root_mean_square = 1.1 if kind == "low-rank" else 1.0  # of norms that differ, over their mean
    assert found.size == pytest.approx(root_mean_square * size * clean / found.mean_norm, rel=0.1)


def test_the_energy_of_a_universal_shift_is_measured_without_bias():
    rows = []
    for seed in range(12):
        X, batch, y = shifted("none", 0.0, seed, n=120)
        X[batch == 1] += 0.3
        rows.append(gsat.diagnose(X, batch, y, standardize=False).table.set_index("structure").loc["universal"])
    truth = 50 * 0.3**2
    found = pd.DataFrame(rows)
    assert abs(found["energy"].mean() - truth) < 3 * found["energy"].std() / np.sqrt(12)
    assert ((found["low"] <= truth) & (truth <= found["high"])).sum() >= 10


def test_without_a_shift_every_energy_is_around_zero():
    tables = [gsat.diagnose(*shifted("none", 0.0, seed, n=120, d=20), n_splits=6).table for seed in range(100, 125)]
    energies = pd.concat(tables).groupby("structure")["energy"]
    assert set(energies.groups) == {"universal", "per class", "group-sparse", "low-rank", "all"}
    assert (energies.mean().abs() < 3 * energies.std() / 5).all()


def test_the_structure_is_the_simplest_with_80_percent():
    found = gsat.diagnose(*shifted("per class", 0.7, 5))
    shares = found.table.set_index("structure")["share"].drop("all")
    assert shares.index.tolist() == ["universal", "per class", "group-sparse", "low-rank"]
    assert found.structure == shares.index[shares >= 0.8][0]
    assert shares["universal"] == pytest.approx(1 / 3, abs=0.15)  # of three shifts that have nothing in common
    assert found.worth_trying == ("low-rank",)


def test_counts_of_features_and_directions():
    sparse = gsat.diagnose(*shifted("group-sparse", 1.0, 3, d=80, k=4))
    X, batch, _ = shifted("group-sparse", 1.0, 3, d=80, k=4)
    moved = np.argsort(X[batch == 0].var(axis=0) / X[batch == 1].var(axis=0))[:4]
    assert set(sparse.features[:4].tolist()) == set(moved.tolist())
    assert sparse.k in (3, 4)
    assert len(sparse.features) == len(sparse.curves["features"]) == 9
    low_rank = gsat.diagnose(*shifted("low-rank", 1.0, 3, rank=3))
    assert low_rank.rank in (2, 3)
    assert 1.5 < low_rank.effective_rank < 4
    assert gsat.diagnose(*shifted("low-rank", 1.0, 3, rank=3), max_rank=1).structure == "unstructured"


def test_a_universal_shift_of_a_few_features_is_both():
    X, batch, y = shifted("none", 0.0, 8)
    X[batch == 1, 11:14] += [1.5, -1.2, 1.4]
    found = gsat.diagnose(X, batch, y)
    assert (found.structure, found.also, found.k) == ("universal", ("group-sparse",), 3)
    assert set(found.features[:3].tolist()) == {11, 12, 13}


def test_class_proportions_are_not_a_shift_if_the_classes_are_known():
    X, batch, y = shifted("none", 0.0, 2, n=900)
    rng = np.random.default_rng(0)
    kept = rng.random(900) < np.where(batch == 0, np.array([0.9, 0.3, 0.1])[y], np.array([0.1, 0.3, 0.9])[y])
    X, batch, y = X[kept], batch[kept], y[kept]
    assert gsat.diagnose(X, batch, y).structure == "none"
    assert gsat.diagnose(X, batch).structure != "none"
    moved = X + 0.4 * batch[:, None]
    assert gsat.diagnose(moved, batch, y).structure == "universal"


def test_without_labels_batches_are_matched_whole():
    X, batch, _ = shifted("universal", 0.5, 6)
    found = gsat.diagnose(X, batch)
    assert found.structure == "universal"
    assert "per class" not in found.table["structure"].tolist()
    assert found.about["n_classes"] == 1


def test_every_pair_of_batches_is_judged():
    X, _, y = shifted("none", 0.0, 4, n=600)
    batch = np.array(["lab a", "lab b", "lab c"])[np.random.default_rng(0).integers(3, size=600)]
    X[batch == "lab c"] += 0.5 * np.sign(np.arange(50) - 20)
    y = np.where((batch == "lab b") & (y == 2), 3, y)  # a class of its own, and one that is missing
    found = gsat.diagnose(X, batch, y)
    pairs = found.pairs.set_index(["first", "second"])
    assert pairs["structure"].to_dict() == {
        ("lab a", "lab b"): "none", ("lab a", "lab c"): "universal", ("lab b", "lab c"): "universal",
    }  # fmt: skip
    assert pairs["classes"].tolist() == [2, 3, 2]
    assert found.structure == "universal"
    assert "low-rank and universal shifts along the directions in which the batches differ." in found.summary[-1]
    assert found.size < pairs["size"].max()  # a mean over pairs, one of which is not moved


def test_many_batches_and_samples_are_thinned():
    X, _, y = shifted("none", 0.0, 4, n=600, d=20)
    batch = np.random.default_rng(0).integers(8, size=600)
    found = gsat.diagnose(X, batch, y, n_splits=2, max_samples=300)
    assert found.about["n_pairs"] == 28
    assert len(found.pairs) == 20
    assert found.about["n_compared"] <= 300
    lines = str(found).splitlines()
    assert sum(bool(re.match(r" *\d +\d +\d+ ", line)) for line in lines) == 8
    assert sum(bool(re.match("and 12 more: .*nothing beyond chance", line)) for line in lines) == 1
    assert "8 pairs with fewer samples were not compared" in lines


def test_twenty_samples_of_each_batch_are_enough_for_a_large_shift():
    assert gsat.diagnose(*shifted("universal", 1.0, 1, n=40, d=20)).structure == "universal"
    assert gsat.diagnose(*shifted("low-rank", 1.5, 1, n=40, d=20, n_classes=2)).structure == "low-rank"


def test_twenty_thousand_features():
    X, batch, y = shifted("universal", 0.5, 0, n=60, d=20_000)
    found = gsat.diagnose(X.astype(np.float32), batch, y)
    assert found.structure == "universal"
    assert len(found.features) == 141


def test_sparse_counts_with_constant_features_are_what_they_are_dense():
    rng = np.random.default_rng(5)
    counts = rng.poisson(np.exp(rng.normal(-1.5, 1, size=60)), size=(160, 60)).astype(float)
    batch = np.arange(160) % 2
    counts[batch == 1, :6] *= rng.integers(1, 6, size=(80, 6))
    counts[:, 50:] = 0
    dense = gsat.diagnose(counts, batch)
    assert dense.structure == "group-sparse"
    sparse = gsat.diagnose(csr_array(counts), batch)
    assert sparse.to_dict() == dense.to_dict()


def test_units_do_not_matter_and_seeds_do_not_decide():
    X, batch, y = shifted("low-rank", 0.6, 12)
    first = gsat.diagnose(X, batch, y)
    assert gsat.diagnose(X, batch, y).to_dict() == first.to_dict()
    scaled = gsat.diagnose(X * np.geomspace(1e-2, 1e3, 50) - 5, batch, y)
    assert scaled.structure == first.structure
    assert scaled.size == pytest.approx(first.size, rel=1e-2)
    other = gsat.diagnose(X.reshape(-1, 5, 10), batch.astype(str), y.astype(object), random_state=1)
    assert other.size != first.size
    assert other.structure == first.structure
    assert other.size == pytest.approx(first.size, rel=0.1)


def test_the_result_reads_draws_and_keeps(tmp_path):
    found = gsat.diagnose(*shifted("low-rank", 0.7, 9))
    text = str(found)
    assert re.search(
        r"directions: .*; 2 of them hold 80 % .*\. Two batches are 0\.\d+ times as far apart as", found.summary[0]
    )
    assert re.search(
        r"^a few directions \(5; 2 of them hold 80 %\) +\d+ % \(\d+ to \d+\) +0\.\d\d$", text, re.MULTILINE
    )
    found.plot(tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert content["structure"] == "low-rank"
    assert [row["structure"] for row in content["table"]] == found.table["structure"].tolist()
    assert content["table"][-1]["share"] is None
    assert content["summary"] == found.summary
    assert content["table"][0]["what"] == "one shift for all samples"
    nothing = gsat.diagnose(*shifted("none", 0.0, 9))
    assert (nothing.size, nothing.worth_trying, nothing.k) == (0.0, (), None)
    assert "do not differ by more than chance" in str(nothing)
    assert "above 0.5 % none is claimed" in str(nothing)
    assert (
        "Worth trying: robust training against low-rank shifts. " in found.summary[-1]
    )  # of two batches no metric can be judged
    assert "budget" not in text
    assert "Worth trying" not in str(nothing)
    nothing.plot(tmp_path / "none.png")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": np.zeros(40)}, "batch must name at least two batches, got only 0.0"),
        ({"batch": np.arange(39)}, r"batch must have one entry per sample \(40\), got shape \(39,\)"),
        ({"y": np.arange(80).reshape(40, 2)}, r"y must have one entry per sample \(40\), got shape \(40, 2\)"),
        (
            {"batch": np.where(np.arange(40) < 3, np.nan, 1.0)},
            "batch must have an entry for every sample, got 3 missing",
        ),
        ({"batch": np.arange(40)}, "batch must have 4 samples in each of two batches"),
        ({"y": np.arange(40) % 2}, "batch and label must share a class .* confounded; leave out the label"),
        ({"X": np.full((40, 3), np.nan)}, "X contains NaN"),
        ({"X": np.ones((40, 3))}, "X must have a feature that differs"),
        ({"max_rank": 0}, "max_rank must be >= 1, got 0"),
        ({"max_features": 0}, "max_features must be >= 1, got 0"),
        ({"n_splits": 1}, "n_splits must be >= 2, got 1"),
        ({"n_permutations": 50}, "n_permutations must be >= 199, got 50"),
        ({"max_samples": 5}, "max_samples must be >= 8, got 5"),
    ],
)
def test_what_cannot_be_compared_is_refused(change, message):
    given = {"X": np.random.default_rng(0).normal(size=(40, 6)), "batch": np.arange(40) % 2, **change}
    with pytest.raises(ValueError, match=message):
        gsat.diagnose(**given)


def design(batch, y, seed=0, **limits):
    rng = np.random.default_rng(seed)
    return Design.of(np.asarray(batch), np.asarray(y), **{"max_pairs": 9, "max_samples": 999, "rng": rng, **limits})


def test_cells_and_halves():
    batch = np.repeat([0, 1, 2], [13, 9, 7])
    y = np.concatenate([np.repeat([0, 1], [8, 5]), np.repeat([0, 1], [6, 3]), np.repeat([1, 2], [4, 3])])
    made = design(batch, y)
    assert [(pair.first, pair.second, pair.sizes) for pair in made.pairs] == [(0, 1, {0: 6}), (0, 2, {1: 4})]
    assert {cell: made.kept[rows].tolist() for cell, rows in made.rows.items()} == {
        (0, 0): [*range(8)], (0, 1): [*range(8, 13)], (1, 0): [*range(13, 19)], (2, 1): [*range(22, 26)],
    }  # fmt: skip
    first, second = made.halves(np.random.default_rng(1))
    for cell, rows in made.rows.items():
        assert sorted([*first[cell], *second[cell]]) == rows.tolist()
        assert abs(len(first[cell]) - len(second[cell])) <= 1
    alone = made.only(made.pairs[1])
    assert alone.kept[alone.rows[2, 1]].tolist() == [*range(22, 26)]
    thin = design(batch, y, max_samples=18)
    assert {cell: len(rows) for cell, rows in thin.rows.items()} == {(0, 0): LEAST, (0, 1): 4, (1, 0): 4, (2, 1): 4}
    assert len(design(batch, y, max_pairs=1).pairs) == 1


def test_thousands_of_batches_are_neither_paired_one_by_one_nor_listed():
    batch = np.repeat(np.arange(3000), 4)
    batch[:40] = 0  # and the nine batches after it are empty
    made = design(batch, np.zeros(12000, int))
    assert made.n_pairs == 2991 * 2990 // 2
    assert [(pair.first, pair.second, pair.sizes) for pair in made.pairs][:2] == [(0, 10, {0: 4}), (0, 11, {0: 4})]
    with pytest.raises(ValueError, match=r"got 200 batches of 1, 1, 1, 1, 1 \.\.\. samples$"):
        gsat.diagnose(np.random.default_rng(0).normal(size=(200, 3)), np.arange(200))


def test_moments_of_the_shift_have_no_bias():
    rng = np.random.default_rng(7)
    made = design(np.arange(14) % 2, np.zeros(14, int))
    louder = dict.fromkeys(made.pairs, 1)
    shift, scale = np.array([1.0, -0.5, 0.0]), np.array([1.0, 1.0, 2.0])
    sums, traces, squares = np.zeros((3, 3)), [], []
    for _ in range(3000):
        X = rng.normal(size=(14, 3))
        X[1::2] = X[1::2] * scale + shift
        rows, signs = Moments(X, made.rows).excess(made.pairs, louder)
        sums += (rows.T * signs) @ rows / 3000
        traces.append(Moments(X, made.rows).shift_energies(made.pairs[0]))
        halves = made.halves(rng)
        squares.append(overlap(*(Moments(X, half).excess(made.pairs, louder) for half in halves)))
    truth = np.outer(shift, shift) + np.diag(scale**2 - 1)
    np.testing.assert_allclose(sums, truth, atol=0.15)
    assert np.mean(traces, axis=0) == pytest.approx([1.25, 1.25], abs=0.1)
    assert np.mean(squares) == pytest.approx(np.square(truth).sum(), abs=4 * np.std(squares) / np.sqrt(3000))


@pytest.mark.parametrize("p", [12, 300])
def test_leading_features_and_directions_are_those_of_the_second_moment(p):
    rng = np.random.default_rng(p)
    batch, y = np.arange(90) % 3, np.arange(90) // 3 % 2
    made = design(batch, y)
    X = rng.normal(size=(90, p)) * (1 + batch[:, None]) + rng.normal(size=(3, p))[batch]
    moments = Moments(X, made.rows)
    louder = {pair: moments.louder(pair) for pair in made.pairs}
    assert set(louder.values()) == {1}
    rows, signs = moments.excess(made.pairs, louder)
    second = (rows.T * signs) @ rows
    found = leading_features(X, X**2, made.rows, made.pairs, louder, 7)
    assert found.tolist() == np.argsort(-np.diag(second))[:7].tolist()
    directions = leading_directions(rows, signs, 3, rng)
    np.testing.assert_allclose(directions.T @ directions, np.eye(3), atol=1e-6)
    energies = np.einsum("pi,pq,qi->i", directions, second, directions)
    np.testing.assert_allclose(energies, np.linalg.eigvalsh(second)[:-4:-1], rtol=1e-3)


def test_the_level_of_the_test_is_exact_and_it_sees_every_kind():
    chance = []
    for seed in range(200):
        X, batch, y = shifted("none", 0.0, seed, n=40, d=5)
        chance.append(exchangeability(X, design(batch, y), 99, np.random.default_rng(seed)))
    assert 0.02 < np.mean(np.array(chance) <= 0.1) < 0.18
    for kind in ("universal", "per class", "group-sparse", "low-rank", "unstructured"):
        X, batch, y = shifted(kind, 0.6, 1)
        assert exchangeability(X, design(batch, y), 199, np.random.default_rng(1)) == 1 / 200


def run(*args, code=0):
    result = CliRunner().invoke(app, ["diagnose", *map(str, args)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    X, batch, y = shifted("group-sparse", 0.9, 14, n=200, d=30, k=3)
    path = tmp_path_factory.mktemp("data") / "cells.csv"
    frame = pd.DataFrame(X, columns=[f"gene{j}" for j in range(30)])
    frame.assign(lab=np.array(["north", "south"])[batch], kind=y).to_csv(path, index=False)
    return path


def test_the_command_prints_and_writes(csv, tmp_path):
    text = run(csv, "--batch", "lab", "--label", "kind", "--out", tmp_path / "d")
    assert text.startswith("The batches differ in a few features: 3 of 30 hold 80 % of the difference")
    assert f"  gsat check {csv} --label kind --batch lab\n" in text
    assert f"  gsat report {tmp_path / 'd'}\n" in text
    assert re.search(r"^The features that move most: gene\d+, gene\d+, gene\d+$", text, re.MULTILINE)
    assert (tmp_path / "d" / "diagnosis.png").read_bytes().startswith(b"\x89PNG")
    kept = json.loads((tmp_path / "d" / "diagnosis.json").read_text())
    assert kept["structure"] == "group-sparse"
    assert (kept["batch"], kept["label"]) == ("lab", "kind")
    printed = json.loads(run(csv, "--batch", "lab", "--label", "kind", "--json"))
    assert printed == kept


def test_the_command_overwrites_nothing_unasked(csv, tmp_path):
    (tmp_path / "diagnosis.json").write_text("mine")
    args = (csv, "--batch", "lab", "--label", "kind", "--n-splits", 2)
    assert "--force to overwrite" in run(*args, "--out", tmp_path, code=2)
    assert (tmp_path / "diagnosis.json").read_text() == "mine"
    run(*args, "--out", tmp_path, "--force")
    assert json.loads((tmp_path / "diagnosis.json").read_text())["about"]["n_splits"] == 2
    assert "--out must be a folder, got the file" in run(*args, "--out", csv, code=2)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["digits"], "--batch must name the column or key of digits that tells the batches"),
        (["nowhere.csv", "--batch", "lab"], "nowhere.csv"),
        (["CSV", "--batch", "lob"], "lob"),
        (["CSV", "--batch", "lab", "--label", "kind", "--max-rank", "0"], "max_rank must be >= 1, got 0"),
    ],
)
def test_the_command_names_what_is_wrong(args, message, csv):
    assert message in run(*(csv if arg == "CSV" else arg for arg in args), code=2).replace("\n", " ")


def test_the_command_reads_h5ad(tmp_path):
    anndata = pytest.importorskip("anndata")
    X, batch, y = shifted("universal", 0.8, 3, n=120, d=20)
    cells = pd.Index([f"cell{i}" for i in range(120)], dtype=object)
    obs = pd.DataFrame({"batch": pd.Categorical(batch), "cell_type": pd.Categorical(y)}, index=cells)
    genes = pd.DataFrame(index=pd.Index([f"gene{j}" for j in range(20)], dtype=object))
    anndata.AnnData(csr_array(X.astype(np.float32)), obs, genes).write_h5ad(tmp_path / "cells.h5ad")
    text = run(tmp_path / "cells.h5ad", "--batch", "batch", "--label", "cell_type")
    assert text.startswith("The batches differ by one shift: all samples of a batch are moved in the same way")


def test_help_has_an_example():
    assert "Examples: gsat diagnose" in " ".join(run("--help").split())


def test_stem_cells_of_four_studies(data_dir):
    found = json.loads(run("stemcells", "--data-dir", data_dir, "--json"))
    assert found["structure"] == "universal"
    assert len(found["pairs"]) == 6
    assert found["size"] > 1
