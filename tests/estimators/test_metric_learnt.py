"""The metric of the estimators: learnt from the batches that fit is given, kept with the model."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone

import gsat

D = 12


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 300
    y, batch = rng.integers(3, size=n), rng.integers(4, size=n)
    means, shifts = rng.normal(size=(3, D)), 2 * rng.normal(size=(4, D))
    X = means[y] + shifts[batch] + 0.3 * rng.normal(size=(n, D))
    return (5 + 10 * X).astype(np.float32), y, np.array([f"b{b}" for b in batch])


def fitted(data, **options):
    X, y, batch = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short training
        return gsat.GSATClassifier("low-rank", n_outer=20, group_size=50, random_state=0, **options).fit(
            X, y, batch=batch
        )


def test_batches_make_a_metric_of_the_standardised_rows(data):
    X, y, batch = data
    found = fitted(data, gamma=5.0)
    rows = (X - found.mean_) / found.scale_
    expected = gsat.Metric.from_batches(rows, y, batch, gamma=5.0)
    eye = torch.eye(D)
    torch.testing.assert_close(found.metric_.apply(eye), expected.apply(eye), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("options", [{"metric": None}, {"gamma": 0.0}, {"metric": "auto", "batch": None}])
def test_without_batches_or_gamma_there_is_none(data, options):
    X, y, batch = data
    batch = options.pop("batch", batch)
    assert fitted((X, y, batch), **options).metric_ is None


def test_it_changes_what_is_trained_and_how_the_adversary_moves(data):
    X, y, batch = data
    isotropic, learnt = fitted(data, metric=None, budget=0.3), fitted(data, budget=0.3)
    assert np.abs(isotropic.decision_function(X) - learnt.decision_function(X)).max() > 1e-3
    delta = torch.from_numpy(learnt.perturb(X, y, batch=batch) / learnt.scale_)
    first = learnt.metric_.directions[:3]
    along = float((delta @ first.T).norm() / delta.norm())
    other = torch.from_numpy(isotropic.perturb(X, y, batch=batch) / isotropic.scale_)
    assert along > 1.1 * float((other @ first.T).norm() / other.norm())


def test_rows_of_weight_zero_do_not_count(data):
    X, y, batch = data
    weights = (np.arange(len(X)) < 200).astype(float)
    few = X[:200], y[:200], batch[:200]
    spoilt = np.where(weights[:, None] > 0, X, 1e3 * X[::-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = gsat.GSATClassifier("low-rank", n_outer=3, random_state=0)
        found = clone(model).fit(spoilt, y, weights, batch=batch).metric_
        expected = clone(model).fit(*few[:2], batch=few[2]).metric_
    torch.testing.assert_close(found.apply(torch.eye(D)), expected.apply(torch.eye(D)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("given", [False, True], ids=["learnt", "given"])
def test_saved_and_loaded_it_is_the_same(data, given, tmp_path):
    X, y, batch = data
    model = fitted(data, metric=fitted(data).metric_ if given else "batches")
    model.save(tmp_path / "model")
    other = gsat.load(tmp_path / "model")
    torch.testing.assert_close(other.metric_.directions, model.metric_.directions, rtol=0, atol=0)
    assert other.metric_.rest == model.metric_.rest
    np.testing.assert_allclose(other.perturb(X, y, batch=batch), model.perturb(X, y, batch=batch), rtol=1e-5, atol=1e-5)
    assert isinstance(other.metric, gsat.Metric) == given
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.perturb(X, y, batch=batch), model.perturb(X, y, batch=batch), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.pop("metric:rest"), "all of metric:directions, metric:stretch, metric:rest or none"),
        (lambda t: t.update({"metric:directions": t["metric:directions"][:, 1:].contiguous()}), "must have shape"),
        (lambda t: t.update({"metric:stretch": -t["metric:stretch"]}), "above 0"),
        (lambda t: t.update({"metric:directions": 2 * t["metric:directions"]}), "orthonormal"),
        (lambda t: t.update({"metric:rest": torch.tensor([float("nan")])}), "finite"),
    ],
)
def test_a_damaged_metric_is_refused(data, change, words, tmp_path):
    from gsat.estimators.folder import read_folder, write_folder

    fitted(data).save(tmp_path / "model")
    tensors, about = read_folder(tmp_path / "model")
    change(tensors)
    about = {name: value for name, value in about.items() if name not in ("format", "sha256", "checksum")}
    write_folder(tmp_path / "model", tensors, about)
    with pytest.raises(ValueError, match=words):
        gsat.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "everything"}, "metric must be one of auto, batches, within, between"),
        ({"gamma": -1.0}, "gamma must be >= 0"),
        ({"metric": gsat.Metric(torch.eye(5), torch.ones(5))}, "of the 12 features of a sample, got one of 5"),
    ],
)
def test_bad_parameters_are_told(data, options, words):
    with pytest.raises(ValueError, match=words):
        fitted(data, **options)


@pytest.mark.parametrize("metric", ["batches", "between"])
@pytest.mark.parametrize(
    ("options", "got"), [({}, "none"), ({"early_stopping": True, "validation_batches": ["b0", "b1", "b2"]}, "one")]
)
def test_batches_by_name_need_two_of_them(data, metric, options, got):
    X, y, batch = data
    words = f'metric="{metric}" needs batch= with at least two batches among the rows that are trained on, got {got}'
    with pytest.raises(ValueError, match=words):
        gsat.GSATClassifier(metric=metric, n_outer=2, **options).fit(X, y, batch=batch if options else None)


def test_a_regressor_has_one_too(data):
    X, y, batch = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = gsat.GSATRegressor("low-rank", n_outer=5, random_state=0).fit(X, X[:, 0] + y, batch=batch)
        within = gsat.GSATRegressor("low-rank", n_outer=5, metric="within", random_state=0).fit(X, X[:, 0])
    assert len(found.metric_.stretch) > 0
    assert len(within.metric_.stretch) > 0
