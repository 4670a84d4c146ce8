"""`gsat train`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from gsat.cli.app import app, fail, say, user_errors
from gsat.cli.folders import clear, same_config, write_json
from gsat.cli.options import Alpha, AsJson, Budget, DataDir, Eps, Eta0, Force, GroupSize, NInner, NOuter, Out, Seed


@app.command(
    epilog="Examples: [bold]gsat train digits --defence low-rank --out runs/x[/bold], "
    "then [bold]gsat train digits --defence low-rank --out runs/x --resume[/bold] after a stop.",
)
@user_errors
def train(
    data: Annotated[str, typer.Argument(help="A data set by name: digits, mnist.")],
    defence: Annotated[
        str, typer.Option(help="erm, fgm, pgd, universal-at, universal, group-sparse, low-rank, ...")
    ] = "low-rank",
    out: Out = Path("runs/train"),
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
    """Train one model and keep it in a folder: config.json, log.jsonl, checkpoint/, model/."""
    from gsat.data import load
    from gsat.defences import NAMES, STRUCTURES
    from gsat.experiments.training import Plan
    from gsat.experiments.training import train as train_plan
    from gsat.persist import save_model

    if defence not in NAMES:
        fail(f"--defence must be one of {', '.join(NAMES)}, got {defence!r}")
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
    )
    table = load(data, data_dir=data_dir)
    config = {"data": data, "checksum": table.checksum, **plan.describe()}
    if resume:
        same_config(out, config)
    else:
        clear(out, force)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "config.json", config)
    trained = train_plan(table.train, plan, out=out, resume=resume, progress=sys.stderr.isatty() and not as_json)
    save_model(out / "model", trained.module, {**trained.about, "data": data})
    summary = {
        "run": str(out),
        "steps": len(trained.history),
        "loss": trained.history[-1].loss,
        "mean_norm": trained.history.mean_norm,
        "lam": trained.history.lam,
        "test_accuracy": _clean_accuracy(trained.module, table),
    }
    say(summary, as_json)


def _lam(text: str) -> float | str:
    if text in ("auto", "paper"):
        return text
    try:
        return float(text)
    except ValueError:
        fail(f'--lam must be a number, "auto" or "paper", got {text!r}')


def _clean_accuracy(module: Any, table: Any) -> float:
    from gsat.evaluation import evaluate

    test = table.test
    codes = {label: code for code, label in enumerate(table.classes.tolist())}
    return float(evaluate(module, test.X, [codes[label] for label in test.y.tolist()], [])["accuracy"][0])
