"""What the table of `check` says in words: whether anything beats logistic regression on what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from gsat.experiments.check_methods import MAJORITY, REFERENCE, TITLES
from gsat.experiments.check_subject import ONLY_ONE
from gsat.experiments.paired import EQUAL, signed, summed_up, with_wins
from gsat.experiments.shift_choice import GSAT_ALL, PREPARED, is_ours

FEW_UNITS = 3  # with so many batches, or fewer, an interval is wide whatever it says
NARROW = 3.0  # points: an interval that reaches no further on either side shows that two methods are as good
NO_SKILL = 5.0  # points above the majority class, below which nothing was learnt


@dataclass(frozen=True)
class Verdict:
    """What to use, and why.

    method:   the one to use; None where nothing predicts the label
    sentence: the verdict
    outlook:  how well it will do on a batch never seen
    """

    method: str | None
    sentence: str
    outlook: str


def table_of(scores: pd.DataFrame) -> pd.DataFrame:
    """Means and paired differences to logistic regression, a row per method.

    scores: balanced accuracy in percent, a row per unit that was left out, a column per method
    method, mean, lowest, highest:                       over the units
    difference, standard_error, low, high, p:            to logistic regression, by Student's t over the units
    beats:                                               above zero at 5 % over all rows (Holm)
    """
    gaps = with_wins(
        {"method": name, **summed_up(scores[name] - scores[REFERENCE])}
        for name in scores
        if name not in (REFERENCE, MAJORITY)
    )
    found = pd.DataFrame(
        {
            "method": list(scores),
            "mean": scores.mean().to_numpy(),
            "lowest": scores.min().to_numpy(),
            "highest": scores.max().to_numpy(),
        }
    )
    found = found.merge(gaps, on="method", how="left")
    return found.assign(beats=found["beats"].eq(True))


def judge(scores: pd.DataFrame, *, by_batch: bool, sees_batch: Sequence[str] = ()) -> Verdict:
    """The verdict on the table of these scores.

    by_batch:   whether batches were left out, not random samples
    sees_batch: methods whose settings need the whole unlabelled batch that is predicted
    """
    found = table_of(scores).set_index("method")
    chosen, sentence = _decided(scores, found, by_batch=by_batch)
    where = "batches never seen" if by_batch else "left-out samples of the same batch"
    sentence = f"{sentence.replace('@', where)}{'' if by_batch else f'; {ONLY_ONE}'}."
    if chosen is None:
        return Verdict(None, sentence, "")
    row, n = found.loc[chosen], len(scores)
    new = "a batch never seen" if by_batch else "new samples of the same batch"
    spread = f" ({row['lowest']:.0f} to {row['highest']:.0f} in the {n} that were left out)" if n > 1 else ""
    outlook = f"On {new} expect about {row['mean']:.0f} % balanced accuracy from it{spread}"
    needs = "; it needs all samples of the new batch at once, without labels" if chosen in sees_batch else ""
    return Verdict(chosen, sentence, f"{outlook}{needs}.")


def _decided(scores: pd.DataFrame, found: pd.DataFrame, *, by_batch: bool) -> tuple[str | None, str]:
    """What to use, and the sentence without its end; @ stands for what was left out."""
    n = len(scores)
    top = found["mean"].idxmax()
    if found.at[top, "mean"] - found.at[MAJORITY, "mean"] < NO_SKILL:
        return None, (
            f"Nothing predicts the label on @: the best method has {found.at[top, 'mean']:.1f} % balanced accuracy, "
            f"always the same class {found.at[MAJORITY, 'mean']:.1f} %"
        )
    ours = [name for name in found.index if is_ours(name) and GSAT_ALL not in name]
    best = found.loc[ours, "mean"].idxmax()
    if n == 1:
        return REFERENCE, (
            f"A single batch could be left out, and shows nothing beyond chance: on it logistic regression has "
            f"{found.at[REFERENCE, 'mean']:.1f} %, {_in_words(best)} {found.at[best, 'mean']:.1f} %; use the former"
        )
    winners = found.index[found["beats"]]
    ours_ahead = [name for name in winners if is_ours(name)]
    others = [name for name in winners if not is_ours(name)]
    genuine = [name for name in ours_ahead if _beyond_simpler(scores, name, others)]
    if genuine:
        name = found.loc[genuine, "mean"].idxmax()
        return name, f"{_ahead(found, name)} on @{_beside(scores, found, name)}"
    if others:
        name = found.loc[others, "mean"].idxmax()
        return name, (
            f"{_ahead(found, name)} on @, and GSAT adds nothing that can be told from chance: use {_in_words(name)}"
        )
    if ours_ahead:
        name = found.loc[ours_ahead, "mean"].idxmax()
        gap = summed_up(scores[name] - scores[REFERENCE + PREPARED])
        return REFERENCE + PREPARED, (
            f"{_ahead(found, name)} on @, but {_points(gap)} from {_in_words(REFERENCE + PREPARED)}, which cannot be "
            "told from chance: use the latter"
        )
    return REFERENCE, _no_win(found.loc[best], _in_words(best), n, by_batch=by_batch)


def _beyond_simpler(scores: pd.DataFrame, name: str, others: Sequence[str]) -> bool:
    """Whether a method also beats simpler ones: those that beat logistic regression, and this with a preparation.

    Methods that choose a preparation are compared only with those that do so too, since they may need a whole batch.
    """
    rivals = [rival for rival in others if PREPARED in name or PREPARED not in rival]
    rivals += [REFERENCE + PREPARED] if PREPARED in name else []
    return all(summed_up(scores[name] - scores[rival])["low"] > EQUAL for rival in rivals)


def _beside(scores: pd.DataFrame, found: pd.DataFrame, name: str) -> str:
    """What the same network is without GSAT."""
    plain = "erm" + (PREPARED if PREPARED in name else "")
    gap = summed_up(scores[name] - scores[plain])
    told = "" if gap["low"] > EQUAL else ", a difference that cannot be told from chance"
    return f" (a network without GSAT is {signed(found.at[plain, 'difference'])} points{told})"


def _no_win(row: Any, title: str, n: int, *, by_batch: bool) -> str:
    """The sentence where nothing beats logistic regression; row: the best of GSAT."""
    gap = f"the best form of GSAT, {title.removeprefix('GSAT ')}, is {_points(row)} from it"
    if row["high"] < -EQUAL:
        return f"Logistic regression is better on @: use it ({gap})"
    few = f"{n} {'batches' if by_batch else 'folds'} are few" if n <= FEW_UNITS else ""
    if row["high"] <= NARROW and row["low"] >= -NARROW and n > 2:
        return f"Logistic regression is as good on @: use it ({'; '.join(filter(None, (gap, few)))})"
    if row["low"] > EQUAL:
        return (
            f"Nothing is shown to be better than logistic regression on @: use it ({gap}; the interval is above zero, "
            "but among so many rows one may be so by chance, and by Holm's rule over the table it is no win)"
        )
    few = few or "the interval is wide"
    return (
        f"Nothing is shown to be better than logistic regression on @: use it ({gap}; {few}, so that such a gain or "
        "loss is not excluded)"
    )


def _ahead(found: pd.DataFrame, name: str) -> str:
    words = _in_words(name)
    return f"{words[0].upper()}{words[1:]} is {_points(found.loc[name])} better than logistic regression"


def _in_words(name: str) -> str:
    return TITLES[name].replace(", prepared", " with the chosen preparation")


def _points(row: Any) -> str:
    """'+1.2 points (+0.3 to +2.1)'."""
    limits = "" if row["low"] != row["low"] else f" ({signed(row['low'])} to {signed(row['high'])})"
    return f"{signed(row['difference'])} points{limits}"
