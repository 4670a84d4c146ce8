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

from gsat._files import write_durably

FORMAT = 1
FILES = {"model.json", "weights.safetensors"}


def write_folder(folder: str | Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> Path:
    """Write weights.safetensors and model.json into `folder`, whole or not at all; only a model is overwritten."""
    final = Path(folder).resolve()
    if final.exists() and (not final.is_dir() or {path.name for path in final.iterdir()} - FILES):
        raise FileExistsError(f"a model is saved to a new folder or over another model, got {folder} with other files")
    draft, old = (final.with_name(f".{final.name}.{os.getpid()}{ending}") for ending in ("", ".old"))
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        data = save_tensors({name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()})
        head = {"format": FORMAT, "sha256": hashlib.sha256(data).hexdigest(), **about}
        write_durably(draft / "model.json", json.dumps(head, indent=1, allow_nan=False).encode())
        write_durably(draft / "weights.safetensors", data)
        if final.exists():
            os.replace(final, old)
        os.replace(draft, final)
    finally:
        for left in (draft, old):
            shutil.rmtree(left, ignore_errors=True)
    return Path(folder)


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


def fill(module: nn.Module, tensors: dict[str, Tensor], folder: str | Path) -> None:
    """Put the tensors into the module and leave it in eval mode."""
    try:
        module.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"the weights in {folder} do not fit the model: {error}") from error
    module.eval()
