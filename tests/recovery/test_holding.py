"""Which findings hold a broker's start: a table of what log directories show, and what follows."""

from __future__ import annotations

from typing import Any

import pytest

from kafkats.recovery.holding import (
    DEFAULT,
    KINDS,
    Disk,
    Noted,
    Owner,
    Root,
    hold_words,
    holds,
    of_kinds,
)

DISK = Disk("/data", 7)
OTHER = Disk("/data", 8)
BELOW = Disk("/", 1)
IN_CONTAINER = OTHER._replace(root="/mnt/disk1")
XFS, OTHER_XFS = (Disk("/data", 0, uuid) for uuid in ("7a-1", "7a-2"))
XFS_IN_CONTAINER = XFS._replace(uuid="")
HAD = Noted(12, "c", 1, "dir-a", DISK, "/state/recover.json")


def root(**fields: Any) -> Root:
    """A log directory of node 1 with 12 partitions, with `fields` instead."""
    there = Root("/data/a", "there", 12, "c", 1, "dir-a", True, True, disk=DISK)
    return there._replace(**fields)


def bare(state: str, disk: Disk | None = DISK, **fields: Any) -> Root:
    """A log directory with nothing in it."""
    return root(
        state=state,
        partitions=0,
        cluster=None,
        node=None,
        directory=None,
        has_meta=False,
        has_checkpoints=False,
        disk=disk,
        **fields,
    )


@pytest.mark.parametrize(
    ("one", "noted", "kinds"),
    [
        pytest.param(root(), [HAD], [], id="as it was"),
        pytest.param(root(), [], [], id="no record yet"),
        pytest.param(bare("absent"), [], [], id="a new broker's directory"),
        pytest.param(bare("empty"), [], [], id="an added disk"),
        pytest.param(bare("empty", OTHER), [HAD], [], id="a replaced disk"),
        pytest.param(bare("absent", OTHER), [HAD], [], id="a replaced disk, with the directory below it"),
        pytest.param(bare("absent", BELOW), [HAD], ["absent"], id="a mount that failed"),
        pytest.param(
            bare("absent", IN_CONTAINER), [HAD], ["absent"], id="a mount that failed below a container's"
        ),
        pytest.param(
            bare("empty", IN_CONTAINER), [HAD], ["emptied"], id="the same, with the host's mount point"
        ),
        pytest.param(
            bare("absent", OTHER), [HAD, HAD._replace(disk=OTHER._replace(mount="/data2"))], ["absent"],
            id="a swapped disk",
        ),
        pytest.param(
            bare("absent", OTHER), [HAD, HAD._replace(disk=OTHER)], ["absent"], id="one record is newer"
        ),
        pytest.param(
            bare("empty", OTHER_XFS), [HAD._replace(disk=XFS)], [], id="a replaced disk with XFS"
        ),
        pytest.param(
            bare("empty", XFS._replace(mount="/data1")), [HAD._replace(disk=XFS._replace(mount="/data1"))],
            ["emptied"], id="XFS under another device's number",
        ),
        pytest.param(
            bare("empty", XFS_IN_CONTAINER), [HAD._replace(disk=XFS_IN_CONTAINER)], ["emptied"],
            id="XFS in a container",
        ),
        pytest.param(
            bare("empty", OTHER_XFS), [HAD], ["emptied"], id="XFS, and a record without a UUID"
        ),
        pytest.param(
            bare("empty", OTHER), [HAD._replace(disk=XFS_IN_CONTAINER)], [], id="XFS before, not now"
        ),
        pytest.param(bare("absent"), [HAD], ["absent"], id="deleted"),
        pytest.param(bare("empty", BELOW), [HAD], ["emptied"], id="the mount point of a mount that failed"),
        pytest.param(bare("empty"), [HAD], ["emptied"], id="emptied by hand"),
        pytest.param(bare("empty", None), [HAD], ["emptied"], id="no mount is known"),
        pytest.param(bare("empty"), [HAD._replace(partitions=0)], [], id="it never had a partition"),
        pytest.param(
            bare("empty"), [HAD._replace(partitions=0), HAD], ["emptied"], id="one of two records knows"
        ),
        pytest.param(
            bare("empty", BELOW), [HAD._replace(disk=BELOW)], ["emptied"], id="on the root file system"
        ),
        pytest.param(
            root(partitions=0, directory="dir-b", has_checkpoints=False), [HAD], [], id="formatted again"
        ),
        pytest.param(
            root(partitions=0, has_checkpoints=False), [HAD], ["emptied"], id="only meta.properties is left"
        ),
        pytest.param(root(partitions=0), [HAD], [], id="its last topic was deleted"),
        pytest.param(root(partitions=0, metadata_only=True), [HAD], [], id="KRaft's own directory"),
        pytest.param(root(missing=("t-0",)), [HAD], ["lacks-partitions"], id="a partition is gone"),
        pytest.param(root(set_aside=12), [HAD], ["sets-aside"], id="a cluster with ZooKeeper"),
        pytest.param(root(node=2), [HAD], ["other-broker"], id="another node's disk"),
        pytest.param(root(cluster="d"), [], ["other-broker"], id="another cluster's disk"),
        pytest.param(root(node=None, cluster=None), [], [], id="meta.properties says nothing"),
    ],
)  # fmt: skip
def test_a_directory_holds_or_starts(one: Root, noted: list[Noted], kinds: list[str]) -> None:
    found = holds([one], Owner("c", 1), {one.log_dir: noted})
    assert [held.kind for held in found] == kinds
    assert all(held.log_dir == "/data/a" and held.reason for held in found)


@pytest.mark.parametrize(
    ("one", "remedy"),
    [
        (bare("absent"), "start once with --hold other-broker,emptied,lacks-partitions,sets-aside"),
        (bare("empty"), "delete /state/recover.json, or start once with --hold other-broker,absent,lacks"),
        (root(missing=("t-0",)), "start once with --hold other-broker,absent,emptied,sets-aside"),
        (root(set_aside=1), "kafkats help kafka-4"),
    ],
)  # fmt: skip
def test_a_finding_says_what_helps(one: Root, remedy: str) -> None:
    [held] = holds([one], Owner("c", 1), {one.log_dir: [HAD]})
    assert remedy in held.remedy


def test_swapped_disks_hold_both_directories_and_a_replaced_one_of_several_none() -> None:
    disks = [Disk(f"/data{n}", n) for n in (1, 2)]
    noted = {f"{disk.mount}/kafka{disk.fsid}": [HAD._replace(disk=disk)] for disk in disks}
    swapped = [
        bare("absent", Disk(here.mount, there.fsid), log_dir=log_dir)
        for log_dir, here, there in zip(noted, disks, disks[::-1], strict=True)
    ]
    assert [one.kind for one in holds(swapped, Owner("c", 1), noted)] == ["absent", "absent"]
    new = Disk("/data1", 3)
    beside = {"/data1/a": [HAD._replace(disk=disks[0])], "/data1/b": [HAD._replace(disk=new)]}
    replaced = [
        bare("empty", new, log_dir="/data1/a"),
        root(log_dir="/data1/b", directory="dir-b", disk=new),
    ]
    assert holds(replaced, Owner("c", 1), beside) == []


def test_the_odd_one_of_three_disks_is_another_cluster_s() -> None:
    roots = [root(log_dir=f"/data/{n}", cluster=c) for n, c in enumerate("cdc")]
    [held] = holds(roots, Owner(), {})
    assert (held.kind, held.log_dir) == ("other-broker", "/data/1")


def test_only_named_findings_hold() -> None:
    found = holds([root(missing=("t-0",)), root(log_dir="/b", node=9)], Owner("c", 1), {})
    assert {one.kind for one in found} == {"lacks-partitions", "other-broker"}
    assert [one.kind for one in of_kinds(found, ("other-broker",))] == ["other-broker"]
    assert of_kinds(found, hold_words(["none"])) == []


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        (["default"], DEFAULT),
        ([], DEFAULT),
        (["none"], ()),
        (["will-not-start"], ("will-not-start",)),
        (["loses-records", "default"], (*DEFAULT, "loses-records")),
        (list(KINDS), KINDS),
    ],
)
def test_words_of_hold(words: list[str], kinds: tuple[str, ...]) -> None:
    assert hold_words(words) == kinds


@pytest.mark.parametrize("words", [["losses"], ["none", "absent"], [""]])
def test_mistyped_words_of_hold(words: list[str]) -> None:
    with pytest.raises(ValueError, match="none"):
        hold_words(words)
