"""Every option under every pattern, played: a leader, its replicas, and a mirror in another cluster.

A topic has retention.ms = 12 h and segment.ms = 2 h; retention runs every hour. A follower
replicates from the beginning. A new replica copies the log at hour 20, when a partition is moved to
another broker. A mirror maker copies every message to a second cluster, 30 minutes later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.seeds.partitions import (
    LIMIT_MS,
    RETENTION_MS,
    ModelPartition,
    Played,
    RoomPartition,
)
from bench.seeds.patterns import BEGIN, DAY, HOUR, MINUTE, PATTERNS, Message, Pattern

MIRROR_MS: Final = 30 * MINUTE
MOVED: Final = BEGIN + 20 * HOUR
TICK: Final = 10 * MINUTE
END: Final = BEGIN + 4 * DAY
"""The play ends; what is left then counts as never deleted."""
MOST_LATENCY: Final = 8 * HOUR
"""MaxLatencyOfCluster of the texts: a fail-over searches this much earlier."""


class Option(NamedTuple):
    """One way to keep time."""

    name: str
    document: str
    make: Callable[[Path, int, int], Played]
    """(directory, clock, first offset) -> a partition."""
    timed: bool = True
    """Its search takes times of messages."""


def _room(kafka: str, **config: str | int) -> Callable[[Path, int, int], Played]:
    settings = {key.replace("_", "."): value for key, value in config.items()}

    def make(directory: Path, clock: int, start: int) -> Played:
        return RoomPartition(directory, kafka, settings, clock, start)

    return make


def _model(directory: Path, clock: int, start: int) -> Played:
    return ModelPartition()


OPTIONS: Final = (
    Option("file times", "before KIP-32", _room("0.9.0"), timed=False),
    Option("CreateTime", "chosen (option 4)", _room("kip")),
    Option(
        "CreateTime, 24 h limit",
        "chosen (option 4)",
        _room("kip", message_timestamp_difference_max_ms=LIMIT_MS),
    ),
    Option(
        "LogAppendTime",
        "chosen (4), and option 2",
        _room("kip", message_timestamp_type="LogAppendTime"),
    ),
    Option("both times", "rejected (option 1)", _model),
    Option("index only", "rejected (option 3)", _model),
)


class Kept(NamedTuple):
    """How long messages were kept in a log, in ms."""

    least_on_disk: int
    """From the arrival to the deletion."""
    most_on_disk: int
    most_age: int
    """From the creation to the deletion."""
    never: int
    """Messages that were still there at the end of the play."""

    @property
    def too_early(self) -> int:
        """How much less than retention.ms a message lay on the disk, at worst."""
        return max(RETENTION_MS - self.least_on_disk, 0)

    @property
    def too_late(self) -> int:
        """How much more than retention.ms, at worst, of what was deleted."""
        return max(self.most_on_disk - RETENTION_MS, 0)


class Found(NamedTuple):
    """Searches, one per message."""

    missed: int
    """Messages that should have been read and lie before the answer, over all searches."""
    again: float
    """Messages behind the answer that were read before, or are older: the mean per search."""


class Outcome(NamedTuple):
    """One option under one pattern."""

    option: str
    pattern: str
    rejected: int
    """Messages that the leader rejected."""
    leader: Kept
    moved: Kept
    """The new replica."""
    mirror: Kept
    segments: int
    longest_span: int
    """The longest time from a segment's first message to its last, in ms."""
    search: Found
    """Searches by CreateTime."""
    failover: Found
    """A consumer of the first cluster goes on in the second, at the time of its last message."""
    safe_failover: Found
    """The same, MOST_LATENCY earlier."""


class _Log:
    """A partition, its messages, and when each was deleted."""

    def __init__(self, partition: Played, first: int = 0) -> None:
        self.partition, self.first, self.start = partition, first, first
        self.arrived: list[tuple[Message, int]] = []
        """(message, arrival) by offset, from `first` on."""
        self.deleted: dict[int, int] = {}
        self.spans: list[tuple[int, int]] = []
        """The first and the last arrival by segment."""

    def append(self, message: Message, clock: int) -> bool:
        before = self.partition.segments()
        if not self.partition.append(message, clock):
            return False
        self.arrived.append((message, clock))
        if self.partition.segments() > before or not self.spans:
            self.spans.append((clock, clock))
        self.spans[-1] = (self.spans[-1][0], clock)
        return True

    def retain(self, clock: int) -> None:
        self.start = self.partition.retain(clock)
        for offset in range(self.first, self.start):
            self.deleted.setdefault(offset, clock)

    def kept(self) -> Kept:
        times = [(self.arrived[n - self.first], clock) for n, clock in self.deleted.items()]
        on_disk = [clock - arrival for (_, arrival), clock in times]
        return Kept(
            min(on_disk, default=0),
            max(on_disk, default=0),
            max((clock - message.created for (message, _), clock in times), default=0),
            len(self.arrived) - len(self.deleted),
        )


def play(option: Option, pattern: Pattern, folder: Path) -> Outcome:
    """Play one option under one pattern, in an empty folder."""
    leader, moved, mirror, rejected = _retained(option, pattern, folder / "retained")
    first, second = _filled(option, pattern, folder / "filled")
    return Outcome(
        option.name,
        pattern.name,
        rejected,
        leader,
        moved,
        mirror,
        len(first.spans),
        max(last - begin for begin, last in first.spans),
        _searched(first, timed=option.timed),
        _failed_over(first, second, 0, timed=option.timed),
        _failed_over(first, second, MOST_LATENCY, timed=option.timed),
    )


def _new(option: Option, folder: Path, name: str, clock: int, start: int = 0) -> _Log:
    return _Log(option.make(folder / name / "t-0", clock, start), start)


def _retained(option: Option, pattern: Pattern, folder: Path) -> tuple[Kept, Kept, Kept, int]:
    """Return how long the leader, the new replica and the mirror keep; and what is rejected."""
    leader, follower, mirror = (
        _new(option, folder, name, BEGIN) for name in ("leader", "follower", "mirror")
    )
    moved: _Log | None = None
    waiting, copied, rejected = list(pattern.messages), 0, 0
    for clock in range(BEGIN, END, TICK):
        while waiting and waiting[0].arrives <= clock:
            message = waiting.pop(0)
            rejected += not leader.append(message, message.arrives)
        follower.partition.replicate(leader.partition, clock)
        follower.arrived = leader.arrived
        copied = _mirrored(leader, mirror, copied, clock)
        if moved is None and clock >= MOVED:
            moved = _new(option, folder, "moved", clock, leader.start)
        if moved is not None:
            moved.partition.replicate(leader.partition, clock)
            # a copy of a message counts from the arrival of the message
            moved.arrived = leader.arrived[moved.first :]
        if (clock - BEGIN) % HOUR == 0:
            for log in (leader, follower, mirror, *([moved] if moved else [])):
                log.retain(clock)
    assert moved is not None and follower.deleted == leader.deleted
    return leader.kept(), moved.kept(), mirror.kept(), rejected


def _mirrored(leader: _Log, mirror: _Log, copied: int, clock: int) -> int:
    """Copy what arrived MIRROR_MS ago, with the timestamp that a consumer sees."""
    while copied < len(leader.arrived) and leader.arrived[copied][1] + MIRROR_MS <= clock:
        message, arrival = leader.arrived[copied]
        sent = message._replace(created=leader.partition.timestamp(copied))
        mirror.append(sent, arrival + MIRROR_MS)
        mirror.arrived[-1] = (message, arrival + MIRROR_MS)
        copied += 1
    return copied


def _filled(option: Option, pattern: Pattern, folder: Path) -> tuple[_Log, _Log]:
    """Return a leader and a mirror with all messages, without retention."""
    leader, mirror = (_new(option, folder, name, BEGIN) for name in ("leader", "mirror"))
    for message in pattern.messages:
        leader.append(message, message.arrives)
    _mirrored(leader, mirror, 0, END)
    return leader, mirror


def _searched(log: _Log, *, timed: bool) -> Found:
    """Search for every message's CreateTime: all created later should be read."""
    created = [message.created for message, _ in log.arrived]
    missed = again = 0
    for time in created:
        answer = _start(log.partition.search(time, END), len(created), timed=timed)
        missed += sum(one > time for one in created[:answer])
        again += sum(one <= time for one in created[answer:])
    return Found(missed, again / len(created))


def _failed_over(first: _Log, second: _Log, earlier: int, *, timed: bool) -> Found:
    """Move a consumer after each message to the other cluster, whose order is the same.

    Without timestamps it searches for the time of the message's arrival.
    """
    missed = again = 0
    count = len(second.arrived)
    for offset, (_, arrival) in enumerate(first.arrived[:count]):
        time = first.partition.timestamp(offset) if timed else arrival
        answer = _start(second.partition.search(time - earlier, END), count, timed=timed)
        missed += max(answer - (offset + 1), 0)
        again += max(offset + 1 - answer, 0)
    return Found(missed, again / count)


def _start(answer: int, end: int, *, timed: bool) -> int:
    """Return where the consumer begins: without an answer nothing is as late.

    By file times no answer means that every file is newer.
    """
    if answer >= 0:
        return answer
    return end if timed else 0


def play_all(
    folder: Path, options: Sequence[Option] = OPTIONS, patterns: Sequence[Pattern] = PATTERNS
) -> list[Outcome]:
    """Play every option under every pattern, in an empty folder."""
    return [
        play(option, pattern, folder / f"{n}-{pattern.name}")
        for pattern in patterns
        for n, option in enumerate(options)
    ]
