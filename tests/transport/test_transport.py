"""Group optimal transport on small discrete problems: the two theorems, closed forms, and ordinary transport."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment, linprog

import gsat
from discrete import FINITE, FirstIsDear, problem
from gsat import transport
from gsat.models import build

SIZES = [(2, 2), (2, 3), (3, 2), (3, 4), (4, 2), (4, 4)]  # atoms of P and of Q


def lattice(n, seed):
    """P, and Q a mixture of P shifted by each of two steps: z is all x + t. Shifts and weights are returned as well."""
    rng = np.random.default_rng(seed)
    x, shifts = rng.integers(-2, 3, size=(n, 2)).astype(float), np.array([[1.0, -2.0], [0.0, 0.5]])
    p, share = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(2))
    return x, p, (x[None] + shifts[:, None]).reshape(-1, 2), np.outer(share, p).ravel(), shifts, share


def mean_transform(loss, x, p, z, cost, m, lam):
    """E_{P^m}[c_m-transform of the loss], group by group."""
    return sum(
        np.prod(p[list(g)]) * transport.c_transform(loss, x[list(g)], z, cost, lam).value
        for g in product(range(len(x)), repeat=m)
    )


def ordinary(p, q, price):
    """The plain transport problem, as a dense linear program."""
    rows = np.concatenate([np.kron(np.eye(len(p)), np.ones(len(q))), np.kron(np.ones(len(p)), np.eye(len(q)))])
    return linprog(price.ravel(), A_eq=rows[:-1], b_eq=np.concatenate([p, q])[:-1], bounds=(0, None)).fun


# ---- Theorem 1


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize(("n_x", "n_z"), SIZES)
@pytest.mark.parametrize("name", FINITE)
def test_primal_is_dual(name, n_x, n_z, m):
    x, p, z, q = problem(n_x, n_z, seed=100 * n_x + 10 * n_z + m)
    plan, potential = (solve(x, p, z, q, FINITE[name], m) for solve in (transport.primal, transport.dual))
    assert 0.1 < float(plan) < 100
    assert float(plan) == pytest.approx(float(potential), rel=1e-8)


@pytest.mark.parametrize(
    ("n", "m", "alpha"), [(n, m, a) for n in (2, 3, 4) for m in (2, 3) for a in (0.4, 1.0) if (n, m, a) != (4, 3, 1.0)]
)
def test_primal_is_dual_for_universal_on_lattices(n, m, alpha):
    (x, p, z, q, shifts, share), cost = lattice(n, seed=n + m), gsat.Universal(alpha)
    plan, potential = transport.primal(x, p, z, q, cost, m), transport.dual(x, p, z, q, cost, m)
    most = (1 - alpha) * share @ np.square(shifts).sum(1)  # one shift drawn for the whole group is a plan
    least = (1 - alpha) * transport.primal(x, p, z, q, gsat.Unstructured(), m).value
    assert least - 1e-9 <= float(plan) <= most + 1e-9
    assert float(plan) == pytest.approx(float(potential), rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("cost", [gsat.GroupSparse(0.2), gsat.LowRank(0.6), gsat.Universal(0.4)], ids=repr)
def test_the_plan_is_a_coupling_and_the_potential_attains_the_value(cost):
    (x, p, z, q), m = lattice(3, seed=5)[:4], 2
    plan = transport.primal(x, p, z, q, cost, m)
    dense = plan.plan.toarray()
    assert dense.min() >= 0
    np.testing.assert_allclose(dense.sum(1), np.outer(p, p).ravel(), atol=1e-9)
    for other in (1, 0):
        np.testing.assert_allclose(dense.sum(0).reshape(len(z), len(z)).sum(other), q, atol=1e-9)
    paid = sum(
        dense[i, j] * float(cost.value(torch.from_numpy(z[list(b)] - x[list(a)]))) / m
        for i, a in enumerate(product(range(len(x)), repeat=m))
        for j, b in enumerate(product(range(len(z)), repeat=m))
        if dense[i, j] > 0
    )
    assert paid == pytest.approx(plan.value, rel=1e-9)
    potential = transport.dual(x, p, z, q, cost, m)
    assert potential.potential[0] == 0
    reached = q @ potential.potential - mean_transform(potential.potential, x, p, z, cost, m, lam=1.0)
    assert reached == pytest.approx(potential.value, rel=1e-8)


@pytest.mark.parametrize(
    ("z", "q", "cost"),
    [
        ([[0.0], [3.0]], [0.5, 0.5], gsat.Universal(0.4)),  # no shift takes both atoms into z
        ([[0.0], [1.0], [2.0]], [0.5, 0.0, 0.5], gsat.Universal(0.4)),  # every group (0, 1) puts mass on z = 1
        ([[0.0], [1.0], [2.0]], [1.0, 0.0, 0.0], gsat.Universal(1.0)),
        ([[5.0], [6.0]], [0.5, 0.5], gsat.LowRank(0.5, k=0)),  # no pair of groups is allowed
    ],
)
@pytest.mark.parametrize("m", [2, 3])
def test_inf_where_there_is_no_finite_plan(z, q, cost, m):
    for solve in (transport.primal, transport.dual):
        found = solve([[0.0], [1.0]], [0.5, 0.5], z, q, cost, m)
        assert (float(found), found.plan, found.potential) == (float("inf"), None, None)


def test_hard_forms():
    x, p, share = np.array([[0.0, 0.0], [0.3, 2.0]]), np.array([0.4, 0.6]), np.array([0.2, 0.8])
    for t, cost, finite in [
        ([1.0, 0.0], gsat.GroupSparse(0.3, k=1), True),
        ([1.0, 0.5], gsat.GroupSparse(0.3, k=1), False),
        ([1.0, 0.5], gsat.LowRank(0.3, k=1), True),
    ]:
        z, q = np.concatenate([x + t, x - 2 * np.array(t)]), np.outer(share, p).ravel()
        plan, potential = transport.primal(x, p, z, q, cost, 2), transport.dual(x, p, z, q, cost, 2)
        assert np.isfinite(plan.value) == finite
        assert float(plan) == pytest.approx(float(potential), rel=1e-8)
        if finite:
            assert 0 < float(plan) <= float(transport.primal(x, p, z, q, gsat.Universal(0.3), 2)) + 1e-9


# ---- ordinary transport


@pytest.mark.parametrize(("n_x", "n_z"), SIZES)
def test_one_sample_is_ordinary_transport(n_x, n_z):
    x, p, z, q = problem(n_x, n_z, seed=n_x + 7 * n_z)
    delta = z[None] - x[:, None]
    square, city, length = np.square(delta).sum(-1), np.abs(delta).sum(-1), np.linalg.norm(delta, axis=-1)
    for cost, price in [
        (gsat.Unstructured(), square),
        (gsat.Universal(0.3), 0.7 * square),
        (gsat.GroupSparse(0.3), 0.3 * city + 0.7 * square),
        (gsat.LowRank(0.6), 0.6 * length + 0.4 * square),
    ]:
        for solve in (transport.primal, transport.dual):
            assert float(solve(x, p, z, q, cost, 1)) == pytest.approx(ordinary(p, q, price), rel=1e-8)


@pytest.mark.parametrize(("n_x", "n_z"), SIZES)
def test_one_sample_is_what_pot_computes(n_x, n_z):
    import ot

    x, p, z, q = problem(n_x, n_z, seed=3 * n_x + n_z)
    for cost in (*FINITE.values(), gsat.Universal(0.3)):
        price = np.array([[float(cost.value(torch.from_numpy(b - a)[None])) for b in z] for a in x])
        exact = ot.emd2(p, q, price)
        for solve in (transport.primal, transport.dual):
            assert float(solve(x, p, z, q, cost, 1)) == pytest.approx(exact, rel=1e-8)


def test_equal_weights_are_an_assignment():
    x, _, z, _ = problem(4, 4, seed=3)
    square, even = np.square(z[None] - x[:, None]).sum(-1), np.full(4, 0.25)
    best = square[linear_sum_assignment(square)].mean()
    assert float(transport.primal(x, even, z, even, gsat.Unstructured(), 2)) == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("make", [gsat.Universal, gsat.GroupSparse, gsat.LowRank])
def test_alpha_zero_is_one_sample(make, m):
    x, p, z, q = problem(3, 4, seed=m)
    price = ordinary(p, q, np.square(z[None] - x[:, None]).sum(-1))
    for solve in (transport.primal, transport.dual):
        assert float(solve(x, p, z, q, make(0.0), m)) == pytest.approx(price, rel=1e-8)


# ---- closed forms


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("cost", [*FINITE.values(), gsat.Universal(0.4)], ids=repr)
def test_staying_is_free(cost, m):
    x, p, _, _ = problem(3, 1, seed=4)
    assert float(transport.primal(x, p, x, p, cost, m)) == pytest.approx(0, abs=1e-12)
    assert float(transport.dual(x, p, x, p, cost, m)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("m", [2, 3])
def test_a_translation_costs_what_its_shift_costs(m):
    """E[Δ] is 1·tᵀ for every plan, so by Jensen none of a convex cost is below c(1·tᵀ)/m, which the shift attains."""
    (x, p, _, _), t = problem(3, 1, seed=6), np.array([0.5, -1.0, 0.25])
    length, city, square = np.linalg.norm(t), np.abs(t).sum(), np.square(t).sum()
    for cost, value in [
        (gsat.Universal(0.3), 0.7 * square),
        (gsat.Universal(1.0), 0.0),
        (gsat.GroupSparse(0.3), 0.3 * city / m**0.5 + 0.7 * square),
        (gsat.LowRank(0.6), 0.6 * length / m**0.5 + 0.4 * square),
        (gsat.Unstructured(), square),
    ]:
        for solve in (transport.primal, transport.dual):
            assert float(solve(x, p, x + t, p, cost, m)) == pytest.approx(value, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("m", [2, 3])
def test_from_a_single_atom(m):
    """One draw of Q moves all samples; also for the root of Σ z_i², concave in their sum, |z_i| that grow together."""
    z, q = np.array([[-1.0], [0.5], [2.0]]), np.array([0.2, 0.5, 0.3])
    square, size = float(q @ z[:, 0] ** 2), float(q @ np.abs(z[:, 0]))
    for cost, value in [
        (gsat.Universal(0.3), 0.7 * square),
        (gsat.GroupSparse(0.3), 0.3 * size / m**0.5 + 0.7 * square),
        (gsat.LowRank(0.3), 0.3 * size / m**0.5 + 0.7 * square),
    ]:
        for solve in (transport.primal, transport.dual):
            assert float(solve([[0.0]], [1.0], z, q, cost, m)) == pytest.approx(value, rel=1e-8)


def test_the_product_side_is_the_first():
    """From the even law on {0, 1} to the point 0 a group (0, 1) needs two shifts; back, one coin moves all of it."""
    spread, point = ([[0.0], [1.0]], [0.5, 0.5]), ([[0.0]], [1.0])
    assert float(transport.primal(*spread, *point, gsat.Universal(0.4), 2)) == float("inf")
    assert float(transport.primal(*point, *spread, gsat.Universal(0.4), 2)) == pytest.approx(0.3)


# ---- Theorem 2 and the c_m-transform


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("lam", [0.05, 0.7, 20.0])
@pytest.mark.parametrize("name", [*FINITE, "universal"])
def test_the_worst_risk_is_the_mean_transform(name, lam, m):
    cost = FINITE.get(name, gsat.Universal(0.4))
    x, p, z, _ = lattice(2, seed=m)[:4] if name == "universal" else problem(3, 3, seed=m)
    loss = np.random.default_rng(m).normal(size=len(z))
    worst = transport.worst_risk(loss, x, p, z, cost, m, lam)
    assert worst.value == pytest.approx(mean_transform(loss, x, p, z, cost, m, lam), rel=1e-6, abs=1e-6)
    assert worst.q.sum() == pytest.approx(1)
    at_worst = loss @ worst.q - lam * transport.primal(x, p, z, worst.q, cost, m).value
    assert at_worst == pytest.approx(worst.value, rel=1e-6, abs=1e-6)
    for seed in range(3):
        q = np.random.default_rng(seed).dirichlet(np.ones(len(z)))
        assert loss @ q - lam * transport.dual(x, p, z, q, cost, m).value <= worst.value + 1e-6


@pytest.mark.parametrize("name", [*FINITE, "universal"])
def test_the_worst_risk_of_a_network_is_the_mean_transform(name):
    """Theorem 2 with the cross-entropy of a network, tabulated at the atoms."""
    cost, m, lam = FINITE.get(name, gsat.Universal(0.4)), 2, 0.7
    x, p, z, _ = problem(3, 4, seed=8)
    z[:3] = x + (0.3 if name == "universal" else 0.3 * z[:3])
    model = build("elu", (3,), 2, seed=5, hidden=6).double()
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(
            model(torch.from_numpy(z)), torch.tensor([0, 1, 1, 0]), reduction="none"
        )
    worst = transport.worst_risk(loss, x, p, z, cost, m, lam)
    assert worst.value == pytest.approx(mean_transform(loss, x, p, z, cost, m, lam), abs=1e-6)
    assert worst.q.max() < 0.99


@pytest.mark.parametrize("name", [*FINITE, "universal"])
def test_the_worst_law_within_a_radius(name):
    cost, m = FINITE.get(name, gsat.Universal(0.4)), 2
    x, p, z, _ = lattice(2, seed=m)[:4] if name == "universal" else problem(2, 4, seed=m)
    z = np.concatenate([x, z])
    loss = np.random.default_rng(m).normal(size=len(z))
    clean, values = p @ loss[:2], []
    far = transport.primal(x, p, z, transport.worst_risk(loss, x, p, z, cost, m, 1e-6).q, cost, m).value
    for share in (0.0, 0.1, 0.5, 1.0, 1.5):
        found = transport.worst_risk_within(loss, x, p, z, cost, m, share * far)
        assert found.value == pytest.approx(loss @ found.q, abs=1e-9)
        assert transport.primal(x, p, z, found.q, cost, m).value <= share * far + 1e-8
        values.append(found.value)
        for lam in (0.1, 1.0, 10.0):
            assert found.value <= lam * share * far + transport.worst_risk(loss, x, p, z, cost, m, lam).value + 1e-8
    assert values[0] == pytest.approx(clean, abs=1e-8)
    assert values[0] < values[1] < values[2] < values[3]
    assert values[4] == pytest.approx(values[3], abs=1e-6)
    q = np.random.default_rng(m).dirichlet(np.ones(len(z)))
    cost_of_q = transport.primal(x, p, z, q, cost, m).value
    if np.isfinite(cost_of_q):
        assert loss @ q <= transport.worst_risk_within(loss, x, p, z, cost, m, cost_of_q).value + 1e-8


def test_no_law_is_near_enough():
    inputs = [2.0, 3.0], np.array([[0.0]]), [1.0], np.array([[5.0], [6.0]]), gsat.Universal(0.5), 2
    assert transport.worst_risk_within(*inputs, 12.4).value == -float("inf")  # c/m = ½·5² at the least
    assert transport.worst_risk_within(*inputs, 12.5).value == pytest.approx(2.0)
    assert transport.worst_risk_within(*inputs, 14.0).value == pytest.approx(2 + 1.5 / 5.5)
    with pytest.raises(ValueError, match=r"radius must be >= 0, got -1"):
        transport.worst_risk_within(*inputs, -1)


def test_theorem_2_needs_a_cost_that_is_permutation_invariant():
    """It pays to move the second sample (½ − ½·½) and not the first (½ − 5·½), but both must have the same law."""
    problem = ([0.0, 1.0], np.array([[0.0]]), np.array([1.0]), np.array([[0.0], [1.0]]), FirstIsDear(), 2, 0.5)
    assert float(transport.worst_risk(*problem)) == pytest.approx(0, abs=1e-9)
    assert mean_transform(*problem) == pytest.approx(0.25)


def test_no_risk_where_nothing_can_move():
    x, z, cost = np.array([[0.0], [1.0]]), np.array([[5.0], [7.0]]), gsat.Universal(0.5)
    worst = transport.worst_risk([1.0, 2.0], x, [0.5, 0.5], z, cost, 2, 1.0)
    transform = transport.c_transform([1.0, 2.0], x, z, cost, 1.0)
    assert worst.value == transform.value == -float("inf")
    assert worst.q is transform.index is None


@pytest.mark.parametrize("name", [*FINITE, "universal"])
def test_c_transform_is_the_best_of_all_groups(name):
    cost, m, lam = FINITE.get(name, gsat.Universal(0.4)), 3, 0.6
    x, _, z, _ = problem(m, 4, seed=9)
    z[:3] = x + 1.5 if name == "universal" else z[:3]
    loss = np.random.default_rng(9).normal(size=4)
    values = {
        g: (sum(loss[i] for i in g) - lam * float(cost.value(torch.from_numpy(z[list(g)] - x)))) / m
        for g in product(range(4), repeat=m)
    }
    found = transport.c_transform(loss, x, z, cost, lam)
    assert found.value == pytest.approx(max(values.values()), rel=1e-12)
    assert tuple(found.index) == max(values, key=values.get)
