"""The demo: six defences on scikit-learn's digits, every structure of attack, one table and one picture."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import torch

from gsat import attacks
from gsat._numeric import mean_norm
from gsat.attacks import Attack
from gsat.checkpoint import replace_file
from gsat.data import load
from gsat.evaluation import evaluate
from gsat.experiments.training import Plan, train
from gsat.persist import save_model

DEFENCES = ("erm", "fgm", "pgd", "universal", "group-sparse", "low-rank")
SIZE = 0.1  # of the perturbations in training, as a fraction of E‖X‖₂
EPS = 0.2  # of the counted attacks: group-sparse and low-rank


def demonstrate(out: Path, *, seed: int = 0, n_outer: int = 300, progress: bool = False) -> pd.DataFrame:
    """Train, attack, and write results.csv, curves.png and a model/ per defence into `out`."""
    table = load("digits")
    out.mkdir(parents=True, exist_ok=True)
    config = {"data": "digits", "defences": DEFENCES, "size": SIZE, "eps": EPS, "n_outer": n_outer, "seed": seed}
    replace_file(out / "config.json", json.dumps(config, indent=1).encode())
    sweep = _sweep(mean_norm(torch.from_numpy(table.train.X)))
    frames = []
    for name in DEFENCES:
        plan = Plan(name, size=SIZE, n_outer=n_outer, n_inner=10, group_size=100, eta0=3e-3, seed=seed)
        trained = train(table.train, plan, progress=progress)
        save_model(out / name / "model", trained.module, {**trained.about, "data": "digits"})
        results = evaluate(
            trained.module, table.test.X, table.test.codes, {label: a for label, (_, a) in sweep.items()}
        )
        frames.append(_labelled(results, sweep).assign(defence=name))
    results = pd.concat(frames, ignore_index=True)
    results.to_csv(out / "results.csv", index=False)
    draw_curves(results, out / "curves.png")
    return results


def _sweep(unit: float) -> dict[str, tuple[str, Attack]]:
    """Attacks by label; the strength of universal and PGD is eps, of the others the count at one eps."""
    sweep: dict[str, tuple[str, Attack]] = {}
    for size in (0.05, 0.1, 0.2, 0.3):
        sweep[f"universal {size:g}"] = ("universal", attacks.Universal(size * unit, steps=50))
    for k in (2, 5, 10, 20):
        sweep[f"group-sparse {k}"] = ("group-sparse", attacks.GroupSparse(EPS * unit, k=k, steps=50))
    for rank in (1, 2, 3, 5):
        sweep[f"low-rank {rank}"] = ("low-rank", attacks.LowRank(EPS * unit, rank=rank, steps=50))
    for size in (0.05, 0.1, 0.15, 0.2):
        sweep[f"pgd {size:g}"] = ("pgd", attacks.PGD(size * unit, steps=50))
    return sweep


def _labelled(results: pd.DataFrame, sweep: dict[str, tuple[str, Attack]]) -> pd.DataFrame:
    """The rows of the sweep, each structure starting with the clean accuracy at strength 0."""
    clean = results[results["attack"] == "none"].iloc[0]
    rows = []
    for structure in dict.fromkeys(structure for structure, _ in sweep.values()):
        rows.append({**clean.to_dict(), "attack": structure, "label": 0.0})
        for label, (own, _) in sweep.items():
            if own == structure:
                row = results[results["attack"] == label].iloc[0].to_dict()
                rows.append({**row, "attack": structure, "label": float(label.rsplit(" ", 1)[1])})
    return pd.DataFrame(rows)


def draw_curves(results: pd.DataFrame, path: Path) -> None:
    """Accuracy against strength, a panel per structure of attack and a line per defence."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    structures = list(dict.fromkeys(results["attack"]))
    axis = {
        "universal": "eps / E‖X‖",
        "pgd": "eps / E‖X‖",
        "group-sparse": f"columns that move, eps = {EPS:g}·E‖X‖",
        "low-rank": f"rank, eps = {EPS:g}·E‖X‖",
    }
    figure = Figure(figsize=(4 * len(structures), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(structures), sharey=True)
    for panel, structure in zip(panels, structures, strict=True):
        for name, rows in results[results["attack"] == structure].groupby("defence", sort=False):
            ours = name in ("universal", "group-sparse", "low-rank")
            label = f"GSAT {name}" if ours else str(name).upper()
            panel.plot(rows["label"], 100 * rows["accuracy"], marker="o", ms=4, ls="-" if ours else "--", label=label)
        panel.set_title(f"{structure} attack")
        panel.set_xlabel(axis[structure])
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("accuracy, %")
    panels[-1].legend(fontsize=8)
    figure.savefig(path, dpi=130)
