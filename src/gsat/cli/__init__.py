"""The command line, a module a command: parse, call one function, print. `main` is the program `gsat`."""

import sys

from gsat.cli import attack, compare, data, demo, diagnose, predict, report, reproduce, select, train
from gsat.cli.app import app
from gsat.cli.encoding import spell_signs

__all__ = [
    "app",
    "attack",
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
    sys.path.insert(0, "")  # `--model my_file:factory` is found where the command is typed, as with python -m
    spell_signs()
    app()
