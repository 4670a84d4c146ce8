"""After training: warnings where it has not converged, early stopping on the robust loss, calibrated probabilities."""

import json
import warnings

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.datasets import load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import gsat
from gsat.estimators.from_table import Plan, train
from gsat.estimators.judging import temperature, warn_if_at_chance, warn_if_falling
from gsat.estimators.samples import Samples, hold_out
from gsat.experiments.demonstration import DEFENCES, SIZE
from gsat.training import Step, Validation

X, Y = make_classification(400, 10, n_informative=5, n_classes=3, class_sep=1.5, random_state=2)
OPTIONS = {"n_inner": 3, "eta0": 1e-2, "hidden": 20, "group_size": 100, "random_state": 0}


def history(losses):
    return [Step(t, float(loss)) for t, loss in enumerate(losses)]


def test_a_loss_that_falls_clearly_is_told():
    noise = np.random.default_rng(0).normal(scale=0.02, size=200)
    with pytest.warns(ConvergenceWarning, match=r"the loss fell from 0\.6\d* to 0\.4\d* over the last 80 of 200"):
        warn_if_falling(history(np.linspace(1.5, 0.3, 200) + noise), chance=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_falling(history(0.3 + noise), chance=1.0)  # it stands still
        warn_if_falling(history(np.geomspace(1, 1e-4, 200)), chance=1.0)  # it falls, but by nothing that matters
        warn_if_falling(history(0.5 + 30 * noise), chance=1.0)  # noise
        warn_if_falling(history([3.0, 1.0]), chance=1.0)  # too few to tell


def test_a_loss_that_falls_over_few_groups_is_told():
    with pytest.warns(ConvergenceWarning, match=r"the loss fell from 0\.8\d* to 0\.6\d* over the last 5 of 10 groups"):
        warn_if_falling(history(np.linspace(1.1, 0.6, 10) + 0.01 * np.sin(np.arange(10))), chance=1.0)
    with pytest.warns(ConvergenceWarning, match="over the last 3 of 3 groups"):
        warn_if_falling(history([1.0, 0.9, 0.8]), chance=1.0)
    noise = np.random.default_rng(0).normal(scale=0.02, size=12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_falling(history(0.3 + noise), chance=1.0)  # it stands still
        warn_if_falling(history(np.r_[np.linspace(2, 0.3, 6), [0.3] * 6] + noise), chance=1.0)  # it has come to a stand
        warn_if_falling(history(np.linspace(1, 0.97, 12)), chance=1.0)  # it falls, but by nothing that matters


@pytest.mark.parametrize("n_outer", [1, 2, 3, 5, 7, 10, 15, 19, 20, 50])
def test_every_short_training_on_digits_is_told(n_outer):
    """Their accuracies are 0.1 to 0.86, where a run that is long enough has 0.98."""
    train = gsat.data.load("digits").train
    with pytest.warns(ConvergenceWarning, match="training has not converged"):
        gsat.GSATClassifier(n_outer=n_outer, random_state=0).fit(train.X, train.y)


def test_an_accuracy_near_chance_is_told():
    truth = np.repeat([0, 1], [970, 30])
    with pytest.warns(ConvergenceWarning, match=r"accuracy on 1000 training rows is 0\.50, where chance is 0\.5"):
        warn_if_at_chance(np.zeros(1000, int), truth)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_at_chance(np.where(np.arange(1000) % 5 == 0, 1 - truth, truth), truth)


def test_fit_warns_when_it_must_and_not_otherwise():
    with pytest.warns(ConvergenceWarning, match="training has not converged: the balanced accuracy"):
        gsat.GSATClassifier(n_outer=40, budget=3.0, **OPTIONS).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="training has not converged: the loss fell"):
        gsat.ERMClassifier(n_outer=20, hidden=20, group_size=400, eta0=1e-2, random_state=0).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="training has not converged: the loss fell"):
        gsat.GSATRegressor(n_outer=20, budget=0.01, **{**OPTIONS, "group_size": 400, "eta0": 4e-3}).fit(X, X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gsat.GSATClassifier(n_outer=250, **OPTIONS).fit(X, Y)
        gsat.ERMClassifier(n_outer=250, hidden=20, random_state=0).fit(X, Y)


@pytest.mark.parametrize("name", ["erm", "low-rank"])
def test_the_demo_has_no_false_alarm(name):
    plan = Plan(name, size=SIZE, n_outer=150, n_inner=5, group_size=100, eta0=3e-3)
    assert name in DEFENCES
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(gsat.data.load("digits").train, plan)


def test_early_stopping_ends_with_the_best_weights():
    clf = gsat.GSATClassifier(early_stopping=True, n_iter_no_change=2, n_outer=2000, **{**OPTIONS, "eta0": 0.03})
    clf.fit(X, Y)
    assert clf.history_.stopped_early
    assert clf.n_iter_ == len(clf.history_) < 2000
    measured = [step.validation_loss for step in clf.history_ if step.validation_loss is not None]
    assert len(measured) == clf.n_iter_ // 25
    assert min(measured) == clf.history_.best_validation == measured[-3]
    assert measured[-1] < 3 * measured[-3]


def test_the_robust_loss_is_that_under_the_adversary_of_training():
    model = gsat.models.build("elu", (10,), 3, seed=1)
    x, y = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(Y)
    defence = gsat.defences.GSAT(gsat.PerBatch(gsat.Universal(0.3), n_random=4), n_inner=4)
    defence.lam = 0.1
    weights = np.arange(400) % 4
    before = defence.adversary.generator.get_state()
    rule = Validation(x, y, measure="loss", weights=weights)
    loss = gsat.losses.per_sample_cross_entropy
    robust = rule.loss(model, defence, loss, x, group_size=100)
    assert torch.equal(before, defence.adversary.generator.get_state())
    assert defence.delta is None
    parts = [loss(model(defence(model, x[i : i + 100], y[i : i + 100])), y[i : i + 100]) for i in range(0, 400, 100)]
    losses = torch.cat(parts).detach().double().numpy()
    assert robust == pytest.approx(np.average(losses, weights=weights), rel=1e-5)
    assert robust > float(loss(model(x), y).detach().mean())
    far, near = (rule.loss(model, defence, loss, x, 100, [length] * 3) for length in (2.0, 0.02))
    assert far > near  # Δ is stretched to the budget
    assert rule.better(1.0, 2.0)
    assert not rule.better(2.0, 1.0)
    assert rule.better(5.0, None)
    with pytest.raises(ValueError, match="measure must be one of accuracy, loss, got 'f1'"):
        Validation(x, y, measure="f1")


def test_rows_are_held_out_by_class_and_by_batch():
    samples = Samples(X, Y, np.where(np.arange(400) < 40, 0.0, 1.0), np.arange(400) % 5)
    train, held = hold_out(samples, fraction=0.2, by_class=True, seed=1)
    assert sorted([*train, *held]) == list(range(40, 400))
    for label in range(3):
        assert (Y[held] == label).sum() == pytest.approx(0.2 * (Y[40:] == label).sum(), abs=1)
    train, held = hold_out(samples, fraction=0.2, batches=[1, 3], by_class=True, seed=1)
    assert set(held % 5) == {1, 3}
    assert set(train % 5) == {0, 2, 4}
    assert held.min() >= 40
    for options, message in (
        ({"fraction": 1.5}, "validation_fraction must be > 0 and < 1, got 1.5"),
        ({"fraction": 1e-6}, r"validation_fraction must leave rows .* got 1e-06 of 360; take more than 0\.00\d+$"),
        ({"fraction": 0.9999}, r"validation_fraction must leave .* got 0.9999 of 360; take less than 0\.99\d+$"),
        ({"fraction": 0.1, "batches": [9]}, "validation_batches must be among the ids of batch, got 9"),
        ({"fraction": 0.1, "batches": range(5)}, "validation_batches must leave rows to train on"),
    ):
        with pytest.raises(ValueError, match=message):
            hold_out(samples, by_class=True, seed=1, **options)
    with pytest.raises(ValueError, match=r"validation_batches needs batch= in fit, got \[1\] and no batches"):
        gsat.GSATClassifier(calibrate=True, validation_batches=[1], **OPTIONS).fit(X, Y)
    with pytest.raises(ValueError, match="validation_batches must leave every class"):
        hold_out(Samples(X, Y, None, Y), fraction=0.1, batches=[2], by_class=True, seed=0)


@pytest.mark.parametrize("n", [3, 4, 7])
def test_the_fraction_that_is_named_works(n):
    few = Samples(X[: 8 * n], np.arange(8 * n) % 8)

    def told(fraction):
        with pytest.raises(ValueError, match=r"take (more|less) than [\d.]+$") as caught:
            hold_out(few, fraction=fraction, by_class=True, seed=0)
        return float(str(caught.value).split()[-1])

    for fraction in (told(0.01) + 1e-3, told(0.99) - 1e-3):
        train, held = hold_out(few, fraction=fraction, by_class=True, seed=0)
        assert len(held) >= 8
        assert len(set(train % 8)) == 8


def test_validation_batches_are_not_trained_on():
    batch = np.repeat(["a", "b"], 200)
    moved = np.where((batch == "b")[:, None], 50.0, X)  # what the module would not forget
    options = {**OPTIONS, "standardize": False, "n_outer": 50}
    clf = gsat.GSATClassifier(early_stopping=True, validation_batches=["b"], **options).fit(moved, Y, batch=batch)
    assert clf.n_samples_ == 200
    largest = max(step.loss for step in clf.history_.steps[5:])
    assert largest < min(step.validation_loss for step in clf.history_ if step.validation_loss is not None)


def test_the_temperature_is_the_one_that_was_put_in():
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(20_000, 4))
    odds = np.exp(logits)
    drawn = (rng.random(20_000)[:, None] > np.cumsum(odds / odds.sum(1, keepdims=True), 1)).sum(1)
    assert temperature(logits, drawn, None) == pytest.approx(1.0, rel=0.05)
    assert temperature(7 * logits, drawn, None) == pytest.approx(7.0, rel=0.05)
    weights = np.where(np.arange(20_000) < 15_000, 1.0, 0.0)
    drawn[15_000:] = 0
    assert temperature(logits / 3, drawn, weights) == pytest.approx(1 / 3, rel=0.05)


def test_a_few_rows_that_are_all_right_do_not_make_probabilities_sharp():
    """Without an error the cross-entropy alone falls for ever as T goes to 0."""
    right = np.eye(3)[[0, 1, 2] * 3] * 2.0
    assert 0.5 < temperature(right, np.array([0, 1, 2] * 3), None) < 1
    nearly = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [1.0, 1.1, 0.0]])
    assert 0.5 < temperature(nearly, np.array([0, 1, 0]), np.array([1e300, 1e300, 5e299])) < 2


@pytest.mark.parametrize("seed", [0, 3])
def test_calibration_on_few_rows_of_easy_classes_does_no_harm(seed):
    features, labels = load_wine(return_X_y=True)
    train, test, y_train, y_test = train_test_split(features, labels, test_size=0.5, random_state=seed, stratify=labels)
    clf = gsat.GSATClassifier(calibrate=True, n_outer=100, eta0=3e-3, random_state=seed).fit(train, y_train)
    plain = log_loss(y_test, softmax(clf.decision_function(test), axis=1))
    assert log_loss(y_test, clf.predict_proba(test)) < 1.2 * plain  # it was ten times as large


def test_calibration_changes_probabilities_alone_and_is_saved(tmp_path):
    options = {**OPTIONS, "n_outer": 100, "budget": 0.3, "validation_fraction": 0.25}
    clf = gsat.GSATClassifier(calibrate=True, **options).fit(X, Y)
    assert clf.n_samples_ == 300
    assert clf.temperature_ < 0.9  # a model of a large budget is not confident enough
    logits = clf.decision_function(X)
    assert np.array_equal(clf.predict(X), logits.argmax(1))
    raw, tempered = (np.exp(v) / np.exp(v).sum(1, keepdims=True) for v in (logits, logits / clf.temperature_))
    assert clf.predict_proba(X) == pytest.approx(tempered, rel=1e-9)
    right = np.arange(400), Y
    assert -np.log(clf.predict_proba(X)[right]).mean() < -np.log(raw[right]).mean()
    clf.save(tmp_path / "m")
    again = gsat.load(tmp_path / "m")
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert again.get_params() == clf.get_params()
    about = json.loads((tmp_path / "m" / "model.json").read_text())
    assert about["fitted"]["temperature_"] == clf.temperature_
    assert clf.set_params(calibrate=False, n_outer=2).fit(X, Y).temperature_ == 1.0


def test_a_stopped_run_with_early_stopping_ends_with_the_same_bits(tmp_path):
    options = {"early_stopping": True, "calibrate": True, "n_iter_no_change": 1, "n_outer": 120, **OPTIONS}
    options |= {"structure": "universal", "eta0": 0.03}
    whole = gsat.GSATClassifier(**options).fit_run(X, Y, seed=3)
    assert whole.history_.stopped_early

    def stop(step, model):
        if step.t == 30:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        gsat.GSATClassifier(callbacks=[stop], **options).fit_run(X, Y, seed=3, out=tmp_path / "run")
    again = gsat.GSATClassifier(**options).fit_run(X, Y, seed=3, out=tmp_path / "run", resume=True)
    assert again.n_iter_ == whole.n_iter_
    assert again.temperature_ == whole.temperature_
    assert np.array_equal(again.predict_proba(X), whole.predict_proba(X))
    with pytest.raises(ValueError, match="is of another run: data"):
        gsat.GSATClassifier(**{**options, "validation_fraction": 0.2}).fit_run(
            X, Y, seed=3, out=tmp_path / "run", resume=True
        )


def people(n, seed=0):
    """Samples of people of 1 to 6 rows each, a person's in one class; as text."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(n), rng.integers(1, 7, n))
    return person % 3, np.array([f"person {i}" for i in person])


@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.8])
def test_rows_that_belong_together_are_held_out_together(fraction):
    y, group = people(150)
    mixed = np.random.default_rng(1).permutation(len(y))
    y, group = y[mixed], group[mixed]
    samples = Samples(np.zeros((len(y), 2)), y, None, None, group)
    train, held = hold_out(samples, fraction=fraction, by_class=True, seed=3)
    assert sorted([*train, *held]) == list(range(len(y)))
    assert not set(group[train]) & set(group[held])
    for label in range(3):
        assert (y[held] == label).sum() == pytest.approx(fraction * (y == label).sum(), abs=6)
    alone = Samples(np.zeros((len(y), 2)), y, None, None, np.arange(len(y)))
    apart = hold_out(alone, fraction=fraction, by_class=True, seed=3)[1]
    assert len(apart) == pytest.approx(fraction * len(y), abs=3)
    assert set(group[apart]) & set(group[np.setdiff1d(np.arange(len(y)), apart)])


def test_groups_that_cannot_be_held_out_are_told():
    samples = Samples(X, Y, None, None, np.zeros(len(X)))
    with pytest.raises(ValueError, match=r"got 0\.1 of 400 in 1 groups; take more, or smaller groups"):
        hold_out(samples, fraction=0.1, by_class=True, seed=0)
    with pytest.raises(ValueError, match=r"groups must have one id per sample \(400\), got 3"):
        gsat.GSATClassifier(**OPTIONS).fit(X, Y, groups=[1, 2, 3])
    with pytest.raises(ValueError, match=r"groups must have an id for every sample, got NaN for some"):
        gsat.GSATClassifier(**OPTIONS).fit(X, Y, groups=[np.nan, *range(399)])


@pytest.mark.parametrize("kind", ["early_stopping", "calibrate"])
def test_fit_holds_whole_groups_out(kind, monkeypatch):
    group = np.arange(400) // 5
    seen = []

    def kept(self, samples, seed):
        found = split(self, samples, seed)
        seen.append(found)
        return found

    split = gsat.GSATClassifier._split
    monkeypatch.setattr(gsat.GSATClassifier, "_split", kept)
    gsat.GSATClassifier(n_outer=60, **{kind: True}, **OPTIONS).fit(X, Y, groups=group)
    ((train, held),) = seen
    assert len(held)
    assert not set(group[train]) & set(group[held])


def test_the_regressor_holds_whole_groups_out():
    group = np.repeat(np.arange(4), 100)
    options = {"n_outer": 30, "early_stopping": True, "validation_fraction": 0.25, "random_state": 0}
    apart, whole = (gsat.GSATRegressor(**options).fit(X, X[:, 0], groups=ids) for ids in (None, group))
    assert apart.n_samples_ == whole.n_samples_ == 300
    assert [step.loss for step in apart.history_] != [step.loss for step in whole.history_]
