"""`gsat report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gsat.cli import options
from gsat.cli.app import app, fail, say, user_errors
from gsat.cli.files import write


@app.command(
    epilog="Examples: [bold]gsat report runs/x[/bold], [bold]gsat report results --out results.html[/bold]   "
    "(a folder of several results becomes one page)",
)
@user_errors
def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_OR_RESULTS",
            help="Folder of a run, a diagnosis, a comparison, an experiment, or several of these; or a diagnosis.json.",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="The HTML file; default report.html in the folder.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write one self-contained HTML page with the figures, tables and settings of the results."""
    beside = folder.with_suffix(".html") if folder.is_file() else folder / "report.html"
    path = beside if out is None else out
    size = write_report(folder, path)
    say({"report": str(path), "megabytes": round(size / 1e6, 2)}, as_json)


def write_report(folder: Path, path: Path) -> int:
    """Build the page and put it at `path`, whole or not at all; the number of its bytes."""
    from gsat.report import build, is_report

    if path.is_dir():
        fail(f"--out must be a file, got the folder {path}")
    if path.exists() and not is_report(path):
        fail(f"--out must be a new file or a report of gsat, got {path}; it is not overwritten")
    page = build(folder).encode()
    write(path, page)
    return len(page)
