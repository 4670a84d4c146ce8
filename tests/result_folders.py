"""Result folders as the commands and experiments leave them, small and made up: what the tests of the report read."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>\"'&"


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


def experiment(folder: Path) -> Path:
    """Three defences, two attacks, three seeds, with every kind of file that a report shows."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in range(3):
        for defence, slope in (("erm", 0.2), ("pgd", 0.1), ("low-rank", 0.05)):
            for attack, strengths in (("none", [0]), ("low-rank", [1, 2, 4]), ("pgd", [0.5, 1.0])):
                for k in strengths:
                    accuracy = 0.95 - slope * k + 0.01 * seed
                    eps = k if attack == "pgd" else 1.0
                    rows.append({"defence": defence, "attack": attack, "strength": k, "eps": eps, "seed": seed})
                    rows[-1] |= {"accuracy": accuracy, "n": 200, "seconds": 0.5 * k}
    pd.DataFrame(rows).to_csv(folder / "results.csv", index=False)
    log = [
        {"t": t, "loss": 2 / (1 + t), "mean_norm": 0.3 + 0.01 * (t % 5), "lam": None, "defence": d, "seed": 0}
        for d in ("pgd", "low-rank")
        for t in range(250)
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(step) + "\n" for step in log))
    grid = np.linspace(-1, 1, 12).round(3)
    write_json(
        folder / "perturbations.json",
        {
            "perturbations": [
                {"kind": "image", "title": "Shift", "defence": "erm", "shape": [3, 4], "values": grid.tolist()},
                {"kind": "image", "title": "Shift", "defence": "pgd", "shape": [3, 4], "values": (grid / 2).tolist()},
                {"kind": "image", "title": "Colours", "shape": [3, 2, 2], "values": grid.tolist()},
                {"kind": "bars", "title": "Genes", "defence": "erm", "names": ["TP53", "EGFR"], "scores": [0.2, -1.5]},
                {"kind": "spectrum", "title": "Directions", "defence": "pgd", "values": [1.0, 3.0, 2.0]},
            ]
        },
    )
    pd.DataFrame({"defence": ["pgd", "low-rank"], "what": "One step", "seconds": [0.02, 0.03]}).to_csv(
        folder / "timing.csv", index=False
    )
    pd.DataFrame(
        {
            "ours": "low-rank",
            "baseline": ["erm", "pgd", "pgd"],
            "case": ["low-rank:4@0.1", "low-rank:4@0.1", "none"],
            "difference": [60.0, 20.0, -0.5],
            "standard_error": [1.0, 2.0, np.nan],
            "low": [57.0, 14.0, np.nan],
            "high": [63.0, 26.0, np.nan],
        }
    ).to_csv(folder / "differences.csv", index=False)
    write_json(
        folder / "config.json",
        {
            "title": "An experiment",
            "paper": "91 %",
            "headline": "92 %",
            "command": "gsat something",
            "notes": ["First.", "Second."],
            "data": "digits",
            "k": 3,
        },
    )
    return folder


def comparison(folder: Path) -> Path:
    """As `gsat compare` leaves it: cases, validation and test rows, and the chosen ones."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = {"none": 0.9, "universal@0.05": 0.8, "universal@0.2": 0.5, "low-rank:1@0.2": 0.6, "low-rank:3@0.2": 0.4}
    cases |= {"group-sparse:50@0.05": 0.8, "group-sparse:50@0.2": 0.7, "universal@0.2-all": 0.55}
    rows = [
        {"case": case, "accuracy": accuracy - 0.1 * (defence == "erm"), "part": part, "defence": defence, "seed": seed}
        for defence in ("erm", "low-rank")
        for seed in (0, 1)
        for case, accuracy in cases.items()
        for part in ("validation", "test")
    ]
    results = pd.DataFrame(rows).assign(seconds=1.0)
    results.to_csv(folder / "results.csv", index=False)
    chosen = results[results["part"] == "test"].assign(clean=0.85)
    chosen.to_csv(folder / "chosen.csv", index=False)
    write_json(folder / "config.json", {"data": "mnist", "defences": ["erm", "low-rank"], "rule": "tuned"})
    return folder


def hostile(folder: Path) -> Path:
    """Markup wherever a file may hold text."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {"defence": defence, "attack": HOSTILE, "strength": k, "accuracy": 0.5, HOSTILE: HOSTILE}
        for defence in (HOSTILE, "=cmd()", "pgd")
        for k in (0, 1)
    ]
    pd.DataFrame(rows).to_csv(folder / "results.csv", index=False)
    pd.DataFrame({HOSTILE: [HOSTILE]}).to_csv(folder / "other.csv", index=False)
    pd.DataFrame({"defence": [HOSTILE], "what": HOSTILE, "seconds": 1.0}).to_csv(folder / "timing.csv", index=False)
    pd.DataFrame({"ours": [HOSTILE], "baseline": HOSTILE, "case": HOSTILE, "difference": 1.0}).to_csv(
        folder / "differences.csv", index=False
    )
    (folder / "log.jsonl").write_text(
        "".join(json.dumps({"t": t, "loss": t, "defence": HOSTILE}) + "\n" for t in range(3))
    )
    text = {"title": HOSTILE, "note": HOSTILE, "label": HOSTILE, "defence": HOSTILE}
    write_json(
        folder / "perturbations.json",
        {
            "perturbations": [
                {"kind": "image", "shape": [1, 2], "values": [1, 2], **text},
                {"kind": "bars", "names": [HOSTILE], "scores": [1], "x_label": HOSTILE, **text},
                {"kind": "spectrum", "values": [1, 2], **text},
            ]
        },
    )
    keys = ("title", "command", "protocol", "notes", "data", "defence")
    config = dict.fromkeys(keys, HOSTILE) | {"names": {"pgd": HOSTILE}, HOSTILE: [HOSTILE, {HOSTILE: 1}]}
    write_json(folder / "config.json", config | {"report": {"x_label": HOSTILE, "y_label": HOSTILE, "fixed": HOSTILE}})
    (folder / "<img src=x onerror=alert(1)>.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" onload="window.hacked=1"><script>window.hacked=1</script></svg>'
    )
    return folder


def wilson(hits: float, n: int) -> dict[str, float] | None:
    """An interval of a share, as metrics.json has it."""
    if n == 0:
        return None
    share, z = hits / n, 1.96
    middle, reach = share + z * z / 2 / n, z * (share * (1 - share) / n + z * z / 4 / n**2) ** 0.5
    return {"value": share, "low": (middle - reach) / (1 + z * z / n), "high": (middle + reach) / (1 + z * z / n)}


def judged(label, predicted, batch, classes) -> dict:
    """What metrics.json says of one set of predictions."""
    right = label == predicted
    confusion = [[int(((label == a) & (predicted == b)).sum()) for b in classes] for a in classes]
    recalls = [wilson(row[i], sum(row)) for i, row in enumerate(confusion)]
    known = [recall["value"] for recall in recalls if recall]
    balanced = float(np.mean(known))
    return {
        "n": len(label),
        "accuracy": wilson(float(right.sum()), len(label)),
        "balanced_accuracy": {"value": balanced, "low": balanced - 0.05, "high": min(balanced + 0.04, 1.0)},
        "confusion": confusion,
        "per_class": [
            {
                "class": name,
                "n": sum(confusion[i]),
                "recall": recalls[i],
                "precision": wilson(confusion[i][i], sum(row[i] for row in confusion)),
            }
            for i, name in enumerate(classes)
        ],
        "per_batch": [
            {
                "batch": name,
                "n": int((batch == name).sum()),
                "accuracy": wilson(float(right[batch == name].sum()), int((batch == name).sum())),
                "balanced_accuracy": balanced,
            }
            for name in np.unique(batch).tolist()
        ],
    }


def judged_run(
    folder: Path,
    *,
    classes: tuple[str, ...] = ("HCC827", "H1975", "H2228", "A549", "H838"),
    batches: tuple[str, ...] = ("CEL-seq2 p1", "CEL-seq2 p2", "CEL-seq2 p3", "10x", "Drop-seq"),
    held_out: tuple[str, ...] = ("10x", "Drop-seq"),
    text: str = "",
    n: int = 300,
) -> Path:
    """As `gsat train` leaves a run of five cell lines: metrics, predictions, a map, features and a log."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    classes, batches, held_out = ([f"{text}{name}" for name in names] for names in (classes, batches, held_out))
    batch, label = rng.choice(held_out, n), rng.choice(classes, n)
    places = np.searchsorted(np.sort(classes), label)
    predicted = np.where(rng.random(n) < 0.85, label, rng.choice(classes, n))
    logistic = np.where(rng.random(n) < 0.8, label, rng.choice(classes, n))
    probability = np.where(predicted == label, rng.uniform(0.5, 1, n), rng.uniform(0.25, 0.9, n))
    ids = [f"{text}cell {i}" for i in range(n)]
    frame = {"id": ids, "batch": batch, "label": label, "predicted": predicted, "probability": probability}
    pd.DataFrame({**frame, "logistic": logistic}).to_csv(folder / "predictions.csv", index=False)
    angle = 2 * np.pi * places / len(classes)
    x, y = 9 * np.cos(angle) + rng.normal(0, 2, n), 6 * np.sin(angle) + rng.normal(0, 2, n)
    push = {"push_x": x + rng.normal(-1, 0.3, n), "push_y": y + rng.normal(0.5, 0.3, n)}
    pd.DataFrame({"id": ids, "x": x, "y": y, **push}).to_csv(folder / "map.csv", index=False)
    scores = np.sort(rng.gamma(1, 1, 40))[::-1]
    pd.DataFrame(
        {"feature": [f"{text}GENE{i}" for i in range(40)], "score": scores, "stability": rng.integers(10, 21, 40) / 20}
    ).to_csv(folder / "features.csv", index=False)
    bins = []
    for low in np.arange(10) / 10:
        inside = (probability > low) & (probability <= low + 0.1)
        if inside.any():
            mean, right = float(probability[inside].mean()), float((predicted == label)[inside].mean())
            bins.append({"low": low, "high": low + 0.1, "n": int(inside.sum()), "probability": mean, "accuracy": right})
    kept = [name for name in batches if name not in held_out]
    trained = [[int(rng.integers(20, 90)) if name in kept else 0 for _ in classes] for name in batches]
    tested = [[int(((batch == b) & (label == c)).sum()) for c in classes] for b in batches]
    write_json(
        folder / "metrics.json",
        {
            "held_out": {
                "kind": "batches",
                "batches": held_out,
                "why": f"{text}batches 10x, Drop-seq: 300 samples, the largest that leave all classes",
            },
            "data": {
                "name": f"{text}cells.h5ad",
                "label": f"{text}cell_line",
                "batch": "technology",
                "n_train": int(np.sum(trained)),
                "n_test": n,
                "n_features": 11533,
            },
            "model": {"defence": "low-rank", "words": f"{text}robust training against low-rank shifts", "budget": 0.05},
            "counts": {"classes": classes, "batches": batches, "train": trained, "test": tested},
            "training": judged(label, label, batch, classes),
            "test": judged(label, predicted, batch, classes),
            "logistic": judged(label, logistic, batch, classes),
            "majority": 0.21,
            "calibration": bins,
            "calibration_error": 0.062,
            "warnings": [f"{text}fewer than 5 training samples of class H838 (4)"],
        },
    )
    log = [{"t": t, "loss": 2 / (1 + t), "mean_norm": 0.3 + 0.01 * (t % 5), "lam": 20 - t / 20} for t in range(200)]
    (folder / "log.jsonl").write_text("".join(json.dumps(step) + "\n" for step in log))
    write_json(
        folder / "config.json",
        {"data": f"/home/me/data/{text}cells.h5ad", "label": "cell_line", "defence": "low-rank", "n_outer": 200},
    )
    return folder


def diagnosed(folder: Path, text: str = "") -> Path:
    """As `gsat diagnose --out` leaves it."""
    folder.mkdir(parents=True, exist_ok=True)
    forms = {"universal": "one shift for all samples", "group-sparse": "a few features", "low-rank": "a few directions"}
    shares = zip(forms, (0.3, 0.1, 1.02), strict=True)
    rows = [
        {"structure": name, "what": f"{text}{forms[name]}", "share": s, "share_low": s - 0.1, "share_high": s + 0.1}
        for name, s in shares
    ]
    rows.append(
        {"structure": "all", "what": "everything together", "share": None, "share_low": None, "share_high": None}
    )
    pair = {"classes": 2, "structure": "low-rank", "what": f"{text}a few directions", "p_value": 0.0025, "size": 0.5}
    write_json(
        folder / "diagnosis.json",
        {
            "data": f"/home/me/{text}cells.h5ad",
            "structure": "low-rank",
            "size": 0.5,
            "p_value": 0.0025,
            "excess": 12.0,
            "features": [f"{text}GENE{j}" for j in range(4)],
            "curve_features": [0.1, 0.2, 0.25, 0.28],
            "summary": [f"{text}The batches differ along a few directions.", "Second."],
            "next": f"gsat check {text}cells.h5ad --label cell_type",
            "table": rows,
            "pairs": [{"first": f"{text}lab {k}", "second": "lab z", "n": k, **pair} for k in range(30)],
            "about": {"n_pairs": 193},
        },
    )
    (folder / "diagnosis.png").write_bytes(b"\x89PNG")
    return folder
