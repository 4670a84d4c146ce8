"""Averages of classifiers: the mean of probabilities, one folder for all members, and what an average refuses."""

import hashlib
import json
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from safetensors.torch import save as save_tensors
from sklearn.utils.estimator_checks import parametrize_with_checks

import gsat
from gsat.estimators import folder as folders
from gsat.estimators.average import AverageClassifier, combined
from gsat.estimators.folder import seal
from gsat.estimators.matching import align, probabilities

RNG = np.random.default_rng(0)
Y = np.arange(90) % 3
BATCH = np.arange(90) // 3 % 3
X = (np.eye(3, 5)[Y] * 2 + RNG.normal(size=(3, 5))[BATCH] + 0.5 * RNG.normal(size=(90, 5))).astype(np.float32)
NAMES = [f"gene {i}" for i in range(5)]
NET = {"n_outer": 8, "n_inner": 2, "hidden": 4, "group_size": 30, "random_state": 0}


@pytest.fixture(scope="module")
def members():
    """One of each kind: a network in a metric, a centred model, one with class weights and a temperature."""
    kinds = (
        gsat.GSATClassifier("low-rank", metric="batches", gamma=3.0, **NET),
        gsat.LinearClassifier(0.3, prepare="centre"),
        gsat.LDAClassifier(0.2, class_weight="balanced", prepare="zscore", calibrate=True, random_state=0),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [one.fit(pd.DataFrame(X, columns=NAMES), Y, batch=BATCH) for one in kinds]


@pytest.fixture
def average(members):
    return AverageClassifier.of(members)


@pytest.fixture
def saved(average, tmp_path):
    return average.save(tmp_path / "model")


FRAME = pd.DataFrame(X, columns=NAMES)


def test_it_is_the_mean_of_the_probabilities(average, members):
    mean = np.mean([one.predict_proba(FRAME, BATCH) for one in members], axis=0)
    np.testing.assert_allclose(average.predict_proba(FRAME, BATCH), mean)
    np.testing.assert_array_equal(average.predict(FRAME, BATCH), mean.argmax(1))
    np.testing.assert_allclose(average.decision_function(FRAME, BATCH), np.log(mean))
    assert average.score(FRAME, Y, batch=BATCH) == np.mean(mean.argmax(1) == Y)
    weights = np.where(Y == 0, 1.0, 0.0)
    assert average.score(FRAME, Y, weights, batch=BATCH) == np.mean(mean.argmax(1)[Y == 0] == 0)
    assert list(average.feature_names_in_) == NAMES


def test_of_two_classes_the_logit_is_one_number():
    two = AverageClassifier([gsat.LinearClassifier(0.1), gsat.LDAClassifier(0.3)]).fit(X[Y < 2], Y[Y < 2])
    share = two.predict_proba(X)
    np.testing.assert_allclose(two.decision_function(X), np.log(share[:, 1] / share[:, 0]))


def test_it_needs_what_its_members_need(average, members):
    assert average.prepare == "centre"
    assert AverageClassifier.of([members[0], members[2]]).prepare == "none"
    with pytest.raises(ValueError, match="at least 2 samples of each batch"):
        average.predict(FRAME[:1])
    assert combined(members[:1]) is members[0]
    assert isinstance(combined(members), AverageClassifier)


def test_saved_and_loaded_as_one_folder(average, saved):
    assert sorted(path.name for path in saved.iterdir()) == ["model.json", "weights.safetensors"]
    again = gsat.load(saved)
    np.testing.assert_allclose(again.predict_proba(FRAME, BATCH), average.predict_proba(FRAME, BATCH), atol=1e-9)
    assert [type(one) for one in again.estimators_] == [type(one) for one in average.estimators_]
    assert [one.get_params() for one in again.estimators_] == [one.get_params() for one in again.estimators]
    assert list(again.feature_names_in_) == NAMES
    assert again.estimators_[0].metric_ is not None
    assert again.estimators_[2].temperature_ == average.estimators_[2].temperature_
    again.save(saved)  # over itself
    np.testing.assert_allclose(gsat.load(saved).predict_proba(FRAME, BATCH), average.predict_proba(FRAME, BATCH))
    text = (saved / "model.json").read_text()
    assert text.count("gene 3") == 1  # names stand there once


def test_it_is_written_whole_or_not_at_all(average, saved, monkeypatch):
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    write = folders.write_durably

    def full(path, data):
        if path.name == "weights.safetensors":
            raise OSError(28, "No space left on device", str(path))
        write(path, data)

    monkeypatch.setattr(folders, "write_durably", full)
    with pytest.raises(OSError, match="No space left"):
        AverageClassifier.of(average.estimators_[:2]).save(saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_member_that_cannot_be_loaded_is_not_saved(average, tmp_path):
    broken = gsat.load(average.save(tmp_path / "whole"))
    with torch.no_grad():
        broken.estimators_[1].module_[-1].weight[0, 0] = np.nan
    with pytest.raises(ValueError, match="weight must be finite"):
        broken.save(tmp_path / "broken")
    assert not (tmp_path / "broken").exists()


def test_features_are_matched_by_name_in_every_member(average):
    mixed = FRAME[NAMES[::-1]].assign(extra=1.0)
    found = align(average, list(mixed.columns), 6)
    np.testing.assert_allclose(
        probabilities(average, mixed.to_numpy(), found, "error", BATCH), average.predict_proba(FRAME, BATCH), atol=1e-9
    )
    with pytest.raises(ValueError, match='needs a model with prepare="none" or "centre", got "zscore"'):
        align(average, NAMES[1:], 4, "mean")
    found = align(average, NAMES[1:], 4, "zero")
    zero = FRAME.assign(**{"gene 0": 0.0})
    np.testing.assert_allclose(
        probabilities(average, X[:, 1:], found, "zero", BATCH), average.predict_proba(zero, BATCH), atol=1e-9
    )


def test_what_it_has_not_is_said_with_the_reason(average):
    for name in ("perturb", "certificate"):
        assert not hasattr(average, name)
        with pytest.raises(AttributeError, match=rf"an average has no {name}: .*estimators_\[0\]\.{name}"):
            getattr(average, name)
    with pytest.raises(TypeError, match="must be one model, got a AverageClassifier that averages several"):
        gsat.evaluate(average, X, Y, gsat.attacks.PGD(0.1))


@pytest.mark.parametrize(
    ("estimators", "message"),
    [
        ((), "estimators must be classifiers of gsat, at least one, got none"),
        ([gsat.GSATRegressor()], "estimators must be classifiers of gsat, at least one, got GSATRegressor"),
    ],
)
def test_members_are_classifiers(estimators, message):
    with pytest.raises(ValueError, match=message):
        AverageClassifier(estimators).fit(X, Y)


def test_members_have_the_same_classes_and_features():
    one, two = (gsat.LDAClassifier(0.5).fit(X[k > Y], Y[k > Y]) for k in (2, 3))
    with pytest.raises(ValueError, match="estimators must have the same classes_, got others for LDAClassifier"):
        AverageClassifier.of([one, two])
    few = gsat.LDAClassifier(0.5).fit(X[:, :3], Y)
    with pytest.raises(ValueError, match="estimators must have the same n_features_in_"):
        AverageClassifier.of([two, few])


# folders of unknown origin


def edited(folder, change):
    """The folder with a description that was changed, and a checksum that fits."""
    head = json.loads((folder / "model.json").read_text())
    change(head)
    (folder / "model.json").write_text(json.dumps(seal(head)))
    return folder


def with_tensors(folder, tensors):
    found = {**load_file(folder / "weights.safetensors"), **tensors}
    data = save_tensors({name: value for name, value in found.items() if value is not None})
    (folder / "weights.safetensors").write_bytes(data)
    return edited(folder, lambda head: head.update(sha256=hashlib.sha256(data).hexdigest()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda head: head.pop("members"), "members must be a list of 1 to 1000 classifiers, got None"),
        (lambda head: head.update(members=[]), "members must be a list of 1 to 1000 classifiers, got 0"),
        (lambda head: head.update(members=head["members"] * 400), "1 to 1000 classifiers, got 1200"),
        (lambda head: head.update(members=[7]), "member 0 must be an object, got 7"),
        (lambda head: head["members"][1].pop("fitted"), "fitted of member 1 must be an object"),
        (lambda head: head["members"][1].pop("params"), "member 1: params must be an object"),
        (lambda head: head["members"][1].update(estimator="os.system"), "member 1: estimator must be one of GSATClass"),
        (lambda head: head["members"][1].update(estimator="AverageClassifier"), "member 1: estimator must be one of"),
        (lambda head: head["members"][1].update(estimator="GSATRegressor"), "member 1: estimator must be one of"),
        (lambda head: head["members"][0]["params"].update(hidden=10**9), "member 0: the weights must have the shapes"),
        (lambda head: head["members"][0]["params"].update(module="os:system"), "member 0: .*trust_module=True"),
        (lambda head: head["members"][2]["params"].update(shrinkage=7), "member 2: shrinkage must be .* got 7"),
        (lambda head: head["members"][2]["fitted"].update(temperature_=-1), "member 2: temperature_ must be > 0"),
        (lambda head: head["fitted"].pop("classes_"), "member 0: fitted must have classes_"),
        (lambda head: head["fitted"].update(classes_=[0, 1]), "member 0: .*weight"),
        (lambda head: head["fitted"].update(lam_="x"), "member 0: lam_ must be a number"),
        (lambda head: head["fitted"].update(n_features_in_=10**15), "member 0: n_features_in_ must be <="),
        (lambda head: head.update(fitted=[]), "fitted must be an object"),
        (lambda head: head["members"].pop(), "must have the tensors of its members, got the unknown tensor '2:"),
    ],
)
def test_every_member_is_typed_and_bounded(change, message, saved):
    with pytest.raises(ValueError, match=message) as caught:
        gsat.load(edited(saved, change))
    assert str(saved) in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"mean_": torch.ones(5)}, "got the unknown tensor 'mean_'"),
        ({"3:mean_": torch.ones(5)}, "got the unknown tensor '3:mean_'"),
        ({"00:mean_": torch.ones(5)}, "got the unknown tensor '00:mean_'"),
        ({"-1:mean_": torch.ones(5)}, "got the unknown tensor '-1:mean_'"),
        ({"0:../x": torch.ones(5)}, "member 0: must have the tensors of a model, got the unknown tensor '../x'"),
        ({"1:mean_": None}, "member 1: must have the tensor mean_"),
        ({"1:scale_": torch.ones(4)}, r"member 1: scale_ must have shape \(5,\), got \(4,\)"),
    ],
)
def test_tensors_belong_to_members(tensors, message, saved):
    with pytest.raises(ValueError, match=message):
        gsat.load(with_tensors(saved, tensors))


def test_damage_is_seen(saved):
    data = bytearray((saved / "weights.safetensors").read_bytes())
    data[-1] ^= 1
    (saved / "weights.safetensors").write_bytes(bytes(data))
    with pytest.raises(ValueError, match="does not match its checksum"):
        gsat.load(saved)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([AverageClassifier([gsat.LinearClassifier(0.5), gsat.LDAClassifier(0.2)])])
def test_scikit_learn(estimator, check):
    check(estimator)
