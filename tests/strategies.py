"""Groups, costs and reference formulas that several tests share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor

import gsat
from gsat.costs import scaled

ALPHAS = (0.0, 0.2, 0.7, 1.0)
CONVEX = (
    "universal",
    "group-sparse",
    "blocks",
    "low-rank",
    "unstructured",
    "per-batch universal",
    "per-batch blocks",
    "per-batch low-rank",
    "scaled universal",
    "scaled blocks",
    "scaled low-rank",
)
HARD = ("group-sparse", "blocks", "low-rank", "per-batch low-rank")
PER_BATCH, SCALED, UNIT = "per-batch ", "scaled ", 0.4
SHAPES = ("generic", "zero columns", "zero rows", "zero", "repeated rows", "rank one", "equal singular values")
SCALES = {torch.float64: (1.0, 1e-3, 1e4, 1e-100, 1e100), torch.float32: (1.0, 1e-3, 1e4, 1e-12, 1e12)}


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard normal entries that depend on the seed alone."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def same_rows(delta: Tensor) -> Tensor:
    """For each row the number of the first one that it equals, up to the rounding of a product of matrices."""
    flat = delta.flatten(1).double()
    apart = torch.cdist(flat, flat, compute_mode="donot_use_mm_for_euclid_dist")
    return (apart <= 1e-5 * flat.norm(dim=1).max()).int().argmax(1)


def blocks(d: int) -> tuple[str, ...]:
    """A block for each of d features; the members of a block are not neighbours."""
    return tuple("abc"[5 * j % 3] for j in range(d))


def batches(m: int) -> tuple[str, ...]:
    """A batch for each of m samples: of unequal sizes, and not in order."""
    return tuple(("T", "B", "T", "NK")[i % 4] for i in range(m))


@dataclass(frozen=True)
class Case:
    """A cost for groups (m, d), and its formula written down once more, with numpy and float64."""

    name: str
    m: int
    d: int
    alpha: float
    k: int | None = None

    @property
    def cost(self) -> Any:
        """The cost of the library."""
        made = {
            "universal": lambda: gsat.Universal(self.alpha),
            "group-sparse": lambda: gsat.GroupSparse(self.alpha, k=self.k),
            "blocks": lambda: gsat.GroupSparse(self.alpha, k=self.k, feature_groups=blocks(self.d)),
            "low-rank": lambda: gsat.LowRank(self.alpha, k=self.k),
            "unstructured": gsat.Unstructured,
        }[self.plain]()
        if self.name.startswith(SCALED):
            return scaled(made, UNIT)
        return gsat.PerBatch(made).bind(batches(self.m)) if self.name.startswith(PER_BATCH) else made

    @property
    def plain(self) -> str:
        """The name without what is made of it."""
        return self.name.removeprefix(PER_BATCH).removeprefix(SCALED)

    @property
    def unit(self) -> float:
        """What Δ is divided by."""
        return UNIT if self.name.startswith(SCALED) else 1.0

    @property
    def weight(self) -> float:
        """The weight α of g."""
        return 0.0 if self.name == "unstructured" else self.alpha

    def parts(self, delta: Tensor) -> list[Tensor]:
        """The rows of each batch, or the whole group."""
        if not self.name.startswith(PER_BATCH):
            return [delta]
        ids = np.array(batches(self.m))
        return [delta[torch.from_numpy(ids == one)] for one in np.unique(ids)]

    def sizes(self, part: Tensor) -> np.ndarray:
        """What g sums: the norms of columns or blocks, or the singular values."""
        matrix = part.double().numpy()
        if self.plain == "low-rank":
            return np.linalg.svd(matrix, compute_uv=False)
        scale = np.abs(matrix).max() or 1.0
        columns = scale * np.linalg.norm(matrix / scale, axis=0)
        if self.plain == "group-sparse":
            return columns
        labels = np.array(blocks(self.d))
        return np.array([np.linalg.norm(columns[labels == one] / scale) * scale for one in np.unique(labels)])

    def structure(self, delta: Tensor) -> float:
        """g(Δ) of a convex case; the caller sees to it that Δ is feasible."""
        if self.name.endswith("universal") or self.name == "unstructured":
            return 0.0
        factor = len(delta) ** 0.5 / UNIT if self.name.startswith(SCALED) else 1.0
        return factor * float(sum(self.sizes(part).sum() for part in self.parts(delta)))

    def value(self, delta: Tensor) -> float:
        """c(Δ) = α·g(Δ) + (1−α)·‖Δ‖²_F of a convex case, α·√m·g(Δ/s) + (1−α)·‖Δ/s‖²_F of a scaled one."""
        square = float(delta.double().square().sum()) / self.unit**2
        return self.weight * self.structure(delta) + (1 - self.weight) * square

    @property
    def steepest(self) -> float:
        """A bound on |g(U) − g(V)| / ‖U − V‖: g sums at most max(m, d) norms of parts that have nothing in common."""
        factor = self.m**0.5 / UNIT if self.name.startswith(SCALED) else 1.0
        return factor * max(self.m, self.d) ** 0.5

    def feasible(self, u: Tensor) -> Tensor:
        """A matrix near u where c is finite."""
        if self.weight == 0 or not self.name.endswith("universal"):
            return u
        u = u.clone()
        ids = np.array(batches(self.m) if self.name.startswith(PER_BATCH) else ["all"] * self.m)
        for one in np.unique(ids):
            u[torch.from_numpy(ids == one)] = u[torch.from_numpy(ids == one)].mean(0)
        return u


@st.composite
def groups(draw: st.DrawFn, dtype: torch.dtype = torch.float64, least: int = 1) -> tuple[Tensor, float]:
    """A group (m, d) of one of the SHAPES and SCALES, and its scale."""
    m, d = draw(st.integers(least, 7)), draw(st.integers(least, 9))
    v = normal(m, d, seed=draw(st.integers(0, 10_000)))
    shape, scale = draw(st.sampled_from(SHAPES)), draw(st.sampled_from(SCALES[dtype]))
    if shape == "zero columns":
        v[:, ::2] = 0
    elif shape == "zero rows":
        v[::2] = 0
    elif shape == "zero":
        v = torch.zeros_like(v)
    elif shape == "repeated rows":
        v = v[:1].repeat(m, 1)
    elif shape == "rank one":
        v = torch.outer(v[:, 0], v[0])
    elif shape == "equal singular values":
        left, _, right = torch.linalg.svd(v, full_matrices=False)
        v = left @ right
    return (v * scale).to(dtype), scale


@st.composite
def problems(draw: st.DrawFn, dtype: torch.dtype = torch.float64) -> tuple[Tensor, float, float]:
    """A group, a weight α and a threshold τ, of the size of the group or not."""
    v, scale = draw(groups(dtype))
    tau = draw(st.sampled_from((0.0, 0.03, 5.0)) | st.floats(1e-4, 20.0))
    return v, draw(st.sampled_from(ALPHAS)), tau * draw(st.sampled_from((1.0, scale)))
