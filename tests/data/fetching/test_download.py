"""Downloads from a server that breaks off, refuses, lies or ignores what it is asked."""

import hashlib

import numpy as np
import pytest

from gsat.data.fetching.download import download
from web import Served, serving

BODY = bytes(np.random.default_rng(0).integers(0, 256, size=300_000, dtype=np.uint8))
SUM = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def server():
    with serving() as served:
        served.files["/some.bin"] = BODY
        yield served


def get(server: Served, path, **changes):
    return download(f"{server.address}/some.bin", path, **({"sha256": SUM, "size": len(BODY), "wait": 0} | changes))


@pytest.mark.parametrize("size", [len(BODY), None])
def test_a_file_arrives_whole(server, tmp_path, size):
    path = tmp_path / "new" / "some.bin"
    assert get(server, path, size=size) == path
    assert path.read_bytes() == BODY
    assert [each.name for each in path.parent.iterdir()] == ["some.bin"]


@pytest.mark.parametrize("size", [len(BODY), None])
def test_a_truncated_body_is_gone_on_with(server, tmp_path, size):
    server.faults = [100_000, 50_000]
    get(server, tmp_path / "x", size=size)
    assert (tmp_path / "x").read_bytes() == BODY
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_a_body_without_length_that_ends_early_is_gone_on_with(server, tmp_path):
    server.faults, server.tells_length = [70_000], False
    get(server, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == BODY
    assert server.ranges == [None, "bytes=70000-"]


def test_a_server_that_ignores_ranges_is_read_from_the_start(server, tmp_path):
    server.faults, server.knows_ranges = [100_000], False
    get(server, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == BODY
    assert server.ranges == [None, "bytes=100000-"]


@pytest.mark.parametrize("fault", [429, 503])
def test_a_fault_that_passes_is_tried_again(server, tmp_path, fault):
    server.faults = [fault, fault]
    get(server, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == BODY


def test_waiting_doubles_and_ends(server, tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr("gsat.data.fetching.download.time.sleep", waits.append)
    server.faults = [503] * 9
    with pytest.raises(OSError, match=r"some.bin could not be fetched in 4 tries: the server answered 503 "):
        get(server, tmp_path / "x", wait=0.5)
    assert waits == [0.5, 1, 2]
    assert not (tmp_path / "x").exists()


def test_404_is_told_at_once(server, tmp_path):
    server.faults = [404]
    with pytest.raises(OSError, match=r"^http\S+some.bin could not be fetched: the server answered 404 Not Found$"):
        get(server, tmp_path / "x")
    assert len(server.ranges) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there(tmp_path):
    with pytest.raises(OSError, match=r"could not be fetched in 2 tries: .*refused"):
        download("http://127.0.0.1:9/x", tmp_path / "x", sha256=SUM, tries=2, wait=0)
    with pytest.raises(OSError, match=r"^http://nowhere.invalid/x could not be fetched: "):
        download("http://nowhere.invalid/x", tmp_path / "x", sha256=SUM, tries=99)


def test_a_wrong_sum_leaves_nothing(server, tmp_path):
    other = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(ValueError, match=f"some.bin must have sha256 {other}, got {SUM}; nothing was kept"):
        get(server, tmp_path / "x", sha256=other)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_there_is_not_harmed_by_a_wrong_sum(server, tmp_path):
    (tmp_path / "x").write_bytes(b"mine")
    server.files["/some.bin"] = BODY[:-1] + b"?"
    with pytest.raises(ValueError, match="must have sha256"):
        get(server, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"mine"


@pytest.mark.parametrize("extra", [1, 700_000])
def test_a_body_that_does_not_end_is_cut(server, tmp_path, extra):
    server.files["/some.bin"] = BODY + bytes(extra)
    with pytest.raises(ValueError, match=r"some.bin must have 300000 bytes, got more; nothing was kept"):
        get(server, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_a_later_call_goes_on(server, tmp_path):
    server.faults = [120_000]
    with pytest.raises(OSError, match="broke off after 120000 of 300000 bytes"):
        get(server, tmp_path / "x", tries=1)
    assert [path.name for path in tmp_path.iterdir()] == ["x.part"]
    get(server, tmp_path / "x")
    assert server.ranges == [None, "bytes=120000-"]
    assert (tmp_path / "x").read_bytes() == BODY


@pytest.mark.parametrize("left", [b"of another file", bytes(400_000)])
def test_a_leftover_of_another_file_is_replaced(server, tmp_path, left):
    (tmp_path / "x.part").write_bytes(left)
    get(server, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == BODY
    assert not (tmp_path / "x.part").exists()


def test_a_leftover_that_is_whole_is_not_fetched_again(server, tmp_path):
    (tmp_path / "x.part").write_bytes(BODY)
    get(server, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == BODY
    assert server.ranges == []


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://127.0.0.1/x", "x"])
def test_only_the_web_is_read(tmp_path, url):
    with pytest.raises(ValueError, match=f"^url must start with http:// or https://, got '{url}'$"):
        download(url, tmp_path / "x", sha256=SUM)


def test_a_progress_bar_counts_what_is_resumed(server, tmp_path, capsys):
    server.faults = [120_000]
    get(server, tmp_path / "some.bin", progress=True)
    text = capsys.readouterr().err
    assert "some.bin" in text
    assert "300k/300k" in text
