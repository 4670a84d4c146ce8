"""The paper's networks, and models built by name."""

import sys

import pytest
import torch
from torch import nn

from gsat.models import AlexNet, ELUNet, build, seeded
from gsat.models.networks import ResponseNorm


def same_parameters(a, b):
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


def test_elu_net_computes_its_formula():
    model = ELUNet(6, 4, hidden=5).double()
    x = torch.randn(3, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3
    w, b, v, c = model.parameters()
    z = x.reshape(3, 6) @ w.T + b
    expected = torch.where(z > 0, z, z.exp() - 1) @ v.T + c
    torch.testing.assert_close(model(x), expected)
    assert [tuple(p.shape) for p in (w, b, v, c)] == [(5, 6), (5,), (4, 5), (4,)]


def test_without_hidden_units_it_is_linear():
    model = ELUNet(6, 4, hidden=0)
    x = torch.randn(3, 2, 3, generator=torch.Generator().manual_seed(0))
    w, b = model.parameters()
    torch.testing.assert_close(model(x), x.reshape(3, 6) @ w.T + b)


def test_elu_net_is_a_sequence_that_can_be_cut_after_its_first_linear_layer():
    model = ELUNet(6, 4)
    assert [type(layer) for layer in model] == [nn.Flatten, nn.Linear, nn.ELU, nn.Linear]
    assert model[1].out_features == 100
    x = torch.ones(2, 6)
    torch.testing.assert_close(model[2:](model[:2](x)), model(x))


def test_alexnet_has_the_layers_of_the_paper():
    model = AlexNet()
    shapes = [tuple(p.shape) for p in model.parameters() if p.ndim > 1]
    assert shapes == [(96, 1, 5, 5), (256, 96, 5, 5), (384, 256 * 6 * 6), (192, 384), (10, 192)]
    block = [nn.Conv2d, nn.MaxPool2d, nn.ReLU, ResponseNorm]
    dense = [nn.Flatten, nn.Linear, nn.ReLU, nn.Linear, nn.ReLU, nn.Linear]
    assert [type(layer) for layer in model] == block + block + dense


def test_alexnet_convolution_keeps_the_size_and_pooling_halves_it():
    model = AlexNet(width=0.1)
    x = torch.zeros(2, 1, 28, 28)
    assert model[:1](x).shape == (2, 10, 28, 28)
    assert model[:4](x).shape == (2, 10, 13, 13)
    assert model[:8](x).shape == (2, 26, 6, 6)


def test_rectifying_after_the_pooling_changes_neither_values_nor_gradients():
    model = AlexNet(width=0.1)
    paper = nn.Sequential(*(model[i] for i in (0, 2, 1, 3, 4, 6, 5, 7, *range(8, len(model)))))
    x = torch.randn(5, 1, 28, 28, generator=torch.Generator().manual_seed(2))
    found = []
    for net in (model, paper):
        at = x.clone().requires_grad_()
        out = net(at)
        found.append((out, *torch.autograd.grad(out.square().sum(), [at, *net.parameters()])))
    for here, there in zip(*found, strict=True):
        assert torch.equal(here, there)


def test_alexnet_normalises_over_nine_neighbouring_channels():
    x = torch.arange(1.0, 13.0, dtype=torch.float64).reshape(1, 12, 1, 1) * 10
    squares = torch.stack([(x[0, max(0, c - 4) : c + 5] ** 2).sum() for c in range(12)])
    expected = x / (1 + 0.001 / 9 * squares).reshape(1, 12, 1, 1) ** 0.75
    torch.testing.assert_close(AlexNet(width=0.125).double()[3](x), expected)


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_response_norm_is_that_of_torch(size):
    x = torch.randn(3, 7, 4, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 4
    ours = ResponseNorm(7, size=size, alpha=0.3, beta=0.6, k=1.7).double()
    torch.testing.assert_close(
        ours(x), nn.LocalResponseNorm(size, alpha=0.3, beta=0.6, k=1.7).double()(x), atol=1e-6, rtol=0
    )
    assert not ours.state_dict()


def test_channels_last_is_the_same_function():
    plain, last = (AlexNet((3, 12, 12), width=0.1, channels_last=choice).double() for choice in (False, True))
    last.load_state_dict(plain.state_dict())
    assert last[0].weight.is_contiguous(memory_format=torch.channels_last)
    x = torch.randn(4, 3, 12, 12, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    torch.testing.assert_close(last(x), plain(x))


@pytest.mark.parametrize("in_shape", [(1, 28, 28), (3, 32, 32), (2, 7, 19)])
def test_alexnet_maps_images_to_logits(in_shape):
    model = AlexNet(in_shape, n_classes=7, width=0.05)
    logits = model(torch.rand(3, *in_shape))
    assert logits.shape == (3, 7)
    assert logits.isfinite().all()


def test_width_scales_layers_down_to_four_units():
    assert [p.shape[0] for p in AlexNet(width=0.02).parameters() if p.ndim > 1] == [4, 5, 8, 4, 10]


@pytest.mark.parametrize("in_shape", [(28, 28), (1, 6, 28), (1, 28, 6)])
def test_alexnet_refuses_shapes_it_cannot_pool(in_shape):
    message = r"in_shape must be \(channels, height, width\) with sides >= 7, got \("
    with pytest.raises(ValueError, match=message):
        AlexNet(in_shape)


@pytest.mark.parametrize("width", [0, -1.0, float("inf"), float("nan")])
def test_alexnet_refuses_a_width_that_is_no_factor(width):
    with pytest.raises(ValueError, match=f"width must be > 0 and finite, got {width}"):
        AlexNet(width=width)


@pytest.mark.parametrize(("spec", "options"), [("elu", {"hidden": 8}), ("alexnet", {"width": 0.05})])
def test_build_depends_on_the_seed_alone(spec, options):
    torch.rand(3)
    model = build(spec, (1, 8, 8), 3, seed=5, **options)
    assert model(torch.rand(2, 1, 8, 8)).shape == (2, 3)
    assert same_parameters(model, build(spec, (1, 8, 8), 3, seed=5, **options))
    assert not same_parameters(model, build(spec, (1, 8, 8), 3, seed=6, **options))


def test_build_leaves_the_random_state_alone():
    before = torch.get_rng_state()
    build("elu", (4,), 2, seed=1)
    assert torch.equal(torch.get_rng_state(), before)


def test_seeded_restores_the_random_state_after_an_error():
    before = torch.get_rng_state()
    with pytest.raises(RuntimeError, match="negative dimension"), seeded(3):
        torch.rand(-1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.fixture
def my_nets(tmp_path, monkeypatch):
    (tmp_path / "my_nets.py").write_text(
        "from torch import nn\n"
        "def linear(in_shape, n_classes, bias=True):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(in_shape[0] * in_shape[1], n_classes, bias))\n"
        "def number(in_shape, n_classes):\n"
        "    return 3\n"
        "constant = 3\n"
    )
    (tmp_path / "my_broken.py").write_text("import a_module_that_is_missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("my_nets", None)


@pytest.mark.usefixtures("my_nets")
def test_build_calls_an_imported_factory():
    model = build("my_nets:linear", [2, 3], 4, seed=2, bias=False)
    assert [tuple(p.shape) for p in model.parameters()] == [(4, 6)]
    assert same_parameters(model, build("my_nets:linear", [2, 3], 4, seed=2, bias=False))


@pytest.mark.usefixtures("my_nets")
@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (
            "resnet",
            ValueError,
            "model must be one of elu, alexnet or \"package.module:factory\", got 'resnet'",
        ),
        (":net", ValueError, "model must be one of elu, alexnet or \"package.module:factory\", got ':net'"),
        (".nets:net", ValueError, "model must be one of elu, alexnet"),
        ("my_nets:print(1)", ValueError, "model must be one of elu, alexnet"),
        (
            "no_such.nets:net",
            ValueError,
            "'no_such.nets:net' must name a module.*: No module named 'no_such'",
        ),
        ("my_broken:net", ValueError, "must name a module.*: No module named 'a_module_that_is_missing'"),
        ("my_nets:conv", ValueError, "'my_nets:conv' must name a function or class of my_nets, got 'conv'"),
        ("my_nets:constant", ValueError, "must name a function or class of my_nets, got 'constant'"),
        ("my_nets:number", TypeError, r"'my_nets:number' must return a torch\.nn\.Module, got int"),
    ],
)
def test_build_names_what_is_wrong_with_a_spec(spec, error, message):
    with pytest.raises(error, match=message):
        build(spec, (2, 3), 4)
