"""What a terminal shows while a stage runs."""

from __future__ import annotations

import os
import pty
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kafkats.cli.terminal import progress_bar, run_sentences, say_summary, unread_sentences
from kafkats.plans.plan import Plan


@pytest.mark.parametrize(
    ("stage", "total", "said"),
    [
        ("undo", 8, b"undo"),
        ("undo", 8, b"8 of 8 directories"),
        ("compare", 3, b"3 of 3 files"),
        ("verify", 2048, b"2.0/2.0 KiB"),
    ],
)
def test_progress_counts_what_the_units_of_a_stage_are(
    stage: str, total: int, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    ours, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with progress_bar(stage, total) as advance:
            advance(total)
    shown = b""
    with suppress(OSError):  # EIO: the other end is closed, and there is no more
        while piece := os.read(ours, 1 << 16):
            shown += piece
    os.close(ours)
    assert said in shown


def test_sentences_fit_a_terminal_and_stay_whole_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    long = "  two words " * 6
    command = f"to do it: kafkats apply {'a' * 40} --digest 1"
    say_summary({}, [long.rstrip(), command])
    assert capsys.readouterr().out.splitlines() == [long.rstrip(), command]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    say_summary({}, [long.rstrip(), command, "x" * 50])
    *lines, last, unbroken = capsys.readouterr().out.splitlines()
    assert (last, unbroken) == (command, "x" * 50), "what a person copies is never broken"
    assert len(lines) == 2 and all(len(line) <= 40 for line in lines)
    assert lines[1].startswith("    t") and " ".join(lines).split() == long.split()


def test_a_directory_that_was_not_read_is_named_once() -> None:
    gone = {"kind": "unreadable", "file": "torn-0", "reason": "permission denied"}
    finding = {"severity": "danger", "position": -1, "expected": "", "found": "", **gone}
    row = {"log_dir": "/data", "partition_dir": "torn-0", "base_offset": -1, "worst": "danger"}
    segments = pa.Table.from_pylist([{**row, "findings": [finding]}])
    assert unread_sentences(segments) == ["not read: /data/torn-0: permission denied"]


def _after(operation: str, *, blocked: bool = False, errors: tuple[str, ...] = ()) -> list[str]:
    """Return the last lines of an apply, from its next step on."""
    summary = {
        "files": 1,
        "written_bytes": 1,
        "outcomes": {"done": 1},
        "errors": errors,
        "error_kinds": [],
    }
    header: dict[str, Any] = {"operation": operation}
    actions = ["blocked" if blocked else "update", "update", "update"]
    items = pa.table({"log_dir": ["/data/a b", "/data/c", "/data/c"], "action": actions})
    made = Plan(header, items, "")
    lines = run_sentences(summary, made, Path("p"), Path("p.run"))
    return lines[next(n for n, line in enumerate(lines) if line.startswith("next: ")) : -1]


def test_the_steps_after_a_recovery_are_in_the_order_in_which_they_are_safe() -> None:
    """Without a broker that has started, a purge would free what an undo needs."""
    starts = "kafkats preflight '/data/a b' /data/c --kafka RELEASE, and start the broker"
    ends = [
        "before that start: kafkats undo p.run takes it back",
        "when the broker serves again: kafkats purge p.run frees the old bytes",
    ]
    assert _after("recover") == [f"next: {starts}", *ends]
    first = "next: restore the blocked partitions from a replica, or copy their directories"
    assert _after("recover", blocked=True) == [first, f"then: {starts}", *ends]


def test_after_a_failed_recovery_and_other_operations_no_broker_is_started() -> None:
    both = "next: kafkats undo p.run takes it back; kafkats purge p.run frees the old bytes"
    assert _after("rebuild") == [both]
    assert "preflight" not in "".join(_after("recover", errors=("a disk failed",)))
