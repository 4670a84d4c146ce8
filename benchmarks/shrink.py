"""Time of the nuclear shrink at 200 x 20,531: ours, through a full SVD, and one gradient of a 100-unit ELU net.

Then with the subspace of the last matrix as a start, at ranks that are small, and at the sizes that training has.
"""

import torch
from torch.nn.functional import cross_entropy

from gsat import LowRank
from gsat.models import ELUNet
from timing import alternate

M, D, ROUNDS = 200, 20_531, 7


def by_svd(v: torch.Tensor, tau: float) -> torch.Tensor:
    left, sigma, right = torch.linalg.svd(v, full_matrices=False)
    return (left * (sigma - tau).clamp(min=0)) @ right


def main() -> None:
    torch.manual_seed(0)
    model = ELUNet(D, 5)
    x, y = torch.randn(M, D), torch.randint(5, (M,))
    spectrum = torch.logspace(0, -3, M)
    v = torch.linalg.qr(torch.randn(M, M)).Q * spectrum @ torch.linalg.qr(torch.randn(D, M)).Q.T
    cost = LowRank()

    def gradient() -> torch.Tensor:
        point = x.clone().requires_grad_()
        return torch.autograd.grad(cross_entropy(model(point), y, reduction="sum"), point)[0]

    print(f"nuclear shrink of {M} x {D} float32, medians of {ROUNDS} alternating rounds")
    heads = ("tau/sigma1", "ours ms", "svd ms", "gradient ms", "svd/ours", "ours/gradient", "error")
    print("  ".join(f"{head:>13}" for head in heads))
    for tau in (0.3, 0.03, 0.003):
        jobs = {"ours": lambda: cost.shrink(v, tau), "svd": lambda: by_svd(v, tau), "gradient": gradient}  # noqa: B023
        times = alternate(jobs, ROUNDS)
        ours, svd, grad = (1000 * times.median(name) for name in jobs)
        exact = by_svd(v.double(), tau)
        error = float((cost.shrink(v, tau) - exact).norm() / exact.norm())
        ratios = (f"{times.ratio('svd', 'ours').median:.1f}", f"{times.ratio('ours', 'gradient').median:.2f}")
        cells = (f"{tau:g}", *(f"{v:.1f}" for v in (ours, svd, grad)), *ratios, f"{error:.1e}")
        print("  ".join(f"{text:>13}" for text in cells))
    remembered()


def remembered() -> None:
    """Nine directions that turn a little from one matrix to the next, above a tail that is a tenth of tau."""
    print("\nshrink to rank 9 from the last subspace, against none remembered")
    print("  ".join(f"{head:>13}" for head in ("shape", "warm ms", "cold ms", "warm/cold", "difference")))
    for m, d in ((200, 100), (200, 784), (200, 3_072), (200, 20_531)):
        sigma = torch.cat([torch.linspace(5, 3, 9), torch.full((91,), 0.1)])
        left, right = torch.linalg.qr(torch.randn(m, 100)).Q, torch.linalg.qr(torch.randn(d, 100)).Q
        turned = torch.linalg.qr(left + 0.01 * torch.randn(m, 100)).Q
        first, second = (frame * sigma @ right.T for frame in (left, turned))
        cold, warm = LowRank(), LowRank().remembering()

        def shrinks(cost: LowRank) -> None:
            for v in (first, second) * 5:  # noqa: B023
                cost.shrink(v, 1.0)

        jobs = {"warm": lambda: shrinks(warm), "cold": lambda: shrinks(cold)}  # noqa: B023
        times = alternate(jobs, ROUNDS)
        difference = float((warm.shrink(second, 1.0) - cold.shrink(second, 1.0)).norm() / second.norm())
        ratio = times.ratio("warm", "cold").median
        cells = (f"{m} x {d}", *(f"{100 * times.median(k):.2f}" for k in jobs), f"{ratio:.2f}", f"{difference:.0e}")
        print("  ".join(f"{text:>13}" for text in cells))


if __name__ == "__main__":
    main()
