"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path, typer.Option(help="Folder of the run.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a run that is there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
NOuter = Annotated[int, typer.Option(help="Groups to train on (T0).")]
NInner = Annotated[int, typer.Option(help="Gradients of the inner maximisation (T1).")]
GroupSize = Annotated[int, typer.Option(help="Samples in a group (m).")]
Budget = Annotated[float, typer.Option(help="GSAT: wanted mean norm of the perturbations, as a fraction of E‖X‖.")]
Alpha = Annotated[
    float | None, typer.Option(help="GSAT: weight of the structure in the cost, 0 to 1; group-sparse 0.1, else 0.2.")
]
Eps = Annotated[float, typer.Option(help="Norm bound, as a fraction of E‖X‖.")]
Eta0 = Annotated[float, typer.Option(help="Learning rate of Adam.")]
Seed = Annotated[int, typer.Option(help="Seed of weights and groups: same seed, same bits.")]
Steps = Annotated[int, typer.Option(help="Gradients of an attack.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the data files; default $GSAT_DATA, then the cache.")]
