"""Genotypes that stay on disk are those in memory."""

import pickle
import warnings

import h5py
import numpy as np
import pytest
from test_readers import write_plink

from gsat import data
from gsat.data import rows
from gsat.data.readers import calls, plink
from gsat.data.readers.alleles import counted_alike, with_alleles
from gsat.data.rows import StoredRows

N, SNPS = 23, 10
WAYS = [{}, {"one_hot": True}, {"missing": 1}, {"missing": -0.3}, {"one_hot": True, "missing": 2}]
NOTE = "ignore:.* has its genotypes SNP by SNP; they are written by rows to .*, once:UserWarning"


def counted(n=N, seed=0):
    """How often allele 1 is there (n, SNPs), of which one in eight is not known."""
    rng = np.random.default_rng(seed)
    made = rng.integers(3, size=(n, SNPS)).astype(np.float32)
    made[rng.uniform(size=made.shape) < 0.12] = np.nan
    return made


def written(path, found, alleles="AG"):
    n, d = found.shape
    known = {"sid": [f"rs{j}" for j in range(d)], "allele_1": [alleles[0]] * d, "allele_2": [alleles[1]] * d}
    return write_plink(path, found, **known, sex=[1 + i % 2 for i in range(n)])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file set whose rows are written a few SNPs at a time."""
    path = written(tmp_path_factory.mktemp("plink") / "people.bed", counted())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "LEAST", 3 * N)
        patch.setattr(calls, "MOST", 3 * N)
        with pytest.warns(
            UserWarning, match=r"has its genotypes SNP by SNP; they .* to .*people\.bed\.X\.rows\.h5, once"
        ):
            data.load(path, stream=True)
    return path


def both(path, **options):
    """The table in memory, and the one on disk."""
    found = [data.load(path, **options, stream=stream) for stream in (False, True)]
    assert isinstance(found[1].X, StoredRows)
    return found


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_rows_are_those_in_memory(path, options, monkeypatch):
    monkeypatch.setattr(rows, "BLOCK", 4 * SNPS)
    whole, stored = both(path, **options, label="sex")
    for chosen in (slice(None), [7, 0, 7], slice(3, 3), np.arange(N) % 2 == 0):
        np.testing.assert_array_equal(stored.X.dense(chosen), whole.X[chosen])
    again = pickle.loads(pickle.dumps(stored.subset([5, 2]).with_features(set(whole.feature_names[4:6])).X))
    np.testing.assert_array_equal(again.dense([0, 1]), whole.X[[5, 2], 4:6])
    for name in ("feature_names", "feature_groups", "sample_ids", "checksum"):
        assert getattr(stored, name) == getattr(whole, name)
    np.testing.assert_array_equal(stored.y, whole.y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"missing": "error"},
            r"must have a call for every genotype .*, got none for \d+ of 230, the first at sample 'i",
        ),
        ({"missing": 1e300}, "must hold finite float32 numbers, got .* the first at sample 'i"),
    ],
)
def test_what_is_wrong_is_told_alike(path, options, message, monkeypatch):
    monkeypatch.setattr(calls, "LEAST", 4 * SNPS)
    told = []
    for stream in (False, True):
        with pytest.raises(ValueError, match=message) as error:
            data.load(path, **options, stream=stream)
        told.append(str(error.value))
    assert told[0] == told[1]


@pytest.mark.filterwarnings(NOTE)
def test_a_snp_without_calls_has_no_mean(tmp_path):
    found = counted()
    found[:, 3] = np.nan
    path = written(tmp_path / "a.bed", found)
    for stream in (False, True):
        with pytest.raises(ValueError, match="to take its mean, got none for 1 SNPs, the first 'rs3'"):
            data.load(path, stream=stream)
    whole, stored = both(path, missing=0)
    np.testing.assert_array_equal(stored.X.dense(slice(None)), whole.X)


@pytest.mark.parametrize("one_hot", [False, True])
def test_alleles_are_counted_alike_wherever_the_samples_are(path, tmp_path, one_hot):
    other = written(tmp_path / "b.bed", np.where(np.arange(SNPS) % 3 == 0, 2 - counted(9, 1), counted(9, 1)))
    lines = other.with_suffix(".bim").read_text().splitlines(keepends=True)
    lines = [line.replace("\tA\tG", "\tG\tA") if j % 3 == 0 else line for j, line in enumerate(lines)]
    other.with_suffix(".bim").write_text("".join(lines))
    known = with_alleles(data.load(path, one_hot=one_hot), path).feature_names
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*written by rows")
        found = [counted_alike(table, other, known) for table in both(other, one_hot=one_hot)]
    assert [flipped for _, flipped in found] == [4, 4]
    whole, stored = (table for table, _ in found)
    assert stored.feature_names == whole.feature_names == known
    np.testing.assert_array_equal(stored.X.dense([4, 1]), whole.X[[4, 1]])
    plain = data.load(written(tmp_path / "c.bed", counted(9, 1)), one_hot=one_hot)
    np.testing.assert_allclose(whole.X, plain.X, rtol=1e-6)


def test_the_rows_are_those_of_the_file_as_it_is(path, tmp_path):
    mine = tmp_path / "a.bed"
    for ending in (".bed", ".bim", ".fam"):
        mine.with_suffix(ending).write_bytes(path.with_suffix(ending).read_bytes())
    with pytest.warns(UserWarning, match="once"):
        data.load(mine, stream=True)
    data.load(mine, stream=True)  # a warning would be an error
    written(mine, counted(seed=5))
    with pytest.warns(UserWarning, match="once"):
        stored = data.load(mine, stream=True)
    np.testing.assert_array_equal(stored.X.dense(slice(None)), data.load(mine).X)
    place = tmp_path / "a.bed.X.rows.h5"
    with h5py.File(place) as file, h5py.File(tmp_path / "other.h5", "w") as other:
        other.attrs["source"] = file.attrs["source"]
        other["X"], other["counts"] = file["X"][...], np.zeros((3, SNPS + 1), np.int64)
    (tmp_path / "other.h5").replace(place)
    with pytest.raises(ValueError, match=r"a\.bed\.X\.rows\.h5 must hold the rows of a\.bed; remove it"):
        data.load(mine, stream=True)


def test_what_does_not_fit_stays_on_disk(path, monkeypatch):
    monkeypatch.setattr(plink, "TEXT_GROWS", 1)
    need = 4 * N * 3 * SNPS
    assert isinstance(data.load(path, one_hot=True, max_memory=int(1.5 * need)).X, StoredRows)
    assert isinstance(data.load(path, one_hot=True, max_memory="1GB").X, np.ndarray)
