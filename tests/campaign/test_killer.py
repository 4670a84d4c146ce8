"""Every command that writes is killed, at every change of a file's name and at random moments: nothing is lost."""

import io
import random
import shutil

import pandas as pd
import pytest
import tally

from commands import TABLE, changes, content, copied, kill_after, leftovers, make_room, run, serve_mnist
from web import serving

pytestmark = pytest.mark.campaign

SHORT = ["--label", "kind", "--n-outer", "2", "--group-size", "10"]
TRAIN = ["train", TABLE, "--defence", "erm", "--out", "run", *SHORT]
SELECT = ["select", TABLE, "-k", "2", "--n-resamples", "0", "--out", "f.csv", *SHORT]
COMPARE = ["compare", TABLE, "--defences", "erm,low-rank", "--attacks", "pgd@0.05", "--seeds", "1", "--steps", "2"]
COMPARE += ["--n-inner", "2", "--n-validation", "10", "--out", "c", *SHORT]
DEMO = ["demo", "--n-outer", "2", "--out", "d"]
REPRODUCE = ["reproduce", "universal", "--quick", "--jobs", "1", "--out", "r"]
PREDICT = ["predict", "run", TABLE, "--label", "kind", "--out", "p.csv"]
DIAGNOSE = ["diagnose", TABLE, "--batch", "kind", "--n-splits", "2", "--out", "g"]
ATTACK = ["attack", "run", "--structure", "fgm", "--n", "10"]
FETCH = ["data", "fetch", "mnist", "--data-dir", "sets"]
AT_RANDOM = 5 if tally.FULL else 0  # kills of each command at a random moment


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """An empty folder; beside it is the table."""
    return make_room(tmp_path_factory.mktemp("killer"))


def prepared(room, name, *commands):
    """A copy of the room in which the commands have been run."""
    made = room.parent / name
    if not made.exists():
        shutil.copytree(room, made)
        for command in commands:
            done = run(command, made)
            assert done.code == 0, done.said
    return made


def kills(command, before, seed):
    """Copies of `before` in which the command was killed: at each change of a name or at one, and at random moments."""
    with copied(before, before.parent / "counted") as whole:
        n = changes(command, whole)
    draw = random.Random(seed)
    each = range(1, n + 1) if tally.FULL else [draw.randint(1, n)]
    for at in each:
        with copied(before, before.parent / "killed") as killed:
            assert run(command, killed, die_at=at).code == -9
            yield f"change {at} of {n}", killed
    for _ in range(AT_RANDOM):
        seconds = draw.uniform(0, 1.5)
        with copied(before, before.parent / "killed") as killed:
            assert kill_after(command, killed, seconds).code in (-9, 0)
            yield f"after {seconds:.2f} s", killed


def campaign(part, command, before, check, seed=0):
    """Count how many kills the check, called with the folder, has nothing to say about."""
    tried, faults = 0, []
    for when, killed in kills(command, before, seed):
        tried += 1
        fault = check(killed)
        if fault:
            faults.append(f"{when}: {fault}")
    tally.count(part, tried, tried - len(faults), len(faults))
    assert tried >= (3 if tally.FULL else 1)
    assert faults == []


def works(command, folder, *refusals):
    """What is wrong with how a command ends: it must work, or refuse with one of the texts."""
    done = run(command, folder)
    if done.code == 0 or (done.code == 2 and any(text in done.said for text in refusals)):
        return None
    return f"{' '.join(command)} ended with {done.code}: {done.said[:500]}"


def same(folder, wanted, what):
    """Whether a folder holds these files and nothing hidden."""
    found = content(folder)
    if found != wanted:
        return f"{what}: {sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))} differ"
    return f"{what}: left are {leftovers(folder)}" if leftovers(folder) else None


@pytest.mark.parametrize("then", ["", "--resume", "--force"])
def test_a_new_run(room, then):
    wanted = content(prepared(room, "trained", TRAIN) / "run")

    def check(killed):
        again = [*TRAIN, *filter(None, [then])]
        fault = works(again, killed, "--force to overwrite it, or --resume", "--resume needs a run in --out")
        return fault or works([*TRAIN, "--force"], killed) or same(killed / "run", wanted, "the run")

    campaign(f"killed: train, then train {then}".rstrip(), TRAIN, room, check)


def test_a_run_that_replaces_another(room):
    old = prepared(room, "trained", TRAIN)
    new = prepared(room, "trained-1", [*TRAIN, "--seed", "1"])
    outcomes = {seed: content(folder / "run") for seed, folder in (("0", old), ("1", new))}

    def check(killed):
        resumed = {}
        for seed, wanted in outcomes.items():
            with copied(killed, killed.parent / "resumed") as copy:
                if run([*TRAIN, "--seed", seed, "--resume"], copy).code == 0:
                    resumed[seed] = same(copy / "run", wanted, f"the run of seed {seed}")
        if not resumed or any(resumed.values()):
            return f"the run is neither the old nor the new one: {resumed}"
        again = [*TRAIN, "--seed", "1", "--force"]
        return works(again, killed) or same(killed / "run", outcomes["1"], "the new run")

    campaign("killed: train --force", [*TRAIN, "--seed", "1", "--force"], old, check)


def test_a_run_that_is_resumed(room):
    stopped = prepared(room, "stopped", TRAIN)
    wanted = content(prepared(room, "trained", TRAIN) / "run")
    for name in ("model", "checkpoint/step-000000002"):
        shutil.rmtree(stopped / "run" / name, ignore_errors=True)
    again = [*TRAIN, "--resume"]
    campaign("killed: train --resume", again, stopped, lambda k: works(again, k) or same(k / "run", wanted, "the run"))


@pytest.mark.parametrize("command", [SELECT, DIAGNOSE], ids=lambda command: command[0])
def test_two_files_at_once(room, command):
    name, force = command[0], [*command, "--seed", "1", "--force"]
    old = prepared(room, name, command)
    outcomes = [content(old), content(prepared(old, f"{name}-1", force))]
    assert outcomes[0] != outcomes[1]

    def pairs(killed):
        fault = works(command, killed, "must be a new file")
        return fault or min((same(killed, wanted, "the pair") or "" for wanted in outcomes), key=len)

    campaign(f"killed: {name}", command, room, pairs)
    campaign(f"killed: {name} --force", force, old, pairs)


def attacked(folder):
    """The table of an attack, without its times."""
    return pd.read_csv(io.BytesIO(content(folder)["run/results.csv"])).drop(columns="seconds", errors="ignore")


def test_attack(room):
    trained = prepared(room, "trained", TRAIN)
    old = prepared(trained, "attacked", ATTACK)
    wanted = attacked(old)

    def check(killed):
        fault = works(ATTACK, killed, "must be a new file") or works([*ATTACK, "--force"], killed)
        if fault or not attacked(killed).equals(wanted):
            return fault or f"another table: {attacked(killed)}"
        return f"left are {leftovers(killed)}" if leftovers(killed) else None

    campaign("killed: attack", ATTACK, trained, check)
    campaign("killed: attack --force", [*ATTACK, "--force"], old, check)


def test_fetch(room):
    with serving() as served:
        serve_mnist(served, room)
        old = prepared(room, "fetched", FETCH)
        wanted, hidden = content(old), leftovers(old)

        def check(killed):
            fault = works(FETCH, killed) or works(["data", "info", "mnist", "--data-dir", "sets"], killed)
            found = content(killed)
            return fault or (None if (found, leftovers(killed)) == (wanted, hidden) else f"{set(found)} are there")

        campaign("killed: data fetch", FETCH, room, check)


def test_saved_models(room):
    trained = prepared(room, "trained", TRAIN)
    both = prepared(trained, "both", [*TRAIN, "--seed", "1", "--out", "run1"])
    old = prepared(both, "saved", ["save", "run", "m"])
    save = ["save", "run1", "m"]
    wanted = [content(both / name / "model") for name in ("run", "run1")]

    def check(killed):
        loads = ["predict", "m", TABLE, "--label", "kind", "--out", "p.csv"]
        fault = works(loads, killed, "must be a folder with model.json")
        found = content(killed / "m")
        if fault or (found and found not in wanted):
            return fault or f"the model is neither the old nor the new one: {sorted(found)}"
        return works(save, killed) or same(killed / "m", wanted[1], "the model")

    campaign("killed: clf.save", save, both, check)
    campaign("killed: clf.save over another", save, old, check)


def test_compare(room):
    old = prepared(room, "compared", COMPARE)
    tables = {"results.csv", "chosen.csv", "differences.csv"}

    def check(killed):
        found = tables & {path.name for path in (killed / "c").glob("*.csv")}
        fault = works([*COMPARE, "--resume"], killed, "--resume needs a run in --out", "seeds was")
        fault = fault or works([*COMPARE, "--force"], killed)
        if fault or not tables <= set(content(killed / "c")):
            return f"{fault}, after {found}"
        return f"left are {leftovers(killed / 'c')}" if leftovers(killed / "c") else None

    campaign("killed: compare", COMPARE, room, check)
    campaign("killed: compare --force", [*COMPARE, "--force"], old, check)


def test_demo_leaves_the_old_one_or_the_new_one(room):
    old = prepared(room, "shown", DEMO)
    again = [*DEMO, "--seed", "1", "--force"]
    names = set(content(old / "d"))

    def check(killed):
        fault = works(DEMO, killed, "--force to overwrite it")
        if fault or set(content(killed / "d")) | {"report.html"} != names or leftovers(killed / "d"):
            return f"{fault}, {sorted(names ^ set(content(killed / 'd')))}, {leftovers(killed / 'd')}"
        return None

    campaign("killed: demo --force", again, old, check)


def test_reproduce(room):
    old = prepared(room, "reproduced", REPRODUCE)
    wanted = content(old / "r")

    def check(killed):
        return works(REPRODUCE, killed) or same(killed / "r", wanted, "the results")

    campaign("killed: reproduce", REPRODUCE, room, check)
    campaign("killed: reproduce again", REPRODUCE, old, check)


def test_single_files(room):
    trained = prepared(room, "trained", TRAIN)
    for command, name in ((PREDICT, "p.csv"), (["report", "run", "--out", "page.html"], "page.html")):
        wanted = content(prepared(trained, f"single-{name}", command))[name]

        def check(killed, command=command, name=name, wanted=wanted):
            found = (killed / name).read_bytes() if (killed / name).exists() else wanted
            fault = works(command, killed, "must be a new file")
            fault = fault or (None if found == wanted == (killed / name).read_bytes() else f"{name} is another")
            return fault or (f"left are {leftovers(killed)}" if leftovers(killed) else None)

        campaign(f"killed: {command[0]}", command, trained, check)
