"""Settings chosen on training batches that are left out."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import gsat
from gsat.estimators import candidates, leaving_out
from gsat.estimators.candidates import chosen
from gsat.estimators.kept import Kept
from gsat.estimators.leaving_out import Scores, folds_of, judged

D = 8


def shifted(n=240, n_batches=4, size=0.0, seed=0):
    """Three classes in two features; batches are shifted along others, or along all."""
    rng = np.random.default_rng(seed)
    y, batch = rng.integers(3, size=n), np.arange(n) % n_batches
    means = np.zeros((3, D))
    means[:, :2] = [[2, 0], [0, 2], [-2, -2]]
    shifts = size * rng.normal(size=(n_batches, D))
    return (means[y] + shifts[batch] + 0.5 * rng.normal(size=(n, D))).astype(np.float32), y, batch


def small(**options):
    template = gsat.GSATClassifier(n_outer=15, group_size=32, eta0=1e-2, n_inner=2)
    given = {"structures": ("low-rank",), "budgets": (0.1,), "gammas": (0.0, 10.0), "hidden": (0, 5), "n_folds": 2}
    given |= {"cs": (0.01, 1.0), "shrinkages": (0.1, 0.6), "combine": "best"}
    return gsat.GSATClassifierCV(**({"estimator": template, "random_state": 0} | given | options))


@pytest.fixture(scope="module")
def fitted():
    X, y, batch = shifted(size=3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return small().fit(X, y, batch=batch), X, y, batch


def test_all_candidates_are_tried_and_the_best_is_trained_again(fitted):
    model, X, y, batch = fitted
    results = model.cv_results_
    erm = [one for one in results["params"] if one["defence"] == "erm"]
    assert len(erm) == 6  # three preparations, two widths
    linear = [one for one in results["params"] if one["defence"] == "linear"]
    assert len(linear) == 12  # three preparations, two gammas, two C
    discriminant = [one for one in results["params"] if one["defence"] == "lda"]
    assert len(discriminant) == 6  # three preparations, two shrinkages
    assert {one["shrinkage"] for one in discriminant} == {0.1, 0.6}
    assert len(results["params"]) == 26
    assert {one["gamma"] for one in results["params"] if one["defence"] == "low-rank"} == {0.0, 10.0}
    assert results["param_budget"].mask.sum() == 24  # masked where there is none
    best = max(range(26), key=lambda i: results["mean_test_score"][i])
    assert results["mean_test_score"][best] == pytest.approx(model.best_score_)
    assert results["rank_test_score"][model.best_index_] == 1
    assert model.best_params_ == results["params"][model.best_index_] == chosen(model.best_estimator_)
    splits = [results[f"split{i}_test_score"] for i in range(model.n_splits_)]
    np.testing.assert_allclose(np.mean(splits, axis=0), results["mean_test_score"])
    assert model.score(X, y, batch=batch) > 0.8


def test_shifts_along_all_features_are_taken_away(fitted):
    model, *_ = fitted
    assert model.best_params_["prepare"] == "centre"
    new, labels, ids = shifted(size=3.0, seed=7)
    assert model.score(new, labels, batch=ids) > model.single_estimator_.score(new, labels) + 0.03


def test_a_centred_winner_refuses_a_single_sample_and_names_the_next_best(fitted):
    model, X, *_ = fitted
    with pytest.raises(ValueError, match=r"at least two samples of a batch, got one: .*single_estimator_ predicts"):
        model.predict(X[:1])
    assert model.single_estimator_.prepare != "centre"
    assert model.single_estimator_.predict(X[:1]).shape == (1,)


def test_the_scores_are_those_of_the_left_out_batches():
    X, y, batch = shifted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = small(prepare="none", hidden=(5,), gammas=()).fit(X, y, batch=batch)
        erm = gsat.ERMClassifier(n_outer=15, group_size=32, eta0=1e-2, hidden=5, random_state=0)
        for i, name in enumerate((0, 1)):
            away = batch == name
            found = clone(erm).fit(X[~away], y[~away]).predict(X[away])
            expected = np.mean([(found[y[away] == c] == c).mean() for c in range(3)])
            assert model.cv_results_[f"split{i}_test_score"][0] == pytest.approx(expected)


def test_the_same_seed_gives_the_same_choice_and_jobs_do_not_matter():
    X, y, batch = shifted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, two = (small(n_jobs=jobs).fit(X, y, batch=batch) for jobs in (1, 2))
    assert one.best_params_ == two.best_params_
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"])


def test_it_keeps_the_names_of_the_features():
    X, y, batch = shifted()
    frame = pd.DataFrame(X, columns=[f"gene {i}" for i in range(D)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = small(prepare="none", hidden=(5,)).fit(frame, y, batch=batch)
    assert list(model.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


def test_it_is_saved_as_its_winner(fitted, tmp_path):
    model, X, _, batch = fitted
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(gsat.load(tmp_path / "model").predict(X, batch), model.predict(X, batch))


def test_folds_are_the_largest_batches_that_hold_two_known_classes():
    y = np.array(["a", "b", "a", "b", "b", "a", "c", "c", "a", "b"])
    batch = np.array(["one", "one", "two", "two", "two", "three", "three", "three", "three", "four"])
    found = folds_of(y, batch, cv="batches", n_folds=4, seed=0)
    assert [set(batch[test]) for _, test in found] == [{"two"}, {"one"}]  # three knows c alone, four has one class
    assert all(not set(batch[train]) & set(batch[test]) for train, test in found)
    assert len(folds_of(y, batch, cv="batches", n_folds=1, seed=0)) == 1


def test_classes_that_no_other_batch_has_are_not_tested():
    y, batch = np.array([0, 1, 2, 0, 1, 0, 1]), np.array([0, 0, 0, 1, 1, 2, 2])
    (_, test), *_ = folds_of(y, batch, cv="batches", n_folds=3, seed=0)
    assert set(y[test]) == {0, 1}


@pytest.mark.parametrize("batch", [None, np.zeros(40), np.repeat([0, 1], 20)], ids=["none", "one", "confounded"])
def test_without_batches_to_leave_out_random_samples_are_with_a_warning(batch):
    y = np.repeat([0, 1], 20)
    with pytest.warns(UserWarning, match="nothing is known about a next batch"):
        found = folds_of(y, batch, cv="batches", n_folds=4, seed=0)
    assert len(found) == 4
    assert np.array_equal(np.sort(np.concatenate([test for _, test in found])), np.arange(40))


def test_of_equal_accuracy_the_least_loss_wins():
    scores = Scores(
        np.array([[0.5, 0.7], [0.7, 0.5], [0.4, 0.4]]), np.array([[1, 1], [0.5, 0.5], [0, 0]]), np.ones((3, 2))
    )
    assert scores.best() == 1
    assert scores.best([0, 2]) == 0
    assert scores.table([{"a": 1}, {"a": 2}, {"b": 3}])["rank_test_score"].tolist() == [1, 1, 3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"combine": "vote"}, "combine must be one of best, average, got 'vote'"),
        ({"shrinkages": (0.0,)}, "shrinkage must be > 0 and <= 1, got 0"),
        ({"prepare": "twice"}, "prepare must be one of none, centre, zscore, choose"),
        ({"cv": "people"}, "cv must be one of batches, got 'people'"),
        ({"n_folds": 0}, "n_folds must be >= 1"),
        ({"budgets": (-1.0,)}, "budget must be > 0"),
        ({"structures": ("crooked",)}, "structure must be one of"),
    ],
)
def test_bad_parameters_are_told(options, words):
    X, y, batch = shifted()
    with pytest.raises(ValueError, match=words):
        small(**options).fit(X, y, batch=batch)


def test_the_template_must_be_of_gsat():
    X, y, batch = shifted()
    with pytest.raises(TypeError, match="estimator must be a GSATClassifier or None"):
        gsat.GSATClassifierCV(gsat.ERMClassifier()).fit(X, y, batch=batch)


def test_scikit_learn_scores_it():
    X, y, _ = shifted(n=90)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cross_val_score(small(cv=2, hidden=(5,)), X, y, cv=2).mean() > 0.5


TINY = gsat.GSATClassifierCV(
    gsat.GSATClassifier(n_outer=30, eta0=3e-2, n_inner=1),
    structures=("low-rank",),
    budgets=(0.05,),
    gammas=(0.0,),
    cs=(0.1,),
    shrinkages=(0.3,),
    hidden=(5,),
    prepare="none",
    cv=2,
    random_state=0,
)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([TINY])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_random_folds_leave_groups_whole():
    y, people = np.arange(60) % 3, np.arange(60) // 4
    folds = folds_of(y, None, cv=3, n_folds=3, seed=1, group=people)
    assert sorted(np.concatenate([test for _, test in folds]).tolist()) == list(range(60))
    for train, test in folds:
        assert not set(people[train]) & set(people[test])
    apart = folds_of(y, None, cv=3, n_folds=3, seed=1)
    assert any(set(people[train]) & set(people[test]) for train, test in apart)


def test_random_folds_test_known_classes_alone():
    y, people = np.array([0, 1] * 10 + [2, 2]), np.array([*range(20), 20, 20])
    for train, test in folds_of(y, None, cv=2, n_folds=2, seed=0, group=people):
        assert set(y[test]) <= set(y[train])


def test_judged_by_hand():
    share = np.array([[0.8, 0.1, 0.1]] * 3 + [[0.5, 0.3, 0.2]])
    accuracy, balanced, loss = judged(share, np.array(["a", "b", "c"]), np.array(["a", "a", "c", "c"]))
    assert (accuracy, balanced) == (0.5, 0.5)
    assert judged(share, np.array(["a", "b", "c"]), np.array(["a", "a", "a", "c"]))[:2] == (0.75, 0.5)
    assert loss == pytest.approx((-np.log(0.8) + (-np.log(0.1) - np.log(0.2)) / 2) / 2)


# what cannot be tried is left out


def quiet_search(model, X, y, batch):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tried, *_ = model.search(X, y, batch)
    return tried, " ".join(str(one.message) for one in told)


def test_a_batch_of_one_sample_cannot_be_centred():
    X, y, batch = shifted()
    batch = batch.astype(str)
    batch[0] = "alone"
    candidates, told = quiet_search(small(), X, y, batch)
    assert {one.prepare for one in candidates} == {"none", "zscore"}
    assert "batch 'alone' has a single sample" in told


def test_with_two_batches_no_metric_can_be_judged():
    X, y, batch = shifted(n_batches=2)
    candidates, told = quiet_search(small(), X, y, batch)
    assert {getattr(one, "gamma", 0.0) for one in candidates} == {0.0}
    assert "a fold keeps one batch" in told
    template = gsat.GSATClassifier(n_outer=5, group_size=32, metric="within")
    candidates, _ = quiet_search(small(estimator=template), X, y, batch)
    assert {getattr(one, "gamma", 0.0) for one in candidates} == {0.0, 10.0}


def test_declining_the_metric_is_always_a_candidate():
    X, y, batch = shifted()
    candidates, _ = quiet_search(small(gammas=(10.0,)), X, y, batch)
    assert {one.gamma for one in candidates if isinstance(one, gsat.GSATClassifier)} == {0.0, 10.0}


def test_a_module_of_ones_own_has_no_linear_rivals():
    X, y, batch = shifted()
    template = gsat.GSATClassifier(n_outer=5, group_size=32, module="elu", module_options={"hidden": 4})
    candidates, _ = quiet_search(small(estimator=template, hidden=(4,)), X, y, batch)
    assert not any(isinstance(one, gsat.LinearClassifier | gsat.LDAClassifier) for one in candidates)


def test_the_seed_of_the_estimator_holds():
    X, y, batch = shifted()
    template = gsat.GSATClassifier(n_outer=5, group_size=32, random_state=7)
    model = small(estimator=template, random_state=None)
    candidates, _ = quiet_search(model, X, y, batch)
    assert {one.random_state for one in candidates} == {7}


def test_what_was_chosen_is_attacked(fitted):
    model, X, y, batch = fitted
    attack = gsat.attacks.PGD(0.3, steps=3)
    table = gsat.evaluate(model, X, y, attack, batch=batch)
    best = gsat.evaluate(model.best_estimator_, X, y, attack, batch=batch)
    np.testing.assert_allclose(table["accuracy"], best["accuracy"])


def test_the_model_for_single_samples_is_saved_beside(fitted, tmp_path):
    model, X, *_ = fitted
    model.save(tmp_path / "model")
    assert gsat.load(tmp_path / "model").prepare == "centre"
    single = gsat.load(tmp_path / "model-single")
    np.testing.assert_allclose(single.predict_proba(X[:1]), model.single_estimator_.predict_proba(X[:1]), atol=1e-6)
    with pytest.raises(ValueError, match=r"got one of 'b': .*single_estimator_ predicts"):
        model.predict(X[:3], ["a", "a", "b"])


def test_without_a_model_for_single_samples_there_is_none():
    X, y, batch = shifted(size=3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = small(prepare="centre").fit(X, y, batch=batch)
    assert model.single_estimator_ is None
    with pytest.raises(ValueError, match=r'a model with prepare="none" or "zscore" predicts single samples'):
        model.predict(X[:1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budgets": 0.1}, "budgets must be a list of values, got 0.1"),
        ({"structures": "low-rank"}, "structures must be a list of values, got 'low-rank'"),
        ({"hidden": ()}, "hidden must have at least one value, got none"),
        ({"cs": None}, "cs must be a list of values, got None"),
        ({"shrinkages": 0.1}, "shrinkages must be a list of values, got 0.1"),
    ],
)
def test_lists_are_lists(options, message):
    X, y, batch = shifted()
    with pytest.raises(ValueError, match=message):
        small(**options).fit(X, y, batch=batch)
    with pytest.raises(ValueError, match=r"batch must have one id per sample \(240\), got shape \(5,\)"):
        small().fit(X, y, batch=batch[:5])


# averages of the best quarter


@pytest.fixture(scope="module")
def averaged():
    X, y, batch = shifted(size=3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return small(combine="average", hidden=(5,), gammas=(0.0,)).fit(X, y, batch=batch), X, y, batch


def test_the_best_quarter_predicts_together(averaged):
    model, X, _, batch = averaged
    results = model.cv_results_
    order = np.lexsort((results["mean_test_loss"], -results["mean_test_score"].round(9)))
    members = model.estimator_.estimators_
    assert len(results["params"]) == 3 + 6 + 6 + 1
    assert [chosen(one) for one in members] == [results["params"][i] for i in order[:4]]
    assert model.best_params_ == chosen(members[0]) == chosen(model.best_estimator_)
    mean = np.mean([one.predict_proba(X, batch) for one in members], axis=0)
    np.testing.assert_allclose(model.predict_proba(X, batch), mean)
    np.testing.assert_array_equal(model.predict(X, batch), model.classes_[mean.argmax(1)])


def test_an_average_with_a_centred_member_has_another_for_single_samples(averaged, tmp_path):
    model, X, _, batch = averaged
    assert model.estimator_.prepare == "centre"
    with pytest.raises(ValueError, match=r"got one: .*single_estimator_ predicts .* instead of .* by the best member"):
        model.predict(X[:1])
    single = model.single_estimator_
    assert all(one.prepare != "centre" for one in single.estimators_)
    assert len(single.estimators_) == 3  # a quarter of ten, three at least
    model.save(tmp_path / "model")
    again, alone = gsat.load(tmp_path / "model"), gsat.load(tmp_path / "model-single")
    np.testing.assert_allclose(again.predict_proba(X, batch), model.predict_proba(X, batch), atol=1e-6)
    np.testing.assert_allclose(alone.predict_proba(X[:1]), single.predict_proba(X[:1]), atol=1e-6)


def test_an_average_is_not_attacked_but_its_best_member_is(averaged):
    model, X, y, batch = averaged
    attack = gsat.attacks.PGD(0.3, steps=2)
    with pytest.raises(TypeError, match=r"GSATClassifierCV that averages several, .* evaluate best_estimator_"):
        gsat.evaluate(model, X, y, attack, batch=batch)
    assert len(gsat.evaluate(model.best_estimator_, X, y, attack, batch=batch)) == 2


def test_members_are_averaged_by_default():
    assert gsat.GSATClassifierCV().combine == "average"
    scores = Scores(np.linspace(0, 1, 20)[:, None], np.zeros((20, 1)), np.ones((20, 1)))
    assert scores.leading("average") == [19, 18, 17, 16, 15]
    assert scores.leading("average", [3, 8]) == [8, 3]
    assert scores.leading("best") == [scores.best()] == [19]


def test_rows_that_belong_together_stay_together(monkeypatch):
    X, y, _ = shifted(n=90)
    people = np.array([f"p{i // 5}" for i in range(90)])
    template = gsat.GSATClassifier(n_outer=5, group_size=32, early_stopping=True)
    seen = []

    def kept(self, X, y, **options):
        seen.append((len(X), options["groups"]))
        return fit(self, X, y, **options)

    fit = gsat.GSATClassifier.fit
    monkeypatch.setattr(gsat.GSATClassifier, "fit", kept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = small(estimator=template, cv=3, prepare="none", hidden=(5,), gammas=()).fit(X, y, groups=people)
    assert model.n_splits_ == 3
    assert [n for n, groups in seen if len(groups) != n] == []
    assert all(np.unique(groups, return_counts=True)[1].tolist() == [5] * (n // 5) for n, groups in seen)
    with pytest.raises(ValueError, match=r"groups must have one id per sample \(90\), got 3"):
        small().fit(X, y, groups=[1, 2, 3])


def test_lda_is_left_out_where_it_would_be_too_large(monkeypatch):
    monkeypatch.setattr(candidates, "LARGEST_SIDE", 7)
    X, y, batch = shifted()
    tried, told = quiet_search(small(), X, y, batch)
    assert not any(isinstance(one, gsat.LDAClassifier) for one in tried)
    assert "LDA is no candidate: it solves with a square matrix of samples or features, of which there are 240" in told
    assert "LDA" not in quiet_search(small(shrinkages=()), X, y, batch)[1]


def test_scores_that_are_kept_are_not_found_again(tmp_path, monkeypatch):
    X, y, batch = shifted()
    model, path = small(prepare="none", hidden=(5,)), tmp_path / "scores.jsonl"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, first, _ = model.search(X, y, batch, kept=Kept(path))
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([*lines[:5], b'{"key": "x"}\n', b"[1]\n", b"\xff\n", *lines[6:], lines[5][:30]]))
        trained, one = [], leaving_out._one
        monkeypatch.setattr(leaving_out, "_one", lambda *args: (trained.append(args), one(*args))[1])
        _, second, _ = model.search(X, y, batch, kept=Kept(path))
        assert len(trained) == 1  # the line that was cut off
        np.testing.assert_array_equal(second.accuracy, first.accuracy)
        np.testing.assert_allclose(second.loss, first.loss)
        model.search(X, np.roll(y, 1), batch, kept=Kept(path))
    assert len(trained) == 1 + first.accuracy.size  # other labels are other scores
