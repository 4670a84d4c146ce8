"""Group optimal transport between discrete distributions, by linear programs over whole groups.

P has the atoms x (n_x, *features) with weights p, Q the atoms z (n_z, *features) with weights q. A group of m samples
drawn independently from P is moved to a group whose every sample has the law Q, however they depend on each other:

    W(P, Q) = inf E[c(Z^m − X^m)]/m     over the couplings of P^m with a law on z^m whose m marginals are all Q

There are n_x^m·n_z^m pairs of groups: this is for checking theory on small problems, not for data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array, hstack, vstack

from gsat import _checks
from gsat.costs import GroupCost
from gsat.transport.programs import (
    Problem,
    all_groups,
    atoms_of,
    ones,
    per_atom,
    solve,
    unit_of,
    up_to_order,
    weights_of,
)
from gsat.transport.results import Transform, Transport, WorstRisk


def primal(x: Any, p: Any, z: Any, q: Any, cost: GroupCost, m: int) -> Transport:
    """W(P, Q) from its definition: the cheapest plan, with a constraint for each of the m marginals.

    Parameters
    ----------
    x, p
        P: atoms (n_x, *features) and their weights (n_x,), which sum to 1.
    z, q
        Q: atoms (n_z, *features) and their weights (n_z,), which sum to 1.
    cost
        A cost of groups, which has value(delta) >= 0; no `PerBatch`.
    m
        Samples of a group; n_x^m·n_z^m may be a million at the most.

    Returns
    -------
    Transport
        The value and the `plan`.

    Examples
    --------
    >>> import gsat
    >>> x, z = [[0.0], [1.0]], [[0.0], [3.0]]
    >>> found = gsat.transport.primal(x, [0.5, 0.5], z, [0.5, 0.5], gsat.Unstructured(), m=1)
    >>> round(float(found), 6)  # half of the mass goes from 1 to 3
    2.0
    >>> found.plan.toarray()
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    problem = Problem.of(x, z, cost, m)
    weights, q = problem.group_weights(p), weights_of("q", q, problem.n_z)
    table = problem.table(cost)
    scale, pairs = unit_of(table), np.nonzero(np.isfinite(table))
    laws = np.append(weights, np.tile(q, m))
    found = solve(table[pairs] / (m * scale), A_eq=problem.constraints(pairs), b_eq=laws, bounds=(0, None))
    if found is None:
        return Transport(math.inf)
    plan = csr_array(coo_array((found.x, pairs), shape=table.shape))
    plan.eliminate_zeros()
    return Transport(max(0.0, found.fun * scale), plan=plan)


def dual(x: Any, p: Any, z: Any, q: Any, cost: GroupCost, m: int) -> Transport:
    """W(P, Q) by Theorem 1, with a single potential D: max_D E_Q[D] − E_{P^m}[D^{c_m}].

    D^{c_m}(x^m) = max over z^m of (1/m)[Σ_i D(z_i) − c(z^m − x^m)] is the same for every order of x^m, so only ordered
    groups of x are kept; Σ_i D(z_i) is the same for every order of z^m, so only the cheapest one is.

    Parameters
    ----------
    x, p, z, q, m
        As in `primal`.
    cost
        As in `primal`, and the same for every order of the samples.

    Returns
    -------
    Transport
        The value and the `potential`.

    Examples
    --------
    >>> import gsat
    >>> x, z = [[0.0], [1.0]], [[0.0], [3.0]]
    >>> found = gsat.transport.dual(x, [0.5, 0.5], z, [0.5, 0.5], gsat.Unstructured(), m=1)
    >>> round(float(found), 6)
    2.0
    """
    problem = Problem.of(x, z, cost, m)
    weights, q = problem.group_weights(p), weights_of("q", q, problem.n_z)
    table = problem.table(cost)
    problem.require_invariance(table)

    first, number = up_to_order(problem.n_x, m)
    weights = np.bincount(number, weights)
    first_z, number_z = up_to_order(problem.n_z, m)
    cheapest = np.full((len(first), len(first_z)), math.inf)
    np.minimum.at(cheapest.T, number_z, table[first].T)

    scale, (source, target) = unit_of(cheapest), np.nonzero(np.isfinite(cheapest))
    members = all_groups(problem.n_z, m)[first_z[target]]
    mean_potential = sum(ones(members[:, i], problem.n_z) for i in range(m)).T / m
    found = solve(  # the variables are D and, for each group of x, what D^{c_m} is at least
        np.concatenate([-q, weights]),
        A_ub=hstack([mean_potential, -ones(source, len(first)).T]),
        b_ub=cheapest[source, target] / (m * scale),
        bounds=[(0, 0), *[(None, None)] * (problem.n_z - 1 + len(first))],
    )
    if found is None:
        return Transport(math.inf)
    return Transport(max(0.0, -found.fun * scale), potential=found.x[: problem.n_z] * scale)


def c_transform(loss_z: Any, x_group: Any, z: Any, cost: GroupCost, lam: float) -> Transform:
    """The largest value over groups z^m of (1/m)[Σ_i loss_z[z_i] − lam·c(z^m − x_group)], by trying all n_z^m of them.

    Among equals the first group counts.

    Parameters
    ----------
    loss_z
        The loss at each atom of z, (n_z,).
    x_group
        A group (m, *features).
    z
        The atoms that its samples may move to, (n_z, *features); n_z^m may be a million at the most.
    cost
        A cost of groups, which has value(delta) >= 0; no `PerBatch`.
    lam
        Its price, above 0.

    Returns
    -------
    Transform
        The value, and the place in z that each sample goes to.

    Examples
    --------
    >>> import gsat
    >>> found = gsat.transport.c_transform([0.0, 10.0], [[0.0], [1.0]], [[0.0], [3.0]], gsat.Unstructured(), lam=1.0)
    >>> found.index.tolist(), round(float(found), 6)
    ([1, 1], 3.5)
    """
    x_group = atoms_of("x_group", x_group)
    m, lam = len(x_group), _checks.number("lam", lam, above=0)
    problem = Problem.of(x_group, z, cost, m, group=True)
    losses, targets = per_atom("loss_z", loss_z, problem.n_z), all_groups(problem.n_z, m)
    values = (losses[targets].sum(1) - lam * problem.evaluate(cost, np.arange(m)[None], targets)[0]) / m
    best = int(values.argmax())
    return Transform(float(values[best]), targets[best] if np.isfinite(values[best]) else None)


def worst_risk(loss_z: Any, x: Any, p: Any, z: Any, cost: GroupCost, m: int, lam: float) -> WorstRisk:
    """max_Q E_Q[ℓ] − lam·W(P, Q) over the laws Q on the atoms z: one linear program over Q and the plan.

    This is the left side of Theorem 2, from its definition. The right side is the mean of `c_transform` over the groups
    of P^m; for a cost that depends on the order of the samples it may be larger.

    Parameters
    ----------
    loss_z
        The loss at each atom of z, (n_z,).
    x, p
        P: atoms (n_x, *features) and their weights (n_x,), which sum to 1.
    z
        The atoms of Q, (n_z, *features).
    cost, m
        As in `primal`.
    lam
        The price of the transport, above 0.

    Returns
    -------
    WorstRisk
        The value, and the weights q of a worst Q.

    Examples
    --------
    >>> import gsat
    >>> x, z = [[0.0], [1.0]], [[0.0], [1.0]]
    >>> found = gsat.transport.worst_risk([0.0, 1.0], x, [0.5, 0.5], z, gsat.Unstructured(), m=1, lam=0.5)
    >>> round(float(found), 6), found.q.round(6).tolist()
    (0.75, [0.0, 1.0])
    """
    lam = _checks.number("lam", lam, above=0)
    return _largest_risk(loss_z, p, Problem.of(x, z, cost, m), cost, lam=lam)


def worst_risk_within(loss_z: Any, x: Any, p: Any, z: Any, cost: GroupCost, m: int, radius: float) -> WorstRisk:
    """The largest E_Q[ℓ] over the laws Q on the atoms z with W(P, Q) ≤ radius: one linear program over Q and the plan.

    By the duality of linear programs it is the least lam·radius + max_Q {E_Q[ℓ] − lam·W(P, Q)} over lam > 0, the bound
    that `gsat.certify` computes for a model. The value is -inf where no Q is that near.

    Parameters
    ----------
    loss_z, x, p, z, cost, m
        As in `worst_risk`.
    radius
        The bound of W(P, Q), 0 at least.

    Returns
    -------
    WorstRisk
        The value, and the weights q of a worst Q.

    Examples
    --------
    >>> import gsat
    >>> x, z = [[0.0], [1.0]], [[0.0], [1.0]]
    >>> found = gsat.transport.worst_risk_within([0.0, 1.0], x, [0.5, 0.5], z, gsat.Unstructured(), m=1, radius=0.25)
    >>> round(float(found), 6)
    0.75
    """
    radius = _checks.number("radius", radius, least=0)
    return _largest_risk(loss_z, p, Problem.of(x, z, cost, m), cost, radius=radius)


def _largest_risk(
    loss_z: Any, p: Any, problem: Problem, cost: GroupCost, *, lam: float = 0.0, radius: float = math.inf
) -> WorstRisk:
    """The largest E_Q[ℓ] − lam·W over plans that cost at most `radius` and have m equal marginals Q on z."""
    m, n_z = problem.m, problem.n_z
    weights, losses = problem.group_weights(p), per_atom("loss_z", loss_z, n_z)
    table = problem.table(cost)
    unit, pairs = unit_of(table), np.nonzero(np.isfinite(table))
    paid = table[pairs] / (m * unit)
    minus_q = vstack([coo_array((len(weights), n_z)), *[-coo_array(np.eye(n_z))] * m])
    gain = np.concatenate([-lam * unit * paid, losses])
    scale = unit_of(np.abs(gain))
    program = {
        "A_eq": hstack([problem.constraints(pairs), minus_q]),
        "b_eq": np.append(weights, np.zeros(m * n_z)),
        "bounds": (0, None),
    }
    if radius < math.inf:
        program |= {"A_ub": coo_array(np.append(paid, np.zeros(n_z))[None]), "b_ub": [radius / unit]}
    found = solve(-gain / scale, **program)
    if found is None:
        return WorstRisk(-math.inf, None)
    return WorstRisk(-found.fun * scale, found.x[len(paid) :].clip(min=0))


def check_permutation_invariance(cost: GroupCost, x: Any, z: Any, m: int) -> None:
    """Raise a ValueError unless c(z^m − x^m) is the same for every order of the m pairs, for all groups of the atoms.

    Theorems 1 and 2 hold for such costs only. Neighbours changing places make up every permutation, so these are tried.

    Parameters
    ----------
    cost
        A cost of groups.
    x, z
        The atoms (n_x, *features) and (n_z, *features).
    m
        Samples of a group.

    Examples
    --------
    >>> import gsat
    >>> gsat.transport.check_permutation_invariance(gsat.LowRank(), [[0.0], [1.0]], [[0.0], [3.0]], m=2)
    """
    problem = Problem.of(x, z, cost, m)
    problem.require_invariance(problem.table(cost))
