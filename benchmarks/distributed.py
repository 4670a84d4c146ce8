"""Several processes: what is sent for one group, and how long it takes, by structure; the cost of 50 machines on paper.

    python benchmarks/distributed.py [--features 500 --hidden 50 --group-size 400 --out results/distributed.csv]

Bytes and exchanges: one group over two processes (group="shared"), for each gradient of the inner problem, without
those of the weights. "layer" is a network that begins with a linear layer, in whose row space (hidden) the problem is
solved; "plain" one of which that is not known. Times: the same group in 1, 2 and 4 processes of one thread each, the
median over groups: by the clock on the wall, which asks for as many free cores as there are processes, and the seconds
of processor time of the busiest process, which other work on the machine hardly changes and in which nobody waits.
Model: gradients x (exchanges x latency + bytes / bandwidth), each exchange a ring of 2·(R − 1)
messages for R machines.
"""

import argparse
import csv
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import gsat
from timing import processor

COSTS = {
    "universal": gsat.Universal(),
    "group-sparse": gsat.GroupSparse(),
    "low-rank": gsat.LowRank(),
    "unstructured": gsat.Unstructured(),
}
MACHINES = 50
LATENCY = 50e-6  # seconds of a message between machines of a cluster, TCP on 10 Gbit Ethernet
BANDWIDTH = 1.25e9  # bytes in a second


class Plain(nn.Module):
    """The network, without saying that it begins with a linear layer."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class Counted:
    """all_reduce of torch.distributed, counted."""

    def __init__(self) -> None:
        self.n, self.size, self.inner = 0, 0, dist.all_reduce
        dist.all_reduce = self

    def __call__(self, v: torch.Tensor, *args, **options) -> None:
        self.n, self.size = self.n + 1, self.size + v.numel() * v.element_size()
        self.inner(v, *args, **options)


def work(rank: int, world: int, folder: str, m: int, options: argparse.Namespace) -> None:
    """Each structure on each path: gradients, exchanges, bytes and seconds for a group, into a file."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet{world}", rank=rank, world_size=world)
    torch.manual_seed(0)
    d = options.features
    net = nn.Sequential(nn.Linear(d, options.hidden), nn.ELU(), nn.Linear(options.hidden, 5))
    y = torch.randint(5, (m,))
    x = torch.randn(m, d) + 2 * nn.functional.one_hot(y, d)
    rows = slice(rank * m // world, (rank + 1) * m // world)
    counted, found = Counted(), {}
    for path, model in (("layer", net), ("plain", Plain(net))):
        for name, cost in COSTS.items():
            adversary = gsat.Adversary(cost, lam=0.05, solver=gsat.Proximal(residual=False), n_inner=8, group="shared")
            seconds, busy = [], []
            for _ in range(options.groups):
                counted.n = counted.size = 0
                dist.barrier()
                begin, spent = time.perf_counter(), time.process_time()
                adversary(model, x[rows], y[rows])
                busy.append(time.process_time() - spent)
                seconds.append(time.perf_counter() - begin)
            most = torch.tensor(statistics.median(busy))
            counted.inner(most, op=dist.ReduceOp.MAX)
            times = (statistics.median(seconds), float(most))
            found[path, name] = (adversary.last.n_gradients, counted.n, counted.size, times)
    if rank == 0:
        torch.save(found, f"{folder}/{world}.pt")
    dist.destroy_process_group()


def on_paper(gradients: int, exchanges: int, size: int) -> float:
    """Seconds of what is sent for one group over MACHINES: a ring of small messages, and each byte twice."""
    return exchanges * 2 * (MACHINES - 1) * LATENCY + 2 * size / BANDWIDTH


def measured(m: int, options: argparse.Namespace) -> dict[int, dict[tuple[str, str], tuple]]:
    """What 1, 2 and 4 processes need for a group of m samples, printed."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for world in (1, 2, 4):
            mp.start_processes(work, (world, folder, m, options), nprocs=world, start_method="fork")
            found[world] = torch.load(Path(folder) / f"{world}.pt")
    print(f"{m} samples, {options.features} features, {options.hidden} hidden units, one thread each")
    print(
        f"{'':42}exchanges and bytes   wall, ms, in 1, 2, 4 processes     processor, ms         {MACHINES} machines, ms"
    )
    for key, (gradients, exchanges, size, _) in found[2].items():
        wall, busy = ("".join(f"{1000 * found[world][key][3][clock]:9.1f}" for world in (1, 2, 4)) for clock in (0, 1))
        print(
            f"{key[0]:7}{key[1]:14}{gradients:3} gradients{exchanges / gradients:16.1f}{size / gradients:12.0f}"
            f"{wall:>30}{busy:>30}{1000 * on_paper(gradients, exchanges, size):12.0f}"
        )
    print("exchanges and bytes are for each gradient")
    return found


def write(options: argparse.Namespace, tables: list[tuple[int, dict[int, dict[tuple[str, str], tuple]]]]) -> None:
    """The tables as one, and beside it the sizes, the machine, and how much else was running."""
    rows = []
    for m, found in tables:
        for (path, structure), (gradients, exchanges, size, _) in found[2].items():
            row = {"group_size": m, "model": path, "structure": structure, "gradients": gradients}
            row |= {"exchanges": round(exchanges / gradients, 2), "bytes": round(size / gradients)}
            for clock, name in enumerate(("wall", "processor")):
                times = {world: found[world][path, structure][3][clock] for world in found}
                row |= {f"{name}_ms_{world}": round(1000 * seconds, 1) for world, seconds in times.items()}
            rows.append(row | {f"machines_{MACHINES}_ms": round(1000 * on_paper(gradients, exchanges, size))})
    with options.out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    about = {name: value for name, value in vars(options).items() if name != "out"} | {"torch": torch.__version__}
    about |= {"processor": processor(), "cores": os.cpu_count(), "load": os.getloadavg()[1]}
    options.out.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--hidden", type=int, default=50)
    parser.add_argument("--group-size", type=int, nargs="+", default=[400])
    parser.add_argument("--groups", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a table (CSV) of what is printed, and a JSON of the machine")
    options = parser.parse_args()
    tables = [(m, measured(m, options)) for m in options.group_size]
    if options.out is not None:
        write(options, tables)


if __name__ == "__main__":
    main()
