"""How fast the gradient of the loss can turn: a bound of the curvature of a network, from its weights alone."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from gsat.theory.unchanged import no_global_hooks, plain_module

PASSIVE = (nn.Flatten, nn.Identity, nn.Dropout)  # in eval mode they leave the entries of a sample as they are
ONE_SAMPLE = 1  # the first dimension that nn.Flatten may take together: 0 counts the samples


def curvature_bound(model: nn.Module) -> float | None:
    """β with ‖∇²_x ℓ(f(x), y)‖₂ ≤ β at every x and y, ℓ the cross-entropy of logits; None where it is not known.

    Known are `nn.Sequential`s of linear layers W₁, …, W_L with `nn.ELU()` between them, as torch ships them: with a
    hook, a subclass, a replaced method or a parametrised weight there is no bound. With p the probabilities of the
    classes, h_l what enters the units of layer l, J_l = ∂h_l/∂x and slopes and curvatures of ELU in [0, 1],

        ∇²ℓ = J_Lᵀ(diag p − ppᵀ)J_L + Σ_{l<L} J_lᵀ·diag(elu″(h_l)·a_l)·J_l ,      a_l = ∂ℓ/∂elu(h_l)
        β   = P_{L−1}²·¼·max_{k,k'}‖W_L[k] − W_L[k']‖² + Σ_{l<L} P_{l−1}²·‖diag(t_l)^½·W_l‖₂² ,   P_l = ‖W₁‖₂·…·‖W_l‖₂

    The first term is the largest variance of the rows of W_L in any direction, the others have |a_l| ≤ t_l:
    t_{L−1}[j] = max_k W_L[k, j] − min_k W_L[k, j] and t_{l−1} = |W_l|ᵀt_l. For one hidden layer β is at most
    ‖W₁‖₂²(½‖W₂‖₂² + max_j t_1[j]). Computed in float64.

    Parameters
    ----------
    model
        A torch module.

    Returns
    -------
    float or None
        β.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False))
    >>> with torch.no_grad():
    ...     _ = model[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))

    >>> gsat.curvature_bound(model)  # a quarter of the squared distance of the rows
    1.0
    >>> gsat.curvature_bound(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())) is None
    True
    """
    weights = _linear_layers(model)
    if weights is None or not all(bool(weight.isfinite().all()) for weight in weights):
        return None
    *hidden, last = weights
    norms = torch.stack([last.new_ones(()), *(torch.linalg.matrix_norm(weight, 2) for weight in hidden)])
    squares = norms.cumprod(0).square()  # P_0², …, P_{L−1}²
    beta = squares[-1] * _largest_distance(last).square() / 4
    turn = last.amax(0) - last.amin(0)
    for weight, square in zip(hidden[::-1], squares[:-1].flip(0), strict=True):
        beta = beta + square * torch.linalg.matrix_norm(turn.sqrt()[:, None] * weight, 2).square()
        turn = weight.abs().T @ turn
    return float(beta)


def _largest_distance(points: Tensor) -> Tensor:
    """Between two rows."""
    return torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist").amax()


def _linear_layers(model: nn.Module) -> list[Tensor] | None:
    """The matrices between which the ELU units stand, or None for any other network."""
    weights: list[Tensor] = []
    joined = False  # the next matrix is applied to the output of the last one, with no units between
    if not no_global_hooks() or not all(plain_module(part) for part in model.modules()):
        return None
    for layer in _flat(model):
        if isinstance(layer, nn.Linear):
            weight = layer.weight.detach().cpu().double()
            weights = [*weights[:-1], weight @ weights[-1]] if joined else [*weights, weight]
            joined = True
        elif isinstance(layer, nn.ELU) and layer.alpha == 1 and joined:  # for another alpha the slope jumps at 0
            joined = False
        elif not isinstance(layer, PASSIVE) or (isinstance(layer, nn.Flatten) and layer.start_dim != ONE_SAMPLE):
            return None
    return weights if joined else None


def _flat(model: nn.Module) -> Iterator[nn.Module]:
    """The layers in the order they are applied."""
    if isinstance(model, nn.Sequential):
        for layer in model:
            yield from _flat(layer)
    else:
        yield model
