"""AnnData in, AnnData out: what is written, what survives a file, and what is refused."""

import json

import anndata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gsat
from cells import QUICK, TYPES, plainly

pytestmark = pytest.mark.filterwarnings("ignore:The .mode.chained_assignment. option is deprecated")  # in anndata
N, D = 240, 30


def categorical(values) -> pd.Categorical:
    """With object categories: anndata 0.12 cannot write those of pandas 3."""
    values = np.asarray(values, dtype=object)
    return pd.Categorical(values, categories=pd.Index(sorted({v for v in values if v == v}), dtype=object))


def cells(seed: int = 0, *, dtype=np.float32, unknown: int = 40, d: int = D) -> anndata.AnnData:
    """Counts in which genes 3 and 11 tell the type; the first `unknown` cells have no label."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, N)
    rate = np.full((N, d), 0.7)
    rate[np.arange(N), np.array([3, 11, 20])[kind]] += 6
    counts = sparse.csr_array(rng.poisson(rate).astype(dtype))
    label = TYPES[kind].copy()
    label[:unknown] = np.nan
    obs = pd.DataFrame(
        {
            "cell_type": categorical(label),
            "true": categorical(TYPES[kind]),
            "donor": categorical([f"d{i % 3}" for i in range(N)]),
            "stage": kind.astype(np.int64),
        },
        index=pd.Index([f"cell{i}" for i in range(N)], dtype=object),
    )
    var = pd.DataFrame(index=pd.Index([f"gene{j}" for j in range(d)], dtype=object))
    return anndata.AnnData(counts, obs=obs, var=var, layers={"twice": counts * 2})


@pytest.fixture(scope="module")
def fitted():
    adata = cells()
    return adata, gsat.tl.fit(adata, "cell_type", **QUICK)


def test_cells_without_a_label_are_predicted_and_not_trained_on(fitted):
    adata, classifier = fitted
    assert classifier.n_samples_ == adata.uns["gsat"]["n_trained"] == N - 40
    predicted = adata.obs["gsat_prediction"]
    assert predicted.cat.categories.tolist() == TYPES.tolist()
    assert (predicted.astype(str) == adata.obs["true"].astype(str))[:40].mean() > 0.8
    chances = adata.obsm["gsat_probabilities"]
    assert chances.shape == (N, 3)
    assert chances.sum(1) == pytest.approx(np.ones(N))
    assert adata.obs["gsat_confidence"].to_numpy() == pytest.approx(chances.max(1))
    assert np.array_equal(adata.uns["gsat"]["classes"][chances.argmax(1)], predicted.to_numpy())


def test_scores_tell_the_genes_that_matter(fitted):
    adata, _ = fitted
    score = adata.var["gsat_score"]
    assert score.sum() == pytest.approx(1)
    assert set(score.nlargest(3).index) == {"gene3", "gene11", "gene20"}


def test_it_is_the_classifier_on_the_labelled_rows(fitted):
    adata, classifier = fitted
    rows = adata.obs["cell_type"].notna().to_numpy()
    plain = gsat.GSATClassifier(**QUICK).fit(adata.X[rows], adata.obs["cell_type"][rows].astype(str).to_numpy())
    assert np.array_equal(plain.predict_proba(adata.X), adata.obsm["gsat_probabilities"])
    assert classifier.feature_names_in_.tolist() == adata.var_names.tolist()


def test_the_matrix_is_never_dense_as_a_whole(monkeypatch):
    adata, rows_at_once = cells(d=20_000), []
    toarray = sparse.csr_array.toarray

    def watched(self, *args, **kwargs):
        rows_at_once.append(self.shape[0])
        return toarray(self, *args, **kwargs)

    monkeypatch.setattr(sparse.csr_array, "toarray", watched)
    gsat.tl.fit(adata, "cell_type", **QUICK | {"n_outer": 3})
    assert rows_at_once
    assert max(rows_at_once) <= N // 4


@pytest.mark.parametrize("key", ["true", "stage"])
def test_it_survives_a_file(key, tmp_path):
    adata = cells()
    classifier = gsat.tl.fit(adata, key, "donor", "twice", structure="universal", key_added="robust", **QUICK)
    adata.write_h5ad(tmp_path / "out.h5ad")
    again = anndata.read_h5ad(tmp_path / "out.h5ad")
    assert again.obs["robust_prediction"].astype(str).tolist() == adata.obs["robust_prediction"].astype(str).tolist()
    assert np.array_equal(again.obsm["robust_probabilities"], adata.obsm["robust_probabilities"])
    assert np.array_equal(again.var["robust_score"], adata.var["robust_score"])
    settings = again.uns["robust"]
    assert (settings["labels_key"], settings["batch_key"], settings["layer"]) == (key, "donor", "twice")
    assert (settings["classifier"], settings["params"]["structure"]) == ("GSATClassifier", "universal")
    assert settings["classes"].tolist() == classifier.classes_.tolist()
    assert settings["lam"] == pytest.approx(classifier.lam_)


def test_batches_change_universal_training():
    one, other = cells(), cells()
    gsat.tl.fit(one, "true", structure="universal", **QUICK)
    gsat.tl.fit(other, "true", "donor", structure="universal", **QUICK)
    assert not np.array_equal(one.obsm["gsat_probabilities"], other.obsm["gsat_probabilities"])


@pytest.mark.parametrize("kind", [gsat.ERMClassifier, gsat.GroupDROClassifier, gsat.CORALClassifier])
def test_a_classifier_of_ones_own(kind):
    adata = cells()
    mine = kind(n_outer=30, eta0=1e-2, random_state=1)
    found = gsat.tl.fit(adata, "true", classifier=mine)
    assert isinstance(found, kind)
    assert not hasattr(mine, "module_")
    assert "gsat_score" not in adata.var
    assert "lam" not in adata.uns["gsat"]


@pytest.mark.parametrize("combine", ["best", "average"])
def test_settings_that_are_chosen_on_left_out_batches(combine, tmp_path):
    adata = cells()
    template = gsat.GSATClassifier(**QUICK)
    cv = gsat.GSATClassifierCV(template, structures=(), hidden=(5,), cs=(0.1,), n_folds=2, random_state=0)
    cv.set_params(combine=combine, prepare="none")
    found = gsat.tl.fit(adata, "cell_type", "donor", classifier=cv)
    assert type(found).__name__ == adata.uns["gsat"]["classifier"]
    assert (type(found) is gsat.AverageClassifier) == (combine == "average")
    right = adata.obs["gsat_prediction"].astype(str) == adata.obs["true"].astype(str)
    assert right.mean() > 0.9
    assert "gsat_score" not in adata.var  # nothing moved the genes in training
    again = gsat.load(found.save(tmp_path / "model"))
    new = cells(1, unknown=0)[:, ::-1].copy()
    gsat.tl.predict(new, again)  # genes are matched by name
    assert (new.obs["gsat_prediction"].astype(str) == new.obs["true"].astype(str)).mean() > 0.8


def test_predict_matches_genes_by_name(fitted):
    _, classifier = fitted
    new = cells(1, unknown=0)
    wanted = gsat.tl.predict(new.copy(), classifier)
    assert (wanted.missing, wanted.extra) == ((), ())
    shuffled = new[:, np.random.default_rng(0).permutation(D)].copy()
    gsat.tl.predict(new, classifier)
    gsat.tl.predict(shuffled, classifier)
    assert shuffled.obsm["gsat_probabilities"] == pytest.approx(new.obsm["gsat_probabilities"], abs=1e-12)
    assert (new.obs["gsat_prediction"].astype(str) == new.obs["true"].astype(str)).mean() > 0.8
    fewer = new[:, [j for j in range(D) if j != 7]].copy()
    with pytest.raises(ValueError, match=r"must have all 30 features of the model, 1 are missing: gene7"):
        gsat.tl.predict(fewer, classifier)
    assert gsat.tl.predict(fewer, classifier, missing="mean").missing == ("gene7",)
    whole = new.copy()
    filled = new.X.toarray()
    filled[:, 7] = classifier.mean_[7]
    whole.X = filled
    gsat.tl.predict(whole, classifier)
    assert fewer.obsm["gsat_probabilities"] == pytest.approx(whole.obsm["gsat_probabilities"], abs=1e-6)


def test_integer_counts_and_dense_matrices():
    whole, dense = cells(dtype=np.int64), cells()
    dense.X = dense.X.toarray()
    assert not sparse.issparse(dense.X)
    for adata in (whole, dense):
        gsat.tl.fit(adata, "cell_type", **QUICK)
    assert whole.obsm["gsat_probabilities"] == pytest.approx(dense.obsm["gsat_probabilities"], abs=1e-6)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (None, {"labels_key": "type"}, r"labels_key must be a column of .obs \(cell_type, .*got 'type'"),
        (None, {"batch_key": "lane"}, r"batch_key must be a column of .obs .*got 'lane'"),
        (None, {"layer": "raw"}, r"layer must be one of twice, got 'raw'"),
        (lambda a: a.obs.assign(cell_type=np.nan), {}, r"got 'cell_type', where all are missing"),
        (lambda a: a.obs.assign(cell_type="B"), {}, r"y must hold at least two classes"),
        (None, {"classifier": gsat.ERMClassifier(), "n_outer": 3}, r"params must not be given beside classifier="),
        (None, {"structure": "cubic"}, r"structure must be one of"),
    ],
)
def test_what_is_wrong_is_named(change, options, message):
    adata = cells()
    if change is not None:
        adata.obs = change(adata)
    with pytest.raises(ValueError, match=message):
        gsat.tl.fit(adata, **{"labels_key": "cell_type", **options})
    assert "gsat" not in adata.uns
    assert "gsat_prediction" not in adata.obs


def test_doubtful_names_are_refused():
    adata = cells()
    adata.var.index = ["gene0"] * 2 + adata.var_names.tolist()[2:]
    with pytest.raises(ValueError, match=r"must have distinct var_names"):
        gsat.tl.fit(adata, "cell_type")


def test_gsat_does_not_import_anndata():
    import subprocess
    import sys

    code = (
        "import sys, gsat, gsat.cli; [getattr(gsat, name) for name in gsat.__all__]; sys.exit('anndata' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_batches_are_centred_in_all_that_is_written():
    adata, new = cells(), cells(1)
    classifier = gsat.tl.fit(adata, "cell_type", batch_key="donor", prepare="centre", **QUICK)
    donor = adata.obs["donor"].to_numpy()
    assert np.array_equal(adata.obsm["gsat_probabilities"], classifier_on(classifier, adata, donor))
    assert set(adata.var["gsat_score"].nlargest(3).index) == {"gene3", "gene11", "gene20"}
    gsat.tl.predict(new, classifier, batch_key="donor")
    by_donor = new.obsm["gsat_probabilities"].copy()
    np.testing.assert_allclose(by_donor, classifier_on(classifier, new, new.obs["donor"].to_numpy()), atol=1e-6)
    with pytest.warns(UserWarning, match=r"the cells of adata are taken as one batch; batch_key= would name"):
        gsat.tl.predict(new, classifier)
    np.testing.assert_allclose(new.obsm["gsat_probabilities"], classifier_on(classifier, new, None), atol=1e-6)
    assert np.abs(new.obsm["gsat_probabilities"] - by_donor).max() > 1e-4
    with pytest.raises(ValueError, match=r"batch_key must be a column of .obs .* got 'day'"):
        gsat.tl.predict(new, classifier, batch_key="day")


def classifier_on(classifier, adata, batch):
    return classifier.predict_proba(pd.DataFrame(adata.X.toarray(), columns=classifier.feature_names_in_), batch)


@pytest.fixture(scope="module")
def worked():
    """Cells that all tools have written into."""
    adata = plainly()
    found = gsat.tl.diagnose(adata, "donor", "true", n_splits=3)
    classifier = gsat.tl.fit(adata, "type", "donor", **QUICK)
    return adata, found, classifier


def test_all_that_is_written_survives_a_file(worked, tmp_path):
    adata, found, _ = worked
    adata.write_h5ad(tmp_path / "cells.h5ad")
    read = anndata.read_h5ad(tmp_path / "cells.h5ad")
    pd.testing.assert_frame_equal(read.var, adata.var, check_index_type=False)
    for name in ("gsat_prediction", "gsat_confidence"):
        assert read.obs[name].tolist() == adata.obs[name].tolist()
    np.testing.assert_array_equal(read.obsm["gsat_probabilities"], adata.obsm["gsat_probabilities"])
    assert read.uns["gsat"]["classes"].tolist() == TYPES.tolist()
    assert read.uns["gsat"]["params"] == adata.uns["gsat"]["params"]
    np.testing.assert_array_equal(read.uns["gsat"]["history"]["loss"], adata.uns["gsat"]["history"]["loss"])
    assert read.uns["gsat_shift"]["worth_trying"].tolist() == list(found.worth_trying)
    assert str(gsat.Diagnosis.from_dict(json.loads(read.uns["gsat_shift"]["json"]))) == str(found)
    read.write_h5ad(tmp_path / "again.h5ad")  # and what was read can be written
    assert (
        anndata.read_h5ad(tmp_path / "again.h5ad").obs["gsat_prediction"].tolist()
        == read.obs["gsat_prediction"].tolist()
    )


def test_diagnose_is_that_of_the_matrix_and_names_the_genes(worked):
    adata, found, _ = worked
    same = gsat.diagnose(adata.X, adata.obs["donor"].to_numpy(), adata.obs["true"].to_numpy().astype(str), n_splits=3)
    assert str(same) == str(found)
    assert found.structure == adata.uns["gsat_shift"]["structure"] != "none"
    rank = adata.var["gsat_shift_rank"]
    assert rank.sort_values().index[: len(found.features)].tolist() == adata.var_names[found.features].tolist()
    assert rank.notna().sum() == len(found.features) < adata.n_vars
    part = plainly()
    part.obs.loc[part.obs_names[:10], "donor"] = np.nan
    with_labels = gsat.tl.diagnose(part, "donor", "type", key_added="mine", n_splits=3)
    assert with_labels.about["n_samples"] == 120  # the 30 cells without a type hold those without a donor
    assert part.uns["mine"]["labels_key"] == "type"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_key": "lane"}, r"batch_key must be a column of .obs \(type, donor, true\), got 'lane'"),
        ({"batch_key": "donor", "labels_key": "kind"}, r"labels_key must be a column of .obs .* got 'kind'"),
        ({"batch_key": "nothing"}, r"batch_key and labels_key must be known of some cells, got 'nothing' and None"),
    ],
)
def test_what_is_wrong_with_batches_is_named(options, message):
    adata = plainly()
    if options["batch_key"] == "nothing":
        adata.obs["nothing"] = np.nan
    with pytest.raises(ValueError, match=message):
        gsat.tl.diagnose(adata, **options)
    assert not adata.uns
    with pytest.raises(TypeError, match="adata must be an AnnData object, got ndarray"):
        gsat.tl.diagnose(adata.X, "donor")


def test_another_classifier_takes_the_place_of_the_first(worked):
    adata, _, classifier = worked
    adata = adata.copy()
    gsat.tl.predict(adata, classifier)
    assert "n_trained" in adata.uns["gsat"]
    assert "gsat_score" in adata.var
    other = gsat.tl.fit(plainly(1), "type", **QUICK)
    gsat.tl.predict(adata, other)
    assert adata.uns["gsat"].keys() == {"classes", "classifier"}
    assert "gsat_score" not in adata.var
