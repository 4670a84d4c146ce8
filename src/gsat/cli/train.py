"""`gsat train`."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gsat import _checks, _defaults
from gsat.cli import options
from gsat.cli.app import (
    app,
    at_least_one,
    fail,
    given,
    import_from_here,
    note,
    processes,
    say,
    user_errors,
    warn,
    warnings_kept,
)
from gsat.cli.choices import stored_choice
from gsat.cli.conflicts import refuse_what_is_set_aside
from gsat.cli.devices import use_device
from gsat.cli.files import table_bytes, write_table, write_together
from gsat.cli.folders import running, stored_threads, write_json
from gsat.cli.notes import course, left_out, told_of
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
    normalise: options.Normalise = "none",
    drop: options.Drop = None,
    features: options.Features = None,
    unlabelled: options.Unlabelled = "error",
    choose: Annotated[
        bool,
        typer.Option(
            "--choose", help="Choose structure, budget, metric, preparation and width on training batches left out."
        ),
    ] = False,
    combine: Annotated[
        str,
        typer.Option(help="--choose: average (the best quarter of the candidates predicts together), or best (one)."),
    ] = _defaults.COMBINE,
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
    shrinkage: Annotated[float, typer.Option(help="lda: 1 makes all directions alike.")] = 0.1,
    class_weight: options.ClassWeight = None,
    k: Annotated[int | None, typer.Option(help="At most k columns, or rank at most k.")] = None,
    metric: options.Metric = _defaults.METRIC,
    gamma: options.Gamma = _defaults.GAMMA,
    solver: options.Solver = _defaults.SOLVER,
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
    group: Annotated[
        str, typer.Option(help="torchrun: own, a group for each process, or shared, one group over all of them.")
    ] = "own",
    shuffle: Annotated[
        str, typer.Option(help="block: groups in runs of 16 samples as they lie in the file, for slow disks; or rows.")
    ] = "rows",
    seed: options.Seed = 0,
    threads: options.Threads = None,
    device: options.Device = None,
    precision: Annotated[
        str, typer.Option(help="tf32: products of float32 matrices on CUDA's tensor cores, rounded to 10 bits.")
    ] = "float32",
    data_dir: options.DataDir = None,
    max_memory: options.MaxMemory = None,
    stream: options.Stream = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in --out.")] = False,
    force: options.Force = False,
    raw_text: options.RawText = False,
    as_json: options.AsJson = False,
) -> None:
    """Train a classifier on a file or a data set; its folder has config.json, log.jsonl, checkpoint/ and model/."""
    _checks.one_of("--defence", defence, (*_defaults.DEFENCES, *_defaults.SOLVED))
    at_least_one(threads=threads, jobs=jobs)
    _checks.one_of("--group", group, ("own", "shared"))
    _checks.one_of("--shuffle", shuffle, ("rows", "block"))
    if choose and processes() > 1:
        fail("--choose runs in one process: choose first, with --jobs, then train with what it chose under torchrun")
    if choose and model != "elu":
        fail(f"--choose needs --model elu, whose width it chooses, got {model!r}")
    if prepare == "choose" and not choose:
        fail("--prepare choose needs --choose, which tries the preparations on batches left out")
    _checks.one_of("--combine", combine, _defaults.COMBINATIONS)
    price = _lam(lam)
    _checks.number("eps", eps, least=0)
    _checks.number("c", c, above=0)
    _checks.number("shrinkage", shrinkage, above=0, most=1)
    _checks.number("gamma", gamma, least=0)
    _checks.one_of("--metric", metric, (*_defaults.METRICS, "none"))
    refuse_what_is_set_aside(given(context), defence, metric, choose=choose)
    use_device(device, precision)
    source = Source.given(
        data,
        label=label,
        batch=batch,
        ids=ids,
        layer=layer,
        pheno=pheno,
        missing=missing,
        one_hot=one_hot,
        drop=drop,
        features=features,
        unlabelled=None if unlabelled == "error" else unlabelled,
    ).tested_on(fraction=test_fraction, batch=test_batch, by_batch=True)
    if batch is not None and defence in _defaults.BASELINES and prepare != "centre":
        note(f"{defence} makes no use of the batches in training; the structures of GSAT and --prepare centre do")
    # before torch is imported: a wrong column is told at once
    table, held_out = source.divide(data_dir, max_memory=max_memory, stream=stream)
    if metric in BY_BATCH and gamma > 0 and table.batch is None:
        fail(f"--metric {metric} needs --batch to tell the batches, got none")

    noted = told_of(table, normalise, pixels=source.is_pixels, is_file=source.is_file, held_out=held_out)

    if ":" in model:
        import_from_here()

    from gsat.estimators.candidates import beside
    from gsat.estimators.choosing import choose as choose_plan
    from gsat.estimators.choosing import train_together
    from gsat.estimators.examining import examine
    from gsat.estimators.from_table import Plan
    from gsat.estimators.from_table import train as train_plan
    from gsat.estimators.places import places
    from gsat.estimators.predicting import KNOWN, remembered
    from gsat.estimators.predicting import unlabelled as predict_unlabelled
    from gsat.estimators.relevance import relevance
    from gsat.estimators.wording import in_words, metric_in_words, numbers, plans_in_words
    from gsat.training.launch import launched
    from gsat.training.threads import use_threads

    plan = Plan(
        defence=defence,
        size=budget if defence in _defaults.STRUCTURES else {"linear": c, "lda": shrinkage}.get(defence, eps),
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
        normalise=normalise,
        per_batch=batch is not None
        or ((choose or prepare == "centre" or metric in BY_BATCH) and table.batch is not None),
        early_stopping=early_stopping,
        validation_fraction=validation_fraction,
        calibrate=calibrate,
        metric=None if metric == "none" else metric,
        gamma=gamma,
        class_weight=class_weight,
        device=device,
    )
    n_threads = use_threads(stored_threads(out) if resume and threads is None else threads)
    progress = sys.stderr.isatty() and not as_json
    members, single = stored_choice(out) if choose and resume else (None, None)

    def config() -> dict[str, Any]:
        """What the run is told of itself; with --choose as far as it is chosen."""
        first = replace(plan, **members[0]) if members else plan
        about = {**source.describe(), **fingerprint(table), **first.describe(), "n_inner": first.inner}
        about |= {"threads": n_threads, "processes": processes(), "group": group}
        about |= {} if shuffle == "rows" else {"shuffle": shuffle}
        about |= {} if precision == "float32" else {"precision": precision}
        return about | ({"combine": combine, "choice": members, "choice_single": single} if choose else {})

    with (
        launched() as ranks,
        running(out, config(), resume=resume, force=force) if ranks.rank == 0 else nullcontext(),
        warnings_kept() as told,
    ):
        ranks.any(False)  # the folder is there, and that of this run
        if choose and members is None:
            asked: dict[str, Any] = {"prepare": prepare or "choose", "combine": combine, "jobs": jobs}
            made = choose_plan(table.train, plan, **asked, kept=out / "choice.jsonl", progress=progress)
            members, single = made.members, made.single
            write_table(out / "choice.csv", made.tried)
            write_json(out / "config.json", config())
        plans, others = ([replace(plan, **one) for one in some or ()] for some in (members or [{}], single))
        trained = train_plan(
            table.train, plans[0], out=out, resume=resume, progress=progress, group=group, shuffle=shuffle
        )
        if ranks.rank:
            return  # the first process writes and tells
        ready = {repr(plans[0]): trained.classifier}
        trained = replace(trained, predictor=train_together(table.train, plans, ready, jobs=jobs))
        trained.predictor.save(out / "model")
        if others:
            train_together(table.train, others, ready, jobs=jobs).save(beside(out / "model"))
        found = examine(trained, table, held_out, source, [*noted, *told])
        ranked = None if source.is_pixels else relevance(trained, table.train)
        frames = {"predictions.csv": found.predictions, "map.csv": places(trained, table)}
        frames |= {} if ranked is None else {"features.csv": ranked}
        if unlabelled == "predict":
            unknown = replace(source, unlabelled="only").read(data_dir, max_memory=max_memory, stream=stream)
            frames["unlabelled.csv"] = predict_unlabelled(trained, unknown)
        files = {name: table_bytes(out / name, frame, raw_text=raw_text) for name, frame in frames.items()}
        stored = {KNOWN: remembered(table.train), "metrics.json": found.metrics}
        files |= {name: json.dumps(content, indent=1, allow_nan=False).encode() for name, content in stored.items()}
        write_together(out, files)
    for warning in found.metrics["warnings"][len(noted) + len(told) :]:
        warn(warning)
    say(
        {
            "run": str(out),
            "samples": f"{len(table.train)} to train on, {len(table.test)} for the test",
            **left_out(table, frames),
            "classes": len(trained.classifier.classes_),
            **({"chosen": plans_in_words(plans)} if choose else {}),
            **({"for single samples": f"{beside(out / 'model')}: {plans_in_words(others)}"} if others else {}),
            **({} if len(plans) > 1 else metric_in_words(trained, table.train)),
            **({} if len(plans) > 1 else course(trained, calibrate=calibrate, as_json=as_json)),
            **(numbers(found.metrics) if as_json else in_words(found.metrics)),
            **({} if found.not_tested is None else {"not_tested": found.not_tested}),
            **({"features": "not ranked: of images a single pixel tells nothing"} if ranked is None else {}),
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
