"""Single scenarios of the texts, played step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from bench.seeds.partitions import RETENTION_MS, SEGMENT_MS, RoomPartition
from bench.seeds.patterns import BEGIN, HOUR, MINUTE, SECOND, Message
from bench.seeds.rejected import MinuteMap, RejectedPartition, Stored
from kafkats.generations import RETENTION_RULES
from kafkats.index import time_index
from kafkats.retention.rules import Limits, Segment, decide
from kafkats.rolling.rules import Settings

LATENCY_1: Final = 700
LATENCY_2: Final = 1300
CLOCK_BEHIND: Final = 10 * MINUTE


class Step(NamedTuple):
    """A step of KIP-32's mirror maker case; times relative to T0, None: not there."""

    text: str
    created: int | None
    appended: int | None


def mirror_maker(folder: Path) -> list[Step]:
    """Play one message through two clusters, with CreateTime and with LogAppendTime.

    Each topic type runs in partitions of its own; both clusters receive the message at the same
    times. `created` is what a consumer of the CreateTime topic sees.
    """
    at = (BEGIN + LATENCY_1, BEGIN + LATENCY_1 + LATENCY_2)
    seen: dict[str, list[int]] = {}
    for kind in ("CreateTime", "LogAppendTime"):
        sent = BEGIN
        seen[kind] = []
        for cluster, clock in enumerate(at, 1):
            directory = folder / kind / str(cluster) / "t-0"
            log = RoomPartition(directory, "kip", {"message.timestamp.type": kind}, BEGIN, 0)
            log.append(Message(0, sent, clock), clock)
            sent = log.timestamp(0)
            seen[kind].append(sent - BEGIN)
    created, appended = seen["CreateTime"], seen["LogAppendTime"]
    return [
        Step("the application produces at T0", 0, None),
        Step("cluster 1 receives it 0.7 s later and appends it", created[0], appended[0]),
        Step("the mirror maker copies it to cluster 2", created[0], appended[0]),
        Step("cluster 2 receives it 1.3 s later and appends it", created[1], appended[1]),
    ]


class Crossing(NamedTuple):
    """A fail-over between clusters to which m1 and m2 came in a different order."""

    order_1: tuple[str, ...]
    order_2: tuple[str, ...]
    found: int
    """The offset in cluster 1 for the CreateTime of m2, the last message read in cluster 2."""
    misses: tuple[str, ...]
    safe: int
    """The offset for that time minus the largest latency."""
    safe_misses: tuple[str, ...]


def crossing(folder: Path) -> Crossing:
    """Play KIP-33's tricky case: m1 was created before m2, and came later to cluster 2 only.

    The consumer has read m2 and not m1, and goes on in cluster 1.
    """
    m1, m2 = BEGIN, BEGIN + 5 * SECOND
    arrivals = {1: ((m1, m1 + 1000), (m2, m2 + 1000)), 2: ((m2, m2 + 1000), (m1, m1 + 8000))}
    names = {m1: "m1", m2: "m2"}
    logs, orders = {}, {}
    for cluster, messages in arrivals.items():
        log = RoomPartition(folder / f"{cluster}" / "t-0", "2.8.2", {}, BEGIN, 0)
        for number, (created, clock) in enumerate(messages):
            log.append(Message(number, created, clock), clock)
        logs[cluster] = log
        orders[cluster] = (*(names[created] for created, _ in messages),)
    latency = max(clock - created for some in arrivals.values() for created, clock in some)
    read = {"m2"}
    clock = BEGIN + HOUR
    found, safe = logs[1].search(m2, clock), logs[1].search(m2 - latency, clock)

    def misses(offset: int) -> tuple[str, ...]:
        return tuple(name for name in orders[1][:offset] if name not in read)

    return Crossing(orders[1], orders[2], found, misses(found), safe, misses(safe))


class Migration(NamedTuple):
    """LogAppendTimes over a change of leaders whose clocks differ, relative to T0."""

    naive: tuple[int, ...]
    """As the clocks say."""
    chosen: tuple[int, ...]
    """Never below the last appended one."""


def leader_migration() -> Migration:
    """Play option 1's corner case: the new leader's clock is ten minutes behind."""
    clocks = [BEGIN, BEGIN - CLOCK_BEHIND, BEGIN - CLOCK_BEHIND // 2, BEGIN + MINUTE]

    def appended(*, never_back: bool) -> tuple[int, ...]:
        log = _model()
        return tuple(
            log.append(clock, clock, never_back=never_back).appended - BEGIN for clock in clocks
        )

    return Migration(appended(never_back=False), appended(never_back=True))


class IndexOnly(NamedTuple):
    """Option 3's time index on a follower."""

    entries: tuple[tuple[int, int], ...]
    """(minutes after T0, offset): the first and last message, and the first of each minute."""
    same: bool
    """The follower, which fetched them, has the same ones."""
    truncated: tuple[tuple[int, int], ...]
    """After the messages from offset 4 on were cut."""
    rebuilt: tuple[tuple[int, int], ...]
    """The entries that a follower rebuilt after a crash, an hour after the last message."""
    fetched_bytes: int
    """Size of the entries in the response to a follower."""
    consumed_bytes: int
    """The same, to a consumer."""
    expires: int
    """When retention deletes the segment, in ms after the last message."""
    expires_rebuilt: int
    """The same by the rebuilt index."""
    rolls: int
    """When a message rolls the segment, in ms after the first message."""
    rolls_rebuilt: int
    """The same by the rebuilt index."""


def index_only() -> IndexOnly:
    """Play option 3: the entries, their replication, a truncation, and the rebuild that it forbids."""
    leader, follower = _model(), _model()
    for seconds in (0, 30, 60, 90, 170, 175):
        leader.append(BEGIN, BEGIN + seconds * SECOND)
        follower.replicate(leader, BEGIN + (seconds + 5) * SECOND)
    entries = _entries(leader)
    same = entries == _entries(follower)
    last = leader.stored()[-1].appended
    fetched, consumed = (
        time_index.ENTRY_SIZE * len(leader.fetch(0, follower=by).entries) for by in (True, False)
    )
    expires, rolls = _expires(follower, last), follower.rolls_after(BEGIN) - BEGIN
    follower.rebuild(last + HOUR)
    leader.truncate(4)
    return IndexOnly(
        entries,
        same,
        _entries(leader),
        _entries(follower),
        fetched,
        consumed,
        expires,
        _expires(follower, last),
        rolls,
        follower.rolls_after(BEGIN) - BEGIN,
    )


def _expires(log: RejectedPartition, last: int) -> int:
    segment = log.segments[-1]
    facts = Segment(segment.base, segment.end, 1, segment.entries[-1][0], segment.written)
    limits = Limits(RETENTION_MS, -1, 0, segment.end)
    verdict = decide([facts], limits, RETENTION_RULES["kip33"], now_ms=last).verdicts[0]
    assert verdict.deletable_from_ms is not None
    return verdict.deletable_from_ms - last


def _entries(log: RejectedPartition) -> tuple[tuple[int, int], ...]:
    return tuple(
        ((time - BEGIN) // SECOND, offset) for s in log.segments for time, offset in s.entries
    )


def _model() -> RejectedPartition:
    return RejectedPartition(Settings(segment_ms=SEGMENT_MS), RETENTION_MS)


class Minutes(NamedTuple):
    """KIP-33's rejected map of minutes."""

    entries: tuple[tuple[int, int, int], ...]
    """(base offset, minute after T0, offset)."""
    loaded: bool
    """A start reads the same map from the files."""
    left: int
    """Entries after the first segment was deleted."""


def minute_map() -> Minutes:
    """Play the map over two segments, with messages out of order."""
    minutes = MinuteMap()
    messages = [
        *((0, Stored(n, BEGIN + s * SECOND, 0)) for n, s in enumerate((70, 5, 65, 130, 10))),
        *((5, Stored(n, BEGIN + s * SECOND, 0)) for n, s in ((5, 125), (6, 200))),
    ]
    for base, message in messages:
        minutes.add(base, message.created, message.offset)
    entries = minutes.entries()
    loaded = MinuteMap(entries).minutes == minutes.minutes
    minutes.delete(0)
    relative = tuple((base, (minute - BEGIN) // MINUTE, offset) for base, minute, offset in entries)
    return Minutes(relative, loaded, len(minutes.entries()))
