"""A diagnosis in plain words: what the difference between batches consists of, how sure that is, what to try."""

from __future__ import annotations

import math
from collections import Counter
from textwrap import fill
from typing import TYPE_CHECKING, Any

import pandas as pd

from gsat.diagnosis.verdict import LEVEL

if TYPE_CHECKING:
    from gsat.diagnosis.result import Diagnosis

SHOWN = 8  # pairs of batches, those with the most samples; of the others a count
WIDTH = 100  # characters of a line
WIDEST = 24  # characters of the name of a batch
FORMS = {  # what a structure is called where nobody has read the paper
    "none": "nothing beyond chance",
    "universal": "one shift for all samples",
    "per class": "one shift for each class",
    "group-sparse": "a few features",
    "low-rank": "a few directions",
    "unstructured": "no simple form",
    "all": "everything together",
}


def summary(found: Diagnosis) -> list[str]:
    """The diagnosis as a few sentences.

    Parameters
    ----------
    found
        What `gsat.diagnose` returns.

    Returns
    -------
    list of str
        A paragraph each: what differs, how sure that is, and what is worth trying.
    """
    return [_what(found), _how_sure(found), _worth_trying(found)]


def text(found: Diagnosis) -> str:
    """The summary, the table of forms and the largest pairs of batches, for a terminal.

    Parameters
    ----------
    found
        What `gsat.diagnose` returns.

    Returns
    -------
    str
        Lines.
    """
    first, sure, worth = (fill(paragraph, WIDTH) for paragraph in summary(found))
    lines = [first, "", *_table(found), "", sure]
    if len(found.pairs) > 1:
        lines += ["", *_pairs(found)]
    return "\n".join([*lines, "", worth])


def form(structure: str, found: Diagnosis) -> str:
    """A structure in words, with its numbers: "a few directions (5; 2 of them hold 80 %)".

    Parameters
    ----------
    structure
        A row of the table of a diagnosis.
    found
        The diagnosis.

    Returns
    -------
    str
        What a table shows.
    """
    few = {"group-sparse": (found.k, "max_features"), "low-rank": (found.rank, "max_rank")}
    words = FORMS.get(structure, structure)
    if structure not in few:
        return words
    least, limit = few[structure]
    most = found.about[limit]
    return f"{words} ({most}{f'; {least} of them hold 80 %' if least and least < most else ''})"


def _what(found: Diagnosis) -> str:
    """What differs, and by how much."""
    d = found.about["n_features"]
    what = {
        "none": "The batches do not differ by more than chance would make them.",
        "universal": "The batches differ by one shift: all samples of a batch are moved in the same way, whatever "
        "their class (universal).",
        "per class": "The batches differ by one shift for each class: the samples of a class are all moved in the same "
        "way (per class).",
        "group-sparse": f"The batches differ in a few features: {found.k} of {d:,} hold 80 % of the difference "
        "(group-sparse).",
        "low-rank": "The batches differ along a few directions: groups of features that move together, by another "
        f"amount in each sample; {found.rank} of them hold 80 % of the difference (low-rank).",
        "unstructured": "The batches differ in no simple form: no one shift, few features or few directions hold 80 % "
        "of the difference (unstructured).",
    }[found.structure]
    if found.also:
        what += f" {FORMS[found.also[0]][:1].upper()}{FORMS[found.also[0]][1:]} hold 80 % of it as well."
    if found.structure == "none":
        return what
    unit = "a sample is from the average of all" if found.about["standardize"] else "a sample is from zero"
    return f"{what} Two batches are {found.size:.2g} times as far apart as {unit}."


def _how_sure(found: Diagnosis) -> str:
    """How rare such a difference is by chance, and what was compared."""
    about, p = found.about, found.p_value
    chance = (
        f"Were the samples dealt to the batches by lot, so large a difference would come in {100 * p:.2g} % of cases"
        + (f"; above {100 * LEVEL:g} % none is claimed." if p > LEVEL else ".")
    )
    classes = f", class by class ({about['n_classes']:,} classes)" if about["n_classes"] > 1 else ""
    pairs = f"{len(found.pairs):,} of {about['n_pairs']:,} pairs" if about["n_pairs"] > 1 else "1 pair"
    return (
        f"{chance} Compared were {about['n_compared']:,} of {about['n_samples']:,} samples{classes}, in {pairs} of "
        f"{about['n_batches']:,} batches, by {about['n_features']:,} features."
    )


def _worth_trying(found: Diagnosis) -> str:
    if not found.worth_trying:
        return "Nothing here calls for robust training; how well a plain model does on batches left out can be tried."
    metric = " along the directions in which the batches differ" if found.about["n_batches"] > 2 else ""
    return (
        f"Worth trying: robust training against {' and '.join(found.worth_trying)} shifts{metric}. Whether it helps, "
        "and how strong it should be, only batches that are left out can say."
    )


def _table(found: Diagnosis) -> list[str]:
    """A line for each form: its share of the difference with its interval, and its size."""
    rows = [("the difference consists of", "share (95 % interval)", "distance")]
    for row in found.table.to_dict("records"):
        shares = [100 * row[key] for key in ("share", "share_low", "share_high")]
        share = "" if any(map(math.isnan, shares)) else "{:.0f} % ({:.0f} to {:.0f})".format(*shares)
        rows.append((form(str(row["structure"]), found), share, f"{row['size']:.2f}"))
    wide = [max(len(row[i]) for row in rows) for i in (0, 1)]
    lines = [f"{name:<{wide[0]}}  {share:<{wide[1]}}  {size}".rstrip() for name, share, size in rows]
    if found.structure == "none":
        return lines
    return [*lines, "Forms contain each other: one shift is a direction too, so shares do not add up to 100 %."]


def _pairs(found: Diagnosis) -> list[str]:
    """The pairs with the most samples, a line each, and what the others are."""
    order = found.pairs.sort_values("n", ascending=False, kind="stable")
    shown, rest = order.head(SHOWN), order.iloc[SHOWN:]
    table = pd.DataFrame(
        {
            "batch": [_short(name) for name in shown["first"]],
            "and batch": [_short(name) for name in shown["second"]],
            "samples": shown["n"],
            "differ by": [FORMS[name] for name in shown["structure"]],
            "distance": [f"{size:.2f}" for size in shown["size"]],
            "p": [f"{p:.2g}" for p in shown["p_value"]],
        }
    )
    lines = ["Two batches at a time, those with the most samples first:", *table.to_string(index=False).splitlines()]
    if len(rest):
        counts = Counter(FORMS[name] for name in rest["structure"])
        lines.append(f"and {len(rest)} more: {', '.join(f'{n} {name}' for name, n in counts.most_common())}")
    unseen = found.about["n_pairs"] - len(found.pairs)
    if unseen > 0:
        lines.append(f"{unseen:,} pairs with fewer samples were not compared")
    return lines


def _short(name: Any) -> str:
    name = str(name)
    return name if len(name) <= WIDEST else f"{name[: WIDEST - 1]}…"
