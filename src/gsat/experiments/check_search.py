"""The stages of `check`: ERM and linear models, the other networks with the preparation of ERM, the test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from itertools import groupby

import numpy as np
import pandas as pd

from gsat.experiments.check_folds import Speed, preparations, taken, tried
from gsat.experiments.check_methods import METHODS
from gsat.experiments.check_subject import Subject
from gsat.experiments.plan import Piece, Place
from gsat.experiments.runner import bar, run
from gsat.experiments.shift_candidates import (
    CENTRE,
    LINEAR,
    Candidate,
    Setting,
    common_networks,
    linear,
    plain_networks,
)
from gsat.experiments.shift_choice import CANDIDATE, best
from gsat.experiments.shift_folds import bases

BASES = 1.5  # preparations of networks in a unit, on average: with one, and without
TAKEN = 0.3  # share of the candidates that some method takes
AT_ONCE = 4  # candidates that one piece tests

Stage = list[Piece]


@dataclass(frozen=True)
class Search:
    """Which candidates are tried on which unit; pieces are kept in the folder of the place, and found there again.

    speed: what a training takes, for the time left; None where nobody asks
    """

    subject: Subject
    setting: Setting
    seeds: int
    place: Place
    jobs: int = 1
    speed: Speed | None = None

    def run(self, *, progress: bool = False) -> pd.DataFrame:
        """A row for each method and tested unit.

        tested, method, those of `Candidate`, inner: what the method took by left-out training batches, and how it did
        balanced_accuracy, accuracy:                 on the tested unit, means over the seeds
        candidates, sees_batch:                      how many it chose from, and whether the whole unit must be seen
        n_test, missed:                              samples that were tested; classes that are never recognised
        """
        with bar(self.seconds(), progress) as advance:

            def done(stage: Stage, expected: float) -> pd.DataFrame:
                """Run a stage; on the bar it takes what was expected of it, however many pieces it has."""
                total = sum(piece.effort for piece in stage) or 1.0
                stage = [replace(piece, effort=piece.effort * expected / total) for piece in stage]
                return _rows(stage, run(stage, self.place, jobs=self.jobs, threads=1, told=advance))

            first, second, third = self.expected()
            plain = done(self.first(), first)
            rows = pd.concat([plain, done(self.second(plain), second)], ignore_index=True)
            choice = self.choice(rows)
            measured = done(self.third(choice), third)
        found = measured.groupby(["tested", *CANDIDATE], sort=False)
        means = found[["balanced_accuracy", "accuracy", "n_test"]].mean().assign(missed=found["missed"].first())
        return choice.merge(means.reset_index().fillna({"missed": ""}), on=["tested", *CANDIDATE], how="left")

    def first(self) -> Stage:
        """ERM with each preparation, and all linear models."""
        folds = self.setting.folds
        prepared = {tested: preparations(self.subject, tested, folds) for tested in self.subject.tested}
        return [
            self._tried(tested, part, name)
            for tested, names in prepared.items()
            for name, part in (
                ("networks", plain_networks(self.setting, names)),
                ("linear models", list(linear(self.setting, names))),
            )
        ]

    def second(self, plain: pd.DataFrame) -> Stage:
        """The other networks, with the preparation with which ERM does best on left-out training batches, and without.

        plain: the rows of the first stage
        """
        stage = []
        for tested in self.subject.tested:
            rows = plain[(plain["tested"] == tested) & (plain["family"] == "erm")]
            before = [Candidate(**row) for row in rows[CANDIDATE].to_dict("records")]
            for base in bases(before, rows[["inner", "inner_loss"]].to_numpy(dtype=np.float64)):
                others = (one for one in common_networks(self.setting, base) if one not in before)
                for (family, metric), part in groupby(others, lambda one: (one.family, one.metric)):
                    stage.append(self._tried(tested, list(part), f"{family}{'' if metric == 'none' else ', metric'}"))
        return stage

    def choice(self, rows: pd.DataFrame) -> pd.DataFrame:
        """What each method takes for each tested unit, by left-out training batches."""
        found = []
        for tested in self.subject.tested:
            own = rows[rows["tested"] == tested]
            for name, method in METHODS.items():
                among = method.among(own)
                row = best(among)
                found.append(
                    {
                        "tested": tested, "method": name, **row[[*CANDIDATE, "inner"]].to_dict(),
                        "candidates": len(among), "sees_batch": row["prepare"] == CENTRE,
                    }
                )  # fmt: skip
        return pd.DataFrame(found)

    def third(self, choice: pd.DataFrame) -> Stage:
        """What some method takes, trained without the tested unit and tested on it; networks with every seed."""
        stage = []
        for tested, rows in choice.groupby("tested", sort=False):
            every = [Candidate(**row) for row in rows[CANDIDATE].drop_duplicates().to_dict("records")]
            networks = [one for one in every if one.family not in LINEAR]
            lots = [(0, [one for one in every if one.family in LINEAR])]
            lots += [
                (s, networks[i : i + AT_ONCE]) for s in range(self.seeds) for i in range(0, len(networks), AT_ONCE)
            ]
            for seed, part in lots:
                arguments = {**self._about(str(tested)), "seed": seed, "candidates": [asdict(one) for one in part]}
                stage.append(Piece(f"test on {tested}", taken, arguments, effort=self._seconds(part)))
        return stage

    def expected(self) -> tuple[float, float, float]:
        """Seconds of the three stages on one core."""
        n, folds = len(self.subject.tested), self.setting.folds
        prepares = ("none", "centre", "zscore")
        networks = self._seconds(common_networks(self.setting, Candidate("erm")))
        plain = self._seconds([*plain_networks(self.setting, prepares), *linear(self.setting, prepares)])
        return n * folds * plain, n * folds * BASES * networks, n * self.seeds * TAKEN * BASES * networks

    def seconds(self) -> float:
        """What all stages take on one core, without what is done; later stages count as far as they are known."""
        stages = [self.first()]
        while len(stages) < 3 and all(piece.done(self.place) for piece in stages[-1]):
            rows = pd.concat([_rows(stage, [piece.run(self.place) for piece in stage]) for stage in stages])
            stages.append(self.second(rows) if len(stages) == 1 else self.third(self.choice(rows)))
        left = [_share_left(stage, self.place) for stage in stages] + [1.0] * (3 - len(stages))
        return sum(share * each for share, each in zip(left, self.expected(), strict=True))

    def _tried(self, tested: str, part: list[Candidate], name: str) -> Piece:
        arguments = {**self._about(tested), "candidates": [asdict(one) for one in part]}
        return Piece(f"{name} without {tested}", tried, arguments, effort=self._seconds(part))

    def _about(self, tested: str) -> dict[str, object]:
        return {"data": self.subject.identity, "tested": tested, "setting": self.setting}

    def _seconds(self, part: Iterable[Candidate]) -> float:
        speed = self.speed or Speed(0.1, 0.1, 0.01, 0.02)
        return sum(speed.of(one, self.setting) for one in part)


def _rows(stage: Stage, found: list[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all pieces, with the unit of each: text, which it would not be in a file that was read again."""
    pairs = zip(stage, found, strict=True)
    return pd.concat([rows.assign(tested=piece.arguments["tested"]) for piece, rows in pairs], ignore_index=True)


def _share_left(stage: Stage, place: Place) -> float:
    total = sum(piece.effort for piece in stage) or 1.0
    return sum(piece.effort for piece in stage if not piece.done(place)) / total
