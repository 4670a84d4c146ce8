"""`gsat diagnose`."""

from __future__ import annotations

import io
import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gsat._files import remove_dead_drafts
from gsat.cli import options
from gsat.cli.app import app, fail, user_errors, visible
from gsat.cli.files import vacant, write_together
from gsat.data.source import Source

FILES = ("diagnosis.json", "diagnosis.png")
SHOWN = 20  # names of features


@app.command(
    epilog="Examples: [bold]gsat diagnose cells.h5ad --batch donor --label cell_type --out runs/shift[/bold], "
    "[bold]gsat diagnose sc-mixology --batch technology[/bold], "
    "[bold]gsat diagnose table.csv --batch lab --json[/bold]",
)
@user_errors
def diagnose(
    data: options.Data,
    batch: options.Batch = None,
    label: options.Label = None,
    out: Annotated[Path | None, typer.Option(help="Folder for diagnosis.json and diagnosis.png.")] = None,
    ids: options.Ids = None,
    layer: options.Layer = None,
    pheno: options.Pheno = None,
    missing: options.Missing = None,
    one_hot: options.OneHot = False,
    drop: options.Drop = None,
    features: options.Features = None,
    unlabelled: options.LeftOut = "error",
    standardize: options.Standardize = None,
    max_features: Annotated[
        int | None, typer.Option(help="The most features that group-sparse may mean; default the root of their number.")
    ] = None,
    max_rank: Annotated[int | None, typer.Option(help="The most directions that low-rank may mean; default 5.")] = None,
    n_splits: Annotated[int, typer.Option(help="How often the samples are halved.")] = 10,
    max_samples: Annotated[int, typer.Option(help="Larger data is thinned to so many samples.")] = 1000,
    seed: options.Seed = 0,
    data_dir: options.DataDir = None,
    max_memory: options.MaxMemory = None,
    stream: options.Stream = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a diagnosis that is there.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Say how the batches differ (one shift, a few features, a few directions), by how much, and what to do next."""
    if out is not None:
        if out.exists() and not out.is_dir():
            fail(f"--out must be a folder, got the file {out}")
        remove_dead_drafts(out)  # it may bring files of a killed process to their places
        vacant(*(out / name for name in FILES), force=force)
    source = Source.given(
        data, label=label, batch=batch, ids=ids, layer=layer, pheno=pheno, missing=missing, one_hot=one_hot, drop=drop,
        features=features, unlabelled=None if unlabelled == "error" else unlabelled,
    )  # fmt: skip
    table = source.read(data_dir, max_memory=max_memory, stream=stream)
    if table.batch is None:
        fail(f"--batch must name the column or key of {data} that tells the batches, got none")

    from gsat.diagnosis import diagnose as examine

    found = examine(
        table.X,
        table.batch,
        table.y,
        standardize=not source.is_pixels if standardize is None else standardize,
        max_features=max_features,
        max_rank=max_rank,
        n_splits=n_splits,
        max_samples=max_samples,
        random_state=seed,
    )
    moving = [_name(table.feature_names, j) for j in found.features.tolist()]
    asked = replace(source, label="LABEL") if label is None and table.y is None else source  # what is to be predicted
    following = f"gsat check {shlex.join(asked.typed(data))}"
    content = {**source.describe(), "checksum": table.checksum, **found.to_dict(), "features": moving}
    content["next"] = following
    if out is not None:
        picture = io.BytesIO()
        found.plot(picture)
        write_together(out, {FILES[0]: json.dumps(content, indent=1).encode(), FILES[1]: picture.getvalue()})
    if as_json:
        typer.echo(json.dumps(content))
        return
    typer.echo(visible(str(found)))
    if found.structure == "group-sparse" or found.also == ("group-sparse",):
        most = moving[: found.k]
        more = f" and {len(most) - SHOWN} more" if len(most) > SHOWN else ""
        typer.echo(visible(f"\nThe features that move most: {', '.join(map(str, most[:SHOWN]))}{more}"))
    typer.echo(visible(f"\nNext, how well models do on batches left out:\n  {following}"))
    if out is not None:
        typer.echo(visible(f"A page with figures:\n  gsat report {shlex.quote(str(out))}"))


def _name(names: tuple[str, ...] | None, position: int) -> Any:
    return position if names is None else names[position]
