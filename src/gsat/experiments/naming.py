"""What data sets, networks and attacks of the figures are called."""

from __future__ import annotations

AXES = {
    "universal": "eps / E‖X‖", "universal-all": "eps / E‖X‖", "pgd": "eps / E‖X‖", "low-rank": "rank",
    "group-sparse": "columns that move", "group-sparse, pixels": "pixels that move",
    "group-sparse, SNPs": "SNPs that move",
}  # fmt: skip
SETS = {"mnist": "MNIST", "cifar10": "CIFAR-10", "hapmap": "HapMap3", "tcga": "TCGA"}
NETWORKS = {"alexnet": "AlexNet", "elu": "ELU net"}


def over_eps(attack: str) -> bool:
    """Whether the strength of the attack is its norm, not a count."""
    return AXES[attack].startswith("eps")


def where(data: str, model: str) -> str:
    """A data set and a network."""
    return f"{SETS.get(data, data)}, {NETWORKS.get(model, model)}"


def at_strength(attack: str, eps: float, strength: float) -> str:
    """An attack of one strength; eps is a fraction of E‖X‖."""
    if over_eps(attack):
        return f"{attack}, eps {eps:g}"
    unit = AXES[attack].removesuffix(" that move")
    return f"{f'rank {strength:g}' if unit == 'rank' else f'{strength:g} {unit}'}, eps {eps:g}"
