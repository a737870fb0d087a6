"""The options that KIP-32 rejects, as a partition in memory: compared, and never shipped.

    both         option 1: CreateTime and LogAppendTime in each message. Retention and rolling take
                 the LogAppendTime, of the last and the first message of a segment
    index only   option 3: the message has its CreateTime, the LogAppendTime is in the time index
                 only. An entry for a segment's first and last message, and for the first in each
                 minute. A follower fetches the entries with the messages

And KIP-33's map in memory of its rejected option 2: the first offset of each minute of CreateTimes.

Decisions on rolling and retention are those of kafkats. Times are in epoch ms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from kafkats.generations import RETENTION_RULES, ROLL_RULES
from kafkats.retention.rules import Limits, Segment, decide
from kafkats.rolling.rules import Active, Append, Batch, Settings, should_roll

MINUTE: Final = 60_000
BYTES: Final = 100
"""The size of a message in the model."""


class Stored(NamedTuple):
    """A message in the log."""

    offset: int
    created: int
    appended: int
    """Its LogAppendTime."""


class Response(NamedTuple):
    """The answer to a fetch under option 3."""

    messages: list[Stored]
    entries: list[tuple[int, int]]
    """The time index entries of these messages. None for others than followers."""


@dataclass
class _Segment:
    base: int
    messages: list[Stored] = field(default_factory=list)
    entries: list[tuple[int, int]] = field(default_factory=list)
    """(LogAppendTime, offset), with the last message last."""
    written: int = 0
    """The mtime of its file."""

    @property
    def end(self) -> int:
        return self.messages[-1].offset + 1 if self.messages else self.base


def append_time(clock: int, last: int, *, never_back: bool) -> int:
    """Return the LogAppendTime of a message, where the last one of the log has `last`.

    With `never_back` it is never below that: a new leader's clock may be behind the old one's.
    """
    return max(clock, last) if never_back else clock


class RejectedPartition:
    """A partition of option 1 or 3: both go by the LogAppendTime, wherever it lies."""

    def __init__(self, settings: Settings, retention_ms: int) -> None:
        self.settings, self.retention_ms = settings, retention_ms
        self.segments = [_Segment(0)]
        self.start = 0

    @property
    def end(self) -> int:
        """The log end offset."""
        return self.segments[-1].end

    def stored(self) -> list[Stored]:
        """All messages."""
        return [m for segment in self.segments for m in segment.messages]

    def append(self, created: int, clock: int, *, never_back: bool = True) -> Stored:
        """Append a message as the leader."""
        last = next((m.appended for s in reversed(self.segments) for m in s.messages[-1:]), clock)
        message = Stored(self.end, created, append_time(clock, last, never_back=never_back))
        self._write(message, message.appended, clock)
        return message

    def fetch(self, offset: int, *, follower: bool) -> Response:
        """Return the messages from `offset` on."""
        messages = [message for message in self.stored() if message.offset >= offset]
        entries = [one for segment in self.segments for one in segment.entries if one[1] >= offset]
        return Response(messages, entries if follower else [])

    def replicate(self, leader: RejectedPartition, clock: int) -> None:
        """Append what the leader has, with its LogAppendTimes.

        Under option 3 they come with the leader's time index entries.
        """
        if self.end < leader.start:
            self.start = leader.start
            self.segments = [_Segment(leader.start)]
        for message in leader.fetch(self.end, follower=True).messages:
            self._write(message, message.appended, clock)

    def _write(self, message: Stored, time: int, clock: int) -> None:
        segment = self.segments[-1]
        if self._rolls(segment, time, clock):
            segment = _Segment(message.offset)
            self.segments.append(segment)
        segment.messages.append(message)
        segment.written = clock
        add_entry(segment.entries, time, message.offset)

    def _rolls(self, segment: _Segment, time: int, clock: int) -> bool:
        first = segment.entries[0][0] if segment.entries else -1
        size = len(segment.messages) * BYTES
        active = Active(segment.base, size, first, -1, segment.written)
        append = Append((Batch(segment.end, segment.end, BYTES, time),), clock)
        return bool(should_roll(active, append, self.settings, ROLL_RULES["0.10.1"]))

    def rolls_after(self, clock: int) -> int:
        """Return the first minute from `clock` on at which a message begins a segment."""
        segment = self.segments[-1]
        return next(t for t in count(clock, MINUTE) if self._rolls(segment, t, t))

    def rebuild(self, clock: int) -> None:
        """Rebuild the time index from the messages alone, as option 3 forbids.

        The messages have no LogAppendTime: all entries get the time of the rebuild.
        """
        for segment in self.segments:
            segment.entries = []
            for message in segment.messages:
                add_entry(segment.entries, clock, message.offset)

    def truncate(self, offset: int) -> None:
        """Cut the messages from `offset` on, and their entries."""
        kept = [segment for segment in self.segments if segment.base < offset]
        self.segments = kept or [_Segment(offset)]
        last = self.segments[-1]
        last.messages = [m for m in last.messages if m.offset < offset]
        last.entries = [entry for entry in last.entries if entry[1] < offset]
        if last.messages and (not last.entries or last.entries[-1][1] != last.messages[-1].offset):
            last.entries.append((last.messages[-1].appended, last.messages[-1].offset))

    def retain(self, clock: int) -> int:
        """Delete what has expired by the last LogAppendTime. Return the log start offset."""
        facts = [
            Segment(s.base, s.end, len(s.messages) * BYTES, s.entries[-1][0], s.written)
            if s.entries
            else Segment(s.base, s.end, 0, -1, s.written)
            for s in self.segments
        ]
        limits = Limits(self.retention_ms, -1, self.start, self.end)
        decision = decide(facts, limits, RETENTION_RULES["kip33"], now_ms=clock)
        end = self.end
        self.segments = self.segments[sum(v.deletes for v in decision.verdicts) :]
        self.segments = self.segments or [_Segment(end)]
        self.start = decision.log_start_offset
        return self.start

    def search(self, time: int) -> int:
        """Return the offset of the closest entry below `time`, -1 if every entry is below it."""
        if all(not s.entries or s.entries[-1][0] < time for s in self.segments):
            return -1
        segment = next(s for s in self.segments if s.entries and s.entries[-1][0] >= time)
        below = [offset for at, offset in segment.entries if at < time]
        return below[-1] if below else segment.base


def add_entry(entries: list[tuple[int, int]], time: int, offset: int) -> None:
    """Add the entry of a segment's newest message, and keep the one before if it began a minute."""
    if len(entries) > 1 and entries[-1][0] // MINUTE == entries[-2][0] // MINUTE:
        entries.pop()
    entries.append((time, offset))


class MinuteMap:
    """KIP-33's rejected option 2: by segment the first offset of each minute, in memory.

    Its file has the same entries. A start loads it.
    """

    def __init__(self, loaded: Iterable[tuple[int, int, int]] = ()) -> None:
        """`loaded`: (base offset, minute, offset) of the files."""
        self.minutes: dict[int, dict[int, int]] = {}
        for base, minute, offset in loaded:
            self.minutes.setdefault(base, {})[minute] = offset

    def add(self, base: int, created: int, offset: int) -> None:
        """Take a message into account, on a leader or a follower."""
        self.minutes.setdefault(base, {}).setdefault(created // MINUTE * MINUTE, offset)

    def delete(self, base: int) -> None:
        """Remove a deleted segment."""
        self.minutes.pop(base, None)

    def entries(self) -> list[tuple[int, int, int]]:
        """The content of the files."""
        return [(b, m, o) for b, some in self.minutes.items() for m, o in some.items()]
