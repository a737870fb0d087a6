"""All kernels over extreme numbers, in a process with numba's bounds check and unreadable pages around every buffer.

A process of its own: what reads beside its buffer ends it with a signal, and compiled code with the check must not come
into the cache of the others. `inputs` has the cases, `extremes` what is done with each.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kafkats.errors import CorruptBatch
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.model import Record, TimestampType
from kafkats.index.check import check_segment
from kafkats.kernels import records as k
from kafkats.segment.walk import walk
from kafkats_model.memory_source import array_source

LAST = 2**63 - 2


@pytest.mark.slow(35)
def test_every_kernel_over_every_extreme(tmp_path: Path) -> None:
    note = tmp_path / "case"
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.extremes", str(note)],
        env=os.environ | checked, capture_output=True, text=True, timeout=3600, check=False,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    last = note.read_text(encoding="utf-8") if note.exists() else "before the first case"
    assert done.returncode == 0, f"ended with {done.returncode} at {last}\n{done.stderr[-4000:]}"
    assert "'convert'" in done.stdout


def record(offset: int) -> Record:
    return Record(offset, 5, TimestampType.CREATE_TIME, b"k", b"v")


def moved(log: bytes, offset: int) -> bytes:
    """The same frame at another offset: that is under no checksum."""
    return offset.to_bytes(8, "big", signed=True) + log[8:]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_batch_that_no_offset_follows_is_no_batch(magic: int, tmp_path: Path) -> None:
    one = (v0, v1, v2)[magic].encode_batch([record(0)])
    good, bad = moved(one, LAST), moved(one, LAST + 1)
    assert [b.last_offset for b in dispatch.batches(good)] == [LAST]
    with pytest.raises(CorruptBatch, match=r"no log holds an offset above 2\^63-2") as caught:
        list(dispatch.batches(good + bad))
    assert caught.value.position == len(good)
    log = tmp_path / f"{LAST:020d}.log"
    log.write_bytes(good + bad)
    check = check_segment(log)
    assert (check.facts.stop, check.facts.stop_position) == ("bad-offset", len(good))
    assert check.facts.next_offset == LAST + 1
    assert [(f.kind, f.severity) for f in check.findings if f.file.endswith(".log")] == [
        ("bad-offset", "danger")
    ]
    assert check.built.blocked == "bad-offset", "a broker's recovery goes on behind it"


def test_time_entries_are_read_only_as_far_as_there_are_any() -> None:
    log = moved(v2.encode_batch([record(0)]), LAST + 1)
    walked = walk(array_source(np.frombuffer(log, np.uint8)), 0, time_entries=bytes(12))
    assert (walked.facts.batches, walked.time_entries.passed) == (0, 0)
    assert walked.facts.stop == "bad-offset"


def test_a_log_that_was_changed_since_it_was_walked_is_left_alone() -> None:
    """A follower truncates and writes anew while we look: what was the beginning of a batch is none any more."""
    for data in (b"\xff" * 64, bytes(64), b"\0" * 8 + b"\x7f\xff\xff\xff" + bytes(52)):
        state = k.new_state()
        source = np.frombuffer(data, np.uint8)
        state[: k.POSITION] = source.ctypes.data, 0, 64, 64, 64
        assert k.deep(state) == k.MOVED
        assert state[k.POSITION] == 0
