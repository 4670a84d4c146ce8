"""The estimators keep scikit-learn's contract, and do what theirs says."""

import json
import pickle

import numpy as np
import pandas as pd
import polars
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import gsat
from gsat._arrays.standardise import mean_and_scale
from gsat.estimators.folder import seal
from strategies import same_rows

QUICK = {"n_outer": 60, "eta0": 1e-2, "hidden": 30, "random_state": 0}
SHORT = {"n_outer": 12, "eta0": 5e-2, "hidden": 8, "random_state": 0}  # the checks fit some hundred times
ESTIMATORS = [
    gsat.GSATClassifier(n_inner=3, **SHORT),
    gsat.ERMClassifier(**SHORT),
    gsat.FGMClassifier(**SHORT),
    gsat.FGSMClassifier(**SHORT),
    gsat.PGDClassifier(n_inner=3, **SHORT),
    gsat.UniversalATClassifier(**SHORT),
    gsat.StructuredATClassifier(k=1, n_inner=3, **SHORT),
    gsat.GroupDROClassifier(**SHORT),
    gsat.CORALClassifier(**SHORT),
    gsat.RandomDrawsClassifier(**SHORT),
    gsat.GSATRegressor(n_inner=3, **SHORT),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_no_check_is_left_out(estimator):
    assert len(list(estimator_checks_generator(estimator))) >= 50


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(300, 20, n_informative=6, n_classes=3, random_state=1)
    return (5 + 3 * X).astype(np.float32), np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def fitted(data):
    return gsat.GSATClassifier("group-sparse", n_inner=4, n_outer=120, eta0=1e-2, random_state=0).fit(*data)


def test_it_learns(data, fitted):
    X, y = data
    assert fitted.score(X, y) > 0.8
    assert fitted.classes_.tolist() == ["a", "b", "c"]
    assert fitted.predict_proba(X).sum(1) == pytest.approx(np.ones(len(X)))
    assert fitted.decision_function(X).shape == (300, 3)
    assert len(fitted.history_) == 120
    assert fitted.lam_ > 0


def test_the_same_seed_gives_the_same_bits(data, fitted):
    again = clone(fitted).fit(*data)
    for name, value in fitted.module_.state_dict().items():
        assert torch.equal(value, again.module_.state_dict()[name])


def test_perturbations_are_in_original_units(data, fitted):
    X, y = data
    delta = fitted.perturb(X[:200], y[:200])
    assert delta.shape == (200, 20)
    standard = delta / X.std(0)
    assert np.linalg.norm(standard, axis=1).mean() == pytest.approx(0.05 * fitted.mean_norm_, rel=1.0)
    with pytest.raises(ValueError, match=r"y must hold only labels of fit"):
        fitted.perturb(X[:3], np.array(["a", "b", "z"]))


@pytest.mark.parametrize("kind", [gsat.GSATClassifier, gsat.PGDClassifier, gsat.ERMClassifier])
def test_save_and_load(kind, data, tmp_path):
    X, y = data
    clf = kind(**QUICK).fit(pd.DataFrame(X, columns=[f"gene{i}" for i in range(20)]), y)
    clf.save(tmp_path / "model")
    again = gsat.load(tmp_path / "model")
    frame = pd.DataFrame(X, columns=clf.feature_names_in_)
    assert np.array_equal(again.predict_proba(frame), clf.predict_proba(frame))
    assert again.get_params() == clf.get_params()
    assert again.predict(frame).tolist() == clf.predict(frame).tolist()
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == ["model.json", "weights.safetensors"]


def test_load_refuses_what_it_does_not_know(data, fitted, tmp_path):
    fitted.save(tmp_path / "model")
    head = json.loads((tmp_path / "model" / "model.json").read_text())
    (tmp_path / "model" / "model.json").write_text(json.dumps({**head, "format": 7}))
    with pytest.raises(ValueError, match="must have format 2, got 7"):
        gsat.load(tmp_path / "model")
    (tmp_path / "model" / "model.json").write_text(json.dumps(seal({**head, "estimator": "os.system"})))
    with pytest.raises(ValueError, match=r"estimator must be one of GSATClassifier, .* got 'os.system'"):
        gsat.load(tmp_path / "model")
    with pytest.raises(FileNotFoundError, match=r"model.json and weights.safetensors"):
        gsat.load(tmp_path / "nowhere")


def test_what_cannot_be_saved_leaves_nothing_behind(data, tmp_path):
    clf = gsat.ERMClassifier(module=lambda shape, n: torch.nn.Linear(shape[0], n), **QUICK).fit(*data)
    with pytest.raises(ValueError, match=r"module must be a name, a number or a list to be saved"):
        clf.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_pickle_and_tools_of_scikit_learn(data, fitted):
    X, y = data
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    quick = gsat.GSATClassifier(n_inner=3, **QUICK)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), quick), {"gsatclassifier__budget": [0.02, 0.2]}, cv=2, n_jobs=2
    )
    search.fit(X, y)
    assert search.best_score_ > 0.6
    assert cross_val_score(quick, X, y, cv=2).min() > 0.6
    calibrated = CalibratedClassifierCV(gsat.ERMClassifier(**QUICK), cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (300, 3)


def test_what_pickle_and_files_keep_of_class_weights(data, tmp_path):
    X, y = data
    weights = {"a": 30.0, "b": 1.0, "c": 0.1}
    clf = gsat.GSATClassifier("group-sparse", class_weight=weights, n_inner=4, **QUICK).fit(X, y)
    clf.save(tmp_path / "m")
    again = gsat.load(tmp_path / "m")
    assert again.class_weight == weights
    assert np.array_equal(again.perturb(X[:60], y[:60]), clf.perturb(X[:60], y[:60]))
    assert (again.history_.lam, again.history_.mean_norm) == (clf.history_.lam, clf.history_.mean_norm)
    numbers = gsat.ERMClassifier(class_weight={0: 2.0, 1: 1.0, 2: 1.0}, **QUICK).fit(
        X, np.searchsorted(["a", "b", "c"], y)
    )
    numbers.save(tmp_path / "n")
    clone(gsat.load(tmp_path / "n")).fit(X, np.searchsorted(["a", "b", "c"], y))


def test_parameters_of_numpy_can_be_saved(data, tmp_path):
    X, y = data
    options = {**QUICK, "random_state": np.random.RandomState(3)}
    mask = np.arange(20) % 4 != 1
    clf = gsat.GSATClassifier(
        "low-rank", budget=np.float32(0.1), k=np.int64(2), feature_mask=mask, n_inner=3, **options
    )
    clf.fit(X, y).save(tmp_path / "m")
    again = gsat.load(tmp_path / "m")
    assert (again.k, again.random_state) == (2, None)
    delta = again.perturb(X[:50], y[:50])
    assert np.array_equal(delta, clf.perturb(X[:50], y[:50]))
    assert np.array_equal(np.abs(delta).max(0) > 0, mask)


def test_saving_does_not_remove_what_is_not_a_model(fitted, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match=r"to a new folder or over another model, got .*results with other files"):
        fitted.save(tmp_path / "results")
    assert (tmp_path / "results" / "thesis.txt").read_text() == "years of work"
    fitted.save(tmp_path / "m")
    fitted.save(tmp_path / "m")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m", "results"]


def test_modules_for_images(data, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.random((60, 1, 8, 8), dtype=np.float32)
    y = (X[:, 0, :4].mean((1, 2)) > X[:, 0, 4:].mean((1, 2))).astype(int)
    options = {"module": "alexnet", "module_options": {"width": 0.05}, "in_shape": (1, 8, 8)}
    mask = np.arange(64) < 32
    clf = gsat.GSATClassifier("group-sparse", feature_mask=mask, n_inner=2, **{**QUICK, "n_outer": 3}, **options)
    clf.fit(X, y)
    assert np.array_equal(clf.predict_proba(X), clf.predict_proba(X.reshape(60, 64)))
    assert clf.module_input(X).shape == (60, 1, 8, 8)
    delta = clf.perturb(X[:20], y[:20])
    assert delta.shape == (20, 1, 8, 8)
    assert not delta.reshape(20, 64)[:, ~mask].any()
    clf.save(tmp_path / "m")
    assert np.array_equal(gsat.load(tmp_path / "m").predict_proba(X), clf.predict_proba(X))
    table = gsat.evaluate(clf, X, y, gsat.attacks.PGD(0.5, steps=2))
    assert table["accuracy"][0] == pytest.approx(clf.score(X, y))
    with pytest.raises(
        ValueError, match=r"in_shape must have as many entries as there are features \(64\), got \(1, 8, 9\)"
    ):
        gsat.ERMClassifier(**{**options, "in_shape": (1, 8, 9)}).fit(X.reshape(60, 64), y)


def test_a_module_that_is_an_object(data, tmp_path):
    X, y = data
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    before = [value.clone() for value in net.state_dict().values()]
    clf = gsat.GSATClassifier(module=net, n_inner=3, **QUICK)
    assert clf.get_params()["module"] is net
    clf.fit(X, y)
    assert clf.score(X, y) > 0.7
    assert clf.module_ is not net
    assert all(torch.equal(a, b) for a, b in zip(before, net.state_dict().values(), strict=True))
    again = clone(clf).fit(X, y)
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert cross_val_score(clf, X, y, cv=2).min() > 0.5
    clf.save(tmp_path / "m")
    loaded = gsat.load(tmp_path / "m", module=net)
    assert np.array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    with pytest.raises(ValueError, match=r"given as an object: .*module=\) needs a torch.*Sequential, got None"):
        gsat.load(tmp_path / "m")
    with pytest.raises(ValueError, match="do not fit the model"):
        gsat.load(tmp_path / "m", module=torch.nn.Linear(20, 3))
    with pytest.raises(ValueError, match=r"module_options must be None for a module instance, got \{'hidden': 3\}"):
        clone(clf).set_params(module_options={"hidden": 3}).fit(X, y)
    gsat.ERMClassifier(**QUICK).fit(X, y).save(tmp_path / "n")
    with pytest.raises(ValueError, match="module must be None for a model whose module has a name"):
        gsat.load(tmp_path / "n", module=net)


def test_universal_has_many_shifts_and_universal_one_has_one(data):
    X, y = data
    shifts = {}
    for structure in ("universal", "universal-one"):
        clf = gsat.GSATClassifier(structure, n_inner=4, group_size=100, **QUICK).fit(X, y)
        shifts[structure] = len(same_rows(torch.as_tensor(clf.perturb(X[:100], y[:100]) / clf.scale_)).unique())
    assert shifts["universal-one"] == 1
    assert 20 < shifts["universal"] <= 50


def test_a_module_that_does_not_fit_is_told_before_training(data):
    for factory, message in (
        (
            lambda shape, n: torch.nn.Linear(shape[0] + 1, n),
            r"must map samples of shape \(20,\) to 3 outputs, but fails",
        ),
        (lambda shape, n: torch.nn.Linear(shape[0], n - 1), r"to 3 outputs, got an output of shape \(2, 2\)"),
    ):
        clf = gsat.ERMClassifier(module=factory, **QUICK)
        with pytest.raises(ValueError, match=message):
            clf.fit(*data)
        assert not hasattr(clf, "module_")


class Pair(torch.nn.Module):
    """A module that returns more than its outputs, and takes no arguments."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(20, 3)

    def forward(self, x):
        return self.inner(x), x


@pytest.mark.parametrize(
    ("module", "error", "message"),
    [
        (Pair(), TypeError, "to 3 outputs, a tensor, got tuple; wrap it"),
        (Pair, TypeError, r"module must be an instance, Pair\(\.\.\.\), or a class that is called as Pair\(in_shape"),
        (
            torch.nn.Linear(20, 3).requires_grad_(False),
            ValueError,
            "must have weights that require a gradient, got none",
        ),
        (torch.nn.Identity(), ValueError, "must have weights that require a gradient, got none"),
    ],
    ids=["tuple", "class", "frozen", "no weights"],
)
def test_a_module_that_cannot_be_trained_is_told(data, module, error, message):
    with pytest.raises(error, match=message):
        gsat.GSATClassifier(module=module, n_inner=3, **QUICK).fit(*data)


def test_perturb_uses_no_more_than_twice_the_budget_of_a_group(data, tmp_path):
    """As training does; at a price that is too low one shift would be three budgets long."""
    X, y = data
    clf = gsat.GSATClassifier("universal-one", n_inner=4, **QUICK).fit(X, y)
    clf.lam_ /= 1000
    clf.save(tmp_path / "m")
    for one in (clf, gsat.load(tmp_path / "m")):
        lengths = np.linalg.norm(one.perturb(X, y) / one.scale_, axis=1)
        assert 1.5 < lengths[:200].mean() / (one.budget * one.mean_norm_) < 2.1


@pytest.mark.parametrize("structure", ["universal", "group-sparse", "low-rank"])
def test_structured_adversarial_training(structure, data):
    X, y = data
    clf = gsat.StructuredATClassifier(structure, eps=0.1, k=2, n_inner=4, **QUICK).fit(X, y)
    standard = clf.perturb(X[:100], y[:100]) / clf.scale_
    assert np.linalg.norm(standard, axis=1).max() == pytest.approx(0.1 * clf.mean_norm_, rel=1e-4)
    counts = {
        "universal": len(np.unique(standard.round(4), axis=0)),
        "group-sparse": (np.abs(standard).max(0) > 0).sum(),
        "low-rank": (np.linalg.svd(standard)[1] > 1e-3).sum(),
    }
    assert counts[structure] <= 2
    with pytest.raises(ValueError, match=r"structure must be universal, .* or low-rank, got 'unstructured'"):
        gsat.StructuredATClassifier("unstructured", **QUICK).fit(X, y)


def test_frames_of_polars(data):
    X, y = data
    names = [f"gene{j}" for j in range(20)]
    frame = polars.DataFrame({name: X[:, j] for j, name in enumerate(names)})
    clf = gsat.GSATClassifier(n_inner=3, **QUICK).fit(frame, polars.Series("kind", y))
    assert clf.feature_names_in_.tolist() == names
    same = gsat.GSATClassifier(n_inner=3, **QUICK).fit(pd.DataFrame(X, columns=names), y)
    assert np.array_equal(clf.predict_proba(frame), same.predict_proba(pd.DataFrame(X, columns=names)))
    assert clf.score(frame, polars.Series(y)) == same.score(pd.DataFrame(X, columns=names), y)
    assert clf.perturb(frame[:9], polars.Series(y[:9])).shape == (9, 20)
    with pytest.raises(ValueError, match=r"feature names"):
        clf.predict(frame[names[::-1]])


def test_thirty_samples(data):
    X, y = data
    for structure in ("universal", "group-sparse", "low-rank", "unstructured"):
        clf = gsat.GSATClassifier(structure, n_inner=4, **QUICK).fit(X[:30], y[:30])
        assert clf.score(X[:30], y[:30]) > 0.9
        assert np.isfinite(clf.lam_)


def test_memory_maps_are_read_and_not_changed(data, tmp_path):
    X, y = data
    X.tofile(tmp_path / "X")
    mapped = np.memmap(tmp_path / "X", np.float32, "r", shape=X.shape)
    clf = gsat.GSATClassifier(n_inner=3, **QUICK).fit(mapped, y)
    assert np.array_equal(clf.predict_proba(mapped), gsat.GSATClassifier(n_inner=3, **QUICK).fit(X, y).predict_proba(X))
    assert np.array_equal(np.fromfile(tmp_path / "X", np.float32), X.ravel())


def test_warm_start_needs_the_same_classes(data):
    X, y = data
    clf = gsat.ERMClassifier(warm_start=True, **QUICK).fit(X, y)
    with pytest.raises(
        ValueError, match=r"must hold the classes of the last fit with warm_start=True, got \['a', 'b', 'd'\]"
    ):
        clf.fit(X, np.where(y == "c", "d", y))


def test_fit_run_keeps_a_log_and_goes_on(data, tmp_path):
    X, y = data
    options = {"n_inner": 3, **QUICK}
    whole = gsat.GSATClassifier(**options).fit_run(X, y, seed=5, out=tmp_path / "run")
    assert len((tmp_path / "run" / "log.jsonl").read_text().splitlines()) == 60
    again = gsat.GSATClassifier(**options).fit_run(X, y, seed=5, out=tmp_path / "run", resume=True)
    for name, value in whole.module_.state_dict().items():
        assert torch.equal(value, again.module_.state_dict()[name])
    other = gsat.GSATClassifier(**options).fit_run(X, y, seed=6)
    assert not np.array_equal(other.predict_proba(X), whole.predict_proba(X))


def test_sparse_and_dense_agree(data):
    X, y = data
    X = np.where(np.abs(X - 5) < 2, 0, X)
    dense = gsat.ERMClassifier(**QUICK).fit(X, y)
    thin = gsat.ERMClassifier(**QUICK).fit(sparse.csr_array(X), y)
    assert thin.predict_proba(sparse.csr_array(X)) == pytest.approx(dense.predict_proba(X), abs=1e-6)


def test_mean_and_scale():
    X = np.random.default_rng(0).normal(size=(3000, 5)) * [1, 1e-3, 1e3, 1, 0] + [0, 1e4, 0, -3, 7]
    mean, scale = mean_and_scale(X)
    assert mean == pytest.approx(X.mean(0), rel=1e-5, abs=1e-5)
    assert scale[:4] == pytest.approx(X.std(0)[:4], rel=1e-5)
    assert scale[4] == 1


def test_class_weight_moves_the_boundary(data):
    X, y = data
    plain = gsat.ERMClassifier(**QUICK).fit(X, y)
    tilted = gsat.ERMClassifier(class_weight={"a": 30.0, "b": 1.0, "c": 1.0}, **QUICK).fit(X, y)
    assert (tilted.predict(X) == "a").sum() > (plain.predict(X) == "a").sum()


def test_warm_start_goes_on(data):
    X, y = data
    clf = gsat.ERMClassifier(warm_start=True, **QUICK).fit(X, y)
    first = clf.module_
    loss = clf.history_[-1].loss
    clf.fit(X, y)
    assert clf.module_ is first
    assert clf.history_[-1].loss < loss


def test_batches_and_blocks(data):
    X, y = data
    batch = np.arange(300) % 3
    clf = gsat.GSATClassifier("universal", n_inner=4, **QUICK).fit(X, y, batch=batch)
    delta = clf.perturb(X[:90], y[:90], batch=batch[:90])
    for b in range(3):
        assert np.allclose(delta[batch[:90] == b], delta[b], atol=1e-5)
    blocks = np.repeat(np.arange(5), 4)
    clf = gsat.GSATClassifier("group-sparse", k=2, feature_groups=blocks.tolist(), n_inner=4, **QUICK).fit(X, y)
    moved = np.abs(clf.perturb(X[:100], y[:100])).sum(0) > 0
    assert 0 < len(set(blocks[moved])) <= 2


def test_regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    y = 100 + 20 * X[:, 0] - 10 * X[:, 1] ** 2
    model = gsat.GSATRegressor(n_outer=300, n_inner=4, eta0=1e-2, budget=0.02, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.perturb(X, y).shape == X.shape


def test_evaluate_takes_a_classifier(data, fitted):
    X, y = data
    table = gsat.evaluate(fitted, X, y, gsat.attacks.PGD(0.2 * fitted.mean_norm_, steps=10))
    assert table["accuracy"][0] == pytest.approx(fitted.score(X, y))
    assert table["accuracy"][1] < table["accuracy"][0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"structure": "cubic"},
            "structure must be one of universal, .*, unstructured, got 'cubic'",
        ),
        ({"lam": "many"}, 'lam must be a number > 0, "auto" or "paper", got \'many\''),
        ({"budget": 0.0}, "budget must be > 0, got 0.0"),
        ({"alpha": 1.5}, "alpha must be >= 0 and <= 1, got 1.5"),
        ({"solver": "newton"}, "solver must be one of"),
        ({"n_outer": 0}, "n_outer must be >= 1, got 0"),
        ({"device": "tpu"}, "device must be cpu, cuda, cuda:NUMBER or auto, got 'tpu'"),
        ({"device": 3}, "device must be cpu, cuda, cuda:NUMBER or auto, got 3"),
        ({"device": "cuda"}, r"device must be cpu where torch \(.*\) finds no CUDA device, got 'cuda'"),
    ],
)
def test_parameters_are_checked_in_fit(options, message, data, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=message):
        gsat.GSATClassifier(**{**QUICK, **options}).fit(*data)
