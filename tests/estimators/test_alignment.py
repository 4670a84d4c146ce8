"""Features are matched by name, and doubtful ones are refused."""

import copy

import numpy as np
import pytest
from scipy import sparse

import gsat
from gsat.estimators.matching import align, probabilities

NAMES = [f"g{j}" for j in range(6)]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(3, 2, (90, 6)).astype(np.float32)
    return X, np.where(X[:, 1] > X[:, 4], "up", "down")


@pytest.fixture(scope="module")
def classifier(data):
    fitted = gsat.ERMClassifier(n_outer=30, eta0=1e-2, hidden=10, random_state=0).fit(*data)
    fitted.feature_names_in_ = np.array(NAMES, dtype=object)
    return fitted


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_any_order_gives_the_same(kind, data, classifier):
    X, _ = data
    wanted = probabilities(classifier, X, align(classifier, NAMES, 6), "error")
    order = np.array([5, 0, 3, 1, 4, 2])
    padded = np.column_stack([np.full(90, 7.0, np.float32), X[:, order]])
    names = ["extra", *(NAMES[j] for j in order)]
    found = align(classifier, names, 7)
    assert (found.missing, found.extra) == ((), ("extra",))
    assert found.describe() == "6 of 6 matched by name, 1 extra left out (extra)"
    assert probabilities(classifier, kind(padded), found, "error") == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(("missing", "value"), [("mean", None), ("zero", 0.0)])
def test_missing_features_are_filled(missing, value, data, classifier, monkeypatch):
    X, _ = data
    monkeypatch.setattr("gsat._arrays.chunks.at_a_time", lambda d: 1)  # in several blocks
    filled = X.copy()
    filled[:, 1] = classifier.mean_[1] if value is None else value
    wanted = probabilities(classifier, filled, align(classifier, NAMES, 6), "error")
    found = align(classifier, [NAMES[j] for j in (0, 2, 3, 4, 5)], 5, missing)
    assert found.missing == ("g1",)
    part = X[:, [0, 2, 3, 4, 5]]
    for samples in (part, sparse.csr_array(part)):
        assert probabilities(classifier, samples, found, missing) == pytest.approx(wanted, abs=1e-6)


def test_what_is_refused(data, classifier):
    with pytest.raises(
        ValueError, match=r"all 6 features of the model, 4 are missing: g1, g2, g4, g5; .mean. or .zero"
    ):
        align(classifier, ["g0", "g3", "x"], 3)
    with pytest.raises(ValueError, match=r"must have distinct feature names, got g2 more than once"):
        align(classifier, [*NAMES, "g2"], 7)
    align(classifier, [*NAMES, "x", "x"], 8)  # not one of the model's
    with pytest.raises(ValueError, match=r"got none of them but a, b"):
        align(classifier, ["a", "b"], 2, "zero")
    with pytest.raises(ValueError, match=r"must have the 6 features of the model, got 5, and the samples have no"):
        align(classifier, None, 5)
    assert not align(classifier, None, 6).by_name
    with pytest.raises(ValueError, match=r'missing must be "error", "mean" or "zero", got \'drop\''):
        align(classifier, NAMES, 6, "drop")
    raw = gsat.ERMClassifier(n_outer=2, standardize=False, random_state=0).fit(*data)
    raw.feature_names_in_ = np.array(NAMES, dtype=object)
    with pytest.raises(ValueError, match=r"needs a model with standardize=True"):
        align(raw, NAMES[1:], 5, "mean")


def test_the_work_of_matching_grows_with_the_number_of_names_and_not_with_its_square(classifier):
    calls = []

    class Counted(str):
        __slots__ = ()

        def __hash__(self):
            calls.append(self)
            return super().__hash__()

    names = [Counted(f"gene{j}") for j in range(300)]
    model = copy.copy(classifier)
    model.feature_names_in_, model.n_features_in_ = np.array(names, dtype=object), len(names)
    found = align(model, [*names, Counted("other")], len(names) + 1)
    assert found.extra == ("other",)
    assert found.order.tolist() == list(range(300))
    assert len(calls) < 10 * len(names)
