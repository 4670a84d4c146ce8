"""What a run of `gsat train` found, in plain words: what was trained on what, how well, and beside what."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from gsat.report.metrics import Interval, Judged, Metrics

CERTAIN = 0.05  # below it, chance is no good explanation of which of two models is right more often
NAMED = 3  # batches in a sentence; of more, their number


def sentences(metrics: Metrics, predictions: pd.DataFrame | None) -> list[str]:
    """The paragraphs at the top of the page."""
    return [text for text in (_trained(metrics), _tested(metrics), _beside(metrics, predictions)) if text]


def percent(value: float, digits: int = 1) -> str:
    """A share as a percentage."""
    return f"{100 * value:.{digits}f} %"


def with_interval(found: Interval | None) -> str:
    """A share in percent with its interval; a dash where there is none."""
    if found is None:
        return "–"
    return f"{100 * found.value:.1f} % ({100 * found.low:.1f} to {100 * found.high:.1f})"


def listed(names: Sequence[str], what: str) -> str:
    """The names, or of many their number: 'a and b', '7 batches'."""
    if len(names) > NAMED:
        return f"{len(names):,} {what}"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def counted(n: int, what: str) -> str:
    """'1 sample', '1,200 samples'."""
    plural = f"{what}es" if what.endswith(("s", "ch")) else f"{what}s"
    return f"{n:,} {what if n == 1 else plural}"


def _trained(metrics: Metrics) -> str:
    classes, counts = len(metrics.counts.classes), metrics.counts
    n_batches = sum(any(row) for row in counts.train)
    of = f" of {counted(n_batches, 'batch')}" if metrics.has_batches and n_batches else ""
    what = f" of {metrics.label}" if metrics.label else ""
    return (
        f"This model tells the {counted(classes, 'class')}{what} in {metrics.name} apart by "
        f"{counted(metrics.n_features, 'feature')} of each sample. It was trained on "
        f"{counted(metrics.n_train, 'sample')}{of}, by {metrics.words}."
    )


def _tested(metrics: Metrics) -> str:
    test = metrics.test
    if test is None:
        return f"No samples were tested, so nothing is known about new ones{_reason(metrics)}."
    balanced = ""
    if test.balanced is not None:
        balanced = f" Counting every class alike (balanced accuracy), it is right in {with_interval(test.balanced)}."
    missing = [name for name, row in zip(metrics.counts.classes, test.confusion, strict=True) if not any(row)]
    untested = f" Nothing is known about {listed(missing, 'classes')}: no test sample is of " if missing else ""
    untested += ("it." if len(missing) == 1 else "them.") if missing else ""
    return f"{_where(metrics, test)} {with_interval(test.accuracy)}.{balanced}{untested}"


def _reason(metrics: Metrics) -> str:
    return f" ({metrics.why.strip().rstrip('.')})" if metrics.why.strip() else ""


def _where(metrics: Metrics, test: Judged) -> str:
    n = counted(test.n, "sample")
    if batches := metrics.held_out:
        kept = "batch " if len(batches) == 1 else "batches " if len(batches) <= NAMED else ""
        many = f"{kept}{listed(batches, 'batches')}"
        return f"On the {n} of {many}, from which no training sample comes, it is right in"
    if metrics.kind == "random samples":
        same = ", from the same batches as the training samples," if metrics.has_batches else ""
        return f"On {n} that were kept aside at random{same} it is right in"
    return f"On {n} that were kept aside, it is right in"


def _beside(metrics: Metrics, predictions: pd.DataFrame | None) -> str:
    test, logistic = metrics.test, metrics.logistic
    if test is None:
        return ""
    parts = []
    if logistic is not None:
        parts.append(
            f"Logistic regression, trained on the same samples, is right in {with_interval(logistic.accuracy)} there."
        )
        parts.append(_compared(predictions))
    if metrics.majority is not None:
        parts.append(
            f"Always naming the largest class of the training samples is right in {percent(metrics.majority)}."
        )
    if metrics.held_out:
        few = "one batch says" if len(metrics.held_out) == 1 else "few batches say"
        parts.append(f"Intervals are of 95 % over these samples; {few} little about the next one.")
    else:
        parts.append("Intervals are of 95 % over these samples; a new batch may be harder than they tell.")
    return " ".join(filter(None, parts))


def _compared(predictions: pd.DataFrame | None) -> str:
    """Whether model and logistic regression differ by more than chance, by the samples on which one alone is right."""
    if predictions is None or not {"label", "predicted", "logistic"} <= set(predictions):
        return ""
    truth = predictions["label"].astype(str)
    ours, theirs = (predictions[name].astype(str) == truth for name in ("predicted", "logistic"))
    only, other = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    if only + other == 0:
        return "The two are right on the same samples."
    detail = f"this model alone is right on {only:,} of them, logistic regression alone on {other:,}"
    if sign_test(only, other) >= CERTAIN:
        return f"On these samples the two cannot be told apart: {detail}."
    if only > other:
        return f"This model is ahead, by more than chance explains on these samples: {detail}."
    return f"Logistic regression is ahead, by more than chance explains on these samples: {detail}."


def sign_test(first: int, second: int) -> float:
    """The p-value of so many and so few of first + second fair coins; two-sided, exact up to 1000, else normal."""
    n, least = first + second, min(first, second)
    if n <= 1000:
        return min(1.0, float(2 * sum(math.comb(n, k) for k in range(least + 1)) / 2**n))
    return math.erfc((abs(first - second) - 1) / math.sqrt(2 * n))
