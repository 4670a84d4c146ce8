"""`gsat select`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gsat._files import remove_dead_drafts
from gsat.cli import options
from gsat.cli.app import app, at_least_one, fail, user_errors, visible
from gsat.cli.files import SEPARATORS, table_bytes, vacant, write_together
from gsat.data.source import Source

SHOWN = 20  # rows that are printed


@app.command(
    epilog="Examples: [bold]gsat select snps.bed --pheno labels.tsv --label continent --one-hot -k 100[/bold], "
    "[bold]gsat select cells.h5ad --label cell_type -k 50 --n-resamples 20 --out markers.csv[/bold]",
)
@user_errors
def select(
    data: options.Data,
    label: options.Label = None,
    k: Annotated[int, typer.Option("-k", "--k", help="How many features, or SNPs with --one-hot.")] = 100,
    out: Annotated[Path, typer.Option(help="The table, .csv or .tsv; a picture of the scores goes beside it.")] = Path(
        "features.csv"
    ),
    fdr: Annotated[
        float | None,
        typer.Option(
            help="As many as knockoffs allow with this share of false ones, as 0.1; k then says how many are meant."
        ),
    ] = None,
    n_resamples: Annotated[
        int, typer.Option(help="Halves of the samples on which it is repeated, to tell how stable it is; 0: none.")
    ] = 10,
    ids: options.Ids = None,
    layer: options.Layer = None,
    pheno: options.Pheno = None,
    missing: options.Missing = None,
    one_hot: options.OneHot = False,
    whole: Annotated[bool, typer.Option("--all", help="Write all features, not only the first k.")] = False,
    batch: options.NotAFeature = None,
    n_outer: Annotated[int | None, typer.Option(help="Groups to train on, per round.")] = None,
    group_size: Annotated[int | None, typer.Option(help="Samples in a group.")] = None,
    budget: Annotated[float | None, typer.Option(help="Mean norm of the perturbations, as a fraction of E‖X‖.")] = None,
    alpha: Annotated[float | None, typer.Option(help="Weight of the structure in the cost, 0 to 1.")] = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    data_dir: options.DataDir = None,
    max_memory: options.MaxMemory = None,
    stream: options.Stream = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite table and picture.")] = False,
    raw_text: options.RawText = False,
    as_json: options.AsJson = False,
) -> None:
    """Rank the features by how much of the group-sparse adversary's effort they attract; all samples are used."""
    if out.suffix.lower() not in SEPARATORS:
        fail(f"--out must end in .csv or .tsv, got {out}")
    at_least_one(threads=threads)
    drawn = out.with_suffix(".png")
    remove_dead_drafts(out.parent, out.name, drawn.name)  # it may bring files of a killed process to their places
    vacant(out, drawn, force=force, data=data)
    source = Source.given(
        data, label=label, batch=batch, ids=ids, layer=layer, pheno=pheno, missing=missing, one_hot=one_hot
    )
    # before torch is imported: a wrong column is told at once
    table = source.labelled(data_dir, max_memory=max_memory, stream=stream)

    from gsat.selectors import GroupSparseSelector
    from gsat.selectors.ranking import picture, rank
    from gsat.training.threads import use_threads

    use_threads(threads)

    tuned = {"n_outer": n_outer, "group_size": group_size, "budget": budget, "alpha": alpha}
    selector = GroupSparseSelector(
        k,
        fdr=fdr,
        n_resamples=n_resamples,
        random_state=seed,
        verbose=int(sys.stderr.isatty() and not as_json),
        **{name: value for name, value in tuned.items() if value is not None},  # type: ignore[arg-type]
    )
    frame = rank(table, selector)
    chosen = frame if whole else frame.head(max(k, selector.k_))
    content = {out.name: table_bytes(out, chosen, raw_text=raw_text), drawn.name: picture(chosen)}
    write_together(out.parent, content)
    if as_json:
        typer.echo(chosen.to_json(orient="records"))
        return
    typer.echo(visible(chosen.head(SHOWN).to_string(index=False, float_format=lambda value: f"{value:.4g}")))
    if fdr is not None:
        typer.echo(f"{selector.k_} features chosen at a false discovery rate of {fdr:g}")
    more = f"{len(chosen) - SHOWN} more rows in {out}" if len(chosen) > SHOWN else f"table: {out}"
    typer.echo(f"{more}   picture: {drawn}")
