"""`gsat predict`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gsat._files import read_json
from gsat.cli import options
from gsat.cli.app import app, fail, import_from_here, say, user_errors, warn
from gsat.cli.choices import needs_batches
from gsat.cli.devices import put, use_device
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
    data: Annotated[
        str,
        typer.Argument(
            help="The new samples: .h5ad, .zarr, .bed, .csv, .tsv, .xlsx, .parquet, .npz, .mtx or its folder."
        ),
    ],
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
    loose_names: Annotated[
        bool,
        typer.Option("--loose-names", help="Match features without Ensembl versions (.12) and without regard to case."),
    ] = False,
    unassigned_below: Annotated[
        float | None, typer.Option(help='Predict "unassigned" where the largest probability is below this.')
    ] = None,
    device: options.Device = None,
    max_memory: options.MaxMemory = None,
    stream: options.Stream = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a table that is there.")] = False,
    trust_module: options.TrustModule = False,
    raw_text: options.RawText = False,
    as_json: options.AsJson = False,
) -> None:
    """Predict the classes of new samples; features are matched by name, and the missing or extra ones are told."""
    place = use_device(device)
    vacant(out, force=force, data=data)
    refuse_without_model(run)
    given = Source.given(
        data, label=label, batch=batch, ids=ids, layer=layer, pheno=pheno, missing=missing, one_hot=one_hot
    )
    source = _as_trained(given, run)
    table = _read(source, run, max_memory, stream)  # before torch is imported: a wrong column is told at once

    from gsat.data.readers.alleles import counted_alike
    from gsat.estimators import load
    from gsat.estimators.candidates import single_batch
    from gsat.estimators.matching import align, members_of, probabilities
    from gsat.estimators.predicting import doubtful, predictions

    if trust_module:
        import_from_here()
    classifier = load(run, trust_module=trust_module)
    if not hasattr(classifier, "classes_"):
        fail(f"{run} must hold a classifier, got a {type(classifier).__name__}")
    put(classifier, place)
    if source.plink is not None:
        table, flipped = counted_alike(table, source.plink, getattr(classifier, "feature_names_in_", ()))
        if flipped:
            typer.echo(
                f"gsat: {flipped} SNPs count the other allele than in training; they were turned round", err=True
            )
    X = table.flat
    alignment = align(classifier, table.feature_names, X.shape[1], missing_features, loose=loose_names)
    if classifier.prepare == "centre" and table.batch is None:
        typer.echo(f"gsat: the samples of {data} are taken as one batch; --batch would name their batches", err=True)
    try:
        chances = probabilities(classifier, X, alignment, missing_features, table.batch)
    except ValueError as error:
        alone = len(table) == 1 or (table.batch is not None and single_batch(table.batch) is not None)
        if classifier.prepare != "centre" or not alone or not (other := run / "model-single").exists():
            raise
        fail(f"{error}; {other} was trained beside it for that: gsat predict {other} {data}")
    doubts = doubtful(run, classifier, table, alignment, chances, least=unassigned_below)
    if label is not None and table.y is not None:
        doubts += _of_one_class(table.y, classifier.classes_)
    for doubt in doubts:
        warn(doubt)
    predicted = classifier.classes_[chances.argmax(1)]
    found = predictions(table, classifier.classes_, chances, label=label is not None, least=unassigned_below)
    write_table(out, found, raw_text=raw_text)
    counts = {str(name): int(count) for name, count in found["prediction"].value_counts().items()}
    summary: dict[str, Any] = {
        "predictions": str(out),
        "samples": len(table),
        "features": alignment.describe(missing_features),
        **({"missing": alignment.missing, "extra": alignment.extra} if as_json else {}),
        "predicted": counts if as_json else ", ".join(f"{name} {count}" for name, count in counts.items()),
    }
    if unassigned_below is not None or classifier.calibrate:
        heats = sorted({f"{one.temperature_:.3g}" for one in members_of(classifier)}, key=float)
        calibrated = (
            f"calibrated on held-out training rows, temperature {' to '.join(heats[:: max(1, len(heats) - 1)])}"
        )
        summary["probabilities"] = calibrated if classifier.calibrate else "not calibrated"
    if classifier.normalise != "none":
        summary["normalised"] = f"{classifier.normalise}, by the model, as in training"
    if as_json:
        summary["warnings"] = doubts
    if label is not None and table.y is not None:
        summary |= _accuracy(predicted, table.y, classifier.classes_)
    if label is not None and table.y is not None and unassigned_below is not None:
        sure = chances.max(1) >= unassigned_below
        some = _accuracy(predicted[sure], table.y[sure], classifier.classes_)
        summary["of assigned"] = some["accuracy"]
    say(summary, as_json)


def _as_trained(source: Source, run: Path) -> Source:
    """The source read as the training samples were: their layer, one-hot coding and rule for missing genotypes."""
    if Path(source.data).suffix.lower() not in READERS or not (run / "config.json").exists():
        return source
    taken = source.from_training(run_config(run))
    for name, value in taken.items():
        typer.echo(f"gsat: {name} = {value!r}, as in training", err=True)
    return replace(source, **taken)


def _read(source: Source, run: Path, max_memory: str | None, stream: bool | None) -> Table:
    """The samples, with the ids and the batches of the columns that had them in training, where these are there."""
    config = run_config(run) if (run / "config.json").exists() else {}
    wanted = {name: config[name] for name in ("ids", "batch") if config.get(name) and getattr(source, name) is None}
    known = _features(run)
    for some in (wanted, *({name: value} for name, value in wanted.items() if len(wanted) > 1), {}):
        try:
            table = replace(source, **some).read(max_memory=max_memory, known=known, stream=stream)
        except ValueError as error:
            if not some or not (isinstance(error, AbsentError) or not needs_batches(config)):
                raise
            continue  # of another file than in training
        for name, value in some.items():
            typer.echo(f"gsat: {name} = {value!r}, as in training", err=True)
        return table
    raise AssertionError  # the last way returns or raises


def _features(run: Path) -> list[str] | None:
    """The names of the features of a model, read before torch is imported; None where they cannot be told."""
    path = next((each for each in (run / "model.json", run / "model" / "model.json") if each.exists()), None)
    try:
        names = read_json(path)["fitted"]["feature_names_in_"] if path is not None else None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # opening the model tells what is wrong
    return names if isinstance(names, list) and all(isinstance(each, str) for each in names) else None


def _of_one_class(y: Any, classes: Any) -> list[str]:
    """What to say where all samples whose class the model knows are of one class."""
    import numpy as np

    from gsat.estimators.judged import of_one_class

    truth = np.asarray(y).astype(str)
    names, counts = np.unique(truth[np.isin(truth, classes.astype(str))], return_counts=True)
    return [of_one_class(names[0], int(counts[0]), "labelled")] if len(names) == 1 and counts[0] > 1 else []


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
