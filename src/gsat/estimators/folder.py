"""Trained models as folders: tensors in safetensors, everything else in JSON. Nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from gsat import _checks
from gsat._files import LARGEST, parse_json, read_bytes, recover, whole_folder, write_durably

FORMAT = 2  # format 1 had no checksum of model.json
FILES = {"model.json", "weights.safetensors"}


def write_folder(folder: str | Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> Path:
    """Write weights.safetensors and model.json into `folder`, whole or not at all; only a model is overwritten."""
    data = save_tensors({name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()})
    head = seal({"format": FORMAT, "sha256": hashlib.sha256(data).hexdigest(), **about})
    text = json.dumps(head, indent=1, allow_nan=False).encode()
    _write_whole(folder, {"model.json": text, "weights.safetensors": data})
    return Path(folder)


def read_folder(folder: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the description that `write_folder` wrote; a damaged or foreign folder is refused."""
    path = Path(folder)
    with suppress(OSError, ValueError, RuntimeError):  # what is wrong with a path, reading it tells
        recover(path)  # a process may have been killed while it replaced the model
    head, weights = path / "model.json", path / "weights.safetensors"
    about = parse_json(str(head), _bytes(head, LARGEST))
    if not isinstance(about, dict) or about.get("format") not in (1, FORMAT):
        got = about.get("format") if isinstance(about, dict) else None
        raise ValueError(
            f"{path} must have format {FORMAT}, got {_checks.shown(got)}; its model.json is of another version of gsat"
        )
    if about["format"] == 1 and "checksum" not in about:
        warnings.warn(
            f"{path} is a model of format 1, without a checksum of model.json; save it again to have one", stacklevel=3
        )
    elif about.get("checksum") != seal(about)["checksum"]:
        raise ValueError(f"{head} is damaged or was edited: it does not match its checksum")
    data = _bytes(weights)
    if hashlib.sha256(data).hexdigest() != about.get("sha256"):
        raise ValueError(f"{weights} is damaged: it does not match its checksum")
    try:
        return load_tensors(data), about
    except (SafetensorError, KeyError) as error:  # KeyError: a dtype that torch does not have
        raise ValueError(f"{weights} is damaged: {error}") from error


def seal(about: dict[str, Any]) -> dict[str, Any]:
    """The description with the checksum of all its other fields; it shows damage, not who wrote it."""
    other = {name: value for name, value in about.items() if name != "checksum"}
    return {**other, "checksum": hashlib.sha256(json.dumps(other, sort_keys=True).encode()).hexdigest()}


def fill(module: nn.Module, tensors: dict[str, Tensor], folder: str | Path) -> None:
    """Put the tensors into the module and leave it in eval mode."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"the weights in {folder} do not fit the model: {error}") from error
    check_finite(module)
    module.eval()


def check_finite(module: nn.Module) -> None:
    """Raise where a weight is NaN or infinite."""
    for name, value in module.named_parameters():
        if not bool(value.isfinite().all()):
            raise ValueError(f"module:{name} must be finite, got NaN or an infinite number")


def _bytes(path: Path, most: int | None = None) -> bytes:
    """The content of a file of a model."""
    try:
        return read_bytes(path, most)
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        raise FileNotFoundError(
            f"{path.parent} must be a folder with model.json and weights.safetensors: {error}"
        ) from error


def _write_whole(folder: str | Path, files: dict[str, bytes]) -> None:
    """Write the files of a model into `folder`, all of them or none."""
    try:
        final = Path(folder).resolve()
    except RuntimeError as error:  # before Python 3.13, of links that lead to each other
        raise OSError(f"{folder} must be a folder for a model: {error}") from error
    if os.path.lexists(final) and (not final.is_dir() or {path.name for path in final.iterdir()} - FILES):
        raise FileExistsError(f"a model is saved to a new folder or over another model, got {folder} with other files")
    with whole_folder(final) as draft:
        for name, data in files.items():
            write_durably(draft / name, data)
