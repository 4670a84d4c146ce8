"""How much the attack matters: the 50-column attack as one would write it first, and ours, on the same models.

The first projects on the 50 longest columns after each of 100 small steps, and so keeps the columns it began with;
`gsat.attacks.GroupSparse` chooses them anew. MNIST, ELU net, eps = 0.2·E‖X‖, 1,000 test images in groups of 200;
mean and standard deviation over seeds of the accuracy in percent.
"""

import argparse
import statistics

import torch
from torch.nn.functional import cross_entropy, normalize

import gsat
from gsat import attacks, defences
from gsat.data import load
from gsat.models import build

K, EPS, M = 50, 0.2, 200


def first_idea(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, eps: float) -> torch.Tensor:
    """100 steps of eps/50, each followed by the projection; the iterate with the largest loss."""
    delta = best = torch.zeros_like(x)
    highest = -torch.inf
    for _ in range(100):
        point = (x + delta).requires_grad_()
        loss = cross_entropy(model(point), y, reduction="sum")
        (slope,) = torch.autograd.grad(loss, point)
        if loss.item() > highest:
            best, highest = delta, loss.item()
        delta = delta + eps / 50 * normalize(slope, dim=1)
        kept = torch.zeros(x.shape[1]).index_fill_(0, delta.norm(dim=0).topk(K).indices, 1)
        delta = delta * kept
        delta = delta * (eps / delta.norm(dim=1, keepdim=True).clamp(min=eps))
    return best


def accuracy(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, attack) -> float:
    hits = 0
    for begin in range(0, len(x), M):
        part, labels = x[begin : begin + M], y[begin : begin + M]
        with torch.no_grad():
            moved = part if attack is None else part + attack(model, part, labels)
            hits += int((model(moved).argmax(1) == labels).sum())
    return 100 * hits / len(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--n-outer", type=int, default=1500)
    options = parser.parse_args()
    table = load("mnist")
    X, y = torch.from_numpy(table.train.X).flatten(1), torch.from_numpy(table.train.codes)
    test, labels = torch.from_numpy(table.test.X[:1000]).flatten(1), torch.from_numpy(table.test.codes[:1000])
    unit = gsat.mean_norm(X)
    trained_with = {
        "PGD, eps 0.15": defences.PGD(0.15 * unit),
        "50 columns, eps 0.3": defences.Structured(attacks.GroupSparse(0.3 * unit, k=K, steps=20)),
    }
    judged_by = {
        "clean": None,
        "first idea": torch.enable_grad()(lambda model, x, y: first_idea(model, x, y, EPS * unit)),
        "gsat": attacks.GroupSparse(EPS * unit, k=K).perturb,
    }
    print(f"{'trained with':<22}" + "".join(f"{name:>16}" for name in judged_by))
    for name, defence in trained_with.items():
        found: dict[str, list[float]] = {key: [] for key in judged_by}
        for seed in range(options.seeds):
            model = build("elu", (X.shape[1],), 10, seed=seed)
            draws = torch.Generator().manual_seed(seed)
            gsat.gdadmm(model, X, y, defence, n_outer=options.n_outer, eta0=2e-3, schedule="cosine", generator=draws)
            for key, attack in judged_by.items():
                found[key].append(accuracy(model.eval(), test, labels, attack))
        spread = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in found.values()]
        cells = [f"{statistics.mean(v):.1f} ± {s:.1f}" for v, s in zip(found.values(), spread, strict=True)]
        print(f"{name:<22}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
