"""`gsat data list`, `fetch` and `info`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gsat.cli import options
from gsat.cli.app import app, say, user_errors

data = typer.Typer(
    no_args_is_help=True, help="The data sets: which there are, where they lie, and what a set or a file holds."
)
app.add_typer(data, name="data")

SHOWN = 12  # classes or batches that are listed one by one


@data.command(
    "list", epilog="Examples: [bold]gsat data list[/bold], [bold]gsat data list --data-dir ~/data --json[/bold]"
)
@user_errors
def list_sets(data_dir: options.DataDir = None, as_json: options.AsJson = False) -> None:
    """The data sets by name, with their sizes and licences, and the folder where each was found."""
    from gsat.data import available

    sets = available(data_dir)
    if as_json:
        typer.echo(json.dumps(sets))
        return
    rows = [("name", "samples x features", "classes", "batches", "licence", "found in")]
    for each in sets:
        absent = "missing; gsat data fetch gets it" if each["can_be_fetched"] else "missing"
        size = f"{each['samples']} x {each['features']}"
        counts = (str(each["classes"]), str(each["batches"] or "-"))
        rows.append((each["name"], size, *counts, each["licence"], each["folder"] or absent))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@data.command(
    epilog="Examples: [bold]gsat data fetch mnist[/bold], [bold]gsat data fetch mnist cifar10 --data-dir ~/data[/bold]"
)
@user_errors
def fetch(
    names: Annotated[list[str], typer.Argument(help="Data sets by name, as `gsat data list` has them.")],
    data_dir: Annotated[Path | None, typer.Option(help="Folder to put the files into; default the cache.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Bring data sets into the cache, or into a folder, unless they are there; every file is checked."""
    from gsat.data import fetch as bring

    found = {}
    for name in names:
        found[name] = str(bring(name, data_dir=data_dir, progress=sys.stderr.isatty() and not as_json))
        if not as_json:
            typer.echo(f"{name} is in {found[name]}")
    if as_json:
        typer.echo(json.dumps(found))


@data.command(
    epilog="Examples: [bold]gsat data info tcga --batch tss[/bold], "
    "[bold]gsat data info cells.h5ad --label cell_type --batch donor[/bold]"
)
@user_errors
def info(
    name: Annotated[str, typer.Argument(help="A data set by name, or the path of a file.")],
    label: Annotated[str | None, typer.Option(help="What the samples are labelled by.")] = None,
    batch: Annotated[str | None, typer.Option(help="What the batches are.")] = None,
    ids: Annotated[str | None, typer.Option(help="Files: the column or key of the sample ids.")] = None,
    layer: Annotated[str | None, typer.Option(help=".h5ad: a layer; sc-mixology: log or counts.")] = None,
    pheno: Annotated[Path | None, typer.Option(help="PLINK: the table that has label and batch.")] = None,
    data_dir: options.DataDir = None,
    max_memory: options.MaxMemory = None,
    as_json: options.AsJson = False,
) -> None:
    """Read a data set or a file, and say how many samples, features, classes and batches it has."""
    from gsat.data import load

    table = load(
        name,
        data_dir=data_dir,
        label=label,
        batch=batch,
        ids=ids,
        layer=layer,
        pheno=pheno,
        max_memory=max_memory,
    )
    found = table.describe()
    if table.split is not None:
        found["train"], found["test"] = len(table.train), len(table.test)
    say(found if as_json else {key: _shown(value) for key, value in found.items()}, as_json)


def _shown(value: Any) -> Any:
    """Counts as "a 3, b 5"; of many the first and how many more."""
    if value is None:
        return "-"
    if not isinstance(value, dict):
        return value
    parts = [f"{key} {count}" for key, count in value.items()]
    more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return f"{len(parts)}: {', '.join(parts[:SHOWN])}{more}"
