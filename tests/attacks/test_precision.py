"""Models of half precision are attacked in float32, and surrogates in a precision of their own."""

import threading
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gsat
from gsat.attacks import FGM, PGD, GroupSparse, LowRank, Universal
from gsat.models import build
from strategies import normal

HALVES = [torch.float16, torch.bfloat16]


def small(dtype: torch.dtype = torch.float32, factor: float = 1.0) -> tuple[nn.Module, Tensor, Tensor]:
    """A net with logits that are `factor` times as large, samples and the labels that it gives them."""
    model = build("elu", (12,), 3, hidden=8).eval()
    with torch.no_grad():
        for weight in model[-1].parameters():
            weight *= factor
    x = normal(60, 12, seed=1, dtype=torch.float32).to(dtype)
    return model.to(dtype), x, model.to(dtype)(x).argmax(1)


def every(eps: float, **options: Any) -> list[gsat.attacks.Attack]:
    return [
        Universal(eps, **options),
        GroupSparse(eps, k=4, **options),
        LowRank(eps, rank=2, **options),
        PGD(eps, **options),
        FGM(eps, **options),
    ]


def errors(model: nn.Module, x: Tensor, y: Tensor) -> int:
    with torch.no_grad():
        return int((model(x).argmax(1) != y).sum())


@pytest.mark.parametrize("strength", ["fast", "standard"])
@pytest.mark.parametrize("dtype", HALVES)
def test_norm_and_type(dtype: torch.dtype, strength: str) -> None:
    model, x, y = small(dtype)
    for attack in every(0.7, steps=6, strength=strength):
        delta = attack.perturb(model, x, y)
        assert delta.dtype == dtype
        assert 0 < float(delta.double().norm(dim=1).max()) <= 0.7
    assert {weight.dtype for weight in model.parameters()} == {dtype}
    batched = Universal(0.7, steps=6).perturb(model, x, y, batch=torch.arange(60) % 2)
    assert not torch.equal(batched[0], batched[1])
    assert torch.equal(batched[0], batched[2])
    fitted = GroupSparse(0.7, k=4, steps=6).fit(model, x[:30], y[:30])
    assert fitted.apply(model, x[30:], y[30:]).dtype == dtype


@pytest.mark.parametrize("dtype", HALVES)
def test_as_many_errors_as_for_the_same_weights_in_float32(dtype: torch.dtype) -> None:
    """In half precision the slopes of a model that is sure of itself are rounded to zero."""
    model, x, y = small(dtype, factor=100.0)
    wide = deepcopy(model).float()
    for attack in every(1.0, steps=20):
        half = errors(model, x + attack.perturb(model, x, y), y)
        full = errors(wide, x.float() + attack.perturb(wide, x.float(), y), y)
        assert full > 0
        assert abs(half - full) <= 3, attack


def test_a_model_that_cannot_be_copied_is_attacked_as_it_is() -> None:
    model, x, y = small(torch.float16)
    model[0].lock = threading.Lock()
    with pytest.warns(UserWarning, match=r"cannot be copied to float32 \(TypeError.* give a float32 model") as caught:
        delta = PGD(0.7, steps=6)(model, x, y)
    assert len(caught) == 1
    assert delta.dtype == torch.float16
    assert errors(model, x + delta, y) > 0


def test_a_model_that_computes_in_half_precision_itself() -> None:
    class Casting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = small(torch.float16)[0]

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x.half())

    _, x, y = small(torch.float16)
    with pytest.warns(UserWarning, match="cannot be copied to float32"):
        assert errors(Casting().eval(), x + PGD(0.7, steps=6)(Casting().eval(), x, y), y) > 0


@pytest.mark.parametrize("own", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("other", [torch.float16, torch.float32, torch.float64])
def test_a_surrogate_has_a_precision_of_its_own(own: torch.dtype, other: torch.dtype) -> None:
    model, x, y = small(own)
    surrogate = small(other)[0]
    metric = gsat.Metric(torch.eye(12)[:2], torch.full((2,), 3.0))
    for attack in (
        Universal(0.7, steps=5, strength="standard"),
        PGD(0.7, steps=5, strength="standard", metric=metric),
    ):
        delta = attack.perturb(model, x, y, surrogate=surrogate)
        assert delta.dtype == own
        assert errors(model, x + delta, y) > 0


def test_losses_are_summed_in_more_than_half_precision() -> None:
    model, x, y = small(torch.float16, factor=1000.0)
    x = x.repeat(50, 1)  # more than 65,504 in sum
    attacks = [FGM(3.0, loss="margin")]
    wide = gsat.evaluate(deepcopy(model).float(), x.float(), y.repeat(50), attacks, group_size=3000)
    half = gsat.evaluate(model, x, y.repeat(50), attacks, group_size=3000)
    assert half["loss"][1] * 3000 > 65504
    assert half["loss"][1] == pytest.approx(wide["loss"][1], rel=0.05)
