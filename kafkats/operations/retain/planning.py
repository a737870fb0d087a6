"""Retain: delete whole segments, as the broker of a generation would, from facts alone, and never more than was allowed.

    decide    per partition, by retention.decide: what Kafka itself would delete now, and why not the others
    veto      what we do not delete though Kafka would: a column of its own, with its own reasons
    stage     the families of files go into the undo area; checkpoints follow

Facts of depth tail are enough. Where an index does not hold up a segment's age is not believed, and nothing behind it goes by
time. Nothing is deleted for a topic whose cleanup.policy and limit nobody has named.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.bogus import Believed, believe
from kafkats.config import Policy, TopicSettings
from kafkats.errors import KafkatsError, UsageError
from kafkats.generations import DEFAULT_RETENTION_RULE, RETENTION_RULES, RetentionRule
from kafkats.index import time_index
from kafkats.logdir.workarea import ROOT
from kafkats.operations.retain.staging import NEW_FAMILY
from kafkats.plan import ITEMS, Plan, make_plan
from kafkats.report import swapping
from kafkats.retention import Decision, Limits, Segment, Verdict, decide

OPERATION: Final = "retain"
_EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()

RETENTION: Final = pa.schema([
    ("log_dir", pa.string()),
    ("partition_dir", pa.string()),
    ("topic", pa.string()),
    ("base_offset", pa.int64()),
    ("end_offset", pa.int64()),         # exclusive
    ("bytes", pa.int64()),              # of all files of the segment
    ("first_timestamp", pa.int64()),
    ("largest_timestamp", pa.int64()),
    ("mtime_ms", pa.int64()),
    ("unit", pa.string()),              # of the largest timestamp as it looks: ms, s, us, ns, future, negative; "" old or none
    ("evidence", pa.string()),          # offset, size, timestamp, mtime (weak), "" when it has no age
    ("deletes", pa.bool_()),            # Kafka's verdict
    ("by", pa.string()),                # start-offset, size, time
    ("reason", pa.string()),
    ("veto", pa.string()),              # why we do not, though Kafka would
    ("deletable_from_ms", pa.int64()),  # by time, with all before it; null: never
    ("blocked_by", pa.int64()),         # the segment that keeps it though it has expired
])  # fmt: skip
"""One row per segment."""


@dataclass(frozen=True)
class RetainOptions:
    """`now_ms` is the moment to decide for. `before_ms` deletes what is older instead of what the policy's limits say (KIP-47);
    `free_bytes` stops when that much would be freed; `over_guard` lifts the guards, which somebody must have approved;
    `last_segment` lets the last segment go, too, as a broker does, and begins an empty one at the log end."""

    now_ms: int
    rule: str = DEFAULT_RETENTION_RULE.name
    before_ms: int | None = None
    free_bytes: int | None = None
    over_guard: bool = False
    last_segment: bool = False


class _Partition(NamedTuple):
    """One partition's rows of facts, as columns."""

    log_dir: str
    partition_dir: str
    topic: str
    rows: range
    segments: tuple[Segment, ...]
    units: tuple[str, ...]
    family_bytes: Sequence[int]
    high_watermark: int | None
    log_start_offset: int
    clean: bool
    recovery: Sequence[bool]


def plan_retain(segments: pa.Table, policy: Policy, options: RetainOptions) -> tuple[Plan, pa.Table]:
    """Decide from facts (report.SEGMENTS, depth tail): the plan, and RETENTION with every segment's verdict.

    Raises UsageError for an unknown rule.
    """
    rule = RETENTION_RULES.get(options.rule)
    if rule is None:
        raise UsageError(f"unknown rule {options.rule!r}; known are {', '.join(RETENTION_RULES)}")
    order = [(name, "ascending") for name in ("log_dir", "partition_dir", "base_offset")]
    facts = segments.filter(pc.and_(pc.greater_equal(segments["base_offset"], 0), pc.is_valid(segments["log"])))
    facts = facts.sort_by(order).combine_chunks()
    swaps = swapping(segments)
    settings: dict[str, tuple[TopicSettings, str]] = {}
    decided: list[tuple[_Partition, Decision, list[str]]] = []
    for partition in _partitions(facts, policy):
        if partition.topic not in settings:
            found = policy.settings(partition.topic)
            settings[partition.topic] = found, _refusal(policy, partition.topic, found, options)
        given, refusal = settings[partition.topic]
        refusal = refusal or swaps.get((partition.log_dir, partition.partition_dir), "")
        limits = _limits(partition, policy, options)
        decision = decide(partition.segments, limits, rule, now_ms=options.now_ms)
        decided.append((partition, decision, _vetoes(partition, decision, given, refusal, options)))
    _spare(decided, _run_guard(policy, decided, options), "over the run's guard")
    if options.free_bytes is not None:
        _spare(decided, options.free_bytes, "not needed for the bytes asked for", at_least=True)
    verdicts = _table(facts, decided)
    items = pa.Table.from_pylist(list(_items(facts, decided, rule)), schema=ITEMS)
    return make_plan(OPERATION, asdict(options), _totals(verdicts, items), items), verdicts


def _partitions(facts: pa.Table, policy: Policy) -> Iterator[_Partition]:
    names = ("log_dir", "partition_dir", "topic", "base_offset", "next_base_offset", "last_offset", "max_timestamp",
             "worst", "clean", "recovery", "high_watermark", "log_start_offset")  # fmt: skip
    column = {name: facts[name].to_pylist() for name in names}
    sizes = pc.struct_field(facts["log"], "size").to_pylist()
    mtimes = pc.divide(pc.struct_field(facts["log"], "mtime_ns"), 1_000_000).to_pylist()
    families = _family_bytes(facts).to_pylist()
    doubtful = {i for i, worst in enumerate(column["worst"]) if worst in ("damage", "danger")}
    untrusted = {i for i in doubtful if _misleads(facts["findings"][i].as_py())}
    bases, dirs, logs = column["base_offset"], column["partition_dir"], column["log_dir"]
    start = 0
    while start < len(bases):
        end = start + 1
        while end < len(bases) and dirs[end] == dirs[start] and logs[end] == logs[start]:
            end += 1
        log_end = max(column["last_offset"][end - 1] + 1, bases[end - 1])
        topic = column["topic"][start] or ""
        directory = Path(logs[start], dirs[start])
        how = policy.settings(topic).kafkats_bogus_timestamps or "report"
        largest = [-1 if largest is None else largest for largest in column["max_timestamp"][start:end]]
        believed = [
            _believe(directory, bases[start + n], largest[n], mtimes[start + n], how) for n in range(end - start)
        ]
        found = tuple(
            Segment(
                bases[i],
                bases[i + 1] if i + 1 < end else log_end,
                sizes[i],
                believed[i - start].timestamp,
                mtimes[i],
                i not in untrusted,
            )
            for i in range(start, end)
        )
        mark = column["high_watermark"][start]
        yield _Partition(
            logs[start], dirs[start], topic, range(start, end), found, tuple(b.unit for b in believed), families[start:end],
            None if mark is None or mark < 0 else mark, max(column["log_start_offset"][start] or 0, 0),
            bool(column["clean"][start]), column["recovery"][start:end],
        )  # fmt: skip
        start = end


def _believe(directory: Path, base_offset: int, largest: int, mtime_ms: int, policy: str) -> Believed:
    """By which time the policy lets a segment expire; only `ignore` looks into the time index, and only of a suspect."""
    found = believe(largest, mtime_ms, policy)
    if policy != "ignore" or found.timestamp == largest:
        return found
    try:
        entries = time_index.read(directory / paths.segment_file(base_offset, paths.TIME_INDEX))
    except KafkatsError:
        return found._replace(timestamp=largest)  # what cannot be looked up is taken as it stands: it keeps the segment
    return believe(largest, mtime_ms, policy, entries=entries["timestamp"].tolist())


def _family_bytes(facts: pa.Table) -> pa.ChunkedArray:
    total = pc.struct_field(facts["log"], "size")
    for kind in paths.SEGMENT_KINDS[1:]:
        total = pc.add(total, pc.fill_null(pc.struct_field(facts[kind.removeprefix(".")], "size"), 0))
    return total


def _misleads(findings: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the largest timestamp may be wrong."""
    return any(
        f["severity"] in ("damage", "danger") and not f["file"].endswith((paths.SNAPSHOT, paths.TXN_INDEX))
        for f in findings
    )


def _refusal(policy: Policy, topic: str, settings: TopicSettings, options: RetainOptions) -> str:
    """Why nothing of this topic may be deleted, or ""."""
    if settings.kafkats_legal_hold:
        return "legal hold"
    return policy.why_kept(topic, limit_given=options.before_ms is not None)


def _limits(partition: _Partition, policy: Policy, options: RetainOptions) -> Limits:
    ms, size = policy.limits(partition.topic)
    if options.before_ms is not None:
        ms, size = max(options.now_ms - options.before_ms, 0), -1
    return Limits(ms, size, partition.log_start_offset, partition.high_watermark)


def _vetoes(
    partition: _Partition, decision: Decision, settings: TopicSettings, refusal: str, options: RetainOptions
) -> list[str]:
    """Per segment why it is not deleted though Kafka would, "" otherwise; what is vetoed protects all behind it."""
    keep = settings.kafkats_keep_segments or int(not options.last_segment)
    total = sum(partition.family_bytes)
    share, most = settings.kafkats_guard_max_share, settings.kafkats_guard_max_bytes
    vetoes, gone, behind = [], 0, ""
    for number, verdict in enumerate(decision.verdicts):
        if not verdict.deletes:
            vetoes.append("")
            continue
        size = partition.family_bytes[number]
        veto = refusal or behind
        if veto:
            pass
        elif number >= len(decision.verdicts) - keep:
            veto = f"the last {keep} segments stay" if keep > 1 else "the last segment stays"
        elif partition.recovery[number]:
            veto = "the broker was not stopped cleanly, and recovers this segment first"
        elif number == len(decision.verdicts) - 1 and not partition.clean:
            veto = "the active segment goes only after a clean stop"
        elif not options.over_guard and share is not None and gone + size > share * total:
            veto = f"over the guard: more than {share:.0%} of the partition"
        elif not options.over_guard and most is not None and gone + size > most:
            veto = f"over the guard: more than {most} bytes of the partition"
        behind = veto
        gone += 0 if veto else size
        vetoes.append(veto)
    return vetoes


_Decided = list[tuple[_Partition, Decision, list[str]]]


def _run_guard(policy: Policy, decided: _Decided, options: RetainOptions) -> int | None:
    if options.over_guard:
        return None
    total = sum(sum(partition.family_bytes) for partition, _, _ in decided)
    bounds = [policy.guard.max_bytes, None if policy.guard.max_share is None else int(policy.guard.max_share * total)]
    return min((bound for bound in bounds if bound is not None), default=None)


def _spare(decided: _Decided, most: int | None, veto: str, *, at_least: bool = False) -> None:
    """Veto what is beyond `most` bytes, oldest first over all partitions; `at_least` lets the one that crosses it go."""
    if most is None:
        return
    queue = [(_age(partition, decision, vetoes, 0), n, 0) for n, (partition, decision, vetoes) in enumerate(decided)]
    queue = [entry for entry in queue if entry[0] is not None]
    heapq.heapify(queue)
    gone, closed = 0, False
    while queue:
        _, n, at = heapq.heappop(queue)
        partition, decision, vetoes = decided[n]
        size = partition.family_bytes[at]
        closed = closed or (gone >= most if at_least else gone + size > most)
        if closed:
            for i in range(at, len(vetoes)):
                if decision.verdicts[i].deletes and not vetoes[i]:
                    vetoes[i] = veto
            continue
        gone += size
        following = _age(partition, decision, vetoes, at + 1)
        if following is not None:
            heapq.heappush(queue, (following, n, at + 1))


def _age(partition: _Partition, decision: Decision, vetoes: list[str], at: int) -> int | None:
    """What orders deletions: the time of the segment at `at`; None when it does not go."""
    if at >= len(vetoes) or not decision.verdicts[at].deletes or vetoes[at]:
        return None
    segment = partition.segments[at]
    return segment.largest_timestamp if segment.largest_timestamp >= 0 else segment.mtime_ms


def _table(facts: pa.Table, decided: _Decided) -> pa.Table:
    verdicts: list[Verdict] = [verdict for _, decision, _ in decided for verdict in decision.verdicts]
    found = [segment for partition, _, _ in decided for segment in partition.segments]
    return pa.table(
        {
            "log_dir": facts["log_dir"],
            "partition_dir": facts["partition_dir"],
            "topic": facts["topic"],
            "base_offset": facts["base_offset"],
            "end_offset": [segment.end_offset for segment in found],
            "bytes": _family_bytes(facts),
            "first_timestamp": facts["first_timestamp"],
            "largest_timestamp": [segment.largest_timestamp for segment in found],
            "mtime_ms": [segment.mtime_ms for segment in found],
            "unit": [unit for partition, _, _ in decided for unit in partition.units],
            "evidence": [verdict.evidence for verdict in verdicts],
            "deletes": [verdict.deletes for verdict in verdicts],
            "by": [verdict.by for verdict in verdicts],
            "reason": [verdict.reason for verdict in verdicts],
            "veto": [veto for _, _, vetoes in decided for veto in vetoes],
            "deletable_from_ms": [verdict.deletable_from_ms for verdict in verdicts],
            "blocked_by": [verdict.blocked_by for verdict in verdicts],
        },
        schema=RETENTION,
    )


def _items(facts: pa.Table, decided: _Decided, rule: RetentionRule) -> Iterator[dict[str, Any]]:
    columns = ["directory_ctime_ns", "base_offset", "next_base_offset"]
    columns += [kind.removeprefix(".") for kind in paths.SEGMENT_KINDS]
    for partition, decision, vetoes in decided:
        gone = [i for i, verdict in enumerate(decision.verdicts) if verdict.deletes and not vetoes[i]]
        if not gone:
            continue
        rows = facts.slice(partition.rows.start, len(gone)).select(columns).to_pylist()
        for row, i in zip(rows, gone, strict=True):
            for kind in paths.SEGMENT_KINDS:
                before = row[kind.removeprefix(".")]
                if before is not None:
                    reason = f"by {decision.verdicts[i].by}: {decision.verdicts[i].reason}"
                    file = paths.segment_file(row["base_offset"], kind)
                    yield _item(partition, rule, row, file, "remove", reason, before=before)
        everything = len(gone) == len(partition.segments)
        start = partition.segments[-1].end_offset if everything else partition.segments[len(gone)].base_offset
        end = rows[0] | {"base_offset": start, "next_base_offset": -1}
        if everything:
            for kind in NEW_FAMILY:
                file = paths.segment_file(start, kind)
                yield _item(partition, rule, end, file, "add", "an empty segment at the log end", sha256=_EMPTY_SHA256)
        if rule.high_watermark:
            yield _item(partition, rule, end, paths.LEADER_EPOCH, "update", f"begins at {start} now")
        if 0 < partition.log_start_offset <= start:
            said = f"{partition.partition_dir} begins at {start} by itself"
            where = partition._replace(partition_dir=ROOT)
            yield _item(where, rule, end, paths.LOG_START, "update", said) | {"directory_ctime_ns": 0}


def _item(
    partition: _Partition,
    rule: RetentionRule,
    row: Mapping[str, Any],
    file: str,
    action: str,
    reason: str,
    *,
    before: Mapping[str, Any] | None = None,
    sha256: str = "",
) -> dict[str, Any]:
    return {
        "log_dir": partition.log_dir,
        "partition_dir": partition.partition_dir,
        "directory_ctime_ns": row["directory_ctime_ns"],
        "base_offset": row["base_offset"],
        "next_base_offset": row["next_base_offset"],
        "file": file,
        "action": action,
        "reason": reason,
        "before": before,
        "log": None,
        "log_valid_bytes": 0,
        "after_bytes": -1 if action == "update" else 0,
        "after_sha256": sha256,
        "rule": rule.name,
        "index_interval_bytes": 0,
        "segment_index_bytes": 0,
        "settings_from": "given",
    }


def _totals(verdicts: pa.Table, items: pa.Table) -> dict[str, Any]:
    kafka = verdicts.filter(verdicts["deletes"])
    ours = kafka.filter(pc.equal(kafka["veto"], ""))
    vetoes = pc.value_counts(kafka.filter(pc.not_equal(kafka["veto"], ""))["veto"]).to_pylist()
    blocked = verdicts.filter(pc.is_valid(verdicts["blocked_by"]))
    return {
        "files": items.num_rows,
        "blocked": 0,
        "segments": ours.num_rows,
        "segments_seen": verdicts.num_rows,
        "partitions": len(ours.group_by(["log_dir", "partition_dir"]).aggregate([])),
        "read_bytes": 0,
        "write_bytes": 0,
        "freed_bytes": pc.sum(ours["bytes"]).as_py() or 0,
        "kafka_segments": kafka.num_rows,
        "kafka_bytes": pc.sum(kafka["bytes"]).as_py() or 0,
        "vetoes": {row["values"]: row["counts"] for row in sorted(vetoes, key=lambda row: str(row["values"]))},
        "blocked_segments": blocked.num_rows,
        "blocked_bytes": pc.sum(blocked["bytes"]).as_py() or 0,
    }
