"""The linear programs of group transport: atoms, groups of atoms, what pairs of groups cost, and their constraints."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack
from torch import Tensor

from gsat import _checks
from gsat.costs import GroupCost, PerBatch

Array = NDArray[Any]
MOST = 1_000_000  # pairs of groups: each takes about 40 µs to price, and the program minutes to solve


@dataclass(frozen=True, eq=False)
class Problem:
    """The atoms and the size of the groups: the pairs of groups, what they cost, and the constraints on a plan."""

    x: Tensor
    z: Tensor
    m: int
    n_x: int
    n_z: int

    @classmethod
    def of(cls, x: Any, z: Any, cost: Any, m: Any, *, group: bool = False) -> Problem:
        """The problem, with inputs and size checked; with `group`, x is one group, not the atoms of P."""
        name = "x_group" if group else "x"
        x, z, m = atoms_of(name, x), atoms_of("z", z), _checks.count("m", m, least=1)
        if x.shape[1:] != z.shape[1:]:
            raise ValueError(f"z must have the features of {name} {tuple(x.shape[1:])}, got {tuple(z.shape[1:])}")
        if isinstance(cost, PerBatch):
            raise ValueError(
                f"cost must be permutation invariant, got {cost!r}, which needs the batches of a group; "
                f"take the cost of one batch, {cost.cost!r}"
            )
        _checks.methods("cost must be", cost, "value")
        sources, targets = 1 if group else len(x) ** m, len(z) ** m
        if sources * targets > MOST:
            size = f"{sources * targets:,} variables and {sources + m * len(z):,} constraints"
            raise ValueError(
                f"{'groups to try' if group else 'variables of the program'} must be at most {MOST:,}, got "
                f"{f'{targets:,}' if group else size} for {len(x)} atoms of x, {len(z)} of z and m = {m}; "
                "take fewer atoms or smaller groups"
            )
        # the coarser dtype: the tolerance of a cost must be that of the rounding in z − x
        dtype = max(x.dtype, z.dtype, key=lambda one: torch.finfo(one).eps)
        return cls(x.to(dtype), z.to(x.device, dtype), m, len(x), len(z))

    def group_weights(self, p: Any) -> Array:
        """The probability of each group under P^m."""
        weights: Array = weights_of("p", p, self.n_x)[all_groups(self.n_x, self.m)].prod(1)
        return weights

    def evaluate(self, cost: GroupCost, sources: Array, targets: Array) -> Array:
        """c(z[target] − x[source]) for each source (rows) and target (columns), both given by the atoms' numbers."""
        shifts = (self.z[None] - self.x[:, None]).flatten(0, 1)
        members = torch.from_numpy((sources[:, None] * self.n_z + targets).reshape(-1, self.m)).to(shifts.device)
        with torch.no_grad():
            values = np.array([float(cost.value(shifts[index])) for index in members])
        if not (values >= 0).all():
            raise ValueError(f"cost must be >= 0, got {values[~(values >= 0)][0]}")
        return values.reshape(len(sources), len(targets))

    def table(self, cost: GroupCost) -> Array:
        """The cost of every pair of groups, (n_x^m, n_z^m)."""
        return self.evaluate(cost, all_groups(self.n_x, self.m), all_groups(self.n_z, self.m))

    def require_invariance(self, table: Array) -> None:
        """Raise where the cost depends on the order of the samples."""
        if self.n_x == self.n_z == 1:
            return
        m, tolerance = self.m, 1e-9 if self.x.dtype == torch.float64 else 1e-4
        cube = table.reshape((self.n_x,) * m + (self.n_z,) * m)
        for i in range(m - 1):
            order = [*range(i), i + 1, i, *range(i + 2, m)]
            swapped = cube.transpose([*order, *(m + axis for axis in order)])
            wrong = ~np.isclose(cube, swapped, rtol=tolerance, atol=tolerance * unit_of(table))
            if wrong.any():
                where = tuple(np.argwhere(wrong)[0])
                raise ValueError(
                    f"cost must be permutation invariant, got c = {cube[where]:g}, and {swapped[where]:g} "
                    f"with the samples in the order {order}"
                )

    def constraints(self, pairs: tuple[Array, ...]) -> Any:
        """The rows that sum a plan, given at `pairs`, to the law of x^m, then to those of z_1, z_2, and so on."""
        members = all_groups(self.n_z, self.m)[pairs[1]]
        marginals = [ones(members[:, i], self.n_z) for i in range(self.m)]
        return vstack([ones(pairs[0], self.n_x**self.m), *marginals])


def atoms_of(name: str, value: Any) -> Tensor:
    """`value`, a tensor or an array (n, *features), as a finite floating-point tensor."""
    if not isinstance(value, Tensor):
        array = np.array(value, order="C")
        value = torch.from_numpy(array if array.dtype.kind == "f" else array.astype(np.float64))
    atoms = _checks.group(name, value.detach() if value.is_floating_point() else value.double())
    if not bool(atoms.isfinite().all()):
        raise ValueError(f"{name} must be finite, got {float(atoms[~atoms.isfinite()][0])}")
    return atoms


def per_atom(name: str, value: Any, n: int) -> Array:
    """`value` as n finite numbers."""
    array = np.array(value.detach().cpu().numpy() if isinstance(value, Tensor) else value, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name} must have one entry per atom ({n}), got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def weights_of(name: str, value: Any, n: int) -> Array:
    """`value` as the weights of n atoms; what is left of their sum to 1 after rounding is taken out."""
    array = per_atom(name, value, n)
    if array.min() < 0:
        raise ValueError(f"{name} must be >= 0, got {array.min()}")
    if abs(array.sum() - 1) > 1e-6:
        raise ValueError(f"{name} must sum to 1, got {array.sum()}")
    array /= array.sum()
    return array


def all_groups(n: int, m: int) -> Array:
    """All groups of m of n atoms, (n^m, m), in lexicographic order."""
    return np.array(list(itertools.product(range(n), repeat=m)))


def up_to_order(n: int, m: int) -> tuple[Array, Array]:
    """The groups with their members in order (their numbers), and which of these each group of m of n atoms is."""
    _, first, number = np.unique(np.sort(all_groups(n, m), axis=1), axis=0, return_index=True, return_inverse=True)
    return first, number.ravel()


def unit_of(table: Array) -> float:
    """The geometric mean of the finite positive entries: programs are solved in units of it, to 1e-10."""
    usual = table[np.isfinite(table) & (table > 0)]
    return float(np.exp(np.log(usual).mean())) if usual.size else 1.0


def ones(rows: Array, n: int) -> Any:
    """A matrix with n rows whose j-th column has its one in row rows[j]."""
    return coo_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(n, len(rows)))


def solve(c: Array, **program: Any) -> Any:
    """The answer of scipy to min c·v, or None where there is no optimum: nothing feasible, or no bound."""
    if len(c) == 0:  # no pair of groups has a finite cost
        return None
    for presolve in (True, False):  # it may leave open which of the two it is, and rarely gives up
        options = {"presolve": presolve, "primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        found = linprog(c, method="highs", options=options, **program)
        if found.status in (0, 2, 3):
            return found if found.status == 0 else None
    raise RuntimeError(f"the linear program was not solved: {found.message}")
