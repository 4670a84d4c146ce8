"""The folder of a run: made, kept from being overwritten, and gone on with."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from gsat import _checks
from gsat._files import LOCK, is_ours, locked, read_json, remove_dead_drafts, replace_file
from gsat.cli.app import fail

RUN_FILES = {
    "config.json", "log.jsonl", "log.jsonl.damaged", "checkpoint", "model", "model-single", "models", "results.csv",
    "evaluations.jsonl", "choice.csv", "choice.jsonl", "metrics.json", "predictions.csv", "unlabelled.csv",
    "trained_on.json", "map.csv", "features.csv", "chosen.csv", "differences.csv", "curves.png", "report.html",
    "perturbations.json", "timing.csv", "methods.csv", "batches.csv", "work",
    "erm", "fgm", "pgd", "universal", "group-sparse", "low-rank", LOCK,
}  # fmt: skip

KEPT = {"diagnosis.json", "diagnosis.png", "diagnosis.html"}  # of `gsat diagnose`, in the folder of a run or before it
ASIDE = ".replaced-"  # a folder in that of the run, with the run that --force replaces: all of it
MOVING = ".replacing"  # the same, while its files are moved there or back
DISCARDED = ".discarded"  # the same, while it is removed

LATER = {  # not in runs of earlier versions
    "threads", "early_stopping", "validation_fraction", "calibrate", "prepare", "metric", "gamma", "class_weight",
    "choice", "choice_single", "combine", "hold_out", "normalise", "drop", "features", "unlabelled",
    "processes", "group",
}  # fmt: skip

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
    **dict.fromkeys(("hold_out", "drop", "features", "unlabelled"), (str, NONE)),
    "per_batch": (bool,),
    "prepare": (str, NONE),
}


@contextmanager
def running(out: Path, config: dict[str, Any], *, resume: bool, force: bool) -> Iterator[None]:
    """A block that makes the run of these settings in `out`, or goes on with it, and that no other process is in."""
    with _resumed(out, config) if resume else new_run(out, force, resumable=True):
        write_json(out / "config.json", config)
        yield


@contextmanager
def new_run(out: Path, force: bool, *, resumable: bool = False) -> Iterator[None]:
    """A block that makes a run in `out`, in which no other process is.

    Nothing is overwritten unless asked for, and only what a run of gsat wrote. A run that --force replaces stays until
    the new one has results; where that ends without any, the old one is put back. Of a run that fails and cannot be
    resumed, nothing is left.
    """
    _refuse_others(out)
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        with _alone(out):
            _settle(out)
            refuse_to_overwrite(out, force, resumable)
            if begun(out):
                _set_aside(out)
            with _settled(out), _gone_after_failure(out, resumable):
                yield
    finally:
        if is_new:
            with suppress(OSError):  # there is a run in it
                out.rmdir()


@contextmanager
def _gone_after_failure(out: Path, resumable: bool) -> Iterator[None]:
    """A block that leaves nothing of a run that failed and that nobody can go on with."""
    try:
        yield
    except BaseException:
        if not (resumable and begun(out)):
            _delete_run(out)
        raise


@contextmanager
def _resumed(out: Path, config: dict[str, Any]) -> Iterator[None]:
    """A block that goes on with the run in `out`, in which no other process is."""
    if not is_run(out) and not any(map(_is_aside, out.iterdir() if out.is_dir() else ())):
        fail(f"--resume needs a run in --out, got {out} without config.json")
    with _alone(out):
        if not is_run(out) or _changed(out, config):  # not the run that replaces another, but that other one
            _settle(out)
        if not is_run(out):
            fail(f"--resume needs a run in --out, got {out} without config.json")
        same_config(out, config)
        with _settled(out):
            yield


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """A block with the folder to oneself, cleared of what dead processes left in it."""
    with locked(out):
        for folder in [out, *(path for path in out.iterdir() if path.is_dir() and path.name in RUN_FILES)]:
            remove_dead_drafts(folder)
        _delete(out / DISCARDED)
        if (out / MOVING).exists():
            _put_back(out / MOVING, out)
        yield


@contextmanager
def _settled(out: Path) -> Iterator[None]:
    """A block after which there is one run in the folder: the new one if it has results, else the one before."""
    try:
        yield
    finally:
        _settle(out)


def _settle(out: Path) -> None:
    """Remove the run that was replaced, or put it back where the new one has no results."""
    for aside in _asides(out):
        if has_results(out):
            os.replace(aside, out / DISCARDED)  # half of it must never be put back
            _delete(out / DISCARDED)
        else:
            _delete_run(out)
            os.replace(aside, out / MOVING)
            _put_back(out / MOVING, out)


def _set_aside(out: Path) -> None:
    """Move the run in the folder aside; complete when the folder that it is moved to has its second name."""
    moving = out / MOVING
    moving.mkdir()
    for path in list(out.iterdir()):
        if path.name in RUN_FILES - {LOCK}:
            os.replace(path, moving / path.name)
    os.replace(moving, out / f"{ASIDE}run")


def _put_back(moving: Path, out: Path) -> None:
    """Move what is aside back; nothing of a new run is in its way."""
    for path in list(moving.iterdir()):
        os.replace(path, out / path.name)
    moving.rmdir()


def _delete_run(out: Path) -> None:
    for name in RUN_FILES - {LOCK}:
        _delete(out / name)


def _delete(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _asides(out: Path) -> list[Path]:
    return sorted(path for path in out.glob(f"{ASIDE}*") if path.is_dir())


def _is_aside(path: Path) -> bool:
    return path.name.startswith(ASIDE) or path.name in (MOVING, DISCARDED)


def _others(out: Path) -> set[str]:
    """The names in the folder, without those of drafts, lock, a diagnosis and what was set aside."""
    paths = out.iterdir() if out.exists() else ()
    return {path.name for path in paths if not is_ours(path) and not _is_aside(path)} - KEPT


def _refuse_others(out: Path) -> None:
    """Leave with a message where `out` is no folder, or one that gsat has nothing to do with."""
    if out.exists() and not out.is_dir():
        fail(f"--out must be a folder, got the file {out}")
    if _others(out) - RUN_FILES and not is_run(out) and not any(map(_is_aside, out.iterdir())):
        _refuse(out, "no config.json of a run")


def _refuse(out: Path, what: str) -> NoReturn:
    fail(f"--out must be a new folder or a run of gsat, got {out} with {what}; it is not overwritten")


def refuse_to_overwrite(out: Path, force: bool, resumable: bool) -> None:
    """Leave with a message unless a run may be made in `out`."""
    found = _others(out)
    if foreign := sorted(found - RUN_FILES):
        _refuse(out, ", ".join(foreign))
    if begun(out) and not is_run(out):
        _refuse(out, "no config.json of a run")
    if begun(out) and not force:
        ways = "--force to overwrite it, or --resume" if resumable else "or --force to overwrite it"
        fail(f"--out must be a new or empty folder, got {out}; take another, {ways}")


def begun(out: Path) -> bool:
    """Whether the folder holds more than the settings of a run and drafts."""
    return any(_holds_files(out / name) for name in _others(out) - {"config.json"})


def has_results(out: Path) -> bool:
    """Whether the run in the folder got further than its beginning: a later checkpoint, a model, or tables."""
    checkpoints = (path.name for path in out.glob("checkpoint/step-*"))
    return any(name > "step-000000000" for name in checkpoints) or any(
        _holds_files(out / name) for name in ("model", "models", "results.csv")
    )


def _holds_files(path: Path) -> bool:
    if not path.is_dir() or path.is_symlink():
        return path.exists()
    return any(_holds_files(child) for child in path.iterdir() if not is_ours(child))


def is_run(out: Path) -> bool:
    """Whether the folder has the config.json of a run."""
    try:
        config = read_json(out / "config.json")
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "data" in config and bool({"defence", "defences"} & set(config))


def same_config(out: Path, config: dict[str, Any]) -> None:
    """Leave with a message unless the run in `out` has these settings."""
    if other := _changed(out, config):
        details = ", ".join(f"{key} was {before!r}, is {now!r}" for key, (before, now) in other.items())
        fail(f"--resume needs the options of the run: {details}")


def _changed(out: Path, config: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What the run in `out` has other settings for: the one before and the one now."""
    before = read_json(out / "config.json")
    now = json.loads(json.dumps(config))
    keys = [key for key in sorted({*before, *now} - {"code"}) if key in before or key not in LATER]
    return {key: (before.get(key), now.get(key)) for key in keys if before.get(key) != now.get(key)}


def stored_threads(out: Path) -> int | None:
    """The number of threads of the run in `out`, if it has one."""
    if not is_run(out):
        return None
    found = read_json(out / "config.json").get("threads")
    return found if isinstance(found, int) and found >= 1 else None


def run_config(run: Path) -> dict[str, Any]:
    """The config.json of a run of `gsat train`."""
    path = run / "config.json"
    config = read_json(path)
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
