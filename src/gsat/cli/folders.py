"""The folder of a run: made, kept from being overwritten, and gone on with."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from gsat import _checks
from gsat._files import replace_file
from gsat.cli.app import fail

RUN_FILES = {
    "config.json", "log.jsonl", "checkpoint", "model", "models", "results.csv", "evaluations.jsonl", "chosen.csv",
    "differences.csv", "curves.png", "report.html", "perturbations.json", "timing.csv",
    "erm", "fgm", "pgd", "universal", "group-sparse", "low-rank",
}  # fmt: skip

ASIDE = ".replaced-"  # a folder in that of the run, with the run that --force replaces

NONE = type(None)
CONFIG: dict[str, tuple[type, ...]] = {  # what reading a run's data again needs of config.json
    "data": (str,),
    "label": (str, NONE),
    "batch": (str, NONE),
    "ids": (str, NONE),
    "layer": (str, NONE),
    "pheno": (str, NONE),
    "missing": (str, float, int, NONE),
    "one_hot": (bool, NONE),
    "test_fraction": (float, int, NONE),
    "test_batch": (str, NONE),
    "per_batch": (bool,),
}


@contextmanager
def running(out: Path, config: dict[str, Any], *, resume: bool, force: bool) -> Iterator[None]:
    """A block that makes the run of these settings in `out`, or goes on with it."""
    if resume:
        same_config(out, config)
    with nullcontext() if resume else new_run(out, force):
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "config.json", config)
        yield


@contextmanager
def new_run(out: Path, force: bool) -> Iterator[None]:
    """A block that makes a run in `out`; a run that --force replaces is put back if the new one never begins.

    Nothing is overwritten unless asked for, and only what a run of gsat wrote.
    """
    refuse_to_overwrite(out, force)
    if not begun(out):  # new, or a run that failed before its first step
        yield
        return
    aside = Path(tempfile.mkdtemp(prefix=ASIDE, dir=out))
    _move(out, aside)
    try:
        yield
    except BaseException:
        if begun(out):
            shutil.rmtree(aside)
        else:
            (out / "config.json").unlink(missing_ok=True)
            _move(aside, out)
            aside.rmdir()
        raise
    shutil.rmtree(aside)


def _move(source: Path, target: Path) -> None:
    for path in list(source.iterdir()):
        if not path.name.startswith(ASIDE):
            path.rename(target / path.name)


def refuse_to_overwrite(out: Path, force: bool) -> None:
    """Leave with a message unless a run may be made in `out`."""
    if out.exists() and not out.is_dir():
        fail(f"--out must be a folder, got the file {out}")
    found = {path.name for path in out.iterdir()} if out.exists() else set()
    if not begun(out) and (not found or is_run(out)):
        return
    if not is_run(out) or (found - RUN_FILES):
        what = ", ".join(sorted(found - RUN_FILES)) if is_run(out) else "no config.json of a run"
        fail(f"--out must be a new folder or a run of gsat, got {out} with {what}; it is not overwritten")
    if not force:
        fail(f"--out must be a new or empty folder, got {out}; take another, --force to overwrite it, or --resume")


def begun(out: Path) -> bool:
    """Whether the folder holds more than the settings of a run."""
    if not out.exists():
        return False
    return any(path.name != "config.json" and not path.name.startswith(ASIDE) for path in out.iterdir())


def is_run(out: Path) -> bool:
    """Whether the folder has the config.json of a run."""
    try:
        config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "data" in config and bool({"defence", "defences"} & set(config))


def same_config(out: Path, config: dict[str, Any]) -> None:
    """Leave with a message unless the run in `out` has these settings."""
    try:
        before = json.loads((out / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        fail(f"--resume needs a run in --out, got {out} without config.json")
    now = json.loads(json.dumps(config))
    other = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
    if other:
        details = ", ".join(f"{key} was {before.get(key)!r}, is {now.get(key)!r}" for key in other)
        fail(f"--resume needs the options of the run: {details}")


def run_config(run: Path) -> dict[str, Any]:
    """The config.json of a run of `gsat train`."""
    path = run / "config.json"
    config = _checks.parsed_json(str(path), path.read_bytes())
    if not isinstance(config, dict) or "rows_checksum" not in config:
        raise ValueError(f"{run} must be a run of `gsat train`, got a config.json of something else")
    for name, kinds in CONFIG.items():
        if not isinstance(config.get(name), kinds):
            wanted = " or ".join("none" if kind is type(None) else kind.__name__ for kind in kinds)
            raise ValueError(f"{path} must have {name} as {wanted}, got {_checks.shown(config.get(name))}")
    return config


def refuse_without_model(run: Path) -> None:
    """Raise unless the folder of a run, or of a saved classifier, has a model; before data is read."""
    if not any((run / name).exists() for name in ("model.json", "model/model.json")):
        from gsat.estimators import load

        load(run)  # it says what is missing


def write_json(path: Path, content: dict[str, Any]) -> None:
    """The content as JSON, whole or not at all."""
    replace_file(path, json.dumps(content, indent=1).encode())
