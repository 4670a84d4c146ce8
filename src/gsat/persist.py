"""A trained model as a folder: weights in safetensors, everything else in JSON. Nothing is ever unpickled."""

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
from torch import nn

from gsat.checkpoint import write_durably
from gsat.models import build

FORMAT = 1


def save_model(folder: str | Path, module: nn.Module, about: dict[str, Any]) -> Path:
    """Write `folder` whole or not at all. `about` says how to build the module: model, in_shape, n_classes, options."""
    final = Path(folder)
    draft = final.with_name(f".{final.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    data = save_tensors({name: value.detach().cpu().clone() for name, value in module.state_dict().items()})
    head = {"format": FORMAT, "sha256": hashlib.sha256(data).hexdigest(), **about}
    write_durably(draft / "weights.safetensors", data)
    write_durably(draft / "model.json", json.dumps(head, indent=1).encode())
    shutil.rmtree(final, ignore_errors=True)
    os.replace(draft, final)
    return final


def load_model(folder: str | Path) -> tuple[nn.Module, dict[str, Any]]:
    """The module that `save_model` wrote, in eval mode, and what was said about it."""
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
    if hashlib.sha256(data).hexdigest() != about["sha256"]:
        raise ValueError(f"{path / 'weights.safetensors'} is damaged: it does not match its checksum")
    module = build(about["model"], about["in_shape"], about["n_classes"], **about["options"])
    try:
        module.load_state_dict(load_tensors(data))
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"{path / 'weights.safetensors'} does not fit the model {about['model']}: {error}") from error
    return module.eval(), about
