"""Trained models as folders: tensors in safetensors, everything else in JSON. Nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from gsat.checkpoint import write_durably
from gsat.models import build

FORMAT = 1


def write_folder(folder: str | Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> Path:
    """Write weights.safetensors and model.json into `folder`, whole or not at all."""
    final = Path(folder)
    draft = final.with_name(f".{final.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        data = save_tensors({name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()})
        head = {"format": FORMAT, "sha256": hashlib.sha256(data).hexdigest(), **about}
        write_durably(draft / "model.json", json.dumps(head, indent=1, allow_nan=False).encode())
        write_durably(draft / "weights.safetensors", data)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(draft, final)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return final


def read_folder(folder: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the description that `write_folder` wrote; a damaged or foreign folder is refused."""
    path = Path(folder)
    try:
        about = json.loads((path / "model.json").read_bytes())
        data = (path / "weights.safetensors").read_bytes()
    except OSError as error:
        raise FileNotFoundError(f"{path} must be a folder with model.json and weights.safetensors: {error}") from error
    except ValueError as error:
        raise ValueError(f"{path / 'model.json'} is not JSON: {error}") from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        got = about.get("format") if isinstance(about, dict) else None
        raise ValueError(f"{path} must have format {FORMAT}, got {got}; it was written by another version of gsat")
    if hashlib.sha256(data).hexdigest() != about.get("sha256"):
        raise ValueError(f"{path / 'weights.safetensors'} is damaged: it does not match its checksum")
    try:
        return load_tensors(data), about
    except SafetensorError as error:
        raise ValueError(f"{path / 'weights.safetensors'} is damaged: {error}") from error


def save_model(folder: str | Path, module: nn.Module, about: dict[str, Any]) -> Path:
    """Write a module; `about` says how to build it: model, in_shape, n_classes, options."""
    return write_folder(folder, dict(module.state_dict()), about)


def load_model(folder: str | Path) -> tuple[nn.Module, dict[str, Any]]:
    """The module that `save_model` wrote, in eval mode, and what was said about it."""
    tensors, about = read_folder(folder)
    module = build(about["model"], about["in_shape"], about["n_classes"], **about["options"])
    fill(module, tensors, folder)
    return module, about


def fill(module: nn.Module, tensors: dict[str, Tensor], folder: str | Path) -> None:
    """Put the tensors into the module and leave it in eval mode."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"the weights in {folder} do not fit the model: {error}") from error
    module.eval()
