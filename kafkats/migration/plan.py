"""Plan a migration of stored segments from one message format to another, as the 4.x cleaner does.

Batches are converted one by one and keep their offsets. A plan is made from facts and forecast. It
names files to replace, files to remove, and blocked segments. `stage` converts.

Everything in a segment that the target format cannot express is a loss, and must be accepted by
name. A segment that cannot be converted is left unchanged and the others are converted: mixed
formats are legal within a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.counts import counted
from kafkats.errors import Refused, UsageError
from kafkats.generations import ALL_LOSSES, LOSSES, OFFSETS_LOSS, PRODUCER, RULES
from kafkats.migration.forecast import ForecastRow, forecast_rows, target_of
from kafkats.migration.options import Migrate, Step
from kafkats.plans.missing import missing_records, with_blocked
from kafkats.plans.plan import ITEMS, Plan, item_of, make_plan
from kafkats.plans.rows import (
    Item,
    PartitionKey,
    SegmentKey,
    SegmentRow,
    Totals,
    key_of,
    segment_rows,
)
from kafkats.plans.run import about
from kafkats.split.items import unread_reason
from kafkats.text import Flag

OPERATION: Final = "migrate"


_MIGRATE: Final = Migrate.model_construct(to_magic=2)
_STEP: Final = Step.model_construct()
"""The defaults."""


@dataclass(frozen=True)
class MigrateOptions:
    """The target of a migration.

    `to_magic` and `compression_type` are the format of every batch; `to` is the dialect to write,
    `dialect` that of the logs, "" for what shipped. `accept_loss` names acceptable losses.
    `ledger`, `phase` and `broker` connect the plan to the cluster's migration
    (kafkats.migration.phases); "" without one. Raises UsageError for an unknown loss.
    """

    to_magic: int
    compression_type: str = _MIGRATE.compression_type
    accept_loss: tuple[str, ...] = _MIGRATE.accept_loss
    rule: str = _MIGRATE.rule
    ledger: str = ""
    phase: str = _STEP.phase
    broker: str = _STEP.broker
    to: str = ""
    dialect: str = ""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.accept_loss) - {*LOSSES, ALL_LOSSES, OFFSETS_LOSS})
        if unknown:
            known = ", ".join((*LOSSES, ALL_LOSSES, OFFSETS_LOSS))
            raise UsageError(f"no loss is called {unknown[0]!r}; known are {known}")


def check_rule(rule: str) -> None:
    """Raise Refused for a rule whose indexes would mislead a broker."""
    if not RULES[rule].for_brokers:
        raise Refused(f"rule {rule} would mislead a broker")


def check_phase(options: MigrateOptions) -> None:
    """Check that the cluster's migration allows this phase for this broker now.

    Raises Refused, UsageError, StorageFailed.
    """
    if not options.ledger:
        return
    from kafkats.migration import ledger, phases

    with about(options.ledger):
        entries = ledger.read(options.ledger).entries
        phases.gate(entries, options.phase, options.broker)
        migration = phases.state(entries)
        wanted = migration and phases.work(migration, options.phase, options.broker).target_magic
        if wanted not in (None, options.to_magic):
            raise Refused(
                f"{options.phase} of this migration goes to magic {wanted}, not {options.to_magic}"
            )


class Lost(NamedTuple):
    """The losses of a plan that were not accepted, by kind, and the first .log that has one."""

    losses: Mapping[str, int]
    first: str


def decide_migrate(
    segments: pa.Table, forecast: pa.Table, options: MigrateOptions
) -> tuple[Plan, Lost]:
    """Decide from facts (facts.SEGMENTS, depth full) and FORECAST which files to write.

    Return the losses that were not accepted, too. Raises UsageError for invalid options.
    """
    target_of(options.to_magic, options.compression_type)
    check_rule(options.rule)
    missing = missing_records(segments, options.accept_loss)
    looked = forecast_rows(forecast)
    blocked = {row.key.partition: row.reason for row in looked if row.base_offset < 0} | {**missing}
    rows = [row for row in looked if row.base_offset >= 0]
    facts = {key_of(row): row for row in segment_rows(_slim(segments))}
    unread = _unread(segments)
    if options.to or options.dialect:
        why_not = {r.key: _why_not(r, facts.get(r.key)) or unread.get(r.key, "") for r in rows}
        blocked = _whole({key: why for key, why in why_not.items() if why}) | blocked
    written: list[ForecastRow] = []
    items: list[Item] = []
    for row in rows:
        if row.action == "keep" or row.file.endswith((paths.SNAPSHOT, paths.TXN_INDEX)):
            continue
        segment = facts.get(row.key)
        why = blocked.get(row.key.partition) or _why_not(row, segment) or unread.get(row.key, "")
        if segment is not None:
            items += (
                [_blocked(row, segment, why, options)] if why else _items(row, segment, options)
            )
        if not why:
            written.append(row)
    items += _removals(rows, {row.key.partition: facts[row.key] for row in written}, items, options)
    table = with_blocked(pa.Table.from_pylist(items, schema=ITEMS), segments, missing, options.rule)
    losses = {loss: count for loss in LOSSES if (count := sum(r.losses[loss] for r in written))}
    stored = asdict(options) | {"accept_loss": sorted(options.accept_loss)}
    for name in ("to", "dialect"):
        if not stored[name]:  # plans from before have neither
            del stored[name]
    plan = make_plan(OPERATION, stored, _totals(rows, written, table, losses), table)
    return plan, _not_accepted(losses, written, options.accept_loss)


def _whole(why_not: Mapping[SegmentKey, str]) -> dict[PartitionKey, str]:
    """Return why partitions stay as they are: all segments of a log are of one dialect.

    The first segment that cannot be converted counts.
    """
    blocked: dict[PartitionKey, str] = {}
    for key, why in sorted(why_not.items()):
        reason = f"segment {key.base_offset} of this partition: {why}"
        blocked.setdefault(key.partition, reason)
    return blocked


_FACTS: Final = (
    "log_dir", "partition_dir", "directory_ctime_ns", "base_offset", "next_base_offset", "log",
    "index", "timeindex", "stop", "valid_bytes", "blocked", "index_interval_bytes",
    "segment_index_bytes", "settings_from",
)  # fmt: skip


def _slim(segments: pa.Table) -> pa.Table:
    return segments.filter(pc.greater_equal(segments["base_offset"], 0)).select(list(_FACTS))


def _unread(segments: pa.Table) -> dict[SegmentKey, str]:
    """Return why nothing is known of a segment, for segments with an unreadable file."""
    rows = segments.filter(
        pc.and_(pc.greater_equal(segments["base_offset"], 0), pc.is_null(segments["valid_bytes"]))
    )
    columns = [*SegmentKey._fields, "findings"]
    return {
        key_of(row): unread_reason(row["findings"]) for row in segment_rows(rows.select(columns))
    }


def _why_not(row: ForecastRow, segment: SegmentRow | None) -> str:
    """Return why a segment is left unchanged, "" if it is converted."""
    if row.action == "blocked":
        return row.reason
    if segment is None or segment["log"] is None:
        return "changed, appeared or disappeared while the plan was made; make a new plan"
    if segment["stop"]:
        return (
            f"the log is corrupt at byte {segment['valid_bytes']} ({segment['stop']}):"
            " kafkats verify names it"
        )
    return segment["blocked"] or ""


def _blocked(row: ForecastRow, segment: SegmentRow, why: str, options: MigrateOptions) -> Item:
    def known(value: int | None) -> int:
        return -1 if value is None else value

    return item_of(segment, row.file, options.rule, "blocked", why) | {
        "before": segment["log"],
        "log_valid_bytes": known(segment["valid_bytes"]),
        "index_interval_bytes": known(segment["index_interval_bytes"]),
        "segment_index_bytes": known(segment["segment_index_bytes"]),
        "settings_from": segment["settings_from"] or "",
    }


def _items(row: ForecastRow, segment: SegmentRow, options: MigrateOptions) -> Iterator[Item]:
    valid_bytes = segment["valid_bytes"] or 0
    yield item_of(segment, row.file, options.rule, "replace", _reason(row, options)) | {
        "before": segment["log"],
        "log_valid_bytes": valid_bytes,
        "after_bytes": row.after_bytes,
        "after_sha256": row.after_sha256,
    }
    for kind, before in (
        (paths.OFFSET_INDEX, segment["index"]),
        (paths.TIME_INDEX, segment["timeindex"]),
    ):
        if options.to and kind == paths.TIME_INDEX:
            if before is not None:
                file = paths.segment_file(row.base_offset, kind)
                reason = "the index of this dialect has the times"
                removed = item_of(segment, file, options.rule, "remove", reason)
                yield removed | {"before": before, "log": None, "after_bytes": 0}
            continue
        if before is None and kind == paths.TIME_INDEX and options.to_magic == 0:
            continue  # brokers of that format have none
        file, action = paths.segment_file(row.base_offset, kind), "replace" if before else "add"
        yield item_of(segment, file, options.rule, action, "must be true of the new log") | {
            "before": before,
            "log_valid_bytes": valid_bytes,
        }


def _removals(
    rows: Iterable[ForecastRow],
    directories: Mapping[PartitionKey, SegmentRow],
    items: Iterable[Item],
    options: MigrateOptions,
) -> list[Item]:
    """Return the small files to remove from the directories in which a log is converted.

    A segment that remains in magic 2 keeps its aborted transactions.
    """
    unchanged = {key_of(item) for item in items if item["action"] == "blocked"}
    return [
        item_of(directories[row.key.partition], row.file, options.rule, "remove", row.reason)
        | {"base_offset": row.base_offset, "before": row.before, "log": None, "after_bytes": 0}
        for row in rows
        if row.action == "remove"
        and row.key.partition in directories
        and not (row.key in unchanged and row.file.endswith(paths.TXN_INDEX))
    ]


def _reason(row: ForecastRow, options: MigrateOptions) -> str:
    codec = "" if options.compression_type == PRODUCER else f", {options.compression_type}"
    target = f"the dialect {options.to}" if options.to else f"magic {options.to_magic}"
    reason = f"to {target}{codec}: {counted(row.batches_before, 'batch')}"
    if row.batches_after != row.batches_before:
        reason += f" into {row.batches_after}"
    if row.kept_last:
        reason += "; the last stays magic 2, or its offsets would be given out again"
    lost = ", ".join(f"{loss} ({count})" for loss, count in row.losses.items() if count)
    return f"{reason}; loses {lost}" if lost else reason


def _totals(
    rows: Sequence[ForecastRow],
    written: Sequence[ForecastRow],
    items: pa.Table,
    losses: dict[str, int],
) -> Totals:
    blocked = items.filter(pc.equal(items["action"], "blocked")).num_rows
    return {
        "files": items.num_rows - blocked,
        "blocked": blocked,
        "segments": len(written),
        "segments_seen": sum(row.file.endswith(paths.LOG) for row in rows),
        "partitions": len({row.key.partition for row in written}),
        "read_bytes": sum(row.before_bytes for row in written),
        "write_bytes": sum(row.after_bytes for row in written),
        "batches_before": sum(row.batches_before for row in written),
        "batches_after": sum(row.batches_after for row in written),
        "records": sum(row.records for row in written),
        "losses": losses,
    }


def _not_accepted(
    losses: Mapping[str, int], written: Iterable[ForecastRow], accepted: Sequence[str]
) -> Lost:
    refused = {
        loss: count for loss, count in losses.items() if not {loss, ALL_LOSSES} & set(accepted)
    }
    losing = (row for row in written if any(row.losses[loss] for loss in refused))
    first = next(losing, None)
    return Lost(refused, "" if first is None else f"{first.partition_dir}/{first.file}")


def refuse_losses(found: Sequence[Lost]) -> None:
    """Raise Refused for losses of a plan, or of its groups in their order."""
    sums = {loss: sum(one.losses.get(loss, 0) for one in found) for loss in LOSSES}
    refused = {loss: count for loss, count in sums.items() if count}
    if refused:
        first = next(one.first for one in found if one.first)
        counts = ", ".join(f"{loss} ({count})" for loss, count in refused.items())
        raise Refused(
            f"would lose {counts}, first in {first}; if that may be: ",
            Flag("--accept-loss"),
            f" {','.join(refused)}",
            numbers=refused,
        )
