"""Random sequences of requests, timers, stops and starts on one partition: ours against Kafka's own log class.

A sequence has a seed. It is played on our `PartitionLog` first, which tells the log's ends for the next draw, and then on Kafka's log. After each step
the log start, log end, recovery point, segments, index entries, largest timestamps and the answer must be equal; at the end, after a clean stop, the
bytes of every file. `python -m conformance.sequences 4.3.1 SEED` plays one again and prints its steps.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

from rich.console import Console

from conformance.judge import Judge
from conformance.tally import Tally
from kafkats import paths
from kafkats.errors import BadInput, CorruptBatch
from kafkats.formats import v0, v1, v2
from kafkats.formats.framing import frames
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.logdir.snapshot import decode_snapshot, encode_snapshot
from kafkats.paths import SNAPSHOT
from kafkats_model.broker import files, requests
from kafkats_model.broker.active import ActiveSegment
from kafkats_model.broker.error_names import OUT_OF_ORDER
from kafkats_model.broker.generation import Generation, generation
from kafkats_model.broker.markers import EndMarker
from kafkats_model.broker.partition_log import DUPLICATE, PartitionLog, create
from kafkats_model.broker.settings import settings_from, topic_of
from kafkats_model.broker.starting import start
from kafkats_model.errors import Rejected

CHECK: Final = (
    "a sequence of requests, stops and starts: each answer, the state after it, and the files"
)
VERSIONS: Final = {
    "0.10.0.1": 30,
    "0.10.2.2": 30,
    "0.11.0.3": 30,
    "1.1.1": 50,
    "2.3.1": 50,
    "2.4.1": 50,
    "2.8.2": 300,
    "3.9.1": 50,
    "4.3.1": 300,
}
"""The judges, and how many sequences each plays without --full."""
NOW: Final = 1_700_000_000_000
_ERRORS: Final = {
    "OffsetsOutOfOrderException": "OffsetsOutOfOrder",
    "UnexpectedAppendOffsetException": "UnexpectedAppendOffset",
    "RecordBatchTooLargeException": "RECORD_LIST_TOO_LARGE",
    "OffsetOutOfRangeException": "OFFSET_OUT_OF_RANGE",
    "InvalidTimestampException": "INVALID_TIMESTAMP",
    "RecordValidationException": "INVALID_TIMESTAMP",
    "InvalidRecordException": "INVALID_RECORD",
    "org.apache.kafka.common.record.InvalidRecordException": "CORRUPT_MESSAGE",
    "CorruptRecordException": "CORRUPT_MESSAGE",
    "InvalidMessageException": "CORRUPT_MESSAGE",
    "KafkaException": "UNKNOWN_SERVER_ERROR",
    "InvalidOffsetException": "UNKNOWN_SERVER_ERROR",
    "UnknownProducerIdException": "UNKNOWN_PRODUCER_ID",
    "ProducerFencedException": "INVALID_PRODUCER_EPOCH",
    "OutOfOrderSequenceException": "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "InvalidProducerEpochException": "INVALID_PRODUCER_EPOCH",
    "InvalidTxnStateException": "INVALID_TXN_STATE",
    "TransactionCoordinatorFencedException": "TRANSACTION_COORDINATOR_FENCED",
}
_STATE: Final = ("log_start", "log_end", "recovery_point", "segments", "snapshots")
_UNCOMPARED: Final = ("partition.metadata",)
_SCALA_2_12: Final = ("0.11.0.3", "1.1.1", "2.3.1", "2.4.1")
DOES_NOT_START: Final = "does not start"
_FAILED: Final = "Kafka itself failed"
_CUT_OFF: Final = (
    "org.apache.kafka.common.errors.OffsetOutOfRangeException",
    "Received request for offset ",
)
_NO_BATCH: Final = (
    "java.lang.NullPointerException",
    'Cannot read field "position" because "position" is null',
)
"""The errors with which 2.4.1, and older judges, look for an open transaction that is not in the log,
and the beginnings of their messages."""
_OUT_OF_ORDER: Final = "Out of order offsets found in "
"""The message of 0.8 to 0.11, whose exception has no name of its own."""
Step: TypeAlias = dict[str, Any]


def compare(version: str, judge: Judge, work: Path, tally: Tally, *, count: int) -> None:
    """Compare the sequences of `count` seeds."""
    for seed in range(count):
        compare_one(version, seed, judge, work, tally)


def compare_one(version: str, seed: int, judge: Judge, work: Path, tally: Tally) -> list[Step]:
    """Compare one sequence up to the first difference. Returns its steps.

    Sequences that end where Kafka fails are counted in cases of their own.
    """
    folder = work / "ours" / "judged-0"
    sequence = Sequence(version, seed, folder)
    sequence.play()
    (work / "spec.json").write_text(sequence.spec())
    theirs = judge("sequence", work / "spec.json")
    if "steps" not in theirs:
        failure = f"{theirs.get('error')}: {theirs.get('message')}"
        tally.differs(f"{CHECK}, Kafka {version}, seed {seed}: {_FAILED}: {failure}")
        shutil.rmtree(folder)
        return sequence.steps
    for number, (step, ours, told) in enumerate(
        zip(sequence.steps, sequence.answers, theirs["steps"], strict=True)
    ):
        what = f"seed {seed}, step {number} ({_brief(step)})"
        failed = f"{_FAILED}: {step['do']}"
        if ours == [DOES_NOT_START]:
            tally.same(
                CHECK, version, failed, what, ours, [DOES_NOT_START] if "error" in told else told
            )
            break
        if (version, step["do"]) == ("2.4.1", "truncate") and _failed(told, *_CUT_OFF):
            tally.same(CHECK, version, failed, what, step["offset"], told["log_end"])  # half done
            break
        if version in ("0.11.0.3", "1.1.1", "2.3.1") and _failed(told, *_NO_BATCH):
            tally.same(CHECK, version, failed, what, ours[1:], [told[key] for key in _STATE])
            break
        if not tally.same(CHECK, version, step["do"], what, ours, _told(step, told)):
            break
    else:
        _compare_files(version, seed, folder, theirs["files"], tally)
    shutil.rmtree(folder)
    return sequence.steps


def _compare_files(
    version: str, seed: int, folder: Path, theirs: dict[str, str], tally: Tally
) -> None:
    ours = {path.name: path.read_bytes().hex() for path in folder.iterdir()}
    if version in _SCALA_2_12:
        ours = {name: _ordered(name, data) for name, data in ours.items()}
        theirs = {name: _ordered(name, data) for name, data in theirs.items()}
    for name in sorted({*ours, *theirs}):
        if not name.endswith(_UNCOMPARED):
            case = f"*{Path(name).suffix}" if Path(name).suffix else name
            what = f"seed {seed}, {name} at the end"
            tally.same(CHECK, version, case, what, ours.get(name), theirs.get(name))


def _ordered(name: str, data: str) -> str:
    """Return a snapshot with its producers by id: their order is that of Scala's hash map."""
    if not name.endswith(SNAPSHOT):
        return data
    return encode_snapshot(sorted(decode_snapshot(bytes.fromhex(data)))).hex()


def _failed(told: dict[str, Any], error: str, words: str) -> bool:
    """Return whether Kafka looks for an open transaction that is cut off, and so fails.

    Only one that a start has loaded, or that begins below the log start, is looked for.
    """
    return told.get("error") == error and told["message"].startswith(words)


def _brief(step: Step) -> str:
    return " ".join(f"{key}={str(value)[:40]}" for key, value in step.items() if key != "now")


def _told(step: Step, told: dict[str, Any]) -> list[Any]:
    answer = told.get("answer")
    if told.get("message", "").startswith(_OUT_OF_ORDER):
        answer = OUT_OF_ORDER
    elif "error" in told:
        known = _ERRORS.get(told["error"]) or _ERRORS.get(told["error"].rpartition(".")[2])
        answer = known or f"{_FAILED}: {told['error']}: {told['message']}"
    elif step["do"] == "fetch":
        answer = _whole(bytes.fromhex(answer)).hex()
    return [answer, *(told[key] for key in _STATE)]


def _whole(data: bytes) -> bytes:
    """Leave out the batch that the fetch's size cuts, as a consumer does."""
    return data[: max((frame.position + frame.size for frame in frames(data)), default=0)]


@dataclass
class Producer:
    """A producer as its client sees it."""

    number: int
    epoch: int = 0
    next: int = 0
    coordinator: int = 0
    last: str = ""
    """Its last set."""

    def fields(self, random: Random, count: int) -> dict[str, Any]:
        """The fields of its next batch of `count` records. Some are wrong."""
        fate = random.random()
        if fate < 0.1:
            self.epoch, self.next = self.epoch + 1, 0 if fate < 0.08 else 1
        epoch = self.epoch - (0.1 < fate < 0.15)
        first = self.next + (0.15 < fate < 0.2)
        self.next = first + count
        return {
            "producer_id": self.number,
            "producer_epoch": max(epoch, 0),
            "base_sequence": first,
            "transactional": random.random() < 0.5,
        }


class Sequence:
    """One drawn sequence on our own log."""

    def __init__(self, version: str, seed: int, folder: Path) -> None:
        self.random = Random(f"sequence {version} {seed}")
        self.rules: Generation = generation(version)
        self.config = self._config()
        self.topic = topic_of(settings_from(self.config), self.rules)
        self.log: PartitionLog = create(folder, self.topic, self.rules, NOW)
        self.now, self.epoch = NOW, 0
        self.producers = {number: Producer(number) for number in (3, 7, 1 << 40)}
        self.steps: list[Step] = []
        self.answers: list[list[Any]] = []

    def play(self) -> None:
        """Draw and play all steps, and stop."""
        kinds = _kinds(self.rules)
        for _ in range(self.random.randrange(4, 24)):
            kind = self.random.choice(kinds)
            self.now += self.random.choice((0, 0, 1, 400, 1000, 5000))
            step = {"do": kind, "now": self.now} | _DRAWN[kind](self)
            self.steps.append(step)
            try:
                answer = _PLAYED[kind](self, step)
            except Rejected as e:
                answer = e.error
            except CorruptBatch:
                answer = "CORRUPT_MESSAGE"
            except BadInput:
                self.answers.append([DOES_NOT_START])
                return
            self.log.high_watermark = self.log.log_end_offset
            self.answers.append([answer, *self._state()])
            if self.log.active.base_offset > self.log.log_end_offset:
                break  # a rejected append has rolled ahead: Kafka writes below the segment then
        self.log.close(self.now)

    def spec(self) -> str:
        """The steps as JSON: the config on the first line, and a line per step."""
        head = json.dumps({"config": self.config, "now": NOW})[:-1]
        return head + ', "steps": [\n' + ",\n".join(map(json.dumps, self.steps)) + "\n]}"

    def _config(self) -> dict[str, int | str]:
        choice = self.random.choice
        config: dict[str, int | str] = {
            "segment.bytes": choice((300, 600, 2000)),
            "segment.ms": choice((1000, 3000, 10**9)),
            "segment.index.bytes": choice((48, 96, 4096, 4096)),
            "index.interval.bytes": choice((0, 100, 300)),
            "retention.ms": choice((-1, 2000, 8000)),
            "retention.bytes": choice((-1, -1, 1000)),
            "message.timestamp.type": choice(("CreateTime", "CreateTime", "LogAppendTime")),
        }
        return config

    def _state(self) -> list[Any]:
        log = self.log
        segments = [
            [one.base_offset, one.size, one.offset_entries, one.time_entries, self._largest(one)]
            for one in log.segments
        ]
        snapshots = sorted(int(path.name[:20]) for path in log.directory.glob("*.snapshot"))
        return [log.log_start_offset, log.log_end_offset, log.recovery_point, segments, snapshots]

    def _largest(self, segment: ActiveSegment) -> int:
        """The largest timestamp of a segment; -1 for releases that keep none."""
        return segment.largest.timestamp if self.rules.roll.relative else -1

    def records(self, first: int, step: int = 1) -> list[Record]:
        """A few records around the clock."""
        times = (self.now, self.now, self.now - 500, self.now + 700, self.now - 5000, -1)
        size = self.random.choice((0, 10, 60, 60, 180))
        return [
            Record(
                first + n * step,
                self.random.choice(times),
                TimestampType.CREATE_TIME,
                b"k",
                b"v" * size,
            )
            for n in range(self.random.choice((1, 1, 1, 2, 4)))
        ]

    def old_set(self, records: list[Record], codec: int) -> bytes:
        """A message set of one of the formats before magic 2 that the release knows."""
        magic = self.random.choice(self.rules.leader.magics)
        return (v0, v1)[magic].encode_batch(records, codec=codec)

    def offset(self) -> int:
        """An offset in the log, or a little outside."""
        log = self.log
        around = sorted((log.log_start_offset - 2, log.log_end_offset + 2))  # the end can be lower
        return max(0, self.random.randint(*around))


def _draw_leader(sequence: Sequence) -> Step:
    random = sequence.random
    sequence.epoch += random.random() < 0.2
    records = sequence.records(0)
    codec = random.choice((0, 0, 1))
    if not sequence.rules.epochs:
        return {"hex": sequence.old_set(records, codec).hex(), "epoch": 0}
    if random.random() < 0.5:
        return {"hex": v2.encode_batch(records, codec=codec).hex(), "epoch": sequence.epoch}
    producer = random.choice(list(sequence.producers.values()))
    if not producer.last or random.random() < 0.8:
        several = 1 if sequence.rules.leader.one_kind else random.choice((1, 1, 1, 2))
        sets = (producer.fields(random, len(records)) for _ in range(several))
        made = (v2.encode_batch(records, codec=codec, **fields) for fields in sets)
        producer.last = b"".join(made).hex()
    return {"hex": producer.last, "epoch": sequence.epoch}


def _draw_marker(sequence: Sequence) -> Step:
    random = sequence.random
    producer = random.choice(list(sequence.producers.values()))
    producer.coordinator += random.choice((0, 0, 0, 1, -1))
    epoch = max(0, producer.epoch + random.choice((0, 0, 0, 0, 1, -1)))
    made = EndMarker(producer.number, epoch, random.random() < 0.5, max(0, producer.coordinator))
    data = made.encoded(0, sequence.now, -1, TimestampType.CREATE_TIME)
    return {"hex": data.hex(), "epoch": sequence.epoch, "origin": "COORDINATOR", "marker": [*made]}


def _draw_follower(sequence: Sequence) -> Step:
    random, log = sequence.random, sequence.log
    offset = log.log_end_offset + random.choice((0, 0, 0, 0, 0, 0, 0, 3, 3, -1))
    if random.random() < 0.01 and sequence.rules.roll.relative:
        offset += 2**31  # in one segment, as 0.10.0 has it, that is not predicted
    data, twice = b"", False
    many = sequence.topic.rolling.segment_index_bytes > 1000
    for _ in range(random.choice((1, 1, 2, 3)) if many else 1):
        records = sequence.records(max(offset, 0), random.choice((1, 1, 2)))
        sequence.epoch += random.random() < 0.2
        kind = random.random()
        if kind < 0.1:
            records = records if many else records[:1]  # each message gets an entry: none too many
            made = (v0 if kind < 0.05 else v1).encode_batch(records, codec=Codec.NONE)
        elif not sequence.rules.epochs:
            codec = random.choice((0, 0, 2))
            records = records if many or codec else records[:1]
            made = sequence.old_set(records, codec)
        else:
            codec = random.choice((0, 0, 2))
            fields: dict[str, Any] = {}
            if random.random() < 0.3:
                producer = random.choice(list(sequence.producers.values()))
                fields = producer.fields(random, records[-1].offset - records[0].offset + 1)
            made = v2.encode_batch(records, codec=codec, leader_epoch=sequence.epoch, **fields)
        again = random.random() < 0.05  # the second of the same is out of order
        data, twice = data + made * (1 + again), twice or again
        offset = records[-1].offset + random.choice((1, 1, 1, 1, 1, 5, 5))
    wrong = random.random() + twice  # one fault at a time
    if wrong < 0.03:
        data = data[: random.randrange(1, len(data))]
    elif wrong < 0.06:
        data = data[:-1] + bytes((data[-1] ^ 1,))
    return {"hex": data.hex()}


def _draw_fetch(sequence: Sequence) -> Step:
    size = sequence.random.choice((0, 1, 100, 300, 1 << 20))
    if sequence.rules.fetch.highest < 3:
        size = 1 << 20  # the first batch is cut then; a fetch of ours is always of whole ones
    return {"offset": sequence.offset(), "bytes": size}


def _draw_search(sequence: Sequence) -> Step:
    now = sequence.now
    special = sequence.rules.search.specials[:3]
    times = (now, now - 500, now - 5000, now + 700, now + 10**6, 0, *special)
    return {"time": sequence.random.choice(times)}


def _draw_kill(sequence: Sequence) -> Step:
    return {"lose": sequence.random.choice((0, 0, 1, 50, 100, 300, 10**6))}


_DRAWN: Final[dict[str, Callable[[Sequence], Step]]] = {
    "leader": _draw_leader,
    "marker": _draw_marker,
    "follower": _draw_follower,
    "roll": lambda sequence: {},
    "truncate": lambda sequence: {"offset": sequence.offset()},
    "retain": lambda sequence: {},
    "delete-records": lambda sequence: {"offset": sequence.offset()},
    "search": _draw_search,
    "fetch": _draw_fetch,
    "stop": lambda sequence: {},
    "kill": _draw_kill,
}


def _leader(sequence: Sequence, step: Step) -> object:
    data = bytes.fromhex(step["hex"])
    made = sequence.log.append_as_leader(data, now_ms=sequence.now, leader_epoch=step["epoch"])
    stamped = sequence.topic.timestamp_type == TimestampType.LOG_APPEND_TIME
    time = made.largest.timestamp if made.how == DUPLICATE else sequence.now if stamped else -1
    return [made.first_offset, made.last_offset, time]


def _marker(sequence: Sequence, step: Step) -> object:
    made = sequence.log.end_transaction(
        EndMarker(*step["marker"]), now_ms=sequence.now, leader_epoch=step["epoch"]
    )
    stamped = sequence.topic.timestamp_type == TimestampType.LOG_APPEND_TIME
    return [made.first_offset, made.last_offset, sequence.now if stamped else -1]


def _follower(sequence: Sequence, step: Step) -> object:
    made = sequence.log.append_as_follower(bytes.fromhex(step["hex"]), now_ms=sequence.now)
    return made.bytes if made else 0


def _roll(sequence: Sequence, step: Step) -> None:
    sequence.log.roll(sequence.log.log_end_offset, sequence.now)


def _truncate(sequence: Sequence, step: Step) -> None:
    sequence.log.truncate(step["offset"], sequence.now)


def _retain(sequence: Sequence, step: Step) -> object:
    return sum(v.deletes for v in sequence.log.delete_old_segments(sequence.now).verdicts)


def _delete_records(sequence: Sequence, step: Step) -> None:
    sequence.log.delete_records(step["offset"], sequence.now)


def _search(sequence: Sequence, step: Step) -> object:
    version = sequence.rules.list_offsets.highest
    answer, _ = requests.list_offsets(sequence.log, version, step["time"], now_ms=sequence.now)
    return None if answer.offset < 0 else [answer.timestamp, answer.offset]


def _fetch(sequence: Sequence, step: Step) -> object:
    fetched = requests.fetch(
        sequence.log, sequence.rules.fetch.highest, step["offset"], step["bytes"]
    )
    return fetched.data.hex()


def _stop(sequence: Sequence, step: Step) -> None:
    sequence.log.close(sequence.now)
    _start(sequence, clean=True)


def _kill(sequence: Sequence, step: Step) -> None:
    active = sequence.log.active
    files.cut(active.path(paths.LOG), max(active.size - step["lose"], 0), sequence.now)
    _start(sequence, clean=False)


def _start(sequence: Sequence, *, clean: bool) -> None:
    sequence.log = start(sequence.log, sequence.topic, sequence.rules, sequence.now, clean=clean)


_PLAYED: Final[dict[str, Callable[[Sequence, Step], object]]] = {
    "leader": _leader,
    "marker": _marker,
    "follower": _follower,
    "roll": _roll,
    "truncate": _truncate,
    "retain": _retain,
    "delete-records": _delete_records,
    "search": _search,
    "fetch": _fetch,
    "stop": _stop,
    "kill": _kill,
}
_KINDS: Final = (
    *["leader"] * 8, *["marker"] * 3, *["follower"] * 8, "roll", "truncate", "truncate", "retain", "delete-records",
    "search", "search", "fetch", "fetch", "stop", "kill", "kill",
)  # fmt: skip


def _kinds(rules: Generation) -> tuple[str, ...]:
    """The kinds of steps that the release has."""
    missing = set() if rules.start.producers else {"marker", "delete-records"}
    missing |= set() if rules.list_offsets.highest else {"search"}
    return (*(kind for kind in _KINDS if kind not in missing),)


def main() -> None:
    """Play one sequence again, and print what differs."""
    version, seed = sys.argv[1], int(sys.argv[2])
    work = Path(tempfile.mkdtemp(prefix="kafkats-sequence-"))
    tally = Tally(Console())
    with Judge(version, "sequence", temporary=work, log=work / "judge.log") as judge:
        steps = compare_one(version, seed, judge, work, tally)
    for number, step in enumerate(steps):
        print(number, json.dumps(step))
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
