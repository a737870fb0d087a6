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
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.config import Policy
from kafkats.errors import UsageError
from kafkats.generations import DEFAULT_RULE, RETENTION_RULES
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.missing import options_of
from kafkats.plans.plan import ITEMS, Plan, make_plan
from kafkats.plans.units import Unit
from kafkats.retention.plan import OPERATION, RETENTION, RetainOptions, plan_retain
from kafkats.split.items import blocked_item, part_items, why_not
from kafkats.split.parts import SplitOptions, look

Target = tuple[Unit, int]
"""A segment, and the time (epoch ms) before which its records have expired."""
Where = tuple[str, str, int]
_WHERE: Final = ("log_dir", "partition_dir", "base_offset")


class _Heads(NamedTuple):
    """The segments to cut, as rows of PARTS (head and rest), and why others are not cut."""

    found: dict[Where, list[dict[str, Any]]]
    blocked: dict[Where, str]


def check_options(options: RetainOptions, *, inside_segments: bool) -> None:
    """Raise UsageError for a plan that would fill the volume to free, before anything is read."""
    if inside_segments and options.free_bytes is not None:
        raise UsageError(
            "--inside-segments writes what stays before anything is freed: it does not go with --free"
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
) -> tuple[Plan, pa.Table]:
    """Return the plan and RETENTION as `plan_retain`, with expired heads included.

    `segments` are of depth tail. `look` returns `look_at` of all targets, as one table of PARTS.
    `verify` returns report.SEGMENTS, depth full, of segments whose head would be deleted. A segment
    that cannot be cut is a blocked item. Raises UsageError as `check_options` and for an unknown
    rule, and as `look` and `verify`.
    """
    check_options(options, inside_segments=True)
    whole, verdicts = plan_retain(segments, policy, options)
    found = targets(units, verdicts, policy, options)
    by_place = {_where(vars(unit)): unit for unit, _ in found}
    heads = _heads(look(found))
    facts: dict[Where, dict[str, Any]] = {}
    staying: dict[Where, str] = {}
    while True:
        made, decided = (
            plan_retain(_as_cut(segments, heads.found), policy, options)
            if heads.found
            else (whole, verdicts)
        )
        going, kept = _sorted_out(decided, heads.found)
        wanted = [by_place[where] for where in going if where not in facts]
        facts |= {_where(row): row for row in verify(wanted).to_pylist()} if wanted else {}
        why = {where: why_not(facts[where], heads.found[where]) for where in going}
        unsound = {where: reason for where, reason in why.items() if reason}
        if not unsound and not kept:
            break
        heads.blocked.update(unsound)
        staying |= kept
        # an uncut segment is one segment: keep.segments must not count it as two
        for where in {*unsound, *kept}:
            del heads.found[where]
    items = _items(
        made.items,
        segments,
        facts,
        heads,
        {where: index_rule(facts[where], options.rule) for where in going},
    )
    totals = _totals(whole, made, items, [heads.found[where][1] for where in going], staying)
    sealed = make_plan(OPERATION, options_of(options) | {"inside_segments": True}, totals, items)
    return sealed, _told(decided, heads.found, staying)


def index_rule(segment: Mapping[str, Any], rule: str) -> str:
    """Return the recovery rule (generations.RULES) for the indexes of the rest.

    Brokers of some RETENTION_RULES may follow several rules. The index of the segment (a row of
    report.SEGMENTS by the default rule) then decides, if it can.
    """
    likely = RETENTION_RULES[rule].index_rules
    told = any(
        f["kind"] == "other-rule" and f["file"].endswith(paths.OFFSET_INDEX)
        for f in segment["findings"]
    )
    return likely[1] if told and len(likely) > 1 else likely[0]


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
    first = (
        kept
        .group_by(["log_dir", "partition_dir", "topic"])
        .aggregate([("base_offset", "min")])
        .to_pylist()
    )
    limits = {
        (row["log_dir"], row["partition_dir"], row["base_offset_min"]): limit_ms(row["topic"])
        for row in first
    }
    return [
        (unit, options.now_ms - limit)
        for unit in units
        if unit.bytes
        and (unit.clean or not unit.active)
        and (limit := limits.get(_where(vars(unit)), -1)) >= 0
    ]


def _heads(parts: pa.Table) -> _Heads:
    heads = _Heads({}, {})
    for row in parts.to_pylist():
        if row["action"] == "blocked":
            heads.blocked[_where(row)] = row["reason"]
        else:
            heads.found.setdefault(_where(row), []).append(row)
    return heads


def _as_cut(segments: pa.Table, heads: Mapping[Where, Sequence[Mapping[str, Any]]]) -> pa.Table:
    """Return the facts as if each head were a segment. The old indexes count as the head's.

    Deleting the head frees their bytes.
    """
    others, rows = _apart(segments, heads)
    cut: list[dict[str, Any]] = []
    for row in rows:
        head, rest = heads[_where(row)]
        border, log = rest["part_offset"], row["log"]
        cut.append(
            row
            | {
                "next_base_offset": border,
                "last_offset": border - 1,
                "max_timestamp": head["largest_timestamp"],
            }
            | {"offset_of_max_timestamp": None}
            | {"log": log | {"size": head["end"]}}
        )
        cut.append(
            row
            | {"base_offset": border, "first_timestamp": rest["first_timestamp"]}
            | dict.fromkeys((kind.removeprefix(".") for kind in paths.SEGMENT_KINDS), None)
            | {"log": log | {"size": rest["end"] - rest["start"]}}
        )
    return pa.concat_tables([others, pa.Table.from_pylist(cut, schema=SEGMENTS)])


def _sorted_out(
    decided: pa.Table, heads: Mapping[Where, Any]
) -> tuple[list[Where], dict[Where, str]]:
    """Return the heads to delete, and what keeps the others."""
    rows = _apart(decided, heads)[1]
    goes = [_where(row) for row in rows if row["deletes"] and not row["veto"]]
    return goes, {_where(row): row["veto"] for row in rows if not row["deletes"] or row["veto"]}


def _items(
    items: pa.Table,
    segments: pa.Table,
    facts: Mapping[Where, Mapping[str, Any]],
    heads: _Heads,
    rules: Mapping[Where, str],
) -> pa.Table:
    """Return the items for the actual files, from decisions on heads as segments."""
    others, rows = _apart(items, rules)
    for row in rows:
        begins = heads.found[_where(row)][1]["part_offset"]
        row["reason"] = f"only its head, {row['reason']}; the rest begins at {begins}"
        if row["file"].endswith(paths.LOG):
            row["before"] = facts[_where(row)]["log"]
    for where, rule in rules.items():
        segment, rest = facts[where], heads.found[where][1]
        why = f"what has not expired of the segment at {where[2]}"
        rows += part_items(segment, rest, segment["next_base_offset"], rule, why)
    rows += [
        blocked_item(row, heads.blocked[_where(row)], DEFAULT_RULE.name)
        for row in _apart(segments, heads.blocked)[1]
    ]
    return pa.concat_tables([others, pa.Table.from_pylist(rows, schema=ITEMS)])


def _totals(
    whole: Plan,
    made: Plan,
    items: pa.Table,
    rests: Sequence[Mapping[str, Any]],
    staying: Mapping[Where, str],
) -> dict[str, Any]:
    vetoes = Counter(made.header["totals"]["vetoes"]) + Counter(filter(None, staying.values()))
    blocked = pc.sum(pc.equal(items["action"], "blocked")).as_py() or 0
    written = sum(rest["end"] - rest["start"] for rest in rests)
    theirs = {
        name: whole.header["totals"][name]
        for name in ("kafka_segments", "kafka_bytes", "segments_seen")
    }
    ours = {
        "files": items.num_rows - blocked,
        "blocked": blocked,
        "heads": len(rests),
        "vetoes": dict(sorted(vetoes.items())),
    }
    return {
        **made.header["totals"],
        **theirs,
        **ours,
        "read_bytes": written,
        "write_bytes": written,
    }


def _told(decided: pa.Table, heads: Mapping[Where, Any], staying: Mapping[Where, str]) -> pa.Table:
    """Return RETENTION after the plan: two rows for a segment with a deleted head, else one.

    The row of an uncut segment has what keeps its head.
    """
    others, rows = _apart(decided, {**heads, **staying})
    told = [
        row
        | (
            {"reason": f"the head of its segment, {row['reason']}"}
            if _where(row) in heads
            else {"veto": staying[_where(row)]}
        )
        for row in rows
    ]
    table = pa.concat_tables([others, pa.Table.from_pylist(told, schema=RETENTION)])
    return table.sort_by([(name, "ascending") for name in _WHERE])


def _apart(table: pa.Table, places: Mapping[Where, Any]) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Return the table without the rows about these segments, and these rows."""
    near = pc.and_(
        pc.is_in(table["partition_dir"], pa.array({where[1] for where in places}, pa.string())),
        pc.is_in(table["base_offset"], pa.array({where[2] for where in places}, pa.int64())),
    )
    rows = table.filter(near).to_pylist()
    others = [row for row in rows if _where(row) not in places]
    left = pa.concat_tables([
        table.filter(pc.invert(near)),
        pa.Table.from_pylist(others, schema=table.schema),
    ])
    return left, [row for row in rows if _where(row) in places]


def _where(row: Mapping[str, Any]) -> Where:
    return row["log_dir"], row["partition_dir"], row["base_offset"]
