"""A certificate: how large the risk of any law within a radius of the data can be, by weak duality (Theorem 2).

With P̂ the law of the given samples and W the group transport cost of `gsat.transport` (labels do not move),

    E_Q[ℓ] ≤ λr + E_{P̂^m}[max_Δ (1/m)(Σ_i ℓ(x_i + δ_i) − λ·c(Δ))]      for every λ > 0 and every Q with W(P̂, Q) ≤ r

Where 2λ·ridge > β, β a bound of the curvature of the loss, the inner problem is concave and its maximum can be bounded
from above: there the certificate is rigorous. Elsewhere it is as good as the solver, an estimate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Generator, Tensor, nn

from gsat import _checks, _defaults
from gsat.attacks import Attack
from gsat.costs import GroupCost, PerBatch
from gsat.losses import SampleLoss, per_sample_cross_entropy
from gsat.theory.curvature import curvature_bound
from gsat.theory.dual import best_lam
from gsat.theory.intervals import mean_at_least, student
from gsat.theory.result import Certificate
from gsat.theory.transforms import Maxima, Transforms

__all__ = ["Certificate", "certify"]

TABLE = ["radius", "lam", "mean_estimate", "low", "high", "gap", "rigorous", "interval"]
ATTACKS = ["attack", "radius", "risk"]
MARGIN = 1.01  # rigorous prices begin here, in units of β/(2·ridge): at 1 there is no bound of the gap

RATIO = 1.1  # how exact λ is: the bound is flat about the best one


def certify(
    model: nn.Module,
    X: Any,
    y: Any,
    radii: Any,
    cost: GroupCost | PerBatch,
    *,
    group_size: int = _defaults.GROUP_SIZE,
    n_groups: int = 50,
    n_pilot: int = 5,
    n_inner: int = _defaults.N_INNER,
    level: float = 0.95,
    beta: float | None = None,
    loss: SampleLoss | None = None,
    feature_mask: Any = None,
    batch: Any = None,
    attacks: Iterable[Attack] = (),
    random_state: int = 0,
) -> Certificate:
    """Bound the risk of every law Q with W(P̂, Q) ≤ radius, for each of the radii; P̂ is the law of X, y.

    Computed in float64 and eval mode; the model is left as it is.

    Parameters
    ----------
    model
        A torch module whose outputs are logits.
    X, y
        Samples (n, *features) as the model sees them, and labels (n,).
    radii
        Numbers >= 0, in units of the mean cost c(Δ)/m.
    cost
        A cost of gsat with alpha < 1.
    group_size, n_groups
        Samples of a group, and groups, drawn with replacement.
    n_pilot
        Further groups, by which λ is chosen.
    n_inner
        Gradients per group, at the most.
    level
        The probability with which each interval of the table holds.
    beta
        Bound of the largest eigenvalue of ∇²ℓ in x; None for that of `gsat.curvature_bound`.
    loss
        (outputs, y) -> (m,); None for the cross-entropy. With another loss the bounds are rigorous only with `beta`.
    feature_mask
        Boolean (*features), True where samples may move; None for everywhere.
    batch
        One id per sample, for a `PerBatch` cost.
    attacks
        Of `gsat.attacks`, tried on the same groups.
    random_state
        Seed of the groups.

    Returns
    -------
    Certificate
        The bounds, and the risk that the adversary and the attacks reached.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> table = gsat.data.make_batches(40, 5)
    >>> model = gsat.models.ELUNet(5, 3, hidden=0)
    >>> x, cost = table.X.astype("float32"), gsat.Unstructured()
    >>> found = gsat.certify(model, x, table.codes, [0.1], cost, group_size=10, n_groups=4)
    >>> row = found.table.iloc[0]
    >>> bool(row["rigorous"]), bool(row["high"] >= found.risk)
    (True, True)
    """
    _checks.module("model", model)
    _checks.not_anndata("X", X, "adata.X")
    grid = _radii(radii)
    group_size = _checks.count("group_size", group_size, least=1)
    n_groups, n_pilot = _checks.count("n_groups", n_groups, least=2), _checks.count("n_pilot", n_pilot, least=1)
    level = _checks.number("level", level, above=0, below=1)
    if beta is not None:
        beta = _checks.number("beta", beta, least=0)
    elif loss is None:
        beta = curvature_bound(model)
    transforms = Transforms.of(
        model,
        X,
        y,
        cost,
        loss=per_sample_cross_entropy if loss is None else loss,
        beta=beta,
        n_inner=n_inner,
        feature_mask=feature_mask,
        batch=batch,
    )
    generator = Generator().manual_seed(_checks.count("random_state", random_state))
    pilot, groups = (torch.randint(len(X), (n, group_size), generator=generator) for n in (n_pilot, n_groups))
    losses, slopes = transforms.at_rest
    risk = float(losses.mean())
    if not math.isfinite(risk):
        raise FloatingPointError("the outputs of the model must be finite on X; look at X and at the weights")

    @cache
    def dual(lam: float) -> tuple[float, float]:
        found = transforms.maxima(lam, pilot)
        return float(found.values.mean()), float(found.costs.mean())

    @cache
    def evaluated(lam: float) -> tuple[Maxima, dict[str, Any]]:
        found = transforms.maxima(lam, groups)
        return found, _limits(transforms, lam, found, groups, risk, level)

    table, reached = [], {}
    lam_rigorous = math.inf if transforms.beta is None else transforms.beta / (2 * transforms.ridge)
    price = 0.0
    for radius in grid:
        if radius == 0:  # W = 0 only at P̂ itself
            exact = {
                "mean_estimate": risk,
                "low": risk,
                "high": risk,
                "gap": 0.0,
                "rigorous": True,
                "interval": "exact",
            }
            table.append({"radius": 0.0, "lam": math.inf, **exact})
            continue
        # without structure and with a straight loss, the mean cost is the radius here
        guess = math.sqrt(float(slopes.mean()) / (4 * transforms.ridge * radius)) or 1.0
        price = best_lam(dual, radius, start=price or guess, ratio=RATIO)
        for lam in _prices(price, lam_rigorous):
            found, limits = evaluated(lam)
            at = {name: lam * radius + limits[name] for name in ("mean_estimate", "low", "high")}
            table.append({"radius": radius, "lam": lam, **limits, **at})
            reached[lam] = _reached("adversary", found, risk)
    tried = [_reached(attack.name, transforms.attacked(attack, groups), risk) for attack in attacks]
    points = sorted(reached.values(), key=lambda point: point["radius"])
    return Certificate(
        pd.DataFrame(table, columns=TABLE),
        pd.DataFrame([*points, *tried], columns=ATTACKS),
        transforms.beta,
        lam_rigorous,
        risk,
        level,
        group_size,
        n_groups,
    )


def _radii(value: Any) -> list[float]:
    """The radii in order, each once."""
    given = np.atleast_1d(np.asarray(value, dtype=np.float64)).ravel()
    if len(given) == 0:
        raise ValueError("radii must hold at least one number, got none")
    return sorted({_checks.number("radii", float(radius), least=0) for radius in given})


def _prices(best: float, lam_rigorous: float) -> list[float]:
    """The prices of a radius: a rigorous one, and the best one where that is not rigorous."""
    least = MARGIN * lam_rigorous
    if best >= least or math.isinf(least):
        return [best]
    return [least] if best > lam_rigorous else [least, best]  # the bound is convex in λ: the nearest is the best


def _limits(
    transforms: Transforms, lam: float, found: Maxima, groups: Tensor, risk: float, level: float
) -> dict[str, Any]:
    """E[max S/m] at this price, with its interval. The mean loss at Δ = 0 is known, so only what is above it varies."""
    excess = (found.values - found.clean).clip(min=0)
    middle = float(excess.mean())
    if transforms.modulus(lam) <= 0:
        (low, high), kind = student(excess, level), "Student t"
    else:
        ceilings, error, kind = transforms.ceilings(lam), (1 - level) / 2, "betting"
        room = (ceilings[groups.numpy()].mean(1) - found.values).clip(min=0)  # a ceiling is a bound as well
        high = float(ceilings.mean()) - risk - mean_at_least(room, error)
        middle = min(middle, high)
        low = min(middle, mean_at_least(excess, error))
    return {
        "mean_estimate": risk + middle,
        "low": risk + low,
        "high": risk + high,
        "gap": float(found.gaps.mean()),
        "rigorous": kind == "betting",
        "interval": kind,
    }


def _reached(name: str, found: Maxima, risk: float) -> dict[str, Any]:
    """The law of the moved samples as a point: how far it is at the most, and its risk."""
    return {"attack": name, "radius": found.costs.mean(), "risk": risk + (found.moved - found.clean).mean()}
