"""Archives, hostile ones among them."""

import io
import re
import stat
import tarfile
import zipfile

import numpy as np
import pytest

from gsat.data.fetching import archives


def tar_of(path, *members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content, *changes in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in changes[0].items() if changes else ():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(content))
    return path


def zip_of(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, *mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = (mode[0] if mode else stat.S_IFREG | 0o644) << 16
            archive.writestr(info, content)
    return path


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_members_are_taken_out(tmp_path, pack):
    archive = pack(tmp_path / "archive", ("top/a.txt", b"first"), ("top/b.txt", b"second"), ("c", b""))
    archives.extract(archive, {"top/b.txt": tmp_path / "out" / "b", "c": tmp_path / "out" / "c"})
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {"b": b"second", "c": b""}
    assert (tmp_path / "out" / "b").stat().st_mode & 0o111 == 0


HOSTILE = [
    (tar_of, ("/etc/evil", b"x"), "has an absolute path"),
    (zip_of, ("/etc/evil", b"x"), "has an absolute path"),
    (tar_of, ("C:/evil", b"x"), "has an absolute path"),
    (tar_of, ("a/../../evil", b"x"), r'climbs out with "\.\."'),
    (zip_of, ("../evil", b"x"), r'climbs out with "\.\."'),
    (zip_of, ("a\\..\\evil", b"x"), r'climbs out with "\.\."'),
    (tar_of, ("a\\evil", b"x"), "has a name that depends on the platform"),
    (tar_of, ("evil", b"", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}), "is a link"),
    (tar_of, ("evil", b"", {"type": tarfile.LNKTYPE, "linkname": "good"}), "is a link"),
    (zip_of, ("evil", b"/etc/passwd", stat.S_IFLNK | 0o777), "is a link"),
    (tar_of, ("evil", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}), "is a device"),
    (tar_of, ("evil", b"", {"type": tarfile.FIFOTYPE}), "is a device"),
    (zip_of, ("evil", b"", stat.S_IFBLK | 0o666), "is a device"),
    (tar_of, ("good", b"again"), "is there twice"),
    (tar_of, ("evil", bytes(5_000)), "makes it larger than 4000 bytes, unpacked"),
    (zip_of, ("evil", bytes(5_000)), "makes it larger than 4000 bytes, unpacked"),
]


@pytest.mark.parametrize(("pack", "member", "why"), HOSTILE)
def test_a_hostile_archive_is_refused_before_anything_is_written(tmp_path, pack, member, why):
    archive = pack(tmp_path / "archive", ("good", b"harmless"), member)
    message = (
        rf"{re.escape(str(archive))} must be an archive of plain files, got the member .*, which {why}; not unpacked"
    )
    with pytest.raises(ValueError, match=message):
        archives.extract(archive, {"good": tmp_path / "out" / "good"}, most_bytes=4_000)
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]


def test_too_many_members_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    archive = zip_of(tmp_path / "archive", *((f"m{i}", b"") for i in range(4)))
    with pytest.raises(ValueError, match="'m3', which is one of more than 3; not unpacked"):
        archives.extract(archive, {"m0": tmp_path / "out"})


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_a_member_that_is_not_there(tmp_path, pack):
    archive = pack(tmp_path / "archive", ("a", b"1"))
    with pytest.raises(ValueError, match=r"archive must hold 'b', it holds 'a'"):
        archives.extract(archive, {"b": tmp_path / "out"})


@pytest.mark.parametrize("pack", [tar_of, zip_of])
@pytest.mark.parametrize("kept", [0.0, 0.5])
def test_a_cut_archive_is_told(tmp_path, pack, kept):
    archive = pack(tmp_path / "archive", ("a", np.random.default_rng(0).bytes(9_000)))
    archive.write_bytes(archive.read_bytes()[: int(kept * archive.stat().st_size)])
    with pytest.raises(ValueError, match=r"archive must be a whole archive file, got"):
        archives.extract(archive, {"a": tmp_path / "out"})
    assert [path.name for path in tmp_path.iterdir()] == ["archive"]


def test_a_zip_member_that_is_longer_than_it_says(tmp_path):
    archive = zip_of(tmp_path / "archive", ("a", bytes(1000)))
    content = archive.read_bytes()
    archive.write_bytes(content.replace((1000).to_bytes(4, "little"), (900).to_bytes(4, "little")))
    with pytest.raises(ValueError, match="archive must be"):
        archives.extract(archive, {"a": tmp_path / "out"})
    assert not (tmp_path / "out").exists()
