"""The ground metric: a symmetric map with an exact inverse, and how it is learnt from batches and classes."""

import numpy as np
import pandas as pd
import polars
import pytest
import torch
from scipy import sparse

import gsat
from gsat.data.rows import BLOCK
from gsat.metric import spread
from gsat.metric.metric import fitting
from stored import watched, wide
from strategies import normal

D = 30


def orthonormal(r, d=D, seed=0):
    return torch.linalg.qr(normal(d, r, seed=seed)).Q.T.contiguous()


def metric(r=4, d=D, rest=0.7, dtype=torch.float64):
    return gsat.Metric(orthonormal(r, d).to(dtype), torch.linspace(0.3, 5.0, r, dtype=dtype), rest)


def shifted(n=3000, d=D, n_batches=4, n_classes=3, seed=0, size=2.0):
    """X = class mean + batch shift + noise of different widths, with mixes of classes that differ by batch."""
    rng = np.random.default_rng(seed)
    means, shifts = 3 * rng.normal(size=(n_classes, d)), size * rng.normal(size=(n_batches, d))
    batch = rng.integers(n_batches, size=n)
    y = np.where(rng.random(n) < 0.6, batch % n_classes, rng.integers(n_classes, size=n))
    width = np.linspace(0.2, 1.5, d)
    return means[y] + shifts[batch] + width * rng.normal(size=(n, d)), y, batch, shifts - shifts.mean(0), width


def covariance(metric, d=D):
    """A², what S is mixed into."""
    A = metric.apply(torch.eye(d, dtype=metric.directions.dtype))
    return (A @ A).double()


@pytest.mark.parametrize("shape", [(D,), (5, D), (5, 2, 3, 5)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_solve_inverts_apply(shape, dtype, tolerance):
    found, z = metric(dtype=dtype), normal(*shape, seed=1).to(dtype)
    assert found.apply(z).shape == z.shape
    assert float((found.solve(found.apply(z)) - z).abs().max()) <= tolerance * float(z.abs().max())
    assert float((found.apply(found.solve(z)) - z).abs().max()) <= tolerance * float(z.abs().max())


def test_it_stretches_its_directions_and_is_symmetric():
    found = metric()
    moved = found.apply(found.directions)
    torch.testing.assert_close(moved, found.stretch[:, None] * found.directions, rtol=1e-10, atol=1e-12)
    across = normal(1, D, seed=2)
    across -= across @ found.directions.T @ found.directions
    torch.testing.assert_close(found.apply(across), 0.7 * across, rtol=1e-10, atol=1e-12)
    A = found.apply(torch.eye(D, dtype=torch.float64))
    torch.testing.assert_close(A, A.T, rtol=1e-10, atol=1e-12)


def test_a_masked_metric_is_the_square_cut_to_the_mask():
    found, mask = metric(), torch.arange(D) % 3 > 0
    cut = found.restricted(mask)
    expected = torch.where(mask[:, None] & mask, covariance(found), 0) + 0.7**2 * torch.diag((~mask).double())
    torch.testing.assert_close(covariance(cut), expected, rtol=1e-9, atol=1e-9)
    z = torch.where(mask, normal(4, D, seed=3), 0)
    assert not cut.apply(z)[:, ~mask].any()
    assert found.restricted(None) is found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"directions": torch.ones(2, D)}, "orthonormal"),
        ({"directions": torch.ones(D)}, r"shape \(r, d\)"),
        ({"stretch": torch.ones(3)}, "one number per direction"),
        ({"stretch": torch.tensor([1.0, 0.0])}, "above 0"),
        ({"stretch": torch.tensor([1.0, float("nan")])}, "above 0"),
        ({"rest": 0.0}, "rest must be > 0"),
    ],
)
def test_wrong_metrics_are_refused(change, words):
    given = {"directions": orthonormal(2), "stretch": torch.ones(2), "rest": 1.0} | change
    with pytest.raises(ValueError, match=words):
        gsat.Metric(**given)


def test_a_metric_of_other_features_is_refused():
    with pytest.raises(ValueError, match="of the 7 features of a sample, got one of 30"):
        fitting(metric(), torch.zeros(2, 7))
    with pytest.raises(TypeError, match=r"metric must be a gsat\.Metric"):
        fitting("auto", torch.zeros(2, D))


def test_shifts_are_those_of_the_additive_model():
    X, y, batch, shifts, width = shifted()
    codes = (spread._codes("y", v, len(X)) for v in (y, batch))
    cells = spread._cells(X, *codes, spread._counts(None, len(X)))
    found, _ = spread.shifts_of(cells)
    order = [int(batch[cells.cell == c][0]) for c in range(len(cells.size))]
    of_batch = {int(b): int(name) for b, name in zip(cells.batch, order, strict=True)}
    expected = np.stack([shifts[of_batch[b]] for b in range(4)])
    error = 6 * width * np.sqrt(4 * 3 / len(X))
    assert (np.abs(found.numpy() - expected) <= error).all()
    naive = np.stack([X[batch == of_batch[b]].mean(0) for b in range(4)])
    assert np.abs(naive - naive.mean(0) - expected).max() > 3 * np.abs(found.numpy() - expected).max()


def test_a_class_that_one_batch_alone_has_is_no_shift():
    X, y, batch, *_ = shifted(size=0.0)
    X[batch == 0] += 50.0  # with a class of its own, nobody can tell whether this is the class or the batch
    y = np.where(batch == 0, 3, y)
    found = gsat.Metric.from_batches(X, y, batch, gamma=100.0, kind="between")
    along = torch.full((1, D), 1 / np.sqrt(D), dtype=torch.float64)
    assert float(found.apply(along).norm()) < 2.0


def test_shifts_by_chance_alone_are_none():
    X, y, batch, *_ = shifted(size=0.0)
    found = gsat.Metric.from_batches(X, y, batch, gamma=10.0, kind="between")
    certain = gsat.Metric.from_batches(X + 2.0 * (batch == 1)[:, None], y, batch, gamma=10.0, kind="between")
    along = torch.full((1, D), 1 / np.sqrt(D), dtype=torch.float64)
    assert float(certain.apply(along).norm()) > 4 * float(found.apply(along).norm())


@pytest.mark.parametrize(("n", "d", "batches", "classes"), [(4000, 30, 10, 5), (300, 20, 6, 3), (400, 100, 20, 4)])
def test_batches_by_lot_are_no_directions(n, d, batches, classes):
    """Whatever passes for a shift by chance is not made large again: A stays near the identity."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y, batch = rng.integers(classes, size=n), rng.integers(batches, size=n)
        found = gsat.Metric.from_batches(rng.normal(size=(n, d)), y, batch, gamma=10.0)
        assert float(found.stretch.max()) < 2 * found.rest


def test_shifts_of_single_samples_are_measured_by_the_additive_model():
    """With one sample of a class in each batch nothing varies inside a cell; what varies between cells is noise."""
    rng = np.random.default_rng(0)
    y, batch = np.repeat(np.arange(6), 8), np.tile(np.arange(8), 6)
    noise, along = rng.normal(size=(48, D)), np.full(D, 1 / np.sqrt(D))
    by_lot = gsat.Metric.from_batches(noise, y, batch, gamma=10.0, kind="between")
    shifted = noise + 12.0 * rng.normal(size=8)[batch, None] * along
    found = gsat.Metric.from_batches(shifted, y, batch, gamma=10.0, kind="between")
    assert float(by_lot.stretch.max()) < 2.5 * by_lot.rest
    assert float(found.stretch.max()) > 5 * found.rest
    assert abs(float(found.directions[0] @ torch.from_numpy(along))) > 0.98


def test_the_variance_of_shifts_is_that_of_the_design():
    """M⁺·σ² is the covariance of the shifts, also of batches with other mixes of classes."""
    rng = np.random.default_rng(0)
    y, batch = np.repeat([0, 0, 0, 1, 1, 2], 5), np.tile([0, 1, 2, 0, 1], 6)
    keep = rng.permutation(30)[:22]
    y, batch = y[keep], batch[keep]
    found = []
    for _ in range(400):
        X = rng.normal(size=(22, 50))
        cells = spread._cells(X, *(spread._codes("y", v, 22) for v in (y, batch)), spread._counts(None, 22))
        shifts, inverse = spread.shifts_of(cells)
        found.append((shifts @ shifts.T / 50).numpy())
    np.testing.assert_allclose(np.mean(found, 0), inverse.numpy(), atol=0.02)


@pytest.mark.parametrize("kind", ["batches", "within", "between"])
def test_the_square_is_the_identity_and_the_spread(kind):
    X, y, batch, shifts, width = shifted(n=40_000)
    gamma = 10.0
    found = gsat.Metric.from_batches(X, y, batch, gamma=gamma, kind=kind)
    assert found.directions.dtype == torch.float64
    S_b = shifts.T @ shifts
    S_w = np.diag(width**2)
    S_b, S_w = (S * D / np.trace(S) for S in (S_b, S_w))
    S = {"batches": (S_b + S_w) / 2, "within": S_w, "between": S_b}[kind]
    expected = (np.eye(D) + gamma * S) / (1 + gamma)
    assert np.abs(covariance(found).numpy() - expected).max() <= 0.1 * np.abs(expected).max()
    assert float(covariance(found).trace()) == pytest.approx(D, rel=1e-9)


@pytest.mark.parametrize("kind", ["batches", "within", "between"])
def test_whole_weights_are_repetitions(kind):
    X, y, batch, *_ = shifted(n=300)
    times = np.arange(300) % 3 + 1
    found = gsat.Metric.from_batches(X, y, batch, kind=kind, weights=times)
    rows = np.repeat(np.arange(300), times)
    expected = gsat.Metric.from_batches(X[rows], y[rows], batch[rows], kind=kind)
    np.testing.assert_allclose(covariance(found), covariance(expected), rtol=1e-9, atol=1e-9)
    shares = gsat.Metric.from_batches(X, y, batch, kind=kind, weights=times / 7)
    assert float((covariance(shares) - covariance(expected)).abs().max()) < 0.05 * float(covariance(expected).max())


def test_no_gamma_is_no_metric():
    X, y, batch, *_ = shifted(n=300)
    found = gsat.Metric.from_batches(X, y, batch, gamma=0.0)
    z = normal(4, D, seed=1)
    torch.testing.assert_close(found.apply(z), z, rtol=1e-12, atol=1e-12)


def test_few_samples_are_drawn_towards_the_identity():
    few, many = (gsat.Metric.from_batches(X, y, gamma=10.0) for X, y, *_ in (shifted(n=40), shifted(n=40_000)))
    noise = np.random.default_rng(0).normal(size=(25, D))
    chance = gsat.Metric.from_batches(noise, gamma=10.0)
    spans = [float(found.stretch.max() / found.stretch.min()) for found in (few, many, chance)]
    assert spans[2] < 1.6
    assert spans[0] < spans[1]


@pytest.mark.parametrize("kind", ["batches", "within"])
def test_many_features_give_the_same_by_passes_over_the_rows(kind, monkeypatch):
    rng = np.random.default_rng(0)
    X, y, batch, *_ = shifted(n=2000, d=200)
    X += 8 * rng.normal(size=(2000, 3)) @ rng.normal(size=(3, 200))  # a few directions that stand out
    whole = gsat.Metric.from_batches(X, y, batch, gamma=10.0, kind=kind, rank=5)
    monkeypatch.setattr(spread, "SMALL", 100)
    found = gsat.Metric.from_batches(X, y, batch, gamma=10.0, kind=kind, rank=5)
    np.testing.assert_allclose(found.stretch, whole.stretch, rtol=0.02)
    overlap = torch.linalg.svdvals(found.directions[:3] @ whole.directions[:3].T)
    assert float(overlap.min()) > 0.99


def test_rows_are_read_alike_from_any_container(tmp_path):
    X, y, batch, *_ = shifted(n=500)
    X = np.where(np.abs(X) < 1, 0, X).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    expected = gsat.Metric.from_batches(X, y, batch, gamma=10.0)
    assert expected.directions.dtype == torch.float32
    for other in (
        sparse.csr_matrix(X),
        sparse.csr_array(X),
        sparse.coo_matrix(X),
        sparse.csc_array(X),
        pd.DataFrame(X),
        polars.DataFrame(X),
        X.tolist(),
        list(X),
        np.load(tmp_path / "X.npy", mmap_mode="r"),
        torch.tensor(X),
    ):
        found = gsat.Metric.from_batches(other, torch.tensor(y), batch.astype(str), gamma=10.0)
        np.testing.assert_allclose(covariance(found), covariance(expected), atol=1e-5)
    images = gsat.Metric.from_batches(X.reshape(-1, 2, 3, 5), y, batch, gamma=10.0)
    np.testing.assert_allclose(covariance(images), covariance(expected), atol=1e-5)


@pytest.mark.parametrize("kind", ["batches", "within", "between"])
def test_rows_that_stay_in_a_file_are_read_a_block_at_a_time(kind, monkeypatch):
    X, y, batch, stored = wide()
    asked = watched(monkeypatch)
    found, expected = (gsat.Metric.from_batches(rows, y, batch, gamma=10.0, kind=kind, rank=3) for rows in (stored, X))
    torch.testing.assert_close(found.stretch, expected.stretch)
    torch.testing.assert_close(found.directions, expected.directions)
    assert 0 < max(asked) <= BLOCK < np.prod(X.shape) // 2


def test_a_sample_of_the_rows_gives_nearly_the_same(monkeypatch):
    X, y, batch, *_ = shifted(n=6000)
    whole = gsat.Metric.from_batches(X, y, batch, gamma=10.0)
    monkeypatch.setattr(spread, "MOST_ROWS", 2000)
    found = gsat.Metric.from_batches(X, y, batch, gamma=10.0)
    assert float((covariance(found) - covariance(whole)).abs().max()) < 0.1 * float(covariance(whole).abs().max())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda X, y, b: gsat.Metric.from_batches(X, y, gamma=-1.0), "gamma must be >= 0"),
        (lambda X, y, b: gsat.Metric.from_batches(X, y, kind="batches"), "at least two batches, got none"),
        (lambda X, y, b: gsat.Metric.from_batches(X, y, 0 * b, kind="between"), "at least two batches, got one"),
        (lambda X, y, b: gsat.Metric.from_batches(X, y[1:], b), "y must have one id per sample"),
        (lambda X, y, b: gsat.Metric.from_batches(X, y, b[1:]), "batch must have one id per sample"),
        (lambda X, y, b: gsat.Metric.from_batches(X, y, b, kind="all"), "kind must be one of"),
        (lambda X, y, b: gsat.Metric.from_batches(X, y, b, weights=-np.ones(60)), "weights must be 60 numbers above 0"),
        (lambda X, y, b: gsat.Metric.from_batches(X * np.nan, y, b), "finite"),
        (lambda X, y, b: gsat.Metric.from_batches(X[:0], y[:0]), "at least one sample"),
        (lambda X, y, b: gsat.Metric.from_batches([], []), "at least one sample"),
        (lambda X, y, b: gsat.Metric.from_batches(X[:, 0], y), r"X must have shape \(n, d\) or .*, got \(60,\)"),
        (lambda X, y, b: gsat.Metric.from_batches(X.astype(str), y), "X must hold numbers, got <U"),
        (lambda X, y, b: gsat.Metric.from_batches(pd.DataFrame(X).astype(str), y), "X must hold numbers, got object"),
        (lambda X, y, b: gsat.Metric.from_batches(X + 1j, y), "X must hold numbers, got complex128"),
        (
            lambda X, y, b: gsat.Metric.from_batches([["a", "b"]] * 60, y),
            "X must be rows of numbers, all of one length",
        ),
        (lambda X, y, b: gsat.Metric.from_batches([[1.0], [1.0, 2.0]], [0, 1]), "X must be rows of numbers"),
    ],
)
def test_bad_input_is_told(call, words):
    X, y, batch, *_ = shifted(n=60)
    with pytest.raises(ValueError, match=words):
        call(X, y, batch)


@pytest.mark.parametrize("X", ["digits.csv", None, 3.0, {"a": 1}])
def test_what_has_no_rows_is_told(X):
    with pytest.raises(TypeError, match="X must be an array, a tensor, a DataFrame or a sparse matrix, got"):
        gsat.Metric.from_batches(X)


@pytest.mark.parametrize(("name", "method"), [("z", "apply"), ("delta", "solve")])
def test_what_is_no_perturbation_is_told(name, method):
    mapped = getattr(metric(), method)
    with pytest.raises(TypeError, match=f"{name} must be a torch tensor, got ndarray"):
        mapped(np.ones((2, D)))
    with pytest.raises(TypeError, match=f"{name} must have a floating-point dtype"):
        mapped(torch.ones(2, D, dtype=torch.long))
    for shape in ((7,), (2, 7), (D, 2)):
        with pytest.raises(ValueError, match=f"{name} must have the 30 features of the metric, got shape"):
            mapped(torch.ones(shape))


def test_the_same_mask_is_cut_to_once(monkeypatch):
    found, x, mask = metric(), torch.zeros(2, D, dtype=torch.float64), torch.arange(D) % 3 > 0
    cuts = []
    restricted = gsat.Metric.restricted
    monkeypatch.setattr(gsat.Metric, "restricted", lambda self, mask: cuts.append(1) or restricted(self, mask))
    first = fitting(found, x, mask)
    assert fitting(found, x, mask.clone()) is first
    assert len(cuts) == 1
    torch.testing.assert_close(covariance(first), covariance(restricted(found, mask)), rtol=0, atol=0)
    half = fitting(found, x.float(), mask)
    assert half.directions.dtype == torch.float32
    mask[:5] = False  # in place: it is another mask now
    torch.testing.assert_close(covariance(fitting(found, x, mask)), covariance(restricted(found, mask)))
    assert fitting(found, x) is found
    assert fitting(found, x.float()) is fitting(found, x.float())
    with torch.inference_mode():
        kept = fitting(found, x, ~mask)
    assert not kept.directions.is_inference()


def test_samples_that_do_not_vary_give_the_identity():
    found = gsat.Metric.from_batches(np.ones((6, D)), [0, 0, 0, 1, 1, 1], gamma=10.0)
    assert found.rest == pytest.approx(1.0)
    assert len(found.stretch) == 0
    assert "0 directions of 30 features" in repr(found)
