"""What perturbs a group in training: the contract of every defence, its state, and units of the data."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Generator, Tensor, nn

import gsat
from gsat import attacks, defences, registry
from gsat.costs import Scaled, scaled
from gsat.models import build
from networks import Opaque
from strategies import Case, normal, same_rows

M, D, EPS = 18, 10, 0.6


@pytest.fixture
def model() -> nn.Module:
    return build("elu", (D,), 3, hidden=14)


@pytest.fixture
def group() -> tuple[Tensor, Tensor]:
    return normal(M, D, seed=1, dtype=torch.float32), torch.arange(M) % 3


@pytest.mark.parametrize("name", registry.defence_names())
def test_contract(model: nn.Module, group: Any, name: str) -> None:
    x, y = group
    copy, random = x.clone(), torch.get_rng_state()
    defence = registry.named(name, eps=EPS, k=3, n_inner=10)
    if isinstance(defence, defences.GSAT):
        defence.lam = 0.05
    assert defence.mean_norm == 0
    model.train()
    x_adv = defence(model, x.requires_grad_(), y)
    assert x_adv.shape == x.shape
    assert x_adv.dtype == x.dtype
    assert not x_adv.requires_grad
    assert torch.equal(x, copy)
    assert torch.equal(torch.get_rng_state(), random)
    assert model.training
    assert all(weight.requires_grad and weight.grad is None for weight in model.parameters())
    if name == "erm":
        assert torch.equal(x_adv, x)
        assert defence.mean_norm == 0
        return
    assert torch.allclose(x_adv, x + defence.delta)
    assert defence.mean_norm == pytest.approx(float(defence.delta.norm(dim=1).mean()), rel=1e-6)
    assert defence.mean_norm > 0
    if not isinstance(defence, defences.GSAT) and name != "universal-at":
        assert defence.mean_norm == pytest.approx(EPS, rel=1e-5)
    if name in ("structured-universal", "universal-at"):
        assert not same_rows(defence.delta).any()
    if name.endswith("group-sparse"):
        assert int((defence.delta.norm(dim=0) > 0).sum()) <= 3
        assert defence.measure() == 3
    if name.endswith("low-rank"):
        sigma = torch.linalg.svdvals(defence.delta.double())
        assert int((sigma > 1e-5 * sigma[0]).sum()) <= 3
        assert defence.measure() == 3


@pytest.mark.parametrize("loss", ["cross-entropy", "margin", "dlr"])
def test_losses_by_name(model: nn.Module, group: Any, loss: str) -> None:
    x, y = group
    y = model(x).argmax(1)
    made = [
        defences.GSAT(gsat.LowRank(), loss=loss),
        defences.UniversalAT(EPS, loss=loss),
        defences.PGD(EPS, loss=loss),
        gsat.Adversary(gsat.LowRank(), lam=1e-2, loss=loss),
    ]
    for defence in made:
        assert torch.count_nonzero(defence(model, x, y) - x) > 0, defence
    gsat.gdadmm(model, x, y, defences.GSAT(gsat.LowRank(), loss=loss), n_outer=2, group_size=M)
    for make in (defences.UniversalAT, lambda eps, loss: gsat.Adversary(gsat.LowRank(), lam=eps, loss=loss)):
        with pytest.raises(ValueError, match="loss must be one of cross-entropy, margin, dlr, got 'hinge'"):
            make(1.0, loss="hinge")


def test_named_sets_what_it_is_given() -> None:
    assert registry.named("pgd", eps=EPS, n_inner=7).attack.steps == 7
    assert registry.named("group-sparse", eps=EPS, alpha=0.3, k=4).cost == gsat.GroupSparse(0.3, k=4)
    universal = registry.named("universal", eps=EPS, alpha=0.3).cost
    assert universal == gsat.PerBatch(gsat.Universal(0.3), n_random=100)
    with pytest.raises(ValueError, match=r"defence must be one of erm, fgm, .*structured-low-rank, got 'magic'"):
        registry.named("magic", eps=EPS)
    with pytest.raises(ValueError, match=r"structure must be one of universal, .*, got 'magic'"):
        registry.structure_cost("magic")


def test_one_shift_for_each_random_sub_batch(model: nn.Module) -> None:
    x, y = normal(60, D, seed=3, dtype=torch.float32), torch.arange(60) % 3
    defence = registry.named("universal", eps=EPS, group_size=60)
    defence.lam = 0.01
    defence(model, x, y)
    shifts, counts = same_rows(defence.delta).unique(return_counts=True)
    assert len(shifts) == 30
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("name", ["fgm", "pgd", "universal-at", "structured-low-rank"])
@pytest.mark.parametrize("mean_norm", [0.13, 2.0])
def test_match_norm(model: nn.Module, group: Any, name: str, mean_norm: float) -> None:
    defence = registry.named(name, eps=EPS)
    matched = defences.match_norm(defence, mean_norm)
    for _ in range(8):  # a carried shift has to grow
        matched(model, *group)
    assert matched.mean_norm == pytest.approx(mean_norm, rel=1e-5)
    defence(model, *group)
    assert defence.mean_norm <= EPS * (1 + 1e-6)
    assert type(matched) is type(defence)


def test_match_norm_scales_an_explicit_step_size(model: nn.Module, group: Any) -> None:
    """A step of 0.3·eps stays one of 0.3·eps: the first of them is as long as that."""
    for make in (partial(defences.PGD, steps=1), defences.UniversalAT):
        for mean_norm in (0.02, 3.0):
            matched = defences.match_norm(make(EPS, step_size=0.3 * EPS), mean_norm)
            matched(model, *group)
            assert matched.mean_norm == pytest.approx(0.3 * mean_norm, rel=1e-5)


def test_match_norm_from_and_to_nothing(model: nn.Module, group: Any) -> None:
    for make in (defences.PGD, defences.UniversalAT):
        still = defences.match_norm(make(EPS, step_size=0.1), 0.0)
        still(model, *group)
        assert still.mean_norm == 0
        for none in (make(0.0), make(0.0, step_size=0.1)):
            grown = defences.match_norm(none, 0.4)
            for _ in range(8):
                grown(model, *group)
            assert grown.mean_norm == pytest.approx(0.4, rel=1e-5)


def test_match_norm_needs_an_eps() -> None:
    with pytest.raises(ValueError, match="match_norm needs a defence with an eps, got gsat"):
        defences.match_norm(defences.GSAT(gsat.LowRank()), 1.0)
    with pytest.raises(ValueError, match="mean_norm must be >= 0"):
        defences.match_norm(defences.PGD(1.0), -1.0)


def test_universal_at_carries_its_shift(model: nn.Module, group: Any) -> None:
    x, y = group
    defence = defences.UniversalAT(EPS)
    lengths = []
    for _ in range(8):
        defence(model, x, y)
        lengths.append(defence.mean_norm)
    assert lengths[0] == pytest.approx(EPS / 5, rel=1e-5)
    assert lengths[1] > 1.5 * lengths[0]
    assert lengths[-1] == pytest.approx(EPS, rel=1e-5)

    other = defences.UniversalAT(EPS)
    other.load_state_dict({name: value.clone() for name, value in defence.state_dict().items()})
    assert torch.equal(other(model, x, y), defence(model, x, y))
    fresh = defences.UniversalAT(EPS)
    fresh.load_state_dict(defences.UniversalAT(EPS).state_dict())
    fresh(model, x, y)
    assert fresh.mean_norm == pytest.approx(EPS / 5, rel=1e-5)
    with pytest.raises(ValueError, match=r"the state of universal-at must hold \['shift'\], got \['generator'\]"):
        fresh.load_state_dict({"generator": torch.zeros(1)})
    images = defences.UniversalAT(EPS)(build("elu", (1, 2, 5), 3), x.view(M, 1, 2, 5), y)
    assert images.shape == (M, 1, 2, 5)


@pytest.mark.parametrize("eps", [0.0, 1e-4, 0.03, 0.6, 5.0])
def test_universal_at_of_any_size(model: nn.Module, group: Any, eps: float) -> None:
    """The first step is a fifth of eps; nothing is ever longer than eps, and the shift soon has that length."""
    defence, long = defences.UniversalAT(eps), defences.UniversalAT(eps, step_size=10.0)
    lengths = []
    for _ in range(12):
        moved = defence(model, *group)
        assert moved.isfinite().all()
        lengths.append(defence.mean_norm)
    assert lengths[0] == pytest.approx(eps / 5, rel=1e-5)
    assert max(lengths) <= eps * (1 + 1e-6)
    assert lengths[-1] == pytest.approx(eps, rel=1e-5)
    long(model, *group)
    assert long.mean_norm == pytest.approx(eps, rel=1e-5)
    with pytest.raises(ValueError, match=r"eps must be >= 0, got -0\.1"):
        defences.UniversalAT(-0.1)


def test_gsat_continues_its_draws(model: nn.Module, group: Any) -> None:
    def made() -> defences.GSAT:
        cost = gsat.PerBatch(gsat.Universal(), n_random=4)
        defence = defences.GSAT(cost, generator=Generator().manual_seed(5))
        defence.lam = 0.05
        return defence

    defence, other = made(), made()
    first = defence(model, *group)
    state = {name: value.clone() for name, value in defence.state_dict().items()}
    second = defence(model, *group)
    assert not torch.equal(first, second)
    other.load_state_dict(state)
    assert torch.equal(other(model, *group), second)
    with pytest.raises(ValueError, match="lam must be > 0"):
        defence.lam = 0.0


@pytest.mark.parametrize("wrap", [lambda net: net, Opaque], ids=["short-cut", "plain path"])
@pytest.mark.parametrize("feature_groups", [None, [j // 2 for j in range(D)]])
def test_a_column_counts_that_moves_in_some_samples_only(
    model: nn.Module, group: Any, wrap: Any, feature_groups: Any
) -> None:
    def loss(outputs: Tensor, y: Tensor) -> Tensor:  # of no interest for two thirds of the samples
        return nn.functional.cross_entropy(outputs, y, reduction="none") * (y == 1)

    defence = defences.GSAT(gsat.GroupSparse(0.2, feature_groups=feature_groups), loss=loss)
    defence.lam = 0.05
    defence(wrap(model), *group)
    moving = defence.delta != 0
    assert not moving[group[1] != 1].any()
    columns = moving.any(0) if feature_groups is None else moving.view(M, -1, 2).any(2).any(0)
    assert defence.measure() == int(columns.sum()) > 0


# ---- defaults


class Counted(nn.Module):
    """Counts the passes that a gradient is taken of."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.n_gradients = inner, 0

    def forward(self, x: Tensor) -> Tensor:
        self.n_gradients += x.requires_grad
        return self.inner(x)


def test_twenty_gradients_and_five_of_gsat_in_training_unless_told_otherwise(model: nn.Module, group: Any) -> None:
    counted = Counted(model)
    for defence in (
        defences.PGD(EPS),
        registry.named("pgd", eps=EPS),
        registry.named("low-rank", eps=EPS, solver="admm", n_inner=20),
        gsat.Adversary(gsat.LowRank(0.2), lam=0.05, solver="admm"),
    ):
        counted.n_gradients = 0
        defence(counted, *group)
        assert counted.n_gradients == 20
    for defence, n_gradients in (
        (registry.named("fgm", eps=EPS), 1),
        (registry.named("universal-at", eps=EPS), 1),
        (registry.named("unstructured", eps=EPS, solver="admm"), 5),
        (defences.GSAT(gsat.LowRank(0.2), solver="admm"), 5),
    ):
        counted.n_gradients = 0
        defence(counted, *group)
        assert counted.n_gradients == n_gradients


def test_an_attack_of_a_hundred_gradients_unless_told_otherwise(model: nn.Module, group: Any) -> None:
    counted = Counted(model).eval()
    for attack in (attacks.PGD(EPS), registry.parse_attack("pgd", 1.0)):
        counted.n_gradients = 0
        attack.perturb(counted, *group)
        assert counted.n_gradients == 100


def test_half_of_the_cost_is_structure_unless_told_otherwise() -> None:
    delta = normal(6, 5, seed=7)
    sigma, columns = torch.linalg.svdvals(delta).sum(), delta.norm(dim=0).sum()
    square = delta.square().sum()
    torch.testing.assert_close(gsat.LowRank().value(delta), (sigma + square) / 2)
    torch.testing.assert_close(gsat.GroupSparse().value(delta), (columns + square) / 2)
    shift = delta[:1].expand(6, 5)
    torch.testing.assert_close(gsat.Universal().value(shift), shift.square().sum() / 2)


def test_five_directions_and_fifty_columns_unless_told_otherwise() -> None:
    x, y = normal(40, 70, seed=8, dtype=torch.float32), torch.arange(40) % 10
    model = build("elu", (70,), 10, hidden=30)
    for name, count in (("low-rank", 5), ("group-sparse", 50)):
        delta = registry.parse_attack(name, 1.0, eps=0.5).perturb(model, x, y)
        defence = registry.named(f"structured-{name}", eps=0.5)
        defence(model, x, y)
        assert defence.measure() == count
        for found in (delta, defence.delta):
            sigma = torch.linalg.svdvals(found.double())
            rank, columns = int((sigma > 1e-5 * sigma[0]).sum()), int((found != 0).any(0).sum())
            assert (rank if name == "low-rank" else columns) == count


def test_attack_as_the_adversary_respects_bounds_and_batches(model: nn.Module, group: Any) -> None:
    x, y = group[0].clamp(-1, 1), group[1]
    clamped = defences.Structured(attacks.LowRank(3.0, rank=2, bounds=(-1.0, 1.0)))(model, x, y)
    assert float(clamped.abs().max()) <= 1
    batch = torch.arange(M) % 2
    defence = defences.Structured(attacks.Universal(EPS))
    defence(model, x, y, batch)
    assert len(same_rows(defence.delta).unique()) == 2


@pytest.mark.parametrize("name", ["group-sparse", "low-rank", "universal", "unstructured"])
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_auto_units_do_not_depend_on_the_scale_of_the_data(name: str, factor: float) -> None:
    """x → f·x with weights W/f is the same model; the scaled cost at the same λ then gives f·Δ."""
    x, y = normal(40, 30, seed=4), torch.arange(40) % 3
    model = build("elu", (30,), 3, hidden=20).double()
    other = build("elu", (30,), 3, hidden=20).double()
    with torch.no_grad():
        other[1].weight /= factor
    found = []
    for net, points in ((model, x), (other, factor * x)):
        defence = registry.named(name, eps=1.0, alpha=0.3)
        defence.scale, defence.lam = 0.05 * gsat.mean_norm(points), 0.01
        defence(net, points, y)
        found.append(defence)
    here, there = found
    assert here.mean_norm > 0
    assert there.mean_norm == pytest.approx(factor * here.mean_norm, rel=1e-3)
    assert there.measure() == here.measure()
    if name == "group-sparse":
        assert 0 < here.measure() < 30
        assert torch.equal(here.delta.norm(dim=0) > 0, there.delta.norm(dim=0) > 0)
    if name == "low-rank":
        assert 0 < here.measure() < 30


@pytest.mark.parametrize("name", ["universal", "group-sparse", "blocks", "low-rank", "unstructured"])
@given(data=st.data())
def test_scaled_prox_is_the_minimiser(name: str, data: st.DataObject) -> None:
    """φ(u) = τ·c(u) + ½‖u − v‖² is 1-strongly convex: φ(u) ≥ φ(p) + ½‖u − p‖² for all u."""
    m, d = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 7))
    alpha, tau = data.draw(st.sampled_from((0.0, 0.2, 0.7, 1.0))), data.draw(st.sampled_from((0.03, 0.7, 9.0)))
    s, seed = data.draw(st.sampled_from((1e-3, 0.3, 40.0))), data.draw(st.integers(0, 1000))
    case = Case(name, m, d, alpha)
    cost = scaled(case.cost, s)
    assert isinstance(cost, Scaled)
    tau *= s**2  # of the size at which the cost bites
    v = s * normal(m, d, seed=seed)

    def phi(u: Tensor) -> float:
        g = case.weight * math.sqrt(m) * case.structure(u / s)
        return tau * (g + (1 - case.weight) * float((u / s).square().sum())) + 0.5 * float((u - v).square().sum())

    p = cost.prox(v, tau)
    assert torch.equal(p, case.feasible(p)) or torch.allclose(p, case.feasible(p), rtol=1e-9, atol=0)
    assert float(cost.value(p)) * tau + 0.5 * float((p - v).square().sum()) == pytest.approx(phi(p), rel=1e-9)
    for spread in (1e-3, 0.3, 3.0):
        for u in (p + spread * s * normal(m, d, seed=seed + 1), v, torch.zeros_like(v), (1 - spread) * p):
            u = case.feasible(u)
            gap = phi(u) - phi(p) - 0.5 * float((u - p).square().sum())
            assert gap >= -1e-9 * s**2 * (1 + phi(u) / s**2)


def test_scaled_per_batch_scales_each_batch() -> None:
    cost = scaled(gsat.PerBatch(gsat.LowRank(0.4)), 3.0).bind([0, 0, 0, 1, 1])
    delta = normal(5, 4, seed=6)
    parts = [Scaled(gsat.LowRank(0.4), 3.0).value(part) for part in (delta[:3], delta[3:])]
    assert torch.allclose(cost.value(delta), sum(parts))
    moved = cost.prox(delta, 0.8)
    assert torch.allclose(moved[:3], Scaled(gsat.LowRank(0.4), 3.0).prox(delta[:3], 0.8))
