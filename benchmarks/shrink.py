"""Time of the nuclear shrink at 200 x 20,531: ours, through a full SVD, and one gradient of a 100-unit ELU net."""

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


if __name__ == "__main__":
    main()
