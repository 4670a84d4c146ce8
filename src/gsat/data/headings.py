"""Names of features: the first and the last of them for the user, and those that do not look like the others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

SHARE = 0.9  # of the names have one form, so that another form is odd
MOST = 20  # odd names; more are no exception
META = re.compile(
    r"(age|sex|gender|bmi|height|weight|id|row|index|patient|subject|donor|sample|batch|lab|site|study|cohort|plate|"
    r"well|lane|run|date|day|time|week|month|year|dose|passage|stage|grade|group|class|label|target|outcome|status|"
    r"treatment|n_?counts?|n_?genes?(_by_counts)?|total_?counts|pct_counts_\w+|percent_?mt|n_?feature_?\w*|n_?umis?|"
    r"doublet_?score|leiden|louvain|cluster)(_?(id|no|number|name|years?|code))?",
    re.IGNORECASE,
)


def odd(names: Sequence[str]) -> list[str]:
    """The names that are words for what is known of samples, or of another form than nearly all.

    Parameters
    ----------
    names
        Of the features.

    Returns
    -------
    list of str
        At most 20 in their order; none where most names are like that, as in a table of clinical data.
    """
    words = [name for name in names if META.fullmatch(name.strip())]
    forms = Counter(map(_form, names))
    usual, count = forms.most_common(1)[0] if names else ("", 0)
    others = [name for name in names if _form(name) != usual] if count >= SHARE * len(names) else []
    found = {*(words if len(words) <= MOST else ()), *(others if len(others) <= MOST else ())}
    return [name for name in names if name in found] if len(found) < len(names) / 2 else []


def in_words(names: Sequence[str] | None, n_features: int) -> str:
    """How many features there are, and the names of the first and the last."""
    if not names:
        return f"{n_features}, without names"
    if len(names) <= 6:
        return f"{n_features}: {', '.join(names)}"
    return f"{n_features}: {', '.join(names[:3])} ... {', '.join(names[-3:])}"


def _form(name: str) -> str:
    """The letters before the first digit where a number follows, else whether the name is in capitals."""
    head = re.fullmatch(r"(\D+)\d[\d._]*(_[ACGT0]+(=\d)?)?", name)
    if head is not None:
        return head[1]
    return "CAPITALS" if name == name.upper() else "words"
