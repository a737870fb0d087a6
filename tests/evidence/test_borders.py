"""Where a log begins and ends, against what files say: the rules in tables, and what is healthy for Kafka."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats import paths
from kafkats.evidence.borders import (
    Witness,
    empty_findings,
    end_findings,
    first_findings,
    gap_findings,
)
from kafkats.evidence.claims import Claims
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.logdir.checkpoints import EpochStart, encode_offsets, read_offsets
from kafkats.paths import PartitionName
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.missing import missing_records
from kafkats.plans.units import list_units
from tests.golden import Unpacked

CLEAN = Claims(rooted=True, clean=True, first_base=0)
KILLED = Claims(rooted=True, clean=False, first_base=0)
COPIED = Claims(first_base=0)
ZERO = [EpochStart(0, 0)]
DANGER, STATE, UNKNOWN = "missing-records", "end-not-flushed", "cannot-be-told"
GAP = "gap-not-flushed"


@pytest.mark.parametrize(
    ("claims", "kinds"),
    [
        (
            CLEAN._replace(recovery_point=150, high_watermark=150, log_start=3, last_snapshot=150),
            [],
        ),
        (CLEAN._replace(recovery_point=151), [DANGER]),
        (CLEAN._replace(high_watermark=151), [DANGER]),
        (CLEAN._replace(log_start=151), [DANGER, "segments-deleted"]),
        (CLEAN._replace(last_snapshot=151), [DANGER]),
        (KILLED._replace(recovery_point=100, high_watermark=151), [STATE]),
        (KILLED._replace(recovery_point=100, last_snapshot=151), [STATE]),
        (KILLED._replace(recovery_point=151, high_watermark=160), [DANGER]),
        (KILLED._replace(high_watermark=151), [STATE]),
        (KILLED._replace(high_watermark=151, live=True), []),
        (CLEAN._replace(high_watermark=151, live=True), []),
        (CLEAN._replace(high_watermark=151, unsettled=True, end_settled=False), []),
        (CLEAN._replace(high_watermark=151, unsettled=True), [DANGER]),  # swaps of older segments
        (COPIED._replace(last_snapshot=151), [DANGER]),
    ],
)
def test_the_end(claims: Claims, kinds: list[str]) -> None:
    assert [f.kind for f in end_findings(claims, ZERO, "x.log", 150)] == kinds


def test_the_end_names_every_witness_and_the_widest_range() -> None:
    claims = CLEAN._replace(recovery_point=160, high_watermark=155)
    (found,) = end_findings(
        claims, [EpochStart(0, 0), EpochStart(4, 152)], "x.log", 150, [Witness("x.index", 151)]
    )
    assert found.reason == (
        "offsets 150 to 159 are missing: the log ends at offset 150, but recovery-point-offset-checkpoint says 160,"
        " replication-offset-checkpoint says 155, leader-epoch-checkpoint says 152, x.index says 151"
    )
    assert (found.expected, found.found) == ("160", "150")


@pytest.mark.parametrize(
    ("claims", "epochs", "kinds"),
    [
        (CLEAN, ZERO, []),
        (CLEAN._replace(first_base=50), ZERO, [DANGER]),
        (KILLED._replace(first_base=50), ZERO, [DANGER]),
        (KILLED._replace(first_base=50, deleting=True), ZERO, [UNKNOWN]),
        (CLEAN._replace(first_base=50), [EpochStart(0, 50)], []),
        (CLEAN._replace(first_base=50), [EpochStart(3, 70)], [UNKNOWN]),
        (CLEAN._replace(first_base=50), [], [UNKNOWN]),
        (CLEAN._replace(first_base=50, log_start=60), [EpochStart(0, 60)], []),
        (CLEAN._replace(first_base=50, log_start=20), [EpochStart(0, 20)], [DANGER]),
        (CLEAN._replace(first_base=50, log_start=0, tiered=True), ZERO, [UNKNOWN]),
        (CLEAN._replace(first_base=50, tiered=True), ZERO, [DANGER]),
        (CLEAN._replace(first_base=50, live=True), ZERO, []),
        (CLEAN._replace(first_base=50, unsettled=True), ZERO, []),
    ],
)
def test_the_beginning(claims: Claims, epochs: list[EpochStart], kinds: list[str]) -> None:
    assert [f.kind for f in first_findings(claims, epochs, "x.log")] == kinds


@pytest.mark.parametrize(
    ("claims", "compacted", "kinds"),
    [
        (CLEAN, False, [DANGER]),
        (CLEAN, True, [UNKNOWN]),
        (CLEAN, None, [UNKNOWN]),
        (KILLED._replace(recovery_point=200), False, [DANGER]),
        (KILLED._replace(recovery_point=100), False, [GAP]),
        (COPIED, False, [DANGER]),
        (CLEAN._replace(live=True), False, []),
    ],
)
def test_a_gap(claims: Claims, compacted: bool | None, kinds: list[str]) -> None:
    assert [f.kind for f in gap_findings(claims, "x.log", 100, 120, compacted=compacted)] == kinds
    assert list(gap_findings(claims, "x.log", 120, 120, compacted=compacted)) == []


def test_no_log_at_all() -> None:
    none = CLEAN._replace(first_base=-1)
    assert [f.kind for f in empty_findings(none, [], "t-0")] == [UNKNOWN]
    assert [
        f.kind for f in empty_findings(none._replace(recovery_point=0, high_watermark=0), [], "t-0")
    ] == [UNKNOWN]
    assert [f.kind for f in empty_findings(none._replace(recovery_point=9), [], "t-0")] == [DANGER]
    assert [
        f.kind for f in empty_findings(KILLED._replace(first_base=-1, high_watermark=9), [], "t-0")
    ] == [STATE]


def test_indexes_of_a_log_that_is_gone_tell_of_its_records() -> None:
    none, index = KILLED._replace(first_base=-1), Witness("0.index", 9)
    assert [f.kind for f in empty_findings(none, [], "t-0", [index])] == [STATE]
    clean = CLEAN._replace(first_base=-1)
    assert [f.kind for f in empty_findings(clean, [], "t-0", [index])] == [DANGER]


# Directories as Kafka has them


def said(*roots: Path, deep: bool = False) -> dict[str, set[str]]:
    """Kinds of this room by partition directory, "" for a root."""
    ours = {DANGER, STATE, UNKNOWN, "missing-partition"}
    found: dict[str, set[str]] = {}
    for unit in list_units(roots):
        for row in verify_unit(unit, VerifyOptions(deep=deep)).to_pylist():
            kinds = {f["kind"] for f in row["findings"]} & ours
            if kinds:
                found.setdefault(row["partition_dir"], set()).update(kinds)
    return found


@pytest.fixture
def root(golden: Unpacked, tmp_path: Path) -> Path:
    shutil.copytree(golden("rolling-4.3.1", "data"), tmp_path / "data")
    return tmp_path / "data"


def put(root: Path, checkpoint: str, partition: str, offset: int | None) -> None:
    topic, _, number = partition.rpartition("-")
    known = read_offsets(root / checkpoint)
    known.pop(PartitionName(topic, int(number), ""), None)
    if offset is not None:
        known[PartitionName(topic, int(number), "")] = offset
    (root / checkpoint).write_bytes(encode_offsets(known))


def tier(root: Path) -> None:
    """by-bytes-0 as a tiered topic's log is: its first segments are in remote storage, its log start stays 0."""
    for path in (root / "by-bytes-0").glob("00000000000000000000.*"):
        path.unlink()
    put(root, paths.LOG_START, "by-bytes-0", 0)


@pytest.mark.parametrize(
    "sign", ["remote-log-index-cache", "_rlmm_committed_offsets", "__remote_log_metadata-3"]
)
def test_remote_storage(root: Path, sign: str) -> None:
    tier(root)
    assert said(root) == {"by-bytes-0": {DANGER}}
    if sign.startswith("_rlmm"):
        (root / sign).touch()
    else:
        (root / sign).mkdir()
    assert said(root) == {}
    assert said(root, deep=True)["by-bytes-0"] == {UNKNOWN}


def test_remote_storage_that_another_disk_shows(root: Path, tmp_path: Path) -> None:
    tier(root)
    other = tmp_path / "other"
    (other / paths.REMOTE_INDEX_CACHE).mkdir(parents=True)
    (other / paths.META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=x\n")
    assert said(root, other) == {}


@pytest.mark.parametrize("state", ["delete", "stray", "future"])
def test_a_directory_that_a_broker_renamed(root: Path, state: str) -> None:
    (root / "by-bytes-0").rename(root / f"by-bytes-0.e189bcb77966430bb4d73a4ddf4a2dd9-{state}")
    assert said(root) == {}


def test_a_topic_that_was_just_deleted(root: Path) -> None:
    """The recovery points are written at once, the high watermarks a moment later."""
    shutil.rmtree(root / "by-bytes-0")
    put(root, paths.RECOVERY_POINT, "by-bytes-0", None)
    assert said(root) == {}
    assert said(root, deep=True)[""] == {UNKNOWN}


def test_a_partition_that_moved_to_another_disk(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (root / "by-bytes-0").rename(other / "by-bytes-0")
    put(root, paths.RECOVERY_POINT, "by-bytes-0", None)
    for name in (paths.CLEAN_SHUTDOWN, paths.META_PROPERTIES):
        shutil.copy2(root / name, other)
    assert said(root, other) == {}


def test_the_last_partition_of_a_disk_was_deleted(root: Path) -> None:
    """A broker before 2.4 does not write the checkpoints of such a disk any more."""
    for path in root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
    marker = (root / paths.CLEAN_SHUTDOWN).stat().st_mtime
    os.utime(root / paths.RECOVERY_POINT, (marker - 600, marker - 600))
    assert said(root) == {}


def killed(root: Path, **points: int) -> None:
    (root / paths.CLEAN_SHUTDOWN).unlink()
    for partition, point in points.items():
        put(root, paths.RECOVERY_POINT, partition.replace("_", "-"), point)


def test_after_a_power_failure_it_is_told_and_plans_go_on(root: Path) -> None:
    killed(root, by_bytes_0=93)
    put(root, paths.HIGH_WATERMARK, "by-bytes-0", 130)
    assert said(root) == {"by-bytes-0": {STATE}}
    rows = [
        row for unit in list_units([root]) for row in verify_unit(unit, VerifyOptions()).to_pylist()
    ]
    assert missing_records(pa.Table.from_pylist(rows, schema=SEGMENTS)) == {}


def test_after_an_unclean_stop_both_checkpoints_must_name_a_directory(root: Path) -> None:
    killed(root)
    shutil.rmtree(root / "by-bytes-0")
    assert said(root) == {"": {"missing-partition"}}
    put(root, paths.HIGH_WATERMARK, "by-bytes-0", None)
    assert said(root) == {}


def test_a_follower_of_a_cleaned_log(golden: Unpacked, tmp_path: Path) -> None:
    """Its own cleaner has not been there: the holes inside its segments tell."""
    shutil.copytree(golden("compaction-4.3.1", "after"), tmp_path / "data")
    (tmp_path / "data" / paths.CLEANER).write_bytes(encode_offsets({}))
    found: dict[str, Any] = said(tmp_path / "data", deep=True)
    assert not any(DANGER in kinds for kinds in found.values()), found
    assert sum(UNKNOWN in kinds for kinds in found.values()) >= 3


def test_the_index_of_a_last_log_that_is_gone(root: Path) -> None:
    """A broker that deletes a log renames it before its indexes."""
    killed(root, by_bytes_0=0)
    directory = root / "by-bytes-0"
    put(root, paths.HIGH_WATERMARK, "by-bytes-0", None)
    for snapshot in directory.glob("*.snapshot"):
        snapshot.unlink()
    last = max(directory.glob("*.log"))
    last.rename(f"{last}.deleted")
    assert said(root) == {}
    Path(f"{last}.deleted").unlink()
    assert said(root) == {"by-bytes-0": {STATE}}
    assert said(root, deep=True) == {"by-bytes-0": {STATE}}


def test_a_deleted_log_explains_a_late_beginning_only_below_it(root: Path) -> None:
    killed(root, by_bytes_0=0)
    first, second = sorted((root / "by-bytes-0").glob("*.log"))[:2]
    first.rename(f"{first}.deleted")
    assert said(root) == {}
    Path(f"{first}.deleted").rename(f"{second}.deleted")
    assert said(root) == {"by-bytes-0": {DANGER}}
