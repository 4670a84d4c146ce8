"""The classifiers that GSAT is compared with: no adversary, or one that moves every sample by at most eps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from gsat import _defaults, registry
from gsat.defences import Defence
from gsat.estimators.classifier import TorchClassifier
from gsat.losses import SampleLoss


@dataclass(eq=False, repr=False, kw_only=True)
class ERMClassifier(TorchClassifier):
    """The same network without an adversary: empirical risk minimisation.

    Parameters
    ----------
    **others
        Those of `GSATClassifier` that do not concern its adversary.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.ERMClassifier(n_outer=40, eta0=0.03, hidden=10, random_state=0)
    >>> clf.fit(table.X, table.y).score(table.X, table.y) > 0.7
    True
    """

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return registry.named("erm", eps=0.0)


@dataclass(eq=False, repr=False, kw_only=True)
class EpsClassifier(TorchClassifier):
    """A baseline of size `eps`, a fraction of E‖X‖₂ where the module sees the data."""

    defence: ClassVar[str]  # its name in the registry

    eps: float = field(default=_defaults.EPS, kw_only=False)

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return registry.named(self.defence, eps=self.eps * unit, loss=loss)


@dataclass(eq=False, repr=False, kw_only=True)
class PGDClassifier(EpsClassifier):
    """Ordinary adversarial training: every sample moves on its own, by projected gradient ascent.

    Parameters
    ----------
    eps
        Bound of ‖δ_i‖₂ as a fraction of E‖X‖₂ of the standardised data.
    n_inner
        Steps of the ascent for a group.
    **others
        Those of `GSATClassifier` that do not concern its adversary.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.PGDClassifier(eps=0.1, n_inner=3, n_outer=40, eta0=0.03, hidden=10, random_state=0)
    >>> clf.fit(table.X, table.y).score(table.X, table.y) > 0.7
    True
    """

    defence = "pgd"

    n_inner: int = _defaults.N_INNER

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        return registry.named(self.defence, eps=self.eps * unit, n_inner=self.n_inner, loss=loss)


class FGMClassifier(EpsClassifier):
    """Adversarial training with the fast gradient method: one gradient for a group.

    Parameters
    ----------
    eps
        Bound of ‖δ_i‖₂ as a fraction of E‖X‖₂ of the standardised data.
    **others
        Those of `GSATClassifier` that do not concern its adversary.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.FGMClassifier(eps=0.1, n_outer=40, eta0=0.03, hidden=10, random_state=0)
    >>> clf.fit(table.X, table.y).score(table.X, table.y) > 0.7
    True
    """

    defence = "fgm"


class FGSMClassifier(EpsClassifier):
    """As `FGMClassifier`, with the signs of the gradient for its direction: FGSM with an L2-matched norm.

    Parameters
    ----------
    eps
        Bound of ‖δ_i‖₂ as a fraction of E‖X‖₂ of the standardised data.
    **others
        Those of `GSATClassifier` that do not concern its adversary.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.FGSMClassifier(eps=0.1, n_outer=40, eta0=0.03, hidden=10, random_state=0)
    >>> clf.fit(table.X, table.y).score(table.X, table.y) > 0.7
    True
    """

    defence = "fgsm"


class UniversalATClassifier(EpsClassifier):
    """Universal adversarial training with one shift, carried over from group to group.

    Parameters
    ----------
    eps
        Bound of ‖δ_i‖₂ as a fraction of E‖X‖₂ of the standardised data.
    **others
        Those of `GSATClassifier` that do not concern its adversary.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.UniversalATClassifier(eps=0.1, n_outer=40, eta0=0.03, hidden=10, random_state=0)
    >>> clf.fit(table.X, table.y).score(table.X, table.y) > 0.7
    True
    """

    defence = "universal-at"


@dataclass(eq=False, repr=False, kw_only=True)
class StructuredATClassifier(TorchClassifier):
    """Adversarial training with a structured attack of size `eps`: GSAT's structures without its price λ.

    Parameters
    ----------
    structure
        "universal" (one shift for the whole group, as in "universal-one"), "group-sparse" or "low-rank".
    eps
        Bound of ‖δ_i‖₂ as a fraction of E‖X‖₂ of the standardised data.
    k
        At most k columns (default 50), or rank k (default 5).
    n_inner
        Gradients of the attack for a group.
    feature_groups
        One block for each column; the columns of a block move together.
    **others
        Those of `GSATClassifier` that do not concern its adversary.

    Examples
    --------
    >>> import gsat
    >>> table = gsat.data.make_batches(100, 5)
    >>> clf = gsat.StructuredATClassifier("group-sparse", k=2, n_inner=5, n_outer=40, eta0=0.03, hidden=10)
    >>> clf.fit(table.X, table.y).score(table.X, table.y) > 0.7
    True
    """

    structure: str = field(default=_defaults.STRUCTURE, kw_only=False)
    eps: float = _defaults.EPS
    k: int | None = None
    n_inner: int = _defaults.N_INNER
    feature_groups: Any = None

    def _defence(self, unit: float, loss: SampleLoss, seed: int) -> Defence:
        *others, last = registry.attacked_structures()
        if self.structure not in (*others, last):
            raise ValueError(f"structure must be {', '.join(others)} or {last}, got {self.structure!r}")
        return registry.named(
            registry.BY_ATTACK + self.structure,
            eps=self.eps * unit,
            k=self.k,
            feature_groups=self.feature_groups,
            n_inner=self.n_inner,
            loss=loss,
        )
