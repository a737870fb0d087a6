"""The tables of estimates and plays, for model/docs/seeds-estimates.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bench.seeds.estimates import Estimate
from bench.seeds.patterns import HOUR, MINUTE, PATTERNS
from bench.seeds.play import OPTIONS, Found, Kept, Outcome
from bench.seeds.walks import Crossing, IndexOnly, Migration, Minutes, Step

HEAD: Final = """\
# The documents' estimates and options

For developers: the numbers that the documents of [seeds.md](seeds.md) state, beside computed and
measured ones; and the options that they compare, played. `scripts/seeds` prints this page and
writes it. A rejected option exists only as a model in `bench/seeds/rejected.py`.
"""


class Section(NamedTuple):
    """A table with its text before and after."""

    title: str
    text: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    after: str = ""


def estimate_sections(found: Sequence[Estimate]) -> list[Section]:
    """Return the documents' numbers."""
    rows = [(e.item, e.name, e.stated, e.computed, e.measured, e.why) for e in found]
    columns = ("item", "estimate", "stated", "computed", "measured", "why they differ")
    return [Section("Estimates", "", columns, rows)]


def _hours(ms: int) -> str:
    return f"{ms / HOUR:.1f}"


def _kept(kept: Kept) -> str:
    if kept.never:
        return f"{kept.never} never"
    return f"{_hours(kept.least_on_disk)}-{_hours(kept.most_on_disk)}"


def _early(outcome: Outcome) -> str:
    early = max(k.too_early for k in (outcome.leader, outcome.moved, outcome.mirror))
    return _hours(early) if early else ""


def _late(outcome: Outcome) -> str:
    logs = (outcome.leader, outcome.moved, outcome.mirror)
    return "never" if any(k.never for k in logs) else _hours(max(k.too_late for k in logs))


def _age(kept: Kept) -> str:
    years = kept.most_age / (8766 * HOUR)
    return f"{years:.1f} years" if years > 1 else f"{_hours(kept.most_age)} h"


def _found(found: Found) -> tuple[str, str]:
    return str(found.missed), f"{found.again:.1f}"


def option_sections(outcomes: Sequence[Outcome]) -> list[Section]:
    """Return the options under each pattern of latency: retention, rolling, search, mirroring."""
    latency = ", ".join(f"{p.name} = {p.latency}" for p in PATTERNS)
    place = {option.name: option.document for option in OPTIONS}
    prefers = {p.name: p for p in PATTERNS}
    return [
        Section(
            "Options",
            "72 messages, one every 20 minutes. Patterns of latency: " + latency + ".",
            ("option", "in KIP-32"),
            [(name, document) for name, document in place.items()],
        ),
        Section(
            "Retention",
            "retention.ms is 12 h. How many hours a message lay on the disk before it was deleted (or how many never were);"
            " on the leader, on a replica that was copied at hour 20, and in the mirror; and its"
            " largest age. Early and late: how many hours before and after 12 h, on any of them."
            " Retention runs every hour and deletes whole segments of up to 2 h. KIP-32 prefers CT or"
            " LAT for the pattern: it counts age from creation or from arrival, not time on disk.",
            ("pattern", "prefers", "option", "leader", "new replica", "mirror", "early", "late",
             "age"),
            [
                (o.pattern, prefers[o.pattern].retention, o.option, _kept(o.leader),
                 _kept(o.moved), _kept(o.mirror), _early(o), _late(o), _age(o.leader))
                for o in outcomes
            ],
            "By file times the new replica keeps all for another 12 h: its files are new. By"
            " CreateTime what came late is deleted early, at most by its latency and that of the"
            " mirror maker, and one time in the future keeps all later segments; a limit rejects"
            " it. By LogAppendTime nothing is deleted early, and what came late becomes older than"
            " 12 h. A new replica has other segments than the leader, as it fetches many messages"
            " at once: it keeps them a little"
            " longer. The models copy message by message.",
        ),
        Section(
            "Rolling",
            "segment.ms is 2 h. The longest time from a segment's first to its last message.",
            ("pattern", "prefers", "option", "segments", "longest, hours", "rejected"),
            [
                (o.pattern, prefers[o.pattern].rolling, o.option, str(o.segments),
                 _hours(o.longest_span), str(o.rejected))
                for o in outcomes
            ],
            "A message that came late has a small CreateTime and rolls nothing; a time in the past"
            " or future as the first of a segment changes when it rolls.",
        ),
        Section(
            "Search and fail-over",
            "A search for each message's CreateTime, and a fail-over to the mirror after each"
            " message, at its time and 8 h earlier: messages that were missed, over all 72; and the"
            " mean number that is read again.",
            ("pattern", "option", "missed", "again", "fail-over: missed", "again",
             "8 h earlier: missed", "again"),
            [
                (o.pattern, o.option, *_found(o.search), *_found(o.failover),
                 *_found(o.safe_failover))
                for o in outcomes
            ],
            "A fail-over goes by what a consumer sees: the LogAppendTime where it is the only one,"
            " else the CreateTime. By CreateTime it misses what came late, unless it searches by"
            " the largest latency earlier. A LogAppendTime index misses messages only where a"
            " CreateTime lies in the future.",
        ),
    ]  # fmt: skip


def _time(ms: int | None) -> str:
    return "none" if ms is None else f"T0 + {ms} ms" if ms else "T0"


def walk_sections(
    steps: Sequence[Step],
    crossing: Crossing,
    migration: Migration,
    index: IndexOnly,
    minutes: Minutes,
) -> list[Section]:
    """Return the scenarios."""
    return [
        Section(
            "The mirror maker, step by step",
            "The times of one message as a consumer sees them, in topics of both types.",
            ("step", "CreateTime", "LogAppendTime"),
            [(s.text, _time(s.created), _time(s.appended)) for s in steps],
        ),
        Section(
            "m1 and m2, which come in another order to the second cluster",
            "A consumer has read m2 in cluster 2, where m1 comes later, and goes on in cluster 1.",
            ("search in cluster 1 for", "offset", "misses"),
            [
                ("CreateTime of m2", str(crossing.found), _names(crossing.misses)),
                ("CreateTime of m2 - largest latency", str(crossing.safe),
                 _names(crossing.safe_misses)),
            ],
            f"Cluster 1 has {' '.join(crossing.order_1)}, cluster 2 {' '.join(crossing.order_2)}.",
        ),
        Section(
            "A new leader whose clock is 10 minutes behind (option 1)",
            "The LogAppendTimes of four messages; the leader changes after the first.",
            ("rule", "message 0", "message 1", "message 2", "message 3"),
            [
                ("its clock", *(f"{ms / MINUTE:+.1f} min" for ms in migration.naive)),
                ("never below the last", *(f"{ms / MINUTE:+.1f} min" for ms in migration.chosen)),
            ],
        ),
        Section(
            "LogAppendTime only in the time index (option 3)",
            "Six messages at 0, 30, 60, 90, 170 and 175 s: entries for the first, the last, and the"
            " first in each minute.",
            ("index", "entries: second, offset"),
            [
                ("leader", _pairs(index.entries)),
                ("follower, fetched", "the same" if index.same else "others"),
                ("after a truncation at 4", _pairs(index.truncated)),
                ("follower, rebuilt after an hour", _pairs(index.rebuilt)),
            ],
            f"The entries add {index.fetched_bytes} bytes to the response to a follower, and"
            f" {index.consumed_bytes} to a consumer's. By them retention deletes"
            f" {_hours(index.expires)} h after the last message, and a message rolls the segment"
            f" {index.rolls // MINUTE} min after the first one; by the rebuilt index"
            f" {_hours(index.expires_rebuilt)} h and {index.rolls_rebuilt // MINUTE} min.",
        ),
        Section(
            "The map of minutes by CreateTime (KIP-33, rejected option 2)",
            "Messages at 70, 5, 65, 130 and 10 s in segment 0, at 125 and 200 s in segment 5.",
            ("segment", "minute", "first offset"),
            [(str(b), str(m), str(o)) for b, m, o in minutes.entries],
            f"A start loads {'the same map' if minutes.loaded else 'another map'}. After segment 0"
            f" was deleted, {minutes.left} entries are left.",
        ),
    ]  # fmt: skip


def _pairs(entries: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{second}: {offset}" for second, offset in entries)


def _names(names: Sequence[str]) -> str:
    return " ".join(names) or "nothing"


def markdown(sections: Sequence[Section]) -> str:
    """Return the whole page."""
    return "\n".join([HEAD, *map(_markdown, sections)])


def _markdown(section: Section) -> str:
    lines = [f"## {section.title}", ""]
    lines += [section.text, ""] if section.text else []
    lines += [_row(section.columns), _row(["---"] * len(section.columns))]
    lines += [_row(row) for row in section.rows] + [""]
    return "\n".join([*lines, *([section.after, ""] if section.after else [])])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
