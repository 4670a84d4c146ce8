"""What check works on: what is left out, what is said of it, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from gsat.data import Table, make_batches, memory
from gsat.data.rows import BLOCK
from gsat.experiments.check_folds import missed, preparations, sides, training_rows
from gsat.experiments.check_subject import Limits, subject_of, thinned
from gsat.experiments.shift_training import Split
from stored import watched, wide

LIMITS = Limits()


def table(sizes, *, classes=3, d=6, seed=0, **columns):
    """Batches b0, b1, ... of these sizes; the classes follow each other in every batch."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    batch = np.repeat([f"b{i}" for i in range(len(sizes))], sizes)
    y = np.concatenate([np.arange(size) % classes for size in sizes])
    return Table(rng.normal(size=(n, d)).astype(np.float32), **{"y": y, "batch": batch} | columns)


def said(found):
    return " ".join(found.notes)


def test_every_batch_is_left_out_the_largest_first():
    found = subject_of(table([12, 30, 21]), LIMITS)
    assert found.tested == ("b1", "b2", "b0")
    assert found.by_batch
    assert found.notes == ()
    assert found.counts().loc["b1"].tolist() == [10, 10, 10]
    assert subject_of(table([12, 30, 21]), replace(LIMITS, batches=2)).tested == ("b1", "b2")


def test_the_same_samples_have_the_same_identity():
    one = subject_of(table([12, 30]), LIMITS).identity
    assert one == subject_of(table([12, 30]), LIMITS).identity
    assert one != subject_of(table([12, 30], seed=1), LIMITS).identity
    assert one != subject_of(table([12, 30]), replace(LIMITS, features=3)).identity


def test_batches_that_cannot_be_tested_are_named():
    made = table([12, 12, 4, 9])
    y = np.where(made.batch == "b3", 1, made.y)
    found = subject_of(replace(made, y=y), LIMITS)
    assert found.tested == ("b0", "b1")
    assert "fewer than two of its classes are in other batches: b3" in said(found)
    assert "with fewer than 5 samples: b2" in said(found)


def test_a_class_of_one_batch_and_a_rare_one():
    made = table([12, 12, 12])
    y = made.y.copy()
    y[:2] = 7
    found = subject_of(replace(made, y=y), LIMITS)
    assert "In a single batch, and not tested where that is left out: class 7" in said(found)
    assert "Fewer than 5 samples: class 7 (2)" in said(found)


def test_batches_and_classes_are_confounded():
    made = table([12, 12, 12])
    with pytest.raises(ValueError, match="batches and classes are confounded, and no accuracy on a batch never seen"):
        subject_of(replace(made, y=np.unique(made.batch, return_inverse=True)[1]), LIMITS)


def test_two_batches():
    found = subject_of(table([40, 40]), LIMITS)
    assert "each model is trained on one" in said(found)
    assert preparations(found, "b0", 3) == ["none", "zscore"]
    assert sides(found, "b0", 3).outer.batch is None


def test_without_batches_random_folds():
    for batch in (None, np.repeat("only", 60)):
        found = subject_of(table([60], batch=batch), LIMITS)
        assert found.tested == tuple(f"fold {i}" for i in range(1, 6))
        assert not found.by_batch
        assert "nothing is known about a next batch" in said(found)
        assert preparations(found, "fold 1", 3) == ["none", "zscore"]
        assert np.bincount(np.unique(found.units, return_inverse=True)[1]).tolist() == [12] * 5


def test_groups_stay_together():
    groups = np.arange(60) // 4
    found = subject_of(table([60], batch=None, group=groups), LIMITS)
    assert all(len(set(found.units[groups == each])) == 1 for each in range(15))
    found = subject_of(table([30, 30], group=np.arange(60) % 40), LIMITS)
    rows = training_rows(found, "b0")
    assert not set(np.asarray(found.table.group)[rows]) & set(np.asarray(found.table.group)[found.units == "b0"])
    assert len(sides(found, "b0", 2).outer.y) == 30
    assert "20 groups have samples in several batches" in said(found)


def test_centring_needs_several_samples_of_every_batch():
    assert preparations(subject_of(table([20, 20, 20]), LIMITS), "b0", 3) == ["none", "centre", "zscore"]
    assert preparations(subject_of(table([20, 20, 20, 1]), LIMITS), "b0", 3) == ["none", "zscore"]


def test_the_tested_batch_chooses_nothing():
    """Columns, preparations and inner folds are those of the training rows, whatever the tested batch holds."""
    made = table([30, 30, 30], d=20)
    away = made.batch == "b0"
    other = replace(made, X=np.where(away[:, None], 50 * made.X, made.X), y=np.where(away, 2 - made.y, made.y))
    one, two = (sides(subject_of(each, replace(LIMITS, features=5)), "b0", 2) for each in (made, other))
    np.testing.assert_array_equal(one.outer.train.X, two.outer.train.X)
    assert len(one.inner) == len(two.inner) == 2
    for a, b in zip(one.inner, two.inner, strict=True):
        np.testing.assert_array_equal(a.away.X, b.away.X)
        assert set(a.train.batch) | set(a.away.batch) == {"b1", "b2"}


def test_classes_that_are_never_recognised_are_named():
    split = sides(subject_of(table([12, 12, 12]), LIMITS), "b0", 2).outer
    assert missed(np.eye(3)[split.y], split) == ""
    assert missed(np.eye(3)[np.minimum(split.y, 1)], split) == "2"
    assert missed(np.eye(3)[np.zeros_like(split.y)], split) == "1, 2"


def test_what_the_numbers_and_names_look_like_is_a_note():
    made = table([12, 12, 12], d=30)
    assert said(subject_of(made, LIMITS)) == ""
    counts = np.random.default_rng(0).poisson(20.0, made.X.shape).astype(np.float32)
    counts[0, 0] = 90
    names = ("age", *(f"ENSG{i:011d}" for i in range(29)))
    found = subject_of(replace(made, X=counts, feature_names=names), LIMITS).notes
    assert found[0].startswith("The samples look like raw counts (whole numbers, ")
    assert "--normalise log1p-cpm" in found[0]
    assert found[1] == (
        "The feature age is unlike the others and trained on with them; --drop age leaves out what is no measurement."
    )


def test_large_data_is_thinned_and_that_is_said():
    made = make_batches(n=400, d=4, seed=0)
    found = subject_of(made, Limits(samples=100, features=3))
    assert 90 <= len(found.table) <= 110
    assert f"{len(found.table)} of 400 samples" in said(found)
    assert "The 3 most variable of 4 features" in said(found)
    assert thinned(np.array([0] * 98 + [1] * 2), np.repeat("a", 100), 20, 0)[-2:].tolist() == [98, 99]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.zeros(36)}, "y must hold at least two classes, got 0.0 alone"),
        ({"y": np.linspace(0, 1, 36)}, "y must hold classes, got numbers such as 0.02"),
        ({"y": np.arange(36)}, "36 different numbers from 0 to 35 in 36 samples, which look continuous"),
        ({"y": np.arange(36).astype(str)}, "36 different labels of 36 samples: it looks like a column of names"),
        ({"y": np.array([1.0] * 35 + [np.nan])}, "y must have a label for every sample, got none for 1 of 36"),
        ({"y": None}, "y must hold the labels"),
        ({"batch": np.array([None] * 3 + ["a"] * 33, dtype=object)}, "got none for 3 of 36"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        subject_of(replace(table([12, 12, 12]), **changes), LIMITS)


def test_missing_numbers_are_refused_by_name():
    made = table([12, 12, 12], feature_names=tuple("abcdef"))
    made.X[3, 2] = np.nan
    with pytest.raises(ValueError, match="got 1 samples with NaN or infinity in feature 'c', and 1 of 6 such features"):
        subject_of(made, LIMITS)


def test_samples_that_stay_in_their_file_are_looked_at_a_block_at_a_time(monkeypatch):
    X, y, batch, stored = wide()
    asked, limits = watched(monkeypatch), replace(LIMITS, features=20)
    found, expected = (subject_of(Table(rows, y, batch.astype(str)), limits) for rows in (stored, X.toarray()))
    assert (found.identity, found.notes, found.tested) == (expected.identity, expected.notes, expected.tested)
    ours, theirs = (Split.of(each.table, np.flatnonzero(each.units != "0"), most=20) for each in (found, expected))
    np.testing.assert_array_equal(ours.train.X, theirs.train.X)
    np.testing.assert_array_equal(ours.away.X, theirs.away.X)
    assert 0 < max(asked) <= BLOCK < np.prod(X.shape) // 2
    with (
        memory.limited("100kB"),
        pytest.raises(ValueError, match=r"1,666 samples of 20 features needs 133 kB .* lower"),
    ):
        Split.of(found.table, np.flatnonzero(found.units != "0"), most=20)
