"""The files of a result folder, read and checked; a fault names the file and what is wrong with it."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from gsat._files import parse_json, read_bytes, read_json
from gsat.report import difference
from gsat.report.metrics import Metrics, read_metrics

RESULTS = (  # one of them makes a folder a result
    "results.csv", "log.jsonl", "perturbations.json", "timing.csv", "metrics.json", difference.FILE,
)  # fmt: skip
INTERNAL = {"model", "models", "checkpoint"}
PICTURES = {".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".svg": "image/svg+xml"}
LARGEST = 3_000_000  # bytes of a picture that is put into the page
DEPTH = 3
SEARCHES = {"fast": 0, "standard": 1, "strong": 2}


@dataclass(frozen=True)
class Result:
    """What one folder holds: settings, tables by the stem of their file, steps of training, perturbations, pictures."""

    path: Path
    config: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    log: pd.DataFrame | None = None
    perturbations: list[dict[str, Any]] = field(default_factory=list)
    pictures: dict[str, tuple[str, bytes]] = field(default_factory=dict)  # name -> (media type, bytes)
    left_out: list[str] = field(default_factory=list)  # pictures that are too large
    metrics: Metrics | None = None
    diagnosis: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.absolute().name

    @property
    def names(self) -> dict[str, str]:
        """What config.json calls the defences."""
        names = self.config.get("names")
        return {str(key): str(value) for key, value in names.items()} if isinstance(names, dict) else {}


def find(folder: Path) -> list[Path]:
    """The result folders: the folder itself, or else those below it; or a file of `gsat diagnose`.

    Those that config.json lists as `sections` come first and in its order, the others in that of their names.
    """
    if folder.is_file() and folder.suffix == ".json":
        return [folder]
    if not folder.is_dir():
        raise ValueError(
            f"the report needs a folder of results, got {folder}{'' if folder.exists() else ', which is not there'}"
        )
    found = list(_below(folder, DEPTH))
    if not found:
        raise ValueError(f"the report needs a folder with one of {', '.join(RESULTS)} in it or below it, got {folder}")
    return found


def _below(folder: Path, depth: int) -> Iterator[Path]:
    if any((folder / name).is_file() for name in RESULTS):
        yield folder
    elif depth > 0:
        listed = read_config(folder).get("sections", [])
        first = {str(name): place for place, name in enumerate(listed if isinstance(listed, list) else [])}
        for path in sorted(folder.iterdir(), key=lambda path: (first.get(path.name, len(first)), path)):
            if path.is_dir() and path.name not in INTERNAL and not path.name.startswith("."):
                yield from _below(path, depth - 1)


def read(folder: Path) -> Result:
    """Everything in one result folder that the page can show; of a diagnosis.json itself, that alone."""
    if folder.is_file():
        return Result(folder, diagnosis=difference.read_diagnosis(folder))
    tables = {path.stem: read_csv(path) for path in sorted(folder.glob("*.csv"))}
    pictures, left_out = {}, []
    for path in sorted(folder.iterdir()):
        media = PICTURES.get(path.suffix.lower())
        if media and path.is_file():
            if path.stat().st_size > LARGEST:
                left_out.append(path.name)
            else:
                pictures[path.name] = (media, path.read_bytes())
    config = read_config(folder)
    log = read_log(folder / "log.jsonl") if (folder / "log.jsonl").is_file() else None
    if "defence" in config and "defences" not in config:  # a run of `gsat train`: several attacks, each its own call
        attacks = _evaluations(folder / "evaluations.jsonl", tables.get("results"))
        unit = _unit(folder / "model" / "model.json")
        if attacks is not None:
            tables["results"] = attacks if unit is None or "unit" in attacks else attacks.assign(unit=unit)
    diagnosis = difference.read_diagnosis(folder / difference.FILE)
    if diagnosis is not None:
        pictures.pop("diagnosis.png", None)  # the same figures
    metrics = read_metrics(folder)
    return Result(folder, config, tables, log, read_perturbations(folder), pictures, left_out, metrics, diagnosis)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json, or nothing where it is missing."""
    path = folder / "config.json"
    if not path.is_file():
        return {}
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} must be a JSON object, got {type(content).__name__}")
    return content


def read_csv(path: Path) -> pd.DataFrame:
    """A table with a header; only empty fields and nan are missing values, so "none" and "NA" stay names."""
    try:
        content = io.BytesIO(read_bytes(path))
        rules = {"keep_default_na": False, "na_values": ["", "nan", "NaN"], "float_precision": "round_trip"}
        return pd.read_csv(content, encoding="utf-8", **rules)
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path} must be a table with a header, got an empty file") from None
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be a CSV table in UTF-8: {error}") from None


def read_log(path: Path) -> pd.DataFrame:
    """The steps in log.jsonl; a last line that was cut off, by a kill or a run under way, is left out."""
    lines = read_bytes(path).decode("utf-8", errors="replace").splitlines()
    steps = []
    for number, line in enumerate(lines, 1):
        try:
            step = parse_json(str(path), line)
            if not isinstance(step, dict) or not isinstance(step["t"], int):
                raise ValueError
        except (ValueError, KeyError):
            if number == len(lines):
                break
            raise ValueError(
                f'{path}, line {number} must be a JSON object with a whole number "t", got {line[:80]!r}'
            ) from None
        steps.append(step)
    return pd.DataFrame(steps)


def read_perturbations(folder: Path) -> list[dict[str, Any]]:
    """The entries of perturbations.json, each checked for what its kind needs."""
    path = folder / "perturbations.json"
    if not path.is_file():
        return []
    content = read_json(path)
    entries = content.get("perturbations") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise ValueError(f'{path} must be {{"perturbations": [...]}}')
    for number, entry in enumerate(entries):
        with _where(f"{path}, entry {number}"):
            _check(entry)
    return entries


def _check(entry: Any) -> None:
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if kind not in ("image", "bars", "spectrum"):
        raise ValueError(f"kind must be image, bars or spectrum, got {kind!r}")
    key = "scores" if kind == "bars" else "values"
    numbers = entry.get(key)
    if not isinstance(numbers, list) or not numbers or not all(_finite(number) for number in numbers):
        raise ValueError(f"{key} must be a list of finite numbers, not empty")
    if kind == "bars":
        names = entry.get("names")
        if not isinstance(names, list) or len(names) != len(numbers):
            raise ValueError(f"names must have one name for each of the {len(numbers)} scores")
    if kind == "image":
        shape = entry.get("shape")
        good = (
            isinstance(shape, list) and len(shape) in (2, 3) and all(isinstance(n, int) and 0 < n <= 512 for n in shape)
        )
        if not good or (len(shape) == 3 and not {shape[0], shape[2]} & {1, 3}):
            raise ValueError(f"shape must be [h, w], [h, w, 3] or [3, h, w] with h, w <= 512, got {shape!r}")
        if math.prod(shape) != len(numbers):
            raise ValueError(f"values must have {math.prod(shape)} numbers for shape {shape}, got {len(numbers)}")


def _finite(number: Any) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)


def _evaluations(path: Path, last: pd.DataFrame | None) -> pd.DataFrame | None:
    """The rows of all `gsat attack` calls: results.csv of earlier versions has the last one alone.

    What was attacked twice counts with the harder search. Calls on different numbers of samples are told apart by the
    column "samples".
    """
    rows = []
    for line in read_bytes(path).split(b"\n") if path.is_file() else []:
        try:
            rows.append({**parse_json(str(path), line)["row"]})
        except (ValueError, TypeError, KeyError):
            continue  # a line cut off by a kill
    found = pd.DataFrame(rows)
    key = ["attack", "strength", "eps", "n"]
    if not {*key, "accuracy"} <= set(found):
        return last
    if last is not None:
        if not set(last) <= set(found):
            return last  # not a table of `gsat attack`
        found = pd.concat([found, last], ignore_index=True)
    if "search" in found:
        hard = found["search"].map(SEARCHES).fillna(-1)
        found = found.iloc[hard.to_numpy().argsort(kind="stable")]
    found = found.drop_duplicates(key, keep="last").sort_index(ignore_index=True)
    if found["n"].nunique() > 1:
        found["samples"] = [f"{n:g} test samples" for n in found["n"]]
    return found


def _unit(path: Path) -> float | None:
    """E‖X‖ of the training samples, which the attacks' eps is a fraction of, from the model of a run."""
    try:
        unit = read_json(path)["fitted"]["mean_norm_"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return float(unit) if _finite(unit) and unit > 0 else None


@contextmanager
def _where(text: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None
