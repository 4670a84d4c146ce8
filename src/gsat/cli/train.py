"""`gsat train`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gsat import _checks, _defaults
from gsat.cli import options
from gsat.cli.app import app, at_least_one, fail, given, import_from_here, say, user_errors
from gsat.cli.files import write_table
from gsat.cli.folders import refuse_to_overwrite, running, stored_choice, stored_threads
from gsat.data.source import Source, fingerprint

BY_BATCH = ("batches", "between")  # metrics that are learnt from two batches or more


@app.command(
    epilog="Examples: [bold]gsat train cells.h5ad --label cell_type --batch donor --out runs/x[/bold], "
    "[bold]gsat train snps.bed --pheno labels.tsv --label continent --one-hot --defence group-sparse[/bold], "
    "[bold]gsat train digits --defence low-rank --out runs/z[/bold]; the same with --resume goes on after a stop. "
    "Then [bold]gsat predict runs/x new.h5ad[/bold], or [bold]gsat.load('runs/x/model')[/bold] in Python.",
)
@user_errors
def train(
    context: typer.Context,
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
    prepare: options.PrepareOrChoose = None,
    choose: Annotated[
        bool,
        typer.Option(
            "--choose", help="Choose structure, budget, metric, preparation and width on training batches left out."
        ),
    ] = False,
    jobs: Annotated[int, typer.Option(help="--choose: models trained at a time, one core each.")] = 1,
    model: Annotated[str, typer.Option(help='elu, alexnet, or "package.module:factory".')] = "elu",
    width: Annotated[float | None, typer.Option(help="alexnet: share of the paper's width.")] = None,
    n_outer: options.NOuter = _defaults.N_OUTER,
    n_inner: options.NInner = None,
    group_size: options.GroupSize = _defaults.GROUP_SIZE,
    lam: Annotated[str, typer.Option(help='A number, "auto" or "paper".')] = _defaults.LAM,
    budget: options.Budget = _defaults.BUDGET,
    eps: options.Eps = _defaults.EPS,
    alpha: options.Alpha = None,
    c: Annotated[float, typer.Option(help="linear: how little large weights cost.")] = 1.0,
    class_weight: options.ClassWeight = None,
    k: Annotated[int | None, typer.Option(help="At most k columns, or rank at most k.")] = None,
    metric: options.Metric = _defaults.METRIC,
    gamma: options.Gamma = _defaults.GAMMA,
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
    if defence not in (*_defaults.DEFENCES, _defaults.LINEAR):
        fail(f"--defence must be one of {', '.join((*_defaults.DEFENCES, _defaults.LINEAR))}, got {defence!r}")
    at_least_one(threads=threads, jobs=jobs)
    if choose and model != "elu":
        fail(f"--choose needs --model elu, whose width it chooses, got {model!r}")
    if prepare == "choose" and not choose:
        fail("--prepare choose needs --choose, which tries the preparations on batches left out")
    price = _lam(lam)
    _checks.number("eps", eps, least=0)
    _checks.number("c", c, above=0)
    _checks.number("gamma", gamma, least=0)
    _checks.one_of("--metric", metric, (*_defaults.METRICS, "none"))
    _refuse_what_is_set_aside(given(context), defence, metric, choose=choose)
    source = Source.given(
        data, label=label, batch=batch, ids=ids, layer=layer, pheno=pheno, missing=missing, one_hot=one_hot
    ).tested_on(fraction=test_fraction, batch=test_batch)
    if batch is not None and defence in _defaults.BASELINES and prepare != "centre":
        typer.echo(
            f"gsat: {defence} makes no use of the batches in training; the structures of GSAT and --prepare centre do",
            err=True,
        )
    table = source.split(data_dir, max_memory=max_memory)  # before torch is imported: a wrong column is told at once
    if metric in BY_BATCH and gamma > 0 and table.batch is None:
        fail(f"--metric {metric} needs --batch to tell the batches, got none")

    if ":" in model:
        import_from_here()

    from gsat.estimators.candidates import beside
    from gsat.estimators.choosing import choose as choose_plan
    from gsat.estimators.from_table import Plan
    from gsat.estimators.from_table import train as train_plan
    from gsat.training.threads import use_threads

    plan = Plan(
        defence=defence,
        size=budget if defence in _defaults.STRUCTURES else c if defence == _defaults.LINEAR else eps,
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
        prepare="none" if prepare in (None, "choose") else prepare,
        per_batch=batch is not None
        or ((choose or prepare == "centre" or metric in BY_BATCH) and table.batch is not None),
        early_stopping=early_stopping,
        validation_fraction=validation_fraction,
        calibrate=calibrate,
        metric=None if metric == "none" else metric,
        gamma=gamma,
        class_weight=class_weight,
    )
    n_threads = use_threads(stored_threads(out) if resume and threads is None else threads)
    choice, single, tried = None, None, None
    if choose and resume:
        choice, single = stored_choice(out)
    elif choose:
        refuse_to_overwrite(out, force, resumable=True)  # before anything is trained for the choice
        made = choose_plan(table.train, plan, prepare=prepare or "choose", jobs=jobs)
        choice, single, tried = made.changes, made.single, made.tried
    other = None if single is None else replace(plan, **single)
    plan = replace(plan, **(choice or {}))
    config = {**source.describe(), **fingerprint(table), **plan.describe(), "n_inner": plan.inner}
    config |= {"threads": n_threads, **({} if choice is None else {"choice": choice, "choice_single": single})}
    with running(out, config, resume=resume, force=force):
        if tried is not None:
            write_table(out / "choice.csv", tried)
        trained = train_plan(table.train, plan, out=out, resume=resume, progress=sys.stderr.isatty() and not as_json)
        trained.classifier.save(out / "model")
        if other is not None:
            train_plan(table.train, other).classifier.save(beside(out / "model"))
    say(
        {
            "run": str(out),
            "samples": f"{len(table.train)} to train on, {len(table.test)} for the test",
            "classes": len(trained.classifier.classes_),
            **({} if choice is None else {"chosen": _in_words(plan)}),
            **({} if other is None else {"for single samples": f"{beside(out / 'model')}: {_in_words(other)}"}),
            **_metric_in_words(trained, table.train),
            "steps": len(trained.history),
            "loss": trained.history[-1].loss,
            "mean_norm": trained.history.mean_norm,
            "lam": trained.history.lam,
            **({"temperature": trained.classifier.temperature_} if calibrate else {}),
            **_on_test(trained, table.test),
        },
        as_json,
    )


def _refuse_what_is_set_aside(options_given: set[str], defence: str, metric: str, *, choose: bool) -> None:
    """Leave with a message where an option was given that the others leave without effect."""
    for name in ("defence", "budget", "gamma"):
        if choose and name in options_given:
            fail(f"--choose chooses the {name} on batches left out: leave out --{name}, or --choose")
    if choose and metric == "none":
        fail("--choose tries adversaries without a metric too: leave out --metric none, or --choose")
    for name in ("metric", "gamma"):
        if not choose and name in options_given and defence not in (*_defaults.STRUCTURES, _defaults.LINEAR):
            structures = ", ".join((*_defaults.STRUCTURES, _defaults.LINEAR))
            fail(f"--{name} is for the structures of GSAT and linear models ({structures}), got --defence {defence}")
    if "c" in options_given and (choose or defence != _defaults.LINEAR):
        fail(f"--c is for --defence {_defaults.LINEAR}, got {'--choose' if choose else f'--defence {defence}'}")


def _metric_in_words(trained: Any, rows: Any) -> dict[str, str]:
    """In which metric the adversary of GSAT moved the samples; nothing for other defences."""
    plan, metric = trained.plan, trained.classifier.metric_
    if plan.defence not in _defaults.STRUCTURES:
        return {}
    if metric is None:
        return {"metric": "isotropic"}
    batches = len(set(rows.batch.tolist())) if plan.per_batch else 1
    learnt = f"from {batches} batches" if batches > 1 else "inside the classes"
    return {"metric": f"{len(metric.stretch)} directions, learnt {learnt}, gamma {plan.gamma:g}"}


def _in_words(plan: Any) -> str:
    """What --choose chose."""
    sizes = {"erm": "", "linear": f", C {plan.size:g}, gamma {plan.gamma:g}"}
    adversary = sizes.get(plan.defence, f", budget {plan.size:g}, gamma {plan.gamma:g}")
    units = "" if plan.defence == "linear" else f", {plan.options['hidden']} hidden units"
    return f"{plan.defence}, prepare {plan.prepare}{units}{adversary}"


def _lam(text: str) -> float | str:
    if text in ("auto", "paper"):
        return text
    try:
        return float(text)
    except ValueError:
        fail(f'--lam must be a number, "auto" or "paper", got {text!r}')


def _on_test(trained: Any, test: Any) -> dict[str, Any]:
    """The accuracy on the test rows; those that cannot be tested are counted apart, with the reason."""
    from gsat.estimators.from_table import known_rows, predictable_rows, samples

    there = predictable_rows(test, trained.classifier, per_batch=trained.plan.per_batch)
    known = known_rows(there, trained.classifier)
    found: dict[str, Any] = {"test_accuracy": None}
    if len(known):
        batch = there.batch if trained.plan.per_batch else None
        right = trained.classifier.predict(samples(there), batch) == there.y
        found["test_accuracy"] = float(right.sum() / len(known))
    reasons = {
        "alone in their batch, which cannot be centred": len(test) - len(there),
        "of classes that are not among the training samples": len(there) - len(known),
    }
    if any(reasons.values()):
        found["not_tested"] = "; ".join(f"{count} samples {why}" for why, count in reasons.items() if count)
    return found
