"""A training run for test_checkpoint_kill.py: run_to_kill.py DATA FOLDER resume|new PAUSE; prints a hash."""

import hashlib
import sys
import time

import numpy as np
import torch
from torch import Generator, nn

import gsat
from gsat import defences
from gsat.models import seeded
from gsat.training.loop import gdadmm

data, folder, mode, pause = sys.argv[1:]
torch.set_num_threads(1)
X, y = (np.load(f"{data}/{name}.npy") for name in "Xy")
with seeded(3):
    model = nn.Sequential(nn.Linear(64, 20), nn.ELU(), nn.Dropout(0.2), nn.Linear(20, 10))
torch.manual_seed(5)
cost = gsat.PerBatch(gsat.Universal(), n_random=5)
gdadmm(
    model,
    X,
    y,
    defences.GSAT(cost, n_inner=3),
    n_outer=150,
    group_size=40,
    eta0=1e-2,
    schedule="cosine",
    ema=0.9,
    generator=Generator().manual_seed(7),
    out=folder,
    resume=mode == "resume",
    checkpoint_every=7,
    callbacks=[lambda step, model: time.sleep(float(pause))],
)
final = b"".join(value.detach().numpy().tobytes() for value in model.state_dict().values())
sys.stdout.write(hashlib.sha256(final).hexdigest())
