"""The folder with the real data; no test looks into the user's cache or at the network."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


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
