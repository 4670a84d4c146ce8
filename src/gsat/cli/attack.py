"""`gsat attack`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gsat import _checks, _defaults
from gsat.cli import options
from gsat.cli.app import app, at_least_one, fail, import_from_here, numbers, processes, user_errors
from gsat.cli.devices import put, use_device
from gsat.cli.files import vacant, write_table
from gsat.cli.folders import refuse_without_model, run_config
from gsat.data.source import Source, verify

if TYPE_CHECKING:
    import pandas as pd

SAME = ["attack", "strength", "eps", "n", "search"]  # what tells the rows of results.csv apart


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
    group: Annotated[
        str, typer.Option(help="torchrun: shared, one group over all processes, with the rows of a single process.")
    ] = "own",
    out: Annotated[Path | None, typer.Option(help="A table of its own; default: added to the run's.")] = None,
    data: Annotated[str | None, typer.Option(help="Where the run's data is now, if it has moved.")] = None,
    seed: options.Seed = 0,
    device: options.Device = None,
    data_dir: options.DataDir = None,
    max_memory: options.MaxMemory = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the table instead of adding to it.")] = False,
    trust_module: options.TrustModule = False,
    raw_text: options.RawText = False,
    as_json: options.AsJson = False,
) -> None:
    """Attack a trained model on its test samples and add the rows to the run; with --batch, batch by batch."""
    at_least_one(n=n, group_size=group_size)
    _checks.count("steps", steps, least=1)
    _checks.one_of("--strength", strength, _defaults.STRENGTHS)
    _checks.one_of("--group", group, ("own", "shared"))
    if processes() > 1 and group == "own":
        fail("gsat attack needs --group shared in several processes, each of which would attack all samples otherwise")
    place = use_device(device)
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
    from gsat.training.launch import launched

    if trust_module:
        import_from_here()
    classifier = load(run, trust_module=trust_module)
    if hasattr(classifier, "estimators_"):
        fail(
            f"{run} must hold one model to attack, got an average of {len(classifier.estimators_)}, whose members see "
            "the samples each in its own way; gsat train --choose --combine best makes a run that can be attacked, and "
            "in Python gsat.load(run).estimators_[0] is the best member"
        )
    put(classifier, place)
    to = run / "results.csv" if out is None else out
    if out is None and not force:
        _earlier(to)  # a table of something else is told before anything is attacked
    else:
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
    with launched() as team:
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
            group="own" if team.alone else "shared",
        )
        if team.rank:
            return  # the first process writes and tells
        write_table(to, results if out is not None or force else _added(_earlier(to), results), raw_text=raw_text)
    typer.echo(results.to_json(orient="records") if as_json else results.to_string(index=False))


def _earlier(path: Path) -> pd.DataFrame | None:
    """The rows that are there to be added to, if any."""
    import pandas as pd

    if not path.exists():
        return None
    found = pd.read_csv(path, keep_default_na=False, float_precision="round_trip")
    if missing := [name for name in SAME if name not in found and name != "search"]:
        fail(f"{path} must be a table of gsat attack to be added to, but has no {missing[0]}; take --out, or --force")
    return found


def _added(earlier: pd.DataFrame | None, found: pd.DataFrame) -> pd.DataFrame:
    """Earlier rows and new ones, those without attack first; what was measured anew takes the place of what it was."""
    import pandas as pd

    if earlier is None:
        return found
    new = set(_keys(found))
    both = pd.concat([earlier[[key not in new for key in _keys(earlier)]], found], ignore_index=True)
    return both.sort_values("attack", key=lambda names: names != "none", kind="stable", ignore_index=True)


def _keys(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """What a row measured; tables of earlier versions do not say how hard was searched."""
    columns = [frame[name] if name in frame else [""] * len(frame) for name in SAME]
    return [tuple(map(str, key)) for key in zip(*columns, strict=True)]
