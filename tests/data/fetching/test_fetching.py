"""Whole data sets: through the user's package managers, into the cache, and with `gsat data`."""

import hashlib
import io
import json
import re
import sys
import tarfile
import threading
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from gsat import data
from gsat.cli import app
from gsat.data import fetching, loading
from gsat.data.catalogue import KNOWN
from gsat.data.fetching import packages
from gsat.data.fetching.sources import RECIPES, Recipe, Source
from gsat.data.files import needed
from web import serving

OTHER = hashlib.sha256(b"other").hexdigest()


@pytest.fixture
def server():
    with serving() as served:
        yield served


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """npm and pip as scripts of the test, and the folder their packages come to."""
    bin_folder, room = tmp_path / "bin", tmp_path / "room"
    bin_folder.mkdir()
    monkeypatch.setenv("PATH", str(bin_folder))
    monkeypatch.setattr(packages, "_pip", lambda: ["pip"])

    def write(name, *lines):
        path = bin_folder / name
        path.write_text("\n".join([f"#!{sys.executable}", "import sys", *lines]))
        path.chmod(0o755)
        return room

    return write


@pytest.mark.parametrize(
    ("place", "program", "said"),
    [
        ("npm:some-data@1.2", "npm", "pack some-data@1.2 --ignore-scripts"),
        ("wheel:Some==2.0", "pip", "download --no-deps --only-binary=:all:"),
    ],
)
def test_a_package_comes_through_the_users_client(programs, place, program, said):
    room = programs(program, "open('said.tgz', 'w').write(' '.join(sys.argv[1:]))")
    with pytest.raises(ValueError, match=f"{re.escape(place)} must have sha256 {OTHER}, got .*; nothing was kept"):
        packages.get_package(place, room, sha256=OTHER, size=None, progress=False)
    assert list(room.iterdir()) == []
    room = programs(program, f"open('x.tgz', 'w').write('right'); assert {said!r} in ' '.join(sys.argv)")
    right = hashlib.sha256(b"right").hexdigest()
    assert packages.get_package(place, room, sha256=right, size=None, progress=False).read_text() == "right"
    assert [path.name for path in room.iterdir()] == ["x.tgz"]


def test_a_client_that_fails_or_is_not_there(programs):
    room = programs("npm", "print('404 no such package', file=sys.stderr); sys.exit(3)")
    with pytest.raises(OSError, match=r"npm pack a@1 .* ended with code 3: 404 no such package"):
        packages.get_package("npm:a@1", room, sha256=OTHER, size=None, progress=False)
    with pytest.raises(OSError, match=r"pip download .* needs pip, which is not installed"):
        packages.get_package("wheel:a==1", room, sha256=OTHER, size=None, progress=False)
    with pytest.raises(ValueError, match="place must start with npm:, wheel: or sdist:, got 'gem:a'"):
        packages.get_package("gem:a", room, sha256=OTHER, size=None, progress=False)


def test_a_source_distribution_is_found_on_the_index_of_pip(programs, server):
    room = programs("pip", f"print('-i, --index-url <url>   Base URL (default {server.address}/simple). This ...')")
    server.files["/simple/some-data/"] = (
        b'<a href="../../files/Some_Data-0.1.tar.gz#sha256=1">x</a><a href="../../files/Some_Data-0.2.tar.gz#y">y</a>'
    )
    server.files["/files/Some_Data-0.2.tar.gz"] = b"other"
    found = packages.get_package("sdist:Some_Data==0.2", room, sha256=OTHER, size=5, progress=False)
    assert found.read_bytes() == b"other"
    with pytest.raises(OSError, match=r"/simple/some-data/ must have a link to Some_Data-0.3.tar.gz, got none"):
        packages.get_package("sdist:Some_Data==0.3", room, sha256=OTHER, size=5, progress=False)
    programs("pip", "print('no index here')")
    with pytest.raises(OSError, match="pip download --help must tell the address of the index, got none"):
        packages.get_package("sdist:Some_Data==0.2", room, sha256=OTHER, size=5, progress=False)


# Whole sets


@pytest.fixture
def tiny_set(server, tmp_path, monkeypatch):
    """A data set "tiny" of one file, whose archive is at the server."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        info = tarfile.TarInfo("inside/x.txt")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"1,2,3"))
    packed = stream.getvalue()
    server.files["/tiny.tar.gz"] = packed
    tiny = replace(KNOWN["stemcells"], origin="here", forms=(("tiny/x.txt",),), sums={}, to_get="ask us")
    monkeypatch.setitem(KNOWN, "tiny", tiny)
    take = {"inside/x.txt": "tiny/x.txt"}
    source = Source(f"{server.address}/tiny.tar.gz", hashlib.sha256(packed).hexdigest(), len(packed), take)
    monkeypatch.setitem(RECIPES, "tiny", (Recipe((source,)),))

    def read(folder):
        found = needed("tiny", folder)[0].read_text()
        if found != "1,2,3":
            raise ValueError(f"x.txt must be 1,2,3, got {found}")
        return data.Table(np.array([[1.0, 2.0, 3.0]]))

    monkeypatch.setitem(loading.FROM_FILES, "tiny", read)
    monkeypatch.setenv("GSAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GSAT_OFFLINE")
    monkeypatch.delenv("GSAT_DATA", raising=False)
    return tmp_path


def visible(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_load_fetches_once_into_the_cache(tiny_set, server):
    assert data.load("tiny").X.tolist() == [[1, 2, 3]]
    assert data.load("tiny").X.tolist() == [[1, 2, 3]]
    assert len(server.ranges) == 1
    assert visible(tiny_set / "cache") == [".fetching-x.lock", "tiny/x.txt"]


def test_load_does_not_fetch_offline_nor_where_a_folder_is_named(tiny_set, server, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"tiny/x.txt"):
        data.load("tiny", data_dir=tiny_set / "mine")
    monkeypatch.setenv("GSAT_OFFLINE", "1")
    with pytest.raises(FileNotFoundError, match=r"tiny/x.txt"):
        data.load("tiny")
    assert server.ranges == []


def test_what_the_reader_refuses_is_not_put_in_place(tiny_set, server, monkeypatch):
    def refuse(folder):
        raise ValueError(f"{folder / 'tiny' / 'x.txt'} must be better")

    monkeypatch.setitem(loading.FROM_FILES, "tiny", refuse)
    with pytest.raises(FileNotFoundError, match=r"x.txt is missing .*To get it: ask us") as caught:
        data.fetch("tiny")
    assert "must be better" in caught.value.__notes__[0]
    assert not (tiny_set / "cache" / "tiny").exists()


def test_the_next_recipe_is_tried(tiny_set, server, monkeypatch):
    (good,) = RECIPES["tiny"]
    wrong = Recipe((Source(good.sources[0].place, OTHER, None, good.sources[0].take),))
    monkeypatch.setitem(RECIPES, "tiny", (wrong, good))
    assert data.fetch("tiny", data_dir=tiny_set / "mine") == tiny_set / "mine"
    assert (tiny_set / "mine" / "tiny" / "x.txt").read_text() == "1,2,3"


def test_every_recipe_that_fails_is_told(tiny_set, server, monkeypatch):
    (good,) = RECIPES["tiny"]
    monkeypatch.setitem(RECIPES, "tiny", (good, good))
    server.faults = [404, 404]
    with pytest.raises(FileNotFoundError, match="data set tiny") as caught:
        data.load("tiny")
    assert [note[-13:] for note in caught.value.__notes__] == ["404 Not Found"] * 2


def test_a_built_set_is_written_as_npz(tiny_set, monkeypatch):
    (plain,) = RECIPES["tiny"]
    monkeypatch.setitem(KNOWN, "tiny", replace(KNOWN["tiny"], forms=(("tiny/x.npz",),)))
    build = ("tiny/x.npz", lambda path: {"X": np.array([[len(path.read_text())]])})
    monkeypatch.setitem(RECIPES, "tiny", (Recipe(plain.sources, build=build),))
    monkeypatch.setitem(loading.FROM_FILES, "tiny", lambda folder: data.load(folder / "tiny" / "x.npz"))
    assert data.load("tiny").X.tolist() == [[5]]
    assert visible(tiny_set / "cache") == [".fetching-x.lock", "tiny/x.npz"]


def test_two_at_a_time_fetch_once(tiny_set, server):
    found = []
    threads = [threading.Thread(target=lambda: found.append(data.fetch("tiny"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [tiny_set / "cache"] * 4
    assert len(server.ranges) == 1


def test_recipes_make_a_form_of_their_set(tmp_path):
    for name, recipes in RECIPES.items():
        forms = [{tmp_path / path for path in form} for form in KNOWN[name].forms]
        for recipe in recipes:
            assert set(recipe.files(tmp_path)) in forms
            assert all(re.fullmatch("[0-9a-f]{64}", source.sha256) for source in recipe.sources)


def test_a_set_without_a_recipe_says_what_to_get(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"stemcells_4studies.npz is missing .*put the file at expression/"):
        data.fetch("stemcells", data_dir=tmp_path)
    with pytest.raises(ValueError, match=r"^name must be one of mnist, .*, got 'digits'$"):
        data.fetch("digits")
    with pytest.raises(FileNotFoundError, match="stemcells"):
        fetching.obtain("stemcells", tmp_path, lambda folder: None)


# The command


def run(*args, code=0):
    result = CliRunner().invoke(app, ["data", *map(str, args)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.mark.parametrize("command", ["list", "fetch", "info"])
def test_help_has_an_example(command):
    assert re.search(rf"Examples?: gsat data {command}", " ".join(run(command, "--help").output.split()))


def test_list_says_what_there_is_and_where(tmp_path):
    (tmp_path / "expression").mkdir()
    (tmp_path / "expression" / "stemcells_4studies.npz").touch()
    found = {each["name"]: each for each in json.loads(run("list", "--data-dir", tmp_path, "--json").output)}
    assert tuple(found) == data.names()
    assert found["stemcells"]["folder"] == str(tmp_path)
    assert (found["tcga"]["folder"], found["tcga"]["can_be_fetched"]) == (None, False)
    assert (found["mnist"]["folder"], found["mnist"]["can_be_fetched"]) == (None, True)
    assert (found["mnist"]["samples"], found["mnist"]["features"], found["mnist"]["classes"]) == (70000, 784, 10)
    lines = run("list", "--data-dir", tmp_path).output.splitlines()
    assert len(lines) == 1 + len(found)
    assert re.search(
        r"^mnist +70000 x 784 +10 +- +CC BY-SA .* missing; gsat data fetch gets it$", "\n".join(lines), re.M
    )


def test_fetch_brings_sets_and_says_where(tiny_set):
    text = run("fetch", "tiny", "--data-dir", tiny_set / "mine").output
    assert text.strip() == f"tiny is in {tiny_set / 'mine'}"
    assert json.loads(run("fetch", "tiny", "--json").output) == {"tiny": str(tiny_set / "cache")}


def test_fetch_that_fails_ends_with_2_and_a_remedy(tiny_set, server):
    server.faults = [404]
    text = run("fetch", "tiny", code=2).output
    assert "To get it: ask us" in text
    assert "tried" in text
    assert "404" in text
    assert "name must be one of" in run("fetch", "digits", code=2).output


def test_info_describes_sets_and_files(tmp_path):
    found = json.loads(run("info", "digits", "--json").output)
    assert (found["n"], found["features"], found["train"], found["test"]) == (1797, 64, 1348, 449)
    path = tmp_path / "x.csv"
    path.write_text("kind,day,g1,g2\na,mon,1,2\nb,mon,3,4\na,tue,5,6\n")
    text = run("info", path, "--label", "kind", "--batch", "day").output
    assert re.search(r"^classes +2: a 2, b 1$", text, re.M)
    assert re.search(r"^batches +2: mon 2, tue 1$", text, re.M)
    assert "must have the column that label='sort' names" in run("info", path, "--label", "sort", code=2).output
    assert "is missing" in run("info", tmp_path / "y.csv", code=2).output
