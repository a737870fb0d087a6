"""Looking up many partitions: rows for every one, what brokers say beside the truth, and nothing that cannot be read as an answer."""

from __future__ import annotations

import fcntl
import os
import pickle
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from kafkats import search
from kafkats.config.policy import Policy
from kafkats.config.reading import with_settings
from kafkats.errors import UsageError
from kafkats.lookup.partitions import (
    LOOKUP,
    LookupOptions,
    above_high_watermark,
    lookup_partitions,
    lookup_unit,
)
from tests.answers import lookup
from tests.builders.locks import other_process
from tests.golden import Unpacked, case


def rows_of(table: pa.Table, partition: str) -> dict[int, dict[str, object]]:
    return {row["target_ms"]: row for row in table.to_pylist() if row["partition_dir"] == partition}


@pytest.mark.parametrize(
    "name", ["timestamps-4.3.1", "matrix-2.8.2-v2", "retention-4.1.0", "transactions-3.9.1"]
)
def test_every_partition_of_a_root(golden: Unpacked, name: str) -> None:
    one = case(name)
    root = golden(one, one.states[-1])
    asked = [answers for answers in one.times() if "mtime" not in answers["tp"]]
    targets = sorted({target for answers in asked for target, _ in answers["answers"][::9]})
    table = lookup(
        [root], targets, LookupOptions(how="kafka", rule="0.11" if "2.8.2" in name else "3.8")
    )
    assert table.schema == LOOKUP
    for answers in asked:
        rows = rows_of(table, answers["tp"])
        assert list(rows) == targets
        for target, theirs in answers["answers"][::9]:
            row = rows[target]
            assert (row["offset"], row["timestamp"]) == (
                (theirs["offset"], theirs["timestamp"]) if theirs else (-1, -1)
            ), (answers["tp"], row)
            assert row["kafka_offset"] == row["offset"]
            assert row["reason"] in search.REASONS
            assert f"{row['topic']}-{row['partition']}" == answers["tp"]


def test_the_broker_is_compared_with_the_truth(golden: Unpacked, tmp_path: Path) -> None:
    """The trap of a magic-0 segment whose file is younger than all records behind it."""
    one = case("upgrade-0.9-to-2.8")
    root = tmp_path / "data"
    shutil.copytree(golden(one, one.states[-1]), root)
    table = lookup([root], [1_600_100_000_000], topics="none-many-segments")
    (row,) = table.to_pylist()
    assert (row["kafka_offset"], row["kafka_reason"], row["differs"]) == (
        -1,
        "weak-evidence",
        "mtime",
    )
    assert (row["offset"], row["reason"]) == (22, "first-after")
    for log in (root / "none-many-segments-0").glob("*.log"):
        os.utime(log, (1, 1))
    (row,) = lookup([root], [1_600_100_000_000], topics="none-many-segments").to_pylist()
    assert (row["kafka_offset"], row["offset"], row["differs"]) == (22, 22, "")


def test_what_is_asked_for(golden: Unpacked) -> None:
    root = golden("timestamps-4.3.1", "data")
    (unit,) = lookup_partitions([root], topics="ts-falling")
    with search.Partition(unit.path, clean=unit.clean) as partition:
        newest = search.find_exact(partition, search.Word.MAX_TIMESTAMP)
    target = newest.timestamp
    (exact,) = lookup_unit(unit, [target]).to_pylist()
    (safe,) = lookup_unit(unit, [target + 5], LookupOptions(how="safe", margin_ms=5)).to_pylist()
    assert exact["offset"] == safe["offset"] == newest.offset
    assert (exact["reason"], safe["reason"]) == ("exact", "out-of-order-window")
    assert (safe["kafka_offset"], safe["target_ms"]) == (-1, target + 5)
    (kip33,) = lookup_unit(
        unit, [target - 1], LookupOptions(how="kafka", rule="kip33", depth="full")
    ).to_pylist()
    assert (kip33["reason"], kip33["rule"], kip33["depth"]) == ("coarse", "kip33", "full")
    words = lookup_unit(
        unit, [search.Word.LATEST, search.Word.EARLIEST, search.Word.MAX_TIMESTAMP]
    ).to_pylist()
    assert [row["offset"] for row in words] == [70, 0, newest.offset]


def test_topics_whose_message_format_has_no_timestamps_are_not_searched(golden: Unpacked) -> None:
    """By the policy, or by what kafka-configs said; the exact answer is there all the same."""
    root, target = golden("timestamps-4.3.1", "data"), 1_600_000_000_000
    plain = lookup([root], [target], LookupOptions(rule="0.11"), topics="ts-falling").to_pylist()
    for policy, refused in (
        (with_settings(Policy(), ["message.format.version=0.9.0"]), True),
        (with_settings(Policy(), ["message.format.version=0.10.2"]), False),
        (Policy().with_export({"ts-falling": {"message.format.version": "0.8.2-IV0"}}), True),
        (Policy().with_export({"ts-rising": {"message.format.version": "0.8.2-IV0"}}), False),
    ):
        rows = lookup(
            [root], [target], LookupOptions(rule="0.11", policy=policy), topics="ts-falling"
        ).to_pylist()
        said = {"kafka_offset": -1, "kafka_reason": "no-timestamps", "differs": "message-format"}
        assert rows == [plain[0] | said if refused else plain[0]]


def test_a_high_watermark_that_was_left_behind(golden: Unpacked, tmp_path: Path) -> None:
    root, target = tmp_path / "data", 1_600_000_000_000
    shutil.copytree(golden("timestamps-4.3.1", "data"), root)
    before = {row["partition_dir"]: row for row in lookup([root], [target]).to_pylist()}
    assert {row["above_high_watermark"] for row in before.values()} == {0}
    mark = root / "replication-offset-checkpoint"
    mark.write_text(re.sub(r"(?m)^(ts-falling 0) \d+$", r"\1 0", mark.read_text()))
    found = lookup([root], [target])
    assert above_high_watermark(found) == {"ts-falling-0": 70}
    for row in found.to_pylist():
        one = before[row["partition_dir"]]
        if row["partition_dir"] != "ts-falling-0":
            assert row == one
            continue
        hidden = {
            "kafka_offset": -1,
            "kafka_reason": "above-high-watermark",
            "differs": "high-watermark",
        }
        assert row == one | hidden | {"above_high_watermark": 70}
    units = lookup_partitions([root], topics="ts-falling", high_watermark="log-end")
    assert [lookup_unit(unit, [target]).to_pylist() for unit in units] == [[before["ts-falling-0"]]]
    with pytest.raises(UsageError):
        list(lookup_partitions([root], high_watermark="ignore"))


@pytest.mark.parametrize(
    "wrong",
    [{"how": "quick"}, {"rule": "4.0"}, {"depth": "stat"}, {"margin_ms": -1}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_words_that_there_are_not(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        LookupOptions(**wrong)  # type: ignore[arg-type]


@pytest.fixture
def root(golden: Unpacked, tmp_path: Path) -> Path:
    shutil.copytree(golden("timestamps-4.3.1", "data"), tmp_path / "data")
    return tmp_path / "data"


def test_what_cannot_be_read_is_a_row(root: Path) -> None:
    target = 1_600_000_000_000
    before = {row["partition_dir"]: row for row in lookup([root], [target]).to_pylist()}
    first = f"{0:020d}.log"
    log = root / "ts-equal-0" / first
    data = bytearray(log.read_bytes())
    data[40] ^= 1
    log.write_bytes(data)
    hidden = root / "ts-falling-0" / first
    hidden.rename(root.parent / "elsewhere.log")
    hidden.symlink_to(root.parent / "elsewhere.log")
    (root / "ts-zero-0" / "leader-epoch-checkpoint").write_text("nonsense\n")
    rows = {row["partition_dir"]: row for row in lookup([root], [target]).to_pylist()}
    assert rows.keys() == before.keys()
    for name, row in rows.items():
        if name in ("ts-equal-0", "ts-falling-0"):
            assert (row["reason"], row["offset"], row["kafka_offset"]) == ("unreadable", -1, -1)
        else:
            assert row == before[name]
    assert "CRC" in rows["ts-equal-0"]["evidence"] or "crc" in rows["ts-equal-0"]["evidence"]
    assert "symbolic link" in rows["ts-falling-0"]["evidence"]
    (row,) = lookup([root], [search.Word.LATEST], topics="ts-zero").to_pylist()
    assert (row["offset"], row["kafka_reason"], row["differs"]) == (70, "unreadable", "unreadable")


def test_a_partition_that_went_away(root: Path) -> None:
    units = list(lookup_partitions([root], topics="ts-*"))
    shutil.rmtree(units[0].path)
    rows = lookup_unit(units[0], [5, 6]).to_pylist()
    assert [(row["target_ms"], row["reason"]) for row in rows] == [
        (5, "unreadable"),
        (6, "unreadable"),
    ]


def test_units(root: Path) -> None:
    """Checkpoints, marker and lock are the partitions'; what is being deleted or moved is not looked up."""
    (root / "log-start-offset-checkpoint").write_text("0\n1\nts-equal 0 5\n")
    for name in (
        "ts-equal-0.0123456789abcdef0123456789abcdef-delete",
        "ts-zero-0.0123456789abcdef0123456789abcdef-future",
    ):
        shutil.copytree(root / "ts-equal-0", root / name)
    units = {unit.partition_dir: unit for unit in lookup_partitions([root])}
    assert not any("." in name for name in units)
    one = units["ts-equal-0"]
    assert one == pickle.loads(pickle.dumps(one))
    assert (one.log_start_offset, one.high_watermark, one.clean, one.live, one.hidden) == (
        5,
        70,
        True,
        False,
        "",
    )
    (row,) = lookup_unit(one, [0]).to_pylist()
    assert (row["offset"], row["reason"]) == (5, "deleted")
    (alone,) = lookup_partitions([root / "ts-falling-0"])
    assert (alone.partition_dir, alone.clean) == ("ts-falling-0", True)
    (root / ".lock").touch()
    with other_process(root / ".lock", fcntl.LOCK_EX):
        assert all(unit.live for unit in lookup_partitions([root]))
        live = lookup([root], [1_600_000_000_000], topics="ts-*")
    assert live == lookup([root], [1_600_000_000_000], topics="ts-*")
    copied = root.parent / "ts-copied-0"
    shutil.copytree(root / "ts-falling-0", copied)
    (copy,) = lookup_partitions([copied])
    assert copy == search.PartitionUnit(str(root.parent), "ts-copied-0")
