"""Predict the load of one partition directory, in the order of Kafka's LogLoader.

1. names      a name without a number stops the broker; deletions and swaps (`loading`)
2. segments   opened in order; one without .index, or with indexes that fail their check, is
              recovered: what is corrupt is cut off, later segments stay
3. swaps      before 3.0: the .log.swap is recovered and takes the place of what it covers
4. recovery   after an unclean stop: the segment with the recovery point and all later ones. The
              first that is cut ends the log: the segments behind it are deleted
5. log end    read from the last entry of the last segment's .index; below the log start, all
              segments are deleted (2.2.1 and later)
6. epochs, producer snapshots: cut to the log's ends, loaded, replayed
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.errors import CorruptFile, KafkatsError
from kafkats.evidence.borders import known_end, witnesses
from kafkats.evidence.claims import Claims
from kafkats.evidence.looking import epochs_of, was_compacted
from kafkats.formats import v2
from kafkats.formats.framing import MAGIC_AT
from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.logdir.checkpoints import EpochStart
from kafkats.logdir.epochs import after, assigned_anew, until
from kafkats.logdir.identity import refuse_unread
from kafkats.logdir.partition import PartitionDir
from kafkats.logdir.snapshot import read_snapshot
from kafkats.recovery.checkpoints import EPOCHS, read_failure
from kafkats.recovery.facts import Outcome, PartitionStart, Why
from kafkats.recovery.judging import Seen, start_findings
from kafkats.recovery.kept import borders_of, index_claims, unknown_formats, unknown_magics
from kafkats.recovery.load import Load, recovered
from kafkats.recovery.loading import Files, load_names, stopping_name
from kafkats.recovery.reading import (
    End,
    Recovery,
    Stops,
    index_defect,
    last_seen,
    path_of,
    read_end,
    recover,
    transactions_defect,
)
from kafkats.recovery.rules import StartRule
from kafkats.recovery.snapshots import Loaded, Snapshots
from kafkats.segment.reader import open_source

_UNDECIDED: Final = "which is not predicted here"


def predict(
    partition: PartitionDir,
    claims: Claims,
    rule: StartRule,
    *,
    log_dir: str,
    interval: int = INDEX_INTERVAL_BYTES,
    ahead: Mapping[int, Recovery] | None = None,
) -> PartitionStart:
    """Return the load of `partition` by a broker of `rule`. Reads only what the broker would read.

    `claims` are those of its root; `claims.clean` says whether the marker counts. `interval` is
    `index.interval.bytes`, which matters only in a log whose offsets do not rise. `ahead` has the
    recoveries of segments that were read before, by base offset.
    """
    names = {file.name: file.size for file in partition.files.values()}
    odd = {
        f.file for f in partition.findings if f.kind in ("stray", "stops-the-broker", "transient")
    }
    names |= {name: 0 for name in odd if name not in names and (partition.path / name).is_file()}
    known = PartitionStart(
        log_dir,
        partition.path.name,
        "loads",
        segments=len(partition.segments),
        log_bytes=sum(s.log.size for s in partition.segments),
        recovery_point=claims.recovery_point,
    )
    epochs = epochs_of(partition.path) if rule.epochs else []
    state = partition.name.state if partition.name else ""
    if not state:  # a moved or deleted copy has no checkpoints of its own
        end = max((w.offset for w in witnesses(claims, epochs)), default=-1)
        known = replace(known, known_end=end, high_watermark=claims.high_watermark)
    # Snapshots are listed before the epochs are read up to 2.8, afterwards from 3.0 on.
    snapshots = {name for name in odd if name.endswith(paths.SNAPSHOT)}
    first = "" if rule.java_checkpoints else stopping_name(snapshots, rule)
    words = stopping_name(odd, rule)
    try:
        unread = None if first else _unread_epochs(partition.path, rule, known)
        if unread is not None or words:
            return unread or replace(known, outcome="stops", words=first or words)
        start = _loaded(partition, claims, rule, interval, names, known, epochs, state, ahead or {})
        blocked = _blocking_directory(start, partition, names, rule)
        return replace(known, outcome="offline", words=blocked) if blocked else start
    except Stops as e:
        outcome: Outcome = "unknown" if _UNDECIDED in e.words or "overflow" in e.words else "stops"
        return replace(known, outcome=outcome, words=e.words)
    except KafkatsError as e:
        refuse_unread(e, partition.path.parent)
        return replace(known, outcome="offline", words=f"{e.path}: {e.reason}")


def _loaded(
    partition: PartitionDir,
    claims: Claims,
    rule: StartRule,
    interval: int,
    names: dict[str, int],
    known: PartitionStart,
    epochs: list[EpochStart],
    state: str,
    ahead: Mapping[int, Recovery],
) -> PartitionStart:
    directory = partition.path
    files = load_names(names, rule, _swap_end(directory, rule, names))
    snapshots = (name for name in files.sources if name.endswith(paths.SNAPSHOT))
    offsets = [p.base_offset for p in map(paths.parse_segment_file, snapshots) if p]
    load = Load(
        directory, rule, claims, interval, names, files,
        Snapshots(
            offsets,
            _readable(directory),
            lambda base: load.replay(base),
            kept=_has_producers(directory, files, rule),
        ),
        assigned_anew(epochs) if rule.epochs_anew else list(epochs),
        epochs,
        ahead,
    )  # fmt: skip
    _open_segments(load)
    _finish_swaps(load)
    if state == "delete" and not rule.deleting_loaded:
        load.reached = 0
        return _finished(load, known, End(0, 0, 0))
    _recover_log(load)
    _check_indexes(load)
    end = _settled_end(load)
    return _finished(load, known, end)


def _blocking_directory(
    start: PartitionStart, partition: PartitionDir, names: Collection[str], rule: StartRule
) -> str:
    """Return the broker's words for a directory where it opens or creates a file, "" for none.

    A load lists files only, so it opens no log that is a directory. It may create one there. A
    .txnindex is opened by its name, and an .index at the first read of its segment.
    """
    opened = (paths.LOG, paths.OFFSET_INDEX) if rule.marker_epoch else (paths.LOG,)
    for name in sorted({finding.file for finding in partition.findings}):
        path = partition.path / name
        log = name.removesuffix(paths.TXN_INDEX) + paths.LOG
        transactions = rule.producers and name.endswith(paths.TXN_INDEX) and log in names
        created = name in start.created and name.endswith(opened)
        if (created or transactions) and path.is_dir():
            is_index = name.endswith(paths.OFFSET_INDEX)
            return f"{path} (Is a directory)" if is_index else f"{path}: Is a directory"
    return ""


def _has_producers(directory: Path, files: Files, rule: StartRule) -> bool:
    """Return whether the topic's format has producer state, by the first batch of the last segment.

    Brokers up to 2.8 know the format from message.format.version.
    """
    bases = files.bases()
    log = path_of(directory, files.sources, bases[-1], paths.LOG) if bases else None
    if log is None or rule.swaps_renamed:
        return True
    with open_source(log) as source:
        head = source.read(0, MAGIC_AT + 1)
    return len(head) <= MAGIC_AT or head[MAGIC_AT] >= v2.MAGIC


def _unread_epochs(
    directory: Path, rule: StartRule, known: PartitionStart
) -> PartitionStart | None:
    """Return the start that ends at unreadable leader epochs, which are read first of all."""
    if not rule.epochs:
        return None
    failure = read_failure(rule, directory / paths.LEADER_EPOCH, EPOCHS)
    if failure is None:
        return None
    stops = rule.epochs == "stops" or failure.bad_number
    return replace(known, outcome="stops" if stops else "offline", words=failure.words)


def _swap_end(directory: Path, rule: StartRule, names: dict[str, int]) -> Callable[[int, str], int]:
    def next_offset(base: int, name: str) -> int:
        index = name.replace(paths.LOG, paths.OFFSET_INDEX)
        given = directory / index if index in names else None
        return read_end(directory / name, given, base, rule).offset

    return next_offset


def _readable(directory: Path) -> Callable[[int], bool]:
    def readable(offset: int) -> bool:
        try:
            read_snapshot(directory / paths.segment_file(offset, paths.SNAPSHOT))
        except CorruptFile:
            return False
        return True

    return readable


def _open_segments(load: Load) -> None:
    """Open the segments in order, and recover those whose indexes are missing or wrong."""
    rule, sources = load.rule, load.files.sources
    for base in load.files.bases():
        index, times = (
            paths.segment_file(base, paths.OFFSET_INDEX),
            paths.segment_file(base, paths.TIME_INDEX),
        )
        missing = index not in sources
        why: Why | None = "missing-index" if missing and rule.missing_index_rebuilt else None
        if rule.index_checks and not rule.corrupt_index_stops and not why:
            defect = index_defect(
                load.source(base, paths.OFFSET_INDEX),
                load.source(base, paths.TIME_INDEX),
                base,
                rule,
            )
            why = "corrupt-index" if defect else None
        txn = load.source(base, paths.TXN_INDEX) if rule.producers else None
        if (
            txn is not None
            and not why
            and load.sizes.get(txn.name)
            and transactions_defect(txn, base)
        ):
            why = "corrupt-index"
        for name in (index, times):
            if name == index or rule.time_indexes:
                load.files.create(name)
        if why:
            load.recover(base, why)
        load.bases.append(base)


def _check_indexes(load: Load) -> None:
    """Raise Stops for an index that fails its check, where the broker does not rebuild it (0.8)."""
    for base in load.bases if load.rule.corrupt_index_stops else ():
        index = None if base in load.recoveries else load.source(base, paths.OFFSET_INDEX)
        defect = index_defect(index, None, base, load.rule)
        if defect:
            raise Stops(f"requirement failed: {defect}")


def _finish_swaps(load: Load) -> None:
    """Recover each .log.swap and put it in the place of the segments that it covers (to 2.8)."""
    for base in load.files.swapped_logs:
        swap = paths.segment_file(base) + ".swap"
        done = recover(
            load.directory / swap, base, load.interval, newest_magic=load.rule.newest_magic
        )
        if load.rule.producers:
            load.snapshots.rebuild(load.bases, load.log_start, base)
            load.snapshots.recovered(done.producers_end)
        load.recovered.append(recovered(base, "swap", done))
        for covered in [b for b in load.bases if base <= b < done.next_offset or b == base]:
            load.bases.remove(covered)
            load.recoveries.pop(covered, None)
            for kind in (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX, paths.TXN_INDEX):
                load.files.remove(paths.segment_file(covered, kind))
        for name in sorted(load.files.sources):
            parsed = paths.parse_segment_file(name)
            if parsed and parsed.base_offset == base and parsed.suffix == ".swap":
                load.files.sources[name.removesuffix(".swap")] = load.files.sources.pop(name)
                load.files.renamed.append(name)
        load.recoveries[base] = done
        for kind in _kinds(load.rule)[1:]:
            load.files.create(paths.segment_file(base, kind))
        load.files.restore(paths.segment_file(base, paths.TXN_INDEX))
        load.reached = max(load.reached, done.next_offset)
        load.bases = sorted({*load.bases, base})


def _recover_log(load: Load) -> None:
    """Recover from the recovery point on, unless the stop was clean."""
    if load.claims.clean:
        return
    below = [base for base in load.bases if base <= load.recovery_point]
    unflushed = [base for base in load.bases if base >= (below[-1] if below else 0)]
    for n, base in enumerate(unflushed):
        if load.recover(base, "unflushed").cut_bytes:
            _delete(load, unflushed[n + 1 :])
            return


def _delete(load: Load, bases: list[int]) -> None:
    if bases:
        load.reached = max(load.reached, last_seen(load.log(bases[-1]), bases[-1]))
    for base in bases:
        load.bases.remove(base)
        load.deleted.append(base)
        for kind in _kinds(load.rule):
            name = paths.segment_file(base, kind)
            load.files.sources.pop(name, None)
            if name in load.files.created:
                load.files.created.remove(name)
        if load.rule.swaps_renamed:
            load.snapshots.offsets.discard(base)


def _settled_end(load: Load) -> End:
    """Return the log end; by the rule delete all segments where it lies below the log start."""
    if load.bases:
        end = load.end()
        load.reached = max(load.reached, end.readable_to)
        if end.offset >= load.log_start or not load.rule.start_wins:
            return end
        _delete(load, list(load.bases))
        load.epochs, load.snapshots.offsets = [], set()
    start = load.log_start if load.rule.start_wins else 0
    load.bases = [start]
    for kind in _kinds(load.rule):
        load.files.create(paths.segment_file(start, kind))
    return End(start, start, 0)


def _kinds(rule: StartRule) -> tuple[str, ...]:
    """Return the files that every segment has."""
    kinds = (paths.LOG, paths.OFFSET_INDEX, paths.TIME_INDEX)
    return kinds if rule.time_indexes else kinds[:2]


def _finished(load: Load, known: PartitionStart, end: End) -> PartitionStart:
    rule, bases = load.rule, load.bases
    start = max(load.log_start, bases[0]) if bases else load.log_start
    # From 3.7 on the checkpoint cuts the epochs, not the first segment.
    epochs_start = load.log_start if rule.marker_epoch else start
    kept = until(load.epochs, end.offset)
    loaded = Loaded(-1, -1)
    if rule.producers:
        if rule.stray_snapshots_go:
            load.snapshots.remove_strays(bases)
        loaded = load.snapshots.rebuild(bases, start, end.offset, clean=load.claims.clean)
    last = paths.segment_file(bases[-1]) if bases else load.directory.name
    deleted_bytes = sum(load.sizes.get(paths.segment_file(b), 0) for b in load.deleted)
    start_of = replace(
        known,
        log_start_offset=start,
        log_end_offset=end.offset,
        recovered=tuple(load.recovered),
        deleted=tuple(load.deleted),
        deleted_bytes=deleted_bytes,
        removed=tuple(load.files.removed),
        renamed=tuple(load.files.renamed),
        created=tuple(load.files.created),
        epochs=tuple(after(kept, epochs_start, falling=rule.falling_epochs)),
        snapshots=tuple(sorted(load.snapshots.offsets)),
        snapshot_offset=loaded.snapshot_offset,
        replay_from=loaded.replay_from,
        replay_bytes=_bytes_from(load, loaded.replay_from),
        known_end=max(_named_end(load, known, end.offset), load.reached),
    )
    borders, indexes = borders_of(load), index_claims(load, end.offset)
    compacted = (load.claims.compacted or was_compacted(load.directory)) if borders.gaps else None
    stops = {base: done.stop for base, done in load.recoveries.items()}
    seen = Seen(
        load.claims._replace(first_base=bases[0] if bases else -1), end, stops, loaded.emptied,
        borders, indexes, compacted, unknown_formats(load), unknown_magics(load),
    )  # fmt: skip
    return replace(start_of, findings=tuple(start_findings(start_of, seen, last, load.named)))


def _named_end(load: Load, known: PartitionStart, log_end: int) -> int:
    """Return the largest offset that files around a partition's logs name, -1 for none."""
    name = paths.parse_partition(known.partition_dir)
    if name is not None and name.state:
        return -1
    named = [*witnesses(load.claims, load.named), *index_claims(load, log_end)]
    return known_end(load.claims, named, log_end)


def _bytes_from(load: Load, offset: int) -> int:
    if offset < 0:
        return 0
    first = max((base for base in load.bases if base <= offset), default=0)
    return sum(load.size(base) for base in load.bases if base >= first)
