"""What a defence is, and the one that perturbs nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gsat._arrays.norms import mean, norm, rows
from gsat.losses import SampleLoss
from gsat.models import layout
from gsat.shortcuts import Path


class Defence(ABC):
    """x_adv = defence(model, x, y): the group that the weights are trained on; `delta` is the last perturbation.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> class Noise(gsat.defences.Defence):
    ...     name = "noise"
    ...
    ...     def __call__(self, model, x, y, batch=None):
    ...         return x + 0.1 * torch.randn_like(x)
    >>> model, x, y = torch.nn.Linear(6, 3), torch.randn(8, 6), torch.arange(8) % 3
    >>> len(gsat.gdadmm(model, x, y, Noise(), n_outer=5))
    5
    """

    name: ClassVar[str]
    spans_ranks: bool = False  # whether a group that lies on several ranks is moved as one
    _compact: Tensor | None = None  # the last perturbation, in the coordinates of the path on which it was found
    _path: Path | None = None

    @abstractmethod
    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The perturbed group, without a gradient; model, x and y are left as they are."""

    def objective(self, model: nn.Module, x: Tensor, y: Tensor, loss: SampleLoss, batch: Any = None) -> Tensor:
        """What the weights descend on, a scalar with a gradient: the mean loss of the perturbed group x."""
        return loss(layout.outputs(model, x), y).mean()

    @property
    def delta(self) -> Tensor | None:
        """The last perturbation (m, *features), formed when it is asked for."""
        return self._compact if self._path is None or self._compact is None else self._path.perturbation(self._compact)

    @delta.setter
    def delta(self, value: Tensor | None) -> None:
        self._compact, self._path = value, None

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies: the perturbation itself, without the model that its path refers to."""
        return {**vars(self), "_compact": self.delta, "_path": None}

    @property
    def norms(self) -> Tensor:
        """‖δ_i‖₂ of the last perturbation, in a metric ‖z_i‖₂, (m,); a single 0 where nothing was perturbed."""
        return torch.zeros(1) if self._compact is None else norm(rows(self._compact), dim=1)

    @property
    def mean_norm(self) -> float:
        """The mean of `norms`, over all ranks where the group lies on several."""
        return mean(self.norms.double())

    def measure(self) -> float | None:
        """How structured the last perturbation is: columns that move, or rank; None where that has no meaning."""
        return None

    def state_dict(self) -> dict[str, Tensor]:
        """What must be kept so that a resumed run equals an unbroken one."""
        return {}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a state that `state_dict` gave."""
        if set(state) != set(self.state_dict()):
            raise ValueError(f"the state of {self.name} must hold {sorted(self.state_dict())}, got {sorted(state)}")


class ERM(Defence):
    """Nothing is perturbed: empirical risk minimisation.

    Examples
    --------
    >>> import torch
    >>> import gsat
    >>> model, x, y = torch.nn.Linear(6, 3), torch.randn(8, 6), torch.arange(8) % 3
    >>> bool((gsat.defences.ERM()(model, x, y) == x).all())
    True
    """

    name, spans_ranks = "erm", True

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, batch: Any = None) -> Tensor:
        """The group as it is."""
        return x.detach()
