"""Attacks as others write them, with a given number of gradients: those of other libraries, and plain ones with Adam.

All take (model, x, y, eps, n, bounds, count) and return the perturbation of the group x (m, *features); n is the number
of gradients, count the number of columns or the rank. The hand-written ones keep the iterate with the most errors.
"""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from gsat.losses import BoundedMargin, SampleLoss, per_sample_cross_entropy

Bounds = tuple[float, float] | None
Rival = Callable[..., Tensor]
LOSSES: dict[str, Callable[[Tensor, Tensor], SampleLoss]] = {  # made from the outputs at x and the labels
    "cross-entropy": lambda outputs, y: per_sample_cross_entropy,
    "margin": lambda outputs, y: BoundedMargin(),
    "sharp margin": BoundedMargin.fitting,  # ours
}
RATES = {"cross-entropy": (0.03, 0.1), "margin": (0.03, 0.1), "sharp margin": (0.1,)}  # of Adam


def _rows_inside(delta: Tensor, eps: float) -> Tensor:
    lengths = delta.flatten(1).norm(dim=1).clamp(min=1e-12).view(-1, *[1] * (delta.ndim - 1))
    return delta * (eps / lengths).clamp(max=1)


def _seen(x: Tensor, delta: Tensor, bounds: Bounds) -> Tensor:
    return x + delta if bounds is None else (x + delta).clamp(*bounds)


class Best:
    """The perturbation with the most errors so far, then the larger loss."""

    def __init__(self) -> None:
        self.key: tuple[int, float] = (-1, 0.0)
        self.delta = torch.empty(0)

    def see(self, delta: Tensor, logits: Tensor, y: Tensor) -> None:
        wrong = int((logits.argmax(1) != y).sum())
        key = (wrong, float(per_sample_cross_entropy(logits.detach(), y).sum()))
        if key > self.key:
            self.key, self.delta = key, delta.detach().clone()


def _climb(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    bounds: Bounds,
    parts: list[Tensor],
    make: Callable[[], Tensor],
    losses: Callable[[Tensor], Tensor],
    n: int,
    rate: float,
    best: Best,
) -> None:
    """Adam on the parts of which `make` makes a feasible perturbation; a cosine schedule."""
    for part in parts:
        part.requires_grad_()
    optimizer = torch.optim.Adam(parts, lr=rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n)
    for _ in range(n):
        delta = make()
        logits = model(_seen(x, delta, bounds))
        best.see(delta, logits, y)
        optimizer.zero_grad()
        (-losses(logits).sum()).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        delta = make()
        best.see(delta, model(_seen(x, delta, bounds)), y)


def adam_shift(loss: str, rate: float) -> Rival:
    """One shift, climbed by Adam."""

    def attack(model: nn.Module, x: Tensor, y: Tensor, eps: float, n: int, bounds: Bounds, count: int) -> Tensor:
        best, climbed = Best(), LOSSES[loss](model(x), y)
        shift = 1e-3 * eps * torch.randn(x[:1].shape, generator=torch.Generator().manual_seed(0))
        _climb(
            model, x, y, bounds, [shift], lambda: _rows_inside(shift, eps).expand_as(x),
            lambda logits: climbed(logits, y), n, rate * eps, best,
        )  # fmt: skip
        return best.delta

    return attack


def targeted_shifts(model: nn.Module, x: Tensor, y: Tensor, eps: float, n: int, bounds: Bounds, count: int) -> Tensor:
    """One shift for each class, which draws all samples to it; n divided among the classes."""
    best = Best()
    classes = model(x[:1]).shape[1]
    for target in range(classes):
        shift = torch.zeros_like(x[:1])
        wanted = torch.full_like(y, target)
        _climb(
            model, x, y, bounds, [shift], lambda shift=shift: _rows_inside(shift, eps).expand_as(x),
            lambda logits, wanted=wanted: -per_sample_cross_entropy(logits, wanted),
            max(1, n // classes), eps / 3, best,
        )  # fmt: skip
    return best.delta


def adam_product(loss: str, rate: float) -> Rival:
    """Δ = U·V of the rank, both climbed by Adam, rows scaled into the ball."""

    def attack(model: nn.Module, x: Tensor, y: Tensor, eps: float, n: int, bounds: Bounds, count: int) -> Tensor:
        best, climbed, generator = Best(), LOSSES[loss](model(x), y), torch.Generator().manual_seed(0)
        d = x[0].numel()
        left = torch.randn(len(x), count, generator=generator)
        right = torch.randn(count, d, generator=generator) / d**0.5
        scale = eps / count**0.5
        _climb(
            model, x, y, bounds, [left, right],
            lambda: _rows_inside((scale * left @ (right / right.norm(dim=1, keepdim=True))).view_as(x), eps),
            lambda logits: climbed(logits, y), n, rate, best,
        )  # fmt: skip
        return best.delta

    return attack


def _in_columns(
    model: nn.Module, x: Tensor, y: Tensor, eps: float, n: int, bounds: Bounds, columns: Tensor, loss: str, best: Best
) -> Tensor:
    """Projected ascent with momentum in given columns; returns the last gradient of all columns."""
    delta, velocity = torch.zeros_like(x.flatten(1)), torch.zeros_like(x.flatten(1))
    gradient, climbed = delta, LOSSES[loss](model(x), y)
    for step in range(n):
        point = delta.clone().requires_grad_()
        logits = model(_seen(x, point.view_as(x), bounds))
        best.see(delta.view_as(x), logits, y)
        (gradient,) = torch.autograd.grad(climbed(logits, y).sum(), point)
        ascent = gradient * columns
        velocity = 0.75 * velocity + ascent / ascent.norm(dim=1, keepdim=True).clamp(min=1e-12)
        delta = _rows_inside(delta + eps * (0.5 if step < n // 2 else 0.1) * velocity, eps)
    with torch.no_grad():
        best.see(delta.view_as(x), model(_seen(x, delta.view_as(x), bounds)), y)
    return gradient


def greedy_columns(loss: str) -> Rival:
    """Columns are added in five rounds by the energy of the gradient where the last round ended."""

    def attack(model: nn.Module, x: Tensor, y: Tensor, eps: float, n: int, bounds: Bounds, count: int) -> Tensor:
        columns, rounds = torch.zeros(x[0].numel()), 5
        gradient = _in_columns(model, x, y, eps, 1, bounds, columns, loss, Best())
        for turn in range(1, rounds + 1):
            energy = gradient.norm(dim=0).masked_fill(columns > 0, torch.inf)
            columns = torch.zeros_like(columns).index_fill_(0, energy.topk(count * turn // rounds).indices, 1)
            best = Best()  # earlier rounds have fewer columns, which is allowed, but a later one is stronger
            gradient = _in_columns(model, x, y, eps, max(1, (n - 1) // rounds), bounds, columns, loss, best)
        return best.delta

    return attack


def relaxed_columns(loss: str) -> Rival:
    """A third of the gradients without a structure, columns by their share of that perturbation, the rest in them."""

    def attack(model: nn.Module, x: Tensor, y: Tensor, eps: float, n: int, bounds: Bounds, count: int) -> Tensor:
        free, best = Best(), Best()
        everything = torch.ones(x[0].numel())
        _in_columns(model, x, y, eps, n // 3, bounds, everything, loss, free)
        energy = free.delta.flatten(1).norm(dim=0)
        columns = torch.zeros_like(everything).index_fill_(0, energy.topk(count).indices, 1)
        _in_columns(model, x, y, eps, n - n // 3, bounds, columns, loss, best)
        return best.delta

    return attack


def torchattacks_l2(kind: str) -> Rival:
    """PGDL2, APGD-CE and APGD-DLR of torchattacks, which always clamp to [0, 1]."""

    def attack(model: nn.Module, x: Tensor, y: Tensor, eps: float, n: int, bounds: Bounds, count: int) -> Tensor:
        import torchattacks

        if kind == "PGDL2":
            made = torchattacks.PGDL2(model, eps=eps, alpha=2.5 * eps / n, steps=n)
        else:
            made = torchattacks.APGD(model, norm="L2", eps=eps, steps=n, loss=kind)
        return made(x, y) - x

    return attack


def foolbox_l2(model: nn.Module, x: Tensor, y: Tensor, eps: float, n: int, bounds: Bounds, count: int) -> Tensor:
    """L2PGD of foolbox."""
    import foolbox

    seen = foolbox.PyTorchModel(model, bounds=bounds or (-1e6, 1e6))
    _, moved, _ = foolbox.attacks.L2PGD(rel_stepsize=2.5 / n, steps=n)(seen, x, y, epsilons=eps)
    return moved - x


def art_universal(model: nn.Module, x: Tensor, y: Tensor, eps: float, n: int, bounds: Bounds, count: int) -> Tensor:
    """UniversalPerturbation of ART with its own attack of single samples; it asks for as many gradients as it wants."""
    from art.attacks.evasion import UniversalPerturbation
    from art.estimators.classification import PyTorchClassifier

    classifier = PyTorchClassifier(
        model, nn.CrossEntropyLoss(), tuple(x.shape[1:]), model(x[:1]).shape[1], clip_values=bounds, device_type="cpu"
    )
    parameters: dict[str, Any] = {"norm": 2, "eps": eps, "eps_step": eps / 4, "max_iter": 10, "verbose": False}
    made = UniversalPerturbation(
        classifier, "pgd", parameters, delta=0.01, max_iter=1, eps=eps, norm=2, batch_size=len(x), verbose=False
    )
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.generate(x.numpy(), one_hot(y).numpy())
    noise = torch.from_numpy(np.asarray(made.noise)).to(x).reshape(1, *x.shape[1:])
    return _rows_inside(noise, eps).expand_as(x)


def rivals(structure: str, box: bool) -> Iterator[tuple[str, Rival]]:
    """The rivals of an attack by the name of its structure; those of other libraries know images in [0, 1] only."""
    if structure == "universal":
        for loss in LOSSES:
            for rate in RATES[loss]:
                yield f"Adam on the shift, {loss}, rate {rate:g}·eps", adam_shift(loss, rate)
        yield "targeted shifts", targeted_shifts
        if box:
            yield "ART UniversalPerturbation", art_universal
    elif structure == "low-rank":
        for loss in LOSSES:
            for rate in RATES[loss]:
                yield f"Adam on U·V, {loss}, rate {rate:g}", adam_product(loss, rate)
    elif structure == "group-sparse":
        for loss in LOSSES:
            yield f"greedy columns, {loss}", greedy_columns(loss)
            yield f"relaxed columns, {loss}", relaxed_columns(loss)
    elif box:
        for kind in ("PGDL2", "ce", "dlr"):
            yield f"torchattacks {kind if kind == 'PGDL2' else 'APGD-' + kind.upper()}", torchattacks_l2(kind)
        yield "foolbox L2PGD", foolbox_l2
