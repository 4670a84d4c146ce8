"""The paper's two networks, models built by name, and what a module does with its input."""

from gsat.models.build import build, seeded
from gsat.models.networks import AlexNet, ELUNet

__all__ = ["AlexNet", "ELUNet", "build", "seeded"]
