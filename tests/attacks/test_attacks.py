"""What every attack promises: the norm, the structure, reproducible, and nothing of the caller's changes."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout, normalize

from gsat import attacks
from gsat.attacks import FGM, PGD, GroupSparse, LowRank, Universal
from gsat.losses import per_sample_cross_entropy
from gsat.models import build
from strategies import normal, same_rows

M, D, CLASSES = 21, 12, 3


@pytest.fixture
def model() -> nn.Module:
    return build("elu", (D,), CLASSES, hidden=16).eval()


@pytest.fixture
def group() -> tuple[Tensor, Tensor]:
    return normal(M, D, seed=1, dtype=torch.float32), torch.arange(M) % CLASSES


def every(eps: float = 0.7, **options: Any) -> list[attacks.Attack]:
    """All attacks; they maximise the loss itself, not the number of errors."""
    options.setdefault("loss", per_sample_cross_entropy)
    return [
        Universal(eps, **options),
        GroupSparse(eps, k=3, **options),
        GroupSparse(eps, k=2, feature_groups=[j % 5 for j in range(D)], **options),
        LowRank(eps, rank=2, **options),
        PGD(eps, **options),
        FGM(eps, **options),
        FGM(eps, direction="sign", **options),
    ]


def rank_of(delta: Tensor) -> int:
    sigma = torch.linalg.svdvals(delta.flatten(1).double())
    return int((sigma > 1e-5 * sigma[0]).sum())


def moving(delta: Tensor) -> Tensor:
    return delta.flatten(1).abs().amax(0).nonzero().flatten()


def assert_structured(attack: attacks.Attack, delta: Tensor) -> None:
    assert float(delta.flatten(1).double().norm(dim=1).max()) <= attack.eps * (1 + 1e-6)
    if isinstance(attack, Universal):
        assert not same_rows(delta).any()
    elif isinstance(attack, GroupSparse):
        blocks = range(10**6) if attack.feature_groups is None else attack.feature_groups
        assert len({blocks[j] for j in moving(delta).tolist()}) <= attack.k
    elif isinstance(attack, LowRank):
        assert rank_of(delta) <= attack.rank


@pytest.mark.parametrize("options", [{}, {"random_start": True}, {"restarts": 2, "random_start": True}, {"steps": 1}])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_norm_and_structure(model: nn.Module, group: Any, options: dict[str, Any], dtype: torch.dtype) -> None:
    x, y = group[0].to(dtype), group[1]
    model = model.to(dtype)
    clean = cross_entropy(model(x), y, reduction="sum")
    for attack in every(**options):
        delta = attack(model, x, y)
        assert delta.shape == x.shape
        assert delta.dtype == dtype
        assert not delta.requires_grad
        assert_structured(attack, delta)
        assert cross_entropy(model(x + delta), y, reduction="sum") > clean


def test_norm_holds_for_many_features_and_images() -> None:
    wide = nn.Sequential(nn.Flatten(), nn.Linear(3 * 60 * 60, 4)).eval()
    x, y = normal(6, 3, 60, 60, seed=2, dtype=torch.float32), torch.arange(6) % 4
    for attack in (Universal(3.7), GroupSparse(3.7, k=30), LowRank(3.7, rank=2), PGD(3.7), FGM(3.7)):
        delta = attack(wide, x, y)
        assert delta.shape == x.shape
        assert_structured(attack, delta)


def test_fgm_is_one_normalised_gradient(model: nn.Module, group: Any) -> None:
    x, y = group
    point = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(nn.functional.cross_entropy(model(point), y, reduction="sum"), point)
    assert torch.allclose(FGM(0.7)(model, x, y), 0.7 * normalize(slope, dim=1), rtol=1e-5)
    signs = FGM(0.7, direction="sign")(model, x, y)
    assert torch.allclose(signs, 0.7 * slope.sign() / math.sqrt(D), rtol=1e-5)


def test_nothing_allowed_is_exactly_zero(model: nn.Module, group: Any) -> None:
    x, y = group
    for attack in [*every(0.0), *every(0.0, random_start=True), GroupSparse(0.7, k=0), LowRank(0.7, rank=0)]:
        assert torch.equal(attack(model, x, y), torch.zeros_like(x)), attack
        assert torch.equal(attack.fit(model, x, y).apply(model, x[:5], y[:5]), torch.zeros_like(x[:5])), attack


def test_more_than_there_is(model: nn.Module, group: Any) -> None:
    x, y = group
    for attack in (GroupSparse(0.7, k=D + 5), LowRank(0.7, rank=M + 5), LowRank(0.7, rank=D)):
        delta = attack(model, x, y)
        assert torch.allclose(delta.norm(dim=1), torch.tensor(0.7))
    one = LowRank(0.7, rank=3)(model, x[:1], y[:1])
    assert torch.allclose(one.norm(), torch.tensor(0.7))


@pytest.mark.parametrize("options", [{}, {"random_start": True}, {"steps": 3}])
def test_masked_features_do_not_move_at_all(model: nn.Module, group: Any, options: dict[str, Any]) -> None:
    x, y = group
    mask = torch.arange(D) % 3 != 0
    for attack in [
        *every(feature_mask=mask, **options),
        LowRank(0.7, rank=D - 1, feature_mask=mask, loss=per_sample_cross_entropy, **options),
        GroupSparse(0.7, k=D, feature_mask=mask, loss=per_sample_cross_entropy, **options),
    ]:
        delta = attack(model, x, y)
        assert torch.equal(delta[:, ~mask], torch.zeros_like(delta[:, ~mask])), attack
        assert torch.count_nonzero(delta[:, mask]), attack
        assert_structured(attack, delta)
        again = attack.fit(model, x, y).apply(model, x[:4], y[:4])
        assert torch.equal(again[:, ~mask], torch.zeros_like(again[:, ~mask])), attack


def test_bounds_are_what_the_loss_sees(group: Any) -> None:
    x, y = group[0].clamp(-1, 1), group[1]
    seen: list[Tensor] = []

    class Watch(nn.Linear):
        def forward(self, z: Tensor) -> Tensor:
            seen.append(z.detach())
            return super().forward(z)

    watch = Watch(D, CLASSES).eval()
    for attack in every(5.0, bounds=(-1.0, 1.0)):
        seen.clear()
        delta = attack.perturb(watch, x, y)
        assert max(float(z.abs().max()) for z in seen) <= 1.0
        assert_structured(attack, delta)


def test_one_structure_for_each_batch(model: nn.Module, group: Any) -> None:
    x, y = group
    batch = [("a", "b", "a")[i % 3] for i in range(M)]
    inside = torch.tensor([one == "b" for one in batch])
    for attack in every():
        delta = attack(model, x, y, batch)
        for part in (inside, ~inside):
            assert_structured(attack, delta[part])
            alone = attack(model, x[part], y[part])
            if isinstance(attack, PGD | FGM):  # found among all samples: rounding may turn a branch of the ascent
                with torch.no_grad():
                    reached = [float(cross_entropy(model(x[part] + found), y[part])) for found in (delta[part], alone)]
                assert reached[0] == pytest.approx(reached[1], rel=0.02)
            else:
                assert torch.equal(delta[part], alone)
    shifts = Universal(0.7)(model, x, y, batch)
    assert not torch.allclose(shifts[inside][0], shifts[~inside][0])
    with pytest.raises(ValueError, match=r"batch must have one id per sample \(21\), got 2"):
        Universal(0.7)(model, x, y, ["a", "b"])


def test_samples_that_share_nothing_are_attacked_at_once(model: nn.Module, group: Any) -> None:
    """However many batches there are, PGD and FGM look at the whole group: as many calls as without batches."""
    x, y = group
    sizes: list[int] = []
    model.register_forward_hook(lambda module, given, out: sizes.append(len(out)))
    for attack in (PGD(0.7, steps=5), FGM(0.7)):
        found = []
        for batch in (None, list(range(M))):
            sizes.clear()
            attack.perturb(model, x, y, batch)
            found.append(list(sizes))
        assert found[0] == found[1]
        assert set(found[0]) == {M}
        with pytest.raises(ValueError, match=r"batch must have one id per sample \(21\), got 2"):
            attack.perturb(model, x, y, ["a", "b"])


@pytest.mark.parametrize("attack", every(), ids=lambda attack: f"{attack.name}-{attack.size}")
def test_what_a_perturbation_is_restricted_to_is_the_nearest_of_its_structure(attack: attacks.Attack) -> None:
    ball, v, other = attack.ball, normal(M, D, seed=3), normal(M, D, seed=4)
    part = ball.part(v)
    near, u = ball.restrict(v, part), ball.restrict(other, part)
    assert_structured(replace(attack, eps=1e6), near)
    torch.testing.assert_close(ball.restrict(near, part), near)
    assert float(((v - near) * u).sum()) == pytest.approx(0, abs=1e-10)  # the rest is orthogonal to the structure
    assert float((v - near).norm()) < float((v - u).norm()) or torch.equal(near, v)


def test_one_shift_may_be_short_of_eps(group: Any) -> None:
    """The loss is largest at one shift of length 0.2 for all: a universal attack with eps = 1.5 goes there."""
    x, y = group
    goal = 0.2 * normalize(normal(1, D, seed=5, dtype=torch.float32))
    spread = normal(M, D, seed=6, dtype=torch.float32)
    spread = 0.1 * (spread - spread.mean(0))  # each sample has a goal of its own, and the mean of them is the best
    attack = Universal(1.5, loss=lambda outputs, labels: -(outputs - x - goal - spread).square().sum(1))
    delta = attack.perturb(nn.Identity(), x, y)
    torch.testing.assert_close(delta, goal.expand_as(x), rtol=0, atol=2e-3)


def test_reproducible_from_the_seed(model: nn.Module, group: Any) -> None:
    x, y = group
    for first, again, other in zip(
        every(random_start=True, restarts=2, seed=3),
        every(random_start=True, restarts=2, seed=3),
        every(random_start=True, restarts=2, seed=4),
        strict=True,
    ):
        assert torch.equal(first(model, x, y), again(model, x, y))
        if isinstance(first, PGD):
            assert not torch.equal(first(model, x, y), other(model, x, y))
    for keep in ("best", "last"):  # a restart can only help
        few, many = (
            PGD(0.7, keep=keep, steps=2, step_size=0.35, random_start=True, restarts=n, loss=per_sample_cross_entropy)
            for n in (1, 8)
        )
        losses = [cross_entropy(model(x + attack(model, x, y)), y, reduction="sum") for attack in (few, many)]
        assert losses[1] > losses[0]


class Bumpy(nn.Module):
    """Logits with many hills, so that where a search begins decides where it ends."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * torch.sin(4 * x[:, :CLASSES] + x[:, CLASSES : 2 * CLASSES])


def test_restarts_begin_elsewhere(group: Any) -> None:
    x, y = group
    model = Bumpy().eval()
    for one, many in zip(every(steps=5), every(steps=5, restarts=6), strict=True):
        losses = [
            cross_entropy(model(x + attack.perturb(model, x, y)).double(), y, reduction="none")
            for attack in (one, many)
        ]
        assert losses[1].sum() >= losses[0].sum() - 1e-4
        if isinstance(many, Universal | PGD) or (isinstance(many, FGM) and many.direction == "gradient"):
            assert losses[1].sum() > losses[0].sum() + 1
        if isinstance(many, PGD | FGM):
            assert (losses[1] >= losses[0] - 1e-5).all()  # each sample keeps its best


def test_the_loss_of_many_samples_is_taken_in_pieces(model: nn.Module, group: Any) -> None:
    """A group may be a whole test set: 200 copies of a group are attacked as the group is, 2000 samples at a time."""
    seen: list[int] = []

    class Watch(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            seen.append(len(z))
            return model(z)

    x, y = group
    many = (x.repeat(200, 1), y.repeat(200))
    for attack in every(steps=20):
        seen.clear()
        delta = attack.perturb(Watch().eval(), *many)
        assert max(seen) <= 2000
        assert len(delta) == 200 * M
        assert_structured(attack, delta)
        once, often = (
            float(cross_entropy(model(points + moved).detach().double(), labels))
            for points, labels, moved in ((x, y, attack.perturb(model, x, y)), (*many, delta))
        )
        assert often == pytest.approx(once, rel=0.02)


def test_an_overconfident_model_is_attacked_although_squares_of_its_gradients_underflow() -> None:
    sure = nn.Linear(2, 2, bias=False).eval()
    with torch.no_grad():
        sure.weight.copy_(torch.tensor([[-30.0, 0.0], [30.0, 0.0]]))
    x, y = torch.tensor([[1.0, 0.0], [-1.0, 0.5]]), torch.tensor([1, 0])
    for attack in (FGM(1.5), PGD(1.5), LowRank(1.5, rank=1), GroupSparse(1.5, k=1)):
        delta = attack(sure, x, y)
        assert torch.equal(sure(x + delta).argmax(1), 1 - y), attack


def test_fitted_on_one_set_and_used_on_another(model: nn.Module, group: Any) -> None:
    x, y = group
    old, new = slice(0, 14), slice(14, M)
    fitted = Universal(0.7, loss=per_sample_cross_entropy).fit(model, x[old], y[old])
    assert torch.equal(fitted.apply(model, x[new], y[new]), fitted.shift.expand(7, D))
    assert torch.equal(fitted.shift, Universal(0.7, loss=per_sample_cross_entropy)(model, x[old], y[old])[0])
    assert fitted.columns is None
    assert fitted.subspace is None

    sparse = GroupSparse(0.7, k=3).fit(model, x[old], y[old])
    delta = sparse.apply(model, x[new], y[new])
    assert len(sparse.columns) == 3
    assert set(moving(delta).tolist()) <= set(sparse.columns.tolist())
    assert torch.allclose(delta.norm(dim=1), torch.tensor(0.7))

    low = LowRank(0.7, rank=2).fit(model, x[old], y[old])
    delta = low.apply(model, x[new], y[new])
    basis = low.subspace
    assert torch.allclose(basis @ basis.T, torch.eye(2), atol=1e-6)
    assert torch.allclose(delta @ basis.T @ basis, delta, atol=1e-6)
    assert torch.allclose(delta.norm(dim=1), torch.tensor(0.7))

    assert torch.equal(
        PGD(0.7).fit(model, x[old], y[old]).apply(model, x[new], y[new]), PGD(0.7)(model, x[new], y[new])
    )
    for attack in every():
        with pytest.raises(ValueError, match=r"x must have samples of shape \(12,\), got \(5,\)"):
            attack.fit(model, x, y).apply(model, x[:, :5], y)


def test_nothing_of_the_callers_changes(group: Any) -> None:
    x, y = group
    x = x.clone().requires_grad_()
    net = nn.Sequential(nn.Linear(D, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.ELU(), nn.Linear(16, CLASSES))
    net.train()
    net[1].eval()
    net[0].weight.requires_grad_(False)
    net[4].weight.grad = torch.ones_like(net[4].weight)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    copy, random = x.detach().clone(), torch.get_rng_state()

    def check() -> None:
        assert [module.training for module in net] == [True, False, True, True, True]
        assert [weight.requires_grad for weight in net.parameters()] == [False, True, True, True, True, True]
        assert torch.equal(net[4].weight.grad, torch.ones_like(net[4].weight))
        assert all(weight.grad is None for weight in net[:4].parameters())
        assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
        assert torch.equal(x, copy)
        assert x.requires_grad
        assert x.grad is None
        assert torch.equal(torch.get_rng_state(), random)
        assert torch.is_grad_enabled()

    def broken(outputs: Tensor, labels: Tensor) -> Tensor:
        torch.rand(3)
        raise RuntimeError("broken loss")

    for attack in every():
        assert not attack.perturb(net, x, y).requires_grad
        check()
    for attack in every(loss=broken):
        with pytest.raises(RuntimeError, match="broken loss"):
            attack.perturb(net, x, y)
        check()
    with torch.inference_mode():
        assert_structured(PGD(0.7), PGD(0.7).perturb(net, x, y))


class Wrapped(nn.Module):
    def __init__(self, inner: nn.Module, after: Any) -> None:
        super().__init__()
        self.inner, self.after = inner, after

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.inner(x))


@pytest.mark.parametrize(
    ("after", "message"),
    [
        (lambda z: dropout(z, 0.5, training=True), "the model is randomised: two passes over the same samples differ"),
        (lambda z: z.softmax(1), "returns probabilities where logits are expected"),
        (lambda z: z * 0 + 1.0, "the gradient is exactly zero for 7 of 21 samples, which are not wrong yet"),
        (lambda z: 1e4 * z, r"the gradient is exactly zero for \d+ of 21 samples"),
    ],
)
@pytest.mark.filterwarnings("ignore:the gradient is exactly zero")
def test_warns_of_what_makes_an_attack_look_weak(model: nn.Module, group: Any, after: Any, message: str) -> None:
    with pytest.warns(UserWarning, match=message) as caught:
        PGD(0.7, steps=2)(Wrapped(model, after).eval(), *group)
    assert {warning.filename for warning in caught} == {__file__}


def test_warns_of_train_mode(model: nn.Module, group: Any) -> None:
    with pytest.warns(UserWarning, match="the model is in train mode; it is attacked in eval mode"):
        PGD(0.7, steps=2)(model.train(), *group)
    PGD(0.7, steps=2).perturb(model, *group)  # no warning here, nor for a healthy model in the other tests


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: PGD(-1.0), ValueError, "eps must be >= 0, got -1.0"),
        (lambda: LowRank(math.nan, rank=1), ValueError, "eps must be >= 0.*, got nan"),
        (lambda: Universal(math.inf), ValueError, "eps must be >= 0.*, got inf"),
        (lambda: Universal("big"), TypeError, "eps must be a number, got 'big'"),
        (lambda: PGD(1.0, steps=0), ValueError, "steps must be >= 1, got 0"),
        (lambda: PGD(1.0, restarts=0), ValueError, "restarts must be >= 1, got 0"),
        (lambda: PGD(1.0, step_size=0.0), ValueError, "step_size must be > 0, got 0.0"),
        (lambda: GroupSparse(1.0, k=-1), ValueError, "k must be >= 0, got -1"),
        (lambda: GroupSparse(1.0, k=1.5), TypeError, "k must be a whole number, got 1.5"),
        (lambda: LowRank(1.0, rank=-2), ValueError, "rank must be >= 0, got -2"),
        (lambda: FGM(1.0, direction="up"), ValueError, 'direction must be "gradient" or "sign", got \'up\''),
    ],
)
def test_bad_settings_are_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_bad_groups_are_refused(model: nn.Module, group: Any) -> None:
    x, y = group
    with pytest.raises(TypeError, match="x must be a torch tensor, got ndarray"):
        PGD(1.0)(model, x.numpy(), y)
    with pytest.raises(TypeError, match="y must be a torch tensor, got list"):
        PGD(1.0)(model, x, y.tolist())
    with pytest.raises(ValueError, match=r"y must have one label per sample \(21\), got shape \(20,\)"):
        PGD(1.0)(model, x, y[:20])
    with pytest.raises(ValueError, match=r"feature_groups must have one entry per feature \(12\), got 2"):
        GroupSparse(1.0, k=1, feature_groups=[0, 1])(model, x, y)
    with pytest.raises(ValueError, match=r"feature_mask must have the shape of one sample \(12,\), got \(3,\)"):
        PGD(1.0, feature_mask=torch.ones(3, dtype=torch.bool))(model, x, y)
