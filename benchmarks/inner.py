"""How good the inner maximisers are on an ELU net trained on MNIST: value reached, and gradients to equal value.

ADMM with the paper's step η₁ = 0.1 and 20 gradients is the mark. "n" is the smallest n_inner with which a solver has at
least that objective; "20" is the gain over Δ = 0 after 20 gradients in percent of the best gain that any of the long
runs found (300 gradients of the first four solvers). Medians and worst cases over groups of 200.
"""

import argparse
import statistics

import torch
from torch.nn.functional import cross_entropy

import gsat
from gsat.data import load
from gsat.models import build

N_GROUPS, M, LONG = 5, 200, 300


def trained(X: torch.Tensor, y: torch.Tensor, n_steps: int = 3000) -> torch.nn.Module:
    model = build("elu", X.shape[1:], 10, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(n_steps):
        rows = torch.randint(len(X), (M,), generator=generator)
        optimizer.zero_grad()
        cross_entropy(model(X[rows]), y[rows]).backward()
        optimizer.step()
    return model


def gradients_to(mark: float, loss, x, cost, lam, solver) -> float:
    """The smallest n_inner whose objective is at least `mark`."""
    for n in range(1, 21):
        if gsat.maximise(loss, x, cost, lam=lam, solver=solver, n_inner=n).objective >= mark - 1e-6 * abs(mark):
            return n
    return float("inf")


def cell(counts: list[float], shares: list[float]) -> str:
    n = f"{statistics.median(counts):4g} ({max(counts):3g})"
    return f"{n} {100 * statistics.median(shares):5.1f} ({100 * min(shares):5.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=N_GROUPS)
    n_groups = parser.parse_args().groups
    table = load("mnist")
    train, test = table.train, table.test
    X, y = torch.from_numpy(train.X), torch.from_numpy(train.codes)
    model = trained(X, y)
    with torch.no_grad():
        hits = model(torch.from_numpy(test.X)).argmax(1) == torch.from_numpy(test.codes)
    print(f"ELU net, test accuracy {100 * hits.float().mean():.2f} %; {n_groups} groups of {M}")
    paper = 0.25 * float(X.flatten(1).norm(dim=1).mean())
    solvers = {
        "proximal": gsat.Proximal(),
        "from 0": gsat.Proximal(relax=0),
        "admm auto": gsat.ADMM(),
        "admm 0.1": gsat.ADMM(eta1=0.1),
        "admm 0.3": gsat.ADMM(eta1=0.3),
    }
    print(f"{'structure':<13}{'lam':>6}   " + "   ".join(f"{name:>22}" for name in solvers))
    print(" " * 22 + "   ".join(f"{'n (worst)  20 (worst)':>22}" for _ in solvers))
    for cost in (gsat.Universal(), gsat.GroupSparse(), gsat.LowRank()):
        for lam in (0.02, 0.5, paper):
            shares: dict[str, list[float]] = {name: [] for name in solvers}
            counts: dict[str, list[float]] = {name: [] for name in solvers}
            for group in range(n_groups):
                x, labels = X[group * M : (group + 1) * M], y[group * M : (group + 1) * M]

                def loss(z: torch.Tensor, labels: torch.Tensor = labels) -> torch.Tensor:
                    return cross_entropy(model(z), labels, reduction="none")

                base = float(loss(x).detach().mean())
                found = {}
                for name, solver in solvers.items():
                    try:
                        found[name] = gsat.maximise(loss, x, cost, lam=lam, solver=solver).objective
                    except FloatingPointError:
                        found[name] = base
                long = [
                    gsat.maximise(loss, x, cost, lam=lam, solver=s, n_inner=LONG).objective
                    for s in list(solvers.values())[:4]
                ]
                best = max([*long, *found.values()])
                for name, solver in solvers.items():
                    shares[name].append((found[name] - base) / (best - base) if best > base else 1.0)
                    counts[name].append(gradients_to(found["admm 0.1"], loss, x, cost, lam, solver))
            cells = [cell(counts[name], shares[name]) for name in solvers]
            print(f"{type(cost).__name__:<13}{lam:6.3g}   " + "   ".join(f"{cell:>22}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
