"""Predict the start of one broker on all its log directories."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkats import paths
from kafkats.errors import KafkatsError, UsageError
from kafkats.evidence.claims import Claims, claims_of, is_tiered
from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.logdir.identity import refuse_unread
from kafkats.logdir.location import is_empty_root, locate
from kafkats.logdir.partition import scan_at_rest
from kafkats.logdir.root import LogDir
from kafkats.plans.columns import batch_of
from kafkats.plans.dialects import listed, refuse_enriched, refuse_marked
from kafkats.plans.rows import PartitionKey
from kafkats.recovery.ahead import recover_ahead, recovered_logs, segments_of
from kafkats.recovery.facts import OUTCOMES, BrokerStart, Outcome, PartitionStart, RootStart
from kafkats.recovery.meta_properties import (
    Expected,
    in_kraft,
    is_unread,
    misplaced_logs,
    without_properties,
    words_of_all,
)
from kafkats.recovery.partition_start import predict
from kafkats.recovery.reading import Recovery
from kafkats.recovery.root import Looked, look_at_root, told_epoch, with_missing
from kafkats.recovery.rows import STARTS, start_of, start_row
from kafkats.recovery.rules import START_RULES, StartRule, start_rule
from kafkats.recovery.strays import Cluster, blocked_moves, given_up, refused_without_id
from kafkats.recovery.topic_id import failed, read_topic_id
from kafkats.recovery.words import duplicate

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.execution.executor import Executor


_UNTOLD: Final = (
    "it has no meta.properties: a broker with KRaft does not start, one with ZooKeeper writes the"
    " file"
)


@dataclass(frozen=True)
class StartUnit:
    """One partition directory to predict. It can be pickled."""

    root: LogDir
    partition_dir: str
    rule: str
    live: bool
    tiered: bool
    interval: int
    logs: Mapping[int, int]
    """About which logs are recovered: their bytes by base offset."""
    ahead: Mapping[int, Recovery] = field(default_factory=dict)
    """Recoveries that were made before, by base offset."""

    @property
    def bytes(self) -> int:
        """About how many bytes are still to be read."""
        return sum(size for base, size in self.logs.items() if base not in self.ahead)


def predict_start(
    executor: Executor,
    log_dirs: Iterable[str | os.PathLike[str]],
    kafka: str,
    *,
    expected: Expected | None = None,
    cluster: Cluster | None = None,
    interval: int = INDEX_INTERVAL_BYTES,
) -> BrokerStart:
    """Predict the start of a broker of release `kafka` whose `log.dirs` are `log_dirs`.

    A log directory may be empty: a new disk. `cluster` tells which directories are set aside; some
    without a topic id are in any case. Reads what the broker would read, and writes nothing. Where
    the names alone stop the broker, its partitions are predicted all the same.
    Raises UsageError for an unknown release and for anything but a log.dirs root, Refused for logs
    of a dialect, NotPermitted for what only this user may not read, StorageFailed.
    """
    rule = start_rule(kafka)
    looked = with_missing([look_at_root(path, rule) for path in _roots(log_dirs)])
    if all(one.names.metadata_only for one in looked):
        raise UsageError(
            "has KRaft's metadata log only: name the broker's log.dirs, too",
            path=looked[0].root.path,
        )
    units = _with_recoveries(
        executor, [unit for one in looked for unit in _units(one, looked, rule, interval)]
    )
    table = executor.map("preflight", units, start_rows, STARTS, size=lambda unit: unit.bytes)
    partitions = [start_of(row) for row in table.to_pylist()]
    starts = [one.start for one in looked]
    kraft = in_kraft(starts, rule)
    expected = expected or Expected()
    if kraft:
        node = _node_id(looked, expected)
        partitions = given_up(partitions, cluster, node, kafka)
    words = words_of_all(starts, rule, expected) + _duplicates(partitions, rule)
    roots = tuple(_root_outcome(one, partitions, rule, kraft) for one in looked)
    stopped = [(p.log_dir, p.partition_dir, p.words) for p in partitions if p.outcome == "stops"]
    words += blocked_moves(partitions, rule, kraft=kraft)
    words += [*misplaced_logs(roots), *refused_without_id(partitions, kafka)] if kraft else []
    words += [w for root in roots if root.outcome == "stops" for w in root.words]
    words += [f"{log_dir}/{name}: {reason}" for log_dir, name, reason in stopped]
    untold = [one.outcome for one in roots if one.outcome == "unknown"]
    outcome = _worst([*(one.outcome for one in partitions), *untold])
    words += _shutdown(roots, [str(one.root.path) for one in looked if _unowned(one)], rule, kraft)
    if words:
        outcome = "stops"
    elif outcome == "loads" and any(root.outcome == "offline" for root in roots):
        outcome = "offline"
    told = told_epoch(looked, rule)
    return BrokerStart(kafka, rule, outcome, tuple(words), roots, tuple(partitions), told, kraft)


def _roots(log_dirs: Iterable[str | os.PathLike[str]]) -> list[Path]:
    found: dict[str, Path] = {}
    for path in log_dirs:
        if not is_empty_root(path) and locate(path).kind != "root":
            raise UsageError("is not a log.dirs root: a broker starts on whole roots", path=path)
        refuse_marked(Path(path))
        found.setdefault(os.path.realpath(path), Path(path).absolute())
    return list(found.values())


def _units(
    one: Looked, all_roots: Sequence[Looked], rule: StartRule, interval: int
) -> Iterable[StartUnit]:
    tiered = any(is_tiered(other.names) for other in all_roots)
    root = replace(one.root, clean_shutdown=one.start.clean, findings=())
    points = root.checkpoints.get(paths.RECOVERY_POINT, {})
    for name in one.names.loaded:
        parsed = paths.parse_partition(name)
        if parsed is None or (parsed.state and parsed.state not in rule.states):
            continue
        key = parsed._replace(state="")
        logs = recovered_logs(root.path / name, points.get(key, 0), rule, clean=one.start.clean)
        own = {
            file: {key: offsets[key]}
            for file, offsets in root.checkpoints.items()
            if key in offsets
        }
        small = replace(root, checkpoints=own)
        yield StartUnit(small, name, rule.name, one.start.live, tiered, interval, logs)


def _with_recoveries(executor: Executor, units: Sequence[StartUnit]) -> list[StartUnit]:
    """Return the units with the recoveries of the segments that are read ahead."""
    segments = [
        segment
        for unit in units
        for segment in segments_of(
            str(unit.root.path),
            unit.partition_dir,
            unit.logs,
            unit.interval,
            START_RULES[unit.rule].newest_magic,
        )
    ]
    found = recover_ahead(executor, segments)
    none: Mapping[int, Recovery] = {}
    return [
        replace(unit, ahead=found.get(PartitionKey(str(unit.root.path), unit.partition_dir), none))
        for unit in units
    ]


def start_rows(unit: StartUnit) -> pa.RecordBatch:
    """Return the row of rows.STARTS for one partition directory."""
    return batch_of([start_row(predict_unit(unit))], STARTS)


def predict_unit(unit: StartUnit) -> PartitionStart:
    """Predict one partition directory. An unreadable one takes its log directory offline.

    Raises Refused for logs of a dialect, NotPermitted for what only this user may not read.
    """
    log_dir, rule = str(unit.root.path), START_RULES[unit.rule]
    try:
        partition = scan_at_rest(unit.root.path / unit.partition_dir, live=unit.live)
    except KafkatsError as e:
        refuse_unread(e, unit.root.path)
        return PartitionStart(log_dir, unit.partition_dir, "offline", e.reason)
    refuse_enriched(partition.path, listed(partition))
    claims: Claims = claims_of(partition, unit.root, live=unit.live, tiered=unit.tiered)
    start = predict(
        partition, claims, rule, log_dir=log_dir, interval=unit.interval, ahead=unit.ahead
    )
    return _with_topic_id(start, partition.path, rule)


def _with_topic_id(start: PartitionStart, directory: Path, rule: StartRule) -> PartitionStart:
    """Return `start` with the topic id, or with how a loaded log ends at partition.metadata."""
    try:
        found = read_topic_id(directory, rule)
    except KafkatsError as e:
        refuse_unread(e, directory.parent)
        found = failed(rule, f"{e.path}: {e.reason}")
    if start.outcome != "loads" or found.outcome == "loads":
        return replace(start, topic_id=found.value)
    return replace(start, outcome=found.outcome, words=found.words)


def _duplicates(partitions: Sequence[PartitionStart], rule: StartRule) -> list[str]:
    seen: dict[str, PartitionStart] = {}
    words = []
    for one in partitions:
        name = paths.parse_partition(one.partition_dir)
        if name is None or name.state in ("delete", "stray"):
            continue
        key = f"{name}{name.state}"
        before = seen.setdefault(key, one)
        if before is not one:
            first = f"{before.log_dir}/{before.partition_dir}"
            words.append(duplicate(rule, f"{one.log_dir}/{one.partition_dir}", first, str(name)))
    return words


def _node_id(looked: Sequence[Looked], expected: Expected) -> int | None:
    """Return the broker's node id: as configured, else as its log directories have it."""
    metas = [one.start.meta for one in looked if one.start.meta]
    stored = (meta.node_id for meta in metas if meta.node_id is not None)
    return next(stored, None) if expected.node_id is None else expected.node_id


def _unowned(one: Looked) -> bool:
    return paths.META_PROPERTIES not in one.names.files and not is_unread(one.start)


def _root_outcome(
    one: Looked, partitions: Sequence[PartitionStart], rule: StartRule, kraft: bool | None
) -> RootStart:
    """Return the log directory with what its partitions do to it."""
    failed = [p for p in partitions if p.log_dir == one.start.log_dir and p.outcome == "offline"]
    if kraft is None and one.start.outcome == "loads" and not failed and _unowned(one):
        return replace(one.start, outcome="unknown", words=(*one.start.words, _UNTOLD))
    if not failed or one.start.outcome == "stops":
        return one.start
    words = tuple(f"{p.log_dir}/{p.partition_dir}: {p.words}" for p in failed)
    outcome: Outcome = "offline" if rule.checkpoint == "offline" else "stops"
    return replace(one.start, outcome=outcome, words=one.start.words + words)


def _shutdown(
    roots: Sequence[RootStart], missing: Sequence[str], rule: StartRule, kraft: bool | None
) -> list[str]:
    """Return the reasons why failed log directories end the broker, [] if it runs without them.

    `missing` are those without meta.properties.
    """
    failed = [root for root in roots if root.outcome == "offline"]
    words = [word for root in failed for word in root.words]
    why = without_properties(roots, missing, rule, kraft=kraft)
    if why:
        return [*words, why]
    in_log_dirs = [root.log_dir for root in roots if not root.metadata_only]
    if len(failed) == len(in_log_dirs):
        listed = ", ".join(in_log_dirs)
        return [*words, f"Shutdown broker because all log dirs in {listed} have failed"]
    for root in failed:
        if rule.marker_epoch and root.metadata_log:
            why = f"Shutdown broker because the metadata log dir {root.log_dir} has failed"
            return [*words, why]
    return []


def _worst(outcomes: Iterable[Outcome]) -> Outcome:
    return max(outcomes, key=OUTCOMES.index, default="loads")
