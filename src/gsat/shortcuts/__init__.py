"""Exact short-cuts for models that see their input through one linear layer; `choose` decides which path is taken."""

from gsat.shortcuts.paths import Path, choose

__all__ = ["Path", "choose"]
