"""A parcel holds what was agreed on, and is unpacked nowhere else."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from kafkats.detached import parcels
from kafkats.errors import CorruptFile, KafkatsError, Refused
from tests.detached.asking import packed

HELLO = hashlib.sha256(b"hello").hexdigest()


def made(
    name: str,
    content: bytes = b"hello",
    kind: bytes = tarfile.REGTYPE,
    mode: int = 0o644,
    **more: str,
) -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as parcel:
        member = tarfile.TarInfo(name)
        member.pax_headers = more
        member.type, member.linkname, member.mode = kind, "/etc/passwd", mode
        member.size = len(content) if kind == tarfile.REGTYPE else 0
        parcel.addfile(member, io.BytesIO(content))
    stream.seek(0)
    return stream


def test_files_arrive_with_content_times_and_mode(tmp_path: Path) -> None:
    (here := tmp_path / "here" / "p" / "deep").mkdir(parents=True)
    (here / 'it\'s a "file" ; $(x)').write_bytes(b"hello")
    (here / "empty").touch(mode=0o600)
    os.utime(here / "empty", ns=(1_700_000_000_123_456_000, 1_700_000_000_123_456_000))
    files = parcels.listed(tmp_path / "here", [tmp_path / "here" / "p"])
    assert files['p/deep/it\'s a "file" ; $(x)'] == HELLO
    there = tmp_path / "there"
    there.mkdir()
    stream = io.BytesIO(packed(tmp_path / "here", files))
    parcels.unpack(stream, there, [there / "p"], files)
    assert parcels.listed(there, [there / "p"]) == files
    for name in files:
        one, other = (tmp_path / "here" / name).stat(), (there / name).stat()
        assert one.st_mode == other.st_mode
        assert abs(one.st_mtime_ns - other.st_mtime_ns) < 1000


@pytest.mark.parametrize(
    ("stream", "agreed", "kind"),
    [
        (made("p/b"), "p/a", CorruptFile),
        (made("../a"), "../a", Refused),
        (made("/tmp/a"), "/tmp/a", Refused),
        (made("p/../../a"), "p/../../a", Refused),
        (made("q/a"), "q/a", Refused),
        (made("p/link/a"), "p/link/a", Refused),
        (made("p/a", kind=tarfile.SYMTYPE), "p/a", CorruptFile),
        (made("p/a", kind=tarfile.LNKTYPE), "p/a", CorruptFile),
        (made("p/a", kind=tarfile.FIFOTYPE), "p/a", CorruptFile),
        (made("p/a", b"other"), "p/a", CorruptFile),
        (made("p/a", mtime="inf"), "p/a", CorruptFile),
        (made("p/a", mtime="nan"), "p/a", CorruptFile),
        (made("a", path="p/\0a"), "p/\0a", CorruptFile),
        (made("p/a", comment="x" * 300_000), "p/a", CorruptFile),
        (io.BytesIO(made("p/a").getvalue()[:40]), "p/a", CorruptFile),
        (io.BytesIO(gzip.compress(b"")), "p/a", CorruptFile),
        (io.BytesIO(b""), "p/a", CorruptFile),
    ],
)
def test_nothing_else_is_unpacked(
    tmp_path: Path, stream: io.BytesIO, agreed: str, kind: type[KafkatsError]
) -> None:
    (folder := tmp_path / "runs").mkdir()
    (folder / "p").mkdir()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (folder / "p" / "link").symlink_to(elsewhere)
    with pytest.raises(kind):
        parcels.unpack(stream, folder, [folder / "p"], {agreed: HELLO})
    assert [one for one in tmp_path.rglob("*") if one.is_file()] == []


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError("reset by peer")])
def test_a_connection_that_breaks_in_a_file_is_no_fault_of_the_disk(
    tmp_path: Path, error: OSError
) -> None:
    whole = made("p/a", os.urandom(1 << 20)).getvalue()

    class Breaking(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell() > len(whole) // 2:
                raise error
            return super().read(size)

    with pytest.raises(CorruptFile, match="the parcel is incomplete") as told:
        parcels.unpack(Breaking(whole), tmp_path, [tmp_path / "p"], {"p/a": HELLO})
    assert told.value.path == str(tmp_path)
    assert not list((tmp_path / "p").iterdir())


def test_no_file_of_a_parcel_can_be_written_by_everybody(tmp_path: Path) -> None:
    parcels.unpack(made("a", mode=0o6777), tmp_path, [tmp_path / "a"], {"a": HELLO})
    assert (tmp_path / "a").stat().st_mode & 0o7777 == 0o664


def test_a_link_in_place_of_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (folder := tmp_path / "runs").mkdir()
    (inside := folder / "kept").write_text("kept")
    (folder / "p").mkdir()
    (folder / "p" / "a").symlink_to(inside)
    parcels.unpack(made("p/a"), folder, [folder / "p"], {"p/a": HELLO})
    assert inside.read_text() == "kept"
    assert (folder / "p" / "a").read_text() == "hello"


def test_more_than_a_parcel_holds_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parcels, "MOST_BYTES", 4)
    (tmp_path / "a").write_bytes(b"hello")
    with pytest.raises(Refused, match="not sent"):
        parcels.listed(tmp_path, [tmp_path / "a"])
    with pytest.raises(Refused, match="not sent"):
        parcels.unpack(made("b"), tmp_path, [tmp_path / "b"], {"b": HELLO})
    assert not (tmp_path / "b").exists()


def test_links_are_not_sent(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a").write_bytes(b"hello")
    (tmp_path / "p" / "b").symlink_to("a")
    (tmp_path / "p" / "c").symlink_to(tmp_path)
    assert parcels.listed(tmp_path, [tmp_path / "p"]) == {"p/a": HELLO}
