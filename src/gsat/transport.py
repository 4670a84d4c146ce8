"""Group optimal transport between discrete distributions, by linear programs over whole groups.

P has the atoms x (n_x, *features) with weights p, Q the atoms z (n_z, *features) with weights q. A group of m samples
drawn independently from P is moved to a group whose every sample has the law Q, however they depend on each other:

    W(P, Q) = inf E[c(Z^m − X^m)]/m     over the couplings of P^m with a law on z^m whose m marginals are all Q

There are n_x^m·n_z^m pairs of groups: this is for checking theory on small problems, not for data.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, hstack, vstack
from torch import Tensor

from gsat import _checks
from gsat.costs import GroupCost, PerBatch

Array = NDArray[Any]
MOST = 1_000_000  # pairs of groups: each takes about 40 µs to price, and the program minutes to solve


@dataclass(frozen=True)
class _Value:
    value: float

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, eq=False)
class Transport(_Value):
    """The cost W(P, Q), and what attains it: the `plan` of the primal or the `potential` of the dual.

    `plan` is sparse, (n_x^m, n_z^m): the probability of moving one group to the other. Groups are numbered as
    `itertools.product(range(n), repeat=m)` lists them. `potential` is D at the atoms z, with D(z[0]) = 0. Where no plan
    has a finite cost the value is inf and both are None.
    """

    plan: Any = None
    potential: Array | None = None


@dataclass(frozen=True, eq=False)
class Transform(_Value):
    """A c_m-transform and the group that attains it: sample i goes to z[index[i]] (None where the value is -inf)."""

    index: Array | None


@dataclass(frozen=True, eq=False)
class WorstRisk(_Value):
    """The largest risk and the weights q of a law Q that attains it (None where the value is -inf)."""

    q: Array | None


def primal(x: Any, p: Any, z: Any, q: Any, cost: GroupCost, m: int) -> Transport:
    """W(P, Q) from its definition: the cheapest plan, with a constraint for each of the m marginals."""
    problem = _Problem.of(x, z, cost, m)
    weights, q = problem.group_weights(p), _weights("q", q, problem.n_z)
    table = problem.table(cost)
    scale, pairs = _unit(table), np.nonzero(np.isfinite(table))
    laws = np.append(weights, np.tile(q, m))
    found = _solve(table[pairs] / (m * scale), A_eq=problem.constraints(pairs), b_eq=laws, bounds=(0, None))
    if found is None:
        return Transport(math.inf)
    plan = csr_array(coo_array((found.x, pairs), shape=table.shape))
    plan.eliminate_zeros()
    return Transport(max(0.0, found.fun * scale), plan=plan)


def dual(x: Any, p: Any, z: Any, q: Any, cost: GroupCost, m: int) -> Transport:
    """W(P, Q) by Theorem 1, with a single potential D: max_D E_Q[D] − E_{P^m}[D^{c_m}].

    D^{c_m}(x^m) = max over z^m of (1/m)[Σ_i D(z_i) − c(z^m − x^m)] is the same for every order of x^m, so only ordered
    groups of x are kept; Σ_i D(z_i) is the same for every order of z^m, so only the cheapest one is.
    """
    problem = _Problem.of(x, z, cost, m)
    weights, q = problem.group_weights(p), _weights("q", q, problem.n_z)
    table = problem.table(cost)
    problem.require_invariance(table)

    first, number = _up_to_order(problem.n_x, m)
    weights = np.bincount(number, weights)
    first_z, number_z = _up_to_order(problem.n_z, m)
    cheapest = np.full((len(first), len(first_z)), math.inf)
    np.minimum.at(cheapest.T, number_z, table[first].T)

    scale, (source, target) = _unit(cheapest), np.nonzero(np.isfinite(cheapest))
    members = _groups(problem.n_z, m)[first_z[target]]
    mean_potential = sum(_ones(members[:, i], problem.n_z) for i in range(m)).T / m
    found = _solve(  # the variables are D and, for each group of x, what D^{c_m} is at least
        np.concatenate([-q, weights]),
        A_ub=hstack([mean_potential, -_ones(source, len(first)).T]),
        b_ub=cheapest[source, target] / (m * scale),
        bounds=[(0, 0), *[(None, None)] * (problem.n_z - 1 + len(first))],
    )
    if found is None:
        return Transport(math.inf)
    return Transport(max(0.0, -found.fun * scale), potential=found.x[: problem.n_z] * scale)


def c_transform(loss_z: Any, x_group: Any, z: Any, cost: GroupCost, lam: float) -> Transform:
    """The largest value over groups z^m of (1/m)[Σ_i loss_z[z_i] − lam·c(z^m − x_group)], by trying all n_z^m of them.

    `loss_z` (n_z,) is the loss at each atom of z, `x_group` is (m, *features). Among equals the first group counts.
    """
    x_group = _atoms("x_group", x_group)
    m, lam = len(x_group), _checks.number("lam", lam, above=0)
    problem = _Problem.of(x_group, z, cost, m, group=True)
    losses, targets = _per_atom("loss_z", loss_z, problem.n_z), _groups(problem.n_z, m)
    values = (losses[targets].sum(1) - lam * problem.evaluate(cost, np.arange(m)[None], targets)[0]) / m
    best = int(values.argmax())
    return Transform(float(values[best]), targets[best] if np.isfinite(values[best]) else None)


def worst_risk(loss_z: Any, x: Any, p: Any, z: Any, cost: GroupCost, m: int, lam: float) -> WorstRisk:
    """max_Q E_Q[ℓ] − lam·W(P, Q) over the laws Q on the atoms z: one linear program over Q and the plan.

    This is the left side of Theorem 2, from its definition. The right side is the mean of `c_transform` over the groups
    of P^m; for a cost that depends on the order of the samples it may be larger.
    """
    lam = _checks.number("lam", lam, above=0)
    return _largest_risk(loss_z, p, _Problem.of(x, z, cost, m), cost, lam=lam)


def worst_risk_within(loss_z: Any, x: Any, p: Any, z: Any, cost: GroupCost, m: int, radius: float) -> WorstRisk:
    """The largest E_Q[ℓ] over the laws Q on the atoms z with W(P, Q) ≤ radius: one linear program over Q and the plan.

    By the duality of linear programs it is the least lam·radius + max_Q {E_Q[ℓ] − lam·W(P, Q)} over lam > 0, the bound
    that `gsat.certify` computes for a model. The value is -inf where no Q is that near.
    """
    radius = _checks.number("radius", radius, least=0)
    return _largest_risk(loss_z, p, _Problem.of(x, z, cost, m), cost, radius=radius)


def _largest_risk(
    loss_z: Any, p: Any, problem: _Problem, cost: GroupCost, *, lam: float = 0.0, radius: float = math.inf
) -> WorstRisk:
    """The largest E_Q[ℓ] − lam·W over plans that cost at most `radius` and have m equal marginals Q on z."""
    m, n_z = problem.m, problem.n_z
    weights, losses = problem.group_weights(p), _per_atom("loss_z", loss_z, n_z)
    table = problem.table(cost)
    unit, pairs = _unit(table), np.nonzero(np.isfinite(table))
    paid = table[pairs] / (m * unit)
    minus_q = vstack([coo_array((len(weights), n_z)), *[-coo_array(np.eye(n_z))] * m])
    gain = np.concatenate([-lam * unit * paid, losses])
    scale = _unit(np.abs(gain))
    program = {
        "A_eq": hstack([problem.constraints(pairs), minus_q]),
        "b_eq": np.append(weights, np.zeros(m * n_z)),
        "bounds": (0, None),
    }
    if radius < math.inf:
        program |= {"A_ub": coo_array(np.append(paid, np.zeros(n_z))[None]), "b_ub": [radius / unit]}
    found = _solve(-gain / scale, **program)
    if found is None:
        return WorstRisk(-math.inf, None)
    return WorstRisk(-found.fun * scale, found.x[len(paid) :].clip(min=0))


def check_permutation_invariance(cost: GroupCost, x: Any, z: Any, m: int) -> None:
    """Raise a ValueError unless c(z^m − x^m) is the same for every order of the m pairs, for all groups of the atoms.

    Theorems 1 and 2 hold for such costs only. Neighbours changing places make up every permutation, so these are tried.
    """
    problem = _Problem.of(x, z, cost, m)
    problem.require_invariance(problem.table(cost))


@dataclass(frozen=True, eq=False)
class _Problem:
    """The atoms and the size of the groups: the pairs of groups, what they cost, and the constraints on a plan."""

    x: Tensor
    z: Tensor
    m: int
    n_x: int
    n_z: int

    @classmethod
    def of(cls, x: Any, z: Any, cost: Any, m: Any, *, group: bool = False) -> _Problem:
        """The problem, with inputs and size checked; with `group`, x is one group, not the atoms of P."""
        name = "x_group" if group else "x"
        x, z, m = _atoms(name, x), _atoms("z", z), _checks.count("m", m, least=1)
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
        weights: Array = _weights("p", p, self.n_x)[_groups(self.n_x, self.m)].prod(1)
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
        return self.evaluate(cost, _groups(self.n_x, self.m), _groups(self.n_z, self.m))

    def require_invariance(self, table: Array) -> None:
        """Raise where the cost depends on the order of the samples."""
        if self.n_x == self.n_z == 1:
            return
        m, tolerance = self.m, 1e-9 if self.x.dtype == torch.float64 else 1e-4
        cube = table.reshape((self.n_x,) * m + (self.n_z,) * m)
        for i in range(m - 1):
            order = [*range(i), i + 1, i, *range(i + 2, m)]
            swapped = cube.transpose([*order, *(m + axis for axis in order)])
            wrong = ~np.isclose(cube, swapped, rtol=tolerance, atol=tolerance * _unit(table))
            if wrong.any():
                where = tuple(np.argwhere(wrong)[0])
                raise ValueError(
                    f"cost must be permutation invariant, got c = {cube[where]:g}, and {swapped[where]:g} "
                    f"with the samples in the order {order}"
                )

    def constraints(self, pairs: tuple[Array, ...]) -> Any:
        """The rows that sum a plan, given at `pairs`, to the law of x^m, then to those of z_1, z_2, and so on."""
        members = _groups(self.n_z, self.m)[pairs[1]]
        marginals = [_ones(members[:, i], self.n_z) for i in range(self.m)]
        return vstack([_ones(pairs[0], self.n_x**self.m), *marginals])


def _atoms(name: str, value: Any) -> Tensor:
    """`value`, a tensor or an array (n, *features), as a finite floating-point tensor."""
    if not isinstance(value, Tensor):
        array = np.array(value, order="C")
        value = torch.from_numpy(array if array.dtype.kind == "f" else array.astype(np.float64))
    atoms = _checks.group(name, value.detach() if value.is_floating_point() else value.double())
    if not bool(atoms.isfinite().all()):
        raise ValueError(f"{name} must be finite, got {float(atoms[~atoms.isfinite()][0])}")
    return atoms


def _per_atom(name: str, value: Any, n: int) -> Array:
    """`value` as n finite numbers."""
    array = np.array(value.detach().cpu().numpy() if isinstance(value, Tensor) else value, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name} must have one entry per atom ({n}), got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def _weights(name: str, value: Any, n: int) -> Array:
    """`value` as the weights of n atoms; what is left of their sum to 1 after rounding is taken out."""
    array = _per_atom(name, value, n)
    if array.min() < 0:
        raise ValueError(f"{name} must be >= 0, got {array.min()}")
    if abs(array.sum() - 1) > 1e-6:
        raise ValueError(f"{name} must sum to 1, got {array.sum()}")
    array /= array.sum()
    return array


def _groups(n: int, m: int) -> Array:
    """All groups of m of n atoms, (n^m, m), in lexicographic order."""
    return np.array(list(itertools.product(range(n), repeat=m)))


def _up_to_order(n: int, m: int) -> tuple[Array, Array]:
    """The groups with their members in order (their numbers), and which of these each group of m of n atoms is."""
    _, first, number = np.unique(np.sort(_groups(n, m), axis=1), axis=0, return_index=True, return_inverse=True)
    return first, number.ravel()


def _unit(table: Array) -> float:
    """The geometric mean of the finite positive entries: programs are solved in units of it, to 1e-10."""
    usual = table[np.isfinite(table) & (table > 0)]
    return float(np.exp(np.log(usual).mean())) if usual.size else 1.0


def _ones(rows: Array, n: int) -> Any:
    """A matrix with n rows whose j-th column has its one in row rows[j]."""
    return coo_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(n, len(rows)))


def _solve(c: Array, **program: Any) -> Any:
    """The answer of scipy to min c·v, or None where there is no optimum: nothing feasible, or no bound."""
    if len(c) == 0:  # no pair of groups has a finite cost
        return None
    for presolve in (True, False):  # it may leave open which of the two it is, and rarely gives up
        options = {"presolve": presolve, "primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
        found = linprog(c, method="highs", options=options, **program)
        if found.status in (0, 2, 3):
            return found if found.status == 0 else None
    raise RuntimeError(f"the linear program was not solved: {found.message}")
