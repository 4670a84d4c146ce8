"""`gsat check`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat.cli import options
from gsat.cli.app import app, at_least_one, user_errors, visible
from gsat.cli.files import table_bytes, write_together
from gsat.cli.folders import running
from gsat.cli.notes import told_of
from gsat.cli.report import write_report
from gsat.data.source import Source, fingerprint

if TYPE_CHECKING:
    from gsat.experiments.check_result import CheckResult

WORK = "work"  # in the folder of the run: finished pieces


@app.command(
    epilog="Examples: [bold]gsat check cells.h5ad --label cell_type --batch donor[/bold], "
    "[bold]gsat check table.csv --label kind --batch lab --quick[/bold], "
    "[bold]gsat check bladderbatch --jobs 2 --out runs/bladder[/bold]; after a stop the same with --resume.",
)
@user_errors
def check(
    data: options.Data,
    label: options.Label = None,
    batch: options.Batch = None,
    out: options.Out = Path("runs/check"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A first impression: fewer candidates, short trainings, three batches.")
    ] = False,
    jobs: Annotated[
        int | None, typer.Option(help="Models trained at a time, one core each; default: all cores.")
    ] = None,
    max_batches: Annotated[int, typer.Option(help="Batches left out in turn, at the most; the largest.")] = 8,
    max_samples: Annotated[int, typer.Option(help="Larger data is thinned to about so many samples.")] = 10_000,
    max_features: Annotated[int, typer.Option(help="The most variable ones of more features.")] = 1000,
    ids: options.Ids = None,
    layer: options.Layer = None,
    pheno: options.Pheno = None,
    missing: options.Missing = None,
    one_hot: options.OneHot = False,
    drop: options.Drop = None,
    features: options.Features = None,
    unlabelled: options.LeftOut = "error",
    normalise: options.Normalise = "none",
    seed: options.Seed = 0,
    data_dir: options.DataDir = None,
    max_memory: options.MaxMemory = None,
    stream: options.Stream = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the check in --out.")] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Say whether robust training is worth it on this data, and how well it will do on a batch never seen.

    Every batch is left out in turn; each method chooses its strength on training batches that are left out besides.
    """
    at_least_one(jobs=jobs, max_batches=max_batches, max_samples=max_samples, max_features=max_features)
    source = Source.given(
        data, label=label, batch=batch, ids=ids, layer=layer, pheno=pheno, missing=missing, one_hot=one_hot, drop=drop,
        features=features, unlabelled=None if unlabelled == "error" else unlabelled,
    )  # fmt: skip
    # before torch is imported: wrong columns are told at once
    table = source.labelled(data_dir, max_memory=max_memory, stream=stream)
    told_of(table, normalise, pixels=source.is_pixels, is_file=source.is_file)

    from gsat.estimators.preparing import normalised as all_normalised
    from gsat.experiments.check_commands import options as options_of
    from gsat.experiments.check_methods import METHODS
    from gsat.experiments.check_subject import Limits, subject_of
    from gsat.experiments.checking import checked, learnt, quicker

    normalised = [] if normalise == "none" else ["--normalise", normalise]
    if normalised:
        table = replace(table, X=all_normalised(table.X, normalise))
    limits = quicker(Limits(max_batches, max_samples, max_features), quick)
    subject = subject_of(table, limits, seed)
    config = {
        "title": f"Check of {source.data if source.data == data else Path(data).name}",
        **source.describe(), **fingerprint(table), **asdict(limits), "quick": quick, "seed": seed,
        "normalise": normalise, "defences": list(METHODS), "identity": subject.identity,
    }  # fmt: skip
    with running(out, config, resume=resume, force=force):
        found, one, setting = checked(
            subject, out / WORK, quick=quick, jobs=jobs or os.cpu_count() or 1,
            say=None if as_json else lambda text: typer.echo(text, err=True), progress=sys.stderr.isatty(),
        )  # fmt: skip
        if found.method is not None:
            words = [
                "gsat",
                "train",
                *source.typed(data),
                *normalised,
                *options_of(one, setting, learnt=learnt(subject)),
            ]
            words += ["--standardize"] * source.is_pixels + ["--test-fraction", "0", "--seed", str(seed)]
            found = replace(found, command=shlex.join([*words, "--out", f"{out}-model"]))
        write_together(out, _files(out, found))
        write_report(out, out / "report.html")
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "report": str(out / "report.html")}))
        return
    typer.echo(visible(str(found)))
    if found.command:
        typer.echo(visible(f"\nto train it on all samples:\n{found.command}"))
    typer.echo(f"\nreport: {out / 'report.html'}   numbers: {out / 'metrics.json'}")


def _files(out: Path, found: CheckResult) -> dict[str, bytes]:
    """The files of a check but for config.json and the report."""
    content: dict[str, Any] = {"kind": "check", **found.to_dict()}
    frames = {
        "results.csv": found.choices.rename(columns={"method": "defence", "tested": "left_out"}),
        "methods.csv": found.table.reset_index(),
        "batches.csv": found.batches.reset_index(),
    }
    return {
        **{name: table_bytes(out / name, frame) for name, frame in frames.items()},
        "metrics.json": (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode(),
    }
