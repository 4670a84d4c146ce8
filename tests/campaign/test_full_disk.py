"""Every command that writes meets a disk that takes no more, after so many bytes: what was there stays."""

import pytest
import tally

from commands import TABLE, content, copied, leftovers, make_room, run, serve_mnist
from web import serving

pytestmark = pytest.mark.campaign

SHORT = ["--label", "kind", "--n-outer", "2", "--group-size", "10"]
TRAIN = ["train", TABLE, "--defence", "erm", "--out", "run", *SHORT]
COMPARE = ["compare", TABLE, "--defences", "erm,low-rank", "--attacks", "pgd@0.05", "--seeds", "1", "--steps", "2"]
COMPARE += ["--n-inner", "2", "--n-validation", "10", "--out", "c", *SHORT]
COMMANDS = {  # the first, and the one that replaces what the first wrote
    "train": (TRAIN, [*TRAIN, "--seed", "1", "--force"]),
    "select": (
        select := ["select", TABLE, "-k", "2", "--n-resamples", "0", "--out", "f.csv", *SHORT],
        [*select, "--seed", "1", "--force"],
    ),
    "compare": (COMPARE, [*COMPARE, "--n-inner", "3", "--force"]),
    "demo": (["demo", "--n-outer", "2", "--out", "d"], ["demo", "--n-outer", "2", "--out", "d", "--force"]),
    "reproduce": (
        reproduce := ["reproduce", "universal", "--quick", "--jobs", "1", "--out", "r"],
        reproduce,
    ),
    "report": (report := ["report", "run", "--out", "page.html"], report),
    "predict": (predict := ["predict", "run", TABLE, "--label", "kind", "--out", "p.csv"], [*predict, "--force"]),
    "attack": (attack := ["attack", "run", "--structure", "fgm", "--n", "10"], [*attack, "--seed", "1", "--force"]),
    "diagnose": (
        diagnose := ["diagnose", TABLE, "--batch", "kind", "--n-splits", "2", "--out", "g"],
        [*diagnose, "--seed", "1", "--force"],
    ),
    "clf.save": (["save", "run", "m"], ["save", "run1", "m"]),
    "data fetch": (fetch := ["data", "fetch", "mnist", "--data-dir", "sets"], [*fetch[:-1], "others"]),
}
OF_RUNS = ("report", "predict", "attack", "clf.save")
LIMITS = [0, 50, 150, 400, 700, 1000, 2000, 4000, 8000, 20_000, 100_000, 10**7]
BYTES = ("No space left", "File too large")


def fault(done, command, before, folder):
    """What is wrong after a command on a full disk; it works, or says so and leaves what was there."""
    if done.code == 0:
        return None
    if done.code != 2 or "Traceback" in done.said or not any(text in done.said for text in BYTES):
        return f"ended with {done.code}: {done.said[-500:]}"
    after = content(folder)
    gone = {name for name, data in before.items() if after.get(name) != data}
    gone -= {name for name in gone if name.endswith("evaluations.jsonl") and after[name].startswith(before[name])}
    if gone:
        resumed = run([*filter(lambda word: word != "--force", command), "--resume"], folder)
        if resumed.code != 0:  # neither the old results nor new ones that can be gone on with
            return f"lost are {sorted(gone)}: {resumed.said[-300:]}"
    if hidden := [name for name in leftovers(folder) if "/.fetching-" not in name]:  # what was fetched is kept
        return f"left are {hidden}"
    again = run(command, folder)
    if again.code == 2 and "--force to overwrite it, or --resume" in again.said:  # it had begun
        again = run([*command, "--resume"], folder)
    return None if again.code == 0 else f"with room again it ended with {again.code}: {again.said[-300:]}"


@pytest.fixture(scope="module")
def server():
    with serving() as served:
        yield served


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk(name, tmp_path, server):
    room = make_room(tmp_path)
    first, second = COMMANDS[name]
    if name in OF_RUNS:
        assert run(TRAIN, room).code == run([*TRAIN, "--seed", "1", "--out", "run1"], room).code == 0
    if name == "data fetch":
        serve_mnist(server, room)
    tried, faults = 0, []
    for command, short in ((first, [400]), (second, [1500])):
        before = content(room)
        for limit in LIMITS if tally.FULL else short:
            with copied(room, tmp_path / "full") as folder:
                tried += 1
                wrong = fault(run(command, folder, limit=limit), command, before, folder)
                faults += [f"{command[0]} with {limit} bytes: {wrong}"] if wrong else []
        assert run(first, room).code == 0 or command is second
    tally.count(f"full disk: {name}", tried, tried - len(faults), len(faults))
    assert faults == []
