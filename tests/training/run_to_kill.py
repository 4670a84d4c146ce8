"""The training run of test_checkpoint_kill.py, for a process of its own."""

import hashlib
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import Generator, nn

import gsat
from gsat import defences
from gsat.models import seeded


def digest_of(folder: Path) -> Path:
    """Where the hash of the weights at the end is written."""
    return folder.with_name(f"{folder.name}.sha256")


def run(data: Path, folder: Path, *, resume: bool, pause: float, hold: int) -> None:
    """Train with a pause after each step; at step `hold` the run waits to be killed."""
    torch.set_num_threads(1)
    X, y = (np.load(data / f"{name}.npy") for name in "Xy")
    with seeded(3):
        model = nn.Sequential(nn.Linear(64, 20), nn.ELU(), nn.Dropout(0.2), nn.Linear(20, 10))
    torch.manual_seed(5)
    try:
        gsat.gdadmm(
            model,
            X,
            y,
            defences.GSAT(gsat.PerBatch(gsat.Universal(), n_random=5), n_inner=3),
            n_outer=150,
            group_size=40,
            eta0=1e-2,
            schedule="cosine",
            ema=0.9,
            generator=Generator().manual_seed(7),
            out=folder,
            resume=resume,
            checkpoint_every=7,
            callbacks=[lambda step, model: time.sleep(pause if step.t < hold else 3600)],
        )
    except KeyboardInterrupt:
        sys.exit(130)  # as the interpreter does; a process of multiprocessing would end with 1
    final = b"".join(value.detach().numpy().tobytes() for value in model.state_dict().values())
    digest_of(folder).write_text(hashlib.sha256(final).hexdigest(), encoding="ascii")
