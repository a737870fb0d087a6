"""The command preflight: exit codes, the verdict, and that nothing changes."""

from __future__ import annotations

import fcntl
import json
import shutil
from pathlib import Path

import pytest

from kafkats.cli.command import run
from kafkats.cli.session import Session
from kafkats.recovery.rows import STARTS
from tests.builders import locks
from tests.golden import Unpacked, forget_others


def _run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str], str]:
    code = run(["preflight", *words], Session())
    said = capsys.readouterr()
    return code, said.out.splitlines(), said.err


def _unwrapped(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines)


def _state(root: Path) -> list[tuple[str, int, int]]:
    found = [(str(p), p.lstat()) for p in sorted(root.rglob("*"))]
    return [(name, st.st_size, st.st_mtime_ns) for name, st in found]


def test_a_start_that_loses_nothing(golden: Unpacked, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden("adopt-4.3.1-unclean", "before")
    before = _state(root)
    code, lines, _ = _run([str(root), "--kafka", "4.3", "--recovery-rate", "100KiB"], capsys)
    assert (code, lines[0]) == (
        0,
        "This broker (4.3) will start, and loses nothing that is stored now.",
    )
    assert "  recovers 40 segments, 150.4 KiB" in lines
    assert not any("high watermark" in line for line in lines)
    assert "  that takes about 1.5 s, at 100.0 KiB a second as given" in lines
    assert _state(root) == before


def test_the_time_of_a_recovery_says_where_its_rate_is_from(
    golden: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden("adopt-4.3.1-unclean", "before")
    _, lines, _ = _run([str(root), "--kafka", "4.3"], capsys)
    said = " ".join(line.strip() for line in lines)
    assert "at the rate measured with 4.3.1, logs in memory; --recovery-rate overrides it" in said
    _, lines, _ = _run([str(root), "--kafka", "2.8", "--json"], capsys)
    rows = [json.loads(line) for line in lines]
    recovered = [one for row in rows[:-1] for one in row["recovered"]]
    batches, messages = (sum(one[name] for one in recovered) for name in ("batches", "messages"))
    assert batches > 100 and messages > 100
    [root_row] = rows[-1]["summary"]["log_dirs"]
    seconds = 0.47 * root_row["recovered_bytes"] / 1e9 + batches * 1.36e-6 + messages * 1.77e-6
    assert root_row["recovery_seconds"] == pytest.approx(seconds, abs=0.001)


def test_a_start_that_loses_says_what(golden: Unpacked, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden("clean-start-4.3.1", "before")
    code, lines, _ = _run([str(root), "--kafka", "4.3.1"], capsys)
    assert code == 1
    assert lines[0] == "This broker (4.3.1) will start, and loses what is listed below."
    said = " ".join(line.strip() for line in lines)
    assert (
        f"{root}/torn-0: log 0 to 67, high watermark 100 lost at least: offsets 67 to 99;" in said
    )
    assert "logs will end below the high watermark" in said
    assert "do not force an unclean leader election" in said


def test_what_is_known_of_lost_offsets_is_said_once(
    golden: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden("crash-0.10.2.2", "before")
    _, lines, _ = _run([str(root), "--kafka", "0.10.2"], capsys)
    said = _unwrapped(lines)
    assert (
        f"{root}/crc-last-0: log 0 to 98, high watermark 99 lost at least: offset 98; a leader here"
        " gives them to new records 00000000000000000078.log: 51 bytes are cut from byte 1065 on:"
        f" the segment ends at offset 98 {root}/crc-middle-0: "
    ) in said
    assert (
        "recovery-point-offset-checkpoint says 1000000, far above all else that is known: the log"
        " ends at offset "
    ) in said
    assert "999999" not in said, "the checkpoint is wrong, and no record is lost"
    assert "00000000000000000075.log: deleted from offset 75 on: 1 segment, 1314 bytes" in said


def test_why_segments_are_recovered_and_which_of_them_twice(
    golden: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden("root-0.10.2.2", "running")
    code, lines, _ = _run([str(root), "--kafka", "0.10.2"], capsys)
    assert code == 0
    assert (
        " recovers 15 segments, 13 of them twice, 82.2 KiB: 15 from the recovery point on, 13 with a"
        " wrong index that takes "
    ) in _unwrapped(lines)
    _, lines, _ = _run([str(golden("root-0.10.2.2", "data")), "--kafka", "0.10.2"], capsys)
    assert lines[-2:] == ["  recovers no segment", "next: start the broker"]


def test_a_deleted_copy_is_not_below_the_high_watermark_of_its_partition(
    golden: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    disks = golden("root-4.3.1", "running")
    words = [str(disks / "disk-a"), str(disks / "disk-b"), "--kafka", "4.3"]
    code, lines, _ = _run(words, capsys)
    assert code == 0
    assert not any("high watermark" in line for line in lines)


def test_a_deleted_copy_loses_nothing(golden: Unpacked, capsys: pytest.CaptureFixture[str]) -> None:
    """Broker 0.10.2.2 cuts it as the others: it does not know magic 2."""
    disk = golden("root-2.8.2", "running") / "disk-a"
    code, lines, _ = _run([str(disk), "--kafka", "0.10.2"], capsys)
    assert code == 1
    assert " recovers 9 segments, each twice, " in _unwrapped(lines)
    assert not any("-delete" in line for line in lines)


def test_damage_without_a_lost_record_is_no_loss(
    golden: Unpacked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden("torn-append-4.3.1", "after")
    code, lines, _ = _run([str(root), "--kafka", "4.3"], capsys)
    assert (code, lines[0]) == (1, "This broker (4.3) will start, and loses what is listed below.")
    assert "offsets 30 to 35 are missing" in _unwrapped(lines), "a time index names them"
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "not-indexed-0")
    forget_others(tmp_path)
    code, lines, _ = _run([str(tmp_path), "--kafka", "4.3"], capsys)
    assert code == 1
    assert lines[0] == (
        "This broker (4.3) will start, and loses no stored record, but new ones as listed below."
    )


def test_the_words_of_a_broker_that_will_not_start_are_said_once(
    golden: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden("torn-append-2.8.2", "appended")
    _, lines, _ = _run([str(root), "--kafka", "2.8"], capsys)
    assert _unwrapped(lines).count("Found record size 2 smaller") == 2
    mend = "next: mend what stops the broker, and predict again"
    assert lines[-2:] == ["  recovers no segment", mend]


def test_rows_and_report(
    golden: Unpacked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden("crash-4.3.1", "before")
    words = [str(root), "--kafka", "4.3", "--json", "-o", str(tmp_path / "report")]
    code, lines, _ = _run(words, capsys)
    rows = [json.loads(line) for line in lines]
    totals = rows.pop()["summary"]
    assert code == 1
    assert set(rows[0]) == set(STARTS.names)
    assert totals["recovered_segments"] == sum(len(row["recovered"]) for row in rows)
    assert totals["partitions"] == len(rows) == 42
    kept = json.loads((tmp_path / "report" / "report.json").read_text())
    assert kept.pop("said")[0].startswith("This broker (4.3) will start, and loses")
    assert kept == totals
    assert (tmp_path / "report" / "starts.parquet").stat().st_size > 0


def test_a_broker_that_will_not_start(
    golden: Unpacked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "data"
    shutil.copytree(golden("torn-append-4.3.1", "before"), root)
    (root / "lost+found").mkdir()
    code, lines, _ = _run([str(root), "--kafka", "4.3"], capsys)
    assert (code, lines[0]) == (1, "This broker (4.3) will not start. Its words:")
    said = " ".join(line.strip() for line in lines)
    assert f"Found directory {root}/lost+found, 'lost+found' is not in the form of topic" in said


@pytest.mark.parametrize("kafka", ["4.9", "5", "x", "", "4", "2.80"])
def test_an_unknown_release_is_bad_usage(
    kafka: str, golden: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden("torn-append-4.3.1", "before")
    code, lines, error = _run([str(root), "--kafka", kafka], capsys)
    assert (code, lines) == (2, [])
    assert "it knows 0.8.2, 0.9.0" in error
    assert "4.3" in error


def test_only_whole_roots(golden: Unpacked, capsys: pytest.CaptureFixture[str]) -> None:
    root = golden("torn-append-4.3.1", "before")
    code, _, error = _run([str(root / "indexed-0"), "--kafka", "4.3"], capsys)
    assert code == 2
    assert "is not a log.dirs root" in error


def test_beside_a_running_broker(
    golden: Unpacked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "data"
    shutil.copytree(golden("torn-append-4.3.1", "before"), root)
    with locks.broker(root):
        _, lines, _ = _run([str(root), "--kafka", "4.3"], capsys)
    assert lines[0].startswith(
        "A broker runs here. If it were killed now and started again, this would happen."
    )
    assert any(line.startswith("  recovers 2 segments") for line in lines)


def test_a_lock_that_kafkats_holds_stops_the_broker(
    golden: Unpacked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "data"
    shutil.copytree(golden("torn-append-4.3.1", "before"), root)
    (root / ".lock").touch()
    with locks.other_process(root / ".lock", fcntl.LOCK_SH):
        code, lines, _ = _run([str(root), "--kafka", "4.3"], capsys)
    assert code == 1
    said = " ".join(line.strip() for line in lines)
    assert f"Failed to acquire lock on file .lock in {root}." in said


def test_a_release_without_zookeeper_on_a_cluster_with_it_is_warned_of_first(
    golden: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden("crash-2.8.2", "before")
    _, lines, _ = _run([str(root), "--kafka", "4.3"], capsys)
    assert lines[0].startswith("Do NOT start 4.3 here: meta.properties is of a cluster with")
    assert "set aside as -stray" in _unwrapped(lines[:4])
    assert lines[-1] == "next: kafkats help kafka-4; do not start 4.3 here"
    _, lines, _ = _run([str(root), "--kafka", "2.8"], capsys)
    assert lines[0].startswith("This broker (2.8)")


def test_both_outages_and_the_next_command(
    golden: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden("crash-4.3.1", "before")
    _, lines, _ = _run([str(root), "--kafka", "4.3"], capsys)
    said = _unwrapped(lines)
    assert "if kafkats recovers it first" in said
    assert "if the broker recovers itself with 2 threads per log directory" in said
    assert "kafkats keeps what it cuts until purge" in said
    assert said.endswith(f"next: kafkats plan recover {root} -o PLAN, or start the broker")


def test_a_command_to_copy_is_not_broken(
    golden: Unpacked, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    long = tmp_path / ("a" * 60) / "data"
    shutil.copytree(golden("crash-4.3.1", "before"), long)
    _, lines, _ = _run([str(long), "--kafka", "4.3"], capsys)
    assert len(lines[-1]) > 100
    assert lines[-1] == f"next: kafkats plan recover {long} -o PLAN, or start the broker"


def test_zeros_that_were_set_aside_are_no_loss(
    golden: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    _, lines, _ = _run([str(golden("crash-4.3.1", "before")), "--kafka", "4.3"], capsys)
    assert "of zeros from" in _unwrapped(lines) and "no records" in _unwrapped(lines)
