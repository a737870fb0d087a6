"""Migrate: the plan by tables, and plan, apply, undo on directories of real brokers of every generation."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kafkats.errors import CorruptPlan, Refused, UsageError
from kafkats.flow.apply import apply_partition, partition_works, summarize
from kafkats.generations import LOSSES
from kafkats.migration import plan as migrate
from kafkats.migration import stage
from kafkats.migration.forecast import FORECAST, forecast_unit, target_of
from kafkats.migration.plan import MigrateOptions, decide_migrate, refuse_losses
from kafkats.plans.facts import SEGMENTS, damaged
from kafkats.plans.plan import Plan
from kafkats.plans.run import run_of
from kafkats.plans.units import list_units
from kafkats.segment.parity import Parity
from tests.builders.directories import contents, unpacked
from tests.builders.operations import altered, applied_rows, undone, verified

FILE = {"size": 100, "mtime_ns": 1, "ctime_ns": 2, "inode": 3}
LOG = "00000000000000000000.log"


def facts(base: int = 0, **columns: Any) -> dict[str, Any]:
    """A healthy segment of orders-0, with what `columns` say instead."""
    return {
        "log_dir": "/data",
        "partition_dir": "orders-0",
        "directory_ctime_ns": 5,
        "topic": "orders",
        "base_offset": base,
        "next_base_offset": -1,
        "log": FILE,
        "index": FILE,
        "timeindex": FILE,
        "valid_bytes": 100,
        "stop": "",
        "blocked": "",
        "index_interval_bytes": 4096,
        "segment_index_bytes": 1000,
        "settings_from": "given",
    } | columns


def looked(base: int = 0, action: str = "convert", **columns: Any) -> dict[str, Any]:
    """What converting that segment would give."""
    return {
        "log_dir": "/data",
        "partition_dir": "orders-0",
        "base_offset": base,
        "file": f"{base:020d}.log",
        "action": action,
        "reason": "",
        "before_bytes": 100,
        "after_bytes": 90,
        "after_sha256": "a",
        "batches_before": 3,
        "batches_after": 3,
        "records": 3,
        "kept_last": False,
        "seconds": 0.1,
        **{f"loses_{loss}": 0 for loss in LOSSES},
    } | columns


def aborted(base: int) -> dict[str, Any]:
    """That segment's index of aborted transactions, which would go."""
    return looked(base, "remove", file=f"{base:020d}.txnindex", before=FILE)


def plan(segments: list[dict[str, Any]], forecast: list[dict[str, Any]], **options: Any) -> Plan:
    made, lost = decide_migrate(
        pa.Table.from_pylist(segments, schema=SEGMENTS),
        pa.Table.from_pylist(forecast, schema=FORECAST),
        MigrateOptions(**{"to_magic": 2} | options),
    )
    refuse_losses((lost,))
    return made


def actions(made: Plan) -> list[tuple[str, str]]:
    return [(item["action"], item["file"]) for item in made.items.to_pylist()]


UNREAD = dict.fromkeys((
    "valid_bytes",
    "stop",
    "blocked",
    "index_interval_bytes",
    "segment_index_bytes",
    "settings_from",
    "findings",
))
WHOLE = [
    ("replace", "00000000000000000000.index"),
    ("replace", LOG),
    ("replace", "00000000000000000000.timeindex"),
]
SNAPSHOT = looked(
    7, "remove", file="00000000000000000007.snapshot", reason="producers", before=FILE
)
FOLDER = looked(-1, "blocked", file="", reason="an unfinished swap")


@pytest.mark.parametrize(
    ("segments", "forecast", "options", "expected"),
    [
        ([facts()], [looked(action="keep")], {}, []),
        ([facts()], [looked()], {}, WHOLE),
        ([facts(index=None)], [looked()], {}, [("add", WHOLE[0][1]), *WHOLE[1:]]),
        ([facts(timeindex=None)], [looked()], {"to_magic": 1}, [*WHOLE[:2], ("add", WHOLE[2][1])]),
        # Brokers of magic 0 have no time index; where a later one made it, it follows the log.
        ([facts(timeindex=None)], [looked()], {"to_magic": 0}, WHOLE[:2]),
        ([facts()], [looked()], {"to_magic": 0}, WHOLE),
        ([facts()], [looked(action="blocked", reason="why")], {}, [("blocked", LOG)]),
        ([facts(stop="bad-crc", valid_bytes=60)], [looked()], {}, [("blocked", LOG)]),
        ([facts(blocked="index-full: full")], [looked()], {}, [("blocked", LOG)]),
        # An index that cannot be read: nothing is known of the segment but that its files are there.
        ([facts(**UNREAD), facts(50)], [looked(0), looked(50)], {}, [("blocked", LOG), *((a, f.replace("00.", "50.")) for a, f in WHOLE)]),
        ([facts()], [looked(), FOLDER], {}, [("blocked", LOG)]),
        # One bad segment does not stop the others.
        ([facts(0, stop="bad-crc"), facts(50)], [looked(0), looked(50)], {}, [("blocked", LOG), *((a, f.replace("00.", "50.")) for a, f in WHOLE)]),
        # Small files go only where something is converted.
        ([facts()], [looked(), SNAPSHOT], {"to_magic": 1}, [*WHOLE, ("remove", "00000000000000000007.snapshot")]),
        ([facts()], [looked(action="keep"), SNAPSHOT], {"to_magic": 1}, []),
        # Aborted transactions of a segment that stays in magic 2 are still asked for.
        (
            [facts(0), facts(50)], [looked(0, "blocked", reason="zstd"), looked(50), aborted(0), aborted(50)], {"to_magic": 1},
            [("blocked", LOG), *((a, f.replace("00.", "50.")) for a, f in WHOLE), ("remove", f"{50:020d}.txnindex")],
        ),
        # Rolled away between the two looks.
        ([], [looked()], {}, []),
    ],
)  # fmt: skip
def test_what_is_planned(
    segments: list[dict[str, Any]],
    forecast: list[dict[str, Any]],
    options: dict[str, Any],
    expected: list[tuple[str, str]],
) -> None:
    assert actions(plan(segments, forecast, **options)) == sorted(expected, key=lambda one: one[1])


def test_why_a_segment_is_blocked() -> None:
    made = plan([facts(stop="bad-crc", valid_bytes=60)], [looked()])
    assert "byte 60 (bad-crc)" in made.items["reason"][0].as_py()
    assert made.header["totals"]["blocked"] == 1


def test_losses_must_be_accepted_by_name() -> None:
    lossy = [looked(loses_headers=3, loses_control=1)]
    with pytest.raises(
        Refused, match=r"headers \(3\), control \(1\).*--accept-loss headers,control"
    ):
        plan([facts()], lossy, to_magic=1)
    with pytest.raises(Refused, match="would lose control"):
        plan([facts()], lossy, to_magic=1, accept_loss=("headers",))
    for accepted in (("headers", "control"), ("all",)):
        made = plan([facts()], lossy, to_magic=1, accept_loss=accepted)
        assert made.header["totals"]["losses"] == {"headers": 3, "control": 1}
        assert "loses headers (3), control (1)" in made.items["reason"][1].as_py()
    with pytest.raises(UsageError, match="no loss is called 'header'"):
        plan([facts()], lossy, to_magic=1, accept_loss=("header",))


def test_what_is_left_loses_nothing() -> None:
    assert actions(plan([facts(stop="bad-crc")], [looked(loses_headers=3)], to_magic=1)) == [
        ("blocked", LOG)
    ]


@pytest.mark.parametrize(
    ("magic", "codec"), [(3, "producer"), (2, "brotli"), (1, "zstd"), (0, "zstd")]
)
def test_formats_that_do_not_exist(magic: int, codec: str) -> None:
    with pytest.raises(UsageError):
        target_of(magic, codec)


@pytest.mark.parametrize(
    "wrong",
    [
        {"file": "../../x.log"},
        {"file": "00000000000000000001.log"},
        {"file": "00000000000000000000.snapshot"},
        {"action": "remove"},
        {"after_sha256": "", "file": LOG},
        {"log": None},
        {"rule": "mine"},
        {"segment_index_bytes": 0},
    ],
)
def test_a_sealed_plan_of_something_else_is_not_worked_on(wrong: dict[str, object]) -> None:
    good = plan([facts()], [looked()])
    assert partition_works(good, run_of(good))
    bad = altered(good, wrong)
    with pytest.raises(CorruptPlan):
        partition_works(bad, run_of(bad))


# On directories that real brokers wrote.


def planned(root: Path, to_magic: int, codec: str = "producer") -> Plan:
    target = target_of(to_magic, codec)
    forecast = pa.Table.from_batches(
        [forecast_unit(unit, target) for unit in list_units([root])], FORECAST
    )
    return decide_migrate(verified(root), forecast, MigrateOptions(to_magic, codec, ("all",)))[0]


@pytest.mark.examples(4)
@pytest.mark.parametrize(
    ("name", "to_magic", "codec"),
    [
        ("upgrade-0.9-to-2.8", 2, "producer"),
        ("upgrade-0.9-to-2.8", 1, "producer"),
        ("upgrade-0.9-to-2.8", 0, "producer"),
        ("matrix-2.8.2-v0", 2, "lz4"),
        ("matrix-2.8.2-v1", 0, "producer"),
        ("transactions-4.3.1", 1, "gzip"),
        ("compaction-2.8.2", 0, "snappy"),
        ("compaction-4.3.1", 2, "zstd"),
    ],
)
def test_there_and_back(tmp_path: Path, name: str, to_magic: int, codec: str) -> None:
    root = unpacked(name, tmp_path)
    before = contents(root)
    made = planned(root, to_magic, codec)
    assert made.header["totals"]["blocked"] == 0
    done = applied_rows(made)
    summary = summarize(done)
    assert (summary["exit_code"], summary["outcomes"]) == (0, {"done": done.num_rows})
    logs = [row for row in done.to_pylist() if row["file"].endswith(".log")]
    assert logs and all(row["parity_before"] == row["parity_after"] != "" for row in logs)
    assert sum(row["records"] for row in logs) > 0

    after = verified(root, deep=True)
    assert damaged(after).num_rows == 0
    magics = [
        sum(one) for one in zip(*(m for m in after["magic_bytes"].to_pylist() if m), strict=True)
    ]
    other = sum(magics) - magics[to_magic]
    assert other == 0 or (to_magic < 2 and other == magics[2] < 500), (
        "only a log's last batch may stay"
    )
    now = contents(root)
    assert {file: one[1] for file, one in now.items() if file.endswith(".log")} == {
        file: one[1] for file, one in before.items() if file.endswith(".log")
    }, "mtime is data"
    assert not planned(root, to_magic, codec).items.num_rows or other, "nothing is left to do"

    again = summarize(applied_rows(made))
    assert set(again["outcomes"]) == {"already"}
    assert {row["outcome"] for row in undone(made)} == {"undone"}
    assert contents(root) == before


def test_a_corrupt_segment_stays_and_the_rest_goes_on(tmp_path: Path) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    log = min(root.glob("none-ct-0/*.log"))
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    made = planned(root, 2)
    blocked = [item for item in made.items.to_pylist() if item["action"] == "blocked"]
    assert [(item["partition_dir"], item["file"]) for item in blocked] == [("none-ct-0", log.name)]
    assert summarize(applied_rows(made))["exit_code"] == 0
    assert log.read_bytes() == data
    others = [
        row
        for row in verified(root).to_pylist()
        if row["base_offset"] >= 0 and row["log"]["size"] != len(data)
    ]
    assert others and all(row["magic_bytes"][1] == 0 for row in others)


def test_an_active_segment_needs_a_clean_stop(tmp_path: Path) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    (root / ".kafka_cleanshutdown").unlink()
    made = planned(root, 2)
    blocked = [item for item in made.items.to_pylist() if item["action"] == "blocked"]
    assert {item["next_base_offset"] for item in blocked} == {-1}
    assert len(blocked) == len({item["partition_dir"] for item in blocked}) == 8
    assert "clean-shutdown" in blocked[0]["reason"]


@pytest.mark.parametrize("kind", ["directory", "fifo", "loop", "socket"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_cannot_be_read_blocks_its_segment_alone(
    tmp_path: Path, suffix: str, kind: str
) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    index = min(root.glob(f"none-ct-0/*{suffix}"))
    index.unlink()
    if kind == "directory":
        index.mkdir()
    elif kind == "fifo":
        os.mkfifo(index)
    elif kind == "socket":
        os.mknod(index, stat.S_IFSOCK | 0o600)
    else:
        index.symlink_to(index.name)
    made = planned(root, 2)
    blocked = [item for item in made.items.to_pylist() if item["action"] == "blocked"]
    assert [(item["partition_dir"], item["file"]) for item in blocked] == [
        ("none-ct-0", index.stem + ".log")
    ]
    assert index.name in blocked[0]["reason"]
    partition_works(made, run_of(made))
    assert len({item["partition_dir"] for item in made.items.to_pylist()}) == 8, (
        "the volume goes on"
    )


@pytest.mark.parametrize("changed", ["log_dir", "partition_dir"])
def test_a_plan_that_names_another_place_leaves_nothing_there(tmp_path: Path, changed: str) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    other = tmp_path / "home"
    (other / "none-ct-0").mkdir(parents=True)
    (root / ".lock").unlink(missing_ok=True)
    made = planned(root, 2)
    [work] = [
        work for work in partition_works(made, run_of(made)) if work.partition_dir == "none-ct-0"
    ]
    moved = {"log_dir": str(other)} if changed == "log_dir" else {"partition_dir": "none-ct-7"}
    rows = apply_partition(work._replace(**moved)).to_pylist()
    assert {row["outcome"] for row in rows} == {"refused"}, rows[0]["error"]
    assert not list(tmp_path.rglob(".lock"))
    assert not list(tmp_path.glob(".kafkats/*"))


def test_a_changed_log_is_refused(tmp_path: Path) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    made = planned(root, 2)
    log = min(root.glob("none-ct-0/*.log"))
    with log.open("r+b") as file:
        file.write(b"\0")
    before = contents(root)
    rows = [row for row in applied_rows(made).to_pylist() if row["partition_dir"] == "none-ct-0"]
    assert {row["outcome"] for row in rows} == {"refused"}
    assert {f: c for f, c in contents(root).items() if f.startswith("none-ct-0/")} == {
        f: c for f, c in before.items() if f.startswith("none-ct-0/")
    }


def test_a_proof_that_fails_stops_the_run_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    made, before = planned(root, 2), contents(root)
    real = stage.digest_records
    calls: list[int] = []

    def lies(source: Any, **kept: bool) -> Parity:
        calls.append(1)
        found = real(source, **kept)
        return found._replace(digest="other") if len(calls) == 2 else found

    monkeypatch.setattr(stage, "digest_records", lies)
    folder = tmp_path / "run"
    folder.mkdir()
    rows = applied_rows(made, folder)
    summary = summarize(rows)
    assert (summary["outcomes"], summary["exit_code"]) == ({"refused": rows.num_rows}, 3)
    assert any("tells a consumer something else" in error for error in summary["errors"])
    assert any("stopped by another partition" in error for error in summary["errors"])
    assert len(calls) == 2, "nobody else began"
    assert contents(root) == before


def test_a_disk_that_is_too_full_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    made, before = planned(root, 2), contents(root)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    summary = summarize(applied_rows(made))
    assert summary["exit_code"] == 2 and "nothing was begun" in summary["errors"][0]
    assert contents(root) == before


def test_an_unfinished_swap_blocks_its_partition(tmp_path: Path) -> None:
    root = unpacked("matrix-2.8.2-v1", tmp_path)
    log = min(root.glob("gzip-ct-0/*.log"))
    log.rename(log.with_name(log.name + ".swap"))
    blocked = {
        i["partition_dir"] for i in planned(root, 2).items.to_pylist() if i["action"] == "blocked"
    }
    assert blocked == {"gzip-ct-0"}


def test_phases_are_asked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no ledger"):
        migrate.check_phase(
            MigrateOptions(2, ledger=str(tmp_path / "x"), phase="canary", broker="1")
        )
