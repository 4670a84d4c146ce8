"""The paper's table on a GPU: accuracy of each defence under each attack, and the seconds of a step of training.

    python benchmarks/gpu.py [--device cuda] [--data mnist] [--n-outer 10000] [--solver admm] [--tf32] [--bf16]
    python benchmarks/gpu.py --device cpu --quick     # does it run here? narrow networks, a few groups

The AlexNet of the paper, trained with groups of 200 and 20 inner gradients, Adam 1e-4, λ = 0.25·E‖X‖ for GSAT; then eps
of the baselines is the mean norm that GSAT used, the paper's rule. Attacks of `--eps` times E‖X‖: one shift for all
test images, 50 columns, rank 3, and PGD. The seconds are the median over the steps, with the device waited for after
each, and their ratio to PGD stands beside the paper's (Tesla V100). The paper's solver is `--solver admm`, which takes
all 20 gradients; "proximal", the default, ends where the perturbation has settled.

--tf32: float32 products on tensor cores, with 10 bits of mantissa. --bf16: the network computes in bfloat16 (autocast)
in training; perturbations, costs and attacks stay in float32. Both are for CUDA alone.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

import gsat
from gsat import attacks, defences
from gsat.models import build
from gsat.registry import structure_cost

PAPER = {("mnist", "group-sparse"): 1.35, ("mnist", "low-rank"): 1.24}
PAPER |= {("cifar10", "group-sparse"): 1.19, ("cifar10", "low-rank"): 1.65}
STRUCTURES = ("universal", "group-sparse", "low-rank")
QUICK = {"n_outer": 6, "n_inner": 3, "group_size": 40, "n_test": 60, "steps": 5, "width": 1 / 16}


class InBfloat16(nn.Module):
    """The network under autocast, for float32 samples and outputs."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return self.net(x).float()


def trained(
    defence: defences.Defence, X: Tensor, y: Tensor, options: argparse.Namespace
) -> tuple[nn.Module, float, float]:
    """The network, the median seconds of a step, and the mean ‖δ_i‖ of the last tenth of them."""
    net = build("alexnet", X.shape[1:], 10, seed=options.seed, width=options.width).to(options.device)
    ends: list[float] = []

    def clock(step: object, model: nn.Module) -> None:
        if options.device.startswith("cuda"):
            torch.cuda.synchronize()
        ends.append(time.perf_counter())

    history = gsat.gdadmm(
        InBfloat16(net) if options.bf16 else net,
        X,
        y,
        defence,
        n_outer=options.n_outer,
        group_size=options.group_size,
        eta0=options.eta0,
        lam="paper" if options.lam == "paper" else "auto",
        generator=torch.Generator().manual_seed(options.seed),
        callbacks=[clock],
    )
    steps = [end - begin for begin, end in pairwise(ends)]
    return net.eval(), statistics.median(steps), history.mean_norm


def makers(options: argparse.Namespace) -> dict[str, Callable[[float], defences.Defence]]:
    """Each defence, by the eps of the baselines; those of GSAT first, whose norm that eps is."""
    n = options.n_inner
    return {
        **{
            f"GSAT {name}": lambda eps, name=name: defences.GSAT(
                structure_cost(name, group_size=options.group_size), solver=options.solver, n_inner=n
            )
            for name in STRUCTURES
        },
        "ERM": lambda eps: defences.ERM(),
        "FGSM": lambda eps: defences.FGM(eps, direction="sign"),
        "FGM": lambda eps: defences.FGM(eps),
        "PGD": lambda eps: defences.PGD(eps, steps=n),
    }


def accuracies(net: nn.Module, X: Tensor, y: Tensor, eps: float, options: argparse.Namespace) -> list[float]:
    """In percent: clean, one shift for all, 50 columns, rank 3, PGD."""
    steps = options.steps
    found = gsat.evaluate(
        net,
        X,
        y,
        {
            "universal": attacks.Universal(eps, steps=steps),
            "columns": attacks.GroupSparse(eps, k=50, steps=steps),
            "rank": attacks.LowRank(eps, rank=3, steps=steps),
            "pgd": attacks.PGD(eps, steps=steps),
        },
        strength=options.strength,
    ).set_index("attack")["accuracy"]
    return [100 * found[name] for name in ("none", "universal-all", "columns", "rank", "pgd")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda, cuda:1, ... or cpu"
    )
    parser.add_argument("--data", choices=["mnist", "cifar10"], default="mnist")
    parser.add_argument("--eps", type=float, default=0.05, help="of the attacks, as a fraction of E‖X‖")
    parser.add_argument("--n-outer", type=int, default=10_000)
    parser.add_argument("--n-inner", type=int, default=20)
    parser.add_argument("--group-size", type=int, default=200)
    parser.add_argument("--eta0", type=float, default=1e-4)
    parser.add_argument("--solver", choices=["proximal", "admm"], default="proximal")
    parser.add_argument("--lam", choices=["paper", "auto"], default="paper")
    parser.add_argument("--n-test", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=100, help="gradients of an attack")
    parser.add_argument("--strength", choices=["fast", "standard", "strong"], default="fast")
    parser.add_argument("--width", type=float, default=1.0, help="of the AlexNet")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.device != "cpu" and not options.device.startswith("cuda"):
        parser.error(f"--device must be cpu, cuda or cuda:NUMBER, got {options.device}")
    if (options.tf32 or options.bf16) and not options.device.startswith("cuda"):
        parser.error(f"--tf32 and --bf16 are for CUDA, got --device {options.device}")
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error(f"this torch ({torch.__version__}) finds no CUDA device, got --device {options.device}")
    if options.quick:
        vars(options).update(QUICK)
    if options.tf32:
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    table = gsat.data.load(options.data)
    train, test = table.train, table.test
    X, y = torch.as_tensor(train.X).to(options.device), torch.as_tensor(train.codes).to(options.device)
    X_test, y_test = torch.as_tensor(test.X[: options.n_test]), torch.as_tensor(test.codes[: options.n_test])
    unit = gsat.mean_norm(train.X)
    by = torch.cuda.get_device_name() if options.device.startswith("cuda") else f"{torch.get_num_threads()} threads"
    print(
        f"{options.data}, {options.device} ({by}), torch {torch.__version__}, tf32={options.tf32}, bf16={options.bf16}"
    )
    print(
        f"{options.n_outer} groups of {options.group_size}, {options.n_inner} gradients, attacks of {options.eps}·E‖X‖"
    )
    seconds, rows, norms = {}, {}, []
    for what, make in makers(options).items():
        eps = statistics.fmean(norms) if norms else 0.05 * unit
        net, seconds[what], norm = trained(make(eps), X, y, options)
        if what.startswith("GSAT"):
            norms.append(norm)
        rows[what] = accuracies(net, X_test, y_test, options.eps * unit, options)
        print(f"{what}: trained and attacked", flush=True)
    print(f"{'defence':18}   clean  universal  50 columns  rank 3     PGD   s a step  PGD = 1  paper")
    for what, found in rows.items():
        paper = PAPER.get((options.data, what.removeprefix("GSAT ")))
        print(
            f"{what:18}{found[0]:8.1f}{found[1]:11.1f}{found[2]:12.1f}{found[3]:8.1f}{found[4]:8.1f}"
            f"{seconds[what]:11.4f}{seconds[what] / seconds['PGD']:9.2f}{'' if paper is None else f'{paper:7.2f}'}"
        )


if __name__ == "__main__":
    main()
