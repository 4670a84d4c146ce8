"""The parts of one result, in the order in which they are read: figures first, then tables and settings."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import pandas as pd

from gsat.report import difference, judgement, plots, verdict
from gsat.report import series as names
from gsat.report.checked import check_parts, opening, read_check
from gsat.report.curves import Panel, panels
from gsat.report.figures import Figures
from gsat.report.markup import Markup, join, tag
from gsat.report.perturbations import perturbations
from gsat.report.places import sample_map
from gsat.report.placing import case_title
from gsat.report.reading import Result
from gsat.report.summary import summary
from gsat.report.tables import MOST_ROWS, Cell, frame_table, number, table

OWN_PLACE = ("title", "command", "paper", "headline", "protocol", "notes", "names", "report")  # not among the settings
FIGURE_DATA = ("map",)  # tables that are drawn and tell nothing as rows
QUANTITIES = {
    "loss": "Loss on the perturbed samples",
    "mean_norm": "Mean length of the perturbations ‖δ‖",
    "lam": "Price of moving λ",
    "measure": "Features, or directions, that move",
    "validation": "Robust accuracy on validation rows",
    "validation_loss": "Robust loss on validation rows",
    "learning_rate": "Learning rate",
}


@dataclass(frozen=True)
class Part:
    """A heading and what stands below it; a folded one is opened by the reader."""

    id: str
    title: str
    body: Markup
    folded: bool


def heading(result: Result) -> str:
    """What the result is called: by its config.json, or from what it holds."""
    config = result.config
    if config.get("title"):
        return str(config["title"])
    if result.metrics is not None:
        return f"{_method(result, result.metrics.defence)} on {result.metrics.name}"
    if "data" not in config and result.diagnosis is not None:
        return difference.title(result.diagnosis)
    if "data" in config and "defences" in config:
        return f"Defences on {_name(config['data'])}" + (f", {config['rule']} sizes" if config.get("rule") else "")
    if "data" in config and "defence" in config:
        return f"{_method(result, str(config['defence']))} on {_name(config['data'])}"
    return result.name


def _method(result: Result, defence: str) -> str:
    """The defence in words; where candidates are averaged, that they are: config.json has the best one's defence."""
    members = result.config.get("choice")
    if result.config.get("combine") == "average" and isinstance(members, list) and len(members) > 1:
        return f"The average of {len(members)} models"
    return names.title(defence, result.names)


def _name(data: Any) -> str:
    """A data set by its name: of a file the last part of the path."""
    return str(data).replace("\\", "/").rstrip("/").rpartition("/")[2] or str(data)


COMPARED = {"paper": "The paper", "headline": "Here"}


def introduction(result: Result) -> Markup:
    """What was found, in plain words, and what config.json says: figures, protocol, notes and the command."""
    config = result.config
    if (check := read_check(result.path)) is not None:
        return opening(check)
    if result.metrics is not None:
        first_words = _words(result)
    elif result.diagnosis is not None and not _trained(result):
        first_words = difference.summary(result.diagnosis)
    elif "defence" in config and "rows_checksum" in config:
        first_words = tag("p", UNJUDGED)
    else:
        first_words = Markup()
    notes = config.get("notes")
    found = [f"{label}: {config[key]}" for key, label in COMPARED.items() if config.get(key)]
    texts = [*found, config.get("protocol"), *(notes if isinstance(notes, list) else [notes])]
    command = config.get("command")
    return join(
        first_words,
        *(tag("p", str(text)) for text in texts if text),
        tag("pre", tag("code", str(command)), tabindex=0, role="region", aria_label="Command") if command else None,
    )


def _trained(result: Result) -> bool:
    """Whether the folder is that of a run of `gsat train`, and not that of a diagnosis alone."""
    return result.metrics is not None or "defence" in result.config


UNJUDGED = (
    "How well the model does on held-out samples is not in this folder: the run is under way, or an earlier version of "
    "gsat made it."
)


def _words(result: Result) -> Markup:
    """The first paragraphs of a run of `gsat train`, and what it warns of."""
    metrics = result.metrics
    if metrics is None:
        return Markup()
    first, *others = verdict.sentences(metrics, result.tables.get("predictions"))
    warned = None
    if metrics.warnings:
        entries = tag("ul", *(tag("li", f"{text[:1].upper()}{text[1:]}") for text in metrics.warnings))
        warned = tag("div", tag("p", "To be watched"), entries, class_="warnings", role="note")
    why = (
        tag("p", f"Held out: {metrics.why.rstrip('.')}.", class_="note")
        if metrics.test is not None and metrics.why
        else None
    )
    return join(tag("p", first, class_="lead"), *(tag("p", text, class_="lead") for text in others), why, warned)


def _judged(result: Result, figures: Figures) -> list[tuple[str, str, Markup, bool]]:
    """The parts of a run of `gsat train` that say how well its model does."""
    metrics, tables = result.metrics, result.tables
    if metrics is None:
        return []
    return [
        ("glance", "At a glance", judgement.glance(metrics), False),
        ("right", "Class by class, batch by batch", judgement.accuracies(metrics, figures), False),
        ("confusion", "Which classes are confused", judgement.confusion(metrics), False),
        ("calibration", "Can the probabilities be trusted?", judgement.calibration(metrics, figures), False),
        ("map", "The test samples on a map", sample_map(tables.get("map"), tables.get("predictions"), figures), False),
        ("features", "What the model looks at", judgement.features(tables.get("features"), figures), False),
        ("counts", "The samples", judgement.counts(metrics), False),
    ]


def parts(result: Result, figures: Figures, key: str, level: int) -> list[Part]:
    """Everything the result has something for, below headings of this level."""
    several = level > 2
    if (check := read_check(result.path)) is not None:
        own = [*check_parts(check, figures), ("settings", "Settings", _settings(result), True)]
        return [Part(f"{key}-{name}", title, body, folded) for name, title, body, folded in own if body]
    drawn = panels(result)
    found = [
        *_judged(result, figures),
        (
            "differ",
            "How the batches differ" if _trained(result) else "In figures",
            difference.difference(result.diagnosis, figures, alone=not _trained(result)),
            False,
        ),
        ("summary", "At a glance" if result.metrics is None else "Under attack", summary(drawn, result), False),
        (
            "curves",
            "Accuracy against strength" if all(p.strength for p in drawn) else "Curves",
            _curves(drawn, figures),
            False,
        ),
        ("trade-off", "The trade-off", figures.grid([plots.trade_off(drawn)], "grid wide"), False),
        ("differences", "Ours against the baselines", _differences(result, figures), False),
        ("perturbations", "The perturbations", _perturbations(result, figures, level + 1), False),
        ("training", "Training", _training(result, figures), False),
        ("timing", "Timing", figures.grid(_measured(result) or _attacks(result)), False),
        ("pictures", "Pictures", _pictures(result), True),
        ("tables", "All rows", _tables(result, level + 1, MOST_ROWS // 5 if several else MOST_ROWS), True),
        ("settings", "Settings", _settings(result), several),
    ]
    return [Part(f"{key}-{name}", title, body, folded) for name, title, body, folded in found if body]


def _curves(drawn: list[Panel], figures: Figures) -> Markup:
    if not drawn:
        return Markup()
    together: dict[str, list[Panel]] = {}
    for panel in drawn:
        together.setdefault(panel.y_label, []).append(panel)
    specs = [plots.curve(panel, plots.domain(own)) for own in together.values() for panel in own]
    seeds = max(int(panel.means()["count"].max()) for panel in drawn)
    band = f"The line is the mean of {seeds} seeds, the band ± one standard deviation."
    return join(tag("p", band if seeds > 1 else "One seed, so there is no band.", class_="note"), figures.grid(specs))


def _differences(result: Result, figures: Figures) -> Markup:
    frame = result.tables.get("differences")
    if frame is None:
        return Markup()
    try:
        return figures.grid([plots.differences(frame, result.names)], "grid wide")
    except ValueError as error:
        raise ValueError(f"{result.path / 'differences.csv'} {error}") from None


def _perturbations(result: Result, figures: Figures, level: int) -> Markup:
    return perturbations(result.perturbations, result.names, figures, level)


def _training(result: Result, figures: Figures) -> Markup:
    if result.log is None:
        return Markup()
    log = _with_series(result.log, result)
    if "seed" not in log:
        log["seed"] = 0
    return figures.grid(plots.steps(log, column, title) for column, title in QUANTITIES.items() if column in log)


def _measured(result: Result) -> list[dict[str, Any]]:
    """Bars of seconds from timing.csv, a figure for each thing that was timed."""
    if "timing" not in result.tables:
        return []
    frame = _with_series(result.tables["timing"], result)
    if "seconds" not in frame:
        have = ", ".join(map(str, result.tables["timing"]))
        raise ValueError(f"{result.path / 'timing.csv'} must have the column 'seconds', got {have}")
    what = frame["what"].astype(str) if "what" in frame else pd.Series("Seconds", frame.index)
    frame = frame.assign(what=what, seconds=pd.to_numeric(frame["seconds"], errors="coerce")).dropna(subset=["seconds"])
    return [
        plots.seconds(str(what), own.groupby("series", sort=False)["seconds"].mean())
        for what, own in frame.groupby("what", sort=False)
    ]


def _attacks(result: Result) -> list[dict[str, Any]]:
    """How long the attacks took, from the results, where there are several to compare."""
    frame = result.tables.get("results", pd.DataFrame())
    column = "case" if "case" in frame else "attack"
    if not {column, "seconds"} <= set(frame):
        return []
    frame = frame[(frame[column] != "none") & frame["seconds"].notna()]
    if "part" in frame:
        frame = frame[frame["part"] == "test"]
    kind = frame[column].map(lambda text: case_title(str(text), size=False))
    values = pd.to_numeric(frame["seconds"], errors="coerce").groupby(kind, sort=False).mean()
    return [plots.attack_seconds(values)] if len(values) > 1 else []


def _with_series(frame: pd.DataFrame, result: Result) -> pd.DataFrame:
    default = str(result.config.get("defence", "model"))
    return frame.assign(series=frame["defence"].astype(str) if "defence" in frame else default)


def _pictures(result: Result) -> Markup:
    shown = [
        tag(
            "figure",
            tag("img", src=f"data:{media};base64,{base64.b64encode(data).decode()}", alt=name),
            tag("figcaption", name),
            class_="picture",
        )
        for name, (media, data) in result.pictures.items()
    ]
    large = ", ".join(result.left_out)
    return join(*shown, tag("p", f"Too large for this page: {large}.", class_="note") if large else None)


def _tables(result: Result, level: int, most: int) -> Markup:
    return join(
        *(
            join(tag(f"h{level}", f"{name}.csv"), frame_table(f"{name}.csv", frame, most))
            for name, frame in result.tables.items()
            if not frame.empty and name not in FIGURE_DATA
        )
    )


def _settings(result: Result) -> Markup:
    settings = {key: value for key, value in result.config.items() if key not in OWN_PLACE}
    rows = [[Cell(name, name), Cell(text, text)] for name, text in _flat("", settings)]
    return table("Settings", ["setting", "value"], rows) if rows else Markup()


def _flat(prefix: str, value: Any) -> list[tuple[str, str]]:
    """Nested settings as dotted names."""
    if isinstance(value, dict):
        return [pair for key, own in value.items() for pair in _flat(f"{prefix}.{key}" if prefix else str(key), own)]
    return [(prefix, ", ".join(map(_text, value)) if isinstance(value, list) else _text(value))]


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "–" if value is None else "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else str(value)
