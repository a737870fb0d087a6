"""Start a broker on a partition directory: the predicted load, carried out.

The load is `recovery.partition_start`. Recovered segments are cut, and their indexes rebuilt by the
generation's rule.
"""

from __future__ import annotations

from pathlib import Path

from kafkats import paths
from kafkats.broker import files
from kafkats.broker.active import open_active
from kafkats.broker.generation import Generation
from kafkats.broker.partition_log import PartitionLog
from kafkats.broker.settings import Topic
from kafkats.errors import BadInput
from kafkats.evidence.claims import Claims, claims_of
from kafkats.index.build import build_from
from kafkats.logdir.checkpoints import EpochStart
from kafkats.logdir.partition import log_bases, scan_at_rest
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.partition_start import predict
from kafkats.segment.reader import open_source


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
    _carry_out(directory, told, topic, generation, now_ms)
    active = open_active(directory, log_bases(directory)[-1], generation, now_ms)
    log = PartitionLog(directory, topic, generation, active)
    log.log_start_offset, log.log_end_offset = told.log_start_offset, told.log_end_offset
    log.high_watermark = min(before.high_watermark, told.log_end_offset)
    log.recovery_point = told.log_end_offset
    log.keep_epochs([EpochStart(*one) for one in told.epochs], now_ms)
    return log


def _carry_out(
    directory: Path, told: PartitionStart, topic: Topic, generation: Generation, now_ms: int
) -> None:
    for name in told.removed:
        files.delete(directory / name)
    for base in told.deleted:
        files.delete_segment(directory, base)
    for name in told.created:
        files.write(directory / name, b"", now_ms)
    for one in told.recovered:
        if one.base_offset not in told.deleted:
            _recover(directory, one.base_offset, one.cut_to, topic, generation, now_ms)


def _recover(
    directory: Path, base: int, size: int, topic: Topic, generation: Generation, now_ms: int
) -> None:
    log = directory / paths.segment_file(base, paths.LOG)
    files.cut(log, size, now_ms)
    settings = topic.rolling
    with open_source(log) as source:
        built = build_from(
            source,
            base,
            generation.entries,
            settings.index_interval_bytes,
            settings.segment_index_bytes,
        )
    files.write(
        directory / paths.segment_file(base, paths.OFFSET_INDEX), built.offset_index, now_ms
    )
    if generation.roll.relative:
        times = directory / paths.segment_file(base, paths.TIME_INDEX)
        files.write(times, built.time_index, now_ms)
