"""The paper's data that cannot be handed on: where the user has them, they replace what stands in for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gsat.data.files import needed
from gsat.data.rules import sha256_of

if TYPE_CHECKING:
    from gsat.experiments.setting import Scale

TCGA, HAPMAP = "tcga-uci", "hapmap-paper"
USED_BY = {"biology": (HAPMAP, TCGA), "selection": (HAPMAP,), "tcga-clean": (TCGA,)}  # experiment: its own data


def own_data(data_dir: Path | None) -> dict[str, str]:
    """The sets that lie in the folder, and the sha256 of their files; a folder of one that lacks a file is refused."""
    if data_dir is None:
        return {}
    there = [name for name in (HAPMAP, TCGA) if (data_dir / name).exists()]
    return {name: sha256_of(*needed(name, data_dir)) for name in there}


def used(scale: Scale, own: str, *stand_ins: str) -> dict[str, dict[str, str]]:
    """The user's data set or what stands in for it, each with the arguments that tell the user's files from others."""
    return {own: {"checksum": scale.own[own]}} if own in scale.own else {name: {} for name in stand_ins}
