"""The seven sets with real shifts: what is published of them, their test sides, and files that are not right."""

import re

import numpy as np
import pytest

from gsat import data
from gsat.data.catalogue import KNOWN, SHIFTS
from gsat.data.readers.npz import all_arrays
from gsat.data.sets import TESTED
from gsat.data.sets.shifts import READ

BATCHES = {
    "gas-drift": {"01": 445, "02": 1244, "03": 1586, "04": 161, "05": 197, "06": 2300, "08": 294, "09": 470},
    "spoken-digits": dict.fromkeys(["george", "jackson", "lucas", "nicolas", "theo", "yweweler"], 500),
    "covertype-areas": {"CacheLaPoudre": 4675, "ComanchePeak": 6349, "Neota": 499, "Rawah": 3597},
}
GROUPS = {"wifi-floors": 1952, "ibd-genera": 1663, "emg-myo": 116}  # places, people, sessions


@pytest.fixture(params=SHIFTS)
def table(request, data_dir):
    return data.load(request.param, data_dir=data_dir)


def sizes(table):
    return table.describe()["batches"]


@pytest.mark.parametrize("name", BATCHES)
def test_batches_as_published(name, data_dir):
    assert sizes(data.load(name, data_dir=data_dir)) == BATCHES[name]


@pytest.mark.parametrize("name", SHIFTS)
def test_the_sum_is_that_of_what_is_read(name, data_dir):
    table = data.load(name, data_dir=data_dir)
    assert table.checksum == KNOWN[name].sums[name]
    assert table.describe().get("groups") == GROUPS.get(name)


def test_one_batch_is_the_test_side_and_its_classes_are_trained_on(table):
    assert len(set(table.test.batch.tolist())) == 1
    assert not set(table.test.batch.tolist()) & set(table.train.batch.tolist())
    assert set(table.test.classes.tolist()) <= set(table.train.classes.tolist())


@pytest.mark.parametrize("name", [name for name in TESTED if name != "wifi-floors"])
def test_the_test_side_is_chosen_by_size(name, data_dir):
    table = data.load(name, data_dir=data_dir)

    def fit(batch, size):
        mine = table.batch == batch
        return size <= 0.3 * len(table) and set(table.y[mine]) <= set(table.y[~mine])

    fitting = {batch: size for batch, size in sizes(table).items() if fit(batch, size)}
    assert max(sorted(fitting), key=fitting.get) == TESTED[name]


def test_users_with_one_floor_cannot_be_tested(data_dir):
    table = data.load("wifi-floors", data_dir=data_dir)
    floors = {user: len(set(table.y[table.batch == user])) for user in sizes(table)}
    assert sum(count >= 2 for count in floors.values()) == 15
    assert floors["later"] == 13
    assert (table.X.min(), table.X.max()) == (0, 105)


@pytest.mark.parametrize("name", GROUPS)
def test_random_splits_keep_groups_together(name, data_dir):
    table = data.load(name, data_dir=data_dir)
    batch = table.subset(table.batch == max(sizes(table), key=sizes(table).get))
    split = batch.split_at_random(0.25, seed=1)
    assert not set(split.train.group.tolist()) & set(split.test.group.tolist())
    assert len(set(split.test.group.tolist())) == np.floor(len(set(batch.group.tolist())) * 0.25 + 0.5)


def test_pickled_columns_are_never_read(data_dir):
    path = data_dir / KNOWN["bbbc021-moa"].forms[0][0]
    with pytest.raises(ValueError, match="array 'compound' must hold numbers or text and no pickled objects"):
        all_arrays(path)
    assert sorted(all_arrays(path, READ)) == ["X", "batch", "feature_names", "y"]


def test_damaged_files_are_refused(data_dir, tmp_path):
    name = "bbbc021-moa"
    content = all_arrays(data_dir / KNOWN[name].forms[0][0], READ)
    path = tmp_path / KNOWN[name].forms[0][0]
    path.parent.mkdir()
    np.savez(path, **content, other=np.arange(3))  # a column that nobody reads does not matter
    assert data.load(name, data_dir=tmp_path).checksum == KNOWN[name].sums[name]
    content["X"][3, 2] += 1
    np.savez(path, **content)
    with pytest.raises(ValueError, match=rf"{re.escape(str(path))} must have content of sha256 9cac\w+, got \w+"):
        data.load(name, data_dir=tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=rf"{re.escape(str(path))} must be a whole \.npz file"):
        data.load(name, data_dir=tmp_path)
