"""Finished rows of an evaluation, kept in a file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gsat._arrays.chunks import take
from gsat._files import append_line, parse_json, read_bytes
from gsat.attacks import Attack
from gsat.metric import Metric


class Cache:
    """Finished rows in a file, each under a key of the weights, the data, the attack and the groups."""

    def __init__(self, path: Path, module: nn.Module, X: Any, labels: Any, settings: tuple[Any, ...]) -> None:
        self.path = path
        digest = hashlib.sha256(f"{module!r} {_exact(settings)}".encode())
        for name, value in module.state_dict().items():
            digest.update(f"{name} {_exact(value)}".encode())
        for begin in range(0, len(X), 1024):
            chosen = torch.arange(begin, min(begin + 1024, len(X)))
            digest.update(f"{_exact(take(X, chosen))} {_exact(take(labels, chosen))}".encode())
        self.base = digest.hexdigest()
        self.known: dict[str, dict[str, Any]] = {}
        for line in read_bytes(path).split(b"\n") if path.exists() else []:
            try:
                entry = parse_json(str(path), line)
                self.known[entry["key"]] = {**entry["row"]}
            except (ValueError, TypeError, KeyError):
                continue  # a line cut off by a kill: its row is run again

    def _key(self, name: str, attack: Attack | None) -> str:
        options = None if attack is None else (type(attack).__name__, tuple(vars(attack).items()))
        return hashlib.sha256(f"{self.base} {name} {_exact(options)}".encode()).hexdigest()

    def get(self, name: str, attack: Attack | None) -> dict[str, Any] | None:
        """The row, if it is there."""
        return self.known.get(self._key(name, attack))

    def put(self, name: str, attack: Attack | None, row: dict[str, Any]) -> None:
        """Append the row."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        append_line(self.path, json.dumps({"key": self._key(name, attack), "row": row}).encode())


def _exact(value: Any) -> str:
    """As repr, but of an array, a metric or a module all entries count: repr leaves out the middle of a long one."""
    if isinstance(value, Metric):
        return f"{value!r} {value.fingerprint}"
    if isinstance(value, nn.Module):
        weights = " ".join(f"{name} {_exact(weight)}" for name, weight in value.state_dict().items())
        return f"{value!r} {hashlib.sha256(weights.encode()).hexdigest()}"
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_exact, value))}]"
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if isinstance(value, np.ndarray):
        entries = repr(value.tolist()) if value.dtype.hasobject else hashlib.sha256(value.tobytes()).hexdigest()
        return f"{value.dtype} {value.shape} {entries}"
    return repr(value)
