"""Which samples a group holds: drawn one by one, or in runs that follow each other."""

import pytest
import torch

import gsat
from gsat.training.groups import RUN, draw


@pytest.mark.parametrize(("n", "m", "run"), [(103, 20, 1), (103, 20, 8), (103, 96, 8), (5000, 20, 1), (5000, 20, 8)])
def test_a_group_holds_different_samples_each_as_often_as_any(n, m, run):
    generator, counts = torch.Generator().manual_seed(0), torch.zeros(n)
    rounds = 4000
    for _ in range(rounds):
        rows = draw(n, m, generator, run)
        assert len(rows) == len(set(rows.tolist())) == m
        counts[rows] += 1
    wanted = rounds * m / n
    assert (counts - wanted).abs().max() < 6 * (wanted * (1 - m / n) * run) ** 0.5


def test_runs_follow_each_other():
    rows = draw(1000, 30, torch.Generator().manual_seed(1), 8)
    for begin in range(0, 30, 8):
        part = rows[begin : begin + 8]
        assert torch.equal(part, (part[0] + torch.arange(len(part))) % 1000)
    assert len({int(begin) % 8 for begin in rows[::8]}) == 1


def test_too_few_samples_for_runs_are_drawn_one_by_one():
    some = [draw(20, 17, torch.Generator().manual_seed(3), run) for run in (1, 16)]
    assert torch.equal(*some)


def test_a_run_goes_on_as_it_began(tmp_path):
    x, y = torch.randn(80, 5, generator=torch.Generator().manual_seed(0)), torch.arange(80) % 2
    seen = []

    class Watched:
        shape = x.shape

        def __len__(self):
            return len(x)

        def __getitem__(self, rows):
            seen.append(rows)
            return x[rows].numpy()

    def train(**options):
        model = gsat.models.ELUNet(5, 2)
        return gsat.gdadmm(model, Watched(), y, gsat.defences.ERM(), group_size=32, out=tmp_path / "run", **options)

    train(n_outer=3, shuffle="block")
    assert ((seen[-1][1:RUN] - seen[-1][: RUN - 1]) % 80 == 1).all()
    with pytest.raises(ValueError, match="run"):
        train(n_outer=3, resume=True)
    with pytest.raises(ValueError, match="shuffle must be one of rows, block, got 'blocks'"):
        train(n_outer=3, shuffle="blocks")
