"""kafkats verify beside kafka-dump-log 4.3.1: CPU per byte on the same files at the same depth, and
which defects each finds.

The cost of kafka-dump-log is the CPU of the whole process, all threads, minus that of a process for
a segment of one batch. The cost of kafkats is the CPU of the verifying thread in a warm process.
The cost of whole processes, including Python's start, is shown as well.

shallow       every batch header; the .index, each entry compared with the log. kafkats also checks
              checksums and the .timeindex, and rebuilds both indexes
--deep        every record decoded (--deep-iteration)
gzip          both wait for the codec: shown without a goal
.timeindex    kafka-dump-log reads the rest of the log again for each entry: measured on 2 MiB
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from bench.harness import (
    MB,
    MIB,
    ROOT,
    Figure,
    Figures,
    Table,
    cpu_seconds,
    process,
    scratch,
    take_turns,
    tell,
    times_cheaper,
)
from bench.java import java_command
from bench.segments import V1_100, V2_1K, V2_100, V2_GZIP, Shape, write_indexes, write_segment
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.paths import CLEAN_SHUTDOWN, LOG, META_PROPERTIES, OFFSET_INDEX, TIME_INDEX
from kafkats.plans.facts import SEGMENTS, all_findings
from kafkats.plans.units import list_units

MAIN = "org.apache.kafka.tools.DumpLogSegments"
ROUNDS = 3
GOAL = 50


class Depth(NamedTuple):
    """A depth: the options of kafka-dump-log and of kafkats, and the files to read."""

    name: str
    theirs: tuple[str, ...]
    deep: bool
    kinds: tuple[str, ...]


SHALLOW = Depth("shallow with .index", (), False, (LOG, OFFSET_INDEX))
TIMES = Depth("shallow with both indexes", (), False, (LOG, OFFSET_INDEX, TIME_INDEX))
DEEP = Depth("--deep", ("--deep-iteration",), True, (LOG,))
RACES = (
    (V1_100, SHALLOW, 64 * MIB),
    (V2_100, SHALLOW, 256 * MIB),
    (V2_1K, SHALLOW, 256 * MIB),
    (V1_100, TIMES, 2 * MIB),
    (V1_100, DEEP, 64 * MIB),
    (V2_100, DEEP, 64 * MIB),
    (V2_GZIP, DEEP, 32 * MIB),
)


def figures(*, small: bool = False) -> Figures:
    for shape, depth, size in RACES:
        with scratch() as folder:
            tell(f"{shape.name}, {depth.name}")
            yield _race(folder, shape, depth, size // 32 if small else size)
    with scratch() as folder:
        tell("defects")
        yield from _defects(folder)


def _race(folder: Path, shape: Shape, depth: Depth, size: int) -> Figure:
    tiny, log = (
        write_segment(folder / name, shape, n) for name, n in (("tiny-0", 4096), ("raced-0", size))
    )
    write_indexes(tiny)
    write_indexes(log)
    mark_clean(folder)
    command = [sys.executable, "-m", "kafkats", "verify", *(["--deep"] if depth.deep else []), log]
    costs = take_turns(
        {
            "tiny": lambda: _dump_seconds(tiny, depth),
            "dump-log": lambda: _dump_seconds(log, depth),
            "command": lambda: process(command)[1],
            "verify": lambda: min(
                cpu_seconds(lambda: verify([log], deep=depth.deep)) for _ in range(3)
            ),
        },
        ROUNDS,
        warm=0,
    )
    start = statistics.median(costs["tiny"])
    costs["dump-log, started"] = [cost - start for cost in costs["dump-log"]]
    rate = {name: log.stat().st_size / MB / statistics.median(cost) for name, cost in costs.items()}
    whole = f"whole processes {statistics.median(costs['dump-log']):.1f} s / {statistics.median(costs['command']):.2f} s"
    detail = f"{rate['verify']:,.0f} / {rate['dump-log, started']:,.1f} MB/s; {whole}"
    return Figure(
        f"verify / kafka-dump-log, {depth.name}, {shape.name}",
        times_cheaper(costs, "verify", "dump-log, started"),
        "x",
        None if shape.codec else GOAL,
        detail=detail,
    )


def mark_clean(root: Path) -> None:
    """Mark a root as stopped cleanly: no broker can truncate its logs, so they are mapped."""
    (root / CLEAN_SHUTDOWN).touch()
    (root / META_PROPERTIES).write_text("version=1\nnode.id=1\ncluster.id=bench\n")


def verify(paths: Sequence[Path], *, deep: bool = False) -> pa.Table:
    """Verify as `kafkats verify` does before it prints."""
    options = VerifyOptions(deep=deep)
    return pa.Table.from_batches(
        [verify_unit(unit, options) for unit in list_units(paths)], schema=SEGMENTS
    )


def _dump_seconds(log: Path, depth: Depth) -> float:
    files = ",".join(str(log.with_suffix(kind)) for kind in depth.kinds)
    return process(java_command(MAIN, *depth.theirs, "--files", files))[1]


def _defects(folder: Path) -> Figures:
    """Create each defect in a new copy of one healthy segment, and check which tool reports it.

    A reported defect counts whatever the exit code.
    """
    healthy = write_segment(folder / "healthy-0", V1_100, 256 * 1024)
    write_indexes(healthy)
    following = write_segment(folder / "healthy-0", V1_100, 8 * 1024, base_offset=1_000_000)
    write_indexes(following)
    rows: list[tuple[str, ...]] = []
    for n, (name, harm) in enumerate(DEFECTS):
        partition = folder / f"defect-{n}" / "harmed-0"
        shutil.copytree(healthy.parent, partition)
        harm(partition / healthy.name)
        kinds = _found_by_us(partition)
        said, code = _said_by_them(partition / healthy.name)
        rows.append((name, ", ".join(kinds) or "-", said or "-", str(code)))
    head = (
        "defect",
        "kafkats verify --deep (exit code 1)",
        "kafka-dump-log --deep-iteration",
        "its exit code",
    )
    yield Table("Which defects each finds", head, tuple(rows))
    ours, theirs = (sum(row[n] != "-" for row in rows) for n in (1, 2))
    yield Figure("defects found by kafkats verify --deep", ours, f"of {len(rows)}", len(rows))
    yield Figure("defects found by kafka-dump-log --deep-iteration", theirs, f"of {len(rows)}")


def _found_by_us(partition: Path) -> list[str]:
    rows = all_findings(verify([partition], deep=True))
    return sorted({row["kind"] for row in rows if row["severity"] in ("damage", "danger")})


def _said_by_them(log: Path) -> tuple[str, int]:
    """Return the complaint of kafka-dump-log in one word, and its exit code.

    It truncates indexes to whole entries, so it runs last and on a copy.
    """
    files = ",".join(
        str(p)
        for p in (log.with_suffix(kind) for kind in (LOG, OFFSET_INDEX, TIME_INDEX))
        if p.exists()
    )
    command = java_command(
        MAIN,
        "--deep-iteration",
        "--files",
        files,
        options=("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
    )
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    text = (done.stdout + done.stderr).lower()
    words = {"exception": "exception", "mismatch": "mismatch", "isvalid: false": "isvalid: false", "invalid bytes": "invalid bytes", "out of order": "out of order", "not found": "not found"}  # fmt: skip
    return next((word for sign, word in words.items() if sign in text), ""), done.returncode


Harm = Callable[[Path], None]


def _bytes(kind: str, change: Callable[[bytes], bytes]) -> Harm:
    """Return a change to the bytes of one of the segment's files."""

    def harm(log: Path) -> None:
        path = log.with_suffix(kind)
        path.write_bytes(change(path.read_bytes()))

    return harm


def _unlink(kind: str) -> Harm:
    return lambda log: log.with_suffix(kind).unlink()


def _mark_clean(log: Path) -> None:
    """Cut the tail of the active segment in a root that was marked as stopped cleanly."""
    for other in log.parent.glob("*1000000.*"):
        other.unlink()
    log.write_bytes(log.read_bytes()[:-7])
    mark_clean(log.parent.parent)


def _swapped(data: bytes, width: int, n: int) -> bytes:
    """Return the bytes with entries n and n + 1 swapped."""
    return (
        data[: n * width]
        + data[(n + 1) * width : (n + 2) * width]
        + data[n * width : (n + 1) * width]
        + data[(n + 2) * width :]
    )


def _with(data: bytes, at: int, new: bytes) -> bytes:
    at %= len(data)
    return data[:at] + new + data[at + len(new) :]


def _lowered(data: bytes, at: int, width: int, by: int) -> bytes:
    """Return the bytes with the number of `width` bytes at `at` lowered by `by`."""
    return _with(
        data, at, (int.from_bytes(data[at : at + width], "big") - by).to_bytes(width, "big")
    )


_MESSAGE = 142
DEFECTS: tuple[tuple[str, Harm], ...] = (
    ("time index missing", _unlink(TIME_INDEX)),
    ("offset index missing", _unlink(OFFSET_INDEX)),
    ("time index empty", _bytes(TIME_INDEX, lambda data: b"")),
    ("time index of the right size, all zeros", _bytes(TIME_INDEX, lambda data: bytes(len(data)))),
    ("time index with a zero tail (never trimmed)", _bytes(TIME_INDEX, lambda data: data + bytes(12 * 500))),
    ("offset index with a zero tail (never trimmed)", _bytes(OFFSET_INDEX, lambda data: data + bytes(8 * 500))),
    ("time index: half of the last entry", _bytes(TIME_INDEX, lambda data: data[:-6])),
    ("offset index: half of the last entry", _bytes(OFFSET_INDEX, lambda data: data[:-3])),
    ("time index: last entry lost (below the maximum)", _bytes(TIME_INDEX, lambda data: data[:-12])),
    ("time index: last timestamp above the maximum", _bytes(TIME_INDEX, lambda data: _with(data, -8, (2**31 - 1).to_bytes(4, "big")))),
    ("time index: two entries swapped", _bytes(TIME_INDEX, lambda data: _swapped(data, 12, 5))),
    ("offset index: two entries swapped", _bytes(OFFSET_INDEX, lambda data: _swapped(data, 8, 5))),
    ("time index: a time that offsets before its own have", _bytes(TIME_INDEX, lambda data: _lowered(data, 12 * 5, 8, 3))),
    ("offset index: a position inside a batch", _bytes(OFFSET_INDEX, lambda data: _with(data, 8 * 5 + 7, bytes([data[47] ^ 1])))),
    ("offset index: an offset below its batch", _bytes(OFFSET_INDEX, lambda data: _lowered(data, 8 * 5, 4, 7))),
    ("offset index: an offset below the base", _bytes(OFFSET_INDEX, lambda data: _with(data, 0, b"\xff\xff\xff\xfe"))),
    ("offset index: an entry behind the end of the log", _bytes(OFFSET_INDEX, lambda data: data + b"\x00\xff\xff\xff\x00\xff\xff\xff")),
    ("log: last batch torn", _bytes(LOG, lambda data: data[:-7])),
    ("log: last batch torn beside a clean-shutdown marker", _mark_clean),
    ("log: zeros after the last batch", _bytes(LOG, lambda data: data + bytes(4096))),
    ("log: a bit of a value flipped (checksum)", _bytes(LOG, lambda data: _with(data, 100 * _MESSAGE + 90, b"\x00\x01"))),
    ("log: an impossible length", _bytes(LOG, lambda data: _with(data, 100 * _MESSAGE + 8, bytes(4)))),
    ("log: an unknown magic", _bytes(LOG, lambda data: _with(data, 100 * _MESSAGE + 16, b"\x09"))),
    ("log: an offset that falls", _bytes(LOG, lambda data: _with(data, 100 * _MESSAGE, bytes(8)))),
    ("log: missing beside its indexes (orphans)", _unlink(LOG)),
)  # fmt: skip
