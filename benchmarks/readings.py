"""How many numbers training reads from the device: each of them waits for all that was asked of a GPU before.

    python benchmarks/readings.py [--group-size 200] [--features 2000]

Counted on the CPU, where the same lines run: what torch calls `_local_scalar_dense` (`item`, `float`, `bool`, `int` of
a tensor), `tolist`, and what has a shape that depends on numbers (`nonzero`, masks, `bincount`) or tells failure from
the host (`svd`, `eigh`, `cholesky`, `qr` is none of them). A step is one group of training with 5 gradients at the
most; "a gradient" is what one gradient more adds, from runs of 10 and 20 gradients of an ascent that does not end by
itself, divided by 10. Copies of the group to the device are not counted: x, y and, where there are some, batches.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import gsat
from gsat import defences
from gsat.models import build
from gsat.registry import structure_cost

WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "bincount", "_linalg_svd", "_linalg_eigh")
WAITING += ("linalg_svd", "linalg_eigh", "cholesky", "unique")
STRUCTURES = ("universal", "group-sparse", "low-rank", "unstructured")


class Counter(TorchDispatchMode):
    """Counts the calls of torch that a device must finish before the program goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, int] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        masked = name == "index" and any(isinstance(i, Tensor) and i.dtype == torch.bool for i in args[1])
        if name in WAITING or masked:
            self.count(name)
        return function(*args, **(kwargs or {}))

    def count(self, name: str) -> None:
        """One more of these."""
        self.found[name] = self.found.get(name, 0) + 1

    @property
    def total(self) -> int:
        """All that were counted."""
        return sum(self.found.values())


@contextmanager
def counted() -> Iterator[Counter]:
    """A block in which readings are counted."""
    before, counter = Tensor.tolist, Counter()

    def told(v: Tensor) -> Any:
        counter.count("tolist")
        return before(v)

    Tensor.tolist = told
    try:
        with counter:
            yield counter
    finally:
        Tensor.tolist = before


def problem(kind: str, m: int, d: int) -> tuple[torch.nn.Module, Tensor, Tensor]:
    """A network, and a group of samples with labels."""
    generator = torch.Generator().manual_seed(0)
    shape = (3, 32, 32) if kind == "alexnet" else (d,)
    options = {"width": 1 / 16} if kind == "alexnet" else {}
    x = torch.randn(m, *shape, generator=generator)
    return build(kind, shape, 4, seed=0, **options), x, torch.arange(m) % 4


def of_a_gradient(structure: str, kind: str, m: int, d: int) -> float:
    """Readings that a gradient more adds to an ascent that does not end by itself."""
    model, x, y = problem(kind, m, d)
    found = []
    for n_inner in (10, 20):
        adversary = gsat.Adversary(structure_cost(structure, group_size=m), lam=1e-2, n_inner=n_inner)
        with counted() as counter:
            adversary(model, x, y)
        found.append((counter.total, adversary.last.n_gradients))
    (few, first), (many, last) = found
    return (many - few) / (last - first)


def of_a_step(defence: defences.Defence, kind: str, m: int, d: int) -> float:
    """Readings of one step of training, without those of the first and the last."""
    model, x, y = problem(kind, m, d)
    found = []
    for n_outer in (4, 8):
        with counted() as counter:
            gsat.gdadmm(model, x, y, defence, n_outer=n_outer, group_size=m, log_every=n_outer)
        found.append(counter.total)
    return (found[1] - found[0]) / 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group-size", type=int, default=200)
    parser.add_argument("--features", type=int, default=2000)
    options = parser.parse_args()
    m, d = options.group_size, options.features
    print(f"groups of {m}, {d} features for the ELU net; readings of a gradient, of a step with 5 gradients")
    for kind in ("elu", "alexnet"):
        for structure in STRUCTURES:
            defence = defences.GSAT(structure_cost(structure, group_size=m), n_inner=5)
            print(f"{kind:8} {structure:14}{of_a_gradient(structure, kind, m, d):8.1f}", end="")
            print(f"{of_a_step(defence, kind, m, d):8.1f}", flush=True)
        for name, other in {"PGD": defences.PGD(0.1, steps=5), "ERM": defences.ERM()}.items():
            print(f"{kind:8} {name:14}       -{of_a_step(other, kind, m, d):8.1f}", flush=True)


if __name__ == "__main__":
    main()
