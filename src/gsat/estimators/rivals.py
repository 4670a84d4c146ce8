"""GroupDRO, CORAL and random draws as classifiers, for comparisons on batches that were never seen."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from torch import Generator, nn

from gsat import _defaults
from gsat._arrays.standardise import Standardised
from gsat.defences import Defence
from gsat.estimators.classifier import TorchClassifier
from gsat.estimators.metric import MetricEstimator
from gsat.estimators.samples import Samples
from gsat.estimators.weighted import Positions
from gsat.losses import SampleLoss
from gsat.rivals import CORAL, GroupDRO, RandomDraws


@dataclass(eq=False, repr=False, kw_only=True)
class GroupDROClassifier(TorchClassifier):
    """The network trained so that no batch has a large loss (`gsat.rivals.GroupDRO`); ERM where fit gets no batch.

    Parameters
    ----------
    step
        Of the weights of the batches.
    **others
        Those of `GSATClassifier` that do not concern its adversary.

    Attributes
    ----------
    batches_
        The ids of the batches that fit was given, sorted.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.GroupDROClassifier(n_outer=40, eta0=0.03, hidden=10, random_state=0)
    >>> _ = clf.fit(table.X, table.y, batch=table.batch)
    >>> clf.batches_.tolist()
    ['batch0', 'batch1', 'batch2', 'batch3']
    """

    step: float = field(default=0.01, kw_only=False)

    def _ready(
        self, samples: Samples, positions: Positions, n_outputs: int, seed: int, module: nn.Module | None
    ) -> tuple[Standardised, nn.Module]:
        self.batches_ = np.unique([] if samples.batch is None else samples.batch)
        return super()._ready(samples, positions, n_outputs, seed, module)

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return GroupDRO(self.step, self.batches_.tolist())


@dataclass(eq=False, repr=False, kw_only=True)
class CORALClassifier(TorchClassifier):
    """The network trained so that its hidden layer varies alike in all batches (`gsat.rivals.CORAL`).

    Parameters
    ----------
    strength
        Of the penalty.
    **others
        Those of `GSATClassifier` that do not concern its adversary.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.CORALClassifier(n_outer=40, eta0=0.03, hidden=10, random_state=0)
    >>> _ = clf.fit(table.X, table.y, batch=table.batch)
    >>> clf.score(table.X, table.y) > 0.7
    True
    """

    strength: float = field(default=1.0, kw_only=False)

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return CORAL(self.strength)


@dataclass(eq=False, repr=False, kw_only=True)
class RandomDrawsClassifier(TorchClassifier, MetricEstimator):
    """The network trained on samples with random perturbations of one length (`gsat.rivals.RandomDraws`).

    Parameters
    ----------
    eps
        Their length as a fraction of E‖X‖₂ of the standardised data, in a metric before it is applied.
    metric, gamma
        Along which directions the draws are long, as in `GSATClassifier`.
    **others
        Those of `GSATClassifier` that do not concern its adversary.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.RandomDrawsClassifier(eps=0.1, n_outer=40, eta0=0.03, hidden=10, random_state=0)
    >>> _ = clf.fit(table.X, table.y)
    >>> clf.score(table.X, table.y) > 0.7
    True
    """

    eps: float = field(default=_defaults.EPS, kw_only=False)

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return RandomDraws(self.eps * unit, metric=self.metric_, generator=Generator().manual_seed(seed))
