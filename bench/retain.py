"""Retain: plans over the facts of millions of segments, files deleted per second, and a segment cut
in two.

* **plan**: facts of depth tail, partitions of 1000 segments with three files each, from facts to
  digest; CPU of all threads
* **memory**: RssAnon of a separate process. A Spark job plans in its driver, with the same
  function, over all facts from its tasks and the list of units. A million segments on local[2] took
  1.7 GB of Python, most of it while facts are collected and sorted, 1.5 GB of JVM, and 1.1 GB of
  units. With Spark's defaults (1 GiB of heap and of results) two million failed. Ten million need
  about 40 GB in one driver, with spark.driver.memory and spark.driver.maxResultSize to match, or
  several plans
* **apply**: wall time, including syncs; partitions of 100 segments with three files each, of which
  all but the last are deleted. Undo material is kept
* **cut in two**: an apply of `plan split`, beside copying both parts with copy_file_range and
  rebuilding their indexes; both sync
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.harness import MIB, ROOT, Figure, Figures, scratch, take_turns, tell
from bench.many import PER_PARTITION, synthetic_facts, take, write_root
from bench.memory import anonymous, most_while
from bench.segments import V2_100, write_indexes, write_segment
from kafkats.config.policy import Policy
from kafkats.flow.apply import apply_partition, partition_works, rounds, summarize
from kafkats.generations import DEFAULT_RULE
from kafkats.inspect.verify import VerifyOptions, verify_unit
from kafkats.logdir.identity import FileIdentity
from kafkats.paths import LOG, OFFSET_INDEX, TIME_INDEX, segment_file
from kafkats.plans.facts import ACTIONS, FILE, SEGMENTS
from kafkats.plans.plan import Plan
from kafkats.plans.run import run_of
from kafkats.plans.units import Unit, list_units
from kafkats.retention.plan import RetainOptions, plan_retain
from kafkats.segment.reader import open_segment
from kafkats.split.parts import PARTS, SplitOptions, look
from kafkats.split.plan import plan_split
from tests.builders.logs import build

ROWS = 1_000_000
SEGMENTS_DELETED = 4_000
NOW = 1_790_000_000_000
PER = 1000
POLICY = Policy.model_validate({
    "topics": {"*": {"cleanup.policy": "delete", "retention.ms": 1000}}
})


def figures(*, small: bool = False) -> Figures:
    rows, segments, size = (
        (ROWS // 50, SEGMENTS_DELETED // 10, 8 * MIB)
        if small
        else (ROWS, SEGMENTS_DELETED, 512 * MIB)
    )
    for percent in (1, 100):
        tenth, whole = aged_facts(rows // 10, percent), aged_facts(rows, percent)
        costs = take_turns(
            {"tenth": partial(_planned, tenth), "whole": partial(_planned, whole)}, 3
        )
        seconds = statistics.median(costs["whole"])
        name = f"plan over {rows:,} segments, {percent} % deletable"
        yield Figure(
            f"{name}, CPU", seconds, "s", 10, at_least=False, detail="from facts to digest"
        )
        growth = statistics.median(
            w / t / 10 for w, t in zip(costs["whole"], costs["tenth"], strict=True)
        )
        told = f"{statistics.median(costs['tenth']):.2f} s for {rows // 10:,}"
        yield Figure("the same / ten times that of a tenth of them", growth, "x", detail=told)
    yield from _large(10 * rows)
    yield from _apply(segments)
    yield from _cut(size)


def aged_facts(rows: int, percent: int, *, after: int = 0) -> pa.Table:
    """Return partitions of 1000 segments. The first `percent` % have expired, except the last."""
    facts = synthetic_facts(rows, 0, after=after)
    number = np.arange(rows) % PER
    old = number < min(PER * percent // 100, PER - 1)
    largest = NOW - np.where(
        old, np.random.default_rng(after).integers(5000, 30 * 86_400_000, rows), 0
    )
    columns: dict[str, Any] = {
        "next_base_offset": np.where(number == PER - 1, -1, number * 1000 + 1000),
        "last_offset": number * 1000 + 999,
        "max_timestamp": largest,
        "high_watermark": np.full(rows, PER * 1000),
        "clean": np.ones(rows, bool),
        "log": pa.StructArray.from_arrays(
            [pa.array(each) for each in (number + 1, largest * 10**6, largest, number)],
            fields=list(FILE),
        ),
    }
    for name, values in columns.items():
        facts = facts.set_column(facts.schema.get_field_index(name), name, pa.array(values))
    return facts.cast(SEGMENTS)


def _planned(facts: pa.Table) -> float:
    """Return the CPU seconds of all threads for a plan."""
    began = time.process_time()
    plan_retain(facts, POLICY, RetainOptions(NOW))
    return time.process_time() - began


def _large(rows: int) -> Figures:
    """Measure a plan over many segments in a separate process."""
    tell(f"planning over {rows:,} segments")
    command = [sys.executable, "-m", "bench.retain", str(rows)]
    said = subprocess.run(
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.split()
    wall, cpu, facts, before, most, unit = map(float, said)
    told = f"CPU {cpu:.1f} s; {facts / 1e9:.1f} GB of facts"
    yield Figure(f"plan over {rows:,} segments, 1 % deletable", wall, "s", detail=told)
    told = f"{most / 1e9:.1f} GB at most; their units, which the command and the Spark driver hold, too, {unit * rows / 1e9:.1f} GB"
    yield Figure("memory that it takes beside the facts", (most - before) / 1e9, "GB", detail=told)


def main() -> None:
    """Print the figures of a plan over this many segments.

    They are wall seconds, CPU seconds, bytes of facts, RssAnon before and at most, and bytes per
    unit.
    """
    rows = int(sys.argv[1])
    piece = min(rows, ROWS)
    facts = pa.concat_tables([aged_facts(piece, 1, after=n // PER) for n in range(0, rows, piece)])
    pa.default_memory_pool().release_unused()
    before, cpu, began = anonymous(), time.process_time(), time.perf_counter()
    most = most_while(lambda: plan_retain(facts, POLICY, RetainOptions(NOW)))
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(wall, cpu, facts.nbytes, before, most, _unit_bytes(facts.slice(0, 100_000)))


def _unit_bytes(facts: pa.Table) -> float:
    """Return the memory in bytes that listing such a segment takes."""
    names = [facts[name].to_pylist() for name in ("partition_dir", "base_offset")]
    before = anonymous()
    units = [
        Unit(
            "/data",
            directory,
            base,
            bytes=NOW + n,
            next_base_offset=NOW + n,
            files=tuple(FileIdentity(NOW + k, NOW + n, NOW + n, n) for k in range(3)),
        )
        for n, (directory, base) in enumerate(zip(*names, strict=True))
    ]
    return (anonymous() - before) / len(units)


def _apply(segments: int) -> Figures:
    with scratch() as folder:
        root = folder / "data"
        write_root(root, segments)
        marks = [
            f"{p.name.rpartition('-')[0]} {p.name.rpartition('-')[2]} {10**9}"
            for p in root.glob("*-*")
        ]
        (root / "replication-offset-checkpoint").write_text(
            "\n".join(["0", str(len(marks)), *marks, ""])
        )
        plan, _ = plan_retain(take(root), POLICY, RetainOptions(NOW))
        works = [
            work for together in rounds(partition_works(plan, run_of(plan))) for work in together
        ]
        begun = time.perf_counter()
        done = pa.Table.from_batches([apply_partition(work) for work in works], ACTIONS)
        seconds = time.perf_counter() - begun
        if summarize(done)["exit_code"]:
            raise RuntimeError(f"not deleted: {summarize(done)}")
        removed = sum(action == "remove" for action in done["action"].to_pylist())
        told = f"{removed:,} files in {seconds:.2f} s, {PER_PARTITION} families a partition"
        yield Figure("files deleted per second", removed / seconds, "files/s", 5000, detail=told)


def _cut(size: int) -> Figures:
    with scratch() as folder:
        root = folder / "data"
        partition = root / "orders-0"
        partition.mkdir(parents=True)
        (root / ".kafka_cleanshutdown").touch()
        (root / ".lock").touch()
        tell("writing the segment")
        log = write_segment(partition, V2_100, size)
        write_indexes(log)
        rest = partition / segment_file(2**31, LOG)
        for kind in (LOG, OFFSET_INDEX, TIME_INDEX):
            rest.with_suffix(kind).touch()
        options = SplitOptions("rolled", segment_bytes=size // 2 + MIB)

        def ours() -> float:
            made = _split_plan(root, options)
            work = partition_works(made, run_of(made))
            begun = time.perf_counter()
            rows = apply_partition(work[0]).to_pylist()
            seconds = time.perf_counter() - begun
            if rows[0]["outcome"] != "done":
                raise RuntimeError(rows[0]["error"])
            _undo(made, root)
            return seconds

        costs = take_turns({"copied": partial(_copied, log, folder / "copy"), "ours": ours}, 3)
        ratio = sorted(c / o for c, o in zip(costs["copied"], costs["ours"], strict=True))[1]
        told = f"{size / 1e6:,.0f} MB: copied and rebuilt {sorted(costs['copied'])[1]:.2f} s, apply {sorted(costs['ours'])[1]:.2f} s"
        yield Figure(
            "a segment cut in two / copy_file_range and rebuild", ratio, "x", 0.7, detail=told
        )


def _split_plan(root: Path, options: SplitOptions) -> Plan:
    units = list(list_units([root]))
    facts = pa.Table.from_batches([verify_unit(unit, VerifyOptions()) for unit in units], SEGMENTS)
    return plan_split(
        facts, pa.Table.from_batches([look(unit, options) for unit in units], PARTS), options
    )


def _undo(plan: Plan, root: Path) -> None:
    from kafkats.flow.ending import end_partition

    for verb in ("undo", "purge"):
        if (ended := end_partition(run_of(plan), verb, str(root), "orders-0"))["exit_code"]:
            raise RuntimeError(ended["error"])


def _copied(log: Path, folder: Path) -> float:
    """Copy both halves, sync them, and build their indexes."""
    folder.mkdir(exist_ok=True)
    begun = time.perf_counter()
    size = log.stat().st_size
    for number, (start, end) in enumerate(((0, size // 2), (size // 2, size))):
        target = folder / segment_file(number, LOG)
        with log.open("rb") as source, target.open("wb") as copy:
            while start < end:
                start += os.copy_file_range(source.fileno(), copy.fileno(), end - start, start)
            os.fsync(copy.fileno())
        with open_segment(log) as view:  # the whole log: it is as large as both halves
            built = build(view[size // 2 * number : size // 2 * (number + 1)], 0, rule=DEFAULT_RULE)
        for kind, content in ((OFFSET_INDEX, built.offset_index), (TIME_INDEX, built.time_index)):
            with target.with_suffix(kind).open("wb") as index:
                index.write(content)
                index.flush()
                os.fsync(index.fileno())
    seconds = time.perf_counter() - begun
    for file in folder.iterdir():
        file.unlink()
    return seconds


if __name__ == "__main__":
    main()
