"""Play a script of requests against brokers of any release, on real files.

Each broker is a log directory below the output folder. All replicas of a partition are in sync: its
high watermark is the lowest log end. The clock stands still but for the script's `at`, so the same
script leaves the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from kafkats import paths
from kafkats.broker import files, requests, script
from kafkats.broker.generation import Generation, generation
from kafkats.broker.partition_log import PartitionLog, create
from kafkats.broker.settings import Config, settings_from, topic_of
from kafkats.broker.starting import start
from kafkats.config.values import parse_time
from kafkats.errors import KafkatsError, Refused, Rejected, UsageError, storage
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.logdir.checkpoints import encode_offsets
from kafkats.logdir.partition import log_bases
from kafkats.plans.files import make_folder

BEGIN_MS: Final = parse_time("2024-01-01T00:00:00Z")
"""The clock before the script sets it."""


Row: TypeAlias = dict[str, str | int]
"""The outcome of one step.

Every row has `line`, `do`, `broker` and `outcome`; those of a partition `partition` and
`log_end_offset`. Others, where they apply: `first_offset`, `last_offset`, `bytes`, `rolled`,
`error` (Kafka's name of it, and the reason), `stored_bytes` of a fetch before a conversion, and
`timestamp`: of a produce response, or of the record that list-offsets found.
"""


@dataclass
class _Broker:
    """A broker: its log directory, and the logs that it holds."""

    directory: Path
    generation: Generation
    logs: dict[str, PartitionLog] = field(default_factory=dict)
    settings: dict[str, Config] = field(default_factory=dict)


def replay(path: Path, output: Path) -> list[Row]:
    """Play the script at `path` into the folder `output`. Returns a row for each step.

    An error of a broker is an outcome. Raises Refused if `output` is not empty or lies in a log
    directory; BadInput, UsageError with the line for what is no step or what a release does not
    have; StorageFailed.
    """
    lines = script.read_script(path)
    _check_output(output)
    stage = _Stage(output)
    rows = []
    for number, step in lines:
        try:
            rows.append(stage.play(number, step))
        except KafkatsError as e:
            where = f" ({e.path})" if e.path else ""
            raise type(e)(f"line {number}: {e.reason}{where}", path=path) from e
    stage.stop()
    return rows


def _check_output(output: Path) -> None:
    """Create the folder. Raises Refused if it is not empty, or lies in a log directory."""
    with storage(output, "looking"):
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise Refused("it is not empty: name a folder that does not exist", path=output)
        real = output.resolve()
    for above in real.parents:
        if paths.parse_partition(above.name) is not None and log_bases(above):
            raise Refused(f"it lies in the partition directory {above}", path=output)
    try:
        make_folder(output, "a replay")
    except UsageError as e:
        raise Refused(e.reason, path=output) from e


class _Stage:
    """The brokers of a replay, and the clock."""

    def __init__(self, output: Path) -> None:
        self._output, self._now = output, BEGIN_MS
        self._brokers: dict[str, _Broker] = {}

    def play(self, number: int, step: script.Step) -> Row:
        """Play one step. Raises KafkatsError for what is no answer of a broker."""
        if step.at is not None:
            if step.at < self._now:
                raise UsageError(f"the clock stands at {self._now} and cannot go back to {step.at}")
            self._now = step.at
        row: Row = {"line": number, "do": step.do, "broker": step.broker, "outcome": "done"}
        partition: str = getattr(step, "partition", "")
        row |= {"partition": partition} if partition else {}
        try:
            row |= _PLAYED[step.do](self, step)
        except Rejected as e:
            row |= {"outcome": "rejected", "error": e.reason}
        self._replicated()
        log = self._brokers[step.broker].logs.get(partition)
        return row if log is None else {**row, "log_end_offset": log.log_end_offset}

    def stop(self) -> None:
        """Stop all brokers cleanly, and write the checkpoints of their log directories."""
        for broker in self._brokers.values():
            for log in broker.logs.values():
                log.close(self._now)
            self._write_checkpoints(broker)

    def _write_checkpoints(self, broker: _Broker) -> None:
        kept: Mapping[str, Callable[[PartitionLog], int]] = {
            paths.RECOVERY_POINT: lambda log: log.recovery_point,
            paths.HIGH_WATERMARK: lambda log: log.high_watermark,
            paths.LOG_START: lambda log: log.log_start_offset,
        }
        for name, offset in kept.items():
            offsets = {paths.partition_name(p): offset(log) for p, log in broker.logs.items()}
            files.write(broker.directory / name, encode_offsets(offsets), self._now)
        files.write(broker.directory / paths.CLEAN_SHUTDOWN, b"", self._now)

    def _replicated(self) -> None:
        ends: dict[str, int] = {}
        for broker in self._brokers.values():
            for name, log in broker.logs.items():
                ends[name] = min(ends.get(name, log.log_end_offset), log.log_end_offset)
        for broker in self._brokers.values():
            for name, log in broker.logs.items():
                log.high_watermark = max(log.log_start_offset, ends[name])

    def _broker(self, name: str) -> _Broker:
        if name not in self._brokers:
            raise UsageError(f"there is no broker {name} yet")
        return self._brokers[name]

    def _log(self, broker: str, partition: str) -> PartitionLog:
        logs = self._broker(broker).logs
        if partition not in logs:
            raise UsageError(f"broker {broker} has no partition {partition} yet")
        return logs[partition]

    def _start(self, step: script.Start) -> Row:
        if step.broker in self._brokers:
            raise UsageError(f"there is a broker {step.broker} already")
        directory = self._output / f"broker-{step.broker}"
        files.make_directory(directory)
        self._brokers[step.broker] = _Broker(directory, generation(step.kafka))
        return {}

    def _create(self, step: script.Create) -> Row:
        broker = self._broker(step.broker)
        if step.partition in broker.logs:
            raise UsageError(f"broker {step.broker} has {step.partition} already")
        topic = topic_of(settings_from(step.config), broker.generation)
        broker.settings[step.partition] = dict(step.config)
        broker.logs[step.partition] = create(
            broker.directory / step.partition, topic, broker.generation, self._now
        )
        return {}

    def _produce(self, step: script.Produce) -> Row:
        log = self._log(step.broker, step.partition)
        if (step.set is None) == (not step.records):
            raise UsageError("give records, or a set, and not both")
        data = _set_of(step)
        before = log.active.base_offset
        made, timestamp = requests.produce(
            log, step.version, data, now_ms=self._now, leader_epoch=step.epoch
        )
        return {
            "outcome": made.how,
            "first_offset": made.first_offset,
            "last_offset": made.last_offset,
            "bytes": len(made.data),
            "timestamp": timestamp,
            "rolled": "yes" if log.active.base_offset != before else "",
        }

    def _replicate(self, step: script.Replicate) -> Row:
        leader = self._log(step.leader, step.partition)
        log = self._log(step.broker, step.partition)
        first = log.log_end_offset
        size = requests.replicate(leader, log, step.bytes, now_ms=self._now)
        if not size:
            return {"outcome": "nothing new", "bytes": 0}
        last = log.log_end_offset - 1
        return {"outcome": "as it is", "first_offset": first, "last_offset": last, "bytes": size}

    def _fetch(self, step: script.Fetch) -> Row:
        log = self._log(step.broker, step.partition)
        answer = requests.fetch(log, step.version, step.offset, step.bytes)
        return {
            "outcome": answer.how,
            "bytes": len(answer.data),
            "stored_bytes": answer.stored_bytes,
        }

    def _list_offsets(self, step: script.ListOffsets) -> Row:
        log = self._log(step.broker, step.partition)
        answer = requests.list_offsets(log, step.version, step.time, now_ms=self._now)
        return {
            "outcome": answer.reason or "none",
            "first_offset": answer.offset,
            "timestamp": answer.timestamp,
        }

    def _roll(self, step: script.Roll) -> Row:
        log = self._log(step.broker, step.partition)
        log.roll(log.log_end_offset, self._now)
        return {"rolled": "yes"}

    def _truncate(self, step: script.Truncate) -> Row:
        self._log(step.broker, step.partition).truncate(step.offset, self._now)
        return {}

    def _retain(self, step: script.Retain) -> Row:
        log = self._log(step.broker, step.partition)
        verdicts = log.delete_old_segments(self._now).verdicts
        count = sum(verdict.deletes for verdict in verdicts)
        return {"outcome": f"{count} segments deleted", "first_offset": log.log_start_offset}

    def _restart(self, step: script.Restart) -> Row:
        broker = self._broker(step.broker)
        if step.clean and step.lose:
            raise UsageError("a clean stop loses nothing")
        if step.kafka is not None:
            broker.generation = generation(step.kafka)
        for name, log in broker.logs.items():
            broker.settings[name] = {**broker.settings[name], **step.config}
            topic = topic_of(settings_from(broker.settings[name]), broker.generation)
            if step.clean:
                log.close(self._now)
            path = log.active.path(paths.LOG)
            files.cut(path, max(log.active.size - step.lose, 0), self._now)
            broker.logs[name] = start(log, topic, broker.generation, self._now, clean=step.clean)
        return {}


_PLAYED: Final[Mapping[str, Callable[..., Row]]] = {
    "broker": _Stage._start,
    "create": _Stage._create,
    "produce": _Stage._produce,
    "replicate": _Stage._replicate,
    "fetch": _Stage._fetch,
    "list-offsets": _Stage._list_offsets,
    "roll": _Stage._roll,
    "truncate": _Stage._truncate,
    "retain": _Stage._retain,
    "restart": _Stage._restart,
}


def _set_of(step: script.Produce) -> bytes:
    if step.set is not None:
        try:
            return bytes.fromhex(step.set)
        except ValueError as e:
            raise UsageError(f"set: no hex: {e}") from e
    records = [
        Record(n, r.timestamp, TimestampType.CREATE_TIME, _bytes(r.key), _bytes(r.value))
        for n, r in enumerate(step.records)
    ]
    return requests.message_set(step.version, Codec[step.codec.upper()], records)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
