"""The adversary in anyone's loop over several processes: under DistributedDataParallel, and with one group for all."""

from typing import Any

import pytest
import torch

import gsat
from gsat.models.unwrapped import unwrapped
from rank_loops import loops, net, part
from ranks import on_ranks

COSTS = [
    gsat.Universal(),
    gsat.GroupSparse(),
    gsat.LowRank(),
    gsat.Unstructured(),
    gsat.PerBatch(gsat.Universal()),
    gsat.PerBatch(gsat.LowRank(k=1)),
]
X, Y = (torch.cat(parts) for parts in zip(part(0), part(1), strict=True))
BATCH = ["a" if i % 3 else "b" for i in range(17)] + ["c" if i % 5 else "a" for i in range(18)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return on_ranks(loops, 2, tmp_path_factory.mktemp("ranks"), COSTS, BATCH)


def test_ranks_that_take_different_numbers_of_gradients_do_not_wait_for_each_other(found: Any) -> None:
    assert found[0]["own"]["gradients"] != found[1]["own"]["gradients"]
    assert torch.equal(found[0]["own"]["weights"], found[1]["own"]["weights"])


def test_in_a_shared_group_all_take_the_same(found: Any) -> None:
    assert found[0]["shared"]["gradients"] == found[1]["shared"]["gradients"]
    assert torch.equal(found[0]["shared"]["weights"], found[1]["shared"]["weights"])


def test_gdadmm_takes_a_wrapped_model_as_the_model_inside(found: Any) -> None:
    plain, wrapped = found[0]["runs"]
    assert plain == wrapped == found[1]["runs"][0] == found[1]["runs"][1]
    assert len(plain) == 5


def test_attacks_look_through_the_wrapper_too(found: Any) -> None:
    for own in found:
        assert own["attack"] == pytest.approx(0.5, rel=1e-6)
        assert own["table"] == 2


@pytest.mark.parametrize("i", range(len(COSTS)), ids=[repr(cost) for cost in COSTS])
def test_a_shared_group_is_moved_as_in_one_process(found: Any, i: int) -> None:
    whole = gsat.Adversary(COSTS[i], lam=0.05)(net(), X, Y, BATCH) - X
    assert float(whole.norm()) > 0.1
    assert torch.allclose(torch.cat([own["deltas"][i] for own in found]), whole, rtol=0, atol=1e-6)


def test_a_shared_group_of_a_single_process_is_its_own() -> None:
    own, shared = (gsat.Adversary(gsat.LowRank(), lam=0.05, group=group)(net(), X, Y) for group in ("own", "shared"))
    assert torch.equal(own, shared)


def test_wrappers_are_looked_through_and_a_wrong_group_is_told() -> None:
    model = net()
    assert unwrapped(torch.nn.DataParallel(torch.nn.DataParallel(model))) is model
    with pytest.raises(ValueError, match="group must be one of own, shared, got 'all'"):
        gsat.Adversary(gsat.LowRank(), lam=1.0, group="all")
