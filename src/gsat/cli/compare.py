"""`gsat compare`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from gsat import _checks, _defaults
from gsat.cli import options
from gsat.cli.app import app, at_least_one, fail, numbers, user_errors
from gsat.cli.files import table_bytes, write_together
from gsat.cli.folders import running, stored_threads
from gsat.data.source import Source, fingerprint


@app.command(
    epilog="Examples: [bold]gsat compare mnist --defences erm,fgm,pgd,low-rank,group-sparse "
    "--attacks low-rank:5@0.05,group-sparse:50@0.05 --seeds 3 --rule tuned[/bold], "
    "[bold]gsat compare cells.h5ad --label cell_type --defences erm,pgd,low-rank --out runs/c[/bold]",
)
@user_errors
def compare(
    data: options.Data,
    label: options.Label = None,
    batch: options.Batch = None,
    defences: Annotated[
        str, typer.Option(help="Names, separated by commas.")
    ] = "erm,fgm,pgd,unstructured,universal,group-sparse,low-rank",
    attacks: Annotated[
        str, typer.Option(help='"name:count@eps", separated by commas; eps as a fraction of E‖X‖.')
    ] = "universal@0.05,group-sparse:50@0.05,low-rank:5@0.05,pgd@0.05",
    rule: Annotated[str, typer.Option(help="How sizes are chosen: matched (the paper's) or tuned.")] = "matched",
    budget: options.Budget = _defaults.BUDGET,
    grid: Annotated[str, typer.Option(help="tuned: sizes tried for every defence.")] = "0.025,0.05,0.1,0.2",
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 3,
    n_outer: options.NOuter = _defaults.N_OUTER,
    n_inner: options.NInner = None,
    group_size: options.GroupSize = _defaults.GROUP_SIZE,
    eta0: options.Eta0 = _defaults.ETA0,
    alpha: options.Alpha = None,
    solver: options.Solver = _defaults.SOLVER,
    schedule: options.Schedule = _defaults.SCHEDULE,
    steps: options.Steps = _defaults.STEPS,
    strength: options.Strength = _defaults.STRENGTH,
    n_test: Annotated[int, typer.Option(help="Test samples that are attacked.")] = 1000,
    n_validation: Annotated[int, typer.Option(help="Training samples held out to choose sizes.")] = 1000,
    jobs: Annotated[int, typer.Option(help="Models trained at a time, one core each.")] = 1,
    threads: options.Threads = None,
    ids: options.Ids = None,
    layer: options.Layer = None,
    pheno: options.Pheno = None,
    missing: options.Missing = None,
    one_hot: options.OneHot = False,
    test_fraction: options.TestFraction = None,
    test_batch: options.TestBatch = None,
    standardize: options.Standardize = None,
    prepare: options.Prepare = "none",
    out: Annotated[Path | None, typer.Option(help="Folder for results.csv, chosen.csv and differences.csv.")] = None,
    data_dir: options.DataDir = None,
    max_memory: options.MaxMemory = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the comparison in --out.")] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Train several defences over several seeds, attack them all, and print means, spreads and paired differences."""
    names, cases = (tuple(part.strip() for part in text.split(",")) for text in (defences, attacks))
    for name in names:
        if name not in _defaults.DEFENCES:
            fail(f"--defences must be of {', '.join(_defaults.DEFENCES)}, got {name!r}")
    for case in cases:
        _checks.attack_text(case, _defaults.ATTACKS)
    at_least_one(seeds=seeds, jobs=jobs, threads=threads, n_test=n_test, n_validation=n_validation)
    _checks.one_of("--strength", strength, _defaults.STRENGTHS)
    _checks.one_of("--solver", solver, _defaults.SOLVERS)
    if rule not in ("matched", "tuned"):
        fail(f"--rule must be matched or tuned, got {rule!r}")
    sizes = tuple(numbers("--grid", grid, float))
    source = Source.given(
        data, label=label, batch=batch, ids=ids, layer=layer, pheno=pheno, missing=missing, one_hot=one_hot
    ).tested_on(fraction=test_fraction, batch=test_batch)
    table = source.split(data_dir, max_memory=max_memory)  # before torch is imported: a wrong column is told at once
    if len(table.test) == 0:
        fail("--test-fraction must leave samples to attack, got 0")

    from gsat.estimators.from_table import Plan
    from gsat.experiments.age import code_of
    from gsat.experiments.comparing import Protocol
    from gsat.experiments.comparing import compare as run_comparison
    from gsat.experiments.paired import in_words
    from gsat.registry import parse_attack
    from gsat.training.threads import use_threads

    for case in cases:
        parse_attack(case, 1.0)
    if threads is None:
        threads = (stored_threads(out) if resume and out is not None else None) or (1 if jobs > 1 else None)
    protocol = Protocol(
        defences=names,
        attacks=cases,
        rule=rule,  # type: ignore[arg-type]
        size=budget,
        grid=sizes,
        seeds=tuple(range(seeds)),
        n_test=n_test,
        n_validation=n_validation,
        steps=steps,
        strength=strength,
        plan=Plan(
            "erm",
            n_outer=n_outer,
            n_inner=n_inner,
            group_size=group_size,
            eta0=eta0,
            alpha=alpha,
            solver=solver,
            schedule=schedule,
            standardize=not source.is_pixels if standardize is None else standardize,
            prepare=prepare,
            per_batch=batch is not None or (prepare == "centre" and table.batch is not None),
        ),
        jobs=jobs,
        threads=use_threads(threads),
    )
    code = code_of("gsat.experiments.comparing")
    config = {**source.describe(), **fingerprint(table), **asdict(protocol), "code": code}
    with nullcontext() if out is None else running(out, config, resume=resume, force=force):
        found = run_comparison(table, protocol, out=out, progress=sys.stderr.isatty())
        if out is not None:
            frames = {"results.csv": found.results, "chosen.csv": found.chosen, "differences.csv": found.differences()}
            write_together(out, {name: table_bytes(out / name, frame) for name, frame in frames.items()})
    if as_json:
        typer.echo(found.chosen.to_json(orient="records"))
        return
    typer.echo(f"accuracy in percent, mean ± standard deviation over {seeds} seeds; sizes {rule}")
    typer.echo(found.table().to_string())
    gaps = found.differences()
    if gaps.empty:
        return
    typer.echo("\npaired differences in points [95 % interval, Student's t]; * above zero at 5 % over the table (Holm)")
    typer.echo("in parentheses: of the same models without attack")
    for (ours, baseline), rows in gaps.groupby(["ours", "baseline"], sort=False):
        cells = "  ".join(
            f"{row.case} {in_words(row)}{'*' if row.beats else ''} ({row.clean:+.1f})" for row in rows.itertuples()
        )
        typer.echo(f"{ours} − {baseline}: {cells}")
