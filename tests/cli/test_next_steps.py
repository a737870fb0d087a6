"""The next step that a command prints, by the state of the directory or of the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from kafkats import paths
from kafkats.cli.next_steps import after_run
from kafkats.plans.files import read_json
from kafkats.plans.plan import Plan
from kafkats.plans.run import read_actions
from tests.builders.commands import run
from tests.golden import Unpacked, case

NAME: Final = "none-ct-0"
LOG: Final = "none-ct-0/00000000000000000043.log"
INDEX: Final = "none-ct-0/00000000000000000043.timeindex"
OLDER: Final = "none-ct-0/00000000000000000000.timeindex"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory that was stopped cleanly."""
    root = tmp_path / "disk" / "data"
    root.mkdir(parents=True)
    case("matrix-4.3.1-v2").unpack("data", root)
    assert (root / paths.CLEAN_SHUTDOWN).exists()
    return root


def sound(_: Path) -> None:
    pass


def lost_index(root: Path) -> None:
    (root / INDEX).unlink()


def last_log(root: Path) -> Path:
    return max((root / NAME).glob("*.log"))


def killed(root: Path, recovery_point: int = 0) -> None:
    (root / paths.CLEAN_SHUTDOWN).unlink()
    (root / paths.RECOVERY_POINT).write_text(f"0\n1\nnone-ct 0 {recovery_point}\n")


def torn(root: Path) -> None:
    log = last_log(root)
    os.truncate(log, log.stat().st_size - 5)


def killed_torn(root: Path) -> None:
    torn(root)
    killed(root)


def killed_lost_index(root: Path) -> None:
    lost_index(root)
    killed(root)


def killed_with_older_damage(root: Path) -> None:
    (root / OLDER).unlink()
    last_log(root).with_suffix(".timeindex").unlink()
    killed(root, recovery_point=int(last_log(root).stem))


def flipped(root: Path) -> None:
    log = root / LOG
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)


RECOVER: Final = "kafkats plan recover {root} -o PLAN"  # noqa: RUF027
REBUILD: Final = "kafkats plan rebuild {root} --depth full --topics none-ct -o PLAN"  # noqa: RUF027
UNCLEAN: Final = "was not stopped cleanly"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (sound, []),
        (lost_index, [f"next: {REBUILD}"]),
        (torn, [f"next: {RECOVER}"]),
        (killed, [f"next: {RECOVER}"]),
        (killed_torn, [f"next: {RECOVER}"]),
        (killed_lost_index, [f"next: {RECOVER}"]),
        (killed_with_older_damage, [f"next: {RECOVER}", f"then: {REBUILD}"]),
        (flipped, ["next: kafkats help findings, which says what to do about bad-crc, beyond-end"]),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_after_verify(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    state: Callable[[Path], None],
    expected: list[str],
) -> None:
    state(root)
    code, out, _ = run(capsys, "verify", root, "--topics", "none-ct")
    steps = [line for line in out.splitlines() if line.startswith(("next: ", "then: "))]
    told = [one.format(root=root) for one in expected]
    assert (steps, code) == (told, int(bool(expected) and state is not killed))
    assert (UNCLEAN in out) == (state.__name__.startswith("killed"))


def test_no_step_promises_to_mend_what_no_recovery_reads(
    golden: Unpacked, capsys: pytest.CaptureFixture[str]
) -> None:
    root = golden("crash-4.3.1", "before")
    out = run(capsys, "verify", root, "--topics", "crc-*")[1]
    assert UNCLEAN in out and f"next: kafkats plan recover {root} -o PLAN" in out
    left = f"corrupt where no recovery reads: {root}/crc-old-segment-0; no plan mends that"
    assert left in out


def test_nobody_is_told_to_remove_the_marker(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn(root)
    out = run(capsys, "verify", root, "--topics", "none-ct")[1]
    assert "kafkats plan recover cuts it, and removes .kafka_cleanshutdown if it is not true" in out
    assert "do not remove it yourself" in out


def test_other_partitions_are_recovered_where_records_are_missing_in_one(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn(root)
    (root / paths.CLEAN_SHUTDOWN).unlink()
    lines = run(capsys, "verify", root)[1].splitlines()
    assert f"next: {RECOVER.format(root=root)}" in lines
    assert lines[-1].startswith("then: kafkats help findings")


def test_the_step_after_a_kill_makes_the_directory_sound(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed_torn(root)
    assert run(capsys, "plan", "recover", root, "-o", tmp_path / "plan")[0] == 0
    assert run(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0
    code, out, _ = run(capsys, "verify", root, "--topics", "none-ct")
    assert (code, "next: " in out) == (0, False)


def test_a_partition_that_a_plan_leaves_alone_does_not_lead_to_that_plan_again(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recovery point is above the log's end: records that were flushed are missing."""
    torn(root)
    (root / paths.CLEAN_SHUTDOWN).unlink()
    recover = f"next: kafkats plan recover {root} -o PLAN"
    assert recover in run(capsys, "preflight", root, "--kafka", "4.3")[1]
    assert run(capsys, "plan", "recover", root, "-o", tmp_path / "plan")[0] == 1
    assert run(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 1
    code, out, _ = run(capsys, "preflight", root, "--kafka", "4.3")
    assert (code, recover in out) == (1, False)
    assert "next: kafkats help preflight explains each line" in out


def steps_after(**summary: Any) -> list[str]:
    header: dict[str, Any] = {"operation": summary.pop("operation", "rebuild")}
    items = pa.table({"log_dir": ["/data/a"], "action": ["update"]})
    made = Plan(header, items, "0123456789abcdef")
    found = {"outcomes": {"done": 1}, "errors": [], "error_kinds": [], **summary}
    return after_run(made, Path("p.run"), Path("my plan"), found)


UNDO: Final = "kafkats undo p.run takes it back"
AGAIN: Final = "next: mend the cause, then kafkats apply 'my plan' --digest 0123456789ab"


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ({}, [f"next: {UNDO}; kafkats purge p.run frees the old bytes"]),
        ({"outcomes": {"nothing": 3}}, []),
        ({"outcomes": {"failed": 1}, "errors": ["no space"], "error_kinds": ["DiskFull"]}, [AGAIN]),
        (
            {
                "outcomes": {"done": 1, "failed": 1},
                "errors": ["no space"],
                "error_kinds": ["DiskFull"],
            },
            [AGAIN, f"or: {UNDO}"],
        ),
        (
            {
                "operation": "recover",
                "outcomes": {"done": 1, "refused": 2},
                "errors": ["a: changed since it was looked at", "b: a is not recovered"],
                "error_kinds": ["Changed", "Refused"],
            },
            ["next: make a new plan for what was refused", f"or: {UNDO}"],
        ),
        (
            {
                "outcomes": {"refused": 1},
                "errors": ["/make a new plan: a broker holds it"],
                "error_kinds": ["Locked"],
            },
            [AGAIN],
        ),
        ({"proof": {"not_equal": ["x"]}}, [f"next: {UNDO}; do not purge it"]),
        ({"proof": {"not_equal": []}}, [f"next: {UNDO}; kafkats purge p.run frees the old bytes"]),
    ],
)
def test_after_a_run(summary: dict[str, Any], expected: list[str]) -> None:
    assert steps_after(**summary) == expected
    assert not any("new plan" in one and "apply" in one for one in expected)


def test_a_changed_log_leads_to_a_new_plan_alone(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed_torn(root)
    assert run(capsys, "plan", "recover", root, "-o", tmp_path / "plan")[0] == 0
    with last_log(root).open("ab") as log:
        log.write(b"more")
    code, out, _ = run(capsys, "apply", tmp_path / "plan", "--digest", "any")
    assert code == 3 and "next: make a new plan for what was refused" in out
    assert "apply again" not in out and "kafkats apply" not in out and "purge" not in out
    [folder] = [Path(line[4:]) for line in out.splitlines() if line.startswith("run /")]
    assert set(read_actions(folder)["kind"].to_pylist()) == {"", "Changed", "Refused"}
    assert read_json(folder / "report.json")["error_kinds"] == ["Changed", "Refused"]
