"""Retention inside segments: also delete what precedes the first unexpired batch.

Retention deletes whole segments, and one recent batch keeps everything before it in the same file.
This module decides on the expired head of the first segment that retention by time keeps, as if the
head were a segment: by the same limits, vetoes and guards. If the head is deleted, the old files
are removed and new ones are added for the rest, as a split makes them. The head is not copied. The
enriched-metadata document of 2014 wanted this of the cleaner: truncating the head inside a segment.

    targets      the segments to look at, one per partition, and the time before which they expired
    look_at      the end of such a head, from batch headers
    plan_inside  the plan, including all that `plan_retain` deletes; retain stages it
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.errors import UsageError
from kafkats.generations import DEFAULT_RULE, RETENTION_RULES
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.missing import options_of
from kafkats.plans.plan import ITEMS, Plan, make_plan
from kafkats.plans.rows import (
    PartitionKey,
    SegmentKey,
    SegmentRow,
    Totals,
    grouped,
    item_rows,
    key_of,
    keys_of,
    segment_rows,
    source_log,
)
from kafkats.plans.units import Unit
from kafkats.retention.plan import OPERATION, RETENTION, RetainOptions, VerdictRow, plan_retain
from kafkats.split.items import blocked_item, part_items, why_not
from kafkats.split.parts import PartRow, SplitOptions, look
from kafkats.text import Flag

Target: TypeAlias = tuple[Unit, int]
"""A segment, and the time (epoch ms) before which its records have expired."""


class _Heads(NamedTuple):
    """The segments to cut, as rows of PARTS (head and rest), and why others are not cut."""

    parts: dict[SegmentKey, list[PartRow]]
    blocked: dict[SegmentKey, str]


def check_options(options: RetainOptions, *, inside_segments: bool) -> None:
    """Raise UsageError for a plan that would fill the volume to free, before anything is read."""
    if inside_segments and options.free_bytes is not None:
        raise UsageError(
            Flag("--inside-segments"),
            " writes the rest of each segment before anything is freed: it does not go with ",
            Flag("--free"),
        )


def look_at(target: Target) -> pa.RecordBatch:
    """Return parts.PARTS of one target: head and rest, no rows without an expired head.

    A segment that cannot be cut is a blocked row.
    """
    unit, expired_before_ms = target
    return look(unit, SplitOptions("expired", expired_before_ms=expired_before_ms))


def plan_inside(
    units: Sequence[Unit],
    segments: pa.Table,
    policy: Policy,
    options: RetainOptions,
    *,
    look: Callable[[Sequence[Target]], pa.Table],
    verify: Callable[[Sequence[Unit]], pa.Table],
    remote: Collection[PartitionKey] = (),
) -> tuple[Plan, pa.Table]:
    """Return the plan and RETENTION as `plan_retain`, with expired heads included.

    `segments` are of depth tail. `look` returns `look_at` of all targets, as one table of PARTS.
    `verify` returns facts.SEGMENTS, depth full, of segments whose head would be deleted. A segment
    that cannot be cut is a blocked item. Raises UsageError as `check_options` and for an unknown
    rule, and as `look` and `verify`.
    """
    check_options(options, inside_segments=True)
    whole, verdicts = plan_retain(segments, policy, options, remote=remote)
    chosen = targets(units, verdicts, policy, options)
    unit_of = {unit.key: unit for unit, _ in chosen}
    heads = _heads(look(chosen))
    facts: dict[SegmentKey, SegmentRow] = {}
    vetoes: dict[SegmentKey, str] = {}
    while True:
        plan, decided = (
            plan_retain(_as_cut(segments, heads.parts), policy, options, remote=remote)
            if heads.parts
            else (whole, verdicts)
        )
        deleted, kept = _sorted_out(decided, heads.parts)
        unknown = [unit_of[where] for where in deleted if where not in facts]
        if unknown:
            facts |= {key_of(row): row for row in segment_rows(verify(unknown))}
        why = {where: why_not(facts[where], heads.parts[where]) for where in deleted}
        unsound = {where: reason for where, reason in why.items() if reason}
        if not unsound and not kept:
            break
        heads.blocked.update(unsound)
        vetoes |= kept
        # an uncut segment is one segment: keep.segments must not count it as two
        for where in {*unsound, *kept}:
            del heads.parts[where]
    rules = {where: index_rule(facts[where], options.rule) for where in deleted}
    items = _items(plan.items, segments, facts, heads, rules)
    totals = _totals(whole, plan, items, [heads.parts[where][1] for where in deleted], vetoes)
    sealed = make_plan(OPERATION, {**options_of(options), "inside_segments": True}, totals, items)
    return sealed, _with_heads(decided, heads.parts, vetoes)


def index_rule(segment: SegmentRow, rule: str) -> str:
    """Return the recovery rule (generations.RULES) for the indexes of the rest.

    Brokers of some RETENTION_RULES may follow several rules. The index of the segment, verified by
    the default rule, then decides, if it can.
    """
    likely = RETENTION_RULES[rule].index_rules
    differs = any(
        f["kind"] == "other-rule" and f["file"].endswith(paths.OFFSET_INDEX)
        for f in segment["findings"]
    )
    return likely[1] if differs and len(likely) > 1 else likely[0]


def targets(
    units: Iterable[Unit], verdicts: pa.Table, policy: Policy, options: RetainOptions
) -> list[Target]:
    """Return the first segment of each partition that retention keeps, if time limits it.

    An active segment is included only after a clean stop. `verdicts` are those on whole segments
    (RETENTION). Expired means strictly older than the limit, as for whole segments.
    """

    @cache
    def limit_ms(topic: str) -> int:
        given = options.before_ms is not None
        if policy.settings(topic).kafkats_legal_hold or policy.why_kept(topic, limit_given=given):
            return -1
        return (
            policy.limits(topic)[0]
            if options.before_ms is None
            else max(options.now_ms - options.before_ms, 0)
        )

    kept = verdicts.filter(pc.invert(verdicts["deletes"]))
    first = grouped(
        kept, ["log_dir", "partition_dir", "topic"], [("base_offset", "min")]
    ).to_pylist()
    limits = {
        SegmentKey(row["log_dir"], row["partition_dir"], row["base_offset_min"]): limit_ms(
            row["topic"]
        )
        for row in first
    }
    return [
        (unit, options.now_ms - limit)
        for unit in units
        if unit.bytes
        and (unit.clean or not unit.active)
        and (limit := limits.get(unit.key, -1)) >= 0
    ]


def _heads(parts: pa.Table) -> _Heads:
    heads = _Heads({}, {})
    rows: list[PartRow] = parts.to_pylist()
    for row in rows:
        if row["action"] == "blocked":
            heads.blocked[key_of(row)] = row["reason"]
        else:
            heads.parts.setdefault(key_of(row), []).append(row)
    return heads


def _as_cut(segments: pa.Table, heads: Mapping[SegmentKey, Sequence[PartRow]]) -> pa.Table:
    """Return the facts as if each head were a segment. The old indexes count as the head's.

    Deleting the head frees their bytes.
    """
    others, chosen = _apart(segments, heads)
    cut: list[SegmentRow] = []
    for row in segment_rows(chosen):
        head, rest = heads[key_of(row)]
        begin, log = rest["part_offset"], source_log(row)
        cut.append({
            **row,
            "next_base_offset": begin,
            "last_offset": begin - 1,
            "max_timestamp": head["largest_timestamp"],
            "offset_of_max_timestamp": None,
            "log": {**log, "size": head["end"]},
        })
        cut.append({
            **row,
            "base_offset": begin,
            "first_timestamp": rest["first_timestamp"],
            "log": {**log, "size": rest["end"] - rest["start"]},
            "index": None,
            "timeindex": None,
            "txnindex": None,
            "snapshot": None,
        })
    return pa.concat_tables([others, pa.Table.from_pylist(cut, schema=SEGMENTS)])


def _sorted_out(
    decided: pa.Table, heads: Collection[SegmentKey]
) -> tuple[list[SegmentKey], dict[SegmentKey, str]]:
    """Return the heads to delete, and what keeps the others."""
    rows = _verdicts(_apart(decided, heads)[1])
    deleted = [key_of(row) for row in rows if row["deletes"] and not row["veto"]]
    return deleted, {key_of(row): row["veto"] for row in rows if not row["deletes"] or row["veto"]}


def _items(
    items: pa.Table,
    segments: pa.Table,
    facts: Mapping[SegmentKey, SegmentRow],
    heads: _Heads,
    rules: Mapping[SegmentKey, str],
) -> pa.Table:
    """Return the items for the actual files, from decisions on heads as segments."""
    others, ours = _apart(items, rules)
    rows = item_rows(ours)
    for row in rows:
        begin = heads.parts[key_of(row)][1]["part_offset"]
        row["reason"] = f"only its head, {row['reason']}; the rest begins at {begin}"
        if row["file"].endswith(paths.LOG):
            row["before"] = facts[key_of(row)]["log"]
    for where, rule in rules.items():
        segment, rest = facts[where], heads.parts[where][1]
        why = f"what has not expired of the segment at {where.base_offset}"
        rows += part_items(segment, rest, segment["next_base_offset"], rule, why)
    rows += [
        blocked_item(row, heads.blocked[key_of(row)], DEFAULT_RULE.name)
        for row in segment_rows(_apart(segments, heads.blocked)[1])
    ]
    return pa.concat_tables([others, pa.Table.from_pylist(rows, schema=ITEMS)])


def _totals(
    whole: Plan,
    plan: Plan,
    items: pa.Table,
    rests: Sequence[PartRow],
    vetoes: Mapping[SegmentKey, str],
) -> Totals:
    before, totals = whole.header["totals"], plan.header["totals"]
    counts = Counter(totals["vetoes"]) + Counter(filter(None, vetoes.values()))
    blocked = pc.sum(pc.equal(items["action"], "blocked")).as_py() or 0
    written = sum(rest["end"] - rest["start"] for rest in rests)
    return {
        **totals,
        "kafka_segments": before["kafka_segments"],
        "kafka_bytes": before["kafka_bytes"],
        "segments_seen": before["segments_seen"],
        "files": items.num_rows - blocked,
        "blocked": blocked,
        "heads": len(rests),
        "vetoes": dict(sorted(counts.items())),
        "read_bytes": written,
        "write_bytes": written,
    }


def _with_heads(
    decided: pa.Table, heads: Collection[SegmentKey], vetoes: Mapping[SegmentKey, str]
) -> pa.Table:
    """Return RETENTION after the plan: two rows for a segment with a deleted head, else one.

    The row of an uncut segment has what keeps its head.
    """
    others, chosen = _apart(decided, {*heads, *vetoes})
    rows = _verdicts(chosen)
    for row in rows:
        if key_of(row) in heads:
            row["reason"] = f"the head of its segment, {row['reason']}"
        else:
            row["veto"] = vetoes[key_of(row)]
    table = pa.concat_tables([others, pa.Table.from_pylist(rows, schema=RETENTION)])
    return table.sort_by([(name, "ascending") for name in SegmentKey._fields])


def _verdicts(table: pa.Table) -> list[VerdictRow]:
    rows: list[VerdictRow] = table.to_pylist()
    return rows


def _apart(table: pa.Table, places: Collection[SegmentKey]) -> tuple[pa.Table, pa.Table]:
    """Return the table without the rows about these segments, and these rows."""
    near = pc.and_(
        pc.is_in(table["partition_dir"], pa.array({w.partition_dir for w in places}, pa.string())),
        pc.is_in(table["base_offset"], pa.array({w.base_offset for w in places}, pa.int64())),
    )
    rows = table.filter(near)
    ours = pa.array([where in places for where in keys_of(rows)], pa.bool_())
    others = pa.concat_tables([table.filter(pc.invert(near)), rows.filter(pc.invert(ours))])
    return others, rows.filter(ours)
