"""The certificate: never below the worst risk of exact problems, its rows, its figure, and those of classifiers."""

from itertools import product

import numpy as np
import pytest
import torch
from pandas.testing import assert_frame_equal
from torch import nn
from torch.nn.functional import cross_entropy

import gsat
from gsat import transport
from gsat.losses import per_sample_cross_entropy
from gsat.theory.transforms import Transforms
from networks import COSTS, net
from strategies import normal

# ---- exact problems


class Labelled:
    """A cost of samples whose last entry is the label, which does not move."""

    def __init__(self, cost):
        self.cost = cost

    def value(self, delta):
        return self.cost.value(delta[:, :-1]) if not delta[:, -1].any() else torch.tensor(float("inf"))


@pytest.fixture(scope="module")
def lattice():
    """Three labelled samples on a lattice in the plane, and the cross-entropy of a small network at all its points."""
    points = np.array(list(product(np.linspace(-1.2, 1.2, 4), np.linspace(-0.8, 0.8, 3))))
    x, y = points[[4, 7, 9]], np.array([0, 1, 1])
    model = net(2, 5, 2, seed=3, gain=1.2)
    z = np.concatenate([np.column_stack([points, np.full(len(points), label)]) for label in (0.0, 1.0)])
    with torch.no_grad():
        loss = cross_entropy(model(torch.from_numpy(z[:, :2])), torch.from_numpy(z[:, 2]).long(), reduction="none")
    return model, x, y, z, loss.numpy()


@pytest.mark.parametrize("name", ["universal", "group-sparse", "low-rank", "unstructured"])
def test_the_certificate_is_not_below_the_worst_risk(name, lattice):
    model, x, y, z, loss = lattice
    cost, m = COSTS[name], 2
    groups = torch.tensor(list(product(range(3), repeat=m)))
    problem = Transforms.of(
        model, x, y, cost, loss=per_sample_cross_entropy, beta=gsat.curvature_bound(model), n_inner=60
    )
    lam_rigorous = problem.beta / (2 * cost.ridge)
    radii, atoms = [0.02, 0.1, 0.5], np.column_stack([x, y])
    worst = [
        transport.worst_risk_within(loss, atoms, np.full(3, 1 / 3), z, Labelled(cost), m, radius).value
        for radius in radii
    ]
    assert worst[-1] > worst[0] + 0.02
    for factor in (1.01, 1.5, 4.0, 100.0):
        lam = factor * lam_rigorous
        mean = problem.maxima(lam, groups).values.mean()  # over all groups: nothing is left to chance
        assert all(lam * radius + mean >= risk - 1e-8 for radius, risk in zip(radii, worst, strict=True))
        assert problem.ceilings(lam).mean() >= mean - 1e-8
    for seed in range(2):
        found = gsat.certify(model, x, y, radii, cost, group_size=m, n_groups=15, n_inner=10, random_state=seed)
        high = found.table[found.table["rigorous"]]["high"]
        assert (high.to_numpy() >= np.array(worst) - 1e-8).all()


# ---- certify


@pytest.fixture(scope="module")
def trained():
    """A small network fitted to three noisy classes, and its samples."""
    y = torch.arange(90) % 3
    x = normal(90, 5, seed=1) + 1.5 * torch.nn.functional.one_hot(y, 5)
    model = net(5, 8, 3, gain=0.7)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.requires_grad_(True), x, y


RADII = [0.05, 0.0, 0.002, 0.4]
QUICK = {"group_size": 30, "n_groups": 12, "n_pilot": 3, "n_inner": 15}


@pytest.mark.parametrize("name", COSTS)
def test_a_certificate(name, trained):
    model, x, y = trained
    cost = COSTS[name]
    found = gsat.certify(model, x, y, RADII, cost, **QUICK, attacks=[gsat.attacks.Universal(0.3, steps=10)])
    table, risk = found.table, float(cross_entropy(model(x), y).detach())
    assert found.risk == pytest.approx(risk)
    assert found.lam_rigorous == pytest.approx(found.beta / (2 * cost.ridge))
    assert sorted(set(table["radius"])) == sorted(RADII)
    assert (table["rigorous"] == (2 * table["lam"] * cost.ridge > found.beta)).all()
    assert table[table["rigorous"]]["radius"].tolist() == sorted(RADII)
    assert not table["rigorous"].all()
    assert (table["low"] <= table["mean_estimate"]).all()
    assert (table["mean_estimate"] <= table["high"]).all()
    for _, rows in table.groupby("rigorous"):
        assert rows["mean_estimate"].is_monotonic_increasing
    assert set(table["interval"]) == {"exact", "betting", "Student t"}
    assert (table.loc[table["radius"] == 0, ["mean_estimate", "low", "high"]] == found.risk).all(axis=None)
    both = table[table["radius"] == 0.4].set_index("rigorous")
    assert both.loc[False, "mean_estimate"] < both.loc[True, "mean_estimate"]
    # every attack is below every bound, whatever its price and radius: E[ℓ] ≤ λ·c + E[max S]
    rigorous = table[(table["radius"] > 0) & table["rigorous"]]
    for attack in found.attacks.itertuples():
        at = rigorous["high"] + rigorous["lam"] * (attack.radius - rigorous["radius"])
        assert (attack.risk <= at + 1e-9).all()
    assert {"adversary", "universal"} == set(found.attacks["attack"])


@pytest.mark.parametrize("cost", [gsat.Unstructured(), gsat.GroupSparse(0.01)], ids=repr)
def test_a_small_radius_has_a_sharp_certificate(cost, trained):
    """Where the best price is rigorous the bound is what an attack of this radius reaches: duality is strong."""
    model, x, y = trained
    found = gsat.certify(model, x, y, [1e-3], cost, **{**QUICK, "n_groups": 60, "n_pilot": 20})
    (row,) = found.table.itertuples()
    assert row.rigorous
    (attack,) = found.attacks.itertuples()
    assert attack.radius == pytest.approx(1e-3, rel=0.15)
    gained = attack.risk - found.risk
    assert gained > 0.01
    assert row.mean_estimate - found.risk == pytest.approx(gained, rel=0.05)
    assert row.high - row.low < 0.3 * gained


def test_the_interval_narrows_and_holds_the_bound_of_many_groups(trained):
    model, x, y = trained

    def first(n_groups, seed):
        options = {
            "group_size": 10,
            "n_groups": n_groups,
            "n_pilot": 1,
            "n_inner": 6,
            "beta": 30.0,
            "random_state": seed,
        }
        return gsat.certify(model, x, y, 0.01, gsat.GroupSparse(0.02), **options).table.iloc[0]

    many, outside = first(300, 0), 0
    for seed in range(1, 6):
        few = first(20, seed)
        assert few["lam"] == many["lam"]
        assert few["high"] - few["low"] > 2 * (many["high"] - many["low"]) > 0
        outside += not few["low"] <= many["mean_estimate"] <= few["high"]
    assert outside <= 1


def test_a_short_ascent_makes_the_bound_looser_and_never_wrong(trained):
    model, x, y = trained
    options = {"group_size": 10, "n_groups": 8, "n_pilot": 1, "beta": 1.3 * gsat.curvature_bound(model)}
    short, long = (
        gsat.certify(model, x, y, 0.2, gsat.GroupSparse(0.02), n_inner=n, **options).table.iloc[0] for n in (2, 60)
    )
    assert short["lam"] == long["lam"]
    assert short["gap"] > 1e3 * long["gap"]
    assert short["mean_estimate"] > long["mean_estimate"]
    assert short["high"] > long["high"]


def test_groups_are_drawn_with_replacement(trained):
    """Without it all groups of all samples would be the same one."""
    model, x, y = trained
    row = gsat.certify(model, x[:6], y[:6], 0.2, gsat.LowRank(0.1), group_size=6, n_groups=9).table.iloc[-1]
    assert row["high"] - row["low"] > 0.01 * row["mean_estimate"]
    assert gsat.certify(model, x[:1], y[:1], 0.2, gsat.LowRank(0.1), group_size=6, n_groups=9).group_size == 6


def test_groups_come_from_the_seed_and_nothing_changes(trained):
    model, x, y = trained
    before = {name: value.clone() for name, value in model.state_dict().items()}
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, second, other = (
        gsat.certify(model.train(), x.numpy(), y.numpy(), [0.01], gsat.LowRank(0.1), **QUICK, random_state=seed)
        for seed in (4, 4, 5)
    )
    assert first.table.equals(second.table)
    assert not first.table.equals(other.table)
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_where_the_curvature_is_not_known_all_is_an_estimate(trained):
    _, x, y = trained
    relu = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3)).double()
    guess = gsat.certify(relu, x, y, [0.0, 0.1], gsat.LowRank(0.1), **QUICK)
    assert (guess.beta, guess.lam_rigorous) == (None, float("inf"))
    assert guess.table["rigorous"].tolist() == [True, False]  # at radius 0 there is nothing to be solved
    given = gsat.certify(relu, x, y, [0.1], gsat.LowRank(0.1), **QUICK, beta=40.0)
    assert (given.beta, given.table["rigorous"].iloc[0]) == (40.0, True)
    elu = net(5, 4, 3)
    assert gsat.certify(elu, x, y, [0.1], gsat.LowRank(0.1, k=1), **QUICK, beta=1.0).beta is None  # not convex
    assert gsat.certify(elu, x, y, [0.1], gsat.LowRank(0.0, k=1), **QUICK, beta=1.0).beta == 1.0

    def margin(outputs, labels):
        return torch.nn.functional.softplus(-outputs.gather(1, labels[:, None])[:, 0])

    assert gsat.certify(elu, x, y, [0.1], gsat.LowRank(0.1), **QUICK, loss=margin).beta is None
    steep = gsat.certify(elu, x, y, [0.1], gsat.LowRank(0.1), **QUICK, loss=margin, beta=30.0)
    assert steep.table["rigorous"].iloc[0]
    assert steep.risk == pytest.approx(float(margin(elu(x), y).mean().detach()))


def test_batches_and_masks(trained):
    model, x, y = trained
    batch, mask = np.array(["a", "b"])[np.arange(90) % 2], np.array([True, False, True, True, False])
    options = {**QUICK, "n_groups": 30}
    one = gsat.certify(model, x, y, [0.05], gsat.Universal(0.2), **options)
    two = gsat.certify(model, x, y, [0.05], gsat.PerBatch(gsat.Universal(0.2)), batch=batch, **options)
    assert two.table["rigorous"].iloc[0]
    assert two.table["mean_estimate"].iloc[-1] > one.table["mean_estimate"].iloc[-1]  # two shifts can do more than one
    part = gsat.certify(model, x, y, [0.05], gsat.Universal(0.2), feature_mask=mask, **options)
    assert part.table["mean_estimate"].iloc[-1] < one.table["mean_estimate"].iloc[-1]
    free = gsat.certify(
        model, x, y, [0.05], gsat.Unstructured(), feature_mask=mask, **QUICK, attacks=[gsat.attacks.PGD(0.1, steps=5)]
    )
    assert free.attacks.set_index("attack").loc["pgd", "radius"] == float("inf")


def test_the_figure(trained, tmp_path):
    model, x, y = trained
    found = gsat.certify(model, x, y, RADII, gsat.LowRank(0.1), **QUICK, attacks=[gsat.attacks.PGD(0.1, steps=5)])
    ax = found.plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["certified, at level 0.95", "estimate", "attack: adversary", "attack: pgd"]
    rigorous = found.table[found.table["rigorous"]]
    np.testing.assert_allclose(ax.lines[0].get_xydata(), rigorous[["radius", "high"]].to_numpy())
    ax.figure.savefig(tmp_path / "certificate.png")
    assert (tmp_path / "certificate.png").stat().st_size > 1000
    assert found.plot(ax) is ax


# ---- classifiers


@pytest.fixture(scope="module")
def data():
    """Columns of very different scale, and labels that are words."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 4)) + 1.3 * y[:, None]
    return (X * [1.0, 50.0, 0.01, 7.0] + 3).astype(np.float32), np.array(["no", "yes"])[y]


@pytest.mark.parametrize("structure", ["universal", "group-sparse", "low-rank", "unstructured"])
def test_a_classifier_is_certified_where_its_module_sees_the_data(structure, data):
    X, y = data
    clf = gsat.GSATClassifier(structure, alpha=0.2, hidden=6, n_outer=30, eta0=0.02, group_size=40, random_state=0)
    clf.fit(X, y)
    radii, options = [0.0, 0.05], {"n_groups": 10, "n_pilot": 2, "n_inner": 8}
    found = clf.certificate(X, y, radii, **options)
    cost = {
        "universal": gsat.Universal(0.2),
        "group-sparse": gsat.GroupSparse(0.2),
        "low-rank": gsat.LowRank(0.2),
        "unstructured": gsat.Unstructured(),
    }[structure]
    codes = (y == "yes").astype(int)
    same = gsat.certify(clf.module_, clf.module_input(X), codes, radii, cost, group_size=40, **options)
    assert found.table.equals(same.table)
    assert found.beta == gsat.curvature_bound(clf.module_)
    assert found.risk == pytest.approx(-np.log(clf.predict_proba(X)[np.arange(120), codes]).mean(), rel=1e-5)
    assert found.table["rigorous"].tolist()[:2] == [True, True]


def test_other_classifiers_and_costs(data):
    X, y = data
    clf = gsat.ERMClassifier(hidden=6, n_outer=30, eta0=0.02, random_state=0, class_weight={"no": 5.0, "yes": 1.0})
    clf.fit(X, y)
    options = {"n_groups": 6, "n_pilot": 2, "n_inner": 8, "group_size": 20}
    free, one = (clf.certificate(X, y, 0.1, cost=cost, **options) for cost in (None, gsat.Universal(0.0)))
    assert_frame_equal(free.table, one.table, rtol=1e-4)  # with alpha = 0 there is no structure
    assert free.risk == pytest.approx(-np.log(clf.predict_proba(X)[np.arange(120), (y == "yes") * 1]).mean(), rel=1e-5)
    batch = np.arange(120) % 3
    shifts = clf.certificate(X, y, 0.1, cost=gsat.PerBatch(gsat.Universal(0.5)), batch=batch, **options)
    assert shifts.table["mean_estimate"].iloc[-1] < free.table["mean_estimate"].iloc[-1]
    universal = gsat.GSATClassifier("universal", hidden=6, n_outer=20, random_state=0).fit(X, y, batch=batch)
    per_batch = universal.certificate(X, y, 0.1, batch=batch, **options)
    assert (
        per_batch.table["mean_estimate"].iloc[-1]
        > universal.certificate(X, y, 0.1, **options).table["mean_estimate"].iloc[-1]
    )
    with pytest.raises(ValueError, match=r"y must hold only labels of fit"):
        clf.certificate(X, np.full(120, "perhaps"), 0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"radii": [0.1, -0.2]}, r"radii must be >= 0, got -0\.2"),
        ({"radii": []}, "radii must hold at least one number, got none"),
        ({"radii": [float("nan")]}, "radii must be >= 0 and finite, got nan"),
        ({"cost": gsat.LowRank(1.0)}, r"cost must have a quadratic term, got LowRank\(alpha=1\.0.*alpha < 1"),
        ({"cost": Labelled(gsat.LowRank())}, "cost must have a quadratic term, got .*Labelled"),
        ({"cost": gsat.PerBatch(gsat.Universal())}, r"PerBatch\(.* needs batch= .*or take the cost of one batch"),
        ({"beta": -1.0}, r"beta must be >= 0, got -1\.0"),
        ({"level": 1.0}, r"level must be > 0 and < 1, got 1\.0"),
        ({"n_groups": 1}, "n_groups must be >= 2, got 1"),
        ({"n_inner": 1}, "n_inner must be >= 2, got 1"),
        ({"group_size": 0}, "group_size must be >= 1, got 0"),
        ({"y": np.zeros(3, dtype=int)}, r"y must have one label per sample of X \(90, at least 1\), got 3"),
    ],
)
def test_errors_say_what_is_wrong(change, message, trained):
    model, x, y = trained
    inputs = {"model": model, "X": x, "y": y, "radii": [0.1], "cost": gsat.LowRank(), **change}
    with pytest.raises(ValueError, match=message):
        gsat.certify(**inputs)


def test_samples_that_are_not_finite(trained):
    model, x, y = trained
    bad = x.clone()
    bad[3, 2] = float("nan")
    with pytest.raises(FloatingPointError, match="not finite at step 0"):
        gsat.certify(model, bad, y, [0.1], gsat.LowRank(), **QUICK)
