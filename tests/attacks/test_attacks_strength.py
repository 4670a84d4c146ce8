"""How strong the attacks are: closed forms, brute force over supports and subspaces, and a plain implementation."""

from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize, one_hot

import gsat
from gsat import attacks
from gsat.losses import per_sample_cross_entropy
from gsat.models import build

SEEDS = range(30)
CE = per_sample_cross_entropy  # given as a function it is maximised itself; by its name, errors count first


def total_loss(model: nn.Module, x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float(cross_entropy(model(x).double(), y, reduction="sum"))


def linear(d: int, classes: int, seed: int) -> nn.Linear:
    generator = torch.Generator().manual_seed(seed)
    model = nn.Linear(d, classes).eval()
    with torch.no_grad():
        model.weight.copy_(torch.randn(classes, d, generator=generator))
        model.bias.copy_(torch.randn(classes, generator=generator))
    return model


def binary(seed: int, m: int = 60, d: int = 23) -> tuple[nn.Linear, Tensor, Tensor, Tensor, Tensor]:
    """A two-class linear model, samples of unequal classes, some wrong; w, and the sign that hurts each sample."""
    generator = torch.Generator().manual_seed(1000 + seed)
    model = linear(d, 2, seed)
    x = torch.randn(m, d, generator=generator)
    y = (model(x).argmax(1) ^ (torch.rand(m, generator=generator) < 0.15)).long()
    x, y = x[torch.arange(m) % (2 + seed % 3) != 0], y[torch.arange(m) % (2 + seed % 3) != 0]
    w = (model.weight[1] - model.weight[0]).detach()
    return model, x, y, w, 1.0 - 2.0 * y[:, None]


def share(model: nn.Module, x: Tensor, y: Tensor, delta: Tensor, best: Tensor) -> float:
    """The gain in loss as a share of the best gain."""
    clean = total_loss(model, x, y)
    return (total_loss(model, x + delta, y) - clean) / (total_loss(model, x + best, y) - clean)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("eps", [0.03, 2.5])
def test_binary_linear_model_is_attacked_as_well_as_can_be(seed: int, eps: float) -> None:
    model, x, y, w, sign = binary(seed)
    k = 4
    top = torch.zeros_like(w).index_fill_(0, w.abs().topk(k).indices, 1)
    labels = torch.arange(len(w)) % 6
    weight = torch.stack([w[labels == block].norm() for block in range(6)])
    block_top = torch.isin(labels, weight.topk(2).indices).float()
    # The loss is convex along w, so that one shift for all does best at one of the two ends.
    ends = [end * eps * normalize(w, dim=0).expand_as(x) for end in (-1, 1)]
    best = {
        attacks.PGD(eps, loss=CE): sign * eps * normalize(w, dim=0),
        attacks.FGM(eps, loss=CE): sign * eps * normalize(w, dim=0),
        attacks.FGM(eps, direction="sign", loss=CE): sign * eps * normalize(w.sign(), dim=0),
        attacks.Universal(eps, loss=CE): max(ends, key=lambda shift: total_loss(model, x + shift, y)),
        attacks.GroupSparse(eps, k=k, loss=CE): sign * eps * normalize(w * top, dim=0),
        attacks.GroupSparse(eps, k=2, feature_groups=labels, loss=CE): sign * eps * normalize(w * block_top, dim=0),
        attacks.LowRank(eps, rank=1, loss=CE): sign * eps * normalize(w, dim=0),
        attacks.LowRank(eps, rank=3, loss=CE): sign * eps * normalize(w, dim=0),
    }
    for attack, optimum in best.items():
        delta = attack(model, x, y)
        assert share(model, x, y, delta, optimum) >= 0.99, attack
        assert float(delta.double().norm(dim=1).max()) <= eps * (1 + 1e-6), attack


def test_universal_finds_the_end_that_neither_the_majority_nor_the_slope_at_x_points_to() -> None:
    model = nn.Linear(1, 2, bias=False).eval()
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[-0.5], [0.5]]))
    # class 0 at 0 has the largest slope, class 0 at -18 makes it the majority, class 1 at 3 has most to lose
    x = torch.tensor([0.0] * 20 + [-18.0] * 35 + [3.0] * 45)[:, None]
    y = torch.tensor([0] * 55 + [1] * 45)
    assert torch.allclose(attacks.Universal(6.0, loss=CE)(model, x, y), torch.full_like(x, -6.0))


def multi_class(seed: int) -> tuple[nn.Linear, Tensor, Tensor, float]:
    generator = torch.Generator().manual_seed(2000 + seed)
    d, m, classes = 8 + seed % 5, 12, 3 + seed % 3
    model, x = linear(d, classes, seed), torch.randn(m, d, generator=generator)
    y = model(x).argmax(1)
    y[: m // 5] = torch.randint(classes, (m // 5,), generator=generator)
    return model, x, y, (0.2, 1.0, 3.0)[seed % 3]


def slopes(model: nn.Linear, z: Tensor, y: Tensor) -> Tensor:
    """The gradient of the loss of each sample, written down: (softmax − onehot)·W; z is (..., m, d)."""
    with torch.no_grad():
        return (model(z).softmax(-1) - one_hot(y, model.out_features)) @ model.weight


def gains(model: nn.Linear, z: Tensor, y: Tensor) -> Tensor:
    """Σ_i of the losses at z (..., m, d)."""
    with torch.no_grad():
        logits = model(z)
        return (logits.logsumexp(-1) - (logits * one_hot(y, model.out_features)).sum(-1)).sum(-1)


def climbed(model: nn.Linear, x: Tensor, y: Tensor, eps: float, masks: Tensor) -> Tensor:
    """The best total loss for each support (s, d): for a convex loss δ ← eps·P∇/‖P∇‖ never loses.

    Each sample has its own maximum; it starts from the gradient of the loss and from that of each other class.
    """
    best = torch.full((len(masks), len(x)), -torch.inf)
    for target in [None, *range(model.out_features)]:
        start = slopes(model, x, y) if target is None else (model.weight[target] - model.weight[y]).detach()
        delta = eps * normalize(masks[:, None] * start, dim=-1)
        for _ in range(25):
            delta = eps * normalize(masks[:, None] * slopes(model, x + delta, y), dim=-1)
        with torch.no_grad():
            logits = model(x + delta)
            losses = logits.logsumexp(-1) - (logits * one_hot(y, model.out_features)).sum(-1)
        best = torch.maximum(best, losses)
    return best.sum(1)


@pytest.mark.parametrize("seed", SEEDS)
def test_group_sparse_reaches_brute_force_over_supports(seed: int) -> None:
    model, x, y, eps = multi_class(seed)
    clean = total_loss(model, x, y)
    for k in (1, 2, 3):
        supports = list(combinations(range(x.shape[1]), k))
        masks = torch.zeros(len(supports), x.shape[1])
        for row, support in enumerate(supports):
            masks[row, list(support)] = 1
        best = float(climbed(model, x, y, eps, masks).max()) - clean
        found = total_loss(model, x + attacks.GroupSparse(eps, k=k, steps=200, loss=CE)(model, x, y), y) - clean
        assert found >= 0.95 * best, (k, found / best)


def filled(direction: Tensor, room: Tensor, eps: float) -> Tensor:
    """max ⟨direction, δ⟩ with |δ_j| ≤ room_j along its sign and ‖δ‖ ≤ eps, row by row, by bisection."""
    low, high = torch.zeros(len(room), 1), torch.full((len(room), 1), 1e6)
    for _ in range(80):
        middle = (low + high) / 2
        fits = torch.minimum(middle * direction.abs(), room).norm(dim=1, keepdim=True) <= eps
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle)
    return torch.minimum(low * direction.abs(), room) * direction.sign()


@pytest.mark.parametrize("seed", range(8))
def test_columns_spend_nothing_outside_the_box(seed: int) -> None:
    """Samples at the edges of the box: many entries cannot move, and the columns that can are the ones to take."""
    eps, k, d = 0.9, 3, 9
    generator = torch.Generator().manual_seed(seed)
    model = linear(d, 2, seed)
    x = torch.rand(40, d, generator=generator).mul(1.6).sub(0.3).clamp(0, 1)
    y = model(x).argmax(1)
    direction = (1.0 - 2.0 * y[:, None]) * (model.weight[1] - model.weight[0]).detach()
    room = torch.where(direction > 0, 1 - x, x)
    clean, best = total_loss(model, x, y), -torch.inf
    for support in combinations(range(d), k):
        mask = torch.zeros(d).index_fill_(0, torch.tensor(support), 1)
        best = max(best, total_loss(model, x + filled(direction * mask, room, eps), y))
    delta = attacks.GroupSparse(eps, k=k, bounds=(0.0, 1.0), loss=CE)(model, x, y)
    assert float((x + delta).min()) >= -1e-6
    assert float((x + delta).max()) <= 1 + 1e-6
    assert total_loss(model, x + delta, y) - clean >= 0.95 * (best - clean)


def alternated(model: nn.Linear, x: Tensor, y: Tensor, eps: float, rank: int, seed: int) -> float:
    """The best total loss of 30 alternating maximisations: subspaces at random, then from the gradients, and so on."""
    generator = torch.Generator().manual_seed(seed)
    bases = torch.linalg.qr(torch.randn(30, x.shape[1], rank, generator=generator)).Q  # (30, d, rank)
    delta = eps * normalize(torch.randn(30, *x.shape, generator=generator), dim=-1)
    best = -torch.inf
    for _ in range(25):
        for _ in range(6):  # the perturbation, in a fixed subspace
            slope = slopes(model, x + delta, y)
            delta = eps * normalize(slope @ bases @ bases.mT, dim=-1)
        best = max(best, float(gains(model, x + delta, y).max()))
        slope = slopes(model, x + delta, y)
        for _ in range(4):  # the subspace, for fixed gradients: reweighted principal directions
            reached = (slope @ bases).norm(dim=-1, keepdim=True).clamp(min=1e-6)
            bases = torch.linalg.svd(slope / reached.sqrt(), full_matrices=False).Vh[:, :rank].mT
    return best


@pytest.mark.parametrize("seed", SEEDS)
def test_low_rank_reaches_the_best_of_30_alternating_maximisations(seed: int) -> None:
    model, x, y, eps = multi_class(seed)
    clean = total_loss(model, x, y)
    for rank in (1, 2):
        best = alternated(model, x, y, eps, rank, seed) - clean
        found = total_loss(model, x + attacks.LowRank(eps, rank=rank, steps=200, loss=CE)(model, x, y), y) - clean
        assert found >= 0.96 * best, (rank, found / best)


class Counted(nn.Module):
    """Counts how many samples a gradient was taken of."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.n_backward, self.n_forward = inner, 0, 0

    def forward(self, x: Tensor) -> Tensor:
        self.n_forward += 1
        if x.requires_grad:
            self.n_backward += 1
        return self.inner(x)


@pytest.fixture(scope="module")
def digits() -> tuple[nn.Module, Tensor, Tensor, float]:
    """An ELU net trained on the digits, 200 test samples, and E‖X‖."""
    table = gsat.data.load("digits")
    X, y = torch.as_tensor(table.X).float(), torch.as_tensor(table.y).long()
    model = build("elu", (64,), 10, hidden=50)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(150):
        optimizer.zero_grad()
        cross_entropy(model(X[:1400]), y[:1400]).backward()
        optimizer.step()
    return model.eval(), X[1500:1700], y[1500:1700], gsat.mean_norm(X)


def plain(model: nn.Module, x: Tensor, y: Tensor, eps: float, project: Any, *, mean: bool) -> float:
    """What one would write first: 100 steps of eps/50, projected on the structure, rows scaled; the best total loss."""
    delta, best = torch.zeros_like(x), -torch.inf
    for _ in range(100):
        point = (x + delta).requires_grad_()
        loss = cross_entropy(model(point), y, reduction="sum")
        (slope,) = torch.autograd.grad(loss, point)
        best = max(best, loss.item())
        slope = slope.mean(0, keepdim=True).expand_as(slope) if mean else slope
        delta = project(delta + eps / 50 * normalize(slope, dim=1))
        delta = delta * (eps / delta.norm(dim=1, keepdim=True).clamp(min=eps))
    return max(best, total_loss(model, x + delta, y))


def top_columns(k: int) -> Any:
    def project(v: Tensor) -> Tensor:
        return v * torch.zeros(v.shape[1]).index_fill_(0, v.norm(dim=0).topk(k).indices, 1)

    return project


def truncated(rank: int) -> Any:
    def project(v: Tensor) -> Tensor:
        left, sigma, right = torch.linalg.svd(v, full_matrices=False)
        return (left[:, :rank] * sigma[:rank]) @ right[:rank]

    return project


@pytest.mark.parametrize("fraction", [0.05, 0.2])
def test_on_a_trained_net_no_attack_is_weaker_than_a_plain_one(digits: Any, fraction: float) -> None:
    model, x, y, size = digits
    eps = fraction * size
    pairs = [
        (attacks.Universal(eps, loss=CE), lambda v: v.mean(0).expand_as(v), True),
        *((attacks.GroupSparse(eps, k=k, loss=CE), top_columns(k), False) for k in (1, 3, 10, 30)),
        *((attacks.LowRank(eps, rank=rank, loss=CE), truncated(rank), False) for rank in (1, 2, 5)),
        (attacks.PGD(eps, loss=CE), lambda v: v, False),
    ]
    for attack, project, mean in pairs:
        counted = Counted(model).eval()
        ours = total_loss(model, x + attack.perturb(counted, x, y), y)
        assert counted.n_backward <= 100, attack
        assert ours >= plain(model, x, y, eps, project, mean=mean) * (1 - 1e-4), attack
        assert ours > 1.05 * total_loss(model, x, y), attack


@pytest.mark.parametrize("steps", [1, 2, 7, 25, 50, 99])
def test_steps_bound_the_gradients(digits: Any, steps: int) -> None:
    model, x, y, size = digits
    for attack in (
        attacks.Universal(0.1 * size, steps=steps, loss=CE),
        attacks.GroupSparse(0.1 * size, k=5, steps=steps, loss=CE),
        attacks.LowRank(0.1 * size, rank=2, steps=steps, loss=CE),
        attacks.PGD(0.1 * size, steps=steps, loss=CE),
    ):
        counted = Counted(model).eval()
        delta = attack.perturb(counted, x, y)
        assert counted.n_backward <= steps
        assert total_loss(model, x + delta, y) > total_loss(model, x, y)
