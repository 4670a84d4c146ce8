"""`gsat train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gsat import _checks, _defaults
from gsat.cli import options
from gsat.cli.app import app, at_least_one, fail, import_from_here, say, user_errors
from gsat.cli.folders import running, stored_threads
from gsat.data.source import Source, fingerprint


@app.command(
    epilog="Examples: [bold]gsat train cells.h5ad --label cell_type --batch donor --out runs/x[/bold], "
    "[bold]gsat train snps.bed --pheno labels.tsv --label continent --one-hot --defence group-sparse[/bold], "
    "[bold]gsat train digits --defence low-rank --out runs/z[/bold]; the same with --resume goes on after a stop. "
    "Then [bold]gsat predict runs/x new.h5ad[/bold], or [bold]gsat.load('runs/x/model')[/bold] in Python.",
)
@user_errors
def train(
    data: options.Data,
    label: options.Label = None,
    batch: options.Batch = None,
    defence: options.Defence = _defaults.STRUCTURE,
    out: options.Out = Path("runs/train"),
    ids: options.Ids = None,
    layer: options.Layer = None,
    pheno: options.Pheno = None,
    missing: options.Missing = None,
    one_hot: options.OneHot = False,
    test_fraction: options.TestFraction = None,
    test_batch: options.TestBatch = None,
    standardize: options.Standardize = None,
    model: Annotated[str, typer.Option(help='elu, alexnet, or "package.module:factory".')] = "elu",
    width: Annotated[float | None, typer.Option(help="alexnet: share of the paper's width.")] = None,
    n_outer: options.NOuter = _defaults.N_OUTER,
    n_inner: options.NInner = None,
    group_size: options.GroupSize = _defaults.GROUP_SIZE,
    lam: Annotated[str, typer.Option(help='A number, "auto" or "paper".')] = _defaults.LAM,
    budget: options.Budget = _defaults.BUDGET,
    eps: options.Eps = _defaults.EPS,
    alpha: options.Alpha = None,
    k: Annotated[int | None, typer.Option(help="At most k columns, or rank at most k.")] = None,
    solver: Annotated[str, typer.Option(help="proximal, admm or linearised.")] = _defaults.SOLVER,
    eta0: options.Eta0 = _defaults.ETA0,
    schedule: options.Schedule = _defaults.SCHEDULE,
    ema: Annotated[float | None, typer.Option(help="Decay of an average of the weights.")] = None,
    early_stopping: Annotated[
        bool, typer.Option("--early-stopping", help="Stop when the robust loss on held-out rows no longer falls.")
    ] = False,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Fit the temperature of the probabilities on held-out rows.")
    ] = False,
    validation_fraction: Annotated[
        float, typer.Option(help="Share of the training rows held out for --early-stopping and --calibrate.")
    ] = _defaults.VALIDATION_FRACTION,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    data_dir: options.DataDir = None,
    max_memory: options.MaxMemory = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    force: options.Force = False,
    as_json: options.AsJson = False,
) -> None:
    """Train a classifier on a file or a data set; its folder has config.json, log.jsonl, checkpoint/ and model/."""
    if defence not in _defaults.DEFENCES:
        fail(f"--defence must be one of {', '.join(_defaults.DEFENCES)}, got {defence!r}")
    at_least_one(threads=threads)
    price = _lam(lam)
    _checks.number("eps", eps, least=0)
    source = Source.given(
        data, label=label, batch=batch, ids=ids, layer=layer, pheno=pheno, missing=missing, one_hot=one_hot
    ).tested_on(fraction=test_fraction, batch=test_batch)
    if batch is not None and not (defence == "universal" or defence.startswith("structured-")):
        typer.echo(
            f"gsat: {defence} is trained across batches; --defence universal has one shift for each batch", err=True
        )
    table = source.split(data_dir, max_memory=max_memory)  # before torch is imported: a wrong column is told at once

    if ":" in model:
        import_from_here()

    from gsat.estimators.from_table import Plan
    from gsat.estimators.from_table import train as train_plan
    from gsat.training.threads import use_threads

    plan = Plan(
        defence=defence,
        size=budget if defence in _defaults.STRUCTURES else eps,
        lam=price,
        alpha=alpha,
        k=k,
        model=model,
        options={} if width is None else {"width": width},
        n_outer=n_outer,
        n_inner=n_inner,
        group_size=group_size,
        eta0=eta0,
        schedule=schedule,
        ema=ema,
        solver=solver,
        seed=seed,
        standardize=not source.is_pixels if standardize is None else standardize,
        per_batch=batch is not None,
        early_stopping=early_stopping,
        validation_fraction=validation_fraction,
        calibrate=calibrate,
    )
    config = {**source.describe(), **fingerprint(table), **plan.describe(), "n_inner": plan.inner}
    config["threads"] = use_threads(stored_threads(out) if resume and threads is None else threads)
    with running(out, config, resume=resume, force=force):
        trained = train_plan(table.train, plan, out=out, resume=resume, progress=sys.stderr.isatty() and not as_json)
        trained.classifier.save(out / "model")
    say(
        {
            "run": str(out),
            "samples": f"{len(table.train)} to train on, {len(table.test)} for the test",
            "classes": len(trained.classifier.classes_),
            "steps": len(trained.history),
            "loss": trained.history[-1].loss,
            "mean_norm": trained.history.mean_norm,
            "lam": trained.history.lam,
            **({"temperature": trained.classifier.temperature_} if calibrate else {}),
            **_on_test(trained.classifier, table.test),
        },
        as_json,
    )


def _lam(text: str) -> float | str:
    if text in ("auto", "paper"):
        return text
    try:
        return float(text)
    except ValueError:
        fail(f'--lam must be a number, "auto" or "paper", got {text!r}')


def _on_test(classifier: Any, test: Any) -> dict[str, Any]:
    """The accuracy on the test rows; those of a class without training samples are counted apart."""
    from gsat.estimators.from_table import known_rows, samples
    from gsat.evaluation import evaluate

    known = known_rows(test, classifier)
    found: dict[str, Any] = {"test_accuracy": None}
    if len(known):
        found["test_accuracy"] = float(evaluate(classifier, samples(known), known.y, [])["accuracy"][0])
    if len(known) < len(test):
        found["not_tested"] = f"{len(test) - len(known)} samples of classes that are not among the training samples"
    return found
