from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats import paths
from kafkats.errors import KafkatsError, ReadOnly, Vanished
from kafkats.logdir import partition
from kafkats.logdir.partition import printable, scan_partition

BASE = paths.segment_file(0, paths.LOG)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "my.topic-with_dashes-12"
    made.mkdir()
    for base in (0, 1000):
        for kind in (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX):
            (made / paths.segment_file(base, kind)).write_bytes(b"x" * (base // 100 + 1))
    return made


def kinds(folder: Path) -> list[tuple[str, str]]:
    return [(f.file, f.kind) for f in scan_partition(folder).findings]


def test_families(folder: Path) -> None:
    for name in (paths.LEADER_EPOCH, paths.PARTITION_METADATA, paths.LEADER_EPOCH + ".tmp"):
        (folder / name).touch()
    (folder / paths.segment_file(1000, paths.SNAPSHOT)).touch()
    (folder / paths.segment_file(1000, paths.TXN_INDEX)).touch()
    os.utime(folder / BASE, ns=(1, 1_234_567_890_123_456_789))
    found = scan_partition(folder)
    assert found.name == paths.PartitionName("my.topic-with_dashes", 12, "")
    assert str(found.name) == "my.topic-with_dashes-12"
    assert found.findings == ()
    assert [s.base_offset for s in found.segments] == [0, 1000]
    assert found.segments[0].log.mtime_ns == 1_234_567_890_123_456_789
    assert set(found.segments[1].files) == set(paths.SEGMENT_KINDS)
    assert found.segments[1].log.size == 11
    assert [f.name for f in found.others] == [
        paths.LEADER_EPOCH,
        paths.LEADER_EPOCH + ".tmp",
        paths.PARTITION_METADATA,
    ]


def test_snapshots_between_segments_are_no_orphans(folder: Path) -> None:
    for base in (500, 1234):
        (folder / paths.segment_file(base, paths.SNAPSHOT)).touch()
    found = scan_partition(folder)
    assert found.findings == ()
    assert [f.name for f in found.others] == [
        paths.segment_file(b, paths.SNAPSHOT) for b in (500, 1234)
    ]


def test_orphans(folder: Path) -> None:
    for kind in (paths.OFFSET_INDEX, paths.TIME_INDEX, paths.TXN_INDEX):
        (folder / paths.segment_file(500, kind)).touch()
    assert {kind for _, kind in kinds(folder)} == {"orphan"}
    assert len(kinds(folder)) == 3
    assert len(scan_partition(folder).segments) == 2


def test_a_snapshot_without_any_log_is_an_orphan(tmp_path: Path) -> None:
    (tmp_path / paths.segment_file(5, paths.SNAPSHOT)).touch()
    assert kinds(tmp_path) == [(paths.segment_file(5, paths.SNAPSHOT), "orphan")]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("backup.log", "stops-the-broker"),
        ("0x10.log", "stops-the-broker"),
        (".log", "stops-the-broker"),
        ("99999999999999999999.log", "stops-the-broker"),
        ("old.snapshot", "stops-the-broker"),
        ("zz.timeindex", "stops-the-broker"),
        ("zz.txnindex", "stops-the-broker"),
        ("xx.log.cleaned", "stops-the-broker"),
        ("anything.cleaned", "stops-the-broker"),
        ("xx.log.swap", "stops-the-broker"),
        ("copy of 00000000000000000000.log", "stops-the-broker"),
        ("zz.log.deleted", "transient"),
        ("00000000000000000000.log.deleted", "transient"),
        ("00000000000000000000.index.cleaned", "transient"),
        ("00000000000000000000.timeindex.swap", "transient"),
        ("00000000000000001000.snapshot.deleted", "transient"),
        ("5.log", "stray"),
        ("00000000000000000000.old.log", "stray"),
        ("00000000000000000000.log.bak", "stray"),
        ("00000000000000000000.log.tmp", "stray"),
        ("notes.txt", "stray"),
        ("übersicht.txt", "stray"),
    ],
)
def test_names(folder: Path, name: str, kind: str) -> None:
    (folder / name).touch()
    assert kinds(folder) == [(name, kind)]
    assert len(scan_partition(folder).segments) == 2


def test_what_is_no_file(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / paths.segment_file(2000, paths.LOG)).symlink_to(folder / BASE)
    (folder / paths.segment_file(2000, paths.OFFSET_INDEX)).touch()
    os.mkfifo(folder / paths.segment_file(3000, paths.LOG))
    (folder / paths.segment_file(4000, paths.TXN_INDEX)).symlink_to("nowhere")
    (folder / paths.segment_file(5000, paths.LOG)).symlink_to(paths.segment_file(5000, paths.LOG))
    found = dict(kinds(folder))
    assert found.pop(paths.segment_file(2000, paths.LOG)) == "stray"  # Kafka follows a link
    assert found.pop("sub") == "stray"
    missing = [(3000, paths.LOG), (4000, paths.TXN_INDEX), (5000, paths.LOG)]
    assert found == {paths.segment_file(base, kind): "unreadable" for base, kind in missing}
    assert len(scan_partition(folder).segments) == 2


@pytest.mark.parametrize("name", [paths.PARTITION_METADATA, paths.LEADER_EPOCH])
def test_no_file_in_the_place_of_a_small_one(folder: Path, name: str) -> None:
    os.mkfifo(folder / name)
    assert kinds(folder) == [(name, "unreadable")]


def test_a_name_that_is_not_utf8_can_be_printed(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).touch()
    assert kinds(folder) == [("caf\\xe9.txt", "stray")]


def test_a_copy_under_another_name(folder: Path) -> None:
    moved = folder.rename(folder.parent / "incident")
    found = scan_partition(moved)
    assert (found.name, len(found.segments)) == (None, 2)


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(Vanished):
        scan_partition(tmp_path / "gone-0")


def test_files_that_come_and_go_meanwhile(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A running broker: one segment is rolled, one deleted, and one file goes between listing and looking."""
    rolled, deleted, gone = (paths.segment_file(b, paths.OFFSET_INDEX) for b in (2000, 3000, 4000))
    for name in (rolled, deleted, gone):
        (folder / name).touch()
    look = partition._regular

    def racing(entry: os.DirEntry[str]) -> partition.FileFacts | None:
        if entry.name == gone:
            (folder / gone).unlink()
        facts = look(entry)
        if entry.name == deleted:
            (folder / deleted).unlink()
        if entry.name == rolled:
            (folder / rolled).with_suffix(".log").write_bytes(b"new")
        return facts

    listed = sorted(os.scandir(folder), key=lambda e: e.name)

    class Listing:
        def __enter__(self) -> list[os.DirEntry[str]]:
            return listed

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(partition, "_regular", racing)
    monkeypatch.setattr(partition.os, "scandir", lambda _: Listing())
    found = scan_partition(folder)
    assert [(f.file, f.kind) for f in found.findings] == [(deleted, "vanished"), (gone, "vanished")]
    assert [s.base_offset for s in found.segments] == [0, 1000, 2000]
    assert found.segments[2].log.size == 3


def test_a_file_that_cannot_be_looked_at(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = partition.gone_or_unreadable("x", PermissionError(13, "Permission denied"))
    assert (finding.kind, finding.reason) == ("unreadable", "Permission denied")

    def refused(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(partition.os, "scandir", refused)
    with pytest.raises(ReadOnly):
        scan_partition(folder)


@given(
    st.binary(min_size=1, max_size=60).filter(
        lambda b: b"\0" not in b and b"/" not in b and b not in {b".", b".."}
    )
)
def test_any_name_gives_facts_or_a_finding(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / os.fsdecode(raw)).touch()
    try:
        found = scan_partition(folder)
    except KafkatsError:
        pytest.fail("a name is no reason to fail")
    assert found.segments or found.others or found.findings
    for f in found.findings:
        f.file.encode()
        f.reason.encode()


def test_printable_leaves_text_alone() -> None:
    assert printable("größe-0") == "größe-0"
