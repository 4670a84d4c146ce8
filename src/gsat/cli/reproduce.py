"""`gsat reproduce`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gsat import _checks, _defaults
from gsat.cli import options
from gsat.cli.app import app, at_least_one, fail, user_errors
from gsat.cli.report import write_report

if TYPE_CHECKING:
    from gsat.experiments.plan import Experiment, Order, Place

ALL = "all"


@app.command(
    epilog="Examples: [bold]gsat reproduce[/bold] (lists the experiments), "
    "[bold]gsat reproduce low-rank --scale cpu[/bold], [bold]gsat reproduce all --scale paper[/bold]",
)
@user_errors
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help='Experiments, or "all"; none: list them.')
    ] = None,
    scale: Annotated[
        str, typer.Option(help="cpu (two cores, about 4 hours without shifts), overnight, or paper (a GPU).")
    ] = "cpu",
    quick: Annotated[
        bool, typer.Option("--quick", help="Tiny networks: shows that it works, and nothing else.")
    ] = False,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds; default: what the scale says.")] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Only these tasks of shifts, as in gas-drift,emg-myo; default: all.")
    ] = None,
    solver: Annotated[
        str | None,
        typer.Option(help="Of the inner problem of GSAT; default: admm-paper at scale paper, else proximal."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder that gets one for each experiment.")] = Path("reproduction"),
    jobs: Annotated[
        int | None, typer.Option(help="Models trained at a time, one core each; default: all cores.")
    ] = None,
    threads: options.Threads = None,
    data_dir: options.DataDir = None,
    force: Annotated[bool, typer.Option("--force", help="Replace results of another scale.")] = False,
    old: Annotated[
        bool, typer.Option("--old", help="Run nothing: list which results in --out are of other code than this.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Run experiments of the paper. Finished pieces are kept: the same command again goes on where it was stopped."""
    from gsat.experiments.paper import EXPERIMENTS, OWN_SOLVER, SCALES, experiment

    if old:
        _list_ages(out, as_json)
        return
    if quick:
        scale = "quick"
    if scale not in SCALES:
        fail(f"--scale must be one of {', '.join(name for name in SCALES if name != 'quick')}, got {scale!r}")
    at_least_one(seeds=seeds, jobs=jobs, threads=threads)
    chosen = _chosen(names or [])
    if chosen and out.exists() and not out.is_dir():
        fail(f"--out must be a folder, got the file {out}")

    if tasks is not None and chosen != ["shifts"]:
        fail(f"--tasks is for shifts alone, got {', '.join(chosen) or 'no experiment'}")

    if solver is not None:
        _checks.one_of("--solver", solver, _defaults.SOLVERS)
        if others := [name for name in chosen or EXPERIMENTS if name in OWN_SOLVER]:
            fail(f"--solver is for experiments that do not set their own, got {', '.join(others)}")

    from gsat.experiments import setting
    from gsat.experiments.own_data import own_data
    from gsat.experiments.plan import Order, Place
    from gsat.experiments.runner import WORK, alone_in
    from gsat.experiments.runner import reproduce as run

    size = setting.SCALES[scale]
    size = size if tasks is None else replace(size, tasks=_tasks(tasks))
    size = size if solver is None else size.solved_by(solver)
    size = replace(size, own=own_data(data_dir)) if chosen else size
    order = Order([experiment(name) for name in chosen or EXPERIMENTS], size, seeds, out)
    if not chosen:
        _list(order, as_json)
        return
    page = out / "report.html"
    with alone_in(out):
        _refuse_to_overwrite(order, force)
        if not as_json:
            for name in dict.fromkeys(name for experiment in order.experiments for name in order.own(experiment)):
                typer.echo(f"{name} in {data_dir} is used in place of what stands in for it", err=True)
            whole, done = (_minutes(order, order.experiments, place) for place in (None, Place(out / WORK)))
            typer.echo(f"about {whole} minutes of one core from the beginning, {done} of them done", err=True)
        outcomes = run(
            order,
            data_dir=data_dir,
            jobs=jobs or os.cpu_count() or 1,
            threads=threads,
            progress=sys.stderr.isatty() and not as_json,
        )
        write_report(out, page)
    if as_json:
        typer.echo(json.dumps({"headlines": {k: v.headline for k, v in outcomes.items()}, "report": str(page)}))
        return
    for each in order.experiments:
        typer.echo(f"{each.name}\n  paper: {each.paper}\n  here:  {outcomes[each.name].headline}")
    typer.echo(f"report: {page}")


def _list_ages(out: Path, as_json: bool) -> None:
    """A line for each folder of results in `out`: of which commit they are, and which modules have changed since."""
    from gsat.experiments.age import ages, listed

    if not out.is_dir():
        fail(f"--old needs a folder of results as --out, and {out} is none: gsat reproduce --old --out results")
    found = ages(out)
    if as_json:
        typer.echo(json.dumps(listed(found)))
        return
    for one in found:
        typer.echo(str(one))
    typer.echo(f"{sum(one.old for one in found)} of {len(found)} results may be of other code than what is installed")


def _refuse_to_overwrite(order: Order, force: bool) -> None:
    """Leave with a message where results of another scale, or something else, are in the way."""
    if (taken := order.in_the_way()) and not force:
        fail(f"--out must not hold other results, got {', '.join(map(str, taken))}; take another folder or --force")
    if taken and (foreign := [path for path in taken if not (path / "config.json").exists()]):
        fail(f"--force replaces results only, got {', '.join(map(str, foreign))} without config.json")


def _chosen(names: list[str]) -> list[str]:
    """The experiments that are named, each once; "all" are those of the paper."""
    from gsat.experiments.paper import EXPERIMENTS, PAPER

    for name in names:
        if name not in EXPERIMENTS and name != ALL:
            fail(f"NAME must be one of {', '.join(EXPERIMENTS)} or {ALL}, got {name!r}")
    if ALL in names:
        names = [*PAPER, *(name for name in names if name != ALL)]
    return list(dict.fromkeys(names))


def _tasks(text: str) -> tuple[str, ...]:
    """The tasks that are named, in the order of the table of tasks."""
    from gsat.experiments.shift_tasks import chosen_tasks

    return tuple(task.name for task in chosen_tasks(tuple(name.strip() for name in text.split(","))))


def _minutes(order: Order, experiments: Sequence[Experiment], place: Place | None = None) -> int:
    """The minutes of all pieces, or of those that are done in a place."""
    pieces = {piece.key: piece for experiment in experiments for piece in order.pieces(experiment)}
    counted = [piece for piece in pieces.values() if place is None or piece.done(place)]
    return round(sum(piece.effort for piece in counted) / 60)


def _list(order: Order, as_json: bool) -> None:
    """Names, titles and how long they would take on one core."""
    rows = [
        {
            "name": experiment.name,
            "minutes": _minutes(order, [experiment]),
            "title": experiment.title,
            "paper": experiment.paper,
        }
        for experiment in order.experiments
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    typer.echo(
        f"experiments, and roughly how many minutes each takes on one core at scale {order.scale.name} by itself"
    )
    for row in rows:
        typer.echo(f"{row['name']:<14} {row['minutes']:>5}  {row['title']}")
