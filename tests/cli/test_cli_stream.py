"""Commands on samples that stay in their file give what they give in memory."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file
from test_cli import run
from test_cli_files import genotypes

from gsat.experiments import checking
from stored import write_cells, write_kind

OPTIONS = ("--label", "type", "--batch", "donor")
SMALL = ("--n-outer", "12", "--group-size", "20", "--n-inner", "3")
STREAMS = ("--no-stream", "--stream")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_cells(tmp_path_factory.mktemp("stream") / "cells.h5ad", 90, 40)


def alike(one, other):
    """The same content; numbers may differ by what the order of a sum changes in single precision."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            alike(one[name], other[name])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for each, too in zip(one, other, strict=True):
            alike(each, too)
    elif isinstance(one, np.ndarray):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)
    elif isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, rtol=1e-3, atol=1e-5)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-5, nan_ok=True)
    else:
        assert one == other


@pytest.mark.parametrize(
    "more",
    [
        ("--defence", "low-rank", "--metric", "auto", "--gamma", "10"),
        ("--defence", "group-sparse", "--prepare", "centre", "--normalise", "log1p-cpm"),
        ("--defence", "erm", "--shuffle", "block", "--prepare", "zscore", "--early-stopping", "--calibrate"),
        ("--defence", "linear", "--features", "g1*"),
        ("--defence", "lda", "--drop", "g2*"),
    ],
    ids=lambda more: more[1],
)
def test_a_model_is_the_same_wherever_its_samples_are(path, tmp_path, more):
    found = []
    for stream in STREAMS:
        out = tmp_path / stream
        size = SMALL if more[1] not in ("linear", "lda") else ()
        run("train", path, *OPTIONS, *more, *size, "--out", out, stream)
        run("predict", out, path, "--out", out / "new.csv", stream)
        kept = {name: pd.read_csv(out / name) for name in ("predictions.csv", "map.csv", "features.csv", "new.csv")}
        kept["predictions.csv"] = kept["predictions.csv"].drop(columns="logistic")
        metrics = json.loads((out / "metrics.json").read_text())
        told = [each for each in metrics.pop("warnings") if "logistic" not in each]
        metrics.pop("logistic")
        known = json.loads((out / "trained_on.json").read_text())
        found.append([load_file(next((out / "model").glob("*.safetensors"))), kept, metrics, told, known])
    alike(*found)


def test_a_check_is_the_same(path, tmp_path, monkeypatch):
    few = {"budgets": (0.1,), "metric_budgets": (0.1,), "lengths": (1.0,), "cs": (0.1,), "shrinkages": (0.3,)}
    monkeypatch.setattr(checking, "QUICK", replace(checking.QUICK, **few, n_outer=6, n_inner=2, folds=1))
    found = []
    for stream in STREAMS:
        out = tmp_path / stream
        run("check", path, *OPTIONS, "--quick", "--max-batches", 2, "--jobs", 1, "--out", out, stream)
        found.append({file.name: pd.read_csv(file) for file in out.glob("*.csv")})
    assert found[0]
    alike(*found)


def test_a_diagnosis_is_the_same(path, tmp_path):
    found = []
    for stream in STREAMS:
        run("diagnose", path, *OPTIONS, "--n-splits", 2, "--out", tmp_path / stream, stream)
        found.append(json.loads((tmp_path / stream / "diagnosis.json").read_text()))
    alike(*found)


@pytest.mark.filterwarnings("default:.* written by rows to")
@pytest.mark.parametrize("kind", ["dense", "csc", "npz", "parquet"])
def test_other_files_give_the_same_model_too(tmp_path, kind):
    path = write_kind(tmp_path, kind, 90, 40)
    found = []
    for stream in STREAMS:
        out = tmp_path / stream
        run("train", path, *OPTIONS, "--defence", "low-rank", *SMALL, "--n-outer", "4", "--out", out, stream)
        run("predict", out, path, "--out", out / "new.csv", stream)
        weights = load_file(next((out / "model").glob("*.safetensors")))
        found.append([weights, pd.read_csv(out / "new.csv"), json.loads((out / "trained_on.json").read_text())])
    alike(*found)


@pytest.mark.filterwarnings("default:.* written by rows to")
def test_genotypes_give_the_same_model_and_predictions(tmp_path):
    genotypes(tmp_path / "a.bed", 0)
    genotypes(tmp_path / "b.bed", 1, other_allele=True)
    known, found = ("--label", "continent", "--pheno"), []
    for stream in STREAMS:
        out = tmp_path / stream
        more = ("--one-hot", "--defence", "group-sparse", *SMALL, "--n-outer", "4", "--out", out, stream)
        run("train", tmp_path / "a.bed", *known, tmp_path / "a.tsv", *more)
        said = run("predict", out, tmp_path / "b.bed", *known, tmp_path / "b.tsv", "--out", out / "new.csv", stream)
        assert "12 SNPs count the other allele" in said.output
        found.append([load_file(next((out / "model").glob("*.safetensors"))), pd.read_csv(out / "new.csv")])
    alike(*found)


def test_a_selection_is_the_same(path, tmp_path):
    found = []
    for stream in STREAMS:
        out = tmp_path / f"{stream}.csv"
        run("select", path, *OPTIONS, "-k", 3, "--n-outer", 5, "--n-resamples", 2, "--out", out, stream)
        found.append(pd.read_csv(out))
    alike(*found)
