"""`find_exact` for many times at once, in one pass over a partition.

One search per answering record is enough, not one per time: a record answers every time from the
target of its search up to its own timestamp. So ascending times go through the segments once. Each
search begins where the index (or the headers) says, or at the answer before.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import BadInput, CorruptIndex, KafkatsError, UsageError
from kafkats.index import offset_index, time_index
from kafkats.search import depths
from kafkats.search.answers import REASONS
from kafkats.search.exact import served
from kafkats.search.partition import Partition, Segment
from kafkats.segment.search import Searcher

Times = NDArray[np.int64]

WORDS: Final = tuple(REASONS)
"""Reasons by their number in `Answers.reason`."""
_NUMBER: Final = {word: number for number, word in enumerate(WORDS)}


class Answers(NamedTuple):
    """The answers of `find_exact`, one row per time, shape (n,), -1 for none.

    `error` is the first error behind an `unreadable`, or "".
    """

    offset: Times
    timestamp: Times
    leader_epoch: Times
    segment: Times
    reason: NDArray[np.int8]
    error: str

    def words(self) -> list[str]:
        """Return the reasons as words of `REASONS`."""
        return [WORDS[number] for number in self.reason]


def sweep(partition: Partition, targets: Times, *, depth: str = "full") -> Answers:
    """Return, for each of `targets` (ms, int64, ascending), the first record of that time or later.

    An unreadable place is a reason, not an error. `depth` is `tail` or `full`, as for `find_exact`.
    Raises UsageError, Vanished, Changed, StorageFailed.
    """
    if depth not in ("tail", "full"):
        raise UsageError(f"no depth {depth!r} to look up many times at; there are tail, full")
    if len(targets) and (np.diff(targets) < 0).any():
        raise UsageError("times to look up in one pass must ascend")
    one = _Pass(partition, targets, depth)
    one.go()
    answers = one.found
    return Answers(
        answers[:, 0], answers[:, 1], answers[:, 2], one.segments, one.reasons(), one.error
    )


class _Pass:
    """The state of one sweep. `at` is the first target without an answer."""

    def __init__(self, partition: Partition, targets: Times, depth: str) -> None:
        self.partition, self.targets, self.depth = partition, targets, depth
        self.found = np.full((len(targets), 3), -1, np.int64)
        self.segments = np.full(len(targets), -1, np.int64)
        self.unreadable = np.zeros(len(targets), np.bool_)
        self.at = 0
        self.timestamps = False
        self.error = ""
        self.searcher = Searcher()

    def go(self) -> None:
        """Search all segments. After an error the remaining targets are unreadable."""
        try:
            for segment in served(self.partition):
                if self.at == len(self.targets):
                    return
                maximum = depths.newest_of(segment, self.depth)
                if maximum >= self.targets[self.at]:
                    self.look(segment, maximum)
                if self.at < len(self.targets):
                    depths.end_is_quiet(segment, self.depth)
                self.timestamps = self.timestamps or depths.has_timestamps(segment, maximum)
        except BadInput as e:
            self.give_up(slice(self.at, None), e)

    def look(self, segment: Segment, maximum: int) -> None:
        end = int(np.searchsorted(self.targets, maximum, side="right"))
        if self.depth == "tail" and depths.tail_of(segment) is not None:
            with suppress(CorruptIndex):  # the headers do not need the index
                self.search(
                    segment, end, by_index(segment, self.targets[self.at : end]), indexed=True
                )
            if self.at == end:
                return
            depths.end_is_quiet(segment, "full")
        positions, maxima, _ = depths.headers_of(segment)
        end = (
            min(end, int(np.searchsorted(self.targets, maxima[-1], side="right")))
            if len(maxima)
            else self.at
        )
        if end > self.at:
            starts = positions[np.searchsorted(maxima, self.targets[self.at : end])]
            self.search(segment, end, starts, indexed=False)

    def search(self, segment: Segment, end: int, starts: Times, *, indexed: bool) -> None:
        """Search targets up to `end`, each from its position.

        Raises CorruptIndex for a wrong position.
        """
        first = self.at
        while self.at < end:
            done = self.searcher.sweep(
                segment.log,
                self.targets[self.at : end],
                starts[self.at - first :],
                self.found[self.at : end],
                start_offset=self.partition.log_start_offset,
            )
            self.segments[self.at : self.at + done.answered] = segment.base_offset
            self.at += done.answered
            if done.error is None:
                return
            position = done.error.position or 0
            if indexed and position == starts[self.at - first] and position:
                raise CorruptIndex(done.error.reason, path=segment.stem, position=position)
            behind = max(int(np.searchsorted(starts, position, side="right")), self.at - first + 1)
            self.give_up(slice(self.at, first + behind), done.error)
            self.at = min(first + behind, end)

    def give_up(self, which: slice | NDArray[np.bool_], error: KafkatsError) -> None:
        self.unreadable[which] = True
        self.error = self.error or str(error)

    def reasons(self) -> NDArray[np.int8]:
        """Return the reasons as numbers of WORDS."""
        offset, timestamp = self.found[:, 0], self.found[:, 1]
        hit = self.segments >= 0
        same = hit & (timestamp == self.targets)
        reasons = np.where(hit, _NUMBER["first-after"], _NUMBER["past-end"]).astype(np.int8)
        reasons[same] = _NUMBER["exact"]
        try:
            first = None if same.all() else self.partition.first_record
        except BadInput as e:
            self.give_up(~same, e)
            self.found[~same], self.segments[~same] = -1, -1
        else:
            if first is not None:
                if not self.timestamps:
                    reasons[~hit] = _NUMBER["no-timestamps"]
                earliest = "deleted" if self.partition.log_start_offset > 0 else "before-start"
                reasons[hit & ~same & (offset == first.offset)] = _NUMBER[earliest]
        reasons[self.unreadable] = _NUMBER["unreadable"]
        return reasons


def by_index(segment: Segment, targets: Times) -> Times:
    """Return the positions at which to begin, from both indexes, shape (n,). They must be in order.

    Raises CorruptIndex for a negative position.
    """
    data, count = segment.times
    times = np.frombuffer(data, time_index.ENTRY, count)
    offsets = (
        _at_or_below(times["timestamp"], times["relative_offset"], targets) + segment.base_offset
    )
    offsets = np.maximum(offsets, segment.partition.log_start_offset) - segment.base_offset
    data, count = segment.offsets
    places = np.frombuffer(data, offset_index.ENTRY, count)
    positions = _at_or_below(places["relative_offset"], places["position"], offsets)
    if (positions < 0).any():
        raise CorruptIndex("an entry says a position below 0", path=segment.stem)
    return np.maximum.accumulate(positions)


def _at_or_below(keys: NDArray[np.int_], values: NDArray[np.int_], wanted: Times) -> Times:
    """Return the value of the greatest key at or below each of `wanted`, 0 where there is none."""
    padded = np.concatenate(([0], values.astype(np.int64)))
    return padded[np.searchsorted(keys.astype(np.int64), wanted, side="right")]
