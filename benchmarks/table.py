"""The rows of results/bench.json as text: one table for the terminal, and one for docs/results/speed.md.

`python benchmarks/table.py` writes the second between the two marks of that page.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timing import Times

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "results" / "bench.json", ROOT / "docs" / "results" / "speed.md"
BEGIN, END = "<!-- speed -->", "<!-- /speed -->"


@dataclass(frozen=True)
class Row:
    """One measurement: what it is of, its value and quartiles, and what it is in units of.

    value:   how long `what` takes, `against` being 1; or an exponent, or memory in arrays of (m, d), as `unit` says
    floor:   the same in units of the bare gradients, where they were measured beside it
    seconds: the median of `what`, for orientation only
    """

    section: str
    case: str
    what: str
    against: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = "times"
    floor: float | None = None
    seconds: float | None = None
    note: str = ""

    @classmethod
    def timed(
        cls, section: str, case: str, what: str, against: str, times: Times, *, floor: str | None = None, note: str = ""
    ) -> "Row":
        """The row of two jobs that took turns."""
        found = times.ratio(what, against)
        least = None if floor is None else times.ratio(what, floor).median
        span = (found.median, found.low, found.high)
        return cls(section, case, what, against, *span, floor=least, seconds=times.median(what), note=note)


@dataclass(frozen=True)
class Target:
    """Rows whose section, case and name match must not be above `must`; `goal` is what we want."""

    section: str
    case: str
    what: str
    must: float
    goal: float

    def of(self, row: Row) -> bool:
        """Whether the row is one of them."""
        pairs = ((self.section, row.section), (self.case, row.case), (self.what, f"{row.what} / {row.against}"))
        return all(re.search(pattern, text) for pattern, text in pairs)


IMAGES, VECTORS, NARROW = "(MNIST|CIFAR-10) shape", "d = 20,531", "d = 784"
TARGETS = (
    Target("iteration", IMAGES, "^group-sparse, 20 gradients", 1.05, 1.02),
    Target("iteration", IMAGES, "^low-rank, 20 gradients", 1.10, 1.05),
    Target("equal value", IMAGES, "^(group-sparse|low-rank)", 0.6, 0.35),
    Target("iteration", VECTORS, "^universal, 20 gradients /", 0.13, 0.05),
    Target("iteration", VECTORS, "^low-rank, 20 gradients /", 0.17, 0.05),
    Target("iteration", VECTORS, "^group-sparse, 20 gradients /", 0.8, 0.3),
    Target("iteration", NARROW, "^low-rank, 20 gradients /", 1.3, 1.0),
    Target("iteration", NARROW, "^group-sparse, 20 gradients /", 1.4, 1.0),
    Target("other libraries", IMAGES, "^PGD, 20 gradients / torchattacks", 1.0, 0.8),
    Target("other libraries", IMAGES, "^PGD, 20 gradients / ART", 0.5, 0.25),
    Target("exponent", "^low-rank", "time in d, 5,000 to 100,000, m = 200", 1.05, 1.0),
    Target("memory", VECTORS, "^PGD, 20 gradients", 3, 3),
    Target("memory", VECTORS, "plain path|group-sparse", 6, 6),
    Target("memory", VECTORS, "", 2, 2),
)


def target(row: Row) -> Target | None:
    """The first target that the row has."""
    return next((target for target in TARGETS if target.of(row)), None)


def terminal(rows: Sequence[Row]) -> str:
    """All rows, ratios first, with what must be reached and what is wanted."""
    heads = ("ratio", "quartiles", "x floor", "must", "goal", "", "what", "against", "seconds", "")
    lines: list[tuple[str, ...]] = []
    titles: dict[int, str] = {}
    for row in rows:
        title = f"{row.section}: {row.case}"
        if title not in titles.values():
            titles[len(lines)] = title
        lines.append(_cells(row))
    widths = [max(len(line[i]) for line in (heads, *lines)) for i in range(len(heads))]

    def padded(line: tuple[str, ...]) -> str:
        cells = zip(line, widths, range(len(widths)), strict=True)
        return "  ".join(cell.ljust(width) if i >= 6 else cell.rjust(width) for cell, width, i in cells).rstrip()

    text = [padded(heads)]
    for place, line in enumerate(lines):
        text += ["", titles[place]] if place in titles else []
        text.append(padded(line))
    return "\n".join(text)


def _cells(row: Row) -> tuple[str, ...]:
    wanted = target(row)
    bounds, verdict = ("", ""), ""
    if wanted is not None:
        bounds = (f"{wanted.must:g}", f"{wanted.goal:g}")
    if wanted is not None and row.value is not None:
        verdict = "goal" if row.value <= wanted.goal else "ok" if row.value <= wanted.must else "ABOVE"
    quartiles = "" if row.low is None else f"{number(row.low)}-{number(row.high)}"
    seconds = "" if row.seconds is None else f"{row.seconds:.3g}"
    value = number(row.value) + ("" if row.unit in ("times", "") or row.value is None else f" {row.unit}")
    return (value, quartiles, number(row.floor), *bounds, verdict, row.what, row.against, seconds, row.note)


def number(value: float | None) -> str:
    """Two decimals, three below a tenth."""
    return "" if value is None else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def load(path: Path = RESULTS) -> tuple[dict[str, Any], list[Row]]:
    """How and where it was measured, and the rows."""
    found = json.loads(path.read_text(encoding="utf-8"))
    return found["run"], [Row(**row) for row in found["rows"]]


def save(path: Path, run: dict[str, Any], rows: Sequence[Row]) -> None:
    """Both as JSON, without what is not known of a row."""
    known = [{key: value for key, value in vars(row).items() if value not in (None, "")} for row in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"run": run, "rows": known}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def markdown(run: dict[str, Any], rows: Sequence[Row]) -> str:
    """The speed table of the docs: time and memory of an iteration by structure, then the rest line by line."""
    titles = {"iteration": "{case}, {kind}", "memory": "{case}, {kind}: memory"}
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        if row.section in titles:
            structure, kind = row.what.split(", ", 1)
            line = titles[row.section].format(case=row.case, kind=kind)
            found.setdefault(line, {})[structure] = number(row.value)
    columns = list(dict.fromkeys(structure for line in found.values() for structure in line))
    heads = [name.replace("group-sparse of", "of") for name in columns]  # shares of the columns that move
    lines = [f"| one iteration | {' | '.join(heads)} |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {line} | {' | '.join(cells.get(name, '') for name in columns)} |" for line, cells in found.items()]
    lines += ["", "| also | |", "|---|---|"]
    for row in rows:
        if (shown := ALSO.get(row.section)) and row.value is not None and (row.section != "exponent" or target(row)):
            lines.append(f"| {shown.format(**vars(row))} | {number(row.value)} |")
    threads = "one thread" if run["threads"] == 1 else f"{run['threads']} threads"
    where = f"{run['machine']['processor']}, {threads}, torch {run['versions']['torch']}"
    return "\n".join([*lines, "", f"Measured with `{run['command']}`", f"({where})."])


ALSO = {
    "other libraries": "{case}: our {what}; {against} = 1",
    "equal value": "{case}: {what}, as good as 20 ADMM steps; {against} = 1",
    "exponent": "{case}: exponent of {what}",
    "sweep": "{case}: attacks of {what}; {against} = 1",
}


def put_into(page: str, text: str, marks: tuple[str, str] = (BEGIN, END)) -> str:
    """The page with `text` between the two marks."""
    begin, end = marks
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"the page must hold {begin} and {end} once each, to know where the table goes")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"


def main() -> None:
    PAGE.write_text(put_into(PAGE.read_text(encoding="utf-8"), markdown(*load())), encoding="utf-8")


if __name__ == "__main__":
    main()
