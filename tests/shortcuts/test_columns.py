"""Columns in parts: what is formed late is the same, and what it was made of is let go."""

import weakref

import pytest
import torch

import gsat
from gsat.shortcuts.columns import Columns, Layer, Stride, Whole
from gsat.shortcuts.implicit import Implicit
from networks import net
from strategies import normal

M, D, H = 5, 23, 3


def step(a=0.8):
    """All columns C of an iterate, and V = a·C + P·W from there, both as arrays too."""
    layer, c, p = Layer(normal(H, D, seed=0)), normal(D, M, seed=1), normal(M, H, seed=2)
    base = Whole(layer, [part.clone() for part in layer.parted(c)])
    return base, Stride(base, a, p), c, a * c + layer.weight.T @ p.T


def factors():
    return torch.linspace(0, 1.5, D, dtype=torch.float64)


def test_some_parts_of_a_trial_are_formed_late():
    base, stride, c, v = step()
    torch.testing.assert_close(stride.norms, v.norm(dim=1))
    assert 0 < len(stride.formed) == stride.most < len(stride.pieces)
    trial, expected = stride.all(factors()), v * factors()[:, None]
    torch.testing.assert_close(torch.cat(list(trial.blocks())), expected)
    torch.testing.assert_close(trial.through, expected.T @ base.layer.weight.T)
    products = torch.stack([(expected**2).sum(), (expected * (expected - c)).sum(), ((expected - c) ** 2).sum()])
    torch.testing.assert_close(trial.products, products)
    torch.testing.assert_close(trial.values, expected)
    torch.testing.assert_close(torch.cat(list(trial.form())), expected)
    torch.testing.assert_close(torch.cat(list(base.form())), c)


def test_an_iterate_that_has_been_left_is_let_go_part_by_part():
    base, stride, _, v = step()
    watched = [weakref.ref(part) for part in base.form()]
    trial, most = stride.all(factors()), stride.most
    del base, stride
    assert [part() is None for part in watched] == [True] * most + [False] * (len(watched) - most)
    torch.testing.assert_close(torch.cat(list(trial.form())), v * factors()[:, None])
    assert all(part() is None for part in watched)


def test_a_trial_of_few_columns():
    base, stride, _, v = step()
    index = torch.tensor([0, 3, 4, 11, 21, 22])
    found = stride.few(factors(), index)
    torch.testing.assert_close(found.values, (v * factors()[:, None])[index])
    assert torch.equal(found.index, index)
    torch.testing.assert_close(found.through, found.values.T @ base.layer.weight.T[index])


def soft(norms):
    return (1 - 4 / norms).clamp(min=0)


@pytest.mark.parametrize(("few", "kind"), [(0.2, Whole), (0.9, Columns)])
def test_a_trial_whose_factors_are_made_of_the_norms(few, kind):
    base, stride, c, v = step()
    found = stride.by_norm(soft, few)
    twice = step()[1].all(soft(v.norm(dim=1)))
    expected = v * soft(v.norm(dim=1))[:, None]
    moving = expected.ne(0).any(1)
    assert 0.2 * D < moving.sum() < 0.9 * D
    assert type(found) is kind
    assert torch.equal(found.index, moving.nonzero().squeeze(1) if kind is Columns else torch.arange(D))
    torch.testing.assert_close(found.values, expected[found.index])
    torch.testing.assert_close(found.through, twice.through)
    torch.testing.assert_close(torch.cat(list(base.form())), c)
    torch.testing.assert_close(found.products, twice.products)
    assert found.origin is base.token


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_norms_out_of_range_are_not_relied_on(size):
    layer, c = Layer(normal(H, D, seed=0)), size * normal(D, M, seed=1)
    p = size * normal(M, H, seed=2)
    v = Implicit(layer, M, p, (0.8, Whole(layer, list(layer.parted(c)))))
    assert v.by_norm(soft) is None
    found = gsat.GroupSparse().shrink(v, 2 * size)
    expected = gsat.GroupSparse().shrink((0.8 * c + layer.weight.T @ p.T).T.contiguous(), 2 * size)
    assert expected.ne(0).any()
    torch.testing.assert_close(found.expand(), expected, rtol=1e-9, atol=0)


def test_products_that_overflow_are_not_relied_on():
    layer, p = Layer(normal(H, D, seed=0, dtype=torch.float32)), normal(M, H, seed=2, dtype=torch.float32)
    held = Columns(layer, torch.tensor([1, 7]), 1e20 * normal(2, M, seed=1, dtype=torch.float32))
    here, slope = Implicit(layer, M, None, (1.0, held)), Implicit(layer, M, p)
    trial = gsat.GroupSparse().shrink(torch.add(here, slope, alpha=1e19), 6e19)
    assert trial.terms[0][1].origin is held.token
    torch.dot(trial - here, trial - here)  # overflows, and may be found once
    expected = (slope.expand().double() * (trial - here).expand().double()).sum()
    assert float(torch.dot(slope, trial - here)) == pytest.approx(float(expected), rel=1e-4)


def test_nothing_of_a_product_is_formed_before_it_is_asked_for():
    layer, p = Layer(normal(H, D, seed=0)), normal(M, H, seed=2)
    found, expected = Whole.of_product(layer, p, factors()), (layer.weight.T @ p.T) * factors()[:, None]
    assert "through" in vars(found)
    torch.testing.assert_close(found.through, expected.T @ layer.weight.T)
    torch.testing.assert_close(torch.cat(list(found.blocks())), expected)
    torch.testing.assert_close(torch.cat(list(found.form())), expected)


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("beta", [0.0, -1.0, 0.4])
def test_products_along_a_step_are_those_of_the_arrays(alpha, beta, few):
    base, stride, c, v = step()
    kept = factors() * (torch.arange(D) % 3 == 0) if few else factors()
    trial = stride.few(kept, kept.nonzero().squeeze(1)) if few else stride.all(kept)
    assert trial.origin is base.token
    far, u = Columns(base.layer, torch.tensor([2, 9]), normal(2, M, seed=5)), v * kept[:, None]
    mine = Implicit(base.layer, M, None, (alpha, trial), (beta, base))
    for terms, array in (
        ([(1.0, trial)], u),
        ([(1.0, trial), (-1.0, base)], u - c),
        ([(2.0, base)], 2 * c),
        ([(1.0, trial), (0.5, far)], u.index_add(0, far.index, 0.5 * far.values)),
    ):
        other = Implicit(base.layer, M, None, *terms)
        torch.testing.assert_close(torch.dot(mine, other), ((alpha * u + beta * c) * array).sum())


def test_a_short_step_keeps_its_length():
    """‖U − C‖ is not the difference of large numbers."""
    layer, c = Layer(normal(H, D, seed=0, dtype=torch.float32)), normal(D, M, seed=1, dtype=torch.float32)
    base = Whole(layer, list(layer.parted(c)))
    trial = Stride(base, 1.0, 1e-6 * normal(M, H, seed=2, dtype=torch.float32)).all(torch.ones(D))
    here, there = (Implicit(layer, M, None, (1.0, columns)) for columns in (base, trial))
    expected = (trial.values.double() - c.double()).norm()
    assert float(torch.dot(there - here, there - here)) ** 0.5 == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("tol", [0.0, 0.5])
def test_a_perturbation_stays_when_the_weights_change(tol, monkeypatch):
    monkeypatch.setattr("gsat.active.WIDE", 0)
    model = net(40, 3, 3, gain=3.0)
    x, y = normal(12, 40, seed=3), torch.arange(12) % 3
    adversary = gsat.Adversary(gsat.GroupSparse(1e-4), lam=0.3, solver=gsat.Proximal(tol=tol), n_inner=12)
    adversary(model, x, y)
    assert adversary.form.delta.all
    before, lengths = adversary.form.expand(), adversary.form.lengths
    with torch.no_grad():
        model[0].weight.mul_(3)
    assert torch.equal(adversary.last.delta, before)
    torch.testing.assert_close(adversary.form.lengths, lengths)
    torch.testing.assert_close(lengths, before.norm(dim=1))
    assert torch.equal(adversary.compact, before)
