"""The command that all others hang on, and how they fail.

Nothing that takes long to import is imported outside a command, so that help, --version and a wrong option answer at
once.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, NoReturn

import typer

from gsat import __version__

TOGETHER = ("train", "attack")  # commands that several processes share

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gsat {__version__}")
        raise typer.Exit


@app.callback()
def about(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Train classifiers robust to perturbations that are structured across samples."""
    if processes() > 1 and context.invoked_subcommand not in TOGETHER:
        fail(
            f"gsat {context.invoked_subcommand} must run in one process, got {processes()} (WORLD_SIZE): torchrun is "
            f"for gsat {' and gsat '.join(TOGETHER)}; start it without torchrun, or unset WORLD_SIZE. Commands that "
            "take --jobs use several cores by themselves"
        )


def user_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Errors that the user can mend end with a line and exit code 2, not with a traceback."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            with _told_to_end(), warnings.catch_warnings():
                warnings.showwarning = _say_warning
                warnings.simplefilter("ignore", FutureWarning)  # for those who write programs
                command(*args, **kwargs)
        except (ValueError, TypeError, OSError, FloatingPointError, ImportError) as error:
            fail("\n".join([str(error), *getattr(error, "__notes__", [])]))
        except MemoryError as error:
            why = f" ({error})" if str(error) else ""
            fail(f"there is not enough memory{why}; take fewer samples, or a larger machine")
        except RecursionError:
            fail("something that was read is nested too deeply")
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(130) from None

    return guarded


@contextmanager
def _told_to_end() -> Iterator[None]:
    """SIGTERM unwinds the command as an error does, so that the workers it has started end with it.

    Where it comes while workers are being started, taking them down may fail; the command still ends as told.
    """
    told: list[int] = []

    def end(number: int, frame: object) -> NoReturn:
        told.append(number)
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # Python lets no other thread set handlers
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except Exception as error:
        if told:
            raise SystemExit(128 + told[0]) from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def processes() -> int:
    """How many processes torchrun has started for the command; 1 without it."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def speaks() -> bool:
    """Whether this process tells the user what happens: of those of torchrun the first of a machine does."""
    return processes() == 1 or os.environ.get("LOCAL_RANK", "0") == "0"


def _say_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    """A warning as a line for the user, without the place in the code that gave it."""
    warn(as_typed(str(message)))


def as_typed(message: str) -> str:
    """A warning of the library with the names of its remedy as options are typed: "; take a larger --n-outer"."""
    said, take, remedy = message.rpartition("; take ")
    return said + take + re.sub(r"\b(n_outer|n_inner|eta0|budget|lam)\b", _option, remedy) if take else message


def _option(name: re.Match[str]) -> str:
    return f"--{name[0].replace('_', '-')}"


def note(message: str) -> None:
    """Say what the user should know, once for all processes; the command goes on."""
    if speaks():
        typer.echo(f"gsat: {visible(message)}", err=True)


def warn(message: str) -> None:
    """The same of what makes a result doubtful."""
    note(f"warning: {message}")


@contextmanager
def warnings_kept() -> Iterator[list[str]]:
    """A block whose warnings are said as ever, and kept in a list."""
    before, kept = warnings.showwarning, list[str]()

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        kept.append(as_typed(str(message)))
        before(message, *where, **more)

    warnings.showwarning = show
    try:
        yield kept
    finally:
        warnings.showwarning = before


def visible(text: str) -> str:
    """The text with all that steers a terminal written out, but for ends of lines: names may come from others."""
    return "".join(
        each if each.isprintable() or each == "\n" else each.encode("unicode_escape").decode() for each in text
    )


def fail(message: str) -> NoReturn:
    """Say what is wrong and leave with exit code 2."""
    if speaks():
        typer.echo(f"gsat: {visible(message)}", err=True)
    raise typer.Exit(2)


def numbers(option: str, text: str | None, kind: Callable[[str], Any]) -> list[Any]:
    """The numbers in the text of an option, separated by commas; [None] where it is not given."""
    if text is None:
        return [None]
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        fail(f"{option} must be numbers separated by commas, got {text!r}")


def given(context: typer.Context) -> set[str]:
    """The parameters of a command that were typed, n_outer for --n-outer; the others have their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"}


def import_from_here() -> None:
    """Let "my_file:factory" be found where the command is typed, after everything that is installed."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def at_least_one(**options: int | None) -> None:
    """Leave with a message unless every number that is given is at least 1; --n-test is called n_test here."""
    for name, number in options.items():
        if number is not None and number < 1:
            fail(f"--{name.replace('_', '-')} must be >= 1, got {number}")


def say(summary: dict[str, Any], as_json: bool) -> None:
    """Print the summary as lines, or as JSON."""
    if as_json:
        typer.echo(json.dumps(summary))
        return
    for name, value in summary.items():
        text = "-" if value is None else f"{value:.4g}" if isinstance(value, float) else value
        typer.echo(f"{name:<14} {visible(str(text))}")
