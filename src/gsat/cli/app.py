"""The command that all others hang on, and how they fail."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


@app.callback()
def about() -> None:
    """Train classifiers robust to perturbations that are structured across samples."""


def user_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Errors that the user can mend end with a line and exit code 2, not with a traceback."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _say_warning
                command(*args, **kwargs)
        except (ValueError, TypeError, OSError, FloatingPointError, ImportError) as error:
            fail("\n".join([str(error), *getattr(error, "__notes__", [])]))
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(130) from None

    return guarded


def _say_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    """A warning as a line for the user, without the place in the code that gave it."""
    typer.echo(f"gsat: warning: {message}", err=True)


def fail(message: str) -> NoReturn:
    """Say what is wrong and leave with exit code 2."""
    typer.echo(f"gsat: {message}", err=True)
    raise typer.Exit(2)


def numbers(option: str, text: str | None, kind: Callable[[str], Any]) -> list[Any]:
    if text is None:
        return [None]
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        fail(f"{option} must be numbers separated by commas, got {text!r}")


def say(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(summary))
        return
    for name, value in summary.items():
        text = "-" if value is None else f"{value:.4g}" if isinstance(value, float) else value
        typer.echo(f"{name:<14} {text}")
