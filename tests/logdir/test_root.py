from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkats import paths
from kafkats.errors import BadInput, UsageError, Vanished
from kafkats.logdir.location import locate
from kafkats.logdir.root import list_root, read_root
from kafkats.paths import PartitionName
from tests.builders.directories import scan_root

LOG = paths.segment_file(0, paths.LOG)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "kafka-logs-1"  # named like a partition, as many roots are
    for name in ("orders-0", "a.b-c_d-1-17"):
        (made / name).mkdir(parents=True)
        (made / name / LOG).touch()
    (made / paths.RECOVERY_POINT).write_text("0\n1\norders 0 12\n")
    return made


def kinds(root: Path) -> list[tuple[str, str]]:
    return [(f.file, f.kind) for f in scan_root(root).findings]


def test_root(root: Path) -> None:
    (root / paths.CLEAN_SHUTDOWN).touch()
    found = scan_root(root)
    assert found.findings == ()
    assert found.clean_shutdown
    assert found.meta is None
    assert [p.name for p in found.partitions] == [
        PartitionName("a.b-c_d-1", 17, ""),
        PartitionName("orders", 0, ""),
    ]
    assert found.checkpoints == {paths.RECOVERY_POINT: {PartitionName("orders", 0, ""): 12}}
    assert read_root(root).partitions == ()


@pytest.mark.parametrize(
    "name",
    [
        "backup",
        "lost+found",
        ".snapshots",
        "my-backup",
        "orders-",
        "-0",
        "orders-0-delete",
        "orders-99999999999",
    ],
)
def test_directories_that_stop_a_broker(root: Path, name: str) -> None:
    (root / name).mkdir()
    assert kinds(root) == [(name, "stops-the-broker")]
    assert len(scan_root(root).partitions) == 2


def test_a_directory_that_a_broker_loads_though_no_topic_can_be_called_so(root: Path) -> None:
    (root / "tópico-0").mkdir()
    assert kinds(root) == [("tópico-0", "stray")]
    assert len(scan_root(root).partitions) == 2


@pytest.mark.parametrize("state", ["delete", "future", "stray"])
def test_partitions_that_move(root: Path, state: str) -> None:
    name = f"orders-1.0123456789abcdef0123456789abcdef-{state}"
    (root / name).mkdir()
    assert kinds(root) == [(name, "transient")]
    assert PartitionName("orders", 1, state) in [p.name for p in scan_root(root).partitions]


def test_what_is_left_alone(root: Path) -> None:
    for name in (paths.CLUSTER_METADATA, paths.REMOTE_INDEX_CACHE):
        (root / name).mkdir()
        (root / name / "anything.log").touch()
    for name in (
        paths.LOCK,
        "bootstrap.checkpoint",
        "meta.properties.tmp",
        "recovery-point-offset-checkpoint.tmp",
    ):
        (root / name).touch()
    assert kinds(root) == []
    assert len(scan_root(root).partitions) == 2


def test_foreign_files_and_links(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (root / "notes.txt").touch()
    (root / "linked-0").symlink_to(elsewhere)
    (root / "linked").symlink_to(elsewhere)
    (root / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(root / "pipe")
    assert sorted(kinds(root)) == [
        ("dangling", "stray"),
        ("linked", "stops-the-broker"),
        ("notes.txt", "stray"),
        ("pipe", "stray"),
    ]
    names = list_root(root)
    assert names.linked == ("linked-0",)
    assert names.loaded == tuple(sorted([*names.partitions, "linked-0"]))


def test_a_linked_file_of_a_root_is_read(root: Path, tmp_path: Path) -> None:
    sound = scan_root(root).checkpoints
    elsewhere = (root / paths.RECOVERY_POINT).rename(tmp_path / "elsewhere")
    (root / paths.RECOVERY_POINT).symlink_to(elsewhere)
    (root / paths.CLEAN_SHUTDOWN).symlink_to(elsewhere)
    (root / paths.META_PROPERTIES).symlink_to(tmp_path / "nowhere")
    found = scan_root(root)
    assert (found.checkpoints, found.clean_shutdown) == (sound, True)
    assert {f.kind for f in found.findings} == {"stray"}


def test_a_pipe_in_the_place_of_a_roots_file_is_unreadable(root: Path) -> None:
    (root / paths.RECOVERY_POINT).unlink()
    names = [paths.CLEAN_SHUTDOWN, paths.META_PROPERTIES, paths.RECOVERY_POINT]
    for name in names:
        os.mkfifo(root / name)
    assert kinds(root) == [(name, "unreadable") for name in names]
    assert scan_root(root).clean_shutdown  # for a broker, anything of this name is a marker


def test_a_name_that_is_not_utf8(root: Path) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/b\xfcro")).mkdir()
    assert kinds(root) == [("b\\xfcro", "stops-the-broker")]


def test_small_files_that_cannot_be_read(root: Path) -> None:
    (root / paths.RECOVERY_POINT).write_text("0\n2\norders 0 12\n")
    (root / paths.META_PROPERTIES).write_text("version=7\n")
    found = scan_root(root)
    assert [(f.file, f.kind, f.position) for f in found.findings] == [
        (paths.META_PROPERTIES, "unreadable", 0),
        (paths.RECOVERY_POINT, "unreadable", 2),
    ]
    assert found.checkpoints == {}
    assert found.meta is None


def test_a_partition_that_goes_meanwhile(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tests.builders.directories as module

    listed = list_root(root)
    (root / "orders-0" / LOG).unlink()
    (root / "orders-0").rmdir()
    monkeypatch.setattr(module, "list_root", lambda _: listed)
    assert kinds(root) == [("orders-0", "vanished")]


def test_no_root(tmp_path: Path) -> None:
    with pytest.raises(Vanished):
        scan_root(tmp_path / "gone")


def test_locate(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert locate(root) == ("root", root, root, None, None)
    assert locate(tmp_path / "link").kind == "root"
    assert locate(root / "orders-0") == (
        "partition",
        root / "orders-0",
        root,
        root / "orders-0",
        None,
    )
    place = locate(root / "orders-0" / LOG)
    assert place == ("segment", root / "orders-0" / LOG, root, root / "orders-0", 0)


def test_locate_copies(root: Path, tmp_path: Path) -> None:
    copy = (root / "orders-0").rename(tmp_path / "incident")
    assert locate(copy) == ("partition", copy, None, copy, None)
    assert locate(copy / LOG).root is None
    (root / paths.RECOVERY_POINT).unlink()
    assert locate(root).kind == "root"  # by its other partition
    (root / "a.b-c_d-1-17" / LOG).unlink()
    with pytest.raises(UsageError, match="neither"):
        locate(root)


def test_locate_without_a_path_above(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "orders-0")
    assert locate(".").root == root
    assert locate(LOG).base_offset == 0


def test_locate_says_what_it_looked_for(tmp_path: Path) -> None:
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "text.log").touch()
    (tmp_path / paths.segment_file(0, paths.TIME_INDEX)).touch()
    os.mkfifo(tmp_path / paths.segment_file(7, paths.LOG))
    (tmp_path / paths.CLUSTER_METADATA).mkdir()
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "backup-2024").mkdir()
    cases = {
        "gone": "does not exist",
        "text.log": "named like 00000000000000000000.log",
        paths.segment_file(0, paths.TIME_INDEX): "dump",
        paths.segment_file(7, paths.LOG): "neither a directory nor a segment",
        paths.CLUSTER_METADATA: "KRaft",
        f"{paths.CLUSTER_METADATA}/{LOG}": "KRaft",
        "names": "no checkpoint file",
        "n" * 300: "File name too long",
    }
    for name, words in cases.items():
        with pytest.raises((UsageError, BadInput, Exception), match=words) as raised:
            locate(tmp_path / name)
        assert raised.type.__module__ == "kafkats.errors", name
    with pytest.raises(BadInput, match="empty directory"):
        locate(tmp_path / "empty-0")
