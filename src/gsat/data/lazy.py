"""Functions whose modules are imported when they are called, so that a table of many costs nothing to look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import Any


@dataclass(frozen=True)
class LazyFunction:
    """The function `name` of the module `module`, which may be called like it."""

    module: str
    name: str

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Import the module and call its function."""
        return self.__wrapped__(*args, **options)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The function itself; `inspect.signature` looks here."""
        function: Callable[..., Any] = getattr(import_module(self.module), self.name)
        return function


def options_of(function: Callable[..., Any]) -> list[str]:
    """The names of the options, which are the keyword-only parameters."""
    return [name for name, about in signature(function).parameters.items() if about.kind == about.KEYWORD_ONLY]
