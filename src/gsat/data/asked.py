"""What the caller of `load` asks of every reader: which columns are features, and what becomes of missing labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from gsat import _checks
from gsat.data.rules import AbsentError, listed

UNLABELLED = ("error", "drop", "predict", "only")


@dataclass(frozen=True)
class Asked:
    """Of one call.

    Parameters
    ----------
    drop, features
        Names of columns that are not features, and of those that alone are; * and ? stand for other signs.
    known
        The features of a model: other columns are left out where they are no numbers. None where no model is given.
    unlabelled
        What becomes of samples without a label or a batch: "error"; "drop" and "predict" leave them out; "only" keeps
        them alone.
    stream
        Whether samples stay in their file; None: where they take more than half of the free memory.
    lacking
        By option, which samples have no value; written by the readers.
    """

    drop: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    known: frozenset[str] | None = None
    unlabelled: str = "error"
    stream: bool | None = None
    lacking: dict[str, Any] = field(default_factory=dict)

    def kept(self, path: Path | str, names: Sequence[str]) -> list[str]:
        """Those of the file's feature names that are features."""
        found = list(names)
        for option, patterns, wanted in (("features", self.features, True), ("drop", self.drop, False)):
            for pattern in patterns:
                if not any(_fits(name, pattern) for name in names):
                    raise AbsentError(
                        f"{path} must have the columns that {option}={pattern!r} names, it has {listed(names)}"
                        f"{''.join(f'; did you mean {each!r}?' for each in get_close_matches(pattern, names, n=1))}"
                    )
            if patterns:
                found = [name for name in found if any(_fits(name, pattern) for pattern in patterns) == wanted]
        if names and not found:
            raise ValueError(f"{path} must have features left, got none of {len(names)} after drop= and features=")
        return found

    def describe(self) -> dict[str, Any]:
        """What a reader in another process needs, as JSON."""
        return {
            "drop": list(self.drop),
            "features": list(self.features),
            "known": None if self.known is None else sorted(self.known),
        }


_asked: ContextVar[Asked | None] = ContextVar("asked", default=None)


def now() -> Asked:
    """What the present call of `load` asks."""
    return _asked.get() or Asked()


@contextmanager
def asked(
    drop: str | Sequence[str] | None,
    features: str | Sequence[str] | None,
    known: Any,
    unlabelled: str | None,
    stream: bool | None = None,
) -> Iterator[Asked]:
    """A block in which readers are asked for that."""
    _checks.one_of("unlabelled", unlabelled or "error", UNLABELLED)
    found = Asked(
        _names(drop), _names(features), None if known is None else frozenset(known), unlabelled or "error", stream
    )
    token = _asked.set(found)
    try:
        yield found
    finally:
        _asked.reset(token)


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    parts = given.split(",") if isinstance(given, str) else given or ()
    return tuple(part.strip() for part in parts if part.strip())


def _fits(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)
