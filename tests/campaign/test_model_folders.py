"""Damaged, edited and hostile folders of models and runs: a clean error or an equal result, and nothing else."""

import hashlib
import json
import os
import pickle
import random
import shutil
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tally
from safetensors.torch import load_file
from safetensors.torch import save as save_tensors
from typer.testing import CliRunner

import gsat
from gsat.cli import app
from gsat.estimators.folder import seal

pytestmark = pytest.mark.campaign

CASES = 1500 if tally.FULL else 100
NAMES = list("abcd")
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(40, 4)).astype(np.float32), columns=NAMES)
Y = np.where(X["a"] > 0, "sick", "healthy")
DEEP = json.loads("[" * 200 + "]" * 200)
HOSTILE = [
    None, True, False, 0, 1, -1, 2, 5, 1.5, -0.0, 1e308, 1e-308, 10**30, -(10**400), 2**63, "", "a", "elu", "alexnet",
    "subprocess:call", "os:system", "../../etc/passwd", "\0", "\ud83d\ude00", "=cmd()", "x" * 100_000, [], [[]], [1],
    [None], ["a", "b"], [1, 2, 3, 4], [[1, 2], [3, 4]], DEEP, {}, {"a": 1}, {"hidden": 10**9}, {"args": "true"},
    float("nan"), float("inf"), -float("inf"),
]  # fmt: skip


def run(*args):
    """The command: its exit code, its words, and what it raised beside the exit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner().invoke(app, [str(arg) for arg in args])
    raised = None if isinstance(result.exception, SystemExit) else result.exception
    return result.exit_code, result.output, raised


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    X.assign(kind=Y).to_csv(home / "table.csv", index=False)
    quick = {"n_outer": 3, "hidden": 6, "random_state": 0}
    options = {"class_weight": "balanced", "feature_mask": [True, False, True, True], "feature_groups": [0, 0, 1, 2]}
    gsat.GSATClassifier("group-sparse", n_inner=2, **options, **quick).fit(X, Y).save(home / "model")
    assert (
        run("train", home / "table.csv", "--label", "kind", "--n-outer", 3, "--n-inner", 2, "--out", home / "run")[0]
        == 0
    )
    assert run("attack", home / "run", "--steps", 2, "--ranks", "1,2")[0] == 0
    return home


def damaged(data, rng):
    """The bytes with a few bits flipped, cut off, a part zeroed, doubled or taken out, or something else altogether."""
    kind = rng.randrange(7)
    if kind == 0 or len(data) < 4:
        for _ in range(rng.choice([1, 1, 3, 30])):
            place = rng.randrange(max(1, len(data)))
            data = data[:place] + bytes([(data[place] if data else 0) ^ (1 << rng.randrange(8))]) + data[place + 1 :]
        return data
    a, b = sorted(rng.sample(range(len(data) + 1), 2))
    return [
        data[:a], data[:a] + bytes(b - a) + data[b:], data[:b] + data[a:], data[:a] + data[b:],
        rng.randbytes(b - a), b"" if rng.random() < 0.3 else data[:a] + rng.randbytes(8) + data[a:],
    ][kind - 1]  # fmt: skip


def places(value, path=()):
    """The paths to all fields of a JSON value."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from places(entry, (*path, key))


def edited(value, rng):
    """The JSON value with one field changed, doubled or taken away."""
    value = json.loads(json.dumps(value))
    *way, last = rng.choice([path for path in places(value) if path])
    place = value
    for key in way:
        place = place[key]
    if rng.random() < 0.15:
        del place[last]
    elif rng.random() < 0.1 and isinstance(place, dict):
        place[f"{last}_"] = place[last]
    else:
        place[last] = rng.choice(HOSTILE)
    return value


def spoil_model(model, rng):
    """Damage a model's folder in one of the ways; what was done, in words."""
    head, weights = model / "model.json", model / "weights.safetensors"
    kind = rng.choice(["bytes", "bytes", "edit", "sealed", "sealed", "sealed", "tensors", "swap", "gone"])
    if kind == "bytes":
        file = rng.choice([head, weights])
        file.write_bytes(damaged(file.read_bytes(), rng))
    elif kind in ("edit", "sealed"):
        content = edited(json.loads(head.read_text()), rng)
        content = seal(content) if kind == "sealed" else content
        head.write_text(json.dumps(content))
    elif kind == "tensors":  # a file that is right in itself, with other tensors in it
        tensors = load_file(weights)
        name = rng.choice(sorted(tensors))
        value = tensors.pop(name)
        change = rng.randrange(5)
        if change == 0:
            tensors[rng.choice(["../x", "module:", "module:1.weight.x", "mean_ "])] = value
        elif change < 4:
            filled = value.clone().fill_(rng.choice([float("nan"), float("inf")]))
            tensors[name] = [filled, value[:1].clone(), value.int()][change - 1]
        data = save_tensors(tensors)
        weights.write_bytes(data)
        content = json.loads(head.read_text())
        head.write_text(json.dumps(seal({**content, "sha256": hashlib.sha256(data).hexdigest()})))
    elif kind == "swap":
        one, other = head.read_bytes(), weights.read_bytes()
        head.write_bytes(other)
        weights.write_bytes(one)
    else:
        rng.choice([head, weights]).unlink()
    return kind


def test_fuzzed_models(home, tmp_path):
    right = gsat.load(home / "model")
    wanted = right.predict_proba(X)
    clean, failed = 0, []
    for case in range(CASES * 6 // 10):
        rng = random.Random(case)
        model = tmp_path / "model"
        shutil.rmtree(model, ignore_errors=True)
        shutil.copytree(home / "model", model)
        kind = spoil_model(model, rng)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loaded = gsat.load(model)
        except (ValueError, OSError) as error:
            named = str(model) in str(error) and len(str(error)) < 3000
            failed += [] if named else [(case, kind, f"says {str(error)[:300]}")]
        except BaseException as error:
            failed.append((case, kind, repr(error)[:300]))
        else:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # names that were sealed away are told of
                    if kind == "sealed":
                        loaded.temperature_ = right.temperature_  # every number above 0 is a valid one
                    same = np.array_equal(loaded.predict_proba(X), wanted)
                failed += [] if same else [(case, kind, "another result")]
            except ValueError as error:
                sealed = kind == "sealed" and "feature names" in str(error)  # other names, told by scikit-learn
                failed += [] if sealed else [(case, kind, repr(error)[:300])]
        clean += not failed or failed[-1][0] != case
    tally.count("fuzzed: model folders", CASES * 6 // 10, clean, len(failed))
    assert not failed


def test_fuzzed_runs(home, tmp_path):
    code, _, _ = run("predict", home / "run", home / "table.csv", "--label", "kind", "--out", tmp_path / "right.csv")
    assert code == 0
    clean, failed = 0, []
    names = ["config.json", "config.json", "config.json", "log.jsonl", "results.csv", "evaluations.jsonl"]
    for case in range(CASES * 4 // 10):
        rng = random.Random(10**6 + case)
        spoilt, out = tmp_path / "run", tmp_path / "predictions.csv"
        shutil.rmtree(spoilt, ignore_errors=True)
        shutil.copytree(home / "run", spoilt)
        file = spoilt / rng.choice(names)
        if file.name == "config.json" and rng.random() < 0.7:
            file.write_text(json.dumps(edited(json.loads(file.read_text()), rng)))
        elif rng.random() < 0.1:
            shutil.copy(spoilt / rng.choice(names), spoilt / "other")
            (spoilt / "other").replace(file)
        else:
            file.write_bytes(damaged(file.read_bytes(), rng))
        commands = [
            ("report", spoilt),
            ("predict", spoilt, home / "table.csv", "--label", "kind", "--out", out, "--force"),
            ("attack", spoilt, "--structure", "fgm", "--n", 10, "--force"),
        ]
        for command in commands:
            code, said, raised = run(*command)
            good = raised is None and "Traceback" not in said and code in (0, 2)
            if good and command[0] == "predict" and code == 0:
                good = out.read_bytes() == (tmp_path / "right.csv").read_bytes()
            if not good:
                failed.append((case, file.name, command[0], code, repr(raised)[:300], said[-200:]))
        clean += not failed or failed[-1][0] != case
    tally.count("fuzzed: run folders", CASES * 4 // 10, clean, len({entry[0] for entry in failed}))
    assert not failed


class Evil:
    """A pickle that leaves a trace where it is opened."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.system, (f"touch {self.trace}",)


def _foreign(module, options=None):
    def change(model, trace):
        content = json.loads((model / "model.json").read_text())
        content["params"] |= {"module": module, "module_options": options and options(trace)}
        (model / "model.json").write_text(json.dumps(seal(content)))

    return change


def _pickle(name):
    def change(model, trace):
        data = pickle.dumps(Evil(trace))
        (model / name).write_bytes(data)
        if name == "weights.safetensors":
            content = json.loads((model / "model.json").read_text())
            content = seal({**content, "sha256": hashlib.sha256(data).hexdigest()})
            (model / "model.json").write_text(json.dumps(content))

    return change


def _beside(model, trace):
    """Files that Python or a careless reader would open."""
    for name in ("gsat.py", "torch.py", "__init__.py", "sitecustomize.py"):
        (model / name).write_text(f"open({str(trace)!r}, 'w')")
    for name in ("model.pkl", "weights.pt", "pytorch_model.bin"):
        (model / name).write_bytes(pickle.dumps(Evil(trace)))
    (model / "model.json").write_text("{}")


def _estimator(name):
    def change(model, trace):
        content = json.loads((model / "model.json").read_text())
        (model / "model.json").write_text(json.dumps(seal({**content, "estimator": name})))

    return change


def _tensor(name):
    def change(model, trace):
        data = save_tensors(
            {**load_file(model / "weights.safetensors"), name: load_file(model / "weights.safetensors")["mean_"]}
        )
        (model / "weights.safetensors").write_bytes(data)
        content = json.loads((model / "model.json").read_text())
        content = seal({**content, "sha256": hashlib.sha256(data).hexdigest()})
        (model / "model.json").write_text(json.dumps(content))

    return change


MALICIOUS = {
    "subprocess": _foreign("subprocess:call", lambda trace: {"args": f"touch {trace}", "shell": True}),
    "os.system": _foreign("os:system", lambda trace: {"command": f"touch {trace}"}),
    "eval": _foreign("builtins:eval"),
    "exec": _foreign("builtins:exec"),
    "pty": _foreign("pty:spawn"),
    "webbrowser": _foreign("webbrowser:open"),
    "a module with a side effect": _foreign("antigravity:fly"),
    "a path for a module": _foreign("../../evil:net"),
    "an absolute path for a module": _foreign("/tmp/evil.py:net"),
    "torch.load": _foreign("torch:load", lambda trace: {"weights_only": False}),
    "pickle": _foreign("pickle:loads"),
    "gsat's own parts": _foreign("gsat.estimators.loading:load"),
    "a pickle for weights": _pickle("weights.safetensors"),
    "a pickle for the description": _pickle("model.json"),
    "files beside": _beside,
    "os.system for an estimator": _estimator("os.system"),
    "a class of Python for an estimator": _estimator("__class__"),
    "a path for a tensor": _tensor("../../../etc/cron.d/x"),
    "an attribute for a tensor": _tensor("module:__class__"),
}


@pytest.mark.parametrize("name", MALICIOUS)
def test_malicious_models_run_nothing(name, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, trace = tmp_path / "model", tmp_path / "trace"
    shutil.copytree(home / "model", model)
    MALICIOUS[name](model, trace)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    with pytest.raises((ValueError, OSError), match="model"):
        gsat.load(model)
    code, said, raised = run("predict", model, home / "table.csv", "--label", "kind")
    ok = code == 2 and raised is None and sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*")) == before
    tally.count("malicious model folders: load and predict", 1, int(ok), int(not ok))
    assert ok, (code, said, raised)
    assert not Path(trace).exists()
