"""Drafts: whole or not at all, dead ones cleared and living ones kept; one process at a time in a folder."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gsat._files import (
    append_line,
    bounded,
    locked,
    marks,
    parse_json,
    read_json,
    recover,
    remove_dead_drafts,
    replace_file,
    replace_files,
    whole_folder,
    write_durably,
)

FOLDER = """
from pathlib import Path
from gsat._files import whole_folder
with whole_folder(Path("model")) as draft:
    (draft / "a").write_text("new")
    (draft / "b").write_text("new")
"""
TOGETHER = """
from pathlib import Path
from gsat._files import replace_files
replace_files(Path("."), {"a": b"new", "b": b"new"})
"""
DIES_AT = """
import os, signal
count, real = 0, os.replace
def replace(*args):
    global count
    count += 1
    if count == {n}:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*args)
os.replace = replace
"""


def python(code: str, folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.fixture
def small_files():
    """No file may become larger than a kilobyte, as on a full disk."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, small_files):
    (tmp_path / "a").write_text("old")
    with pytest.raises(OSError, match="File too large"):
        replace_file(tmp_path / "a", b"x" * 2000)
    assert contents(tmp_path) == {"a": "old"}


def test_an_error_names_the_place_and_not_the_draft(tmp_path, small_files):
    with pytest.raises(OSError, match=rf"File too large: '{re.escape(str(tmp_path))}/a'"):
        replace_file(tmp_path / "a", b"x" * 2000)
    with pytest.raises(FileNotFoundError, match=rf"No such file or directory: '{re.escape(str(tmp_path))}/none/a'"):
        replace_file(tmp_path / "none" / "a", b"")
    with pytest.raises(OSError, match=rf"File too large: '{re.escape(str(tmp_path))}'"):
        replace_files(tmp_path, {"b": b"x" * 2000})
    final = tmp_path / "model"
    with pytest.raises(OSError, match=f"File too large: '{re.escape(str(final))}'"), whole_folder(final) as draft:
        write_durably(draft / "a", b"x" * 2000)
    with pytest.raises(OSError, match="elsewhere"), whole_folder(tmp_path / "model"):
        raise OSError(5, "broken", "elsewhere")


def test_files_that_are_replaced_together_fail_together(tmp_path, small_files):
    (tmp_path / "a").write_text("old")
    with pytest.raises(OSError, match="File too large"):
        replace_files(tmp_path, {"a": b"new", "b": b"x" * 2000})
    assert contents(tmp_path) == {"a": "old"}


def test_files_that_are_replaced_together(tmp_path):
    (tmp_path / "a").write_text("old")
    replace_files(tmp_path, {"a": b"new", "b": b"also"})
    assert contents(tmp_path) == {"a": "new", "b": "also"}
    (tmp_path / "c").mkdir()
    with pytest.raises(IsADirectoryError, match=r"got the folder .*c$"):
        replace_files(tmp_path, {"a": b"newer", "c": b""})
    assert names(tmp_path) == {"a", "b", "c"}
    assert (tmp_path / "a").read_text() == "new"


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_that_fails_leaves_what_was_there(tmp_path, there):
    final = tmp_path / "model"
    if there:
        final.mkdir()
        (final / "a").write_text("old")

    def stopped():
        with whole_folder(final) as draft:
            (draft / "a").write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert names(tmp_path) == ({"model"} if there else set())
    assert not there or contents(final) == {"a": "old"}


def test_an_exchange_that_fails_puts_the_old_folder_back(tmp_path, monkeypatch):
    final = tmp_path / "model"
    final.mkdir()
    (final / "a").write_text("old")
    real = os.replace

    def replace(source, target):
        if Path(target) == final and ".draft-" in str(source):
            raise PermissionError("no")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(PermissionError), whole_folder(final) as draft:
        (draft / "a").write_text("new")
    assert names(tmp_path) == {"model"}
    assert contents(final) == {"a": "old"}


def test_a_folder_replaces_another(tmp_path):
    for text in ("first", "second"):
        with whole_folder(tmp_path / "new" / "model") as draft:
            (draft / text).write_text(text)
    assert contents(tmp_path / "new" / "model") == {"second": "second"}
    assert names(tmp_path / "new") == {"model"}


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("read_first", [True, False])
def test_a_folder_whose_writer_was_killed_is_whole(tmp_path, n, read_first):
    final = tmp_path / "model"
    final.mkdir()
    for name in "ab":
        (final / name).write_text("old")
    assert python(DIES_AT.format(n=n) + FOLDER, tmp_path).returncode == -signal.SIGKILL
    assert len(names(tmp_path)) > 1
    if read_first:
        recover(final)
        assert contents(final) == dict.fromkeys("ab", "new" if n == 3 else "old")
    remove_dead_drafts(tmp_path)
    assert names(tmp_path) == {"model"}
    assert contents(final) == dict.fromkeys("ab", "new" if n == 3 else "old")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_files_whose_writer_was_killed_are_all_old_or_all_new(tmp_path, n):
    for name in "ab":
        (tmp_path / name).write_text("old")
    assert python(DIES_AT.format(n=n) + TOGETHER, tmp_path).returncode == -signal.SIGKILL
    remove_dead_drafts(tmp_path)
    assert contents(tmp_path) == dict.fromkeys("ab", "old" if n == 1 else "new")


def test_drafts_of_the_living_stay(tmp_path):
    with whole_folder(tmp_path / "model") as draft:
        (draft / "a").write_text("new")
        other = "from pathlib import Path; from gsat._files import remove_dead_drafts\nremove_dead_drafts(Path('.'))"
        result = python(other, tmp_path)
        assert result.returncode == 0, result.stderr
        assert draft.exists()
    assert contents(tmp_path / "model") == {"a": "new"}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_number_that_another_process_has_now_is_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(marks, "began", lambda pid: 12345)
    stale = marks.beside(tmp_path / "a", "draft")
    monkeypatch.undo()
    stale.write_text("")
    remove_dead_drafts(tmp_path)
    assert names(tmp_path) == set()


def test_drafts_of_another_machine_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(marks.platform, "node", lambda: "elsewhere")
    theirs = marks.beside(tmp_path / "a", "draft")
    monkeypatch.undo()
    theirs.write_text("")
    remove_dead_drafts(tmp_path)
    assert names(tmp_path) == {theirs.name}


@pytest.fixture
def dead():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_drafts_of_earlier_versions_are_cleared_when_their_process_is_dead(tmp_path, dead):
    mine = {".config.json", ".step-000000002", ".0123456789abcdef0123.csv", ".table.csv"}
    for name in mine:
        (tmp_path / f"{name}.{dead}").write_text("")
        (tmp_path / f"{name}.{os.getpid()}").write_text("")
    others = {f"{name}.{dead}" for name in (".notes.txt", ".vacation.2024", "table.csv")}
    for name in others:
        (tmp_path / name).write_text("")
    remove_dead_drafts(tmp_path, "table.csv")
    assert names(tmp_path) == {f"{name}.{os.getpid()}" for name in mine} | others


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("read_first", [True, False])
def test_a_model_that_an_earlier_version_was_replacing_is_put_back(tmp_path, dead, there, read_first):
    final = tmp_path / "mine"
    for folder, text in [(final, "new")] * there + [(tmp_path / f".mine.{dead}.old", "old")]:
        folder.mkdir()
        (folder / "a").write_text(text)
    if read_first:
        recover(final)
    remove_dead_drafts(tmp_path, "mine")
    assert names(tmp_path) == {"mine"}
    assert contents(final) == {"a": "new" if there else "old"}


def test_a_line_is_appended_whole_or_not_at_all(tmp_path, small_files):
    path = tmp_path / "log"
    append_line(path, b"first")
    with path.open("ab") as file:
        file.write(b"cut of")
    append_line(path, b"second")
    assert path.read_bytes() == b"first\ncut of\nsecond\n"
    with pytest.raises(OSError, match="File too large"):
        append_line(path, b"x" * 2000)
    assert path.read_bytes() == b"first\ncut of\nsecond\n"


def nested(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (nested(bounded.DEEPEST + 2), "f.json must be JSON, got lists or objects nested too deeply"),
        (nested(100_000), "f.json must be JSON, got lists or objects nested too deeply"),
        ('{"a": ' * 150 + "1" + "}" * 150, "f.json must be JSON, got lists or objects nested too deeply"),
        ("[1", "f.json must be JSON in UTF-8, got: "),
        ("", "f.json must be JSON in UTF-8, got: "),
        ("1" * 10_000, "f.json must be JSON in UTF-8, got: "),
        ("x" * 101, "f.json must have at most 100 bytes, got 101"),
    ],
)
def test_json_within_bounds(tmp_path, monkeypatch, text, message):
    if "at most" in message:
        monkeypatch.setattr(bounded, "LARGEST", 100)
    path = tmp_path / "f.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_json(path)
    with pytest.raises(ValueError, match=message):
        parse_json("f.json", text)


def test_json_as_deep_as_allowed(tmp_path):
    (tmp_path / "f.json").write_text(nested(bounded.DEEPEST + 1))
    assert read_json(tmp_path / "f.json") == json.loads(nested(bounded.DEEPEST + 1))


@pytest.mark.parametrize("kind", ["folder", "pipe", "device", "nothing"])
def test_json_is_read_from_files_only(tmp_path, kind):
    path = tmp_path / "f.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="No such file" if kind == "nothing" else "is no file"):
        read_json(path)


def test_no_other_place_parses_json_of_files():
    root = Path(bounded.__file__).parents[1]
    parses = re.compile(r"json\.loads?\((?!json\.dumps)")
    found = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if parses.search(path.read_text("utf-8"))}
    assert found == {"_files/bounded.py", "data/readers/apart.py"}  # the latter: between two processes of our own


def test_names_that_are_not_drafts_stay(tmp_path):
    for name in ("a", ".hidden", ".a.draft-mine", "b.draft-1-1-00000000-1"):
        (tmp_path / name).write_text("")
    before = names(tmp_path)
    remove_dead_drafts(tmp_path)
    remove_dead_drafts(tmp_path / "none")
    assert names(tmp_path) == before


def test_one_process_at_a_time(tmp_path):
    other = "from pathlib import Path; from gsat._files import locked\nwith locked(Path('.')): print('in')"
    with locked(tmp_path), locked(tmp_path):
        refused = python(other, tmp_path)
        assert refused.returncode == 1
        assert f"is being written by process {os.getpid()} on " in refused.stderr
        found = []

        def enter():
            try:
                with locked(tmp_path):
                    found.append("in")
            except BlockingIOError:
                found.append("out")

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        assert found == ["out"]
    assert python(other, tmp_path).stdout == "in\n"
    assert names(tmp_path) == set()


def test_a_killed_process_holds_nothing(tmp_path):
    other = "import os; from pathlib import Path; from gsat._files import locked\n"
    other += "with locked(Path('.')): os.kill(os.getpid(), 9)"
    assert python(other, tmp_path).returncode == -signal.SIGKILL
    with locked(tmp_path):
        pass
