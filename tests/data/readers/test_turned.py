"""Rows written beside a file, once, also where several processes ask for them."""

import threading

import h5py
import numpy as np
import pytest

from gsat.data.readers import turned
from gsat.data.readers.apart import answers
from gsat.data.readers.turned import once, rows_of
from stored import write_kind


@pytest.fixture
def asking(tmp_path, monkeypatch):
    """A function that asks for the rows of a file; and what each of those who asked has written."""
    monkeypatch.setattr(turned, "WAIT", 0.001)
    path, place, wrote = tmp_path / "a.txt", tmp_path / "a.txt.X.rows.h5", []
    path.write_text("1")

    def ask(name, *, fails=False):
        def write():
            with rows_of(path, place, h5py) as file:
                yield "alive", None
                if fails:
                    raise ValueError("no")
                file["X"] = np.ones(3)
            wrote.append(name)

        return once(path, place, h5py, name, write)

    return ask, wrote, tmp_path


def test_one_writes_and_the_others_wait(asking):
    ask, wrote, folder = asking
    first, second = ask("first"), ask("second")
    assert next(first) == ("told", "first")
    assert [next(second) for _ in range(3)] == 3 * [("alive", None)]
    assert [*first] == [("alive", None)]
    assert [*second] == []
    assert [*ask("third")] == []
    assert wrote == ["first"]
    assert sorted(each.name for each in folder.iterdir()) == ["a.txt", "a.txt.X.rows.h5"]


@pytest.mark.parametrize("how", ["fails", "is closed"])
def test_the_next_writes_where_one_fails(asking, how):
    ask, wrote, folder = asking
    first, second = ask("first", fails=True), ask("second")
    next(first)
    assert next(second) == ("alive", None)
    if how == "fails":
        with pytest.raises(ValueError, match="no"):
            list(first)
    else:
        first.close()
    assert [*second] == [("told", "second"), ("alive", None)]
    assert wrote == ["second"]
    assert sorted(each.name for each in folder.iterdir()) == ["a.txt", "a.txt.X.rows.h5"]


def test_processes_that_open_a_file_at_a_time_write_its_rows_once(tmp_path):
    path, found = write_kind(tmp_path, "csc", 60, 20), [[], []]
    options = {"columns": {}, "layer": None, "stream": True}
    threads = [
        threading.Thread(target=lambda own: own.extend(answers(path, "HDF5", options)), args=[own]) for own in found
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(name == "told" for own in found for name, _ in own) == 1
    assert [sum(name == "stored" for name, _ in own) for own in found] == [1, 1]
    assert len([*tmp_path.iterdir()]) == 2
