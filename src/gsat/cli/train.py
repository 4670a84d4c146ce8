"""`gsat train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gsat.cli.app import app, fail, say, user_errors
from gsat.cli.folders import running
from gsat.cli.options import Alpha, AsJson, Budget, DataDir, Eps, Eta0, Force, GroupSize, NInner, NOuter, Out, Seed
from gsat.cli.source import (
    Batch,
    Data,
    Ids,
    Label,
    Layer,
    Missing,
    OneHot,
    Pheno,
    Source,
    Standardize,
    TestBatch,
    TestFraction,
    fingerprint,
)


@app.command(
    epilog="Examples: [bold]gsat train cells.h5ad --label cell_type --batch donor --out runs/x[/bold], "
    "[bold]gsat train snps.bed --pheno labels.tsv --label continent --one-hot --defence group-sparse[/bold], "
    "[bold]gsat train digits --defence low-rank --out runs/z[/bold]; the same with --resume goes on after a stop. "
    "Then [bold]gsat predict runs/x new.h5ad[/bold], or [bold]gsat.load('runs/x/model')[/bold] in Python.",
)
@user_errors
def train(
    data: Data,
    label: Label = None,
    batch: Batch = None,
    defence: Annotated[
        str, typer.Option(help="erm, fgm, pgd, universal-at, universal, group-sparse, low-rank, ...")
    ] = "low-rank",
    out: Out = Path("runs/train"),
    ids: Ids = None,
    layer: Layer = None,
    pheno: Pheno = None,
    missing: Missing = None,
    one_hot: OneHot = False,
    test_fraction: TestFraction = None,
    test_batch: TestBatch = None,
    standardize: Standardize = None,
    model: Annotated[str, typer.Option(help='elu, alexnet, or "package.module:factory".')] = "elu",
    width: Annotated[float | None, typer.Option(help="alexnet: share of the paper's width.")] = None,
    n_outer: NOuter = 1000,
    n_inner: NInner = 20,
    group_size: GroupSize = 200,
    lam: Annotated[str, typer.Option(help='A number, "auto" or "paper".')] = "auto",
    budget: Budget = 0.05,
    eps: Eps = 0.05,
    alpha: Alpha = None,
    k: Annotated[int | None, typer.Option(help="At most k columns, or rank at most k.")] = None,
    solver: Annotated[str, typer.Option(help="proximal, admm or linearised.")] = "proximal",
    eta0: Eta0 = 1e-3,
    schedule: Annotated[str, typer.Option(help="constant or cosine.")] = "constant",
    ema: Annotated[float | None, typer.Option(help="Decay of an average of the weights.")] = None,
    seed: Seed = 0,
    data_dir: DataDir = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train a classifier on a file or a data set; its folder has config.json, log.jsonl, checkpoint/ and model/."""
    from gsat.estimators.from_table import Plan
    from gsat.estimators.from_table import train as train_plan
    from gsat.registry import NAMES, STRUCTURES

    if defence not in NAMES:
        fail(f"--defence must be one of {', '.join(NAMES)}, got {defence!r}")
    source = Source.given(
        data,
        label=label,
        batch=batch,
        ids=ids,
        layer=layer,
        pheno=pheno,
        missing=missing,
        one_hot=one_hot,
        test_fraction=test_fraction,
        test_batch=test_batch,
    )
    plan = Plan(
        defence=defence,
        size=budget if defence in STRUCTURES else eps,
        lam=_lam(lam),
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
    )
    if batch is not None and not (defence == "universal" or defence.startswith("structured-")):
        typer.echo(
            f"gsat: {defence} is trained across batches; --defence universal has one shift for each batch", err=True
        )
    table = source.split(data_dir)
    config = {**source.describe(), **fingerprint(table), **plan.describe()}
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
