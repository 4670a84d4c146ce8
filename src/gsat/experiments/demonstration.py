"""The demo: six defences on scikit-learn's digits, every structure of attack, and the files that a report shows."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from gsat import attacks
from gsat._arrays.norms import mean_norm
from gsat._arrays.svd import singular_values
from gsat._files import replace_file, replace_files
from gsat.attacks import Attack
from gsat.data import Table, load
from gsat.estimators.from_table import Plan, samples, train
from gsat.evaluation import evaluate
from gsat.experiments.pictures import Panel, curves, lines

DEFENCES = ("erm", "fgm", "pgd", "universal", "group-sparse", "low-rank")
QUICK = ("erm", "pgd", "low-rank"), ("universal 0.2", "group-sparse 10", "low-rank 3", "pgd 0.1")  # defences, attacks
N_OUTER, N_OUTER_QUICK = 300, 100  # groups to train on
SIZE = 0.1  # of the perturbations in training, as a fraction of E‖X‖₂
EPS = 0.2  # of the counted attacks: group-sparse and low-rank
SHOWN = 200  # test digits on which the perturbations of the report are found
AXES = {"universal": "eps / E‖X‖", "group-sparse": "columns that move", "low-rank": "rank", "pgd": "eps / E‖X‖"}
FIXED = dict.fromkeys(("group-sparse", "low-rank"), f"eps = {EPS:g}·E‖X‖")
PROTOCOL = (
    "{count} defences trained on three quarters of scikit-learn's digits (8 x 8 pixels, ten classes) and attacked on "
    "the rest, in groups of 200, by the worst of several searches (strength standard). In training the perturbations "
    f"of every defence but ERM have the mean norm {SIZE:g}·E‖X‖. "
    "One seed and a small set: this page shows what the library does, not how well it does it."
)
SHIFT = {
    "kind": "image",
    "title": f"The universal shift of {EPS:g}·E‖X‖",
    "note": f"The one shift that harms a model most, found on {SHOWN} test digits. Blue adds ink, red takes it away.",
    "shape": [8, 8],
}
PIXELS = {
    "kind": "image",
    "title": "The ten pixels of the group-sparse attack",
    "note": f"How far each pixel moves (root mean square over {SHOWN} test digits), where ten may move.",
    "shape": [8, 8],
}
SPECTRUM = {
    "kind": "spectrum",
    "title": "The directions of the PGD attack",
    "note": f"The largest singular values of the perturbations of {SHOWN} test digits. The attack has no structure, "
    "yet a model that is nearly linear is attacked along nine directions, one less than there are classes.",
}


def demonstrate(
    out: Path, *, seed: int = 0, n_outer: int | None = None, quick: bool = False, progress: bool = False
) -> pd.DataFrame:
    """Train, attack, and write into `out` the files of a report, curves.png, and a model/ per defence.

    `quick` takes half of the defences, one size of each attack, and a third of the groups: to see that all is in place.
    """
    table = load("digits")
    defences = tuple(name for name in DEFENCES if not quick or name in QUICK[0])
    n_outer = (N_OUTER_QUICK if quick else N_OUTER) if n_outer is None else n_outer
    out.mkdir(parents=True, exist_ok=True)
    config = {
        "title": "GSAT on handwritten digits",
        "command": f"gsat demo{' --quick' if quick else ''} --seed {seed} --n-outer {n_outer}",
        "protocol": PROTOCOL.format(count="Three" if quick else "Six"),
        "data": "digits",
        "defences": defences,
        "size": SIZE,
        "eps": EPS,
        "n_outer": n_outer,
        "seed": seed,
        "threads": torch.get_num_threads(),
        "report": {"x_label": AXES, "fixed": FIXED},
    }
    replace_file(out / "config.json", json.dumps(config, indent=1).encode())
    unit = mean_norm(torch.from_numpy(table.train.X))
    sweep = {label: entry for label, entry in _sweep(unit).items() if not quick or label in QUICK[1]}
    frames, log, timing, shown = [], [], [], [_mean_digit(table)]
    for name in defences:
        plan = Plan(name, size=SIZE, n_outer=n_outer, n_inner=10, group_size=100, eta0=3e-3, seed=seed)
        begin = time.perf_counter()
        trained = train(table.train, plan, progress=progress)
        per_step = (time.perf_counter() - begin) / n_outer
        timing.append({"defence": name, "what": "One training step", "seconds": per_step})
        log += [json.dumps({"defence": name, "seed": seed, **asdict(step)}) + "\n" for step in trained.history]
        trained.classifier.save(out / name / "model")
        results = evaluate(
            trained.classifier,
            samples(table.test),
            table.test.y,
            {label: a for label, (_, a) in sweep.items()},
            strength="standard",
        )
        frames.append(_labelled(results, sweep).assign(defence=name))
        shown += [{"defence": name, **entry} for entry in _perturbations(trained.module, table, unit)]
    results = pd.concat(frames, ignore_index=True)
    files = {
        "results.csv": results.to_csv(index=False).encode(),
        "timing.csv": pd.DataFrame(timing).to_csv(index=False).encode(),
        "log.jsonl": "".join(log).encode(),
        "perturbations.json": json.dumps({"perturbations": shown}).encode(),
        "curves.png": draw_curves(results),
    }
    replace_files(out, files)
    return results


def _mean_digit(table: Table) -> dict[str, Any]:
    """For comparison with the shifts."""
    return {**SHIFT, "label": "mean digit", "scale": "own", "values": _rounded(torch.from_numpy(table.test.X).mean(0))}


def _perturbations(module: nn.Module, table: Table, unit: float) -> list[dict[str, Any]]:
    """What the attacks find on some test digits: the shift, the pixels, the directions."""
    x, y = torch.from_numpy(table.test.X[:SHOWN]), torch.from_numpy(table.test.codes[:SHOWN])
    shift = attacks.Universal(EPS * unit, steps=50).perturb(module, x, y)[0]
    columns = attacks.GroupSparse(EPS * unit, k=10, steps=50).perturb(module, x, y)
    free = attacks.PGD(EPS * unit, steps=50).perturb(module, x, y)
    return [
        {**SHIFT, "values": _rounded(shift)},
        {**PIXELS, "values": _rounded(columns.square().mean(0).sqrt())},
        {**SPECTRUM, "values": _rounded(singular_values(free)[:20])},
    ]


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 5) for value in values.tolist()]


def _sweep(unit: float) -> dict[str, tuple[str, Attack]]:
    """Attacks by label; the strength of universal and PGD is eps, of the others the count at one eps."""
    sweep: dict[str, tuple[str, Attack]] = {}
    for size in (0.05, 0.1, 0.2, 0.3):
        sweep[f"universal {size:g}"] = ("universal", attacks.Universal(size * unit, steps=25))
    for k in (2, 5, 10, 20):
        sweep[f"group-sparse {k}"] = ("group-sparse", attacks.GroupSparse(EPS * unit, k=k, steps=25))
    for rank in (1, 2, 3, 5):
        sweep[f"low-rank {rank}"] = ("low-rank", attacks.LowRank(EPS * unit, rank=rank, steps=25))
    for size in (0.05, 0.1, 0.15, 0.2):
        sweep[f"pgd {size:g}"] = ("pgd", attacks.PGD(size * unit, steps=25))
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


def draw_curves(results: pd.DataFrame) -> bytes:
    """Accuracy against strength, a panel per structure of attack and a line per defence."""
    panels = [
        Panel(
            f"{structure} attack",
            ", ".join(filter(None, (AXES[str(structure)], FIXED.get(str(structure))))),
            lines(rows, "label"),
        )
        for structure, rows in results.groupby("attack", sort=False)
    ]
    return curves(panels)
