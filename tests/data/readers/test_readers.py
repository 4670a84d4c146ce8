"""Files written by the libraries that own their formats read back exactly."""

import hashlib
import json
import sys

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from bed_reader import to_bed

from gsat import data
from gsat.data import Table

N, D = 7, 5
GENES = tuple(f"gene {j}" for j in range(D))
CELLS = tuple(f"cell{i}" for i in range(N))
TYPES = ["T", "B", "T", "NK", "B", "T", "B"]
DONORS = [3, 1, 3, 2, 2, 1, 3]
CALLS = np.array(
    [[0, 1, 2, np.nan], [2, 1, 0, 0], [1, 1, 1, 2], [0, np.nan, 2, 2], [0, 2, 2, 1], [1, 0, np.nan, 2]],
    dtype=np.float32,
)
SNPS = ("rs1", "rs2", "rs3", "rs4")


@pytest.fixture
def X():
    return np.random.default_rng(3).lognormal(size=(N, D)).astype(np.float32)


def sha256(*paths):
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def plain(frame):
    """The frame with text as objects: anndata 0.12 does not write the text type of pandas 3."""
    numeric = frame.select_dtypes(["number", "bool", "category"]).columns
    return frame.astype(dict.fromkeys(frame.columns.difference(numeric), object)).set_index(frame.index.astype(object))


def write_h5ad(path, X, obs=None, names=GENES, cells=CELLS, **more):
    obs = pd.DataFrame(obs, index=list(cells))
    anndata.AnnData(X, plain(obs), plain(pd.DataFrame(index=list(names))), **more).write_h5ad(path)
    return path


def write_plink(path, calls=CALLS, **properties):
    n, p = calls.shape
    known = {"fid": ["0"] * n, "iid": [f"i{i}" for i in range(n)], "sid": list(SNPS[:p])}
    to_bed(path, calls, properties=known | properties)
    return path


def assert_same(table, X, path):
    assert table.X.dtype == np.float32
    assert table.X.flags.c_contiguous
    np.testing.assert_array_equal(table.X, X)
    assert table.feature_names == GENES
    assert table.sample_ids == CELLS
    assert table.y.tolist() == TYPES
    assert table.y.dtype.kind == "U"
    assert table.batch.tolist() == DONORS
    assert table.batch.dtype == np.int64
    assert table.source == str(path)
    assert table.checksum == sha256(path)


def frame(X):
    return pd.DataFrame(X, CELLS, GENES).assign(type=TYPES, donor=DONORS)


@pytest.mark.parametrize(("ending", "separator"), [(".csv", ","), (".tsv", "\t"), (".CSV", ",")])
@pytest.mark.parametrize("as_text", [True, False])
def test_text(tmp_path, X, ending, separator, as_text):
    path = tmp_path / f"cells{ending}"
    frame(X).to_csv(path, sep=separator)  # the ids are in a first column without a name
    assert_same(data.load(str(path) if as_text else path, label="type", batch="donor"), X, path)


def test_text_with_ids_byte_order_mark_blank_lines_and_quotes(tmp_path, X):
    path = tmp_path / "cells.csv"
    frame(X).rename_axis("a, b").reset_index().to_csv(
        path, index=False, encoding="utf-8-sig", lineterminator="\r\n\r\n"
    )
    assert_same(data.load(path, label="type", batch="donor", ids="a, b"), X, path)


def test_text_row_names_are_no_feature_when_others_are_the_ids(tmp_path, X):
    path = tmp_path / "cells.csv"
    frame(X).reset_index(names="name").to_csv(path)
    assert_same(data.load(path, label="type", batch="donor", ids="name"), X, path)


def test_text_without_options_has_only_features(tmp_path):
    path = tmp_path / "x.tsv"
    path.write_text("a\tb\n1\t-2.5e-3\n 3 \t4\n")
    table = data.load(path)
    np.testing.assert_array_equal(table.X, np.array([[1, -2.5e-3], [3, 4]], np.float32))
    assert (table.y, table.batch, table.sample_ids, table.feature_names) == (None, None, None, ("a", "b"))


@pytest.mark.parametrize(
    ("labels", "values", "dtype"),
    [
        (["1", "0", "-3"], [1, 0, -3], "int64"),
        (["1.5", "2", "1e-5"], [1.5, 2, 1e-5], "float64"),
        (["01", "11", "02"], ["01", "11", "02"], "<U2"),
        (["1", "b", "2"], ["1", "b", "2"], "<U1"),
        (["1_0", "2_0", "3"], ["1_0", "2_0", "3"], "<U3"),
        (["9" * 19, "1", "2"], ["9" * 19, "1", "2"], "<U19"),
        (["None", "drug", "drug"], ["None", "drug", "drug"], "<U4"),
    ],
)
def test_text_labels_are_numbers_only_if_they_print_as_they_came(tmp_path, labels, values, dtype):
    path = tmp_path / "x.csv"
    path.write_text("a,y\n" + "".join(f"1,{label}\n" for label in labels))
    found = data.load(path, label="y").y
    assert found.tolist() == values
    assert found.dtype == dtype


def test_parquet_of_pandas(tmp_path, X):
    path = tmp_path / "cells.parquet"
    frame(X).astype({"type": "category"}).to_parquet(path)  # the ids are the index
    assert_same(data.load(path, label="type", batch="donor"), X, path)


def test_parquet_named_index_is_the_ids_or_no_feature(tmp_path, X):
    path = tmp_path / "cells.parquet"
    frame(X).rename_axis("name").to_parquet(path)
    assert_same(data.load(path, label="type", batch="donor"), X, path)
    frame(X).assign(name=CELLS).set_index(pd.Index(range(10, 10 + N), name="number")).to_parquet(path)
    assert_same(data.load(path, label="type", batch="donor", ids="name"), X, path)
    frame(X).set_index([pd.Index(CELLS, name="one"), pd.Index(range(2, 2 + N), name="two")]).to_parquet(path)
    assert data.load(path, label="type", batch="donor").feature_names == GENES


def test_parquet_of_arrow_with_whole_numbers_and_booleans(tmp_path):
    path = tmp_path / "x.parquet"
    columns = {"a": pa.array([1, 2, 3], pa.int16()), "b": pa.array([True, False, True]), "y": pa.array(["u", "v", "u"])}
    pq.write_table(pa.table(columns), path, row_group_size=2)
    table = data.load(path, label="y")
    assert table.X.tolist() == [[1, 1], [2, 0], [3, 1]]
    assert table.y.tolist() == ["u", "v", "u"]
    assert table.sample_ids is None


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, X, save):
    path = tmp_path / "cells.npz"
    save(path, X=X, y=TYPES, batch=DONORS, feature_names=GENES, sample_ids=CELLS)
    assert_same(data.load(path), X, path)


def test_npz_with_other_names(tmp_path, X):
    path = tmp_path / "cells.npz"
    bytes_of = np.array(TYPES).astype("S")
    save = {"X": X, "y": np.zeros(3), "type": bytes_of, "donor": DONORS, "who": CELLS, "feature_names": GENES}
    np.savez(path, **save)
    assert_same(data.load(path, label="type", batch="donor", ids="who"), X, path)


def test_npz_keeps_the_shape_of_images(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, X=np.arange(24, dtype=np.uint8).reshape(2, 3, 4), feature_names=np.arange(12))
    table = data.load(path)
    np.testing.assert_array_equal(table.X, np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    assert table.feature_names == tuple(str(j) for j in range(12))


OBS = {"type": TYPES, "donor": DONORS, "barcode": [f"b{i}" for i in range(N)]}


@pytest.mark.parametrize("form", [np.asarray, np.float64, sp.csr_matrix, sp.csc_matrix, sp.csr_array])
def test_h5ad(tmp_path, X, form):
    path = write_h5ad(tmp_path / "cells.h5ad", form(X), OBS)
    assert_same(data.load(path, label="type", batch="donor"), X, path)


@pytest.mark.parametrize("form", [np.asarray, sp.csc_matrix])
def test_h5ad_layer_and_ids(tmp_path, X, form):
    counts = np.arange(N * D).reshape(N, D) % 4
    path = write_h5ad(tmp_path / "cells.h5ad", X, OBS, layers={"counts": form(counts)})
    table = data.load(path, layer="counts", ids="barcode")
    np.testing.assert_array_equal(table.X, counts.astype(np.float32))
    assert table.sample_ids == tuple(OBS["barcode"])
    assert (table.y, table.batch) == (None, None)


@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        *((np.asarray, dtype) for dtype in (bool, np.uint8, np.int64, np.float16)),
        *((sp.csr_matrix, dtype) for dtype in (bool, np.uint8, np.int64)),  # scipy has no sparse float16
    ],
)
def test_h5ad_layers_of_other_types(tmp_path, X, form, dtype):
    values = (np.arange(N * D).reshape(N, D) % 3).astype(dtype)
    path = write_h5ad(tmp_path / "cells.h5ad", X, layers={"other": form(values)})
    table = data.load(path, layer="other")
    np.testing.assert_array_equal(table.X, values.astype(np.float32))
    assert table.X.dtype == np.float32


def test_h5ad_label_types(tmp_path, X):
    obs = {
        "flag": np.arange(N) % 2 == 0,
        "age": np.arange(N) / 4,
        "nullable": pd.array(DONORS, dtype="Int64"),
        "number": pd.Categorical(DONORS),
    }
    path = write_h5ad(tmp_path / "cells.h5ad", X, obs)
    for key, kind in {"flag": "b", "age": "f", "nullable": "i", "number": "i"}.items():
        found = data.load(path, label=key).y
        assert found.dtype.kind == kind
        assert found.tolist() == list(obs[key])


def test_h5ad_sparse_is_never_dense_in_float64(tmp_path):
    import tracemalloc

    n, d = 1000, 2000
    X = sp.random(n, d, 0.01, "csr", rng=1)
    path = write_h5ad(tmp_path / "x.h5ad", X, None, [f"g{j}" for j in range(d)], [f"c{i}" for i in range(n)])
    tracemalloc.start()
    try:
        table = data.load(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * table.X.nbytes  # the matrix, the test for finite numbers, the sparse one


def test_plink_counts_allele_1_samples_by_snps(tmp_path):
    calls = np.array([[0, 1, 2], [2, 1, 0], [1, 1, 1], [0, 0, 2], [0, 2, 2]], dtype=np.float32)
    path = write_plink(tmp_path / "people.bed", calls)
    table = data.load(path)
    np.testing.assert_array_equal(table.X, calls)
    assert table.X.dtype == np.float32
    assert table.feature_names == SNPS[:3]
    assert table.sample_ids == ("i0", "i1", "i2", "i3", "i4")
    assert (table.y, table.batch, table.feature_groups) == (None, None, None)
    assert table.source == str(path)
    assert table.checksum == sha256(path, path.with_suffix(".bim"), path.with_suffix(".fam"))


def test_plink_missing_policies(tmp_path):
    path = write_plink(tmp_path / "people.bed")
    means = np.nanmean(CALLS.astype(np.float64), axis=0).astype(np.float32)
    np.testing.assert_array_equal(data.load(path).X, np.where(np.isnan(CALLS), means, CALLS))
    np.testing.assert_array_equal(data.load(path, missing=-1).X, np.nan_to_num(CALLS, nan=-1))
    np.testing.assert_array_equal(data.load(write_plink(path, CALLS[1:3]), missing="error").X, CALLS[1:3])


def test_plink_bytes_mean_what_plink_says(tmp_path):
    path = tmp_path / "four.bed"
    path.write_bytes(b"\x6c\x1b\x01\xe4")  # from the low bits: twice allele 1, no call, both alleles, twice allele 2
    path.with_suffix(".bim").write_text("1 rs1 0 100 A G\n")
    path.with_suffix(".fam").write_text("".join(f"f i{i} 0 0 0 -9\n" for i in range(4)))
    assert data.load(path, missing=9).X.ravel().tolist() == [2, 9, 1, 0]


def test_plink_one_hot_groups_the_three_columns_of_a_snp(tmp_path):
    table = data.load(write_plink(tmp_path / "people.bed"), one_hot=True)
    assert table.X.shape == (6, 12)
    assert table.feature_names[:4] == ("rs1=0", "rs1=1", "rs1=2", "rs2=0")
    assert table.feature_groups == (0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3)
    blocks = table.X.reshape(6, 4, 3)
    np.testing.assert_array_equal(blocks.argmax(axis=2)[~np.isnan(CALLS)], CALLS[~np.isnan(CALLS)])
    np.testing.assert_allclose(blocks.sum(axis=2), 1, rtol=1e-6)
    np.testing.assert_array_equal(blocks[0, 3], np.array([1 / 5, 1 / 5, 3 / 5], np.float32))
    assert table.subset([4, 0]).feature_groups == table.feature_groups


def test_plink_one_hot_with_a_number(tmp_path):
    blocks = data.load(write_plink(tmp_path / "people.bed"), one_hot=True, missing=2).X.reshape(6, 4, 3)
    np.testing.assert_array_equal(blocks.argmax(axis=2), np.nan_to_num(CALLS, nan=2))
    np.testing.assert_array_equal(blocks.sum(axis=2), np.ones((6, 4)))


def test_plink_labels_of_the_fam_file(tmp_path):
    path = write_plink(
        tmp_path / "people.bed",
        fid=["f1", "f1", "f2", "f2", "f3", "f3"],
        sex=[1, 2, 2, 1, 1, 2],
        pheno=["1", "2", "1", "1", "2", "2"],
    )
    table = data.load(path, label="phenotype", batch="family")
    assert table.y.tolist() == [1, 2, 1, 1, 2, 2]
    assert table.batch.tolist() == ["f1", "f1", "f2", "f2", "f3", "f3"]
    assert data.load(path, label="sex").y.tolist() == ["male", "female", "female", "male", "male", "female"]


def test_plink_phenotype_0_is_a_number_when_it_is_not_1_or_2(tmp_path):
    path = write_plink(tmp_path / "people.bed", pheno=["0", "2.5", "1", "0", "-1", "2"])
    assert data.load(path, label="phenotype").y.tolist() == [0, 2.5, 1, 0, -1, 2]


@pytest.mark.parametrize(("name", "separator"), [("pheno.tsv", "\t"), ("pheno.csv", ","), ("pheno.txt", "\t")])
def test_plink_labels_by_iid_in_any_order(tmp_path, name, separator):
    path = write_plink(tmp_path / "people.bed")
    rows = [("i5", "Asia", "b"), ("i0", "Africa", "a"), ("i9", "Mars", "z")]
    rows += [(f"i{i}", "Europe", "a") for i in (4, 3, 2, 1)]
    pd.DataFrame(rows, columns=["IID", "continent", "lab"]).to_csv(tmp_path / name, sep=separator, index=False)
    table = data.load(path, label="continent", batch="lab", pheno=tmp_path / name)
    assert table.y.tolist() == ["Africa", "Europe", "Europe", "Europe", "Europe", "Asia"]
    assert table.batch.tolist() == ["a", "a", "a", "a", "a", "b"]


def test_plink_labels_by_fid_and_iid(tmp_path):
    path = write_plink(tmp_path / "people.bed", fid=list("uuuvvv"), iid=["1", "2", "3"] * 2)
    pheno = tmp_path / "pheno.tsv"
    rows = [(family, i, 10 * (family == "v") + i) for i in (3, 2, 1) for family in "uv"]
    pd.DataFrame(rows, columns=["#FID", "IID", "trait"]).to_csv(pheno, sep="\t", index=False)
    table = data.load(path, label="trait", pheno=pheno)
    assert table.y.tolist() == [1, 2, 3, 11, 12, 13]
    assert table.sample_ids == ("u_1", "u_2", "u_3", "v_1", "v_2", "v_3")


def test_a_known_name_stays_a_data_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").write_text("a\n1\n")
    assert data.load("digits").X.shape == (1797, 64)


@pytest.mark.parametrize(
    ("module", "package", "ending"),
    [
        ("anndata", "anndata", ".h5ad"),
        ("bed_reader", "bed-reader", ".bed"),
        ("pyarrow", "pyarrow", ".parquet"),
        ("openpyxl", "openpyxl", ".xlsx"),
    ],
)
def test_a_missing_package_says_what_to_install(tmp_path, monkeypatch, module, package, ending):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / f"x{ending}").write_bytes(b"")
    with pytest.raises(ImportError, match=rf'^reading {ending} needs {package}: pip install "gsat-learn\[bio\]"$'):
        data.load(tmp_path / f"x{ending}")


def test_feature_groups_are_one_per_feature():
    assert Table(np.zeros((2, 1, 3)), feature_groups=(0, 0, 1)).feature_groups == (0, 0, 1)
    with pytest.raises(ValueError, match=r"^feature_groups must have one entry per feature of X \(3\), got 2$"):
        Table(np.zeros((2, 3)), feature_groups=(0, 1))


def test_describe_counts(tmp_path, X):
    path = tmp_path / "cells.csv"
    frame(X).to_csv(path)
    found = data.load(path, label="type", batch="donor").describe()
    assert found == {
        "n": N,
        "features": D,
        "classes": {"B": 3, "NK": 1, "T": 3},
        "batches": {"1": 2, "2": 2, "3": 3},
        "source": str(path),
        "checksum": sha256(path),
    }
    assert json.loads(json.dumps(found)) == found


def test_describe_without_classes():
    assert Table(np.zeros((3, 2, 4))).describe()["features"] == 8
    assert Table(np.zeros((3, 2))).describe()["classes"] is None
    assert Table(np.zeros((3, 2)), np.array([0.5, 1, 2])).describe()["classes"] is None
    assert Table(np.zeros((3, 2)), np.array([1.0, 1, 2])).describe()["classes"] == {"1.0": 2, "2.0": 1}
