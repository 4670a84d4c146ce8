"""metrics.json of a run of `gsat train`, read and checked: what was held out, and how well the model does there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsat._files import read_json

HELD_OUT = ("batches", "given batch", "random samples", "given samples", "none")


@dataclass(frozen=True)
class Interval:
    """A share with its interval of 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One class or batch: its samples, and shares of them, None where there are none to count."""

    name: str
    n: int
    main: Interval | None  # the recall of a class, the accuracy in a batch
    other: Interval | None  # the precision of a class


@dataclass(frozen=True)
class Judged:
    """Predictions of n samples against their labels; `confusion` has a row for each true class."""

    n: int
    accuracy: Interval
    balanced: Interval | None
    confusion: list[list[int]]
    classes: list[Row]
    batches: list[Row]


@dataclass(frozen=True)
class Bin:
    """Test samples whose largest probability is in one tenth: their mean probability, and the share that is right."""

    n: int
    probability: float
    accuracy: float


@dataclass(frozen=True)
class Counts:
    """Samples of each class (columns) in each batch (rows), on the training and on the test side."""

    classes: list[str]
    batches: list[str]
    train: list[list[int]]
    test: list[list[int]]


@dataclass(frozen=True)
class Metrics:
    """The content of metrics.json."""

    kind: str
    held_out: list[str]
    why: str
    name: str
    label: str | None
    batch: str | None
    n_train: int
    n_test: int
    n_features: int
    defence: str
    words: str
    counts: Counts
    training: Judged | None
    test: Judged | None
    logistic: Judged | None
    majority: float | None
    calibration: list[Bin]
    calibration_error: float | None
    warnings: list[str]

    @property
    def has_batches(self) -> bool:
        """Whether the batches of the samples are known; else they stand in one row, "all"."""
        return self.batch is not None or self.counts.batches != ["all"]


def read_metrics(folder: Path) -> Metrics | None:
    """metrics.json of a trained model; None where there is none, or one of another command."""
    path = folder / "metrics.json"
    if not path.is_file():
        return None
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path} must be a JSON object, got {type(content).__name__}")
    return None if "held_out" not in content else _metrics(Place(content, str(path)))


@dataclass(frozen=True)
class Place:
    """An object in a JSON file, and the words for where it stands there."""

    content: dict[str, Any]
    where: str

    def text(self, key: str) -> str:
        return str(self._get(key, str, "a text"))

    def text_or_none(self, key: str) -> str | None:
        return None if self.content.get(key) is None else self.text(key)

    def count(self, key: str) -> int:
        found = self._get(key, int, "a whole number")
        if isinstance(found, bool) or found < 0:
            self._fail(key, "a whole number >= 0", found)
        return int(found)

    def share(self, key: str) -> float:
        found = self._get(key, (int, float), "a number from 0 to 1")
        if isinstance(found, bool) or not -1e-9 <= found <= 1 + 1e-9:  # NaN as well
            self._fail(key, "a number from 0 to 1", found)
        return float(found)

    def share_or_none(self, key: str) -> float | None:
        return None if self.content.get(key) is None else self.share(key)

    def inside(self, key: str) -> Place:
        return Place(self._get(key, dict, "an object"), f"{self.where}, {key}")

    def interval(self, key: str) -> Interval | None:
        """None where the file says that there is nothing to count."""
        if self.content.get(key) is None:
            return None
        at = self.inside(key)
        return Interval(at.share("value"), at.share("low"), at.share("high"))

    def many(self, key: str) -> list[Place]:
        found = self._get(key, list, "a list of objects")
        for each in found:
            if not isinstance(each, dict):
                self._fail(key, "a list of objects", each)
        return [Place(each, f"{self.where}, {key} {number}") for number, each in enumerate(found)]

    def texts(self, key: str) -> list[str]:
        return [str(each) for each in self._get(key, list, "a list")]

    def matrix(self, key: str, rows: int, columns: int) -> list[list[int]]:
        found: list[list[int]] = self._get(key, list, "a table of whole numbers")
        good = len(found) == rows and all(
            isinstance(row, list) and len(row) == columns and all(type(n) is int and n >= 0 for n in row)
            for row in found
        )
        if not good:
            self._fail(key, f"{rows} rows of {columns} whole numbers >= 0", found)
        return found

    def _get(self, key: str, kinds: type | tuple[type, ...], what: str) -> Any:
        if not isinstance(found := self.content.get(key), kinds):
            self._fail(key, what, found)
        return found

    def _fail(self, key: str, what: str, got: Any) -> None:
        raise ValueError(f"{self.where} must have {key} as {what}, got {repr(got)[:80]}")


def _metrics(at: Place) -> Metrics:
    held, data, model, counts = (at.inside(key) for key in ("held_out", "data", "model", "counts"))
    if (kind := held.text("kind")) not in HELD_OUT:
        raise ValueError(f"{held.where} must have kind as one of {', '.join(HELD_OUT)}, got {kind!r}")
    classes, batches = counts.texts("classes"), counts.texts("batches")
    sides = [counts.matrix(side, len(batches), len(classes)) for side in ("train", "test")]
    judged = {key: _judged(at, key, len(classes)) for key in ("training", "test", "logistic")}
    return Metrics(
        kind=kind,
        held_out=held.texts("batches"),
        why=held.text("why"),
        name=data.text("name"),
        label=data.text_or_none("label"),
        batch=data.text_or_none("batch"),
        n_train=data.count("n_train"),
        n_test=data.count("n_test"),
        n_features=data.count("n_features"),
        defence=model.text("defence"),
        words=model.text("words"),
        counts=Counts(classes, batches, *sides),
        majority=at.share_or_none("majority"),
        calibration=[
            Bin(each.count("n"), each.share("probability"), each.share("accuracy"))
            for each in (at.many("calibration") if at.content.get("calibration") is not None else [])
        ],
        calibration_error=at.share_or_none("calibration_error"),
        warnings=at.texts("warnings") if "warnings" in at.content else [],
        **judged,
    )


def _judged(at: Place, key: str, k: int) -> Judged | None:
    if at.content.get(key) is None:
        return None
    own = at.inside(key)
    accuracy = own.interval("accuracy")
    if accuracy is None:
        raise ValueError(f"{own.where} must have accuracy as an object, got None")
    return Judged(
        n=own.count("n"),
        accuracy=accuracy,
        balanced=own.interval("balanced_accuracy"),
        confusion=own.matrix("confusion", k, k),
        classes=[_row(each, "class", "recall", "precision") for each in own.many("per_class")],
        batches=[_row(each, "batch", "accuracy", None) for each in own.many("per_batch")],
    )


def _row(at: Place, name: str, main: str, other: str | None) -> Row:
    return Row(
        str(at.content.get(name)), at.count("n"), at.interval(main), None if other is None else at.interval(other)
    )
