"""Folds of the real shifts: nothing is learnt from the test batch, and every candidate has its row."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

import gsat.report
from gsat.data import Table, make_batches
from gsat.experiments import digest
from gsat.experiments.plan import Order
from gsat.experiments.runner import reproduce
from gsat.experiments.setting import SCALES
from gsat.experiments.shift_candidates import Candidate, Setting, linear, plain_networks, robust_networks
from gsat.experiments.shift_choice import METHODS, Methods, chosen, over_seeds
from gsat.experiments.shift_folds import again, averaged, bases, fold, inner_splits
from gsat.experiments.shift_tasks import COLUMNS, TASKS, Task, chosen_tasks, fit_to_test, most_variable, with_columns
from gsat.experiments.shift_training import Split, linear_model, network, predicted
from gsat.experiments.shifts import EXPERIMENT, SETTINGS, pieces

TASK = Task("toy", "none", ("0", "1", "2", "3"))
ONE = Task("one", "none", ("0", "1"), one_batch=True)
SMALL = Setting(
    budgets=(0.05, 0.3), metric_budgets=(0.05, 0.3), gammas=(3.0,), draws=(0.1, 0.5), lengths=(0.5, 1.0),
    dro_steps=(0.01, 0.1), coral=(1.0, 10.0), cs=(1e-3, 1.0), metric_cs=(1e-3, 1.0), shrinkages=(0.1, 0.6),
    hidden=(0, 6), n_outer=6, n_inner=2, group_size=16, eta0=0.02, folds=2,
)  # fmt: skip
CANDIDATE = list(Candidate.__dataclass_fields__)
FAMILIES = ("erm", "pgd", "unstructured", "universal", "group-sparse", "low-rank", "group-dro", "coral", "random")


@pytest.fixture(scope="module")
def toy() -> Table:
    """Four batches of 40 samples, 20 features, three classes; each batch has a shift of its own."""
    made = make_batches(n=160, d=20, shift="universal", strength=0.6, seed=3)
    return TASK.prepared(replace(made, batch=np.unique(made.batch, return_inverse=True)[1]))


@pytest.fixture(scope="module")
def rows(toy):
    return fold(toy, TASK, "2", SMALL)[0]


def of_batch(table, *names):
    return np.isin(table.batch, names)


def relabelled(table, batch):
    """The labels of one batch moved on by one class."""
    return replace(table, y=np.where(of_batch(table, batch), (table.y + 1) % 3, table.y))


# a fold


def test_the_test_batch_does_not_choose(toy, rows):
    other = relabelled(toy, "2")
    other = replace(other, X=np.where(of_batch(toy, "2")[:, None], 7 * toy.X - 3, toy.X).astype(np.float32))
    other_rows, _ = fold(other, TASK, "2", SMALL)
    chosen_by = [*CANDIDATE, "inner", "inner_loss"]
    pd.testing.assert_frame_equal(rows[chosen_by], other_rows[chosen_by])
    assert not np.allclose(rows["balanced_accuracy"], other_rows["balanced_accuracy"])


def test_training_batches_do_choose(toy, rows):
    """The opposite of the last test: labels of a training batch change what is seen on the inner folds."""
    assert rows["inner"].mean() > fold(relabelled(toy, "1"), TASK, "2", SMALL)[0]["inner"].mean() + 0.1


def test_a_fold_has_a_row_for_every_candidate(rows):
    assert not rows.duplicated(CANDIDATE).any()
    assert set(rows["family"]) == {"majority", "logistic", "lda", *FAMILIES}
    assert rows[["inner", "inner_loss", "accuracy", "balanced_accuracy"]].notna().all(axis=None)
    assert set(rows["n_train"]) == {120}
    assert set(rows["n_test"]) == {40}
    assert set(rows["fold"]) == {3}
    plain = rows[(rows["family"] == "erm") & (rows["strength"] == 1)]
    assert len(plain) == 6  # three preparations, two widths
    best = plain.loc[plain["inner"] == plain["inner"].max()]
    low = rows[(rows["family"] == "low-rank") & (rows["metric"] == "none")]
    assert set(low["prepare"]) <= {"none", *best["prepare"]}
    assert set(rows.loc[rows["family"] == "coral", "hidden"]) == {6}


def test_seeds_after_the_first_test_what_is_taken(toy, rows):
    methods = Methods((METHODS["erm"], METHODS["low-rank, metric (prepared)"], METHODS["logistic"]))
    other = again(toy, rows, TASK, "2", SMALL, 1, methods)
    assert other[["inner", "inner_loss"]].isna().all(axis=None)
    assert set(other["seed"]) == {1}
    taken = chosen(over_seeds(rows), methods.all[:2])
    pd.testing.assert_frame_equal(taken[CANDIDATE].reset_index(drop=True), other[CANDIDATE].reset_index(drop=True))
    first = rows.merge(other[CANDIDATE])  # the same candidates with the first seed
    assert not np.array_equal(other["balanced_accuracy"], first["balanced_accuracy"])
    same = again(toy, rows, TASK, "2", SMALL, 1, methods)
    pd.testing.assert_frame_equal(other.drop(columns="seconds"), same.drop(columns="seconds"))
    both = over_seeds(pd.concat([rows, other])).merge(other[CANDIDATE])
    np.testing.assert_allclose(both["first"], first["balanced_accuracy"])
    np.testing.assert_allclose(
        both["balanced_accuracy"], (first["balanced_accuracy"].to_numpy() + other["balanced_accuracy"]) / 2
    )


def test_probabilities_are_those_of_the_rows(toy):
    rows, shares = fold(toy, TASK, "2", SMALL)
    assert shares.shape == (len(rows), 40, 3)
    y = toy.y[of_batch(toy, "2")]
    np.testing.assert_allclose((shares.argmax(-1) == y).mean(1), rows["accuracy"])


def test_averages_are_of_the_best_quarter(toy):
    rows, shares = fold(toy, TASK, "2", SMALL)
    y = toy.y[of_batch(toy, "2")]
    methods = Methods((METHODS["logistic"], METHODS["logistic (prepared)"], METHODS["GSAT all (prepared)"]))
    found = averaged(rows, shares, np.arange(3), y, methods).set_index("defence")
    assert found["averaged"].to_dict() == {
        "logistic": 2,  # of two
        "logistic (prepared)": 3,  # of six
        "GSAT all (prepared)": max(3, round(len(METHODS["GSAT all (prepared)"].among(rows)) / 4)),
    }
    plain = rows[(rows["family"] == "logistic") & (rows["metric"] == "none") & (rows["prepare"] == "none")]
    share = shares[plain.index].mean(0)
    assert found.loc["logistic", "accuracy"] == pytest.approx((share.argmax(1) == y).mean())
    swapped = averaged(rows, shares, np.arange(3), (y + 1) % 3, methods).set_index("defence")
    assert not np.allclose(swapped["accuracy"], found["accuracy"])
    assert swapped["averaged"].equals(found["averaged"])


def test_with_one_training_batch_what_needs_several_is_left_out(toy):
    found, _ = fold(toy.subset(of_batch(toy, "0", "1")), ONE, "1", SMALL)
    assert {"group-dro", "coral"}.isdisjoint(found["family"])
    assert set(found["metric"]) == {"none", "auto"}
    assert set(found["prepare"]) <= {"none", "zscore"}


def test_unknown_batch(toy):
    with pytest.raises(ValueError, match="held_out must be a batch of toy, got '9'"):
        fold(toy, TASK, "9", SMALL)


# splits


def test_the_rows_that_are_trained_on_make_columns_scale_and_metric(toy):
    train = np.flatnonzero(~of_batch(toy, "2"))
    split = Split.of(toy, train)
    one = Candidate("low-rank", 0.1, "auto", 3.0, hidden=6)
    X, test = split.seen("none")
    np.testing.assert_allclose(X.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(X.std(0), 1, atol=1e-4)
    other = Split.of(replace(toy, X=np.where(of_batch(toy, "2")[:, None], 5 * toy.X, toy.X)), train)
    np.testing.assert_array_equal(other.seen("none")[0], X)
    assert not np.allclose(other.seen("none")[1], test)
    torch.testing.assert_close(other.metric(one).directions, split.metric(one).directions)
    assert split.metric(replace(one, metric="none")) is None


def test_wide_tables_lose_columns_and_genotypes_do_not():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, COLUMNS + 5)).astype(np.float32) * np.arange(1, COLUMNS + 6)[::-1]
    table = Table(X, np.arange(12) % 2, np.repeat(["a", "b"], 6))
    assert Split.of(table, np.arange(6)).train.X.shape[1] == COLUMNS
    blocks = tuple((np.arange(COLUMNS + 5) // 3).tolist())
    assert Split.of(replace(table, feature_groups=blocks), np.arange(6)).train.X.shape[1] == COLUMNS + 5


def test_a_centred_batch_loses_the_mean_of_all_its_rows():
    """Also of those whose class was never seen: nobody knows which they are."""
    rng = np.random.default_rng(0)
    y, batch = np.array([0, 1] * 6 + [0, 1, 2, 2]), np.repeat(["a", "b", "c"], [6, 6, 4])
    table = Table(rng.normal(size=(16, 3)).astype(np.float32), y, batch)
    split = Split.of(table, np.arange(12))
    assert split.y.tolist() == [0, 1]
    train, test = split.seen("centre")
    whole = table.X[12:] - table.X[12:].mean(0)
    centred = np.concatenate([table.X[:6] - table.X[:6].mean(0), table.X[6:12] - table.X[6:12].mean(0)])
    np.testing.assert_allclose(test, whole[:2] / centred.std(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(train, centred / centred.std(0), rtol=1e-4, atol=1e-5)


def test_ridge_in_the_metric_penalises_weights_along_which_batches_differ(toy):
    """The weights w of x minimise the loss + wᵀA²w/2C: at its optimum the slope of the loss is −A²w/C."""
    split = Split.of(toy, np.flatnonzero(~of_batch(toy, "2")))
    one = Candidate("logistic", 0.05, "auto", 10.0)
    metric, (X, _) = split.metric(one), split.seen("none")
    y = (np.asarray(split.train.y) == 0).astype(int)
    Z = metric.solve(torch.from_numpy(X)).numpy()
    model = linear_model(one, 2).set_params(class_weight=None, tol=1e-10, max_iter=5000).fit(Z.astype(np.float64), y)
    w = metric.solve(torch.from_numpy(model.coef_[0])).numpy()
    share = 1 / (1 + np.exp(-(X @ w + model.intercept_[0])))
    slope = one.strength * X.T.astype(np.float64) @ (y - share)
    expected = metric.apply(metric.apply(torch.from_numpy(w))).numpy()
    np.testing.assert_allclose(slope, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("one", list(robust_networks(SMALL, Candidate("erm", hidden=6), several=True)))
def test_every_candidate_of_networks_can_be_trained(toy, one):
    split = Split.of(toy, np.flatnonzero(~of_batch(toy, "2")))
    share, classes = predicted(one, split, SMALL, 0)
    assert share.shape == (40, 3)
    np.testing.assert_allclose(share.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(classes, [0, 1, 2])
    made = network(one, SMALL, split.metric(one), None, 0)
    assert made.hidden == 6
    assert made.n_outer == (one.strength * 6 if one.family == "erm" else 6)


def test_inner_splits_leave_out_the_largest_batches_with_two_known_classes():
    y = np.array([0, 0, 1, 1, 1] + [2] * 8 + [0, 1, 2, 2, 0, 1] + [0, 1, 3])
    batch = np.array(["a"] * 5 + ["b"] * 8 + ["c"] * 6 + ["d"] * 3)
    table = Table(np.arange(44.0).reshape(22, 2), y, batch)
    splits = inner_splits(table, 9)
    assert [set(split.away.batch) for split in splits] == [{"c"}, {"a"}, {"d"}]  # b, the largest, has one class
    assert [len(split.y) for split in splits] == [6, 5, 2]  # class 3 is in d alone
    assert len(inner_splits(table, 2)) == 2
    assert fit_to_test(table) == ("c", "a", "d")
    assert fit_to_test(table, 1) == ("c",)


def test_without_such_batches_random_folds_leave_people_whole():
    people = np.arange(40) // 2
    table = Table(np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2, np.full(40, "a"), group=people)
    splits = inner_splits(table, 4)
    assert sum(len(split.y) for split in splits) == 40
    for split in splits:
        assert not set(split.train.group) & set(split.away.group)


def test_bases_are_the_best_without_preparation_and_the_best_of_all():
    plain = plain_networks(SMALL, ("none", "centre"))
    scores = np.array([[0.5, 2.0], [0.5, 1.0], [0.7, 1.0], [0.6, 0.1]])
    assert bases(plain, scores) == [plain[1], plain[2]]
    scores[2:, 0] = 0.4
    assert bases(plain, scores) == [plain[1]]


# columns


def test_the_most_variable_columns_in_their_order():
    X = np.array([[0, 0, 0, 0], [1, 5, 0, 2]], np.float32)
    np.testing.assert_array_equal(most_variable(X, 2), [1, 3])
    np.testing.assert_array_equal(most_variable(X, 9), [0, 1, 2, 3])


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


# the list of pieces


def test_pieces_are_distinct_and_picklable():
    found = pieces(SCALES["cpu"], 2)
    assert len({piece.key for piece in found}) == len({piece.name for piece in found}) == len(found)
    assert all(piece.effort > 0 for piece in found)
    assert pickle.loads(pickle.dumps(found[0])) == found[0]
    assert len(found) == 3 * sum(min(4, len(task.held_out)) for task in TASKS.values())  # a seed, another, averages
    assert {piece.arguments.get("seed") for piece in pieces(SCALES["cpu"], None)} == {None, 1, 2}
    quick = pieces(SCALES["quick"], None)
    assert len(quick) == 2 * 2 * len(TASKS)


def test_the_time_of_the_scales():
    """On two cores at most three hours and twenty minutes, as estimated."""
    for name, most in (("cpu", 2 * 180), ("quick", 2 * 20)):
        assert sum(piece.effort for piece in pieces(SCALES[name], None)) / 60 < most


def test_some_tasks_alone():
    some = replace(SCALES["cpu"], tasks=("emg-myo", "gas-drift"))
    assert {piece.arguments["task"].name for piece in pieces(some, 1)} == {"gas-drift", "emg-myo"}
    everything = {piece.key for piece in pieces(SCALES["cpu"], 1)}
    assert {piece.key for piece in pieces(some, 1)} < everything  # so that the whole goes on from the parts
    with pytest.raises(ValueError, match=r"tasks must be among gas-drift, .*, got 'nothing'"):
        chosen_tasks(("nothing",))


def test_a_piece_has_another_key_with_another_setting():
    found = pieces(SCALES["cpu"], 1)[0]
    longer = replace(found.arguments["setting"], n_outer=101)
    assert replace(found, arguments={**found.arguments, "setting": longer}).key != found.key


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_each_method_has_the_same_number_of_candidates(setting):
    counts = pd.Series(
        [(one.family, one.metric) for one in robust_networks(setting, Candidate("erm"), several=True)]
        + [(one.family, one.metric) for one in linear(setting, ("none",)) if one.family != "majority"]
    ).value_counts()
    assert counts.nunique() == 1
    assert 1.0 in setting.lengths
    assert set(setting.metric_budgets) <= set(setting.budgets)


# real data


@pytest.mark.parametrize("name", TASKS)
def test_held_out_are_the_largest_batches_that_can_be_tested(name, data_dir):
    task = TASKS[name]
    table = task.load(data_dir)
    assert fit_to_test(table) == task.held_out
    for held_out in task.held_out:
        train = table.batch[~of_batch(table, held_out)]
        assert (len(set(train)) == 1) == task.one_batch
        assert min(np.unique(train, return_counts=True)[1]) > 1  # a batch of one sample cannot be centred
    if task.same_as:
        assert TASKS[task.same_as].data == task.data


def test_the_quick_version_ends_in_a_report(data_dir, tmp_path, monkeypatch):
    tiny = replace(
        SETTINGS["quick"], budgets=(0.03,), metric_budgets=(0.03,), draws=(0.1,), lengths=(1.0,), dro_steps=(0.01,),
        coral=(1.0,), cs=(0.1,), metric_cs=(0.1,), shrinkages=(0.1,), hidden=(10,), n_outer=2, n_inner=2,
    )  # fmt: skip
    monkeypatch.setitem(SETTINGS, "quick", tiny)
    scale = replace(SCALES["quick"], tasks=("stemcells", "bladderbatch"))
    order = Order([EXPERIMENT], scale, None, tmp_path)
    outcome = reproduce(order, data_dir=data_dir)["shifts"]
    assert set(outcome.tables["summary"]["defence"]) == set(METHODS)
    assert set(outcome.tables["folds"]["held_out"]) == {"1", "2", "5"}
    folder = tmp_path / "shifts"
    for name in ("shifts", "ranks_alone", "ranks_prepared"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = gsat.report.build(folder)
    assert "batch held out" in page
    assert "GSAT all" in page
    assert "mean of 2 sets" in outcome.headline
    assert order.command(EXPERIMENT) == "gsat reproduce shifts --quick --tasks stemcells,bladderbatch"
    differences = outcome.tables["differences"]
    assert set(differences["case"]) == {"all sets", "stemcells", "bladderbatch"}
    assert set(differences["units"]) == {2}
    gains = outcome.tables["averaging"]
    assert set(gains["case"]) == {"all sets"}
    assert {"GSAT all (prepared) (averaged)", "logistic (averaged)"} <= set(gains["ours"])
    lines = digest.shifts_table(tmp_path).splitlines()
    assert lines[0] == "| method | as it is | preparation chosen | best quarter averaged |"
    assert len(lines) == 2 + sum("(prepared)" not in name for name in METHODS)
    assert [line.split(" | ")[0] for line in digest.sets_table(tmp_path).splitlines()[2:]] == [
        "| stemcells",
        "| bladderbatch",
    ]
