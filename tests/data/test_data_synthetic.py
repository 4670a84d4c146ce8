"""Synthetic batches: the shift has the structure and the size that were asked for."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gsat.data import make_batches, make_cell_types, make_shift

SHIFTS = ("universal", "low-rank", "group-sparse")
MAKERS = {shift: lambda shift=shift, **options: make_batches(shift=shift, **options) for shift in SHIFTS}
MAKERS["cell types"] = make_cell_types


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_samples_are_clean_plus_shift(make):
    clean = make(n=90, d=20, seed=4, strength=0.0)
    moved = make(n=90, d=20, seed=4, strength=0.7)
    assert (clean.shift == 0).all()
    assert moved.X.dtype == np.float32
    np.testing.assert_array_equal(moved.X, clean.X + moved.shift)
    np.testing.assert_array_equal(moved.y, clean.y)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("strength", [0.05, 0.8])
def test_strength_is_the_mean_norm_of_the_shift_in_mean_row_norms(make, strength):
    table = make(n=90, d=20, strength=strength)
    row_norm = np.linalg.norm(table.X - table.shift, axis=1).mean()
    assert np.linalg.norm(table.test.shift, axis=1).mean() == pytest.approx(strength * row_norm, rel=1e-5)
    assert np.linalg.norm(table.train.shift, axis=1).mean() == pytest.approx(strength * row_norm / 4, rel=1e-5)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_same_seed_same_samples(make):
    first, again, other = make(n=60, seed=1), make(n=60, seed=1), make(n=60, seed=2)
    np.testing.assert_array_equal(first.X, again.X)
    assert first.checksum == again.checksum != other.checksum
    assert (first.X != other.X).any()


def test_universal_shift_is_one_vector_per_batch():
    table = make_batches(n=70, d=9, n_batches=5, shift="universal", seed=3)
    vectors = [np.unique(table.shift[table.batch == name], axis=0) for name in np.unique(table.batch)]
    assert [len(each) for each in vectors] == [1] * 5
    assert len(np.unique(np.concatenate(vectors), axis=0)) == 5


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_low_rank_shift_has_that_rank_and_shared_directions(rank):
    table = make_batches(n=80, d=11, shift="low-rank", rank=rank, seed=6)
    for part in (table.test, table):
        singular = np.linalg.svd(part.shift, compute_uv=False)
        assert singular[rank - 1] > 1e-2 * singular[0]
        assert singular[rank] < 1e-5 * singular[0]


def test_low_rank_mixtures_differ_by_sample_and_in_the_mean_by_batch():
    table = make_batches(n=2000, d=11, n_batches=4, shift="low-rank", rank=2, seed=6)
    first, second = (table.shift[table.batch == name] for name in np.unique(table.test.batch))
    assert len(np.unique(first, axis=0)) == len(first)
    error = np.sqrt(first.var(axis=0).sum() / len(first) + second.var(axis=0).sum() / len(second))
    assert np.linalg.norm(first.mean(axis=0) - second.mean(axis=0)) > 10 * error
    assert first.std(axis=0).sum() != pytest.approx(second.std(axis=0).sum(), rel=0.05)


@pytest.mark.parametrize("make", [MAKERS["group-sparse"], make_cell_types], ids=["batches", "cell types"])
@pytest.mark.parametrize("k", [1, 7])
def test_group_sparse_shift_moves_k_features_of_every_sample(make, k):
    table = make(n=80, d=30, k=k, seed=2)
    active = table.shift != 0
    assert (active.any(axis=0) == active.all(axis=0)).all()
    assert active.any(axis=0).sum() == k
    column = table.test.shift[:, np.flatnonzero(active[0])[0]]
    assert len(np.unique(column)) == len(column)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_train_and_test_share_classes_but_no_batch(make):
    table = make(n=120)
    assert not set(table.train.batch) & set(table.test.batch)
    assert len(np.unique(table.train.batch)) == len(np.unique(table.test.batch)) == 2
    for name in np.unique(table.batch):
        counts = np.unique(table.y[table.batch == name], return_counts=True)[1]
        assert len(counts) == len(table.classes)
        assert counts.max() - counts.min() <= 1


def test_an_odd_number_of_batches_trains_on_the_larger_half():
    table = make_batches(n=60, n_batches=5)
    assert np.unique(table.train.batch).tolist() == ["batch0", "batch1", "batch2"]
    assert np.unique(table.test.batch).tolist() == ["batch3", "batch4"]


def test_cell_types_look_like_log_expression():
    table = make_cell_types(seed=5)
    assert table.X.min() == 0
    assert table.X.max() < 12
    counts = np.expm1((table.X - table.shift)[:, (table.shift == 0).all(axis=0)])
    np.testing.assert_allclose(counts, np.round(counts), rtol=1e-5)
    assert table.classes.tolist() == ["diseased", "healthy"]
    assert np.unique(table.batch).tolist() == ["type0", "type1", "type2", "type3"]
    assert table.feature_names[-1] == "gene199"


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_classes_overlap_a_little_and_the_shift_costs_accuracy(make):
    unmoved, moved = [], []
    for seed in range(5):
        table, clean = make(seed=seed, strength=0.5), make(seed=seed, strength=0.0)
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000))
        model.fit(table.train.X, table.train.y)
        unmoved.append(model.score(clean.test.X, clean.test.y))
        moved.append(model.score(table.test.X, table.test.y))
    assert 0.85 < np.mean(unmoved) < 0.99
    assert np.mean(moved) < np.mean(unmoved) - 0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shift": "sparse"}, "shift must be one of universal, low-rank, group-sparse, got 'sparse'"),
        ({"shift": "low-rank", "rank": 0}, "rank must be >= 1 and <= 50, got 0"),
        ({"shift": "low-rank", "rank": 11, "n": 20}, "rank must be >= 1 and <= 10, got 11"),
        ({"shift": "group-sparse", "k": 51}, "k must be >= 1 and <= 50, got 51"),
        ({"n_classes": 1}, "n_classes must be >= 2 and <= 600, got 1"),
        ({"n_batches": 1}, "n_batches must be >= 2 and <= 600, got 1"),
        ({"n": 11}, "n must be >= 12, got 11"),
        ({"strength": -0.1}, "strength must be >= 0 and finite, got -0.1"),
        ({"strength": float("nan")}, "strength must be >= 0 and finite, got nan"),
    ],
)
def test_make_batches_refuses(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        make_batches(**options)


def test_options_of_another_shift_are_not_looked_at():
    assert make_batches(d=3, shift="universal", k=5, rank=4).X.shape == (600, 3)


def test_make_cell_types_refuses_one_type():
    with pytest.raises(ValueError, match=r"^n_types must be >= 2 and <= 600, got 1$"):
        make_cell_types(n_types=1)


@pytest.mark.parametrize("shift", ["none", "universal", "per class", "group-sparse", "low-rank", "unstructured"])
def test_a_single_shift_has_its_structure_and_size(shift):
    table = make_shift(120, 30, 2, shift=shift, strength=0.7, rank=4, k=3, seed=9)
    moved = table.shift[table.batch == "moved"]
    assert (table.shift[table.batch == "reference"] == 0).all()
    assert moved.any() == (shift != "none")
    norm = np.linalg.norm(moved, axis=1).mean() / np.linalg.norm(table.X - table.shift, axis=1).mean()
    assert norm == pytest.approx(0.7 if moved.any() else 0, rel=1e-5)
    rank, distinct, columns = np.linalg.matrix_rank(moved), len(np.unique(moved, axis=0)), moved.any(axis=0).sum()
    assert (rank, distinct, columns) == {
        "none": (0, 1, 0),
        "universal": (1, 1, 30),
        "per class": (2, 2, 30),
        "group-sparse": (3, 60, 3),
        "low-rank": (4, 60, 30),
        "unstructured": (30, 60, 30),
    }[shift]


def test_a_single_shift_of_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"shift must be one of none, universal, per class, .*got 'sparse'"):
        make_shift(shift="sparse")
    with pytest.raises(ValueError, match="k must be >= 1 and <= 8, got 9"):
        make_shift(d=8, shift="group-sparse", k=9)
