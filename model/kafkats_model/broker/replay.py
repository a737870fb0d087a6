"""Play a script of requests against brokers of any release, on real files.

Each broker is a log directory below the output folder. All replicas of a partition are in sync: its
high watermark is the lowest log end. The clock stands still but for the script's `at`, so the same
script leaves the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from kafkats import paths
from kafkats.config.values import parse_time
from kafkats.counts import counted
from kafkats.errors import KafkatsError, Refused, UsageError
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.generations import ENRICHED, KIP228
from kafkats_model.broker import enriched_log, enriched_steps, files, requests, script
from kafkats_model.broker.brokers import Broker, note_high_watermarks, topic_for
from kafkats_model.broker.enriched_log import EnrichedLog
from kafkats_model.broker.generation import Generation, generation
from kafkats_model.broker.markers import EndMarker
from kafkats_model.broker.output import new_output
from kafkats_model.broker.partition_log import PartitionLog, create
from kafkats_model.broker.sent import sets_of_log
from kafkats_model.broker.settings import PROTOCOL, Topic, fetch_version_of
from kafkats_model.broker.starting import adopt, start
from kafkats_model.compaction.cleaner import compact
from kafkats_model.errors import Rejected
from kafkats_model.formats.kip228 import time_text
from kafkats_model.formats.readers import reader

BEGIN_MS: Final = parse_time("2024-01-01T00:00:00Z")
"""The clock before the script sets it."""
_MEASURED: Final = ("produce", "replicate", "fetch", "mirror")  # of the dialect `enriched`
T = TypeVar("T")
Row: TypeAlias = dict[str, str | int]
"""The outcome of one step.

Every row has `line`, `do`, `broker` and `outcome`; those of a partition `partition` and
`log_end_offset`. Others, where they apply: `first_offset`, `last_offset`, `bytes`, `rolled`,
`formats` (magic and codec of what was appended or sent), `error` (Kafka's name of it, and the
reason) and `position` (of the batch in what was sent or read), `stored_bytes` of a fetch before a
conversion, and of the segments that a compaction read (`bytes` of those that it wrote), `version`
of the request, `sets` and `rejected` of produce-log: how many it sent, and of these were rejected;
`cpu_us`: the CPU time of judging, converting, reading and writing, in microseconds, which differs
between runs; `timestamp`: of a produce response, or of the record that list-offsets found;
`offsets`: all that list-offsets 0 answers with, the newest first. The dialect `enriched` also has
`offsets` of a fetch, as a consumer counts them, and `opened` and `unopened`: wrappers that a mirror
had to decompress, and others. In a script that names a dialect, `time` is the largest timestamp of
a produced set as the broker means it, or the first record's as the consumer of a fetch does.
"""


def replay(path: Path, output: Path, *, not_for_a_broker: bool = False) -> list[Row]:
    """Play the script at `path` into the folder `output`. Returns a row for each step.

    An error of a broker is an outcome. `not_for_a_broker` allows dialects, which would mislead one.
    Raises Refused for a dialect without it, and if `output` is not empty or lies in a log
    directory; BadInput, UsageError with the line for what is no step or what a release does not
    have; StorageFailed. After an error there is no output.
    """
    lines = script.read_script(path)
    dialects = [(line.number, script.dialect_of(line.step)) for line in lines]
    named = [(number, name) for number, name in dialects if name]
    if named and not not_for_a_broker:
        raise Refused(
            f"line {named[0][0]}: a log of dialect {named[0][1]} would mislead a broker; if none"
            " ever reads these log directories: --not-for-a-broker",
            path=path,
        )
    rows = []
    with new_output(output) as folder:
        stage = _Stage(folder, path.parent, dialects=bool(named))
        for number, step in lines:
            try:
                rows.append(stage.play(number, step))
            except KafkatsError as e:
                where = _where(e, folder)
                raise type(e)(f"line {number}: {e.reason}{where}", path=path) from e
        stage.stop()
    return rows


def _where(error: KafkatsError, folder: Path) -> str:
    """Return the place of an error in words, below the output folder; "" without one."""
    if not error.path:
        return ""
    place = Path(error.path)
    place = place.relative_to(folder) if place.is_relative_to(folder) else place
    return f" ({place}{'' if error.position is None else f' at byte {error.position}'})"


class _Stage:
    """The brokers of a replay, and the clock."""

    def __init__(self, output: Path, beside: Path, *, dialects: bool) -> None:
        self._output, self._beside, self._now = output, beside, BEGIN_MS
        self._dialects = dialects
        self._cpu_ns = -1
        self._brokers: dict[str, Broker] = {}

    def play(self, number: int, step: script.Step) -> Row:
        """Play one step. Raises KafkatsError for what is no answer of a broker."""
        if step.at is not None:
            if step.at < self._now:
                raise UsageError(f"the clock stands at {self._now} and cannot go back to {step.at}")
            self._now = step.at
        row: Row = {"line": number, "do": step.do, "broker": step.broker, "outcome": "done"}
        partition: str = getattr(step, "partition", "")
        row |= {"partition": partition} if partition else {}
        version: int | None = getattr(step, "version", None)
        row |= {} if version is None else {"version": version}
        self._cpu_ns = -1
        try:
            row |= self._played(step)
        except Rejected as e:
            row |= {"outcome": "rejected", "error": e.reason}
            row |= {} if e.position is None else {"position": e.position}
        row |= {"cpu_us": self._cpu_ns // 1000} if self._cpu_ns >= 0 else {}
        note_high_watermarks(self._brokers.values())
        log = self._brokers[step.broker].logs.get(partition)
        return row if log is None else {**row, "log_end_offset": log.log_end_offset}

    def _played(self, step: script.Step) -> Row:
        broker = self._brokers.get(step.broker)
        if broker and broker.generation.dialect == ENRICHED and step.do in enriched_steps.STEPS:
            play = partial(enriched_steps.STEPS[step.do], step, self._now, self._enriched)
            return self._measured(play) if step.do in _MEASURED else play()
        if step.do not in _PLAYED:
            raise UsageError(f"{step.do}: only brokers of the dialect {ENRICHED} have this step")
        return _PLAYED[step.do](self, step)

    def _measured(self, work: Callable[[], T]) -> T:
        """Do the work of the step, and note the CPU time that it takes."""
        began = time.thread_time_ns()
        try:
            return work()
        finally:
            self._cpu_ns = time.thread_time_ns() - began

    def stop(self) -> None:
        """Stop all brokers cleanly, and write the checkpoints of their log directories."""
        for broker in self._brokers.values():
            broker.stop(self._now)

    def _broker(self, name: str) -> Broker:
        if name not in self._brokers:
            raise UsageError(f"there is no broker {name} yet")
        return self._brokers[name]

    def _any_log(self, broker: str, partition: str) -> PartitionLog | EnrichedLog:
        logs = self._broker(broker).logs
        if partition not in logs:
            raise UsageError(f"broker {broker} has no partition {partition} yet")
        return logs[partition]

    def _log(self, broker: str, partition: str) -> PartitionLog:
        log = self._any_log(broker, partition)
        if isinstance(log, EnrichedLog):
            raise UsageError(f"broker {broker} has logs of the dialect {ENRICHED}")
        return log

    def _enriched(self, broker: str, partition: str) -> EnrichedLog:
        log = self._any_log(broker, partition)
        if isinstance(log, PartitionLog):
            raise UsageError(f"broker {broker} does not know the dialect {ENRICHED}")
        return log

    def _start(self, step: script.Start) -> Row:
        if step.broker in self._brokers:
            raise UsageError(f"there is a broker {step.broker} already")
        rules = generation(step.kafka)
        fetch_version_of(step.config, rules)
        directory = self._output / f"broker-{step.broker}"
        files.make_directory(directory)
        broker = self._brokers[step.broker] = Broker(directory, rules, step.config)
        broker.mark(self._now)
        return {}

    def _create(self, step: script.Create) -> Row:
        broker = self._broker(step.broker)
        if step.partition in broker.logs:
            raise UsageError(f"broker {step.broker} has {step.partition} already")
        directory, rules = broker.directory / step.partition, broker.generation
        topic = topic_for(step.config, rules)
        broker.settings[step.partition] = dict(step.config)
        if step.copy_of is not None:
            broker.logs[step.partition] = self._copied(step.copy_of, directory, topic, rules)
            return {"outcome": "copied"}
        creates = enriched_log.create if rules.dialect == ENRICHED else create
        broker.logs[step.partition] = creates(directory, topic, rules, self._now)
        return {}

    def _copied(
        self, source: str, directory: Path, topic: Topic, rules: Generation
    ) -> PartitionLog:
        if rules.dialect:
            raise UsageError(f"from: a broker of the dialect {rules.dialect} takes no copies")
        return adopt(self._beside / source, directory, topic, rules, self._now)

    def _produce(self, step: script.Produce) -> Row:
        log = self._log(step.broker, step.partition)
        data = _set_of(step)
        before = log.active.base_offset
        produce = partial(requests.produce, log, step.version, data)
        made, timestamp = self._measured(
            partial(produce, now_ms=self._now, leader_epoch=step.epoch)
        )
        row: Row = {
            "outcome": made.how,
            "first_offset": made.first_offset,
            "last_offset": made.last_offset,
            "bytes": len(made.data),
            "formats": requests.formats_of(made.data),
            "timestamp": timestamp,
            "rolled": "yes" if log.active.base_offset != before else "",
        }
        if self._dialects:
            of_dialect = bool(log.generation.dialect)
            row["time"] = time_text(made.largest.timestamp, dialect=of_dialect)
        return row

    def _produce_log(self, step: script.ProduceLog) -> Row:
        log = self._log(step.broker, step.partition)
        sets, ends = sets_of_log(self._beside / step.log, step.bytes)
        before, first = log.active.base_offset, log.log_end_offset
        produce = partial(requests.produce_sets, log, step.version, sets, ends)
        done = self._measured(partial(produce, now_ms=self._now, leader_epoch=step.epoch))
        row: Row = {
            "outcome": ", ".join(f"{how}: {n}" for how, n in sorted(done.outcomes.items()) if n),
            "bytes": done.bytes,
            "sets": len(ends),
            "rejected": done.outcomes["rejected"],
            "rolled": "yes" if log.active.base_offset != before else "",
        }
        if log.log_end_offset > first:
            row |= {"first_offset": first, "last_offset": log.log_end_offset - 1}
        return {**row, "error": done.rejected} if done.rejected else row

    def _end_transaction(self, step: script.EndTransaction) -> Row:
        marker = EndMarker(step.producer, step.producer_epoch, step.commit, step.coordinator_epoch)
        log = self._log(step.broker, step.partition)
        made = log.end_transaction(marker, now_ms=self._now, leader_epoch=step.epoch)
        return {"first_offset": made.first_offset, "last_offset": made.last_offset}

    def _replicate(self, step: script.Replicate) -> Row:
        leader = self._log(step.leader, step.partition)
        log = self._log(step.broker, step.partition)
        first = log.log_end_offset
        broker = self._brokers[step.broker]
        version = fetch_version_of(broker.config, broker.generation)
        replicate = partial(requests.replicate, leader, log, step.bytes)
        sent = self._measured(partial(replicate, version=version, now_ms=self._now))
        row: Row = {"outcome": sent.how, "bytes": len(sent.data), "version": sent.version}
        if not sent.data:
            return row
        return {
            **row,
            "first_offset": first,
            "last_offset": log.log_end_offset - 1,
            "stored_bytes": sent.stored_bytes,
            "formats": requests.formats_of(sent.data),
        }

    def _fetch(self, step: script.Fetch) -> Row:
        log = self._log(step.broker, step.partition)
        requests.check_dialect("fetch", step.version, step.dialect)
        fetch = partial(requests.fetch, log, step.version, step.offset, step.bytes)
        answer = self._measured(fetch)
        requests.check_decodes(answer.data, step.decodes)
        row: Row = {
            "outcome": answer.how,
            "bytes": len(answer.data),
            "formats": requests.formats_of(answer.data),
            "stored_bytes": answer.stored_bytes,
        }
        if self._dialects:
            row["time"] = requests.first_time(answer, step.offset, step.dialect)
        return row

    def _list_offsets(self, step: script.ListOffsets) -> Row:
        log = self._log(step.broker, step.partition)
        answer, offsets = requests.list_offsets(
            log, step.version, step.time, now_ms=self._now, count=step.count
        )
        return {
            "outcome": answer.reason or "none",
            "first_offset": answer.offset,
            "timestamp": answer.timestamp,
            "offsets": " ".join(map(str, offsets)) if step.version == 0 else "",
        }

    def _roll(self, step: script.Roll) -> Row:
        log = self._any_log(step.broker, step.partition)
        log.roll(log.log_end_offset, self._now)
        return {"rolled": "yes"}

    def _truncate(self, step: script.Truncate) -> Row:
        self._any_log(step.broker, step.partition).truncate(step.offset, self._now)
        return {}

    def _delete_records(self, step: script.DeleteRecords) -> Row:
        log = self._log(step.broker, step.partition)
        return {"first_offset": log.delete_records(step.offset, self._now)}

    def _retain(self, step: script.Retain) -> Row:
        log = self._log(step.broker, step.partition)
        verdicts = log.delete_old_segments(self._now).verdicts
        count = sum(verdict.deletes for verdict in verdicts)
        return {
            "outcome": f"{counted(count, 'segment')} deleted",
            "first_offset": log.log_start_offset,
        }

    def _compact(self, step: script.Compact) -> Row:
        log = self._log(step.broker, step.partition)
        if not log.topic.compacted:
            raise UsageError(f"cleanup.policy of {step.partition} does not include compact")
        made = compact(log, self._now)
        why_not, first = made.section.why_not, made.section.first_offset
        if why_not:
            return {"outcome": why_not, "first_offset": first}
        segments = f"{counted(made.segments[0], 'segment')} into {made.segments[1]}"
        before, after = made.bytes
        row: Row = {"first_offset": first, "last_offset": made.cleaned_to - 1}
        return {"outcome": segments, **row, "bytes": after, "stored_bytes": before}

    def _restart(self, step: script.Restart) -> Row:
        broker = self._broker(step.broker)
        if step.clean and step.lose:
            raise UsageError("a clean stop loses nothing")
        if step.kafka is not None:
            before, broker.generation = broker.generation, generation(step.kafka)
            dialect = broker.generation.dialect
            changes = dialect != before.dialect
            horizons = before.cleaning.delete_horizon and dialect == KIP228
            if broker.logs and changes and (horizons or ENRICHED in {dialect, before.dialect}):
                raise UsageError(
                    f"Kafka {step.kafka} would misread these logs: a dialect is never guessed"
                )
            broker.mark(self._now)
        own = {key: value for key, value in step.config.items() if key == PROTOCOL}
        broker.config = {**broker.config, **own}
        fetch_version_of(broker.config, broker.generation)
        changed = {key: value for key, value in step.config.items() if key not in own}
        topic_for(changed, broker.generation)
        for name, log in broker.logs.items():
            broker.settings[name] = {**broker.settings[name], **changed}
            topic = topic_for(broker.settings[name], broker.generation)
            if step.clean:
                log.close(self._now)
            active = log.active
            path = log.directory / paths.segment_file(active.base_offset, paths.LOG)
            files.cut(path, max(active.size - step.lose, 0), self._now)
            if isinstance(log, EnrichedLog):
                broker.logs[name] = enriched_log.start(log, topic, self._now)
            else:
                rules = broker.generation
                broker.logs[name] = start(log, topic, rules, self._now, clean=step.clean)
        return {}


_PLAYED: Final[Mapping[str, Callable[..., Row]]] = {
    "broker": _Stage._start,
    "create": _Stage._create,
    "produce": _Stage._produce,
    "produce-log": _Stage._produce_log,
    "end-transaction": _Stage._end_transaction,
    "replicate": _Stage._replicate,
    "fetch": _Stage._fetch,
    "list-offsets": _Stage._list_offsets,
    "roll": _Stage._roll,
    "truncate": _Stage._truncate,
    "delete-records": _Stage._delete_records,
    "retain": _Stage._retain,
    "compact": _Stage._compact,
    "restart": _Stage._restart,
}


def _set_of(step: script.Produce) -> bytes:
    if step.control is not None:
        raise UsageError(f"control: only the dialect {ENRICHED} has control messages in a set")
    given, by = step.given_set(), step.producer
    if given is not None:
        if by is not None:
            raise UsageError("producer: the bytes of a set name it already")
        return given
    producer = None if by is None else by.fields
    none = reader(step.dialect).no_timestamp
    records = [
        Record(n, r.time_or(none), TimestampType.CREATE_TIME, *r.content)
        for n, r in enumerate(step.records)
    ]
    codec = Codec[step.codec.upper()]
    return requests.message_set(step.version, codec, records, step.dialect, producer)
