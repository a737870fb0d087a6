"""Start a broker on a partition directory: the predicted load, carried out.

The load is `recovery.partition_start`. Recovered segments are cut, and their indexes rebuilt by the
generation's rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kafkats import paths
from kafkats.errors import BadInput, UsageError, storage
from kafkats.evidence.claims import Claims, claims_of
from kafkats.index import offset_index
from kafkats.index.build import Built, build_from
from kafkats.logdir.checkpoints import EpochStart, read_epochs, read_offsets
from kafkats.logdir.partition import log_bases, scan_at_rest
from kafkats.plans.dialects import listed, refuse_enriched, refuse_marked
from kafkats.recovery.facts import PartitionStart, Recovered
from kafkats.recovery.partition_start import predict
from kafkats.segment.reader import open_source
from kafkats_model.broker import files
from kafkats_model.broker.active import ActiveSegment, open_active
from kafkats_model.broker.first_indexes import write_first_entries
from kafkats_model.broker.generation import Generation
from kafkats_model.broker.partition_log import PartitionLog
from kafkats_model.broker.producers import ProducerState, producer_state
from kafkats_model.broker.settings import Topic, loads_timestamps
from kafkats_model.errors import Rejected


def start(
    before: PartitionLog, topic: Topic, generation: Generation, now_ms: int, *, clean: bool
) -> PartitionLog:
    """Return the log as a broker of `generation` loads it where `before` stopped.

    `clean`: the broker stopped cleanly, after `before.close`. Raises BadInput if the broker would
    not start, with its words; StorageFailed.
    """
    directory = before.directory
    partition = scan_at_rest(directory, live=False)
    claims: Claims = claims_of(partition, None, live=False, tiered=False)._replace(
        rooted=True,
        clean=clean,
        recovery_point=before.recovery_point,
        high_watermark=before.high_watermark,
        log_start=before.log_start_offset,
    )
    interval = topic.rolling.index_interval_bytes
    told = predict(
        partition, claims, generation.start, log_dir=str(directory.parent), interval=interval
    )
    if told.outcome != "loads":
        raise BadInput(f"Kafka {generation.kafka} does not load it: {told.words}", path=directory)
    try:
        return _started(before, told, topic, generation, now_ms, clean=clean)
    except Rejected as e:
        reason = f"Kafka {generation.kafka} does not load it: {e.reason}"
        raise BadInput(reason, path=directory, position=e.position) from e


def _started(
    before: PartitionLog,
    told: PartitionStart,
    topic: Topic,
    generation: Generation,
    now_ms: int,
    *,
    clean: bool,
) -> PartitionLog:
    """As `start`, by a predicted load.

    Raises Rejected for a marker that a producer outran, and for a batch outside of its producer's
    open transaction: a producer that was forgotten below the log start is read there again.
    """
    directory = before.directory
    _carry_out(before, told, topic, generation, now_ms)
    if generation.entries.mtime_entry:
        write_first_entries(directory, log_bases(directory), told.created, now_ms)
    segments = [open_active(directory, b, generation, now_ms) for b in log_bases(directory)]
    segments[-1].closed = False
    log = PartitionLog(directory, topic, generation, *segments)
    if not loads_timestamps(topic, generation):
        for segment in segments:
            segment.forget_largest()
    elif generation.entries.mtime_entry:  # KIP-33's text reads on; shipped brokers do not
        log.find_largest()
    log.log_start_offset, log.log_end_offset = told.log_start_offset, told.log_end_offset
    log.high_watermark = min(before.high_watermark, told.log_end_offset)
    log.cleaned_to = before.cleaned_to
    log.recovery_point = told.log_end_offset
    if not clean and generation.log.keeps_recovery_point:
        bounded = generation.log.bounds_recovery_point
        end = told.log_end_offset if bounded else before.recovery_point
        log.recovery_point = min(before.recovery_point, end)
    if log.producers is not None:
        bases = [one.base_offset for one in segments]
        log.producers.delete_strays(bases)
        log.producers.rebuild(bases, log.log_start_offset, log.log_end_offset, now_ms, clean=clean)
    if generation.epochs:
        files.append(directory / paths.LEADER_EPOCH, b"", now_ms)
        log.epochs = read_epochs(directory / paths.LEADER_EPOCH)
        log.keep_epochs([EpochStart(*one) for one in told.epochs], now_ms)
    return log


def adopt(
    source: Path, directory: Path, topic: Topic, generation: Generation, now_ms: int
) -> PartitionLog:
    """Return the log as a broker loads a copy of the partition directory `source`.

    Its offsets are those of the checkpoints beside `source`. The copy keeps mtimes. Without the
    marker of a clean stop there, all of it is recovered. Raises BadInput if the broker would not
    start, or if `source` has no segments; UsageError if it does not exist; Refused for logs of a
    dialect; CorruptFile, StorageFailed.
    """
    with storage(source, "listing"):
        if not source.exists():
            raise UsageError("there is no such partition directory", path=source)
        bases = log_bases(source)
        if not bases:
            raise BadInput("it has no segments", path=source)
        names = sorted(path.name for path in source.iterdir() if _is_of_partition(path))
    refuse_marked(source.parent)
    refuse_enriched(source, listed(scan_at_rest(source, live=False)))
    files.make_directory(directory)
    for name in names:
        files.copy(source / name, directory / name)
    before = PartitionLog(
        directory, topic, generation, ActiveSegment(directory, bases[-1], generation, now_ms)
    )
    root = source.parent
    before.log_start_offset = _offset_in(root, paths.LOG_START, source.name, bases[0])
    before.high_watermark = _offset_in(root, paths.HIGH_WATERMARK, source.name, 2**63 - 1)
    before.recovery_point = _offset_in(root, paths.RECOVERY_POINT, source.name, 0)
    cleaned_to = _offset_in(root, paths.CLEANER, source.name, -1)
    before.cleaned_to = None if cleaned_to < 0 else cleaned_to
    with storage(root, "looking"):
        clean = (root / paths.CLEAN_SHUTDOWN).exists()
    return start(before, topic, generation, now_ms, clean=clean)


def _is_of_partition(path: Path) -> bool:
    name = path.name
    known = name in {paths.LEADER_EPOCH, paths.PARTITION_METADATA}
    return (known or paths.parse_segment_file(name) is not None) and path.is_file()


def _offset_in(root: Path, checkpoint: str, partition: str, otherwise: int) -> int:
    with storage(root, "looking"):
        known = read_offsets(root / checkpoint) if (root / checkpoint).exists() else {}
    return known.get(paths.partition_name(partition), otherwise)


def _carry_out(
    before: PartitionLog,
    told: PartitionStart,
    topic: Topic,
    generation: Generation,
    now_ms: int,
) -> None:
    directory, log_start = before.directory, before.log_start_offset
    bases = log_bases(directory)
    for name in told.removed:
        files.delete(directory / name)
    for base in told.deleted:
        files.delete_segment(directory, base)
    for name in told.renamed:
        swap = directory / name
        files.rename(swap, directory / name.removesuffix(".swap"), files.mtime_of(swap))
    for name in told.created:
        files.write(directory / name, b"", now_ms)
    for one in told.recovered:
        if one.base_offset not in told.deleted:
            _recover_segment(before, bases, one, topic, generation, now_ms)
    state = producer_state(directory, topic, generation)
    if state is not None and generation.start.swaps_renamed:
        state.delete_snapshots(told.deleted)
    if state is not None and generation.log.keeps_snapshots and {*bases} <= {*told.deleted}:
        state.clear(log_start)


def _recover_segment(
    before: PartitionLog,
    bases: Sequence[int],
    one: Recovered,
    topic: Topic,
    generation: Generation,
    now_ms: int,
) -> None:
    directory, base = before.directory, one.base_offset
    state = producer_state(directory, topic, generation)
    if state is not None:
        state.rebuild(bases, before.log_start_offset, base, now_ms, recovers=True)
    if generation.log.deletes_aborted and base == bases[-1] and not before.active.closed:
        files.delete(directory / paths.segment_file(base, paths.TXN_INDEX))
    _recover(directory, base, one.cut_to, topic, generation, now_ms)
    if state is not None:
        _recover_producers(directory, base, state, now_ms)


def _recover_producers(directory: Path, base: int, state: ProducerState, now_ms: int) -> None:
    """Read the producers of a recovered segment, and write its transaction index anew."""
    with open_source(directory / paths.segment_file(base, paths.LOG)) as source:
        aborted = state.read(source, base)
    path = directory / paths.segment_file(base, paths.TXN_INDEX)
    if aborted or files.size_of(path):
        files.write(path, aborted, now_ms)
    state.take_snapshot(now_ms)


def _recover(
    directory: Path, base: int, size: int, topic: Topic, generation: Generation, now_ms: int
) -> None:
    log = directory / paths.segment_file(base, paths.LOG)
    files.cut(log, size, now_ms)
    settings = topic.rolling
    if generation.dialect:
        batches = generation.reader.batches(files.read(log), verify=False)
        ActiveSegment(directory, base, generation, now_ms).rebuild(batches, settings, now_ms)
        return
    with open_source(log) as source:
        built = build_from(
            source,
            base,
            generation.entries,
            settings.index_interval_bytes,
            settings.segment_index_bytes,
            timed=generation.roll.relative,
        )
    why = built.blocked_reason if built.blocked == "index-full" else _refused_by_index(built)
    if why:
        raise BadInput(f"Kafka {generation.kafka} does not load it: {why}", path=log)
    files.write(
        directory / paths.segment_file(base, paths.OFFSET_INDEX), built.offset_index, now_ms
    )
    if generation.roll.relative:
        times = directory / paths.segment_file(base, paths.TIME_INDEX)
        files.write(times, built.time_index, now_ms)


def _refused_by_index(built: Built) -> str:
    """Return why a broker's own rebuild of the offset index fails, "" if it does not.

    Up to 1.1 entries have the first offset of a batch. A follower's wrapper can begin below the log
    end.
    """
    offsets = np.frombuffer(built.offset_index, offset_index.ENTRY)["relative_offset"]
    at = np.flatnonzero(offsets[1:] <= offsets[:-1])
    return f"an index entry for {offsets[at[0] + 1]} after {offsets[at[0]]}" if len(at) else ""
