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
        pytest.param(root(node=2), [HAD], ["other-broker"], id="another node's disk"),
        pytest.param(root(cluster="d"), [], ["other-broker"], id="another cluster's disk"),
        pytest.param(root(node=None, cluster=None), [], [], id="meta.properties says nothing"),
    ],
)  # fmt: skip
def test_a_directory_holds_or_starts(one: Root, noted: list[Noted], kinds: list[str]) -> None:
    found = holds([one], Owner("c", 1), {one.log_dir: noted})
    assert [held.kind for held in found] == kinds
    assert all(held.log_dir == "/data/a" and held.reason for held in found)


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
