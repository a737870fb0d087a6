"""The plan of a retention, and every segment's verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkats.config.policy import Policy
from kafkats.config.values import LONG_MAX
from kafkats.errors import UsageError
from kafkats.generations import RETENTION_RULES, RetentionRule
from kafkats.plans.columns import schema_of
from kafkats.plans.facts import swapping, unseen_logs
from kafkats.plans.missing import Accepting, Missing, missing_records, options_of, with_blocked
from kafkats.plans.plan import ITEMS, Plan, make_plan, sum_of, totals_of
from kafkats.plans.rows import PartitionKey, PartitionRow, Totals
from kafkats.retention.columns import Limits, Verdicts, decide
from kafkats.retention.evidence import Facts, read_facts, without_times
from kafkats.retention.items import Start, items_of, own_items
from kafkats.retention.options import Retain
from kafkats.retention.reasons import sentences
from kafkats.retention.vetoes import (
    NO_CANDIDATES,
    Bounds,
    Candidates,
    Sentences,
    beyond,
    bounds_of,
    candidates,
    lasting,
    refusals,
    unnamed,
    vetoes,
)

OPERATION: Final = "retain"
_REMOTE: Final = (
    "remote storage: segments that are not uploaded yet would be lost; the policy may say"
    " remote.storage.enable=false"
)


class VerdictRow(PartitionRow):
    """One segment."""

    topic: str
    base_offset: int
    end_offset: int  # exclusive
    bytes: int  # of all files of the segment
    first_timestamp: int | None
    largest_timestamp: int
    largest_offset: int | None  # in the batch that has it; -1 or None: unknown
    # the time from which age counts: the timestamp, the policy's replacement, or the mtime
    counted_from: int
    mtime_ms: int
    # apparent unit of the largest timestamp: ms, s, us, ns, future, negative; "" old or none
    unit: str
    evidence: str  # offset, size, timestamp, mtime (weak); "" without an age
    deletes: bool  # Kafka's verdict
    by: str  # start-offset, size, time
    reason: str
    veto: str  # why kafkats keeps it although Kafka would delete it
    lasting: str  # why it is kept at any age
    deletable_from_ms: int | None  # by time, with all earlier segments; None: never
    blocked_by: int | None  # the segment that keeps this expired one


RETENTION: Final = schema_of(VerdictRow)
_DEFAULT: Final = Retain.model_construct()


@dataclass(frozen=True)
class RetainOptions(Accepting):
    """Options of a retention.

    `now_ms` is the moment to decide for. `before_ms` deletes what is older, instead of applying the
    policy's limits (KIP-47). `free_bytes` stops when that much would be freed. `over_guard` lifts
    the guards, which requires approval. `last_segment` allows deleting the last segment too, as a
    broker does, and begins an empty one at the log end.
    """

    now_ms: int
    rule: str = _DEFAULT.rule
    before_ms: int | None = _DEFAULT.before
    free_bytes: int | None = _DEFAULT.free_bytes
    over_guard: bool = _DEFAULT.over_guard
    last_segment: bool = _DEFAULT.last_segment


class RetainDecision(NamedTuple):
    """The decision on whole partitions: RETENTION, and ITEMS without log directories' own files.

    `starts` are what these files lose. `found` is what a limit of the run may keep, and `all_bytes`
    are those of all segments.
    """

    verdicts: pa.Table
    items: pa.Table
    starts: Mapping[str, Start]
    found: Candidates
    all_bytes: int


NOTHING: Final = RetainDecision(RETENTION.empty_table(), ITEMS.empty_table(), {}, NO_CANDIDATES, 0)


def plan_retain(
    segments: pa.Table,
    policy: Policy,
    options: RetainOptions,
    *,
    remote: Collection[PartitionKey] = (),
) -> tuple[Plan, pa.Table]:
    """Decide from facts (facts.SEGMENTS, depth tail): the plan, and RETENTION with all verdicts.

    Partitions of `remote` show remote storage. They are left unchanged unless the policy says
    remote.storage.enable=false. Raises UsageError for an unknown rule.
    """
    decision = decide_retain(segments, policy, options, remote=remote)
    own = own_items(decision.starts, RETENTION_RULES[options.rule])
    whole = decision._replace(items=pa.concat_tables([decision.items, own]))
    return plan_of(whole, segments, options), decision.verdicts


def plan_of(decision: RetainDecision, segments: pa.Table, options: RetainOptions) -> Plan:
    """Return the plan of a decision on `segments`."""
    totals = _totals(decision.verdicts, decision.items, segments)
    return make_plan(OPERATION, options_of(options), totals, decision.items)


def decide_retain(
    segments: pa.Table,
    policy: Policy,
    options: RetainOptions,
    *,
    remote: Collection[PartitionKey] = (),
    bounds: Bounds | None = None,
) -> RetainDecision:
    """Decide as `plan_retain`. With `bounds` the segments are some of a run that has these bounds;
    without, they are all of it.
    """
    rule = RETENTION_RULES.get(options.rule)
    if rule is None:
        raise UsageError(f"unknown rule {options.rule!r}; known are {', '.join(RETENTION_RULES)}")
    facts = read_facts(segments, policy)
    facts = without_times(facts) if rule.by_format else facts
    lacking = missing_records(segments, options.accept_loss)
    if not facts.topic:
        decision = NOTHING
    else:
        kept = dict.fromkeys(_unknown(facts, remote), _REMOTE)
        unsettled = {**swapping(segments), **unseen_logs(segments), **lacking, **kept}
        decision = _decide(facts, policy, unsettled, options, rule, bounds)
    items = with_blocked(decision.items, segments, lacking, rule.name)
    return decision._replace(items=items)


def _unknown(facts: Facts, remote: Collection[PartitionKey]) -> Iterator[PartitionKey]:
    """Yield the partitions of `remote` of whose topics remote.storage.enable is not given."""
    for log_dir, partition_dir, topic in zip(
        facts.log_dir, facts.partition_dir, facts.topic, strict=True
    ):
        where = PartitionKey(log_dir, partition_dir)
        if where in remote and facts.settings[topic].remote_storage_enable is None:
            yield where


def _decide(
    facts: Facts,
    policy: Policy,
    unsettled: Missing,
    options: RetainOptions,
    rule: RetentionRule,
    bounds: Bounds | None,
) -> RetainDecision:
    """Return the decision. `unsettled` are partitions to leave unchanged."""
    limits = _limits(facts, policy.broker_limits, options)
    kafka = decide(facts.rows, facts.segments, limits, rule, now_ms=options.now_ms)
    explicit = _limits(facts, policy.limits, options)
    allowed = kafka.deletes
    if any((one != other).any() for one, other in zip(limits, explicit, strict=True)):
        allowed = decide(facts.rows, facts.segments, explicit, rule, now_ms=options.now_ms).deletes
    refused = refusals(facts, policy, unsettled, limit_given=options.before_ms is not None)
    lasts, missing = (
        lasting(facts, refused, last_segment=options.last_segment),
        unnamed(facts, policy),
    )
    veto = vetoes(facts, kafka.deletes, allowed, lasts, missing, over_guard=options.over_guard)
    found = candidates(facts, kafka.deletes & (veto == ""))
    total = int(facts.family_bytes.sum())
    if bounds is None:
        guard = None if options.over_guard else policy.guard
        bounds = bounds_of(found.time, found.bytes, total, guard, options.free_bytes)
    veto[beyond(found, bounds.free)] = "not needed for the bytes asked for"
    veto[beyond(found, bounds.guard)] = "over the run's guard"
    by_time = np.where(limits.retention_ms != explicit.retention_ms, missing, "")
    reasons = sentences(kafka.reason)
    verdicts = _table(
        facts, kafka, reasons, veto, np.where(lasts == "", by_time[facts.rows.of], lasts), rule
    )
    deleted = kafka.deletes & (veto == "")
    items, starts = items_of(facts, kafka.by, reasons, deleted, rule)
    return RetainDecision(verdicts, items, starts, found, total)


def _limits(
    facts: Facts, of_topic: Callable[[str], tuple[int, int]], options: RetainOptions
) -> Limits:
    limits = {topic: of_topic(topic) for topic in facts.settings}
    if options.before_ms is not None:
        age = min(max(options.now_ms - options.before_ms, 0), LONG_MAX)
        limits = dict.fromkeys(limits, (age, -1))
    ms, size = np.array([limits[topic] for topic in facts.topic], np.int64).reshape(-1, 2).T
    return Limits(ms, size, facts.log_start_offset, facts.high_watermark)


def _table(
    facts: Facts,
    kafka: Verdicts,
    reasons: pa.Array,
    veto: Sentences,
    lasts: Sentences,
    rule: RetentionRule,
) -> pa.Table:
    believed, mtime = facts.segments.largest_timestamp, facts.segments.mtime_ms
    seen = ("log_dir", "partition_dir", "topic", "base_offset", "first_timestamp")
    columns = {
        **{name: facts.table[name] for name in seen},
        "end_offset": facts.segments.end_offset,
        "bytes": facts.family_bytes,
        "largest_timestamp": facts.largest_timestamp,
        "largest_offset": facts.table["offset_of_max_timestamp"],
        "counted_from": np.where((believed >= 0) & rule.timestamps, believed, mtime),
        "mtime_ms": mtime,
        "unit": facts.unit,
        "veto": pa.array(veto, pa.string()),
        "lasting": pa.array(lasts, pa.string()),
        **kafka._asdict(),
        "reason": reasons,
    }
    return pa.table(columns, schema=RETENTION)


def _totals(verdicts: pa.Table, items: pa.Table, segments: pa.Table) -> Totals:
    kafka = verdicts.filter(verdicts["deletes"])
    ours = kafka.filter(pc.equal(kafka["veto"], ""))
    blocked = verdicts.filter(pc.is_valid(verdicts["blocked_by"]))
    vetoes = pc.value_counts(kafka.filter(pc.not_equal(kafka["veto"], ""))["veto"]).to_pylist()
    totals = totals_of(items, segments, changed=ours.num_rows, read_bytes=0, write_bytes=0)
    return {
        **totals,
        "segments_seen": verdicts.num_rows,
        "freed_bytes": sum_of(ours["bytes"]),
        "kafka_segments": kafka.num_rows,
        "kafka_bytes": sum_of(kafka["bytes"]),
        "vetoes": dict(sorted((row["values"], row["counts"]) for row in vetoes)),
        "blocked_segments": blocked.num_rows,
        "blocked_bytes": sum_of(blocked["bytes"]),
    }
