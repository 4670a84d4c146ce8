"""The data sets that load() knows: what PROVENANCE says of the real files, and where the files are sought."""

import re

import numpy as np
import pandas as pd
import pytest

from gsat import data
from gsat.data.catalogue import KNOWN, SHIFTS
from gsat.data.fetching import rebuilding
from gsat.data.files import cache_dir, find
from gsat.data.loading import FROM_FILES
from gsat.data.readers.npz import all_arrays
from gsat.data.table import content_checksum

RSEM = ("tcga-luad-coadread", "tcga-luad", "tcga-coadread")
TCGA = ("tcga", "tcga-11types", "tcga-tumour-normal")
EXPRESSION = (*TCGA, *RSEM, "sc-mixology", "stemcells", "bladderbatch")


@pytest.fixture(scope="module")
def loaded(data_dir):
    """Each set, read once; the images are not kept, they are large."""
    kept = {}

    def get(name):
        if name not in kept:
            kept[name] = data.load(name, data_dir=data_dir)
        return kept[name]

    return get


def counts(values):
    return pd.Series(values).value_counts().to_dict()


def test_every_set_from_files_is_in_the_catalogue():
    assert set(FROM_FILES) <= set(KNOWN)
    assert [each["name"] for each in data.available()] == list(data.names())


@pytest.mark.parametrize(
    "name", [name for name in FROM_FILES if name not in ("tcga-uci", "hapmap-paper", "mnist", "cifar10")]
)
def test_the_catalogue_tells_what_is_loaded(name, loaded):
    table, known = loaded(name), KNOWN[name]
    assert table.X.shape == (known.samples, known.features)
    assert table.X.dtype == np.float32
    assert len(table.classes) == known.classes
    assert len(set(table.batch.tolist())) == known.batches
    assert np.isfinite(table.X).all()
    assert len(set(table.feature_names)) == known.features
    assert name in SHIFTS or len(set(table.sample_ids)) == known.samples
    assert len(table.checksum) == 64


@pytest.mark.parametrize("name", EXPRESSION)
def test_expression_sets_have_both_sides(name, loaded):
    table = loaded(name)
    assert set(table.test.classes.tolist()) <= set(table.train.classes.tolist())
    assert 0.1 < len(table.test) / len(table) < 0.3


def test_tcga_has_the_types_of_uci(data_dir, loaded):
    table = loaded("tcga")
    assert counts(table.y) == {"BRCA": 113, "COAD": 40, "KIRC": 72, "LUAD": 58, "PRAD": 52}
    assert table.feature_names[:2] == ("A1BG", "A2M")
    assert table.sample_ids[0] == "TCGA-A7-A0CE-01A-11R-A00Z-07"
    assert (table.batch[0], data.load("tcga", data_dir=data_dir, batch="tss").batch[0]) == ("A00Z", "A7")


def test_tcga_cohorts_as_published(data_dir, loaded):
    expected = {
        "BRCA": 113, "COAD": 40, "HNSC": 43, "KIRC": 72, "KIRP": 32, "LIHC": 50, "LUAD": 58, "LUSC": 51, "PRAD": 52,
        "STAD": 32, "THCA": 59,
    }  # fmt: skip
    assert counts(loaded("tcga-11types").y) == expected
    by_cohort = data.load("tcga-tumour-normal", data_dir=data_dir, batch="cohort")
    assert counts(by_cohort.batch) == {cohort: 2 * count for cohort, count in expected.items()}
    assert counts(loaded("tcga-tumour-normal").y) == {"tumour": 602, "normal": 602}


def test_the_floor_of_tcga_does_not_tell_the_cohort(data_dir, loaded):
    content = all_arrays(data_dir / "expression" / "tcga_11types_tumor_normal.npz")
    raw = pd.Series(content["X"].min(axis=1)).groupby(content["cohort"]).min()
    assert set(raw[raw < -2].index) == {"COAD", "STAD"}  # in the file it does
    for name in TCGA:
        lowest = loaded(name).X.min(axis=1)
        assert (lowest == 0).all()


def test_rsem_is_log2_without_what_wrapped_around(data_dir, loaded):
    content = all_arrays(data_dir / "expression" / "tcga_luad_coadread_log2rsem_x1000.npz")
    stored = content["X_uint16"]
    assert ((stored > 32767) & (stored < 65535)).sum() == 184_344  # negative in the file
    for name in RSEM:
        X = loaded(name).X
        assert X.min() == 0
        assert 19 < X.max() < 21
    table = loaded("tcga-luad")
    row = content["barcode"].tolist().index(table.sample_ids[3])
    gene = table.feature_names.index("A2M")
    assert table.X[3, gene] == pytest.approx(stored[row, content["symbol"].tolist().index("A2M")] / 1000)


def test_genes_that_one_platform_lacks(data_dir, loaded):
    dropped = loaded("tcga-coadread")
    assert counts(dropped.batch) == {"HiSeq": 365, "GA": 227}
    assert counts(dropped.y) == {"COAD": 438, "READ": 154}
    mean = data.load("tcga-coadread", data_dir=data_dir, missing="mean")
    fixed = data.load("tcga-coadread", data_dir=data_dir, missing=3.5)
    assert mean.X.shape == fixed.X.shape == (592, 20530)
    shared = np.isin(mean.feature_names, dropped.feature_names)
    np.testing.assert_array_equal(mean.X[:, shared], dropped.X)
    is_ga = mean.batch == "GA"
    assert (fixed.X[np.ix_(is_ga, ~shared)] == 3.5).all()
    filled, others = mean.X[np.ix_(is_ga, ~shared)], mean.X[np.ix_(~is_ga, ~shared)]
    np.testing.assert_allclose(filled, np.broadcast_to(others.mean(axis=0), filled.shape), rtol=1e-5)
    with pytest.raises(ValueError, match=r'missing must be "drop", "mean" or a number .*, got .zero'):
        data.load("tcga-coadread", data_dir=data_dir, missing="zero")


def test_rsem_names_and_labels(loaded):
    table = loaded("tcga-luad")
    assert counts(table.y) == {"tumour": 515, "normal": 59}
    assert {"?|100133144", "A1BG", "A2M"} <= set(table.feature_names)
    assert "?" not in table.feature_names
    assert counts(loaded("tcga-luad-coadread").y) == {"COADREAD": 592, "LUAD": 515}


@pytest.mark.parametrize("name", ["tcga-tumour-normal", "tcga-luad"])
def test_nobody_is_on_both_sides(name, loaded):
    table = loaded(name)
    train, test = ({sample[:12] for sample in side.sample_ids} for side in (table.train, table.test))
    assert train
    assert test
    assert not train & test
    share = {label: np.mean(table.test.y == label) / np.mean(table.y == label) for label in ("tumour", "normal")}
    assert share == pytest.approx({"tumour": 1, "normal": 1}, abs=0.15)


def test_sc_mixology_as_published(data_dir, loaded):
    table = loaded("sc-mixology")
    assert counts(table.batch) == {
        "sc_celseq2": 274, "sc_dropseq": 225, "sc_celseq2_5cl_p1": 297, "sc_celseq2_5cl_p2": 307,
        "sc_celseq2_5cl_p3": 305,
    }  # fmt: skip
    assert counts(table.y[table.batch == "sc_celseq2"]) == {"H1975": 112, "H2228": 81, "HCC827": 81}
    assert counts(table.y[table.batch == "sc_dropseq"]) == {"H1975": 86, "H2228": 69, "HCC827": 70}
    assert set(table.test.batch.tolist()) == {"sc_dropseq"}
    np.testing.assert_allclose(np.expm1(table.X.astype(np.float64)).sum(axis=1), 10_000, rtol=1e-4)
    raw = data.load("sc-mixology", data_dir=data_dir, layer="counts", batch="technology")
    assert counts(raw.batch) == {"CEL-seq2": 1183, "Drop-seq": 225}
    assert (raw.X % 1 == 0).all()
    assert raw.X.max() == 2973
    np.testing.assert_array_equal(raw.X > 0, table.X > 0)
    with pytest.raises(ValueError, match="layer must be one of log, counts for the data set sc-mixology, got 'tpm'"):
        data.load("sc-mixology", data_dir=data_dir, layer="tpm")


def test_stemcells_as_published(loaded):
    table = loaded("stemcells")
    assert counts(table.batch) == {"1": 38, "2": 51, "3": 21, "4": 15}
    assert counts(table.y) == {"Fibroblast": 30, "hESC": 37, "hiPSC": 58}
    assert 0 < table.X.min() < table.X.max() < 1
    assert set(table.test.batch.tolist()) == {"3"}


def test_bladderbatch_as_published(data_dir, loaded):
    table = loaded("bladderbatch")
    assert counts(zip(table.batch.tolist(), table.y.tolist(), strict=True)) == {
        (1, "Cancer"): 11, (2, "Cancer"): 14, (2, "Normal"): 4, (3, "Normal"): 4, (4, "Biopsy"): 5, (5, "Biopsy"): 4,
        (5, "Cancer"): 15,
    }  # fmt: skip
    assert table.feature_names[0] == "1007_s_at"
    kinds = data.load("bladderbatch", data_dir=data_dir, label="outcome")
    assert counts(kinds.y) == {"Normal": 8, "Biopsy": 9, "mTCC": 12, "sTCC-CIS": 16, "sTCC+CIS": 12}


def test_real_cifar10(data_dir):
    table = data.load("cifar10", data_dir=data_dir)
    assert table.X.shape == (60000, 3, 32, 32)
    assert set(counts(table.train.y).values()) == {5000}
    assert set(counts(table.test.y).values()) == {1000}
    assert table.y[:5].tolist() == ["frog", "truck", "truck", "deer", "automobile"]
    mean = table.X[:50000].mean(axis=(0, 2, 3), dtype=np.float64)
    assert mean == pytest.approx([0.49139968, 0.48215841, 0.44653091], abs=1e-7)  # as published


@pytest.mark.parametrize("name", FROM_FILES)
def test_without_the_files_the_message_says_what_to_get_and_where_to_put_it(name, tmp_path, monkeypatch):
    known = KNOWN[name]
    monkeypatch.delenv("GSAT_DATA", raising=False)
    for folder in (None, tmp_path):
        with pytest.raises(FileNotFoundError, match="is missing") as caught:
            data.load(name, data_dir=folder)
        text = str(caught.value)
        assert str(tmp_path if folder else cache_dir()) in text
        assert known.forms[0][0] in text
        assert known.to_get in text
        assert known.origin in text
        assert f"holds {known.forms[0][0].split('/')[0]}/" in text


def test_a_changed_npz_is_refused(data_dir, tmp_path):
    (tmp_path / "expression").mkdir()
    content = all_arrays(data_dir / "expression" / "stemcells_4studies.npz")
    path = tmp_path / "expression" / "stemcells_4studies.npz"
    np.savez(path, **content)  # packed otherwise, with the same content
    assert data.load("stemcells", data_dir=tmp_path).checksum == data.load("stemcells", data_dir=data_dir).checksum
    content["celltype"][[0, -1]] = content["celltype"][[-1, 0]]
    np.savez(path, **content)
    with pytest.raises(
        ValueError, match=rf"{re.escape(str(path))} must have content of sha256 7a44\w+, got \w+; fetch"
    ):
        data.load("stemcells", data_dir=tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=rf"{re.escape(str(path))} must be a whole \.npz file"):
        data.load("stemcells", data_dir=tmp_path)


def test_folders_are_searched_in_order(tmp_path, monkeypatch):
    mine, shared, cache = (tmp_path / name for name in ("mine", "shared", "cache"))
    monkeypatch.setenv("GSAT_DATA", str(shared))
    monkeypatch.setenv("GSAT_CACHE", str(cache))
    for folder in (cache, shared, mine):
        (folder / "expression").mkdir(parents=True)
    path = KNOWN["stemcells"].forms[0][0]
    assert find("stemcells") is None
    (cache / path).touch()
    assert find("stemcells") == cache
    assert find("stemcells", mine) is None  # the folder that is asked for, and no other
    (shared / path).touch()
    assert find("stemcells") == shared
    (mine / path).touch()
    assert find("stemcells", mine) == mine


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [("linux", "XDG_CACHE_HOME", "gsat"), ("win32", "LOCALAPPDATA", "gsat/Cache"), ("darwin", "HOME", None)],
)
def test_the_cache_follows_the_platform(tmp_path, monkeypatch, platform, variable, expected):
    monkeypatch.delenv("GSAT_CACHE")
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv(variable, str(tmp_path))
    assert cache_dir() == tmp_path / (expected or "Library/Caches/gsat")


def test_arrays_rebuilt_from_the_text_of_packages(tmp_path):
    luad, coadread = tmp_path / "luad.txt", tmp_path / "coadread.txt"
    luad.write_text(
        "GeneSymbol\tEntrezID\tTCGA-05-4244-01A-01R-1107-07\tTCGA-05-4249-11A-01R-1108-07\n"
        "A1BG\t1\t3\t0\n?\t7\t1\t127.5\nA2M\t2\t15\t0.25\n"
    )
    coadread.write_text(
        "Hugo_Symbol\tEntrez_Gene_Id\tTCGA-AF-2687-01\tTCGA-A6-2671-01\n"
        "\t9\t1\t1\n\t7\t7\t\nX\t2\t1.5\t-0.5\nA1BG\t1\t0\t31\n"
    )
    found = rebuilding.luad_coadread(luad, coadread)
    assert found["entrez"].tolist() == [7, 2, 1]  # the order of the second file, without the gene that is only there
    assert found["symbol"].tolist() == ["?", "A2M", "A1BG"]
    assert found["X_uint16"].tolist() == [
        [1000, 4000, 2000], [7006, 322, 0], [3000, 1322, 0], [65535, 65536 - 1000, 5000]
    ]  # fmt: skip
    assert found["plate"].tolist() == ["1107", "1108", "", ""]
    assert found["sample_type"].tolist() == ["01", "11", "01", "01"]
    assert found["cancer_by_tss"].tolist() == ["LUAD", "LUAD", "READ", "COAD"]
    assert found["cohort"].tolist() == ["LUAD", "LUAD", "COADREAD", "COADREAD"]
    assert [each.split("(")[0] for each in found["platform"].tolist()] == ["HiSeq", "HiSeq", "HiSeq", "GA"]


def test_bladderbatch_without_the_names_of_probes(data_dir, tmp_path, loaded):
    content = all_arrays(data_dir / "expression" / "bladderbatch.npz")
    np.save(tmp_path / "x.npy", content["X"].astype(np.float64))
    pd.DataFrame(
        {
            "cel": content["sample"],
            "outcome": content["outcome"],
            "batch": content["batch"],
            "cancer": content["cancer"],
        }
    ).to_csv(tmp_path / "p.txt", sep="\t", index=False)
    arrays = rebuilding.bladderbatch(tmp_path / "x.npy", tmp_path / "p.txt")
    (tmp_path / "expression").mkdir()
    np.savez(tmp_path / "expression" / "bladderbatch_unnamed.npz", **arrays)
    table = data.load("bladderbatch", data_dir=tmp_path)
    np.testing.assert_array_equal(table.X, loaded("bladderbatch").X)
    assert table.feature_names is None
    assert table.checksum == content_checksum(*(arrays[name] for name in sorted(arrays)))
