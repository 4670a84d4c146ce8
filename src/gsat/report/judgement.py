"""How well a trained model does: tables and figures from metrics.json, predictions.csv, features.csv and map.csv."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from gsat.report.figures import KEYS, Figures, finite
from gsat.report.markup import Markup, join, tag
from gsat.report.metrics import Bin, Interval, Judged, Metrics, Row
from gsat.report.tables import Cell, table
from gsat.report.verdict import counted, with_interval

LOGISTIC = "logistic"  # the series of the model beside
MOST_ROWS = 30  # classes or batches in a figure
MOST_BATCHES = 40  # rows of the table of counts
MOST_CLASSES = 25  # of a confusion table; of more, the most frequent confusions are listed
MOST_CONFUSIONS = 15
MOST_FEATURES = 30


def glance(metrics: Metrics) -> Markup:
    """The model, logistic regression and the largest class, side by side."""
    rows: list[list[Cell | Markup]] = []
    several = any(judged.balanced is not None for _, judged in _models(metrics))
    for name, judged in _models(metrics):
        key = tag("span", _title(metrics, name), class_="key", data_key=name)
        own = metrics.training if name == metrics.defence else None
        trained = None if own is None else own.accuracy
        alike = [_share(judged.balanced)] if several else []
        rows.append([key, _share(judged.accuracy), *alike, _share(trained)])
    if rows and metrics.majority is not None:
        text = "always the largest class of the training samples"
        share = Cell(f"{100 * metrics.majority:.1f}", 100 * metrics.majority, fill=metrics.majority)
        rows.append([Cell(text, text), share, *([_none()] if several else []), _none()])
    if not rows:
        return Markup()
    header = [
        "model",
        "right on the test samples, %",
        *(["counting every class alike, %"] if several else []),
        "right on the training samples, %",
    ]
    return table("How often each model is right", header, rows, note="In brackets: the interval of 95 %.")


def accuracies(metrics: Metrics, figures: Figures) -> Markup:
    """Shares that are right, class by class and batch by batch, as figures and as tables."""
    if metrics.test is None:
        return Markup()
    specs = [
        _forest(metrics, "Right, class by class", lambda judged: judged.classes),
        _forest(metrics, "Right, batch by batch", lambda judged: judged.batches) if metrics.test.batches else None,
    ]
    return join(figures.grid(specs, "grid loose"), _left_out(metrics.test), _by_class(metrics))


def _models(metrics: Metrics) -> list[tuple[str, Judged]]:
    found = ((metrics.defence, metrics.test), (LOGISTIC, metrics.logistic))
    return [(name, judged) for name, judged in found if judged is not None]


def _title(metrics: Metrics, name: str) -> str:
    return "this model" if name == metrics.defence else "logistic regression"


def _forest(metrics: Metrics, title: str, rows: Callable[[Judged], list[Row]]) -> dict[str, Any]:
    points = []
    for name, judged in _models(metrics):
        shown = _largest(rows(judged))
        points += [
            {
                "series": name,
                "row": f"{row.name} ({row.n:,})",
                "x": finite(100 * row.main.value, 4),
                "low": finite(100 * row.main.low, 4),
                "high": finite(100 * row.main.high, 4),
            }
            for row in shown
            if row.main is not None
        ]
    return {
        "kind": "forest",
        "title": title,
        "hint": f"Shares that are right, with their intervals of 95 %. {KEYS}",
        "x_label": "right, % (interval of 95 %); in brackets: samples",
        "percent": True,
        "reach": "interval of 95 %",
        "choose": "",
        "choices": [{"label": "", "points": points}],
    }


def _largest(rows: list[Row]) -> list[Row]:
    """Those with the most samples, in the order of the file."""
    kept = sorted(range(len(rows)), key=lambda i: -rows[i].n)[:MOST_ROWS]
    return [rows[i] for i in sorted(kept)]


def _left_out(test: Judged) -> Markup | None:
    """Says of many classes or batches that the figures have the largest."""
    sides = ((test.classes, "classes"), (test.batches, "batches"))
    many = [f"{len(rows):,} {what}" for rows, what in sides if len(rows) > MOST_ROWS]
    text = f"The figures have the {MOST_ROWS} largest of {' and of '.join(many)}."
    return tag("p", text, class_="note") if many else None


def _by_class(metrics: Metrics) -> Markup:
    test, beside = metrics.test, metrics.logistic
    if test is None:
        return Markup()
    other = {} if beside is None else {row.name: row for row in beside.classes}
    rows = [
        [
            Cell(row.name, row.name),
            Cell(f"{row.n:,}", row.n),
            _share(row.main),
            _share(row.other),
            *([_share(other[row.name].main if row.name in other else None)] if other else []),
        ]
        for row in test.classes
    ]
    header = ["class", "test samples", "of these recognised, %", "of those called so, right, %"]
    return table(
        "Right, class by class",
        header + (["logistic regression: recognised, %"] if other else []),
        rows,
        note="Recognised: the recall of the class. Of those called so, right: its precision.",
    )


def confusion(metrics: Metrics) -> Markup:
    """Which class is taken for which: a table of counts, or the most frequent confusions of many classes."""
    test, classes = metrics.test, metrics.counts.classes
    if test is None:
        return Markup()
    totals = [sum(row) for row in test.confusion]
    wrong = sorted(
        ((n, a, b) for a, row in enumerate(test.confusion) for b, n in enumerate(row) if a != b and n > 0),
        key=lambda entry: (-entry[0], entry[1:]),
    )
    if len(classes) > MOST_CLASSES:
        rows = [
            [Cell(classes[a], classes[a]), Cell(classes[b], classes[b]), Cell(f"{n:,}", n), _part(n, totals[a])]
            for n, a, b in wrong[:MOST_CONFUSIONS]
        ]
        if not rows:
            return tag("p", "No test sample is taken for one of another class.")
        header = ["class", "taken for", "samples", "of the class, %"]
        return table("The most frequent confusions", header, rows, note=f"The first {len(rows)} of {len(wrong):,}.")
    rows = [
        [
            Cell(name, name),
            *(Cell(f"{n:,}", n, n / totals[a] if totals[a] else 0.0) for n in test.confusion[a]),
            Cell(f"{totals[a]:,}", totals[a]),
        ]
        for a, name in enumerate(classes)
    ]
    most = ""
    if wrong:
        n, a, b = wrong[0]
        most = f"Most often {classes[a]} is taken for {classes[b]}: {n:,} of {counted(totals[a], 'sample')}."
    return join(
        tag("p", f"A row for each class of the test samples, a column for what they are taken for. {most}"),
        table("Confusion of the classes", ["class", *classes, "all"], rows, class_="matrix"),
    )


def counts(metrics: Metrics) -> Markup:
    """Samples of each class in each batch, of the training and the test side."""
    own = metrics.counts
    sizes = [sum(train) + sum(test) for train, test in zip(own.train, own.test, strict=True)]
    largest = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    shown, rest = sorted(largest[:MOST_BATCHES]), largest[MOST_BATCHES:]
    sides = (("training", own.train), ("test", own.test))
    rows = [
        [Cell(own.batches[b], own.batches[b]), Cell(side, side), *_numbers(values[b])]
        for b in shown
        for side, values in sides
        if any(values[b])
    ]
    for side, values in sides if rest else ():
        others = f"{len(rest):,} smaller batches"
        rows.append(
            [
                Cell(others, others),
                Cell(side, side),
                *_numbers([sum(n) for n in zip(*(values[b] for b in rest), strict=True)]),
            ]
        )
    batch = metrics.batch or "batch"
    return table("Samples of each class in each batch", [batch, "used for", *own.classes, "all"], rows, class_="matrix")


def _numbers(values: list[int]) -> list[Cell]:
    largest = max(values, default=0) or 1
    return [*(Cell(f"{n:,}", n, n / largest) for n in values), Cell(f"{sum(values):,}", sum(values))]


def calibration(metrics: Metrics, figures: Figures) -> Markup:
    """Whether the model is right as often as its probabilities say."""
    bins = metrics.calibration
    if not bins:
        return Markup()
    n = sum(each.n for each in bins)
    sure = sum(each.n * (each.probability - each.accuracy) for each in bins) / max(n, 1)
    error = metrics.calibration_error
    size = "" if error is None else f" On average the two differ by {100 * error:.1f} points."
    side = "surer than it should be" if sure > 0 else "less sure than it might be"
    lean = f" All in all the model is {side}." if abs(sure) > 0.02 else ""
    text = f"Of the samples to which the model gives a probability of 90 %, about 90 % should be right.{size}{lean}"
    spec = {
        "kind": "line",
        "title": "Probability and truth",
        "hint": f"On the diagonal the model is right as often as it says; below it is too sure. {KEYS}",
        "x_label": "probability that the model gives, %",
        "y_label": "of these right, %",
        "domain": [0, 100],
        "x_domain": [0, 100],
        "diagonal": True,
        "markers": True,
        "columns": ["model", "half of the interval of 95 %", "samples"],
        "lines": [{"series": metrics.defence, "points": [_calibrated(each) for each in bins if each.n]}],
    }
    return join(tag("p", text), figures.grid([spec], "grid one"))


def _calibrated(each: Bin) -> list[float | int | None]:
    """[probability, share right, None, samples, low, high], in percent, with Wilson's interval of the share."""
    z, n, p = 1.96, each.n, each.accuracy
    middle, reach = p + z * z / 2 / n, z * (p * (1 - p) / n + z * z / 4 / n**2) ** 0.5
    low, high = ((middle + sign * reach) / (1 + z * z / n) for sign in (-1, 1))
    return [finite(100 * each.probability, 4), finite(100 * p, 4), None, n, finite(100 * low, 4), finite(100 * high, 4)]


def features(frame: pd.DataFrame | None, figures: Figures) -> Markup:
    """The features on which the model relies most, with how stable that is."""
    if frame is None or not {"feature", "score"} <= set(frame) or frame.empty:
        return Markup()
    frame = frame.assign(score=pd.to_numeric(frame["score"], errors="coerce")).dropna(subset=["score"])
    stable = (
        pd.to_numeric(frame["stability"], errors="coerce")
        if "stability" in frame
        else pd.Series(float("nan"), frame.index)
    )
    bars = [
        {
            "name": str(name),
            "value": finite(100 * score, 4),
            "beside": None if share != share else f"{100 * share:.0f} %",
        }
        for name, score, share in zip(frame["feature"], frame["score"], stable, strict=True)
    ][:MOST_FEATURES]
    if not bars:
        return Markup()
    text = (
        "How much of the lead of the right class over its closest rival comes from each feature, on the training "
        "samples. Beside it: the share of random halves of these samples in which the feature is among as many of the "
        "best; the model itself was trained once. A feature that the model uses need not be a cause. "
        f"features.csv has {counted(len(frame), 'feature')}."
    )
    spec = {
        "kind": "bars",
        "title": "The features that count most",
        "hint": KEYS,
        "x_label": "part of the lead, %; behind it: share of the halves",
        "series": None,
        "beside": "in how many of the halves",
        "bars": bars,
    }
    return join(tag("p", text), figures.grid([spec], "grid one"))


def _share(found: Interval | None) -> Cell:
    if found is None:
        return _none()
    return Cell(with_interval(found).replace(" %", ""), 100 * found.value, fill=found.value)


def _part(n: int, whole: int) -> Cell:
    value = 100 * n / whole if whole else float("nan")
    return Cell(f"{value:.0f}", value, value / 100 if whole else None)


def _none() -> Cell:
    return Cell("–", float("nan"))
