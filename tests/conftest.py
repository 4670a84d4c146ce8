"""How the tests run: one thread, the same drawn examples every time, the real data, and no network."""

import os
from collections.abc import Iterator
from pathlib import Path

# The matrices are small: threads only wait for each other. Set before torch and numpy load, and for child processes.
THREADS = os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

torch.set_num_threads(int(THREADS))

# HYPOTHESIS_PROFILE=search draws other examples in every run, and more of them: for people who hunt.
settings.register_profile(
    "gsat",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow],  # a busy machine is no fault
)
settings.register_profile("search", settings.get_profile("gsat"), derandomize=False, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gsat"))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder GSAT_DATA names; without it the test is skipped, with it a missing file is a failure."""
    if not os.environ.get("GSAT_DATA"):
        pytest.skip(
            "set GSAT_DATA to a folder with the data sets of docs/data.md; to get the first: "
            "gsat data fetch mnist --data-dir data && export GSAT_DATA=$PWD/data"
        )
    return Path(os.environ["GSAT_DATA"])


@pytest.fixture(scope="session", autouse=True)
def _at_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An empty cache, and no downloads behind a test's back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GSAT_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("GSAT_OFFLINE", "1")
        yield
