"""Solvers of the inner problem: one protocol (`Solver`), one loop (`maximise`), one `Solution`."""

from gsat.solvers.admm import ADMM
from gsat.solvers.base import Solution, Solver
from gsat.solvers.inner import climb, maximise, named
from gsat.solvers.linearised import Linearised
from gsat.solvers.proximal import Proximal

__all__ = ["ADMM", "Linearised", "Proximal", "Solution", "Solver", "climb", "maximise", "named"]
