"""What the config.json of a run of `gsat train --choose` says of the choice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gsat._files import read_json
from gsat.cli.app import fail
from gsat.cli.folders import is_run

CHOSEN = {"defence", "size", "gamma", "prepare", "options"}  # what --choose decides of a plan


def stored_choice(out: Path) -> tuple[list[dict[str, Any]] | None, list[dict[str, Any]] | None]:
    """What `gsat train --choose` chose for the run in `out`, and for single samples where these are others.

    None where a run that was begun with --choose was stopped before it had chosen.
    """
    config = read_json(out / "config.json") if is_run(out) else {}
    found, single = (config.get(name) for name in ("choice", "choice_single"))
    if "choice" not in config or not all(some is None or _are_choices(some) for some in (found, single)):
        fail(f"--resume needs a run that was begun with --choose, got {out}")
    return found, single


def needs_batches(config: dict[str, Any]) -> bool:
    """Whether the model of a run, or one of those that it averages, is centred."""
    members = config.get("choice")
    named = [one for one in members if isinstance(one, dict)] if isinstance(members, list) else []
    return any(one.get("prepare") == "centre" for one in (config, *named))


def _are_choices(value: Any) -> bool:
    return (
        isinstance(value, list) and len(value) > 0 and all(isinstance(one, dict) and {*one} == CHOSEN for one in value)
    )
