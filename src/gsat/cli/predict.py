"""`gsat predict`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat.cli import options
from gsat.cli.app import app, fail, import_from_here, say, user_errors
from gsat.cli.choices import needs_batches
from gsat.cli.files import vacant, write_table
from gsat.cli.folders import refuse_without_model, run_config
from gsat.data.readers import READERS
from gsat.data.rules import AbsentError
from gsat.data.source import Source

if TYPE_CHECKING:
    from gsat.data.table import Table


@app.command(
    epilog="Examples: [bold]gsat predict runs/x new.h5ad --out predictions.csv[/bold], "
    "[bold]gsat predict runs/x new.csv --label cell_type --missing-features mean[/bold]",
)
@user_errors
def predict(
    run: Annotated[Path, typer.Argument(help="Folder of a run of `gsat train`, or of a saved classifier.")],
    data: Annotated[str, typer.Argument(help="The new samples: .h5ad, .bed, .csv, .tsv, .parquet or .npz.")],
    out: Annotated[Path, typer.Option(help="The table: id, prediction, and p_ of each class.")] = Path(
        "predictions.csv"
    ),
    label: options.Label = None,
    batch: options.PredictedBatch = None,
    ids: options.Ids = None,
    layer: options.Layer = None,
    pheno: options.Pheno = None,
    missing: options.Missing = None,
    one_hot: options.OneHot = False,
    missing_features: options.MissingFeatures = "error",
    max_memory: options.MaxMemory = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a table that is there.")] = False,
    trust_module: options.TrustModule = False,
    raw_text: options.RawText = False,
    as_json: options.AsJson = False,
) -> None:
    """Predict the classes of new samples; features are matched by name, and the missing or extra ones are told."""
    vacant(out, force=force, data=data)
    refuse_without_model(run)
    given = Source.given(
        data, label=label, batch=batch, ids=ids, layer=layer, pheno=pheno, missing=missing, one_hot=one_hot
    )
    source = _as_trained(given, run)
    table = _read(source, run, max_memory)  # before torch is imported: a wrong column is told at once

    import pandas as pd

    from gsat.data.readers.alleles import counted_alike
    from gsat.estimators import load
    from gsat.estimators.matching import align, probabilities

    if trust_module:
        import_from_here()
    classifier = load(run, trust_module=trust_module)
    if not hasattr(classifier, "classes_"):
        fail(f"{run} must hold a classifier, got a {type(classifier).__name__}")
    if source.plink is not None:
        table, flipped = counted_alike(table, source.plink, getattr(classifier, "feature_names_in_", ()))
        if flipped:
            typer.echo(
                f"gsat: {flipped} SNPs count the other allele than in training; they were turned round", err=True
            )
    X = table.X.reshape(len(table), -1)
    alignment = align(classifier, table.feature_names, X.shape[1], missing_features)
    if classifier.prepare == "centre" and table.batch is None:
        typer.echo(f"gsat: the samples of {data} are taken as one batch; --batch would name their batches", err=True)
    try:
        chances = probabilities(classifier, X, alignment, missing_features, table.batch)
    except ValueError as error:
        if classifier.prepare != "centre" or not (other := run / "model-single").exists():
            raise
        fail(f"{error}; {other} was trained beside it for that: gsat predict {other} {data}")
    predicted = classifier.classes_[chances.argmax(1)]
    frame = pd.DataFrame({"id": range(len(table)) if table.sample_ids is None else table.sample_ids})
    if table.y is not None and label is not None:
        frame["label"] = table.y
    frame["prediction"] = predicted
    columns = [f"p_{name}" for name in classifier.classes_]
    found = pd.concat([frame, pd.DataFrame(chances.round(6), columns=columns)], axis=1)
    write_table(out, found, raw_text=raw_text)
    counts = {str(name): int(count) for name, count in frame["prediction"].value_counts().items()}
    summary: dict[str, Any] = {
        "predictions": str(out),
        "samples": len(table),
        "features": alignment.describe(missing_features),
        **({"missing": alignment.missing, "extra": alignment.extra} if as_json else {}),
        "predicted": counts if as_json else ", ".join(f"{name} {count}" for name, count in counts.items()),
    }
    if label is not None and table.y is not None:
        summary |= _accuracy(predicted, table.y, classifier.classes_)
    say(summary, as_json)


def _as_trained(source: Source, run: Path) -> Source:
    """The source read as the training samples were: their layer, one-hot coding and rule for missing genotypes."""
    if Path(source.data).suffix.lower() not in READERS or not (run / "config.json").exists():
        return source
    taken = source.from_training(run_config(run))
    for name, value in taken.items():
        typer.echo(f"gsat: {name} = {value!r}, as in training", err=True)
    return replace(source, **taken)


def _read(source: Source, run: Path, max_memory: str | None) -> Table:
    """The samples; for a centred model with the batches of the column that has them in training, where it is there."""
    config = run_config(run) if (run / "config.json").exists() else {}
    if source.batch is None and needs_batches(config) and config.get("batch") is not None:
        try:
            table = replace(source, batch=config["batch"]).read(max_memory=max_memory)
        except AbsentError:
            pass  # of another file than in training; if it is another column that is not there, reading again says so
        else:
            typer.echo(f"gsat: batch = {config['batch']!r}, as in training", err=True)
            return table
    return source.read(max_memory=max_memory)


def _accuracy(predicted: Any, y: Any, classes: Any) -> dict[str, Any]:
    """The share of right predictions among samples of classes that the model knows."""
    import numpy as np

    truth = np.asarray(y).astype(str)
    known = np.isin(truth, classes.astype(str))
    found: dict[str, Any] = {"accuracy": None}
    if known.any():
        found["accuracy"] = float((predicted.astype(str) == truth)[known].mean())
    if not known.all():
        found["not_tested"] = f"{(~known).sum()} samples of classes that the model does not know"
    return found
