"""Recipes: as many tries for each defence, judged on validation rows, and taken by the rule "tuned"."""

from dataclasses import replace

import pytest

from gsat.estimators.from_table import Plan
from gsat.experiments import curves, recipes
from gsat.experiments.plan import Place
from gsat.experiments.recipes import OTHERS, choosing, taken, tried, tuned
from gsat.experiments.setting import SCALES, Arena, all_images, image_arenas

PLAN = Plan("erm", n_outer=10, n_inner=3, group_size=40, eta0=1e-2)
DIGITS = Arena("digits-elu", "digits", PLAN, n_test=40, n_validation=60, steps=3, grid=(0.05, 0.3), trials=3)


def test_every_defence_has_as_many_tries():
    for scale in SCALES.values():
        for arena in all_images(scale):
            names = {*arena.structures, "group-sparse", "low-rank", *curves.BASELINES}
            assert names <= set(OTHERS)
            assert {len(recipes.recipes(arena, name)) for name in names} == {arena.trials}
    mnist = image_arenas(SCALES["cpu"], "mnist")
    assert [arena.trials for arena in mnist] == [1, 4]
    assert len({len(others) for others in OTHERS.values()}) == 1


def test_a_recipe_changes_the_plan():
    plan = replace(PLAN, defence="low-rank", lam="paper", solver="admm-paper")
    assert tuned(plan, {}) == replace(plan, lam="auto", solver="admm")
    assert tuned(plan, {"alpha": 0.5}).alpha == 0.5
    assert tuned(plan, {"rate": 2.0}).eta0 == pytest.approx(2e-2)
    for others in OTHERS.values():
        assert all(tuned(plan, recipe) != tuned(plan, {}) for recipe in others)


def test_the_best_on_validation_rows_is_taken(tmp_path, monkeypatch):
    place = Place(tmp_path)
    found = tried(place, DIGITS, "fgm", 0)
    assert found["recipe"].tolist() == ["usual", "rate 0.5", "rate 2"]
    assert found["taken"].sum() == 1
    assert found.loc[found["taken"], "accuracy"].item() == found["accuracy"].max()
    assert set(found["size"]) == {0.3}
    assert found["clean"].nunique() > 1
    best = recipes.recipes(DIGITS, "fgm")[int(found["accuracy"].idxmax())]
    assert taken(place, DIGITS, "fgm", 0) == best
    assert taken(place, DIGITS, "fgm", 7) == best  # the test rows are apart: one choice for all seeds
    assert choosing(DIGITS, "fgm", 7, 1.0).key == choosing(DIGITS, "fgm", 0, 2.0).key
    split = replace(DIGITS, test_share=0.25)
    assert choosing(split, "fgm", 7, 1.0).key != choosing(split, "fgm", 0, 1.0).key
    seen = []
    monkeypatch.setattr(curves, "trained", lambda rows, plan, out: seen.append(plan))
    fight = curves._Fight(place, DIGITS, "fgm", 7)
    fight.model(0.05, "tuned")
    fight.model(0.05, "matched")
    assert [plan.eta0 for plan in seen] == [pytest.approx(PLAN.eta0 * best.get("rate", 1.0)), PLAN.eta0]
    monkeypatch.setattr(recipes, "tried", None)
    assert taken(place, replace(DIGITS, trials=1), "fgm", 0) == {}


def test_the_tries_come_before_what_needs_them():
    for name, trials in (("mnist-elu", 4), ("mnist-alexnet", 0)):
        arena = next(arena for arena in image_arenas(SCALES["cpu"], "mnist") if arena.name == name)
        pieces = curves.pieces([(arena, [], ("low-rank",))], SCALES["cpu"], 2)
        places = [i for i, piece in enumerate(pieces) if piece.work is tried]
        assert len({pieces[i].key for i in places}) == (6 if trials else 0)
        assert places[:6] == list(range(6 if trials else 0))
        assert all(pieces[i].effort > 0 for i in places)
