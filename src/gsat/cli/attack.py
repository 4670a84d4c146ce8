"""`gsat attack`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gsat.cli.app import app, numbers, user_errors
from gsat.cli.options import AsJson, DataDir, GroupSize, Seed, Steps


@app.command(
    epilog="Examples: [bold]gsat attack runs/x --structure low-rank --ranks 1,2,5[/bold], "
    "[bold]gsat attack runs/x --structure group-sparse --columns 10,50 --eps 0.1[/bold]",
)
@user_errors
def attack(
    run: Annotated[Path, typer.Argument(help="Folder of a run of `gsat train`.")],
    structure: Annotated[str, typer.Option(help="universal, group-sparse, low-rank, pgd or fgm.")] = "low-rank",
    ranks: Annotated[str | None, typer.Option(help="low-rank: ranks, separated by commas.")] = None,
    columns: Annotated[str | None, typer.Option(help="group-sparse: numbers of columns, separated by commas.")] = None,
    eps: Annotated[str, typer.Option(help="Norm bounds as fractions of E‖X‖, separated by commas.")] = "0.05",
    steps: Steps = 100,
    n: Annotated[int, typer.Option("--n", help="Test samples, at the most.")] = 2000,
    group_size: GroupSize = 200,
    seed: Seed = 0,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Attack a trained model on its test samples; the table goes to results.csv in the run's folder."""
    from gsat.data import load
    from gsat.evaluation import evaluate
    from gsat.experiments.training import parse_attack
    from gsat.persist import load_model

    module, about_model = load_model(run / "model")
    table = load(about_model["data"], data_dir=data_dir).test
    counts = numbers(
        "--ranks" if structure == "low-rank" else "--columns", ranks if structure == "low-rank" else columns, int
    )
    texts = [
        f"{structure}{f':{count}' if count is not None else ''}@{size}"
        for size in numbers("--eps", eps, float)
        for count in counts
    ]
    attacks = [parse_attack(text, about_model["mean_norm_of_X"], steps=steps) for text in texts]
    results = evaluate(
        module,
        table.X[:n],
        table.codes[:n],
        attacks,
        group_size=group_size,
        random_state=seed,
        progress=sys.stderr.isatty() and not as_json,
        out=run / "evaluations.jsonl",
    )
    results.to_csv(run / "results.csv", index=False)
    typer.echo(results.to_json(orient="records") if as_json else results.to_string(index=False))
