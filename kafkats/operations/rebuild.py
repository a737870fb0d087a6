"""Rebuild: new `.index` and `.timeindex` files where the old ones are wrong, from the `.log`, which is never written.

The contract is byte identity with what that Kafka generation's own recovery would build (`generations.RULES`). Sound
indexes that merely differ from a rebuild are left alone unless asked. Where the log itself is corrupt nothing is done
unless asked: then the indexes are built for the part before the corruption.
"""

from __future__ import annotations

import fnmatch
import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.errors import Changed, CorruptPlan, KafkatsError, Refused, UsageError, storage
from kafkats.generations import RULES
from kafkats.index.build import build_from
from kafkats.logdir.changeset import Replace, commit, purge, resume, undo
from kafkats.logdir.disk import DISK
from kafkats.logdir.identity import FileIdentity, permitted
from kafkats.logdir.journal import read_journal
from kafkats.logdir.lease import Lease, claim
from kafkats.logdir.lock import hold_shared
from kafkats.logdir.workarea import WorkArea, site, work_area
from kafkats.paths import LOG, OFFSET_INDEX, TIME_INDEX, segment_file
from kafkats.plan import ITEMS, Plan, make_plan
from kafkats.report import ACTIONS, damaged
from kafkats.run import Run, run_of
from kafkats.segment.reader import open_source

OPERATION: Final = "rebuild"
_FILES: Final = (("offset_index", "index", OFFSET_INDEX), ("time_index", "timeindex", TIME_INDEX))
_NEEDS_REBUILD: Final = ("missing", "defective")
_ROWS_AT_ONCE: Final = 8192
"""Rows of facts that are Python objects at one time: 50 times the memory they take in a table."""

_Later = dict[tuple[str, str], list[tuple[int, int]]]
"""Base offset and bytes of every segment in the partitions that have a corrupt log."""


@dataclass(frozen=True)
class RebuildOptions:
    """What to rebuild. `topics` is a glob; `not_for_a_broker` allows a rule that would mislead one."""

    rule: str = "last-offset"
    topics: str = "*"
    all: bool = False
    valid_prefix: bool = False
    only_after_unclean_stop: bool = False
    not_for_a_broker: bool = False


def plan_rebuild(segments: pa.Table, options: RebuildOptions) -> Plan:
    """Decide from facts (report.SEGMENTS, depth full) which index files to write.

    Raises UsageError for an unknown rule, Refused for one that no broker may read.
    """
    rule = RULES.get(options.rule)
    if rule is None:
        raise UsageError(f"unknown rule {options.rule!r}; known are {', '.join(RULES)}")
    if not rule.for_brokers and not options.not_for_a_broker:
        raise Refused(f"rule {rule.name} would mislead a broker; if none ever reads these files: --not-for-a-broker")
    chosen = _chosen(segments, options)
    later = _later_segments(segments)
    table = pa.Table.from_batches(
        (
            pa.RecordBatch.from_pylist(
                [item for row in rows.to_pylist() for item in _items(row, later, options)], ITEMS
            )
            for rows in chosen.to_batches(max_chunksize=_ROWS_AT_ONCE)
        ),
        schema=ITEMS,
    )
    return make_plan(OPERATION, asdict(options), _totals(table, segments), table)


def _chosen(segments: pa.Table, options: RebuildOptions) -> pa.Table:
    wanted = (*_NEEDS_REBUILD, "sound") if options.all else _NEEDS_REBUILD
    values = pa.array(wanted)
    mask = pc.or_(pc.is_in(segments["offset_index"], values), pc.is_in(segments["time_index"], values))
    chosen = segments.filter(mask)
    if options.topics != "*":
        topics = [t for t in pc.unique(chosen["topic"]).to_pylist() if fnmatch.fnmatchcase(t, options.topics)]
        chosen = chosen.filter(pc.is_in(chosen["topic"], pa.array(topics, pa.string())))
    if options.only_after_unclean_stop:
        chosen = chosen.filter(pc.invert(chosen["clean"]))
    return chosen


def _later_segments(segments: pa.Table) -> _Later:
    partitions = ["log_dir", "partition_dir"]
    corrupt = segments.filter(pc.not_equal(segments["stop"], "")).group_by(partitions).aggregate([])
    sizes = pa.table({
        **{name: segments[name] for name in (*partitions, "base_offset")},
        "bytes": pc.struct_field(segments["log"], "size"),
    }).join(corrupt, partitions, join_type="left semi")  # fmt: skip
    found: _Later = {}
    for row in sizes.to_pylist():
        found.setdefault((row["log_dir"], row["partition_dir"]), []).append((row["base_offset"], row["bytes"] or 0))
    return found


def _items(row: dict[str, Any], later: _Later, options: RebuildOptions) -> Iterator[dict[str, Any]]:
    wanted = (*_NEEDS_REBUILD, "sound") if options.all else _NEEDS_REBUILD
    blocked = _blocked(row, later, options)
    for state, name, kind in _FILES:
        file = segment_file(row["base_offset"], kind)
        if row[state] not in wanted or (row[state] == "missing" and not _found(row, file)):
            continue
        action = "blocked" if blocked else "replace" if row[name] else "add"
        yield {
            "log_dir": row["log_dir"],
            "partition_dir": row["partition_dir"],
            "directory_ctime_ns": row["directory_ctime_ns"],
            "base_offset": row["base_offset"],
            "next_base_offset": row["next_base_offset"],
            "file": file,
            "action": action,
            "reason": blocked or ", ".join(_found(row, file)),
            "before": row[name],
            "log": row["log"],
            "log_valid_bytes": row["valid_bytes"],
            "after_bytes": row[f"rebuilt_{name}_bytes"],
            "after_sha256": row[f"rebuilt_{name}_sha256"],
            "rule": row["rule"],
            "index_interval_bytes": row["index_interval_bytes"],
            "segment_index_bytes": row["segment_index_bytes"],
            "settings_from": row["settings_from"],
        }


def _found(row: dict[str, Any], file: str) -> list[str]:
    """The kinds of findings about one file. None for a missing one: nothing is missed there."""
    return list(dict.fromkeys(f["kind"] for f in row["findings"] if f["file"] == file))


def _blocked(row: dict[str, Any], later: _Later, options: RebuildOptions) -> str:
    """Why nothing may be written for this segment, or ""."""
    if row["blocked"]:
        return str(row["blocked"])
    if not row["stop"] or options.valid_prefix:
        return ""
    cut = row["log"]["size"] - row["valid_bytes"]
    beside = later[row["log_dir"], row["partition_dir"]]
    dropped = [size for base_offset, size in beside if base_offset > row["base_offset"]]
    return (
        f"the log itself is corrupt at byte {row['valid_bytes']} ({row['stop']}): Kafka's recovery would cut {cut} bytes"
        f" and drop {len(dropped)} later segments ({sum(dropped)} bytes)"
    )


def refuse_unpermitted(plan: Plan) -> None:
    """Ask, before anybody approves, whether this user could give the new files the attributes of the old ones.

    Raises NotPermitted, Vanished when a directory went away, StorageFailed.
    """
    for work in partition_works(plan, run_of(plan)):
        permitted(Path(work.log_dir, work.partition_dir), [item["file"] for item in work.items])


def _totals(items: pa.Table, segments: pa.Table) -> dict[str, Any]:
    writes = items.filter(pc.not_equal(items["action"], "blocked"))
    logs = writes.select(["log_dir", "partition_dir", "base_offset", "log_valid_bytes"]).group_by([
        "log_dir",
        "partition_dir",
        "base_offset",
        "log_valid_bytes",
    ])
    recovery = segments.filter(pc.equal(segments["recovery"], True))
    per_log = logs.aggregate([])
    return {
        "files": writes.num_rows,
        "blocked": items.num_rows - writes.num_rows,
        "segments": per_log.num_rows,
        "partitions": len(writes.group_by(["log_dir", "partition_dir"]).aggregate([])),
        "read_bytes": pc.sum(per_log["log_valid_bytes"]).as_py() or 0,
        "write_bytes": pc.sum(writes["after_bytes"]).as_py() or 0,
        "segments_seen": segments.filter(pc.greater_equal(segments["base_offset"], 0)).num_rows,
        "segments_damaged": damaged(segments).num_rows,
        "not_repaired": _not_repaired(writes, segments),
        "settings_from": {
            row["settings_from"]: row["file_count"]
            for row in writes.group_by("settings_from").aggregate([("file", "count")]).to_pylist()
        },
        "recovery_segments": recovery.num_rows,
        "recovery_bytes": pc.sum(pc.struct_field(recovery["log"], "size")).as_py() or 0,
    }


def _not_repaired(writes: pa.Table, segments: pa.Table) -> dict[str, int]:
    """Findings of danger and damage in files that the plan does not write."""
    found = segments["findings"].combine_chunks()
    flat = pc.list_flatten(found)
    where = segments.select(["log_dir", "partition_dir"]).take(pc.list_parent_indices(found))
    bad = pc.is_in(pc.struct_field(flat, "severity"), pa.array(["damage", "danger"]))
    files = _file_keys(where["log_dir"], where["partition_dir"], pc.struct_field(flat, "file"))
    repaired = pc.is_in(files, _file_keys(writes["log_dir"], writes["partition_dir"], writes["file"]))
    left = pc.struct_field(flat, "severity").filter(pc.and_not(bad, repaired))
    counts = {row["values"]: row["counts"] for row in pc.value_counts(left).to_pylist()}
    return {severity: counts.get(severity, 0) for severity in ("danger", "damage")}


def _file_keys(*columns: Any) -> Any:
    parts = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in columns]
    return pc.binary_join_element_wise(*parts, "/")


class PartitionWork(NamedTuple):
    """What a run has to do in one partition directory; `items` are rows of plan.ITEMS, none of them blocked."""

    log_dir: str
    partition_dir: str
    run_id: str
    place: str | None
    owner_stopped: bool
    items: tuple[Mapping[str, Any], ...]

    @property
    def bytes(self) -> int:
        """Bytes of the logs to read."""
        return sum({item["base_offset"]: item["log_valid_bytes"] for item in self.items}.values())


def partition_works(plan: Plan, run: Run) -> list[PartitionWork]:
    """The plan's work, cut by partition directory: each is changed as a whole, with one journal.

    Raises CorruptPlan for what `plan_rebuild` does not plan: a sealed plan says what was approved, not that it is one.
    """
    if plan.operation != OPERATION:
        raise CorruptPlan(f"a plan to {plan.operation}, not to {OPERATION}")
    by_directory: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for item in plan.items.to_pylist():
        if item["action"] != "blocked":
            _check_item(item)
            by_directory.setdefault((item["log_dir"], item["partition_dir"]), []).append(item)
    return [
        PartitionWork(*where, run.run_id, run.place, run.owner_stopped, tuple(items))
        for where, items in by_directory.items()
    ]


def _check_item(item: Mapping[str, Any]) -> None:
    names = [segment_file(item["base_offset"], kind) for _, _, kind in _FILES]
    partition = item["partition_dir"]
    if item["base_offset"] < 0 or item["file"] not in names or Path(partition).name != partition:
        raise CorruptPlan(f"not an index file of a partition directory: {item['file']!r} in {partition!r}")
    if item["action"] not in ("add", "replace") or item["rule"] not in RULES:
        raise CorruptPlan(f"{item['file']}: action {item['action']!r} by rule {item['rule']!r} is unknown")
    if item["index_interval_bytes"] < 0 or item["segment_index_bytes"] <= 0:
        raise CorruptPlan(f"{item['file']}: no index can be built with such settings")


def apply_partition(work: PartitionWork, *, last_attempt: bool = True) -> pa.RecordBatch:
    """Build the partition's new files beside it and swap them in: rows of report.ACTIONS.

    What goes wrong is said in the rows, and then nothing in this partition was changed, or resume finishes it when
    the apply is repeated. Errors that a retry may heal are raised instead when this is not the `last_attempt`.
    """
    began = time.monotonic()
    try:
        outcome, error = _apply(work), ""
    except KafkatsError as e:
        if e.retryable and not last_attempt:
            raise
        outcome, error = "refused" if isinstance(e, Refused) else "failed", str(e)
    seconds = (time.monotonic() - began) / len(work.items)
    rows = [
        {
            "log_dir": work.log_dir,
            "partition_dir": work.partition_dir,
            "file": item["file"],
            "base_offset": item["base_offset"],
            "action": item["action"],
            "reason": item["reason"],
            "outcome": outcome,
            "error": error,
            "before_bytes": item["before"]["size"] if item["before"] else -1,
            "after_bytes": item["after_bytes"],
            "read_bytes": item["log_valid_bytes"],
            "seconds": seconds,
            "sha256": item["after_sha256"],
        }
        for item in work.items
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ACTIONS)


def _apply(work: PartitionWork) -> str:
    area = work_area(work.log_dir, work.place)
    with hold_shared(work.log_dir, work.owner_stopped):
        before = resume(area, work.partition_dir, work.run_id, owner_stopped=work.owner_stopped).state
        if before != "nothing":
            return _finished(area, work, before)
        lease = claim(area, work.partition_dir, work.run_id)
        changes = [change for base in _by_segment(work) for change in _stage_segment(work, base, lease)]
        logs = {segment_file(i["base_offset"], LOG): FileIdentity(**i["log"]) for i in work.items}
        commit(Path(work.log_dir, work.partition_dir).resolve(), changes, logs, lease, owner_stopped=work.owner_stopped)
        return "done"


def _finished(area: WorkArea, work: PartitionWork, state: str) -> str:
    """An earlier attempt of this run got as far as its journal: say how it ended."""
    journal = read_journal(site(area, work.partition_dir, work.run_id), DISK)
    if journal is None or journal.phase in {"undo", "undone"}:
        raise Refused("this run was undone; plan anew", path=Path(work.log_dir, work.partition_dir))
    for item in work.items:  # the journal says what was; only the disk says what is
        path = Path(work.log_dir, work.partition_dir, item["file"])
        with storage(path, "reading what an earlier attempt wrote"):
            now = hashlib.sha256(path.read_bytes()).hexdigest()
        if now != item["after_sha256"]:
            raise Changed("this plan was applied before, and the file has changed since; plan anew", path=path)
    return "done" if state == "finished" else "already"


def _by_segment(work: PartitionWork) -> Iterator[list[Mapping[str, Any]]]:
    by_base: dict[int, list[Mapping[str, Any]]] = {}
    for item in work.items:
        by_base.setdefault(item["base_offset"], []).append(item)
    yield from by_base.values()


def _stage_segment(work: PartitionWork, items: list[Mapping[str, Any]], lease: Lease) -> Iterator[Replace]:
    """Build one segment's indexes once more, and hold them against what was approved."""
    first = items[0]
    log = Path(work.log_dir, work.partition_dir, segment_file(first["base_offset"], LOG))
    with open_source(log, mapped=True) as source:  # under the lock: no broker cuts it
        built = build_from(
            source,
            first["base_offset"],
            RULES[first["rule"]],
            first["index_interval_bytes"],
            first["segment_index_bytes"],
            None if first["next_base_offset"] < 0 else first["next_base_offset"],
        )
    for item in items:
        content = built.time_index if item["file"].endswith(TIME_INDEX) else built.offset_index
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 != item["after_sha256"]:
            raise Changed("a rebuild gives other bytes than the plan says: the log has changed", path=log)
        staged = lease.staged(item["file"])
        with storage(staged, "writing the new index"):
            staged.write_bytes(content)
        before = FileIdentity(**item["before"]) if item["before"] else None
        yield Replace(item["file"], staged, before, sha256)


def summarize(actions: pa.Table) -> dict[str, Any]:
    """Counts, bytes and the exit code of a run's ACTIONS."""
    counted = actions.group_by(["outcome"]).aggregate([("file", "count")])
    outcomes = {row["outcome"]: row["file_count"] for row in counted.to_pylist()}
    done = actions.filter(pc.equal(actions["outcome"], "done"))
    summary = {
        "files": actions.num_rows,
        "outcomes": dict(sorted(outcomes.items())),
        "written_bytes": pc.sum(done["after_bytes"]).as_py() or 0,
        "errors": sorted(set(actions["error"].to_pylist()) - {""})[:20],
        "exit_code": 3 if "refused" in outcomes else 2 if "failed" in outcomes else 0,
    }
    if set(outcomes) == {"already"}:
        summary["note"] = "this plan had been applied before: nothing was changed"
    return summary


def end_partition(run: Run, verb: str, log_dir: str, partition_dir: str, *, abandon: bool = False) -> dict[str, Any]:
    """`undo` or `purge` a run in one partition directory: a row with the outcome.

    `abandon` lets purge end an interrupted run, too, whose files then stay as they are.
    """
    row: dict[str, Any] = {"log_dir": log_dir, "partition_dir": partition_dir, "files": 0, "error": "", "exit_code": 0}
    try:
        area = work_area(log_dir, run.place)
        if verb == "undo":
            outcome = undo(area, partition_dir, run.run_id, owner_stopped=run.owner_stopped)
        else:
            outcome = purge(area, partition_dir, run.run_id, abandon=abandon)
    except KafkatsError as e:
        word = "refused" if isinstance(e, Refused) else "failed"
        return row | {"outcome": word, "error": str(e), "exit_code": e.exit_code}
    return row | {"outcome": outcome.state, "files": len(outcome.names)}
