"""`gsat demo`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gsat.cli import options
from gsat.cli.app import app, at_least_one, user_errors
from gsat.cli.folders import new_run
from gsat.cli.report import write_report


@app.command(
    epilog="Example: [bold]gsat demo --out runs/demo[/bold]   (about a minute on two cores; ten seconds with --quick)",
)
@user_errors
def demo(
    out: options.Out = Path("runs/demo"),
    seed: options.Seed = 0,
    threads: options.Threads = None,
    n_outer: Annotated[
        int | None, typer.Option(help="Groups to train on (T0); default 300, with --quick 100.", show_default=False)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three defences and one size of each attack: does everything run here?")
    ] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Train six defences on scikit-learn's digits, attack them with every structure, and write the report."""
    at_least_one(threads=threads)
    with new_run(out, force):
        from gsat.experiments.demonstration import demonstrate
        from gsat.training.threads import use_threads

        use_threads(threads)
        results = demonstrate(
            out, seed=seed, n_outer=n_outer, quick=quick, progress=not as_json and sys.stderr.isatty()
        )
        write_report(out, out / "report.html")
    if as_json:
        typer.echo(results.to_json(orient="records"))
        return
    typer.echo(
        "accuracy in percent on held-out digits; eps as a fraction of E‖X‖ = size of the perturbation of each sample"
    )
    wide = (
        100 * results.pivot_table(index="defence", columns=["attack", "label"], values="accuracy", sort=False)
    ).round(1)
    typer.echo(wide.to_string())
    typer.echo(f"report: {out / 'report.html'}   curves: {out / 'curves.png'}   figures: {out / 'results.csv'}")
