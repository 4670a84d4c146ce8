"""HapMap3, alone and beside 1000 Genomes: the paper's task, its variants, and what a careful reader refuses."""

import numpy as np
import pandas as pd
import pytest

from gsat import data

FILE = "hapmap/hapmap3_957x14389.npz"


@pytest.fixture(scope="module")
def content(data_dir):
    with np.load(data_dir / FILE, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.fixture(scope="module")
def table(data_dir):
    return data.load("hapmap", data_dir=data_dir)


def counts(values):
    return pd.Series(values).value_counts().to_dict()


def test_the_task_of_the_paper(table):
    assert table.X.shape == (773, 3 * 1129)
    assert counts(table.y) == {"Africa": 335, "Asia": 247, "Europe": 191}
    assert counts(table.batch) == {
        "MKK": 140, "YRI": 108, "CEU": 107, "LWK": 87, "JPT": 85, "TSI": 84, "CHD": 81, "CHB": 81,
    }  # fmt: skip
    assert counts(table.test.y) == {"Africa": 83, "Asia": 62, "Europe": 48}
    assert table.feature_names[:4] == ("rs4970383=0", "rs4970383=1", "rs4970383=2", "rs3748592=0")
    assert table.feature_groups == tuple(np.repeat(np.arange(1129), 3).tolist())


def test_indicators_are_those_of_the_genotypes(table, content):
    people = np.flatnonzero(np.isin(content["iid"], table.sample_ids))
    assert table.sample_ids == tuple(content["iid"][people].tolist())
    calls = content["genotype"][np.ix_(people, content["chrom"] == 1)]
    shown = table.X.reshape(773, 1129, 3)
    there = calls >= 0
    np.testing.assert_array_equal(shown.argmax(2)[there], calls[there])
    np.testing.assert_allclose(shown.sum(2), 1, atol=1e-5)
    i, j = np.argwhere(~there)[0]
    shares = [np.mean(calls[there[:, j], j] == count) for count in range(3)]
    np.testing.assert_allclose(shown[i, j], shares, rtol=1e-5)


def test_populations_counts_and_the_whole_genome(data_dir, content):
    table = data.load("hapmap", data_dir=data_dir, label="population", layer="genome", one_hot=False, missing=1)
    autosomes = content["chrom"] <= 22
    assert (~autosomes).sum() == 123  # PLINK's 23, 25 and 26: men have one X chromosome
    assert table.X.shape == (957, 14_389 - 123)
    assert len(table.classes) == 11
    assert table.batch is None
    assert table.feature_groups is None
    calls = content["genotype"][:, autosomes]
    assert (content["genotype"] < 0).sum() == 21_221
    assert (table.X[calls < 0] == 1).all()
    np.testing.assert_array_equal(table.X[calls >= 0], calls[calls >= 0])


def test_two_batches_without_a_person_in_both(data_dir):
    table = data.load("hapmap-1kg", data_dir=data_dir)
    train, test = table.train, table.test
    assert (len(train), len(test), table.X.shape[1]) == (773, 378, 3 * 1119)
    assert set(train.batch.tolist()) == {"HapMap3"}
    assert set(test.batch.tolist()) == {"1000 Genomes"}
    assert counts(test.y) == {"Europe": 222, "Asia": 134, "Africa": 22}
    assert not set(train.sample_ids) & set(test.sample_ids)
    with np.load(data_dir / "hapmap/hapmap3_vs_1kg_phase1_14079snps.npz", allow_pickle=False) as arrays:
        both = set(arrays["iid_hapmap3"].tolist()) & set(arrays["iid_1kg"].tolist())
        calls = arrays["genotype_1kg"][arrays["iid_1kg"].tolist().index(test.sample_ids[7])][arrays["chrom"] == 1]
    assert len(both) == 564
    assert not both & set(test.sample_ids)
    np.testing.assert_array_equal(test.X[7].reshape(-1, 3).argmax(1), calls)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label": "country"}, r"label must be one of continent, population for the data set hapmap, got 'country'"),
        ({"layer": "chr2"}, r"layer must be one of chr1, genome for the data set hapmap, got 'chr2'"),
        ({"missing": 0.5}, r"missing must be 0, 1 or 2 with one_hot=True, got 0.5"),
        ({"missing": "error"}, r'a call for every genotype with missing="error", got none for 1360 of 872717'),
        ({"pheno": "x.tsv"}, r"pheno must not be given for the data set hapmap: it takes label, layer, one_hot"),
    ],
)
def test_wrong_options(data_dir, options, message):
    with pytest.raises(ValueError, match=message):
        data.load("hapmap", data_dir=data_dir, **options)


def test_other_bytes_are_refused(content, tmp_path):
    path = tmp_path / FILE
    with pytest.raises(FileNotFoundError, match=r"hapmap3_957x14389.npz is missing \(data set hapmap"):
        data.load("hapmap", data_dir=tmp_path)
    path.parent.mkdir()
    changed = content["genotype"].copy()
    changed[5, 7] = (changed[5, 7] + 1) % 3
    np.savez(path, **{**content, "genotype": changed})
    with pytest.raises(ValueError, match=r"hapmap3_957x14389.npz must have content of sha256 41902b18"):
        data.load("hapmap", data_dir=tmp_path)
    np.savez(path, **content)  # another packing of the same content will do
    assert len(data.load("hapmap", data_dir=tmp_path)) == 773
