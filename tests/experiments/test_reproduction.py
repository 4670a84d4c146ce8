"""The experiments beside the curves: run whole at the smallest scale, their figures checked on rows made by hand."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
import torch

from gsat.data import Table
from gsat.experiments import (
    algorithm,
    basis_selection,
    clean_accuracy,
    feature_selection,
    group_sizes,
    iteration_time,
    lam_and_alpha,
    lam_and_norm,
    setting,
    transfer,
)
from gsat.experiments.plan import Place
from gsat.experiments.setting import SCALES
from gsat.experiments.timing import Times, alternate
from gsat.report import build
from gsat.training.loop import iterate

QUICK = SCALES["quick"]
ON_MNIST = (lam_and_alpha, lam_and_norm, group_sizes, transfer)
EXPERIMENTS = (*ON_MNIST, clean_accuracy, feature_selection, iteration_time, algorithm, basis_selection)
NAMES = ("lam-alpha", "lam-norm", "group-size", "transfer", "tcga-clean", "selection", "speed", "algorithm", "basis")


def whole(module, place, seeds=1):
    """All pieces of one seed, and the outcome."""
    experiment = module.EXPERIMENT
    found = pd.concat([piece.run(place) for piece in experiment.pieces(QUICK, seeds)], ignore_index=True)
    return found, experiment.finish(found, QUICK)


def put(outcome, folder):
    """The folder as `gsat reproduce` fills it."""
    folder.mkdir()
    for name, table in outcome.tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    for name, picture in outcome.pictures.items():
        assert picture.startswith(b"\x89PNG")
        (folder / name).write_bytes(picture)
    (folder / "config.json").write_text(json.dumps(dict(outcome.config)))


@pytest.fixture
def small(monkeypatch):
    """Small random tables in place of MNIST and the rest, for what needs no real data."""
    rng = np.random.default_rng(2)

    def images(name, **options):
        y = np.arange(160) % 4
        X = rng.random((160, 1, 8, 8), dtype=np.float32) + 0.5 * rng.random((4, 1, 8, 8), dtype=np.float32)[y]
        table = Table(X, y, checksum=name).split_at_random(0.4, 1)
        if name == "hapmap":
            calls = rng.binomial(2, np.where(y[:, None] == np.arange(30) % 4, 0.8, 0.2))
            onehot = (calls[:, :, None] == np.arange(3)).reshape(160, 90).astype(np.float32)
            blocks = tuple(np.repeat(np.arange(30), 3).tolist())
            return Table(onehot, np.array(list("abcd"))[y], feature_groups=blocks, checksum=name)
        return table if name in ("mnist", "cifar10") else Table(X.reshape(160, 64), y, checksum=name)

    setting._rows.cache_clear()
    setting.loaded.cache_clear()
    for module in (setting, basis_selection):
        monkeypatch.setattr(module, "load", images)
    yield
    setting._rows.cache_clear()
    setting.loaded.cache_clear()


@pytest.mark.parametrize("module", EXPERIMENTS, ids=NAMES)
def test_an_experiment_end_to_end_without_data(module, small, tmp_path, monkeypatch):
    place = Place(tmp_path / "work")
    _, outcome = whole(module, place, seeds=2)
    assert {"protocol", "notes"} <= set(outcome.config)
    assert outcome.headline
    put(outcome, tmp_path / "out")
    page = build(tmp_path / "out")
    assert outcome.config["notes"][0][:30] in page
    monkeypatch.setattr(torch.nn.Module, "__call__", None)  # nothing may be computed any more
    assert whole(module, place, seeds=2)[1].headline == outcome.headline


@pytest.mark.parametrize("module", ON_MNIST, ids=NAMES[:4])
def test_an_experiment_on_mnist(module, data_dir, tmp_path):
    found, outcome = whole(module, Place(tmp_path, data_dir))
    assert {"defence", "attack", "seed", "accuracy", "clean"} <= set(found)
    assert found["accuracy"].between(0, 1).all()
    assert set(found["data"]) == {"mnist"}
    assert {"results"} <= set(outcome.tables)


def test_tcga(data_dir, tmp_path):
    found, outcome = whole(clean_accuracy, Place(tmp_path, data_dir))
    assert found.groupby("data")["n_train"].first().tolist() == [209, 376]
    assert (found["accuracy"] > 0.8).all()
    assert set(outcome.tables["differences"]["baseline"]) == {"erm", "pgd", "unstructured"}


def test_hapmap(data_dir, tmp_path):
    found, outcome = whole(feature_selection, Place(tmp_path, data_dir))
    assert set(found["label"]) == {"continent"}
    assert set(found["counted"]) == {"SNPs", "columns"}
    sizes = found[found["counted"] == "SNPs"].groupby("method", sort=False).size()
    assert sizes.tolist() == [1, 2, 2, 2, 1, 2, 2, 2]
    assert sizes.index[1:3].tolist() == ["GroupSparseSelector", "GSAT, trained once"]
    many = found[(found["k"] == 100) & (found["counted"] == "SNPs")]
    assert (many["accuracy"] > 0.8).all()
    assert len(outcome.tables["selected"]) == 24
    assert len(outcome.tables["own_number"]) == 2


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("module", EXPERIMENTS, ids=NAMES)
def test_pieces_have_keys_of_their_own(module, scale):
    pieces = module.EXPERIMENT.pieces(scale, None)
    assert len({piece.key for piece in pieces}) == len(pieces) > 0
    assert all(piece.effort > 0 for piece in pieces)
    timed = module is iteration_time
    assert [piece.alone for piece in pieces] == [timed] * len(pieces)
    one, seven = (len(module.EXPERIMENT.pieces(scale, seeds)) for seeds in (1, 7))
    assert seven == (1 if timed else 7 * one)


def test_the_names_are_those_of_the_command():
    assert tuple(module.EXPERIMENT.name for module in EXPERIMENTS) == NAMES


def rescaled(exponent, factors=(0.25, 1, 4), seeds=(0, 1)):
    """Rows as lam-norm has them, whose proper λ is 3·(factor·9)^exponent in both readings."""
    rows = []
    for seed in seeds:
        for factor in factors:
            unit = 9.0 * factor
            best = 3.0 * unit**exponent
            for multiple in np.geomspace(1e-6, 1e6, 25):
                lam = 1.7 * multiple
                off = math.log(lam / best)
                used = lam_and_norm.EPS * math.exp(-0.6 * off)
                row = {"defence": "low-rank", "factor": factor, "seed": seed, "unit": unit}
                row |= {"lam": lam, "multiple": multiple, "used": used}
                rows.append({**row, "attack": "low-rank", "accuracy": 0.9 - 0.002 * off**2})
                rows.append({**row, "attack": "none", "accuracy": lam / (1 + lam)})
    return pd.DataFrame(rows)


@pytest.mark.parametrize("exponent", [-1.7, 0.6])
def test_the_exponent_is_found(exponent):
    found = rescaled(exponent)
    chosen = lam_and_norm.proper(found)
    np.testing.assert_allclose(chosen["lam"], 3.0 * chosen["unit"] ** exponent, rtol=1e-6)
    fits = lam_and_norm.exponents(chosen)
    assert fits["reading"].tolist() == ["best accuracy", "norm reached"]
    np.testing.assert_allclose(fits["exponent"], exponent, atol=1e-6)
    assert fits["seeds"].tolist() == [2, 2]
    assert f"low-rank: {exponent:+.2f} ± 0.00" in lam_and_norm.finish(found, QUICK).headline


def test_a_proper_lam_beyond_the_grid():
    found = rescaled(0.5, factors=(1, 2), seeds=(0,))
    high = found[found["lam"] > 100]
    chosen = lam_and_norm.proper(high)
    best = chosen.loc[chosen["reading"] == "best accuracy", "lam"]
    np.testing.assert_allclose(best, high["lam"].min())  # the end
    assert chosen.loc[chosen["reading"] == "norm reached", "lam"].isna().all()
    assert lam_and_norm.exponents(chosen)["reading"].tolist() == ["best accuracy"]
    still = found.assign(used=np.where(found["lam"] > 30, 0.0, 0.2))  # past some λ nothing moves
    crossing = lam_and_norm.proper(still).query("reading == 'norm reached'")["lam"]
    assert crossing.between(10, 100).all()


def test_the_harm_that_is_carried_over():
    rows = []
    for seed in (0, 1):
        for defence, own, moved in (("pgd", 0.5, 0.7), ("low-rank", 0.6, 0.85)):
            about = {"data": "mnist", "defence": defence, "seed": seed, "n": 90, "clean": 0.9 + 0.02 * seed}
            rows.append({**about, "attack": "none", "kind": "none", "label": 0.0, "accuracy": about["clean"]})
            for name in transfer.SHARED:
                for kind, accuracy in (("own", own), ("transferred", moved)):
                    row = {**about, "attack": name, "kind": kind, "label": 0.2, "accuracy": accuracy + 0.02 * seed}
                    rows.append(row)
    found = pd.DataFrame(rows)
    shares = transfer.shares(found).set_index(["attack", "defence"])["share"]
    assert shares["universal", "pgd"] == pytest.approx(0.5)
    assert shares["low-rank", "low-rank"] == pytest.approx(1 / 6)
    outcome = transfer.finish(found, QUICK)
    assert "universal 33 % (pgd 71.0, low-rank 86.0)" in outcome.headline
    gaps = outcome.tables["differences"].set_index("case")["difference"]
    assert gaps["group-sparse 0.2, own"] == pytest.approx(10)
    assert gaps["group-sparse 0.2, transferred"] == pytest.approx(15)


def test_a_shift_that_fits_everybody_is_carried_over_whole():
    net = torch.nn.Linear(6, 2).double()
    x = torch.randn(40, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    groups = [(part, torch.zeros(20, dtype=torch.int64)) for part in torch.split(x, 20)]
    hits = transfer._both(net, groups, transfer.structured("universal", 0.7, 20))
    assert hits["own"] == hits["transferred"]  # a linear model of one class is harmed by one direction alone
    away = x - 0.7 * torch.nn.functional.normalize(net.weight[0] - net.weight[1], dim=0)
    assert hits["own"] == int((net(away).argmax(1) == 0).sum())


def test_the_differences_of_clean_accuracy():
    rows = [
        {"data": data, "defence": defence, "seed": seed, "accuracy": at + 0.01 * seed, "clean": at + 0.01 * seed}
        for data, drop in (("tcga", 0.0), ("tcga-11types", 0.03))
        for defence, at in (("erm", 0.8), ("low-rank", 0.8 - drop))
        for seed in range(3)
    ]
    outcome = clean_accuracy.finish(pd.DataFrame(rows), QUICK)
    assert "tcga: ERM 81.00 ± 1.00, GSAT low-rank 81.00 ± 1.00, difference +0.00 [+0.00, +0.00]" in outcome.headline
    assert "difference -3.00 [-3.00, -3.00]" in outcome.headline


def test_the_ratios_of_seconds():
    seconds = {"pgd": [1.0, 2.0, 4.0], "group-sparse": [1.5, 2.2, 10.0], "low-rank": [0.5, 1.2, 2.4]}
    rows = [
        {"what": "MNIST", "defence": name, "seed": seed, "seconds": took, "threads": 1}
        for name, times in seconds.items()
        for seed, took in reversed(list(enumerate(times)))
    ]
    found = pd.DataFrame(rows)
    table = iteration_time.ratios(found).set_index("defence")
    assert table["ratio"].to_dict() == pytest.approx({"pgd": 1, "group-sparse": 1.5, "low-rank": 0.6})
    assert table["seconds"].to_dict() == {"pgd": 2.0, "group-sparse": 2.2, "low-rank": 1.2}
    assert table.loc["low-rank", "paper"] == 1.24
    assert (
        "MNIST: group-sparse 1.50 (paper 1.35), low-rank 0.60 (paper 1.24)"
        in iteration_time.finish(found, QUICK).headline
    )


def test_jobs_take_turns_and_every_other_round_is_backwards():
    seen = []
    times = alternate({name: lambda name=name: seen.append(name) for name in "abc"}, 3, warm_up=1)
    assert "".join(seen) == "cba" + "abc" + "cba" + "abc"
    assert {name: len(took) for name, took in times.seconds.items()} == {"a": 3, "b": 3, "c": 3}
    assert Times({"a": [3.0, 8.0], "b": [2.0, 4.0]}).ratio("a", "b").median == pytest.approx(1.75)


def test_gsat_takes_as_many_gradients_as_pgd():
    bench = iteration_time.Bench("elu", (12,), {}, group_size=30, n_inner=7)
    run = bench.run(lambda eps: iteration_time.gsat("low-rank", "", 7, 30), settling=2)
    iterate(run)
    assert run.defence.solution.n_gradients == 7
    assert run.control.target == pytest.approx(0.05 * float(torch.linalg.vector_norm(run.X, dim=1).mean()))


def test_the_ends_of_lam_and_alpha():
    rows = [
        {"defence": "low-rank", "attack": attack, "alpha": alpha, "multiple": multiple, "seed": 0, "used": 0.1,
         "accuracy": at - 0.1 * (alpha == 0.9) * (attack != "none")}
        for alpha in (0.1, 0.5, 0.9)
        for multiple, clean, robust in ((0.1, 0.85, 0.8), (1, 0.9, 0.7), (10, 0.95, 0.35))
        for attack, at in (("none", clean), ("low-rank", robust))
    ]  # fmt: skip
    outcome = lam_and_alpha.finish(pd.DataFrame(rows), QUICK)
    assert (
        "α = 0.5, clean and attacked: 10x λ: 95.0 and 35.0, 1x λ: 90.0 and 70.0, 0.1x λ: 85.0 and 80.0"
        in outcome.headline
    )
    assert "at 1x λ attacked 70.0 with α = 0.1, 60.0 with α = 0.9" in outcome.headline


def test_small_groups_make_more_steps(small, tmp_path):
    arena = group_sizes.elu_on(QUICK)
    arena = dataclasses.replace(arena, plan=dataclasses.replace(arena.plan, n_outer=2))
    found = group_sizes.sweep(Place(tmp_path), arena, "pgd", 3, [20, 50])
    assert found.groupby("m")["steps"].first().to_dict() == {20: 20, 50: 8}
    assert set(found["attack"]) == {"none", "group-sparse", "low-rank"}
    row = found[(found["m"] == 50) & (found["attack"] == "low-rank")].iloc[0]
    assert (row["strength"], row["seed"]) == (5, 3)
    assert row["eps"] == pytest.approx(0.1)


def test_rescaled_data_have_models_of_their_own(small, tmp_path):
    arena = lam_and_norm.elu_on(QUICK)
    found = lam_and_norm.sweep(Place(tmp_path), arena, "low-rank", 1, [0.5, 3.0], [0.2])
    units = found.groupby("factor")["unit"].first()
    assert units[3.0] == pytest.approx(6 * units[0.5], rel=1e-5)
    assert found["lam"].nunique() == 1
    assert len(list((tmp_path / "models").iterdir())) == 2


def test_the_ranking_that_is_best_is_named():
    rows = [
        {"label": "continent", "counted": "SNPs", "seed": seed, "method": method, "k": k, "accuracy": at + 0.01 * seed}
        for seed in (0, 1)
        for method, k, at in (
            ("all", 0, 0.97), ("GroupSparseSelector", 5, 0.7), ("GroupSparseSelector", 100, 0.9), ("LASSO", 5, 0.6),
            ("LASSO", 100, 0.88), ("LASSO, its own number", 14, 0.8),
        )
    ]  # fmt: skip
    outcome = feature_selection.finish(pd.DataFrame(rows), QUICK)
    assert outcome.headline == (
        "continent, 100 SNPs: GSAT 90.5, LASSO 88.5, LASSO with its own 14 80.5 (all 97.5); "
        "GSAT's mean difference over k: +6.0 to LASSO"
    )
    gaps = outcome.tables["differences"].set_index("case")
    assert gaps.loc["continent, 5 SNPs", "difference"] == pytest.approx(10)
    assert gaps.loc["continent, 5 SNPs", "ours"] == "group-sparse"
