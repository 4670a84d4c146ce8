"""Experiments in pieces, sizes by both rules, and the command that runs them."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gsat.cli import app
from gsat.estimators.from_table import Plan
from gsat.experiments import curves, digest, paper
from gsat.experiments.curve_figures import Finish
from gsat.experiments.digest import paper_sections
from gsat.experiments.paper import EXPERIMENTS
from gsat.experiments.plan import Order, Piece, Place
from gsat.experiments.runner import reproduce, run
from gsat.experiments.setting import SCALES, Arena, evenly, image_arenas
from gsat.experiments.strengths import Sweep, by_columns, by_eps, by_rank

PLAN = Plan("erm", n_outer=30, n_inner=4, group_size=60, eta0=1e-2)
DIGITS = Arena(
    "digits-elu", "digits", PLAN, n_test=150, n_validation=100, steps=6, grid=(0.05, 0.3), structures=("low-rank",)
)
RANKS = Sweep("low-rank", "low-rank", (1, 4), reference=4, eps=0.3)
SIZES = Sweep("universal", "universal", (0.1, 0.4), reference=0.1)


def counted(place, start, log):
    """A piece that leaves a trace each time it is run."""
    with (place.work / log).open("a") as file:
        file.write("x")
    return pd.DataFrame({"value": [start, start + 1], "name": ["none", "b"]})


def test_a_finished_piece_is_not_run_again(tmp_path):
    place, pieces = Place(tmp_path), [Piece(f"{i}", counted, {"start": i, "log": "log"}, effort=i) for i in (3, 5)]
    frames = run(pieces, place)
    assert [frame["value"].tolist() for frame in frames] == [[3, 4], [5, 6]]
    assert frames[0]["name"].tolist() == ["none", "b"]
    again = run([*pieces, Piece("7", counted, {"start": 7, "log": "log"})], place, jobs=2)
    assert again[2]["value"].tolist() == [7, 8]
    assert (tmp_path / "log").read_text() == "xxx"


def test_pieces_that_measure_time_run_when_nothing_else_does(tmp_path):
    pieces = [Piece(f"{i}", counted, {"start": i, "log": "log"}, alone=i == 0) for i in range(3)]
    run(pieces, Place(tmp_path), jobs=2)
    times = [(tmp_path / "pieces" / f"{piece.key}.csv").stat().st_mtime_ns for piece in pieces]
    assert times[0] == max(times)


def test_a_piece_that_fails_leaves_nothing(tmp_path):
    piece = Piece("bad", counted, {"start": "text", "log": "log"})
    with pytest.raises(TypeError):
        run([piece], Place(tmp_path))
    assert not piece.done(Place(tmp_path))


def test_keys_tell_arguments_apart():
    one = Piece("a", curves.fit, {"arena": DIGITS, "seed": 0})
    assert one.key == Piece("b", curves.fit, {"seed": 0, "arena": DIGITS}).key
    assert one.key != Piece("a", curves.fit, {"arena": replace(DIGITS, steps=7), "seed": 0}).key
    assert one.key != Piece("a", curves.defend, {"arena": DIGITS, "seed": 0}).key
    with pytest.raises(TypeError, match="an argument of a piece must be JSON or have describe"):
        _ = Piece("a", curves.fit, {"arena": np.zeros(3)}).key


def test_strengths_are_even_and_hold_both_ends():
    assert evenly((1, 2, 5, 10, 15, 20, 50, 100), 4) == (1, 5, 20, 100)
    assert evenly((1, 2, 5), 9) == (1, 2, 5)
    assert evenly((1, 2, 5), 1) == (1,)


@pytest.mark.parametrize(("scale", "budget", "largest"), [("cpu", 0.0125, 0.05), ("paper", 0.05, 0.2)])
def test_cifar_has_the_sizes_of_the_paper_at_paper_scale(scale, budget, largest):
    for arena in image_arenas(SCALES[scale], "cifar10"):
        assert arena.budget == budget
        assert max(arena.grid) == pytest.approx(largest)
        assert by_eps("pgd", SCALES[scale], arena)[0].strengths[-1] == pytest.approx(largest)


def test_sweeps_of_the_paper():
    (mnist_alexnet, mnist), (cifar_alexnet, cifar) = (image_arenas(SCALES["cpu"], d) for d in ("mnist", "cifar10"))
    assert by_eps("pgd", SCALES["cpu"], mnist)[0].strengths == (0.025, 0.05, 0.1, 0.2)
    assert by_eps("pgd", SCALES["cpu"], cifar)[0].strengths == (0.00625, 0.0125, 0.025, 0.05)
    assert [(s.name, s.eps, s.blocks) for s in by_columns(SCALES["cpu"], cifar)] == [
        ("group-sparse", 0.0125, False),
        ("group-sparse", 0.05, False),
        ("group-sparse, pixels", 0.0125, True),
        ("group-sparse, pixels", 0.05, True),
    ]
    assert [(s.strengths, s.reference) for s in by_rank(SCALES["cpu"], mnist)] == 2 * [((1, 5, 20, 100), 5)]
    assert [s.eps for s in by_rank(SCALES["cpu"], mnist_alexnet)] == [0.05]
    assert [(s.strengths, s.reference) for s in by_rank(SCALES["cpu"], mnist_alexnet)] == [((1, 5, 100), 5)]
    assert by_eps("pgd", SCALES["cpu"], mnist_alexnet)[0].strengths == (0.025, 0.05, 0.2)
    assert by_eps("pgd", SCALES["quick"], mnist_alexnet)[0].strengths == (0.025, 0.2)
    assert [s.eps for s in by_columns(SCALES["cpu"], cifar_alexnet)] == [0.0125, 0.0125]
    assert [s.eps for s in by_rank(SCALES["paper"], image_arenas(SCALES["paper"], "mnist")[0])] == [0.05, 0.2]


@pytest.fixture(scope="module")
def fought(tmp_path_factory):
    """Two defences on digits, with everything that their pieces say."""
    place = Place(tmp_path_factory.mktemp("work"))
    pieces = [curves._attacking(DIGITS, [RANKS, SIZES], defence, 1) for defence in ("low-rank", "pgd")]
    return place, pd.concat(run(pieces, place), ignore_index=True)


def test_sizes_by_both_rules(fought):
    place, rows = fought
    ours = curves.fit(place, DIGITS, "low-rank", "matched", 0.05, 1).iloc[0]
    matched = rows[(rows["rule"] == "matched") & (rows["part"] == "test")]
    sizes = matched.groupby("defence")["size"].unique()
    assert sizes["low-rank"].tolist() == [0.05]
    assert sizes["pgd"].tolist() == pytest.approx([ours["mean_norm_used"]], rel=1e-9)
    assert sizes["pgd"][0] != 0.05


def test_the_tuned_size_is_the_best_on_validation_rows(fought):
    _, rows = fought
    seen = rows[(rows["part"] == "validation") & (rows["rule"] == "tuned")]
    tested = rows[(rows["part"] == "test") & (rows["rule"] == "tuned")]
    assert set(seen["strength"]) == {4, 0.1}
    for (defence, attack), tries in seen.groupby(["defence", "attack"]):
        assert tries["size"].tolist() == [0.05, 0.3]
        best = tries.loc[tries["accuracy"].idxmax(), "size"]
        taken = tested[(tested["defence"] == defence) & (tested["attack"] == attack)]["size"].unique()
        assert taken.tolist() == [best] == tries.loc[tries["taken"], "size"].tolist()
    assert seen["accuracy"].nunique() > 2


def test_curves_start_without_attack_and_fall(fought):
    _, rows = fought
    for _, curve in rows[rows["part"] == "test"].groupby(["defence", "rule", "attack"]):
        assert curve["strength"].tolist()[0] == 0
        assert curve["accuracy"].tolist()[0] == curve["clean"].unique().item()
        assert curve["accuracy"].iloc[-1] < curve["accuracy"].iloc[0]
        assert len(curve) == 3
    names = set(rows.loc[rows["part"] == "test", "attack"])
    assert names == {"low-rank", "universal", "universal-all"}
    assert set(rows.loc[rows["attack"] == "low-rank", "eps"]) == {0.3}
    assert set(rows.loc[(rows["attack"] == "universal") & (rows["part"] == "test"), "eps"]) == {0, 0.1, 0.4}


def test_the_outcome_of_a_figure(fought):
    place, rows = fought
    trained = curves.fit(place, DIGITS, "pgd", "tuned", 0.3, 1)
    outcome = Finish({"digits": ("low-rank", "low-rank")}, eps=0.3)(pd.concat([rows, trained]), SCALES["quick"])
    assert outcome.headline.startswith("digits, ELU net, rank 1, eps 0.3: GSAT ")
    assert "PGD" in outcome.headline
    gaps = outcome.tables["differences"].set_index(["rule", "attack", "strength"])
    tested = outcome.tables["results"]
    at = tested[(tested["rule"] == "tuned") & (tested["attack"] == "low-rank") & (tested["strength"] == 4)]
    found = at.set_index("defence")["accuracy"]
    assert gaps.loc[("tuned", "low-rank", 4), "difference"] == pytest.approx(100 * (found["low-rank"] - found["pgd"]))
    assert (tested["strength"] == 0).any()
    assert all(picture.startswith(b"\x89PNG") for picture in outcome.pictures.values())


def test_the_digest_has_the_reference_strength_of_counts_and_the_largest_eps_too(tmp_path, monkeypatch):
    monkeypatch.setattr(digest, "FIGURES", ("figure",))
    cases = [("low-rank", 0.2, rank) for rank in (1, 5, 20)] + [("universal", eps, eps) for eps in (0.025, 0.05, 0.2)]
    rows = [
        {"ours": ours, "baseline": baseline, "data": "mnist", "model": "elu", "rule": rule, "attack": attack,
         "eps": eps, "strength": strength, "difference": strength, "standard_error": float("nan"), "clean": -0.25}
        for attack, eps, strength in cases
        for rule in ("matched", "tuned") for baseline in ("pgd", "erm") for ours in ("low-rank", "universal")
    ]  # fmt: skip
    (tmp_path / "figure").mkdir()
    pd.DataFrame(rows).to_csv(tmp_path / "figure" / "differences.csv")
    lines = digest.differences_table(tmp_path).splitlines()[2:]
    assert [line.split(" | ")[1:4] for line in lines] == [
        ["rank 5, 0.2", "low-rank", "+5.0 (-0.2)"],
        ["universal, 0.05", "universal", "+0.1 (-0.2)"],
        ["universal, 0.2", "universal", "+0.2 (-0.2)"],
    ]


def test_attacks_on_columns_and_subspaces_of_the_elu_net_are_estimated_to_take_longer():
    """A standard attack on 500 samples of MNIST took 0.3 (PGD), 0.9 (columns) and 1.1 (rank 5) seconds of one core."""
    seconds = {
        (arena.plan.model, sweep.attack): curves._attacking(arena, [sweep], "erm", 0).effort
        for arena in image_arenas(SCALES["cpu"], "mnist")
        for sweep in (
            Sweep("universal", "universal", (0.05,), reference=0.05),
            Sweep("group-sparse, pixels", "group-sparse", (50,), reference=50, eps=0.05, blocks=True),
            Sweep("low-rank", "low-rank", (5,), reference=5, eps=0.05),
        )
    }
    by_attack = {attack: time for (model, attack), time in seconds.items() if model == "elu"}
    assert by_attack["group-sparse"] > 3 * by_attack["universal"]
    assert by_attack["low-rank"] > 3 * by_attack["universal"]
    assert len({time for (model, _), time in seconds.items() if model == "alexnet"}) == 1


def invoke(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_tasks_are_those_of_shifts(tmp_path):
    for names, text, got in (
        (("low-rank",), "emg-myo", "--tasks is for shifts alone, got low-rank"),
        (("shifts",), "emg-myo,nothing", "tasks must be among gas-drift, "),
    ):
        found = invoke(*names, "--quick", "--tasks", text, "--out", tmp_path / "new")
        assert found.exit_code == 2, found.output
        assert got in " ".join(found.output.split())


def test_the_command_lists_what_there_is():
    listed = invoke()
    assert listed.exit_code == 0, listed.output
    assert all(name in listed.output for name in EXPERIMENTS)
    rows = json.loads(invoke("--json").output)
    assert [row["name"] for row in rows] == list(EXPERIMENTS)
    assert all(row["title"] for row in rows)


def test_every_experiment_and_scale_has_the_name_it_is_called_by():
    assert [paper.experiment(name).name for name in EXPERIMENTS] == list(EXPERIMENTS)
    assert tuple(SCALES) == tuple(scale.name for scale in SCALES.values()) == paper.SCALES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "NAME must be one of universal, .* or all, got 'nothing'"),
        (["low-rank", "--scale", "huge"], "--scale must be one of cpu, overnight, paper, got 'huge'"),
        (["low-rank", "--seeds", "0"], "--seeds must be >= 1, got 0"),
        (["low-rank", "--jobs", "0"], "--jobs must be >= 1, got 0"),
    ],
)
def test_bad_options(arguments, message):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert pd.Series([result.output]).str.contains(message).item(), result.output


def test_nothing_else_is_overwritten(tmp_path):
    (tmp_path / "low-rank").mkdir()
    (tmp_path / "low-rank" / "thesis.txt").write_text("mine")
    for force in ([], ["--force"]):
        result = invoke("low-rank", "--quick", "--out", tmp_path, *force)
        assert result.exit_code == 2
        assert "low-rank" in result.output
    assert (tmp_path / "low-rank" / "thesis.txt").read_text() == "mine"


def test_a_figure_from_the_command_line(data_dir, tmp_path, monkeypatch):
    """The whole path on real images, tiny; the second call takes everything from the files."""
    usual = SCALES["quick"]
    alexnet = replace(usual.alexnet, plan=replace(usual.alexnet.plan, n_outer=1, n_inner=1), n_test=20, steps=1)
    elu = replace(usual.elu, plan=replace(usual.elu.plan, n_outer=2, n_inner=2), n_test=20, steps=1)
    monkeypatch.setitem(SCALES, "quick", replace(usual, alexnet=alexnet, elu=elu, grid=1))
    command = ("low-rank", "--quick", "--seeds", 1, "--jobs", 1, "--out", tmp_path, "--data-dir", data_dir)
    first = invoke(*command)
    assert first.exit_code == 0, first.output
    folder = tmp_path / "low-rank"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) >= {"config.json", "results.csv", "differences.csv", "validation.csv", "figure-tuned.png"}
    config = json.loads(before["config.json"])
    assert config["command"] == "gsat reproduce low-rank --quick --seeds 1"
    assert config["headline"] in first.output
    results = pd.read_csv(folder / "results.csv")
    assert set(results["data"]) == {"mnist", "cifar10"}
    assert set(results["defence"]) == {"low-rank", "erm", "fgsm", "fgm", "pgd", "unstructured"}
    assert set(results["model"]) == {"alexnet", "elu"}
    assert set(results["rule"]) == {"matched", "tuned"}
    assert (tmp_path / "report.html").stat().st_size > 500_000
    sections = paper_sections(tmp_path)
    assert "The paper: Fig. 2" in sections
    assert "](../../results/low-rank/figure-matched.png)" in sections
    assert "| GSAT low-rank | " in sections

    monkeypatch.setattr("gsat.experiments.curves._Fight", None)  # nothing is trained or attacked again
    again = invoke(*command)
    assert again.exit_code == 0, again.output
    whole, done = map(int, re.search(r"about (\d+) minutes .*, (\d+) of them done", again.output).groups())
    assert whole == done
    assert "0 of them done" in first.output
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    other = invoke("low-rank", "--quick", "--seeds", 2, "--out", tmp_path, "--data-dir", data_dir)
    assert other.exit_code == 2
    assert "take another folder or --force" in other.output


def test_orders_of_different_scales_are_told_apart(tmp_path):
    experiment = paper.experiment("low-rank")
    quick, cpu = (Order([experiment], SCALES[name], None, tmp_path) for name in ("quick", "cpu"))
    assert quick.identity(experiment) != cpu.identity(experiment)
    assert cpu.command(experiment) == "gsat reproduce low-rank --scale cpu"
    assert callable(reproduce)
