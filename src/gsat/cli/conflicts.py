"""Options of `gsat train` that leave others without effect."""

from __future__ import annotations

from gsat import _defaults
from gsat.cli.app import fail


def refuse_what_is_set_aside(options_given: set[str], defence: str, metric: str, *, choose: bool) -> None:
    """Leave with a message where an option was given that the others leave without effect."""
    for name in ("defence", "budget", "gamma"):
        if choose and name in options_given:
            fail(f"--choose chooses the {name} on batches left out: leave out --{name}, or --choose")
    if choose and "eps" in options_given:
        fail("--choose tries no defence with a norm bound: leave out --eps, or --choose")
    if not choose and "combine" in options_given:
        fail("--combine says what becomes of the candidates of --choose: leave it out, or give --choose")
    if "shuffle" in options_given and (choose or defence in _defaults.SOLVED):
        got = "--choose" if choose else f"--defence {defence}"
        fail(f"--shuffle is for the groups of one training: leave it out, got {got}")
    if "device" in options_given and defence in _defaults.SOLVED and not choose:
        fail(f"--device is for networks: leave it out, {defence} models are solved on the CPU")
    if choose and "precision" in options_given:
        fail("--precision is for one training: leave it out, or --choose")
    if choose and metric == "none":
        fail("--choose tries adversaries without a metric too: leave out --metric none, or --choose")
    for name in ("metric", "gamma"):
        if not choose and name in options_given and defence not in (*_defaults.STRUCTURES, _defaults.LINEAR):
            structures = ", ".join((*_defaults.STRUCTURES, _defaults.LINEAR))
            fail(f"--{name} is for the structures of GSAT and linear models ({structures}), got --defence {defence}")
    for name, model in (("c", _defaults.LINEAR), ("shrinkage", _defaults.LDA)):
        if name in options_given and (choose or defence != model):
            fail(f"--{name} is for --defence {model}, got {'--choose' if choose else f'--defence {defence}'}")
    if choose:
        return
    priced, structures = defence in _defaults.STRUCTURES, ", ".join(_defaults.STRUCTURES)
    if defence == "erm" and (names := options_given & {"eps", "budget"}):
        fail(f"--defence erm moves no sample: leave out --{' and --'.join(sorted(names))}, or take another defence")
    if priced and "eps" in options_given:
        fail(f"--eps is the norm bound of defences that are not GSAT, got --defence {defence}: give it as --budget")
    if not priced and "budget" in options_given:
        fail(f"--budget is for the structures of GSAT ({structures}), got --defence {defence}: give it as --eps")
