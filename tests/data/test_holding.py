"""Which batches are held out, and what labels and batches make a user doubt."""

import numpy as np
import pytest

from gsat.data import Table
from gsat.data.doubts import continuous, doubts
from gsat.data.holding import apart, described, largest_batches


def table(cells, **more):
    """Samples by (batch, class, number)."""
    rows = [(batch, label) for batch, label, n in cells for _ in range(n)]
    batch, y = (np.array([row[i] for row in rows]) for i in (0, 1))
    return Table(np.zeros((len(rows), 2), np.float32), y=y, batch=batch, **more)


@pytest.mark.parametrize(
    ("cells", "held"),
    [
        ([("a", "x", 9), ("a", "y", 9), ("b", "x", 20), ("b", "y", 5), ("c", "x", 8), ("c", "y", 8)], {"b"}),
        ([("a", "x", 9), ("b", "x", 20), ("b", "y", 5), ("c", "x", 3)], {"a"}),  # only b has y
        ([("a", "x", 90), ("a", "y", 9), ("b", "x", 20), ("b", "y", 5)], {"b"}),  # a is most of the samples
        ([("a", "x", 90), ("a", "y", 9), ("b", "x", 20), ("b", "y", 5), ("b", "z", 5)], {"a"}),  # but b has z alone
        ([(f"b{i}", c, 5 + (i == 7)) for i in range(20) for c in "xy"], {"b7", "b0", "b1", "b10"}),
        ([("a", "x", 9), ("b", "y", 9)], None),
        ([("a", "x", 9), ("a", "y", 9)], None),
    ],
)
def test_the_largest_batches_are_held_out_that_leave_all_classes(cells, held):
    made = table(cells)
    rows = largest_batches(made)
    if held is None:
        assert rows is None
        return
    assert set(made.batch[rows].tolist()) == held
    assert not set(made.batch[~rows].tolist()) & held
    assert set(made.y[~rows].tolist()) == set(made.y.tolist())
    split = made.split_where(rows)
    assert set(apart(split)) == held
    told = described(split, "batches")
    assert set(told.batches) == held
    assert not told.flatters
    assert f"{rows.sum()} of {len(made)} samples" in told.why


def test_random_samples_flatter_and_say_why():
    confounded = table([("a", "x", 9), ("b", "y", 9)]).split_at_random(0.25)
    told = described(confounded, "random samples")
    assert told.flatters
    assert "no whole batch can be held out, since each has a class that the others lack" in told.why
    alone = Table(np.zeros((8, 1), np.float32), y=np.array(list("xyxyxyxy"))).split_at_random(0.25)
    assert "no batches were given (--batch)" in described(alone, "random samples").why
    assert described(alone.split_where([False] * 8), "none").kind == "none"


def test_confounded_labels_are_told():
    found = " ".join(doubts(table([("a", "x", 9), ("b", "y", 9), ("c", "x", 4), ("c", "y", 4)]).split_at_random(0.25)))
    assert "a single class in batches a, b" in found
    assert "the batch alone gives the label of 85% of the samples, where the largest class has 50%" in found
    assert "one batch alone" not in found
    found = " ".join(doubts(table([("a", "x", 9), ("b", "y", 3), ("b", "x", 9)]).split_at_random(0.25)))
    assert "one batch alone has class y: no other batch can test that" in found
    assert "fewer than 5 training samples of class y (2)" in found
    assert doubts(table([("a", "x", 9), ("a", "y", 9), ("b", "x", 9), ("b", "y", 9)]).split_at_random(0.25)) == []
    assert "there is one batch" in doubts(table([("a", "x", 9), ("a", "y", 9)]).split_at_random(0.25))[0]


def test_where_a_large_batch_has_one_class_the_small_ones_are_named_too():
    both = [("c", "x", 9), ("c", "y", 9)]
    found = doubts(table([("a", "x", 9), ("b", "y", 3), ("d", "y", 1), *both]))
    assert found[0].startswith("a single class in batches a, b: ")
    assert not any("single class" in one for one in doubts(table([("b", "y", 4), *both])))


def test_tiny_batches_are_no_confounding():
    rng = np.random.default_rng(0)
    cells = [(f"b{i}", "xy"[int(rng.integers(2))], 1) for i in range(60)]
    assert not any("confounded" in one or "single class" in one for one in doubts(table(cells).split_at_random(0.25)))


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (np.array([0.5, 1, 2]), "numbers such as 0.5"),
        (np.arange(18, 80), "62 different numbers from 18 to 79 in 62 samples"),
        (np.repeat(np.arange(10), 30), None),
        (np.repeat(np.arange(100), 50), None),  # a hundred kinds of pictures
        (np.arange(15.0), None),
        (np.array(list("abcdefghijklmnopqrstuvwxyz")), None),
    ],
)
def test_labels_that_look_continuous_are_told(labels, found):
    assert continuous(labels) == found
