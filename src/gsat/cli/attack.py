"""`gsat attack`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gsat import _checks, _defaults
from gsat.cli import options
from gsat.cli.app import app, at_least_one, fail, import_from_here, numbers, user_errors
from gsat.cli.files import vacant, write_table
from gsat.cli.folders import refuse_without_model, run_config
from gsat.data.source import Source, verify


@app.command(
    epilog="Examples: [bold]gsat attack runs/x --structure low-rank --ranks 1,2,5[/bold], "
    "[bold]gsat attack runs/x --structure group-sparse --columns 10,50 --eps 0.1 --out sparse.csv[/bold]",
)
@user_errors
def attack(
    run: Annotated[Path, typer.Argument(help="Folder of a run of `gsat train`.")],
    structure: Annotated[
        str, typer.Option(help="universal (one shift for all), group-sparse, low-rank, pgd or fgm.")
    ] = "low-rank",
    ranks: Annotated[str | None, typer.Option(help="low-rank: ranks, separated by commas.")] = None,
    columns: Annotated[str | None, typer.Option(help="group-sparse: numbers of columns, separated by commas.")] = None,
    eps: Annotated[str, typer.Option(help="Norm bounds as fractions of E‖X‖, separated by commas.")] = "0.05",
    steps: options.Steps = _defaults.STEPS,
    strength: options.Strength = _defaults.STRENGTH,
    n: Annotated[int, typer.Option("--n", help="Test samples, at the most.")] = 2000,
    group_size: options.GroupSize = _defaults.GROUP_SIZE,
    out: Annotated[Path | None, typer.Option(help="The table; default results.csv in the run's folder.")] = None,
    data: Annotated[str | None, typer.Option(help="Where the run's data is now, if it has moved.")] = None,
    seed: options.Seed = 0,
    data_dir: options.DataDir = None,
    max_memory: options.MaxMemory = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a table that is there.")] = False,
    trust_module: options.TrustModule = False,
    raw_text: options.RawText = False,
    as_json: options.AsJson = False,
) -> None:
    """Attack a trained model on its test samples and keep the table; a run with --batch is attacked batch by batch."""
    at_least_one(n=n, group_size=group_size)
    _checks.count("steps", steps, least=1)
    _checks.one_of("--strength", strength, _defaults.STRENGTHS)
    refuse_without_model(run)
    config = run_config(run)
    counts = numbers(
        "--ranks" if structure == "low-rank" else "--columns", ranks if structure == "low-rank" else columns, int
    )
    texts = [
        f"{structure}{f':{count}' if count is not None else ''}@{size}"
        for size in numbers("--eps", eps, float)
        for count in counts
    ]
    for text in texts:
        _checks.attack_text(text, _defaults.ATTACKS)
    table = Source.of_run(config if data is None else {**config, "data": data}).split(data_dir, max_memory=max_memory)
    verify(table, config, run)

    import numpy as np

    from gsat.estimators import load
    from gsat.estimators.from_table import predictable_rows, samples
    from gsat.evaluation import evaluate
    from gsat.registry import parse_attack

    if trust_module:
        import_from_here()
    classifier = load(run, trust_module=trust_module)
    if hasattr(classifier, "estimators_"):
        fail(
            f"{run} must hold one model to attack, got an average of {len(classifier.estimators_)}, whose members see "
            "the samples each in its own way; gsat train --choose --combine best makes a run that can be attacked, and "
            "in Python gsat.load(run).estimators_[0] is the best member"
        )
    to = run / "results.csv" if out is None else out
    vacant(to, force=force)
    test = predictable_rows(table.test, classifier, per_batch=config["per_batch"])
    y = np.asarray(test.y)
    rows = np.flatnonzero(np.isin(y, classifier.classes_))[:n]
    if len(rows) == 0:
        fail(f"{run} must have test samples to attack, got none: it was trained with --test-fraction 0")
    attacks = [
        parse_attack(text, classifier.mean_norm_, steps=steps, feature_groups=test.feature_groups) for text in texts
    ]
    batch = test.batch if config["per_batch"] else None
    x = classifier.module_input(samples(test), batch)  # before rows are left out: a batch is centred by all its samples
    results = evaluate(
        classifier.module_,
        x[rows],
        np.searchsorted(classifier.classes_, y[rows]),
        attacks,
        group_size=group_size,
        random_state=seed,
        batch=None if batch is None else batch[rows],
        progress=sys.stderr.isatty() and not as_json,
        out=run / "evaluations.jsonl",
        strength=strength,
    )
    write_table(to, results, raw_text=raw_text)
    typer.echo(results.to_json(orient="records") if as_json else results.to_string(index=False))
