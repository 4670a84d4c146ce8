"""Methods as selections from rows made by hand, and tables whose units are batches and sets, not seeds."""

import numpy as np
import pandas as pd
import pytest

from gsat.experiments.pictures import rank_lines
from gsat.experiments.shift_choice import (
    GSAT_ALL,
    METHODS,
    OURS,
    Method,
    base,
    chosen,
    is_ours,
    over_seeds,
)
from gsat.experiments.shift_tables import best_baseline, differences, hindsight, over_sets, ranks, summary
from gsat.experiments.shifts import ablation


def row(family, inner, test, *, loss=1.0, strength=1.0, metric="none", gamma=0.0, prepare="none", hidden=0, **place):
    """A candidate of a fold."""
    return {
        "data": "one", "fold": 1, "seed": 0, "family": family, "strength": strength, "metric": metric, "gamma": gamma,
        "prepare": prepare, "hidden": hidden, "inner": inner, "inner_loss": loss, "accuracy": test,
        "balanced_accuracy": test, **place,
    }  # fmt: skip


ROWS = [
    row("majority", 0.3, 0.3),
    row("logistic", 0.5, 0.9, strength=0.1),
    row("logistic", 0.7, 0.6, strength=1.0),
    row("logistic", 0.8, 0.5, strength=0.1, prepare="centre"),
    row("logistic", 0.9, 0.4, metric="auto", gamma=10.0),
    row("erm", 0.60, 0.51, hidden=0),
    row("erm", 0.62, 0.52, hidden=100),
    row("erm", 0.65, 0.53, hidden=0, prepare="zscore"),
    row("erm", 0.70, 0.54, hidden=100, strength=2.0),
    row("erm", 0.99, 0.55, hidden=0, strength=2.0, prepare="zscore"),
    row("low-rank", 0.71, 0.61, strength=0.06, hidden=100),
    row("low-rank", 0.70, 0.62, strength=0.1, hidden=100),
    row("low-rank", 0.69, 0.63, strength=0.1, prepare="zscore"),
    row("low-rank", 0.72, 0.64, strength=0.1, metric="auto", gamma=1.0, hidden=100),
    row("low-rank", 0.68, 0.65, strength=0.1, metric="auto", gamma=1.0, prepare="zscore"),
    row("low-rank", 0.95, 0.10, strength=0.1, metric="within", gamma=1.0, hidden=100),
]


def taken(name, rows=ROWS):
    return chosen(over_seeds(pd.DataFrame(rows)), [METHODS[name]]).iloc[0]


@pytest.mark.parametrize(
    ("name", "test", "candidates"),
    [
        ("majority", 0.3, 1),
        ("logistic", 0.6, 2),
        ("logistic (prepared)", 0.5, 3),  # of all preparations
        ("ridge, metric", 0.4, 1),
        ("erm", 0.54, 3),
        ("erm (prepared)", 0.55, 2),  # with the preparation that is best for ERM of the usual length: zscore
        ("low-rank", 0.61, 2),
        ("low-rank (prepared)", 0.63, 1),
        ("low-rank, metric", 0.64, 1),
        ("low-rank, metric (prepared)", 0.65, 1),
        (GSAT_ALL, 0.4, 8),  # linear models, ERM of the usual length, low-rank of two kinds; not "within"
        (GSAT_ALL + " (prepared)", 0.4, 9),
        ("coral", 0.54, 3),  # ERM, where there is no such candidate
    ],
)
def test_a_method_takes_the_candidate_with_the_best_inner_score(name, test, candidates):
    found = taken(name)
    assert found["balanced_accuracy"] == pytest.approx(test)
    assert found["candidates"] == candidates
    assert found["defence"] == name


def test_gsat_takes_networks_where_they_are_better_than_linear_models():
    networks = [one for one in ROWS if one["family"] != "logistic"]
    assert taken(GSAT_ALL, networks)["balanced_accuracy"] == pytest.approx(0.64)
    assert taken(GSAT_ALL, networks)["candidates"] == 5  # not ERM of another length


def test_what_was_not_trained_is_not_taken():
    frame = over_seeds(pd.DataFrame(ROWS))
    assert chosen(frame, [METHODS["pgd"], METHODS["erm"]])["defence"].tolist() == ["erm"]


def test_of_equals_the_least_loss_is_taken():
    rows = [row("logistic", 0.5, 0.1, loss=2.0, strength=0.1), row("logistic", 0.5, 0.2, loss=1.5), ROWS[5]]
    assert taken("logistic", rows)["balanced_accuracy"] == 0.2
    assert taken("logistic", [rows[1], rows[0], ROWS[5]])["balanced_accuracy"] == 0.2


def test_hindsight_and_who_sees_the_batch():
    found = taken("logistic (prepared)")
    assert found["hindsight"] == 0.9
    assert bool(found["sees_batch"])
    assert not bool(taken("logistic")["sees_batch"])


def test_test_scores_do_not_choose():
    swapped = [{**one, "balanced_accuracy": 1 - one["balanced_accuracy"]} for one in ROWS]
    for name in METHODS:
        frames = [chosen(over_seeds(pd.DataFrame(rows)), [METHODS[name]]) for rows in (ROWS, swapped)]
        columns = ["family", "strength", "metric", "prepare", "hidden"] if len(frames[0]) else []
        pd.testing.assert_frame_equal(frames[0][columns], frames[1][columns])


def test_the_first_seed_chooses_and_all_are_tested():
    more = [
        {**one, "seed": 1, "inner": np.nan, "inner_loss": np.nan, "balanced_accuracy": one["balanced_accuracy"] + 0.2}
        for one in ROWS
        if one["family"] in ("erm", "low-rank")
    ]
    assert taken("low-rank", [*ROWS, *more])["balanced_accuracy"] == pytest.approx(0.71)
    assert taken("logistic", [*ROWS, *more])["balanced_accuracy"] == pytest.approx(0.6)
    assert base(over_seeds(pd.DataFrame([*ROWS, *more])))["prepare"] == "zscore"


def test_names_of_ours():
    assert set(OURS) < set(METHODS)
    assert all(is_ours(name) for name in OURS)
    assert not any(map(is_ours, ("unstructured", "random draws", "ridge, metric", "logistic (prepared)", "majority")))
    assert is_ours("low-rank")
    assert Method("x", ("erm",)).among(pd.DataFrame(ROWS))["hidden"].tolist() == [0, 100, 100]


# tables


def table(values, sees=()):
    """What methods took: {(data, fold): {method: balanced accuracy}}."""
    return pd.DataFrame(
        [
            {
                "data": data, "fold": fold, "defence": name, "balanced_accuracy": value, "accuracy": value,
                "first": value - 0.05,
                "hindsight": value + 0.1, "candidates": 6, "sees_batch": name in sees,
            }
            for (data, fold), methods in values.items()
            for name, value in methods.items()
        ]
    )  # fmt: skip


VALUES = {
    ("one", 1): {"low-rank": 0.8, "erm": 0.5, "logistic": 0.6},
    ("one", 2): {"low-rank": 0.6, "erm": 0.5, "logistic": 0.9},
    ("two", 1): {"low-rank": 0.4, "erm": 0.5, "logistic": 0.4},
    ("two", 2): {"low-rank": 0.9, "erm": 0.7, "logistic": 0.8},
    ("two again", 1): {"low-rank": 0.0, "erm": 1.0, "logistic": 0.1},
}


def test_differences_have_folds_and_sets_as_units():
    found = differences(table(VALUES), ("low-rank", "universal"), ("erm", "pgd", "logistic"), ["two again"])
    assert set(found["ours"]) == {"low-rank"}
    assert set(found["baseline"]) == {"erm", "logistic"}
    found = found.set_index(["case", "baseline"])
    one = found.loc[("one", "erm")]  # gaps 30 and 10
    assert one["difference"] == pytest.approx(20)
    assert one["standard_error"] == pytest.approx(10)
    assert one["high"] == pytest.approx(20 + 12.7062 * 10, rel=1e-4)  # Student's t with one degree of freedom
    assert (one["units"], one["better"], one["worse"], one["beats"]) == (2, 2, 0, False)
    two = found.loc[("two", "logistic")]  # gaps 0 and 10
    assert (two["difference"], two["better"], two["worse"]) == (pytest.approx(5), 1, 0)
    everything = found.loc[("all sets", "erm")]  # task means 20 and 5; the re-split is not a unit
    assert everything["difference"] == pytest.approx(12.5)
    assert everything["standard_error"] == pytest.approx(7.5)
    assert everything["units"] == 2
    assert found.loc[("two again", "erm")]["difference"] == pytest.approx(-100)


def test_holm_counts_the_rows_of_its_family():
    """Sets and folds are corrected by themselves: eight sets of one gain beat, however many rows there are within."""
    rng = np.random.default_rng(0)
    values = {
        (f"set {i}", fold): {"low-rank": 0.6 + 0.01 * rng.random(), "erm": 0.5} for i in range(8) for fold in (1, 2)
    }
    found = differences(table(values), ("low-rank",), ("erm",))
    over, within = found[found["case"] == "all sets"], found[found["case"] != "all sets"]
    assert over["beats"].all()
    assert not within["beats"].all()


def test_summary_has_a_row_per_method_and_a_column_per_task():
    found = summary(table(VALUES, sees=("erm",)), ["two again"])
    assert found.index.tolist() == ["low-rank", "erm", "logistic"]
    assert found.loc["low-rank"].to_dict() == {
        "one": "70.0 ± 14.1", "two": "65.0 ± 35.4", "two again": "0.0", "mean": "67.5", "candidates": 6,
        "sees batch": "",
    }  # fmt: skip
    assert found.loc["erm", "sees batch"] == "5 of 5"
    some = {place: {k: v for k, v in one.items() if place[0] == "one" or k != "erm"} for place, one in VALUES.items()}
    apart = summary(table(some))
    assert apart.loc["erm", ["one", "two", "mean"]].tolist() == ["50.0 ± 0.0", "", ""]


def test_means_and_the_best_baseline():
    frame = table(VALUES)
    assert over_sets(frame, ["two again"])["logistic"] == pytest.approx(67.5)
    assert best_baseline(frame, ("erm", "logistic"), ["two again"]) == "logistic"
    assert best_baseline(frame, ("erm", "logistic", "pgd")) == "erm"
    found = hindsight(frame, ["two again"]).set_index("defence")
    assert found.loc["erm"].tolist() == pytest.approx([50, 65, 15])


def test_ranks_and_the_critical_difference():
    values = {
        ("one", 1): {"a": 0.9, "b": 0.5, "c": 0.5, "d": 0.1},
        ("two", 1): {"a": 0.9, "b": 0.8, "c": 0.1, "d": 0.2},
    }
    found = ranks(table(values), ("a", "b", "c", "d", "e"))
    assert found.means.to_dict() == {"a": 1.0, "b": 2.25, "c": 3.25, "d": 3.5}
    assert found.sets == 2
    assert found.difference == pytest.approx(2.569 * (4 * 5 / (6 * 2)) ** 0.5, rel=1e-3)  # Demšar (2006), table 5
    assert rank_lines(found.means, found.difference, "mean rank").startswith(b"\x89PNG")


def test_the_ablation_has_the_sets_with_several_batches():
    names = ("erm", "low-rank", "low-rank, metric", "unstructured", "random draws")
    values = {(data, 1): dict.fromkeys(names, 0.5) | {"low-rank, metric": 0.6} for data in ("a", "b", "one batch")}
    variants = {(data, 1): {"low-rank, within": 0.4, "low-rank, between": 0.7} for data in ("a", "b")}
    found = ablation(table(values), table(variants)).set_index(["ours", "baseline"])
    assert set(found["units"]) == {2}
    assert found.loc[("low-rank, between", "erm"), "difference"] == pytest.approx(20)
    assert found.loc[("low-rank, within", "low-rank"), "difference"] == pytest.approx(-10)
    assert found.loc[("low-rank, metric", "low-rank"), "difference"] == pytest.approx(10)
