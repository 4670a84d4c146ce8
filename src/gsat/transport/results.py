"""What the linear programs of transport found: a number that knows what attains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gsat.transport.programs import Array


@dataclass(frozen=True)
class _Value:
    value: float

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, eq=False)
class Transport(_Value):
    """The cost W(P, Q), and what attains it: the `plan` of the primal or the `potential` of the dual.

    Attributes
    ----------
    value
        W(P, Q); inf where no plan has a finite cost, and then plan and potential are None.
    plan
        Sparse, (n_x^m, n_z^m): the probability of moving one group to the other. Groups are numbered as
        `itertools.product(range(n), repeat=m)` lists them.
    potential
        D at the atoms z, with D(z[0]) = 0.

    Examples
    --------
    >>> import gsat
    >>> x, z, half = [[0.0], [1.0]], [[0.0], [3.0]], [0.5, 0.5]
    >>> found = gsat.transport.dual(x, half, z, half, gsat.Unstructured(), m=1)
    >>> round(found.value, 6), found.potential.shape
    (2.0, (2,))
    """

    plan: Any = None
    potential: Array | None = None


@dataclass(frozen=True, eq=False)
class Transform(_Value):
    """A c_m-transform and the group that attains it.

    Attributes
    ----------
    value
        max_z (1/m)[Σ_i ℓ(z_i) − λ·c(z − x)].
    index
        Sample i goes to z[index[i]]; None where the value is -inf.

    Examples
    --------
    >>> import gsat
    >>> found = gsat.transport.c_transform([0.0, 10.0], [[0.0]], [[0.0], [3.0]], gsat.Unstructured(), lam=1.0)
    >>> round(found.value, 6), found.index.tolist()  # 10 − 3²
    (1.0, [1])
    """

    index: Array | None


@dataclass(frozen=True, eq=False)
class WorstRisk(_Value):
    """The largest risk, and a law Q that attains it.

    Attributes
    ----------
    value
        max_Q E_Q[ℓ] − λ·W(P, Q), or max E_Q[ℓ] within a radius.
    q
        The weights of Q at the atoms z; None where the value is -inf.

    Examples
    --------
    >>> import gsat
    >>> x, half = [[0.0], [1.0]], [0.5, 0.5]
    >>> found = gsat.transport.worst_risk_within([0.0, 1.0], x, half, x, gsat.Unstructured(), m=1, radius=0.25)
    >>> round(found.value, 6), found.q.round(6).tolist()
    (0.75, [0.25, 0.75])
    """

    q: Array | None
