"""Two processes write to one folder at the same time: what is there afterwards is of one of them."""

import json
import random
import re
import shutil
import time
from pathlib import Path

import pytest
import tally

from commands import FORKS, TABLE, content, end, leftovers, make_room, run, start
from gsat._files import recover, remove_dead_drafts, whole_folder

pytestmark = pytest.mark.campaign

TRAIN = ["train", TABLE, "--label", "kind", "--defence", "erm", "--out", "run", "--n-outer", "20", "--group-size", "10"]
ROUNDS = 20 if tally.FULL else 2
TOLD = re.compile(r"is being written by process \d+ on |is being written by another process|--force to overwrite it")


@pytest.mark.parametrize("options", [[], ["--force"]])
def test_two_runs(tmp_path, options):
    room, draw, faults = make_room(tmp_path), random.Random(0), []
    wanted = {}
    for seed in (0, 1):
        done = run([*TRAIN, "--seed", seed], room)
        assert done.code == 0, done.said
        wanted[seed] = content(room / "run")
        shutil.rmtree(room / "run")
    for number in range(ROUNDS):
        shutil.rmtree(room / "run", ignore_errors=True)
        both = [start([*TRAIN, "--seed", 0, *options], room)]
        time.sleep(draw.uniform(0, 0.3))
        both.append(start([*TRAIN, "--seed", 1, *options], room))
        ends = [end(started) for started in both]
        refused = [each for each in ends if each.code != 0]
        seed = json.loads((room / "run" / "config.json").read_text())["seed"]
        if len(refused) == 2 or any(each.code != 2 or not TOLD.search(each.said) for each in refused):
            faults.append(f"round {number}: {ends}")
        elif content(room / "run") != wanted[seed] or leftovers(room / "run"):
            faults.append(f"round {number}: the run is not that of seed {seed}, or {leftovers(room / 'run')} are left")
    tally.count(f"two writers: train {' '.join(options)}".rstrip(), ROUNDS, ROUNDS - len(faults), len(faults))
    assert faults == []


def write_often(folder: Path, text: str, n: int) -> None:
    """Replace a folder n times."""
    for number in range(n):
        with whole_folder(folder) as draft:
            for name in "ab":
                (draft / name).write_text(f"{text} {number}")


def test_two_that_replace_one_folder(tmp_path):
    n, folder = 50 * ROUNDS, tmp_path / "model"
    both = [FORKS.Process(target=write_often, args=(folder, text, n)) for text in ("one", "other")]
    for process in both:
        process.start()
    for process in both:
        process.join(600)
    codes = [process.exitcode for process in both]
    remove_dead_drafts(tmp_path)
    recover(folder)
    a, b = ((folder / name).read_text() for name in "ab")
    fine = codes == [0, 0] and a == b and a.endswith(f" {n - 1}") and leftovers(tmp_path) == []
    tally.count("two writers: folders", 1, int(fine), int(not fine))  # only the end is looked at
    assert fine, (codes, a, b, leftovers(tmp_path))
