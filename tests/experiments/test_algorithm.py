"""GSAT trained with the paper's ADMM: what each solver reaches, and the choice of a solver in experiments."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import gsat
from gsat.cli import app
from gsat.defences import GSAT
from gsat.estimators.from_table import Plan
from gsat.experiments import algorithm, curves, paper
from gsat.experiments.judging import paired_differences
from gsat.experiments.plan import Order
from gsat.experiments.setting import SCALES, any_price, image_arenas, universal

PRICED = {"lam": "paper", "alpha": 0.5}


def test_the_named_solver_has_the_numbers_of_the_paper():
    solver = GSAT(gsat.LowRank(), solver="admm-paper").adversary.solver
    assert solver == gsat.ADMM(rho=1.0, eta1=0.1)
    assert Plan("low-rank", solver="admm-paper").inner == 20
    assert Plan("low-rank").inner == 5


def test_the_paper_scale_trains_with_the_papers_algorithm():
    scale = SCALES["paper"]
    for size in (scale.alexnet, scale.elu):
        plan = size.plan
        assert (plan.solver, plan.lam, plan.alpha, plan.inner) == ("admm-paper", "paper", 0.5, 20)
        assert (plan.n_outer, plan.group_size, plan.eta0) == (10_000, 200, 1e-4)
    assert universal(scale) == "universal-one"
    assert image_arenas(scale, "mnist")[0].structures == ("universal-one", "group-sparse", "low-rank")
    assert any_price("admm-paper") == "admm"
    assert any_price("proximal") == "proximal"


def test_a_solver_that_is_asked_for_reaches_every_plan_and_the_command():
    scale = SCALES["cpu"].solved_by("admm")
    for name in (name for name in paper.PAPER if name not in paper.OWN_SOLVER):
        experiment = paper.experiment(name)
        plans = [p for piece in experiment.pieces(scale, 1) for p in _plans(piece.arguments)]
        assert {plan.solver for plan in plans} == {"admm"}, name
        order = Order([experiment], scale, None, None)
        assert order.command(experiment) == f"gsat reproduce {name} --scale cpu --solver admm"
        usual = Order([experiment], SCALES["cpu"], None, None)
        assert order.identity(experiment) != usual.identity(experiment)


def _plans(arguments):
    return [arguments["arena"].plan if "arena" in arguments else arguments["plan"]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["low-rank", "--solver", "adam"],
            "--solver must be one of proximal, admm, admm-paper, linearised, got 'adam'",
        ),
        (["speed", "--solver", "admm"], "--solver is for experiments that do not set their own, got speed"),
    ],
)
def test_a_wrong_solver(arguments, message, tmp_path):
    found = CliRunner().invoke(app, ["reproduce", *arguments, "--out", str(tmp_path)])
    assert found.exit_code == 2
    assert message in " ".join(found.output.split())


def test_what_a_solver_gains_is_counted_from_no_perturbation():
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 6, generator=generator), torch.arange(40) % 3
    module = gsat.models.build("elu", (6,), 3, seed=0, hidden=0).requires_grad_(False)
    about = (0.5, None, 0.5)
    found = {s: algorithm._solved(module, "low-rank", about, s, 200, x, y) for s in algorithm.SOLVERS}
    assert found["proximal"]["gain"] > 0.01
    for solver in ("admm-paper", "admm"):
        assert found[solver]["gain"] == pytest.approx(found["proximal"]["gain"], rel=0.02)

    def loss(z):
        return torch.nn.functional.cross_entropy(module(z), y, reduction="none")

    best = gsat.maximise(loss, x, gsat.LowRank(0.5), lam=0.5, n_inner=400)
    zero = float(loss(x).mean())
    assert found["proximal"]["gain"] == pytest.approx(best.objective - zero, rel=0.01)


def test_a_step_that_is_too_long_gains_nothing():
    x, y = torch.randn(40, 6), torch.arange(40) % 3
    about = (1e6, None, 0.5)
    found = algorithm._solved(gsat.models.ELUNet(6, 3, hidden=0), "low-rank", about, "admm-paper", 40, x, y)
    assert found["gain"] == 0
    assert math.isnan(found["residual"])


def test_a_price_at_which_nothing_moves_has_no_shares():
    torch.manual_seed(0)
    X, y = torch.randn(60, 6).numpy(), np.arange(60) % 3
    model = gsat.GSATClassifier("low-rank", lam=500.0, alpha=0.5, solver="admm", n_outer=2, random_state=0).fit(X, y)
    found = algorithm._inner(model, "low-rank", X, y, 5, 30)
    assert (found["gain"] == 0).all()
    assert found["share"].isna().all()
    shares = 100 * found.groupby("solver")["share"].mean()
    assert "no perturbation is the best" in algorithm._reached(shares)
    assert algorithm._reached(shares.fillna(50.4)) == "ADMM 50 %, proximal 50 %"


def test_differences_are_between_the_same_prices():
    rows = [
        {"data": "mnist", "model": "elu", "cost": "low-rank", "attack": "low-rank", "eps": 0.2, "seed": seed,
         "way": way.name, "accuracy": 0.8 + 0.01 * place + 0.001 * seed * place, "clean": 0.9}
        for seed in range(3) for place, way in enumerate(algorithm.WAYS)
    ]  # fmt: skip
    found = algorithm.differences(pd.DataFrame(rows))
    assert found["ours"].tolist() == ["ADMM, the paper's λ", "ADMM, budget"]
    assert found["baseline"].tolist() == ["proximal, the paper's λ", "proximal, budget"]
    np.testing.assert_allclose(found["difference"], -1.1)


def test_the_unstructured_adversary_is_a_rival():
    assert "unstructured" in curves.BASELINES
    rows = [
        {"defence": name, "seed": seed, "attack": "low-rank", "accuracy": value, "clean": 0.9}
        for name, value in (("low-rank", 0.8), ("unstructured", 0.75), ("pgd", 0.7))
        for seed in range(2)
    ]
    found = paired_differences(pd.DataFrame(rows), ["attack"]).set_index("baseline")
    assert set(found["ours"]) == {"low-rank"}
    assert found["difference"].to_dict() == pytest.approx({"unstructured": 5, "pgd": 10})
