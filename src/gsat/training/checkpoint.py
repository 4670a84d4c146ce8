"""Checkpoints of a training run: safetensors and JSON, written whole or not at all, never unpickled."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from gsat._files import read_bytes, read_json, remove_dead_drafts, whole_folder, write_durably

FORMAT = 2
MOST = 10**9 - 1  # steps: a checkpoint is named with nine digits
KEPT = 2  # the newest checkpoint, and the one before in case the newest is damaged


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on: named tensors, and numbers that fit into JSON."""

    step: int
    tensors: dict[str, Tensor]
    numbers: dict[str, Any]


def save(folder: Path, checkpoint: Checkpoint, run: dict[str, Any]) -> Path:
    """Write `folder`/step-N, whole or not at all, and remove all but the newest checkpoints.

    Parameters
    ----------
    folder
        Where the checkpoints of the run are.
    checkpoint
        What is written.
    run
        Describes the run; a checkpoint is only loaded into a run of the same description.

    Returns
    -------
    Path
        The folder of the checkpoint.
    """
    final = folder / _name(checkpoint.step)
    data = save_tensors({name: value.detach().cpu().contiguous().clone() for name, value in checkpoint.tensors.items()})
    head = {"format": FORMAT, "step": checkpoint.step, "run": run, "numbers": checkpoint.numbers}
    head["sha256"] = _checksum(head, data)
    with whole_folder(final) as draft:
        write_durably(draft / "tensors.safetensors", data)
        write_durably(draft / "state.json", json.dumps(head, indent=1).encode())
    for old in _existing(folder)[KEPT:]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def latest(folder: Path, run: dict[str, Any]) -> Checkpoint | None:
    """The newest good checkpoint of a run.

    A damaged one is passed over with a warning, as long as an older good one exists; one of another run is refused.

    Parameters
    ----------
    folder
        Where the checkpoints of the run are.
    run
        Describes the run, as in `save`.

    Returns
    -------
    Checkpoint or None
        None where there is none at all.
    """
    remove_dead_drafts(folder)
    faults = []
    for path in _existing(folder):
        try:
            found = _read(path, run)
        except _Damaged as fault:
            faults.append(str(fault))
            continue
        for text in faults:
            warnings.warn(f"{text}; going on from {path.name}", UserWarning, stacklevel=3)
        return found
    if faults:
        raise ValueError(f"no checkpoint in {folder} can be read: {'; '.join(faults)}")
    return None


def newest(folder: Path, before: int | None = None) -> Path | None:
    """The folder of the newest checkpoint, good or not; with `before`, of the newest from before that step."""
    end = None if before is None else _name(before)
    return next((path for path in _existing(folder) if end is None or path.name < end), None)


def optimizer_state(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The optimizer's state as named tensors and JSON numbers."""
    state = optimizer.state_dict()
    tensors, numbers = {}, {}
    for index, entries in state["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{index}/{name}"] = value
            else:
                numbers[f"{index}/{name}"] = value
    return tensors, {"state": numbers, "groups": state["param_groups"]}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
    """The reverse of `optimizer_state`."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in [*tensors.items(), *numbers["state"].items()]:
        index, _, name = key.partition("/")
        state.setdefault(int(index), {})[name] = value
    groups = [dict(group) for group in numbers["groups"]]
    for group, own in zip(groups, optimizer.state_dict()["param_groups"], strict=True):
        for name, value in own.items():  # JSON has no tuples
            if isinstance(value, tuple):
                group[name] = tuple(group[name])
    optimizer.load_state_dict({"state": state, "param_groups": groups})


class _Damaged(Exception):  # noqa: N818
    pass


def _read(path: Path, run: dict[str, Any]) -> Checkpoint:
    try:
        head = read_json(path / "state.json")
        data = read_bytes(path / "tensors.safetensors")
    except (OSError, ValueError) as error:
        raise _Damaged(f"checkpoint {path} is damaged: {error}") from error
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        version = head.get("format") if isinstance(head, dict) else None
        raise ValueError(
            f"checkpoint {path} must have format {FORMAT}, got {version}: it is of another version of gsat, in which "
            "the run can be resumed; here it must start anew, in another folder"
        )
    if head.pop("sha256", None) != _checksum(head, data):
        raise _Damaged(f"checkpoint {path} is damaged: it does not match its checksum")
    theirs = head["run"]
    ours = json.loads(json.dumps(run))
    if theirs.get("ranks", 1) != ours.get("ranks", 1):
        raise ValueError(
            f"checkpoint {path} is of a run of {theirs.get('ranks', 1)} processes and goes on with as many only, since "
            f"each has samples and a generator of its own; here there are {ours.get('ranks', 1)}"
        )
    if theirs != ours:
        other = sorted(key for key in {*theirs, *ours} if theirs.get(key) != ours.get(key))
        details = ", ".join(f"{key} {theirs.get(key)!r} there, {ours.get(key)!r} here" for key in other)
        raise ValueError(f"checkpoint {path} is of another run: {details}")
    try:
        tensors = load_tensors(data)
    except SafetensorError as error:
        raise _Damaged(f"checkpoint {path} is damaged: {error}") from error
    return Checkpoint(head["step"], tensors, head["numbers"])


def _name(step: int) -> str:
    return f"step-{step:09d}"


def _checksum(head: dict[str, Any], data: bytes) -> str:
    return hashlib.sha256(json.dumps(json.loads(json.dumps(head))).encode() + data).hexdigest()


def _existing(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*"), reverse=True) if folder.is_dir() else []
