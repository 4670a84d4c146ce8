"""The layout in which models get their images: the same figures, and only where a model is known to take it."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

import gsat
from gsat import defences
from gsat.models import AlexNet, build, layout
from strategies import normal

SHAPES = [(1, 9, 8), (3, 8, 9)]


def images(shape, m=6, seed=1):
    return normal(m, *shape, seed=seed, dtype=torch.float32)


def is_last(x):
    """Whether the channels of a pixel are side by side, as torch tells it by the strides."""
    return x.stride(1) == 1 and x.is_contiguous(memory_format=torch.channels_last)


class Seen(nn.Module):
    """What a model is given."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.given = inner, []

    def forward(self, x):
        self.given.append(x)
        return self.inner(x)


class Views(nn.Module):
    """A model that understands one layout alone."""

    def __init__(self, shape):
        super().__init__()
        self.convolve = nn.Conv2d(shape[0], 4, 3)
        self.read = nn.Linear(168, 3)

    def forward(self, x):
        found = self.convolve(x)
        return self.read(found.view(len(found), -1))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_entries_are_the_same_and_the_channels_side_by_side(shape):
    x = images(shape)
    moved = layout.channels_last(x)
    assert torch.equal(moved, x)
    assert is_last(moved)
    assert is_last(nn.Conv2d(shape[0], 4, 3)(moved))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "attack",
    [gsat.attacks.PGD(0.5, steps=3), gsat.attacks.LowRank(0.5, rank=2, steps=4), gsat.attacks.Universal(0.5, steps=4)],
    ids=lambda attack: attack.name,
)
def test_attacks_find_the_same(shape, attack):
    model, plain = (AlexNet(shape, 3, width=0.1, channels_last=choice).eval() for choice in (None, False))
    plain.load_state_dict(model.state_dict())
    x, y = images(shape), torch.arange(6) % 3
    found = attack.perturb(model, x, y)
    assert found.is_contiguous()
    torch.testing.assert_close(found, attack.perturb(plain, x, y), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_training_finds_the_same(shape):
    x, y = images(shape, 12), torch.arange(12) % 3
    found = []
    for choice in (None, False):
        model = build("alexnet", shape, 3, width=0.1, channels_last=choice)
        start = parameters_to_vector(model.parameters()).detach()
        defence, optimizer = (
            defences.GSAT(gsat.GroupSparse(0.1), n_inner=4),
            torch.optim.SGD(model.parameters(), lr=0.1),
        )
        gsat.gdadmm(model, x, y, defence, n_outer=5, group_size=6, optimizer=optimizer)
        assert all(weight.is_contiguous() for weight in model.parameters())
        found.append(parameters_to_vector(model.parameters()).detach() - start)
    assert float((found[0] - found[1]).norm()) <= 1e-3 * float(found[0].norm())


@pytest.fixture
def moved(monkeypatch):
    """The groups that were given another layout."""
    found, original = [], layout.channels_last
    monkeypatch.setattr(layout, "channels_last", lambda x: found.append(x) or original(x))
    return found


def net(*others):
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.ReLU(), *others), nn.Flatten(), nn.Linear(168, 3)).eval()


def hooked(model):
    model[1][0].register_forward_hook(lambda layer, given, out: None)
    return model


class Own(nn.Sequential):
    """A container that does more than call its layers in turn."""

    def forward(self, x):
        return super().forward(x.view(x.shape))


@pytest.mark.parametrize(
    ("model", "times"),
    [
        (net(), 1),
        (net(nn.BatchNorm2d(4), nn.Dropout()), 1),
        (net(Seen(nn.Identity())), 0),
        (hooked(net()), 0),
        (Own(*net()), 0),
        (nn.Sequential(nn.Flatten(), nn.Linear(216, 3)), 0),
    ],
    ids=["of torch", "with more layers", "a layer of one's own", "a hook", "a forward of one's own", "no convolution"],
)
def test_only_models_known_to_take_it_get_it(model, times, moved):
    x = images(SHAPES[1])
    expected = model(x)
    torch.testing.assert_close(layout.outputs(model, x), expected)
    assert len(moved) == times


@pytest.mark.parametrize(("said", "times"), [(None, 0), (True, 1), (False, 0)])
def test_a_module_of_ones_own_is_asked(said, times, moved):
    model = Seen(net())
    if said is not None:
        model.channels_last = said
    layout.outputs(model, images(SHAPES[1]))
    assert len(moved) == times
    assert is_last(model.given[0]) is bool(times)


def test_no_other_precision_and_no_other_shape(moved):
    layout.outputs(net().double(), images(SHAPES[1]).double())
    layout.outputs(nn.Sequential(nn.Conv2d(3, 4, 3)), images(SHAPES[1])[0])
    assert not moved


def test_a_module_that_views_its_images_works():
    model, x, y = Views(SHAPES[1]), images(SHAPES[1]), torch.arange(6) % 3
    assert gsat.attacks.PGD(0.5, steps=2).perturb(model, x, y).abs().max() > 0
    model.channels_last = True
    with pytest.raises(RuntimeError, match="view"):
        gsat.attacks.PGD(0.5, steps=2).perturb(model, x, y)
