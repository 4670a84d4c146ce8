"""The command line: parse, call one function, print."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")

Out = Annotated[Path, typer.Option(help="Folder of the run.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a run that is there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
NOuter = Annotated[int, typer.Option(help="Groups to train on (T0).")]
NInner = Annotated[int, typer.Option(help="Gradients of the inner maximisation (T1).")]
GroupSize = Annotated[int, typer.Option(help="Samples in a group (m).")]
Budget = Annotated[float, typer.Option(help="GSAT: wanted mean norm of the perturbations, as a fraction of E‖X‖.")]
Alpha = Annotated[
    float | None, typer.Option(help="GSAT: weight of the structure in the cost, 0 to 1; group-sparse 0.1, else 0.2.")
]
Eps = Annotated[float, typer.Option(help="Norm bound, as a fraction of E‖X‖.")]
Eta0 = Annotated[float, typer.Option(help="Learning rate of Adam.")]
Seed = Annotated[int, typer.Option(help="Seed of weights and groups: same seed, same bits.")]
Steps = Annotated[int, typer.Option(help="Gradients of an attack.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the data files; default $GSAT_DATA.")]


RUN_FILES = {
    "config.json", "log.jsonl", "checkpoint", "model", "models", "results.csv", "evaluations.jsonl", "chosen.csv",
    "differences.csv", "curves.png", "report.html", "erm", "fgm", "pgd", "universal", "group-sparse", "low-rank",
}  # fmt: skip


def user_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Errors that the user can mend end with a line and exit code 2, not with a traceback."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (ValueError, TypeError, OSError, FloatingPointError, ImportError) as error:
            fail("\n".join([str(error), *getattr(error, "__notes__", [])]))
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(130) from None

    return guarded


def fail(message: str) -> NoReturn:
    """Say what is wrong and leave with exit code 2."""
    typer.echo(f"gsat: {message}", err=True)
    raise typer.Exit(2)


@app.callback()
def about() -> None:
    """Train classifiers robust to perturbations that are structured across samples."""


@app.command(
    epilog="Example: [bold]gsat demo --out runs/demo[/bold]   (about two minutes on two cores)",
)
@user_errors
def demo(
    out: Out = Path("runs/demo"), seed: Seed = 0, n_outer: NOuter = 300, force: Force = False, as_json: AsJson = False
) -> None:
    """Train six defences on scikit-learn's digits, attack them with every structure, and draw the curves."""
    from gsat.experiments.demonstration import demonstrate

    _clear(out, force)
    results = demonstrate(out, seed=seed, n_outer=n_outer, progress=not as_json and sys.stderr.isatty())
    if as_json:
        typer.echo(results.to_json(orient="records"))
        return
    typer.echo(
        "accuracy in percent on held-out digits; eps as a fraction of E‖X‖ = size of the perturbation of each sample"
    )
    wide = (
        100 * results.pivot_table(index="defence", columns=["attack", "label"], values="accuracy", sort=False)
    ).round(1)
    typer.echo(wide.to_string())
    typer.echo(f"curves: {out / 'curves.png'}   figures: {out / 'results.csv'}")


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
        _same_config(out, config)
    else:
        _clear(out, force)
    out.mkdir(parents=True, exist_ok=True)
    _write_json(out / "config.json", config)
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
    _say(summary, as_json)


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
    counts = _numbers(
        "--ranks" if structure == "low-rank" else "--columns", ranks if structure == "low-rank" else columns, int
    )
    texts = [
        f"{structure}{f':{count}' if count is not None else ''}@{size}"
        for size in _numbers("--eps", eps, float)
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


@app.command(
    epilog="Example: [bold]gsat compare mnist --defences erm,fgm,pgd,low-rank,group-sparse "
    "--attacks low-rank:5@0.05,group-sparse:50@0.05 --seeds 3 --rule tuned[/bold]",
)
@user_errors
def compare(
    data: Annotated[str, typer.Argument(help="A data set by name: digits, mnist.")],
    defences: Annotated[
        str, typer.Option(help="Names, separated by commas.")
    ] = "erm,fgm,pgd,universal,group-sparse,low-rank",
    attacks: Annotated[
        str, typer.Option(help='"name:count@eps", separated by commas; eps as a fraction of E‖X‖.')
    ] = "universal@0.05,group-sparse:50@0.05,low-rank:5@0.05,pgd@0.05",
    rule: Annotated[str, typer.Option(help="How sizes are chosen: matched (the paper's) or tuned.")] = "matched",
    budget: Budget = 0.05,
    grid: Annotated[str, typer.Option(help="tuned: sizes tried for every defence.")] = "0.025,0.05,0.1,0.2",
    seeds: Annotated[int, typer.Option(help="Number of seeds.")] = 3,
    n_outer: NOuter = 1000,
    n_inner: NInner = 20,
    group_size: GroupSize = 200,
    eta0: Eta0 = 1e-3,
    alpha: Alpha = None,
    schedule: Annotated[str, typer.Option(help="constant or cosine.")] = "constant",
    steps: Steps = 100,
    n_test: Annotated[int, typer.Option(help="Test samples that are attacked.")] = 1000,
    n_validation: Annotated[int, typer.Option(help="Training samples held out to choose sizes.")] = 1000,
    jobs: Annotated[int, typer.Option(help="Models trained at a time, one core each.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for results.csv, chosen.csv and differences.csv.")] = None,
    data_dir: DataDir = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the comparison in --out.")] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train several defences over several seeds, attack them all, and print means, spreads and paired differences."""
    from gsat.data import load
    from gsat.defences import NAMES
    from gsat.experiments.comparing import Protocol
    from gsat.experiments.comparing import compare as run_comparison
    from gsat.experiments.training import Plan, parse_attack

    names, cases = (tuple(part.strip() for part in text.split(",")) for text in (defences, attacks))
    for name in names:
        if name not in NAMES:
            fail(f"--defences must be of {', '.join(NAMES)}, got {name!r}")
    for case in cases:
        parse_attack(case, 1.0)
    for option, number in (
        ("--seeds", seeds),
        ("--jobs", jobs),
        ("--n-test", n_test),
        ("--n-validation", n_validation),
    ):
        if number < 1:
            fail(f"{option} must be >= 1, got {number}")
    if rule not in ("matched", "tuned"):
        fail(f"--rule must be matched or tuned, got {rule!r}")
    protocol = Protocol(
        defences=names,
        attacks=cases,
        rule=rule,  # type: ignore[arg-type]
        size=budget,
        grid=tuple(_numbers("--grid", grid, float)),
        seeds=tuple(range(seeds)),
        n_test=n_test,
        n_validation=n_validation,
        steps=steps,
        plan=Plan(
            "erm",
            n_outer=n_outer,
            n_inner=n_inner,
            group_size=group_size,
            eta0=eta0,
            alpha=alpha,
            schedule=schedule,
        ),
        jobs=jobs,
    )
    table = load(data, data_dir=data_dir)
    if out is not None:
        config = {"data": data, "checksum": table.checksum, **asdict(protocol)}
        if resume:
            _same_config(out, config)
        else:
            _clear(out, force)
        out.mkdir(parents=True, exist_ok=True)
        _write_json(out / "config.json", config)
    found = run_comparison(table, protocol, out=out, progress=sys.stderr.isatty())
    if out is not None:
        found.results.to_csv(out / "results.csv", index=False)
        found.chosen.to_csv(out / "chosen.csv", index=False)
        found.differences().to_csv(out / "differences.csv", index=False)
    if as_json:
        typer.echo(found.chosen.to_json(orient="records"))
        return
    typer.echo(f"accuracy in percent, mean ± standard deviation over {seeds} seeds; sizes {rule}")
    typer.echo(found.table().to_string())
    gaps = found.differences()
    if gaps.empty:
        return
    typer.echo("\npaired differences in points, * above twice the standard error; (of the same models without attack)")
    for (ours, baseline), rows in gaps.groupby(["ours", "baseline"], sort=False):
        cells = "  ".join(
            f"{row.case} {row.difference:+.1f} ± {row.standard_error:.1f}{'*' if row.beats else ''} ({row.clean:+.1f})"
            for row in rows.itertuples()
        )
        typer.echo(f"{ours} − {baseline}: {cells}")


def _lam(text: str) -> float | str:
    if text in ("auto", "paper"):
        return text
    try:
        return float(text)
    except ValueError:
        fail(f'--lam must be a number, "auto" or "paper", got {text!r}')


def _numbers(option: str, text: str | None, kind: Callable[[str], Any]) -> list[Any]:
    if text is None:
        return [None]
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        fail(f"{option} must be numbers separated by commas, got {text!r}")


def _clear(out: Path, force: bool) -> None:
    """Make room for a run; nothing is overwritten unless asked for, and only what a run of gsat wrote."""
    if out.exists() and not out.is_dir():
        fail(f"--out must be a folder, got the file {out}")
    found = {path.name for path in out.iterdir()} if out.exists() else set()
    if found <= {"config.json"} and (not found or _is_run(out)):  # new, or a run that failed before its first step
        return
    if not _is_run(out) or (found - RUN_FILES):
        what = ", ".join(sorted(found - RUN_FILES)) if _is_run(out) else "no config.json of a run"
        fail(f"--out must be a new folder or a run of gsat, got {out} with {what}; it is not overwritten")
    if not force:
        fail(f"--out must be a new or empty folder, got {out}; take another, --force to overwrite it, or --resume")
    shutil.rmtree(out)


def _is_run(out: Path) -> bool:
    try:
        config = json.loads((out / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and "data" in config and bool({"defence", "defences"} & set(config))


def _same_config(out: Path, config: dict[str, Any]) -> None:
    try:
        before = json.loads((out / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        fail(f"--resume needs a run in --out, got {out} without config.json")
    now = json.loads(json.dumps(config))
    other = sorted(key for key in {*before, *now} if before.get(key) != now.get(key))
    if other:
        details = ", ".join(f"{key} was {before.get(key)!r}, is {now.get(key)!r}" for key in other)
        fail(f"--resume needs the options of the run: {details}")


def _write_json(path: Path, content: dict[str, Any]) -> None:
    from gsat.checkpoint import replace_file

    replace_file(path, json.dumps(content, indent=1).encode())


def _clean_accuracy(module: Any, table: Any) -> float:
    from gsat.evaluation import evaluate

    test = table.test
    codes = {label: code for code, label in enumerate(table.classes.tolist())}
    return float(evaluate(module, test.X, [codes[label] for label in test.y.tolist()], [])["accuracy"][0])


def _say(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(summary))
        return
    for name, value in summary.items():
        typer.echo(f"{name:<14} {value:.4g}" if isinstance(value, float) else f"{name:<14} {value}")


def main() -> None:
    """The entry point of the `gsat` command."""
    sys.path.insert(0, "")  # `--model my_file:factory` is found where the command is typed, as with python -m
    app()
