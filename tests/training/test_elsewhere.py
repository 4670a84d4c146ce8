"""Training and attacks follow the device of the model: tried on a device that is none, where mixing is an error."""

import pytest
import torch

import gsat
from elsewhere import PLACE, There, elsewhere
from gsat import attacks, defences
from gsat.models import build
from gsat.registry import structure_cost

STRUCTURES = ("universal", "universal-one", "group-sparse", "low-rank", "unstructured")


def group(shape=(6,), m=24):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(m, *shape, generator=generator), torch.arange(m) % 3


def test_the_device_is_one():
    with elsewhere():
        v = torch.ones(3, device="cuda")
        assert isinstance(v, There)
        assert (v + 1).device == v.new_zeros(2).device == torch.arange(3).to(v).device == PLACE
        assert v.cpu().device == torch.device("cpu")
        with pytest.raises(RuntimeError, match="two devices"):
            v + torch.ones(3)
        with pytest.raises(TypeError, match="numpy"):
            v.numpy()


def network(kind, shape, device):
    return build(kind, shape, 3, seed=0, **({"hidden": 8} if kind == "elu" else {"width": 1 / 16})).to(device)


def trained(make, device, *, kind="elu", shape=(40,), batch=None, **options):
    """The weights after three groups against the defence, in memory."""
    x, y = group(shape)
    with elsewhere():
        model, defence = network(kind, shape, device), make()
        gsat.gdadmm(model, x, y, defence, n_outer=3, group_size=12, batch=batch, **options)
        assert defence.delta is None or defence.delta.device.type == device
        assert all(weight.device.type == device for weight in model.parameters())
        return [weight.detach().cpu() for weight in model.parameters()]


def close(first, second):
    return all(torch.allclose(a, b, atol=1e-6) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(("kind", "shape"), [("elu", (40,)), ("alexnet", (1, 28, 28))])
def test_training_follows_the_model(structure, kind, shape):
    def make():
        return defences.GSAT(structure_cost(structure, group_size=12), n_inner=4)

    found = [trained(make, device, kind=kind, shape=shape) for device in ("cpu", "cuda")]
    assert kind == "alexnet" or close(*found)  # images lie in memory in another way on a CPU, and round otherwise


def metric():
    x, _ = group((40,))
    return gsat.Metric.from_batches(x, torch.arange(24) % 3, torch.arange(24) % 2, gamma=10.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: defences.GSAT(gsat.LowRank(k=2), n_inner=4, metric=metric()),
        lambda: defences.GSAT(gsat.GroupSparse(feature_groups=[i // 4 for i in range(40)]), n_inner=4),
        lambda: defences.GSAT(gsat.GroupSparse(k=3), n_inner=4, feature_mask=[i < 30 for i in range(40)]),
        lambda: defences.GSAT(gsat.Universal(), n_inner=24),  # with a tournament
        lambda: defences.GSAT(gsat.LowRank(), solver="admm", n_inner=4, bounds=(-2.0, 2.0)),
        lambda: defences.GSAT(gsat.GroupSparse(), solver="linearised", n_inner=2, loss="margin"),
        lambda: defences.PGD(0.3, steps=3),
        lambda: defences.FGM(0.3),
        lambda: defences.UniversalAT(0.3),
        lambda: defences.Structured(attacks.LowRank(0.3, rank=2, steps=3)),
        lambda: defences.ERM(),
    ],
)
def test_all_that_perturbs_follows_the_model(make):
    assert close(*(trained(make, device) for device in ("cpu", "cuda")))


@pytest.mark.parametrize("cost", [gsat.Universal(), gsat.LowRank(), gsat.GroupSparse()])
def test_batches_and_averages_follow_the_model(cost):
    def make():
        return defences.GSAT(gsat.PerBatch(cost), n_inner=4)

    x, y = group((40,))
    more = {"batch": torch.arange(24) % 2, "ema": 0.5}
    found = []
    for device in ("cpu", "cuda"):
        validation = gsat.Validation(x, y, measure="loss", every=1, batch=torch.arange(24) % 2)
        found.append(trained(make, device, validation=validation, **more))
    assert close(*found)


@pytest.mark.parametrize(
    "attack",
    [
        attacks.Universal(0.5, steps=12, strength="strong"),
        attacks.GroupSparse(0.5, k=3, steps=12, strength="strong"),
        attacks.LowRank(0.5, rank=2, steps=12, strength="strong"),
        attacks.PGD(0.5, steps=4, strength="standard"),
        attacks.FGM(0.5),
    ],
    ids=lambda attack: type(attack).__name__,
)
@pytest.mark.parametrize(("kind", "shape"), [("elu", (40,)), ("alexnet", (1, 28, 28))])
def test_attacks_follow_the_model(attack, kind, shape):
    x, y = group(shape)
    found = []
    for device in ("cpu", "cuda"):
        with elsewhere():
            model = network(kind, shape, device).eval()
            table = gsat.evaluate(model, x, y, {"it": attack}, group_size=12)
            found.append(table.set_index("attack")["mean_norm"])
            assert attack(model, x.to(device), y.to(device)).device.type == device
    assert found[0].to_dict() == pytest.approx(found[1].to_dict(), rel=1e-4)


def test_a_classifier_follows_its_device(tmp_path, monkeypatch):
    monkeypatch.setattr("gsat._checks.device", lambda name, value: torch.device(value))  # "cuda" is there
    table = gsat.data.make_batches(80, 12)
    seen = []
    for device in ("cpu", "cuda"):
        with elsewhere():
            clf = gsat.GSATClassifier(n_outer=6, hidden=8, device=device, random_state=0, class_weight="balanced")
            clf.set_params(early_stopping=True, calibrate=True).fit(table.X, table.y, batch=table.batch)
            assert next(clf.module_.parameters()).device.type == device
            moves = clf.perturb(table.X[:20], table.y[:20], batch=table.batch[:20])
            seen.append((clf.predict_proba(table.X), moves))
            clf.save(tmp_path / device)
    assert abs(seen[0][0] - seen[1][0]).max() < 1e-5
    assert abs(seen[0][1] - seen[1][1]).max() < 1e-4
    loaded = gsat.load(tmp_path / "cuda")
    assert next(loaded.module_.parameters()).device.type == "cpu"
    assert abs(loaded.predict_proba(table.X) - seen[1][0]).max() < 1e-5
