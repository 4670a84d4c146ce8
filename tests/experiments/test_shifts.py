"""Held-out batches: what is chosen does not see the test batch, and the folds are the units of the errors."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import gsat.report
from gsat.data import Table, make_batches
from gsat.experiments import shift_folds
from gsat.experiments.plan import Order, Place
from gsat.experiments.runner import reproduce
from gsat.experiments.setting import SCALES
from gsat.experiments.shift_folds import METHODS, Setting, fold, one_fold
from gsat.experiments.shift_tasks import TASKS, Task, centred, inner_splits, known, most_variable, with_columns
from gsat.experiments.shifts import EXPERIMENT, SETTINGS, differences, pieces, summary

TASK = Task("toy", "none", ("0", "1", "2", "3"), most_variable=12)
SETTING = Setting(sizes=(0.8, 0.3, 0.05), cs=(1e-4, 1e-2, 1.0), n_outer=8, n_inner=2, group_size=16, eta0=0.01)


@pytest.fixture(scope="module")
def toy() -> Table:
    """Four batches of 40 samples, 20 features, three classes; each batch has a shift of its own."""
    made = make_batches(n=160, d=20, shift="universal", strength=0.6, seed=3)
    return TASK.prepared(replace(made, batch=np.unique(made.batch, return_inverse=True)[1]))


def of_batch(table, *names):
    return np.isin(table.batch, names)


def relabelled(table, batch):
    """The labels of one batch moved on by one class."""
    y = np.where(of_batch(table, batch), (table.y + 1) % 3, table.y)
    return replace(table, y=y)


@pytest.mark.parametrize("method", METHODS)
def test_the_test_batch_does_not_choose(toy, method):
    result = fold(toy, TASK, "2", 5, method, SETTING)
    other = relabelled(toy, "2")
    other = replace(other, X=np.where(of_batch(toy, "2")[:, None], 7 * toy.X - 3, toy.X).astype(np.float32))
    again = fold(other, TASK, "2", 5, method, SETTING)
    for column in ("size", "validation", "validation_loss", "chosen"):
        np.testing.assert_array_equal(result[column], again[column])
    assert (result["accuracy"].max(), len(result)) != (again["accuracy"].max(), len(result))
    assert fold(relabelled(toy, "2"), TASK, "2", 5, method, SETTING)["accuracy"].max() < result["accuracy"].max()


def test_training_batches_do_choose(toy):
    """The opposite of the last test: labels of a training batch change what is validated."""
    result, other = (fold(t, TASK, "2", 5, "logistic", SETTING) for t in (toy, relabelled(toy, "1")))
    assert (result["validation"] > other["validation"] + 0.1).all()


@pytest.mark.parametrize(("method", "grid"), [("low-rank", SETTING.sizes), ("logistic", SETTING.cs), ("erm", (0.0,))])
def test_a_fold_tests_the_strength_that_validates_best(toy, method, grid):
    result = fold(toy, TASK, "3", 1, method, SETTING)
    assert tuple(result["size"]) == grid
    assert result["chosen"].sum() == 1
    if len(grid) > 1:
        best = result["validation"].max()
        assert result.loc[result["chosen"], "validation"].item() == best
        equals = result[result["validation"] == best]
        assert result.loc[result["chosen"], "validation_loss"].item() == equals["validation_loss"].min()
    np.testing.assert_array_equal(result["accuracy"].notna(), result["chosen"])
    assert set(result["n_train"]) == {120}
    assert set(result["n_test"]) == {40}
    everything = fold(toy, TASK, "3", 1, method, replace(SETTING, test_all=True))
    assert everything["balanced_accuracy"].notna().all()
    pd.testing.assert_frame_equal(
        everything[everything["chosen"]].drop(columns="seconds"), result[result["chosen"]].drop(columns="seconds")
    )


class Certain:
    """A model that gives its favourite of two classes a probability that `c` sets."""

    classes_ = np.array([0, 1])

    def __init__(self, c):
        self.share = {1e-4: 0.6, 1e-2: 0.9, 1.0: 0.7}[c]

    def predict_proba(self, X):
        return np.where(X[:, :1] > 0, [1 - self.share, self.share], [self.share, 1 - self.share])


def test_of_equals_the_least_loss_is_taken(monkeypatch):
    monkeypatch.setattr(shift_folds, "_logistic", lambda rows, c: Certain(c))
    y = np.tile([0, 1], 30)
    table = Table(2.0 * y[:, None] - 1, y, np.repeat(["a", "b", "c"], 20))
    for right, best in ((True, 0.9), (False, 0.6)):  # who is wrong should not be certain
        result = fold(
            replace(table, X=table.X if right else -table.X), Task("t", "none", ("a",)), "a", 0, "logistic", SETTING
        )
        np.testing.assert_array_equal(result["validation"], float(right))
        shares = np.array([0.6, 0.9, 0.7])
        np.testing.assert_allclose(result["validation_loss"], -np.log(shares if right else 1 - shares))
        np.testing.assert_array_equal(result["chosen"], shares == best)


def test_accuracy_and_balanced_accuracy_by_hand(monkeypatch):
    y = np.array([0] * 6 + [1] * 2 + [2] * 2 + [0, 1, 0, 1])
    batch = np.array(["test"] * 10 + ["train"] * 4)
    monkeypatch.setattr(shift_folds, "_logistic", lambda rows, c: Certain(1.0))
    table = Table(-np.ones((14, 2), np.float32), y, batch)
    result = fold(table, Task("t", "none", ("test",)), "test", 0, "logistic", replace(SETTING, cs=(0.1,)))
    assert result["n_test"].item() == 8  # class 2 was never seen
    assert result["accuracy"].item() == 0.75
    assert result["balanced_accuracy"].item() == 0.5


def test_unknown_batch(toy):
    with pytest.raises(ValueError, match="held_out must be a batch of toy, got '9'"):
        fold(toy, TASK, "9", 0, "erm", SETTING)


def test_the_same_seed_gives_the_same_fold_and_another_one_does_not(toy):
    first, again, other = (
        fold(toy, TASK, "0", seed, "universal, per batch", replace(SETTING, test_all=True)) for seed in (4, 4, 5)
    )
    pd.testing.assert_frame_equal(first.drop(columns="seconds"), again.drop(columns="seconds"))
    assert not np.array_equal(first["validation"], other["validation"])


# inner splits


def confounded():
    """Batches: a has 0 0 1 1 1, b has only 2, c has 0 1 2 2 0 1, d has 0 1 3."""
    y = np.array([0, 0, 1, 1, 1] + [2] * 8 + [0, 1, 2, 2, 0, 1] + [0, 1, 3])
    batch = np.array(["a"] * 5 + ["b"] * 8 + ["c"] * 6 + ["d"] * 3)
    return Table(np.arange(44.0).reshape(22, 2), y, batch, sample_ids=tuple(range(22)))


def test_inner_splits_leave_out_the_largest_batches_with_two_known_classes():
    table = confounded()
    splits = list(inner_splits(table, 9, seed=0))
    assert [name for name, _, _ in splits] == ["c", "a", "d"]  # b, the largest, has one class
    assert [len(validation) for _, _, validation in splits] == [6, 5, 2]  # class 3 is in d alone
    for name, rows, validation in splits:
        assert set(rows.batch) == {"a", "b", "c", "d"} - {name}
        assert set(validation.batch) == {name}
        assert set(validation.y) <= set(rows.y)
    assert [name for name, _, _ in inner_splits(table, 2, seed=0)] == ["c", "a"]


@pytest.mark.parametrize("names", [("c",), ("b", "d")], ids=["one batch", "no batch with two known classes"])
def test_without_such_batches_random_quarters_validate(names):
    table = confounded()
    table = table.subset(of_batch(table, *names))
    drawn = {}
    for seed in (0, 0, 1, 2):
        splits = list(inner_splits(table, 2, seed))
        assert [name for name, _, _ in splits] == ["random quarter"] * 2
        for _, rows, validation in splits:
            assert not set(rows.sample_ids) & set(validation.sample_ids)
            assert set(validation.y) <= set(rows.y)
        ids = [validation.sample_ids for _, _, validation in splits]
        assert drawn.setdefault(seed, ids) == ids
    assert len({ids for pair in drawn.values() for ids in pair}) > 2


# preparation


def test_the_most_variable_columns_in_their_order():
    X = np.array([[0, 0, 0, 0], [1, 5, 0, 2]], np.float32)
    np.testing.assert_array_equal(most_variable(Table(X), 2), [1, 3])
    np.testing.assert_array_equal(most_variable(Table(X), None), [0, 1, 2, 3])
    np.testing.assert_array_equal(most_variable(Table(X), 9), [0, 1, 2, 3])


def test_columns_take_their_blocks_along():
    table = Table(np.arange(12.0).reshape(2, 6), feature_groups=(0, 0, 3, 3, 5, 5), feature_names=tuple("abcdef"))
    kept = with_columns(table, np.array([2, 3, 5]))
    np.testing.assert_array_equal(kept.X, [[2, 3, 5], [8, 9, 11]])
    assert kept.feature_groups == (0, 0, 1)


def test_every_tenth_snp_keeps_whole_snps():
    table = Table(np.zeros((2, 63)), batch=np.array([1, 2]), feature_groups=tuple(np.repeat(range(21), 3).tolist()))
    kept = Task("t", "none", (), every=10).prepared(table)
    assert kept.X.shape == (2, 9)
    assert kept.feature_groups == (0, 0, 0, 1, 1, 1, 2, 2, 2)
    assert kept.batch.tolist() == ["1", "2"]


def test_centred_batches_have_mean_zero_and_the_given_rows_stay(toy):
    before = toy.X.copy()
    moved = centred(toy)
    for name in "0123":
        np.testing.assert_allclose(moved.X[of_batch(toy, name)].mean(0), 0, atol=1e-5)
        step = toy.X[of_batch(toy, name)] - moved.X[of_batch(toy, name)]
        np.testing.assert_allclose(step - step[0], 0, atol=1e-5)
    np.testing.assert_array_equal(toy.X, before)


def test_known_rows():
    train, rows = Table(np.zeros((2, 1)), np.array(["a", "b"])), Table(np.zeros((3, 1)), np.array(["b", "c", "a"]))
    assert known(train, rows).y.tolist() == ["b", "a"]


# the list of pieces


def test_pieces_are_distinct_and_picklable():
    found = pieces(SCALES["cpu"], 2)
    assert len({piece.key for piece in found}) == len({piece.name for piece in found}) == len(found)
    assert all(piece.effort > 0 for piece in found)
    assert pickle.loads(pickle.dumps(found[0])) == found[0]
    calls = pd.DataFrame([{**piece.arguments, "task": piece.arguments["task"].name} for piece in found])
    assert set(calls["task"]) == set(TASKS)
    counts = calls.groupby(["task", "held_out", "method"]).size().unstack("method")
    assert (counts[["erm", "pgd", "low-rank", "group-sparse", "universal"]] == 2).all(axis=None)
    one_batch = counts.index.get_level_values("task").map(lambda name: TASKS[name].one_batch)
    assert (counts["logistic"] == np.where(one_batch, 2, 1)).all()
    assert (counts["universal, per batch"].isna() == one_batch).all()
    assert {piece.arguments["seed"] for piece in pieces(SCALES["cpu"], None)} == set(range(5))
    assert {piece.arguments["task"].name for piece in pieces(SCALES["quick"], None)} == {"stemcells"}


def test_a_piece_has_another_key_with_another_setting():
    found = pieces(SCALES["cpu"], 1)[0]
    longer = replace(found.arguments["setting"], n_outer=101)
    assert replace(found, arguments={**found.arguments, "setting": longer}).key != found.key


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_each_method_has_the_same_search(setting):
    assert len(setting.sizes) == len(setting.cs)
    assert list(setting.sizes) == sorted(setting.sizes, reverse=True)  # the strongest first
    assert list(setting.cs) == sorted(setting.cs)


# tables


def results():
    """Two tasks of two folds and one of a single fold; two seeds, one for logistic; a row that is not chosen."""
    balanced = {
        ("one", "a"): {"low-rank": (0.9, 0.7), "erm": (0.5, 0.5), "logistic": (0.6,)},
        ("one", "b"): {"low-rank": (0.6, 0.6), "erm": (0.4, 0.6), "logistic": (0.9,)},
        ("two", "a"): {"low-rank": (0.3, 0.5), "erm": (0.5, 0.5), "logistic": (0.4,)},
        ("two", "b"): {"low-rank": (0.8, 1.0), "erm": (0.9, 0.5), "logistic": (0.8,)},
    }
    rows = [
        {
            "data": task,
            "held_out": held_out,
            "seed": seed,
            "defence": method,
            "chosen": True,
            "balanced_accuracy": value,
        }
        for (task, held_out), methods in balanced.items()
        for method, values in methods.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame([*rows, {**rows[0], "chosen": False, "balanced_accuracy": np.nan}])


def test_differences_have_folds_as_units():
    found = differences(results(), ours=("low-rank", "universal"), baselines=("erm", "pgd", "logistic"))
    assert set(found["ours"]) == {"low-rank"}
    assert set(found["baseline"]) == {"erm", "logistic"}
    found = found.set_index(["case", "baseline"])
    one = found.loc[("one", "erm")]  # gaps 30 and 10
    assert one["difference"] == pytest.approx(20)
    assert one["standard_error"] == pytest.approx(10)
    assert one["high"] == pytest.approx(20 + 12.7062 * 10, rel=1e-4)  # Student's t with one degree of freedom
    assert one["low"] == pytest.approx(20 - 12.7062 * 10, rel=1e-4)
    assert (one["units"], one["better"], one["worse"], one["beats"]) == (2, 2, 0, False)
    two = found.loc[("two", "logistic")]  # gaps 0 and 10
    assert (two["difference"], two["better"], two["worse"]) == (pytest.approx(5), 1, 0)
    everything = found.loc[("all tasks", "erm")]  # task means 20 and 5
    assert everything["difference"] == pytest.approx(12.5)
    assert everything["standard_error"] == pytest.approx(7.5)


def test_more_seeds_do_not_make_errors_smaller():
    frame = results()
    more = pd.concat([frame, frame.assign(seed=frame["seed"] + 2), frame.assign(seed=frame["seed"] + 4)])
    pd.testing.assert_frame_equal(differences(frame), differences(more))


def test_summary_has_a_row_per_method_and_a_column_per_task():
    found = summary(results())
    assert found.index.tolist() == ["low-rank", "erm", "logistic"]
    assert found.loc["low-rank"].to_dict() == {"one": "70.0 ± 14.1", "two": "65.0 ± 35.4", "mean": "67.5"}
    alone = summary(results().query("data == 'one' and held_out == 'b'"))
    assert alone.loc["logistic"].to_dict() == {"one": "90.0", "mean": "90.0"}
    apart = summary(results().query("data == 'one' or defence != 'erm'"))
    assert apart.loc["erm"].to_dict() == {"one": "50.0 ± 0.0", "two": "", "mean": ""}


# real data


@pytest.mark.parametrize("name", TASKS)
def test_every_fold_of_a_task_can_be_tested(name, data_dir):
    task = TASKS[name]
    table = task.load(data_dir)
    assert len(task.held_out) < 6
    for held_out in task.held_out:
        away = of_batch(table, held_out)
        assert len(known(table.subset(~away), table.subset(away)).classes) > 1
        assert (len(set(table.batch[~away])) == 1) == task.one_batch
        splits = list(inner_splits(table.subset(~away), 2, seed=0))
        assert (splits[0][0] == "random quarter") == task.one_batch


def test_stem_cells_of_a_study_never_seen(data_dir, tmp_path):
    place = Place(tmp_path, data_dir)
    setting = SETTINGS["quick"]
    found = pd.concat(
        one_fold(place, TASKS["stemcells"], "2", seed, method, setting)
        for method, seeds in (("logistic", (0,)), ("low-rank", (0, 1)))
        for seed in seeds
    )
    assert set(found["n_train"]) == {74}
    assert set(found["n_test"]) == {51}
    assert (found.loc[found["chosen"], "balanced_accuracy"] > 0.4).all()  # three classes
    assert differences(found, baselines=("logistic",))["units"].tolist() == [1, 1]


def test_the_quick_version_ends_in_a_report(data_dir, tmp_path):
    order = Order([EXPERIMENT], SCALES["quick"], None, tmp_path)
    outcome = reproduce(order, data_dir=data_dir)["shifts"]
    assert set(outcome.tables["summary"]["defence"]) == set(METHODS)
    assert outcome.tables["results"]["fold"].tolist()[0] == 1
    assert set(outcome.tables["results"]["held_out"]) == {"1", "2", "3", "4"}
    assert (tmp_path / "shifts" / "shifts.png").read_bytes().startswith(b"\x89PNG")
    assert "batch held out" in gsat.report.build(tmp_path / "shifts")
    assert "mean of 1 tasks" in outcome.headline
