"""What GSAT is compared with on batches never seen: two methods that know the batches, and noise for an adversary."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Generator, Tensor, nn

from gsat import _checks
from gsat._arrays.norms import rows
from gsat.attacks.sets import unit_rows
from gsat.defences import ERM, Defence
from gsat.losses import SampleLoss
from gsat.metric import Metric, fitting
from gsat.models import layout


class GroupDRO(ERM):
    """Batches with a large loss weigh more: Σ_b q_b·ℓ_b with q_b ∝ exp(step·Σ_t ℓ_b) (Sagawa et al., 2020).

    ℓ_b is the mean loss of the samples of batch b in the group, Σ_t sums it over the groups so far, and q is normalised
    over the batches that the group holds. Without batches, or with one, this is ERM.

    Parameters
    ----------
    step
        Of the exponentiated gradient, at least 0; 0 weighs all batches alike.
    batches
        The ids of all batches that may come.
    """

    name = "group-dro"
    spans_ranks = False

    def __init__(self, step: float, batches: Sequence[Hashable] = ()) -> None:
        self.step = _checks.number("step", step, least=0)
        self.places = {one: place for place, one in enumerate(batches)}
        self.log_weights = torch.zeros(len(self.places), dtype=torch.float64)

    def objective(self, model: nn.Module, x: Tensor, y: Tensor, loss: SampleLoss, batch: Any = None) -> Tensor:
        """Σ_b q_b·ℓ_b over the batches of the group, after one step of q."""
        losses = loss(layout.outputs(model, x), y)
        if batch is None:
            return losses.mean()
        ids = batch.tolist() if hasattr(batch, "tolist") else list(batch)
        if unknown := sorted(set(ids) - set(self.places), key=repr):
            raise ValueError(f"batch must hold ids of {list(self.places)}, got {unknown[0]!r}")
        codes = torch.tensor([self.places[one] for one in ids])
        held, place, counts = torch.unique(codes, return_inverse=True, return_counts=True)
        place = place.to(losses.device)
        means: Tensor = losses.new_zeros(len(held)).index_add(0, place, losses) / counts.to(losses)
        self.log_weights[held] += self.step * means.detach().double().cpu()
        weights: Tensor = self.log_weights[held].softmax(0).to(means)
        return weights @ means

    def state_dict(self) -> dict[str, Tensor]:
        """The logarithms of the weights of the batches."""
        return {"log_weights": self.log_weights}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on with these weights."""
        super().load_state_dict(state)
        self.log_weights = state["log_weights"].clone()


class CORAL(ERM):
    """Batches should look alike to the last layer: mean loss + strength·mean_{a<b} ‖C_a − C_b‖²_F / 4h².

    C_b (h, h) is the covariance of what the last layer sees, over the samples of batch b in the group (Sun and Saenko,
    2016); batches with one sample there are left out. With fewer than two batches this is ERM, and with a linear model
    too, whose last layer sees x.

    Parameters
    ----------
    strength
        Of the penalty, at least 0.
    """

    name = "coral"
    spans_ranks = False

    def __init__(self, strength: float) -> None:
        self.strength = _checks.number("strength", strength, least=0)

    def objective(self, model: nn.Module, x: Tensor, y: Tensor, loss: SampleLoss, batch: Any = None) -> Tensor:
        """The mean loss and the penalty."""
        if not isinstance(model, nn.Sequential):
            raise ValueError(f"model must be a torch.nn.Sequential for CORAL, got {type(model).__name__}")
        seen: Tensor = model[:-1](x)
        mean: Tensor = loss(model[-1](seen), y).mean()
        codes = _checks.batch_codes(batch, len(x)) if batch is not None else torch.zeros(len(x), dtype=torch.long)
        held, counts = torch.unique(codes, return_counts=True)
        spread = [seen[(codes == one).to(seen.device)].T.cov() for one in held[counts > 1]]
        if len(spread) < 2:
            return mean
        apart = torch.stack(spread) - torch.stack(spread).mean(0)
        pairs = 2 * apart.square().sum() / (len(spread) - 1)  # the mean over pairs of ‖C_a − C_b‖²
        return mean + self.strength * pairs / (4 * seen.shape[1] ** 2)


class RandomDraws(Defence):
    """Noise for an adversary: δ_i = z_i·A with z_i uniform on the sphere of radius eps, A a metric or the identity.

    Parameters
    ----------
    eps
        ‖z_i‖₂, in the units of the samples.
    metric
        Along which directions the draws are long; None for all alike.
    generator
        Of the draws; None for one with seed 0.
    """

    name = "random"

    def __init__(self, eps: float, *, metric: Metric | None = None, generator: Generator | None = None) -> None:
        self.eps = _checks.number("eps", eps, least=0)
        self.metric = metric
        self.generator = Generator().manual_seed(0) if generator is None else generator

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The group with its noise."""
        flat = rows(_checks.group("x", x))
        z = self.eps * unit_rows(torch.randn(flat.shape, generator=self.generator)).to(flat)
        metric = fitting(self.metric, x)
        delta = self.delta = (z if metric is None else metric.apply(z)).view_as(x)
        return x.detach() + delta

    def state_dict(self) -> dict[str, Tensor]:
        """The generator."""
        return {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue the draws."""
        super().load_state_dict(state)
        self.generator.set_state(state["generator"])
