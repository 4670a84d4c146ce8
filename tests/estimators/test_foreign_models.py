"""Saved models of unknown origin: nothing foreign runs, and nothing wrong is loaded in silence."""

import hashlib
import json
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from safetensors.torch import save as save_tensors

import gsat
from gsat.estimators.folder import seal

X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
Y = np.where(X[:, 0] > 0, "sick", "healthy")
QUICK = {"n_outer": 5, "hidden": 6, "random_state": 0}


@pytest.fixture
def folder(tmp_path):
    return gsat.GSATClassifier("low-rank", n_inner=2, **QUICK).fit(X, Y).save(tmp_path / "model")


def edited(folder, **changes):
    """The folder with other fields, "params.hidden" for a field of a field, and a checksum that fits."""
    head = json.loads((folder / "model.json").read_text())
    for name, value in changes.items():
        place, *parts = head, *name.split("__")
        for part in parts[:-1]:
            place = place[part]
        place[parts[-1]] = value
    (folder / "model.json").write_text(json.dumps(seal(head)))
    return folder


def with_tensors(folder, **tensors):
    """The folder with other tensors (None takes one away), and checksums that fit."""
    found = {**load_file(folder / "weights.safetensors"), **tensors}
    data = save_tensors({name: value for name, value in found.items() if value is not None})
    (folder / "weights.safetensors").write_bytes(data)
    return edited(folder, sha256=hashlib.sha256(data).hexdigest())


def test_a_folder_that_is_written_anew_with_the_same_content_is_loaded(folder):
    before = gsat.load(folder).predict_proba(X)
    assert np.array_equal(gsat.load(with_tensors(edited(folder))).predict_proba(X), before)


@pytest.mark.parametrize("spec", ["subprocess:call", "os:system", "builtins:eval", "victim:build"])
def test_a_foreign_module_is_neither_imported_nor_called(spec, folder, tmp_path, monkeypatch):
    (tmp_path / "victim.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef build(*a, **o): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    options = {"args": f"touch {tmp_path / 'ran'}", "shell": True}
    edited(folder, params__module=spec, params__module_options=options)
    with pytest.raises(ValueError, match=rf"model.json names the module '{spec}', .*trust_module=True"):
        gsat.load(folder)
    assert not (tmp_path / "ran").exists()
    assert "victim" not in sys.modules


def test_a_trusted_module_is_imported(tmp_path, monkeypatch):
    (tmp_path / "foreign_nets.py").write_text(
        "from torch import nn\ndef net(shape, n, scale=1.0):\n    return nn.Linear(shape[0], n)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    clf = gsat.ERMClassifier(module="foreign_nets:net", module_options={"scale": 2.0}, **QUICK).fit(X, Y)
    clf.save(tmp_path / "m")
    with pytest.raises(ValueError, match="trust_module=True"):
        gsat.load(tmp_path / "m")
    assert np.array_equal(gsat.load(tmp_path / "m", trust_module=True).predict_proba(X), clf.predict_proba(X))


HUGE = 10**400
WRONG = [
    ("params", [], "params must be an object"),
    ("params", {"n_outer": 5, "surprise": 1}, "params must be those of GSATClassifier, got surprise"),
    ("params", {"device": "cuda"}, "params must be those of GSATClassifier, got device"),
    ("params__hidden", "6", "hidden must be a whole number, got '6'"),
    ("params__hidden", -6, "hidden must be >= 0, got -6"),
    ("params__hidden", True, "hidden must be a whole number"),
    ("params__hidden", HUGE, "hidden must be <= "),
    ("params__hidden", 10**9, r"the weights must have the shapes of the network, 1.weight \(1000000000, 4\)"),
    ("params__hidden", 7, r"the weights must have the shapes of the network, 1.weight \(7, 4\), got \(6, 4\)"),
    ("params__in_shape", [2, 3], "in_shape must have as many entries as there are features"),
    ("params__in_shape", [2, -2], "in_shape must be >= 1, got -2"),
    ("params__in_shape", "abcd", "in_shape must be a list of whole numbers"),
    ("params__in_shape", [HUGE], "in_shape must be <= "),
    ("params__module", 3, "module must be text, got 3"),
    ("params__module", ["elu"], "module must be text"),
    ("params__module", "elu" * 1000, "module must be text of at most"),
    ("params__module", "alexnet", "in_shape must be \\(channels, height, width\\)"),
    ("params__module_options", {"units": 3}, "module_options must be among hidden for the module elu, got units"),
    ("params__module_options", {"hidden": 1e9}, "hidden must be a whole number"),
    ("params__module_options", [1], "module_options must be an object"),
    ("params__n_outer", 1.5, "n_outer must be a whole number"),
    ("params__group_size", 0, "group_size must be >= 1, got 0"),
    ("params__eta0", "fast", "eta0 must be a number"),
    ("params__budget", HUGE, "budget must be "),
    ("params__standardize", "yes", "standardize must be true or false, got 'yes'"),
    ("params__structure", "no-such", "structure must be one of"),
    ("params__structure", None, "structure must be one of"),
    ("params__lam", "free", 'lam must be one of'),
    ("params__solver", ["admm"], "solver must be one of"),
    ("params__schedule", "os:system", "schedule must be one of"),
    ("params__alpha", 3, "alpha must be .* <= 1, got 3"),
    ("params__k", -1, "k must be >= 0, got -1"),
    ("params__feature_mask", [True], "feature_mask must have one of true or false per feature"),
    ("params__feature_mask", [[[True]]], "feature_mask must have one of true or false per feature"),
    ("params__feature_groups", [0, 1, [2], 3], "feature_groups must be a list of text or numbers"),
    ("params__feature_groups", [0, 1], r"feature_groups must have one entry per feature \(4\), got 2"),
    ("params__class_weight", [["sick"]], "class_weight must be"),
    ("params__class_weight", [["sick", "much"]], "class_weight must be a number"),
    ("params__random_state", "seed", "random_state must be a whole number"),
    ("fitted", None, "fitted must be an object"),
    ("fitted__classes_", ["sick", "healthy"], "classes_ must be distinct and in order"),
    ("fitted__classes_", ["healthy"], "classes_ must have at least 2"),
    ("fitted__classes_", ["healthy", 3], "classes_ must be all text or all numbers"),
    ("fitted__classes_", [["a"], ["b"]], "classes_ must be a list of text or numbers"),
    ("fitted__classes_", [float("nan"), float("nan")], "classes_ must be"),
    ("fitted__classes_", ["a", "b", "c"], r"3.weight \(3, 6\), got \(2, 6\)"),
    ("fitted__n_features_in_", 5, r"mean_ must have shape \(5,\), got \(4,\)"),
    ("fitted__n_features_in_", 10**15, "n_features_in_ must be <= "),
    ("fitted__feature_names_in_", ["a", "b"], r"feature_names_in_ must have one entry per feature \(4\), got 2"),
    ("fitted__feature_names_in_", [1, 2, 3, 4], "feature_names_in_ must be a list of text"),
    ("fitted__mean_norm_", float("inf"), "mean_norm_ must be"),
    ("fitted__lam_", float("nan"), "lam_ must be"),
    ("fitted__n_iter_", "many", "n_iter_ must be a whole number"),
    ("history", {"lam": 1.0, "steps": [1]}, "history must hold lam and mean_norm"),
    ("history", 7, "history must be an object"),
    ("estimator", ["GSATClassifier"], "estimator must be one of GSATClassifier"),
    ("estimator", "GSATRegressor", "class_weight"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "message"), WRONG, ids=[f"{f}={str(v)[:20]}" for f, v, _ in WRONG])
def test_every_field_is_typed_and_bounded(field, value, message, folder):
    with pytest.raises(ValueError, match=message) as caught:
        gsat.load(edited(folder, **{field: value}))
    assert str(folder) in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("missing", ["params", "fitted", "estimator"])
def test_a_missing_field_is_named(missing, folder):
    head = json.loads((folder / "model.json").read_text())
    del head[missing]
    (folder / "model.json").write_text(json.dumps(seal(head)))
    with pytest.raises(ValueError, match=missing):
        gsat.load(folder)


@pytest.mark.parametrize("missing", ["classes_", "n_features_in_", "mean_norm_"])
def test_a_missing_result_of_fit_is_named(missing, folder):
    head = json.loads((folder / "model.json").read_text())
    del head["fitted"][missing]
    (folder / "model.json").write_text(json.dumps(seal(head)))
    with pytest.raises(ValueError, match=rf"fitted must have {missing}"):
        gsat.load(folder)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"mean_": torch.full((4,), NAN)}, "mean_ must be finite"),
        ({"scale_": torch.full((4,), INF)}, "scale_ must be finite"),
        ({"scale_": torch.zeros(4)}, "scale_ must be > 0"),
        ({"scale_": torch.ones(3)}, r"scale_ must have shape \(4,\), got \(3,\)"),
        ({"mean_": torch.ones(4, dtype=torch.int64)}, "mean_ must be of numbers with a point"),
        ({"mean_": None}, "must have the tensor mean_"),
        ({"module:1.weight": torch.full((6, 4), INF)}, "module:1.weight must be finite"),
        ({"module:1.weight": None}, r"1.weight \(6, 4\), got none"),
        ({"module:../../x": torch.ones(2)}, r"the weights must have the shapes of the network"),
        ({"../../x": torch.ones(2)}, r"got the unknown tensor '../../x'"),
        ({"module:1.bias": torch.ones(6, dtype=torch.complex64)}, "module:1.bias must be of numbers with a point"),
        ({"class_weights": torch.ones(7)}, r"class_weights must have shape \(2,\), got \(7,\)"),
        ({"class_weights": torch.tensor([1.0, -1.0])}, "class_weights must be >= 0"),
    ],
)
def test_tensors_are_checked(tensors, message, folder):
    with pytest.raises(ValueError, match=message) as caught:
        gsat.load(with_tensors(folder, **tensors))
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"fitted__classes_": ["a", "b"]},
        {"fitted__feature_names_in_": list("dcba")},
        {"params__standardize": False},
        {"params__alpha": 0.9},
        {"fitted__mean_norm_": 3.0},
    ],
)
def test_the_description_has_a_checksum(change, folder):
    head = json.loads((folder / "model.json").read_text())
    for name, value in change.items():
        outer, inner = name.split("__")
        head[outer][inner] = value
    (folder / "model.json").write_text(json.dumps(head))
    with pytest.raises(ValueError, match=r"model.json is damaged or was edited: it does not match its checksum"):
        gsat.load(folder)


def test_a_folder_of_the_first_format_is_loaded_with_a_warning(folder):
    before = gsat.load(folder).predict_proba(X)
    head = json.loads((folder / "model.json").read_text())
    del head["checksum"]
    (folder / "model.json").write_text(json.dumps({**head, "format": 1}))
    with pytest.warns(UserWarning, match="format 1, without a checksum of model.json; .*save"):
        again = gsat.load(folder)
    assert np.array_equal(again.predict_proba(X), before)
    (folder / "model.json").write_text(json.dumps({**head, "format": 2}))
    with pytest.raises(ValueError, match=r"model.json is damaged or was edited"):
        gsat.load(folder)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": 2, "a": ' * 5000, "\xff", "", "null", "9" * 9000, "NaN"])
def test_what_is_no_description_is_an_error_that_names_the_file(text, folder):
    (folder / "model.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"model"):
        gsat.load(folder)


def test_a_renamed_pickle_is_not_opened(folder, tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    for name in ("weights.safetensors", "model.json"):
        kept = (folder / name).read_bytes()
        (folder / name).write_bytes(pickle.dumps(Evil()))
        with pytest.raises(ValueError, match=name):
            gsat.load(folder)
        if name == "weights.safetensors":
            with pytest.raises(ValueError, match=r"weights.safetensors is damaged"):
                gsat.load(edited(folder, sha256=hashlib.sha256(pickle.dumps(Evil())).hexdigest()))
        (folder / name).write_bytes(kept)
    assert not (tmp_path / "ran").exists()


def test_links_that_lead_nowhere_and_pipes_are_errors(folder, tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(FileNotFoundError, match="loop"):
        gsat.load(loop)
    with pytest.raises(OSError, match="loop"):
        gsat.load(folder).save(loop)
    with pytest.raises(FileNotFoundError, match="nosuchuser"):
        gsat.load("~nosuchuser/model")
    for name in ("model.json", "weights.safetensors"):
        (folder / name).unlink()
        os.mkfifo(folder / name)  # it would be waited for for ever
        with pytest.raises(FileNotFoundError, match=f"{name} is no file"):
            gsat.load(folder)
        (folder / name).unlink()
        Path(folder / name).symlink_to("/dev/zero")
        with pytest.raises(FileNotFoundError, match=f"{name} is no file"):
            gsat.load(folder)
        (folder / name).unlink()
        gsat.GSATClassifier("low-rank", n_inner=2, **QUICK).fit(X, Y).save(tmp_path / "other")
        (folder / name).write_bytes((tmp_path / "other" / name).read_bytes())


def test_a_model_with_weights_that_are_not_finite_is_not_saved(tmp_path):
    clf = gsat.ERMClassifier(**QUICK).fit(X, Y)
    with torch.no_grad():
        clf.module_[1].weight[0, 0] = NAN
    with pytest.raises(ValueError, match=r"module:1.weight must be finite"):
        clf.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("kind", [gsat.FGMClassifier, gsat.FGSMClassifier, gsat.UniversalATClassifier])
def test_a_parameter_that_was_never_used_is_no_longer_there_but_old_models_load(kind, tmp_path):
    clf = kind(**QUICK).fit(X, Y)
    assert "n_inner" not in clf.get_params()
    again = gsat.load(edited(clf.save(tmp_path / "model"), params__n_inner=20))
    assert again.get_params() == clf.get_params()
    np.testing.assert_array_equal(again.predict(X), clf.predict(X))
