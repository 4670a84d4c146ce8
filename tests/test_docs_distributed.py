"""The loops of Lightning and Accelerate in docs/guide/machines.md, on two ranks; skipped where these are not there."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import gsat
from ranks import on_ranks

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "machines.md"


def shown(word: str) -> str:
    """The code of the page in which this word stands."""
    return next(block for block in PAGE.read_text(encoding="utf-8").split("```py\n")[1:] if word in block).split("```")[
        0
    ]


def as_torchrun() -> tuple[Tensor, Tensor]:
    """The environment that torchrun makes, and other samples on each rank."""
    rank, world = str(dist.get_rank()), str(dist.get_world_size())
    os.environ.update(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=world, LOCAL_WORLD_SIZE=world)
    os.environ.update(GROUP_RANK="0", TORCHELASTIC_RUN_ID="none", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    torch.manual_seed(dist.get_rank())
    return torch.randn(24, 6), torch.arange(24) % 3


def layers() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ELU(), nn.Linear(5, 3))


def outcome(net: nn.Module, adversary: gsat.Adversary) -> tuple[Tensor, Tensor]:
    """The weights, and the shift of the last group."""
    assert adversary.last is not None
    return torch.cat([value.detach().flatten() for value in net.parameters()]), adversary.last.delta[0]


def lightning_loop(text: str) -> tuple[Tensor, Tensor]:
    import lightning
    from lightning.pytorch.plugins.environments import TorchElasticEnvironment

    x, y = as_torchrun()
    names: dict[str, Any] = {"torch": torch, "gsat": gsat}
    exec(text, names)

    class Module(lightning.LightningModule):
        training_step = names["training_step"]

        def __init__(self) -> None:
            super().__init__()
            self.net, self.adversary = layers(), gsat.Adversary(gsat.Universal(), lam=0.3, group="shared")

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    elsewhere = {"plugins": [TorchElasticEnvironment()], "accelerator": "cpu", "use_distributed_sampler": False}
    trainer = lightning.Trainer(strategy="ddp", devices=2, max_epochs=2, **elsewhere, **quiet)
    trainer.fit(module := Module(), loader)
    return outcome(module.net, module.adversary)


def accelerate_loop(text: str) -> tuple[Tensor, Tensor]:
    import accelerate

    x, y = as_torchrun()
    model, loader = layers(), torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
    names: dict[str, Any] = {"torch": torch, "model": model, "loader": loader, "x": x, "y": y}
    names["accelerator"] = accelerate.Accelerator(cpu=True)
    names["optimizer"] = torch.optim.SGD(model.parameters(), lr=0.1)
    names["adversary"] = gsat.Adversary(gsat.Universal(), lam=0.3, group="shared")
    exec(text, names)
    names["optimizer"].step()
    return outcome(names["model"], names["adversary"])


@pytest.mark.parametrize(
    ("package", "word", "loop"),
    [("lightning", "training_step", lightning_loop), ("accelerate", "accelerator", accelerate_loop)],
)
def test_a_loop_of_another_library_moves_the_samples_of_all_ranks(
    package: str, word: str, loop: Any, tmp_path: Path
) -> None:
    pytest.importorskip(package)
    (weights, shift), (others, same_shift) = on_ranks(loop, 2, tmp_path, shown(word))
    assert torch.equal(weights, others)
    assert torch.equal(shift, same_shift)
    assert float(shift.norm()) > 1e-2
