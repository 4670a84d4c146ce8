"""The classifiers that GSAT is compared with: no adversary, or one that moves every sample by at most eps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gsat import defences, registry
from gsat.defences import Defence
from gsat.estimators.classifier import TorchClassifier
from gsat.losses import SampleLoss


class ERMClassifier(TorchClassifier):
    """The same network without an adversary: empirical risk minimisation."""

    def __init__(
        self,
        *,
        n_outer: int = 1000,
        group_size: int = 200,
        module: Any = None,
        module_options: Any = None,
        in_shape: Any = None,
        hidden: int = 100,
        eta0: float = 1e-3,
        schedule: Any = "constant",
        ema: float | None = None,
        standardize: bool = True,
        class_weight: Any = None,
        device: Any = None,
        warm_start: bool = False,
        callbacks: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.n_outer = n_outer
        self.group_size = group_size
        self.module = module
        self.module_options = module_options
        self.in_shape = in_shape
        self.hidden = hidden
        self.eta0 = eta0
        self.schedule = schedule
        self.ema = ema
        self.standardize = standardize
        self.class_weight = class_weight
        self.device = device
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return defences.ERM()


class _EpsClassifier(TorchClassifier):
    """A baseline of size `eps`, a fraction of E‖X‖ where the module sees the data."""

    def __init__(
        self,
        eps: float = 0.05,
        *,
        n_inner: int = 20,
        n_outer: int = 1000,
        group_size: int = 200,
        module: Any = None,
        module_options: Any = None,
        in_shape: Any = None,
        hidden: int = 100,
        eta0: float = 1e-3,
        schedule: Any = "constant",
        ema: float | None = None,
        standardize: bool = True,
        class_weight: Any = None,
        device: Any = None,
        warm_start: bool = False,
        callbacks: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.eps = eps
        self.n_inner = n_inner
        self.n_outer = n_outer
        self.group_size = group_size
        self.module = module
        self.module_options = module_options
        self.in_shape = in_shape
        self.hidden = hidden
        self.eta0 = eta0
        self.schedule = schedule
        self.ema = ema
        self.standardize = standardize
        self.class_weight = class_weight
        self.device = device
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state


class PGDClassifier(_EpsClassifier):
    """Ordinary adversarial training: every sample moves on its own, by n_inner steps of projected gradient ascent."""

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return defences.PGD(self.eps * unit, steps=self.n_inner, loss=loss)


class FGMClassifier(_EpsClassifier):
    """Adversarial training with the fast gradient method; n_inner is not used."""

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return defences.FGM(self.eps * unit, loss=loss)


class FGSMClassifier(_EpsClassifier):
    """As `FGMClassifier`, with the signs of the gradient for its direction: FGSM with an L2-matched norm."""

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return defences.FGM(self.eps * unit, direction="sign", loss=loss)


class UniversalATClassifier(_EpsClassifier):
    """Universal adversarial training with one carried shift; n_inner is not used."""

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return defences.UniversalAT(self.eps * unit, loss=loss)


class StructuredATClassifier(TorchClassifier):
    """Adversarial training with a structured attack of size `eps`: GSAT's structures without its price λ.

    structure: "universal", "group-sparse" (at most k columns, default 50) or "low-rank" (rank k, default 5)
    """

    def __init__(
        self,
        structure: str = "low-rank",
        *,
        eps: float = 0.05,
        k: int | None = None,
        n_inner: int = 20,
        n_outer: int = 1000,
        group_size: int = 200,
        module: Any = None,
        module_options: Any = None,
        in_shape: Any = None,
        hidden: int = 100,
        eta0: float = 1e-3,
        schedule: Any = "constant",
        ema: float | None = None,
        standardize: bool = True,
        class_weight: Any = None,
        feature_groups: Any = None,
        device: Any = None,
        warm_start: bool = False,
        callbacks: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.structure = structure
        self.eps = eps
        self.k = k
        self.n_inner = n_inner
        self.n_outer = n_outer
        self.group_size = group_size
        self.module = module
        self.module_options = module_options
        self.in_shape = in_shape
        self.hidden = hidden
        self.eta0 = eta0
        self.schedule = schedule
        self.ema = ema
        self.standardize = standardize
        self.class_weight = class_weight
        self.feature_groups = feature_groups
        self.device = device
        self.warm_start = warm_start
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        name = f"structured-{self.structure}"
        if name not in registry.NAMES:
            raise ValueError(f"structure must be universal, group-sparse or low-rank, got {self.structure!r}")
        found = registry.named(
            name, eps=self.eps * unit, k=self.k, feature_groups=self.feature_groups, n_inner=self.n_inner
        )
        if isinstance(found, defences.Structured):
            found.attack = replace(found.attack, loss=loss)
        return found
