"""Migrate stored segments from one message format to another, as the 4.x cleaner does.

Batches are converted one by one and keep their offsets.

    plan        from facts and forecast: files to replace, files to remove, and blocked segments
    stage       convert beside; build indexes by recovery's rule; read back and compare both logs

Everything in a segment that the target format cannot express is a loss, and must be accepted by
name. A segment that cannot be converted is left unchanged and the others are converted: mixed
formats are legal within a partition.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.errors import Changed, CorruptPlan, NotEqual, Refused, UsageError, exists, storage
from kafkats.formats.convert import Target
from kafkats.generations import ALL_LOSSES, DEFAULT_RULE, LOSSES, OFFSETS_LOSS, PRODUCER, RULES
from kafkats.index.build import build_from
from kafkats.logdir.changeset import Change, Remove, Replace
from kafkats.logdir.identity import FileIdentity, identify
from kafkats.logdir.journal import Note
from kafkats.logdir.lease import Lease
from kafkats.logdir.partition import UNFINISHED, scan_partition, unfinished_swaps
from kafkats.migration.forecast import target_of
from kafkats.plans.missing import missing_records, with_blocked
from kafkats.plans.plan import ITEMS, Plan, make_plan
from kafkats.plans.rows import Totals, replaced_file
from kafkats.plans.run import PartitionWork, Staged, about, by_segment, refuse_full_disk
from kafkats.segment.parity import Parity, digest_records, first_difference
from kafkats.segment.reader import Source, open_source
from kafkats.split.items import unread_reason

OPERATION: Final = "migrate"


@dataclass(frozen=True)
class MigrateOptions:
    """The target of a migration.

    `to_magic` and `compression_type` are the format of every batch. `accept_loss` names acceptable
    losses. `ledger`, `phase` and `broker` connect the plan to the cluster's migration
    (kafkats.migration.phases); "" without one. Raises UsageError for an unknown loss.
    """

    to_magic: int
    compression_type: str = PRODUCER
    accept_loss: tuple[str, ...] = ()
    rule: str = DEFAULT_RULE.name
    ledger: str = ""
    phase: str = ""
    broker: str = ""

    def __post_init__(self) -> None:
        unknown = sorted(set(self.accept_loss) - {*LOSSES, ALL_LOSSES, OFFSETS_LOSS})
        if unknown:
            known = ", ".join((*LOSSES, ALL_LOSSES, OFFSETS_LOSS))
            raise UsageError(f"no loss is called {unknown[0]!r}; known are {known}")


def check_phase(options: MigrateOptions) -> None:
    """Check that the cluster's migration allows this phase for this broker now.

    Raises Refused, UsageError, StorageFailed.
    """
    if len({bool(word) for word in (options.ledger, options.phase, options.broker)}) > 1:
        raise UsageError("a ledger, a phase and a broker go together: name all of them, or none")
    if options.ledger:
        from kafkats.migration import ledger, phases

        with about(options.ledger):
            entries = ledger.read(options.ledger).entries
            phases.gate(entries, options.phase, options.broker)
            migration = phases.state(entries)
            if migration is not None:
                wanted = phases.work(migration, options.phase, options.broker).target_magic
                if wanted != options.to_magic:
                    raise Refused(
                        f"{options.phase} of this migration goes to magic {wanted}, not"
                        f" {options.to_magic}"
                    )


def plan_migrate(segments: pa.Table, forecast: pa.Table, options: MigrateOptions) -> Plan:
    """Decide from facts (report.SEGMENTS, depth full) and FORECAST which files to write.

    Raises UsageError for invalid options, Refused for a loss that was not accepted.
    """
    target_of(options.to_magic, options.compression_type)
    if not RULES[options.rule].for_brokers:
        raise Refused(f"rule {options.rule} would mislead a broker")
    facts = {_key(row): row for row in _slim(segments).to_pylist()}
    unread = _unread(segments)
    missing = missing_records(segments, options.accept_loss)
    blocked = {
        _directory(row): row["reason"] for row in forecast.to_pylist() if row["base_offset"] < 0
    } | {**missing}
    rows = [row for row in forecast.to_pylist() if row["base_offset"] >= 0]
    written: list[dict[str, Any]] = []
    items: list[dict[str, Any]] = []
    for row in rows:
        if row["action"] == "keep" or row["file"].endswith((paths.SNAPSHOT, paths.TXN_INDEX)):
            continue
        segment = facts.get(_key(row))
        why = blocked.get(_directory(row)) or _why_not(row, segment) or unread.get(_key(row), "")
        if segment is not None:
            items += (
                _blocked_item(row, segment, why, options) if why else _items(row, segment, options)
            )
        if not why:
            written.append(row)
    directories = {_directory(row): facts[_key(row)] for row in written}
    left = {_key(item) for item in items if item["action"] == "blocked"}
    items += [
        _item(
            row,
            directories[_directory(row)],
            options,
            file=row["file"],
            action="remove",
            reason=row["reason"],
        )
        | {"before": row["before"], "log": None, "log_valid_bytes": 0, "after_bytes": 0}
        for row in rows
        if row["action"] == "remove" and _directory(row) in directories and not _stays(row, left)
    ]
    table = with_blocked(pa.Table.from_pylist(items, schema=ITEMS), segments, missing, options.rule)
    totals = _totals(rows, written, table)
    _refuse_losses(totals["losses"], written, options.accept_loss)
    return make_plan(
        OPERATION, asdict(options) | {"accept_loss": sorted(options.accept_loss)}, totals, table
    )


def _stays(row: Mapping[str, Any], left: set[tuple[str, str, int]]) -> bool:
    """Whether the file is kept: a segment that stays in magic 2 keeps aborted transactions."""
    return _key(row) in left and str(row["file"]).endswith(paths.TXN_INDEX)


_FACTS: Final = (
    "log_dir", "partition_dir", "directory_ctime_ns", "base_offset", "next_base_offset", "log",
    "index", "timeindex", "stop", "valid_bytes", "blocked", "index_interval_bytes",
    "segment_index_bytes", "settings_from",
)  # fmt: skip


def _slim(segments: pa.Table) -> pa.Table:
    return segments.filter(pc.greater_equal(segments["base_offset"], 0)).select(list(_FACTS))


def _unread(segments: pa.Table) -> dict[tuple[str, str, int], str]:
    """Return why nothing is known of a segment, for segments with an unreadable file."""
    rows = segments.filter(
        pc.and_(pc.greater_equal(segments["base_offset"], 0), pc.is_null(segments["valid_bytes"]))
    )
    named = ("log_dir", "partition_dir", "base_offset", "findings")
    return {
        _key(row): unread_reason(row["findings"]) for row in rows.select(list(named)).to_pylist()
    }


def _directory(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["log_dir"], row["partition_dir"]


def _key(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["log_dir"], row["partition_dir"], row["base_offset"]


def _why_not(row: Mapping[str, Any], segment: Mapping[str, Any] | None) -> str:
    """Return why a segment is left unchanged, "" if it is converted."""
    if row["action"] == "blocked":
        return str(row["reason"])
    if segment is None or segment["log"] is None:
        return "came or went while it was looked at; plan anew"
    if segment["stop"]:
        return (
            f"the log is corrupt at byte {segment['valid_bytes']} ({segment['stop']}):"
            " kafkats verify names it"
        )
    return str(segment["blocked"] or "")


def _item(
    row: Mapping[str, Any], segment: Mapping[str, Any], options: MigrateOptions, **columns: Any
) -> dict[str, Any]:
    return {
        "log_dir": row["log_dir"],
        "partition_dir": row["partition_dir"],
        "directory_ctime_ns": segment["directory_ctime_ns"],
        "base_offset": row["base_offset"],
        "next_base_offset": segment["next_base_offset"],
        "log": segment["log"],
        "log_valid_bytes": segment["valid_bytes"],
        "after_bytes": -1,
        "after_sha256": "",
        "rule": options.rule,
        "index_interval_bytes": segment["index_interval_bytes"],
        "segment_index_bytes": segment["segment_index_bytes"],
        "settings_from": segment["settings_from"],
    } | columns


def _blocked_item(
    row: Mapping[str, Any], segment: Mapping[str, Any], why: str, options: MigrateOptions
) -> list[dict[str, Any]]:
    item = _item(
        row, segment, options, file=row["file"], action="blocked", reason=why, before=segment["log"]
    )
    known = {
        "log_valid_bytes": -1,
        "index_interval_bytes": -1,
        "segment_index_bytes": -1,
        "settings_from": "",
    }
    return [item | {key: value for key, value in known.items() if item[key] is None}]


def _items(
    row: Mapping[str, Any], segment: Mapping[str, Any], options: MigrateOptions
) -> Iterator[dict[str, Any]]:
    base = row["base_offset"]
    yield _item(
        row, segment, options, file=row["file"], action="replace", reason=_reason(row, options),
        before=segment["log"], after_bytes=row["after_bytes"], after_sha256=row["after_sha256"],
    )  # fmt: skip
    for kind, before in (
        (paths.OFFSET_INDEX, segment["index"]),
        (paths.TIME_INDEX, segment["timeindex"]),
    ):
        if before is None and kind == paths.TIME_INDEX and options.to_magic == 0:
            continue  # brokers of that format have none
        action = "replace" if before else "add"
        reason = "must be true of the new log"
        yield _item(
            row,
            segment,
            options,
            file=paths.segment_file(base, kind),
            action=action,
            reason=reason,
            before=before,
        )


def _reason(row: Mapping[str, Any], options: MigrateOptions) -> str:
    codec = "" if options.compression_type == PRODUCER else f", {options.compression_type}"
    said = f"to magic {options.to_magic}{codec}: {row['batches_before']} batches"
    if row["batches_after"] != row["batches_before"]:
        said += f" become {row['batches_after']}"
    if row["kept_last"]:
        said += "; the last stays magic 2, or its offsets would be given out again"
    lost = ", ".join(f"{loss} ({row[f'loses_{loss}']})" for loss in LOSSES if row[f"loses_{loss}"])
    return f"{said}; loses {lost}" if lost else said


def _totals(
    rows: Sequence[Mapping[str, Any]], written: Sequence[Mapping[str, Any]], items: pa.Table
) -> Totals:
    def total(column: str) -> int:
        return sum(row[column] for row in written)

    blocked = items.filter(pc.equal(items["action"], "blocked")).num_rows
    logs = [row for row in rows if row["file"].endswith(paths.LOG)]
    return {
        "files": items.num_rows - blocked,
        "blocked": blocked,
        "segments": len(written),
        "segments_seen": len(logs),
        "partitions": len({_directory(row) for row in written}),
        "read_bytes": total("before_bytes"),
        "write_bytes": total("after_bytes"),
        "batches_before": total("batches_before"),
        "batches_after": total("batches_after"),
        "records": total("records"),
        "losses": {loss: count for loss in LOSSES if (count := total(f"loses_{loss}"))},
    }


def _refuse_losses(
    losses: Mapping[str, int], written: Sequence[Mapping[str, Any]], accepted: Sequence[str]
) -> None:
    refused = {
        loss: count for loss, count in losses.items() if not {loss, ALL_LOSSES} & set(accepted)
    }
    if refused:
        where = next(row for row in written if any(row[f"loses_{loss}"] for loss in refused))
        counts = ", ".join(f"{loss} ({count})" for loss, count in refused.items())
        raise Refused(
            f"would lose {counts}, first in {where['partition_dir']}/{where['file']};"
            f" if that may be: --accept-loss {','.join(refused)}"
        )


def check_item(item: Mapping[str, Any]) -> None:
    """Raise CorruptPlan for an item that `plan_migrate` does not plan."""
    name = paths.parse_segment_file(item["file"])
    if name is None or name.suffix or name.base_offset != item["base_offset"]:
        raise CorruptPlan(f"not a file of segment {item['base_offset']}: {item['file']!r}")
    removed = name.kind in (paths.TXN_INDEX, paths.SNAPSHOT)
    if (item["action"] == "remove") != removed or (not removed and item["log"] is None):
        raise CorruptPlan(f"{item['file']}: action {item['action']!r} is unknown here")
    if name.kind == paths.LOG and (item["action"] != "replace" or not item["after_sha256"]):
        raise CorruptPlan(f"{item['file']}: a log is replaced by known bytes")
    known = item["rule"] in RULES and RULES[item["rule"]].for_brokers
    if not known or item["index_interval_bytes"] < 0 or item["segment_index_bytes"] <= 0:
        raise CorruptPlan(f"{item['file']}: no index can be built with such settings")


def stage_partition(work: PartitionWork, lease: Lease) -> Staged:
    """Convert the partition's segments beside it, build indexes, and prove equal records.

    Raises Changed when the partition is not as approved, NotEqual when the proof fails, Refused
    when the new files cannot be put in place, CorruptPlan, DiskFull, StorageFailed.
    """
    target = _target(work)
    directory = Path(work.log_dir, work.partition_dir)
    if not lease.site.area.linked:  # commit checks this too, but after the conversion
        raise Refused(
            "with the work area on another file system no .log can be changed", path=directory
        )
    _refuse_changed(work, directory)
    refuse_full_disk(work)
    changes: list[Change] = []
    unchanged: dict[str, FileIdentity] = {}
    notes: dict[str, Note] = {}
    for items in by_segment(work):
        by_file = {item["file"]: item for item in items}
        for item in items:
            if item["action"] == "remove":
                changes.append(Remove(item["file"], replaced_file(item)))
        log = paths.segment_file(items[0]["base_offset"], paths.LOG)
        if log in by_file:
            changes += _stage_segment(directory, by_file, log, target, lease, notes)
            txn_index = paths.segment_file(items[0]["base_offset"], paths.TXN_INDEX)
            stays = None if txn_index in by_file else identify(directory / txn_index)
            if stays is not None:
                unchanged[txn_index] = stays  # it contains only offsets, which do not change
        elif any(item["action"] != "remove" for item in items):
            raise CorruptPlan(f"an index would be written anew, but not {log}", path=directory)
    return Staged(changes, unchanged, notes)


def _target(work: PartitionWork) -> Target:
    magic, codec = (work.options.get(name) for name in ("to_magic", "compression_type"))
    if type(magic) is not int or not isinstance(codec, str):
        raise CorruptPlan("its options name no magic, or no compression type")
    try:
        return target_of(magic, codec)
    except UsageError as e:
        raise CorruptPlan(f"its options are not those of a migration: {e}") from e


def _refuse_changed(work: PartitionWork, directory: Path) -> None:
    """Raise Changed before hours of conversion, for changes that commit refuses or does not check.

    Whether a segment is the last one decides whether its last batch may be dropped. And a broker
    that ran meanwhile may have left a segment to recover, or an unfinished swap.
    """
    partition = scan_partition(directory)
    bases = [segment.base_offset for segment in partition.segments]
    following = dict(pairwise([*bases, -1]))
    stopped_cleanly = exists(
        Path(work.log_dir, paths.CLEAN_SHUTDOWN), "looking for the clean-shutdown marker"
    )
    for item in work.items:
        path = directory / item["file"]
        if identify(path) != (FileIdentity(**item["before"]) if item["before"] else None):
            raise Changed("changed since it was looked at", path=path)
        if (
            item["log"] is not None
            and following.get(item["base_offset"]) != item["next_base_offset"]
        ):
            raise Changed(
                "segments have come or gone behind this one since it was looked at", path=path
            )
        if item["log"] is not None and item["next_base_offset"] < 0 and not stopped_cleanly:
            raise Changed(
                "the log's last segment, and no clean-shutdown marker any more: a broker has run",
                path=path,
            )
    for name in unfinished_swaps(finding.file for finding in partition.findings):
        raise Changed(UNFINISHED, path=directory / name)


def _stage_segment(
    directory: Path,
    by_file: Mapping[str, Mapping[str, Any]],
    log: str,
    target: Target,
    lease: Lease,
    notes: dict[str, Note],
) -> Iterator[Replace]:
    # numba takes 0.4 s to import: only where something is converted
    from kafkats.segment.convert import convert_source

    item = by_file[log]
    base, active, mtime_ns = (
        item["base_offset"],
        item["next_base_offset"] < 0,
        item["before"]["mtime_ns"],
    )
    staged = lease.staged(log)
    # The old log is mapped: no broker truncates it under the lock. The new file is private until
    # commit sets its attributes.
    with about(directory / log), open_source(directory / log, mapped=True) as old:
        with storage(staged, "writing the new log"), open(staged, "xb", opener=_private) as file:
            made = convert_source(old, base, target, file.write, log_end=active)
        if made.sha256 != item["after_sha256"]:
            raise Changed(
                "converts to other bytes than the plan says: the log has changed",
                path=directory / log,
            )
        with open_source(staged, mapped=True) as new:
            proof = _prove(old, new, target, directory / log)
            built = build_from(
                new,
                base,
                RULES[item["rule"]],
                item["index_interval_bytes"],
                item["segment_index_bytes"],
                None if active else item["next_base_offset"],
            )
    if built.facts.stop:
        raise NotEqual("the converted log does not read to its end", path=directory / log)
    if built.blocked:  # a larger log may need more entries than a broker's index can hold
        reason = (
            f"no broker could index the converted log ({built.blocked}): {built.blocked_reason}"
        ).rstrip(": ")
        raise Refused(reason, path=directory / log)
    notes[log] = {
        "records": proof[0].records,
        "parity_before": proof[0].digest,
        "parity_after": proof[1].digest,
    }
    # mtime is data: retention and searches of segments without timestamps use it
    yield Replace(log, staged, FileIdentity(**item["before"]), made.sha256, mtime_ns)
    for kind, content in (
        (paths.OFFSET_INDEX, built.offset_index),
        (paths.TIME_INDEX, built.time_index),
    ):
        name = paths.segment_file(base, kind)
        if name not in by_file:
            continue
        index = lease.staged(name)
        with storage(index, "writing the new index"):
            index.write_bytes(content)
        sha256 = hashlib.sha256(content).hexdigest()
        notes[name] = {"after_bytes": len(content), "sha256": sha256}
        before = by_file[name]["before"]
        yield Replace(name, index, FileIdentity(**before) if before else None, sha256, mtime_ns)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _prove(old: Source, new: Source, target: Target, log: Path) -> tuple[Parity, Parity]:
    """Read both logs and compare what the target can express. Raises NotEqual.

    This covers offsets, order, keys, values and, depending on the target, timestamps, headers and
    control records.
    """
    kept = {
        "timestamps": target.magic > 0,
        "headers": target.magic == 2,
        "control": target.magic == 2,
    }
    before, after = digest_records(old, **kept), digest_records(new, **kept)
    if before != after:
        raise NotEqual(
            "the converted log tells a consumer something else:"
            f" {first_difference(old, new, **kept)}",
            path=log,
        )
    return before, after
