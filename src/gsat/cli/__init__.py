"""The command line, a module a command: parse, call one function, print. `main` is the program `gsat`."""

from gsat.cli import attack, check, compare, data, demo, diagnose, predict, report, reproduce, select, train
from gsat.cli.app import app
from gsat.cli.encoding import spell_signs

__all__ = [
    "app",
    "attack",
    "check",
    "compare",
    "data",
    "demo",
    "diagnose",
    "main",
    "predict",
    "report",
    "reproduce",
    "select",
    "train",
]


def main() -> None:
    """The entry point of the `gsat` command."""
    spell_signs()
    app()
