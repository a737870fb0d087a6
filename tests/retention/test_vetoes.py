"""What is vetoed in columns is what a plain walk over partitions vetoes; and what goes is planned file by file."""

from __future__ import annotations

import heapq
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.generations import RETENTION_RULES
from kafkats.plans.facts import SEGMENTS
from kafkats.retention.plan import RetainOptions, plan_retain
from kafkats.retention.reasons import sentence
from kafkats.retention.rules import Limits, Segment, Verdict, decide

NOW = 1_700_000_000_000
TOPICS = ("a", "b", "held", "__c")
KINDS = [kind.removeprefix(".") for kind in paths.SEGMENT_KINDS]

Row = dict[str, Any]


def file(size: int, mtime_ms: int) -> Row:
    return {"size": size, "mtime_ns": mtime_ms * 1_000_000, "ctime_ns": 2, "inode": 3}


@st.composite
def facts(draw: st.DrawFn) -> list[Row]:
    """Partitions of a few segments of ten offsets, in any order."""
    places = draw(
        st.lists(
            st.tuples(st.sampled_from(["/d", "/e"]), st.sampled_from(TOPICS), st.integers(0, 2)),
            unique=True,
            min_size=1,
            max_size=5,
        )
    )
    times, sizes = st.integers(NOW - 3000, NOW), st.integers(0, 300)
    rows = []
    for log_dir, topic, number in places:
        count = draw(st.integers(1, 5))
        clean, mark, start = (
            draw(st.booleans()),
            draw(st.sampled_from([None, 0, 20, 100, 100, 100])),
            draw(st.sampled_from([-1, 0, 10, 15])),
        )
        for n in range(count):
            there = draw(st.sets(st.sampled_from(KINDS[1:])))
            rows.append({
                "log_dir": log_dir, "partition_dir": f"{topic}-{number}", "topic": topic, "directory_ctime_ns": n,
                "base_offset": 10 * n, "next_base_offset": -1 if n == count - 1 else 10 * n + 10, "last_offset": 10 * n + 9,
                "max_timestamp": draw(st.just(-1) | times), "clean": clean, "recovery": draw(st.integers(0, 9)) == 0,
                "log": file(draw(sizes), draw(times)), **{kind: file(draw(sizes), NOW) if kind in there else None for kind in KINDS[1:]},
                "high_watermark": mark, "log_start_offset": start, "worst": "", "findings": [],
            })  # fmt: skip
    return draw(st.permutations(rows))


OF_A_TOPIC = st.fixed_dictionaries(
    {},
    optional={
        "cleanup.policy": st.sampled_from(["delete", "delete", "delete", "compact"]),
        "retention.ms": st.sampled_from([-1, 0, 1000, 2000]),
        "retention.bytes": st.sampled_from([0, 300]),
        "kafkats.keep.segments": st.integers(1, 3),
        "kafkats.guard.max.share": st.sampled_from([0.2, 0.5, 1.0]),
        "kafkats.guard.max.bytes": st.sampled_from([0, 200, 700]),
    },
)  # fmt: skip
POLICIES = st.builds(
    lambda a, rest, guard, defaults: Policy.model_validate({
        "topics": {"held": rest | {"kafkats.legal.hold": True}, "a": a, "*": rest}, "guard": guard, "defaults": defaults,
    }),
    OF_A_TOPIC,
    OF_A_TOPIC,
    st.fixed_dictionaries({}, optional={"max.share": st.sampled_from([0.1, 0.5]), "max.bytes": st.sampled_from([0, 400, 1500])}),
    st.fixed_dictionaries({}, optional={"retention.ms": st.just(500), "retention.bytes": st.just(200), "cleanup.policy": st.just("delete")}),
)  # fmt: skip
OPTIONS = st.builds(
    RetainOptions,
    st.just(NOW),
    st.sampled_from(list(RETENTION_RULES)),
    before_ms=st.none() | st.just(NOW - 1500),
    free_bytes=st.none() | st.sampled_from([0, 300, 1000]),
    over_guard=st.booleans(),
    last_segment=st.booleans(),
)


class Partition:
    """One partition, decided plainly."""

    def __init__(self, rows: list[Row], policy: Policy, options: RetainOptions) -> None:
        self.rows, self.settings = rows, policy.settings(rows[0]["topic"])
        topic = rows[0]["topic"]
        broker, explicit = policy.broker_limits(topic), policy.limits(topic)
        if options.before_ms is not None:
            broker = explicit = NOW - options.before_ms, -1
        log_start = max(rows[0]["log_start_offset"], 0)
        self.segments = [
            Segment(
                r["base_offset"],
                r["base_offset"] + 10,
                r["log"]["size"],
                r["max_timestamp"],
                r["log"]["mtime_ns"] // 10**6,
            )
            for r in rows
        ]
        rule = RETENTION_RULES[options.rule]

        def decided(limits: tuple[int, int]) -> tuple[Verdict, ...]:
            all_limits = Limits(*limits, log_start, rows[0]["high_watermark"])
            return decide(self.segments, all_limits, rule, now_ms=NOW).verdicts

        self.verdicts, self.allowed = decided(broker), decided(explicit)
        self.unnamed = policy.not_explicit(topic)
        self.sizes = [sum(r[kind]["size"] for kind in KINDS if r[kind]) for r in rows]
        refusal = policy.why_kept(topic, limit_given=options.before_ms is not None)
        self.vetoes = self._vetoes(
            "legal hold" if self.settings.kafkats_legal_hold else refusal, options
        )

    def _vetoes(self, veto: str, options: RetainOptions) -> list[str]:
        found, gone, count = [], 0, len(self.rows)
        for n, verdict in enumerate(self.verdicts):
            if verdict.deletes:
                veto = veto or self._veto(n, count, gone + self.sizes[n], options)
                gone += self.sizes[n]
            found.append(veto if verdict.deletes else "")
        return found

    def _veto(self, n: int, count: int, gone: int, options: RetainOptions) -> str:
        keep = self.settings.kafkats_keep_segments or int(not options.last_segment)
        share, most = self.settings.kafkats_guard_max_share, self.settings.kafkats_guard_max_bytes
        if n >= count - keep:
            return f"the last {keep} segments stay" if keep > 1 else "the last segment stays"
        if not self.allowed[n].deletes:
            return self.unnamed
        if self.rows[0]["log_start_offset"] > 10 * count:
            return "its log start offset lies above its log end"
        if n == count - 1 and (self.rows[0]["high_watermark"] or 0) > 10 * count:
            return "its log end lies below the high watermark"
        if self.rows[n]["recovery"]:
            return "the broker was not stopped cleanly, and recovers this segment first"
        if n == count - 1 and not self.rows[0]["clean"]:
            return "the active segment goes only after a clean stop"
        if not options.over_guard and share is not None and gone > share * sum(self.sizes):
            return f"over the guard: more than {share:.0%} of the partition"
        if not options.over_guard and most is not None and gone > most:
            return f"over the guard: more than {most} bytes of the partition"
        return ""

    @property
    def place(self) -> tuple[str, str]:
        return self.rows[0]["log_dir"], self.rows[0]["partition_dir"]

    @property
    def knows_producers(self) -> bool:
        return any(row["snapshot"] for row in self.rows)

    def goes(self, n: int) -> bool:
        return n < len(self.rows) and self.verdicts[n].deletes and not self.vetoes[n]

    def age(self, n: int) -> int:
        segment = self.segments[n]
        return segment.largest_timestamp if segment.largest_timestamp >= 0 else segment.mtime_ms


def spare(partitions: list[Partition], most: int, veto: str, *, at_least: bool = False) -> None:
    """The oldest first over all partitions, each from its beginning, until it is too much."""
    queue = [
        (partition.age(0), number, 0)
        for number, partition in enumerate(partitions)
        if partition.goes(0)
    ]
    heapq.heapify(queue)
    gone, closed = 0, False
    while queue:
        _, number, n = heapq.heappop(queue)
        partition = partitions[number]
        following = n + 1 if partition.goes(n + 1) else None
        closed = closed or (gone >= most if at_least else gone + partition.sizes[n] > most)
        gone += partition.sizes[n]
        if closed:
            partition.vetoes[n] = veto
        if following is not None:
            heapq.heappush(queue, (partition.age(following), number, following))


def plainly(rows: list[Row], policy: Policy, options: RetainOptions) -> list[Partition]:
    def where(row: Row) -> tuple[str, str]:
        return row["log_dir"], row["partition_dir"]

    ordered = sorted(rows, key=lambda row: (*where(row), row["base_offset"]))
    partitions = [Partition(list(some), policy, options) for _, some in groupby(ordered, where)]
    bounds = [policy.guard.max_bytes]
    if policy.guard.max_share is not None:
        bounds.append(
            int(policy.guard.max_share * sum(sum(partition.sizes) for partition in partitions))
        )
    given = [bound for bound in bounds if bound is not None]
    if given and not options.over_guard:
        spare(partitions, min(given), "over the run's guard")
    if options.free_bytes is not None:
        spare(partitions, options.free_bytes, "not needed for the bytes asked for", at_least=True)
    return partitions


@pytest.mark.slow(5)
@settings(deadline=None, max_examples=300)
@given(facts(), POLICIES, OPTIONS)
def test_the_same_vetoes_and_files(rows: list[Row], policy: Policy, options: RetainOptions) -> None:
    made, verdicts = plan_retain(pa.Table.from_pylist(rows, schema=SEGMENTS), policy, options)
    partitions = plainly(rows, policy, options)
    assert verdicts["veto"].to_pylist() == [
        veto for partition in partitions for veto in partition.vetoes
    ]
    assert verdicts["reason"].to_pylist() == [
        sentence(v.reason) for partition in partitions for v in partition.verdicts
    ]
    assert verdicts["bytes"].to_pylist() == [
        size for partition in partitions for size in partition.sizes
    ]
    going = [(p, n) for p in partitions for n in range(len(p.rows)) if p.goes(n)]
    removed = {
        (p.rows[n]["log_dir"], p.rows[n]["partition_dir"], paths.segment_file(p.rows[n]["base_offset"], f".{kind}"), p.rows[n][kind]["size"])
        for p, n in going
        for kind in KINDS
        if p.rows[n][kind]
    }  # fmt: skip
    items = made.items.to_pylist()
    assert removed == {
        (i["log_dir"], i["partition_dir"], i["file"], i["before"]["size"])
        for i in items
        if i["action"] == "remove"
    }
    emptied = [p for p, n in going if n == len(p.rows) - 1]
    added = sorted(
        (i["log_dir"], i["partition_dir"], i["file"]) for i in items if i["action"] == "add"
    )
    assert added == sorted(
        (*p.place, paths.segment_file(p.segments[-1].end_offset, f".{kind}"))
        for p in emptied
        for kind in (("log", "index", "timeindex") if p.rows[-1]["timeindex"] else ("log", "index"))
    )
    with_epochs = {
        p.place
        for p, _ in going
        if RETENTION_RULES[options.rule].high_watermark or p.knows_producers
    }
    assert {
        (i["log_dir"], i["partition_dir"]) for i in items if i["file"] == paths.LEADER_EPOCH
    } == with_epochs
    assert made.header["totals"]["freed_bytes"] == sum(p.sizes[n] for p, n in going)
