"""The user's own UCI file and HapMap matrix in place of what stands in for them: biology, tcga-clean and selection."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gsat.cli import app
from gsat.data.catalogue import KNOWN
from gsat.data.sets import tcga_uci
from gsat.experiments import paper, setting
from gsat.experiments.own_data import USED_BY, own_data
from gsat.experiments.setting import SCALES

TYPES = ("BRCA", "COAD", "KIRC")
SIZES = {"biology": {"tcga-uci", "hapmap-paper"}, "tcga-clean": {"tcga-uci"}, "selection": set()}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Ninety samples of twenty genes in UCI's form, and of thirty SNPs, and what the reader asks of UCI's."""
    monkeypatch.setitem(KNOWN, "tcga-uci", replace(KNOWN["tcga-uci"], samples=90, features=20))
    monkeypatch.setattr(tcga_uci, "COUNTS", dict.fromkeys(TYPES, 30))
    rng = np.random.default_rng(0)
    codes = np.arange(90) % 3
    names = [f"sample_{i}" for i in range(90)]
    genes = pd.DataFrame(rng.random((90, 20)) + 3 * (codes[:, None] == np.arange(20) % 3), names)
    often = np.where(codes[:, None] == np.arange(30) % 3, 0.8, 0.2)
    snps = pd.DataFrame(rng.binomial(2, often), names, [f"rs{j}" for j in range(30)])
    for name, table, file in (("tcga-uci", genes, "data.csv"), ("hapmap-paper", snps, "genotypes.csv")):
        (tmp_path / "data" / name).mkdir(parents=True)
        table.to_csv(tmp_path / "data" / name / file, float_format="%.4f")
        pd.Series([TYPES[code] for code in codes], names, name="Class").to_csv(tmp_path / "data" / name / "labels.csv")
    setting.loaded.cache_clear()
    setting._rows.cache_clear()
    yield tmp_path / "data"
    setting.loaded.cache_clear()
    setting._rows.cache_clear()


def invoke(name, folder, *more):
    command = ["reproduce", name, "--quick", "--jobs", "1", "--seeds", "1", "--data-dir", folder, *more]
    return CliRunner().invoke(app, list(map(str, command)))


@pytest.mark.parametrize("name", USED_BY)
def test_an_experiment_uses_what_lies_in_the_folder(name, folder, tmp_path):
    """No other data are there, so that nothing else can have been read."""
    found = invoke(name, folder, "--out", tmp_path / "out")
    assert found.exit_code == 0, found.output
    config = json.loads((tmp_path / "out" / name / "config.json").read_text())
    assert set(config["own_data"]) == set(USED_BY[name])
    assert config["command"].endswith(" --data-dir FOLDER")
    assert " own file" in " ".join(config["notes"])
    assert "take the place" not in " ".join(config["notes"])
    results = pd.read_csv(tmp_path / "out" / name / "results.csv")
    assert set(results.get("data", [])) == SIZES[name]
    assert (results["accuracy"].notna()).all()
    assert all(f"{own} in {folder} is used in place" in found.output for own in USED_BY[name])


def test_other_files_are_other_pieces_at_every_scale(folder):
    before, old = own_data(folder), own_data(None)
    assert old == {}
    (folder / "hapmap-paper" / "labels.csv").write_text("other")
    after = own_data(folder)
    assert before["tcga-uci"] == after["tcga-uci"]
    for name, used in USED_BY.items():
        for scale in SCALES.values():
            keys = [
                {piece.key for piece in paper.experiment(name).pieces(replace(scale, own=own), 1)}
                for own in (old, before, after)
            ]
            assert not keys[0] & keys[1]
            assert bool(keys[1] - keys[2]) == ("hapmap-paper" in used)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("tcga-uci/labels.csv", "TCGA-PANCAN-HiSeq-801x20531.tar.gz is missing (data set tcga-uci"),
        ("hapmap-paper/genotypes.csv", "genotypes.csv is missing (data set hapmap-paper"),
    ],
)
def test_a_part_of_the_files_is_refused(folder, path, message, tmp_path):
    (folder / path).unlink()
    found = invoke("biology", folder, "--out", tmp_path / "out")
    assert found.exit_code == 2
    assert message in " ".join(found.output.split())
    assert not (tmp_path / "out").exists()
