"""A retention's report: bytes by topic, what pins them, segments in time, another retention.ms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypedDict

import pyarrow as pa
from pydantic import BaseModel

from kafkats.plans.facts import SEGMENTS
from kafkats.retention.plan import RETENTION
from kafkats.retention.plot import STATES, segment_states
from kafkats.retention.reasons import NO_TIME
from kafkats.retention.summary import TopicRow
from kafkats.retention.what_if import NAME as BASIS
from kafkats.retention.what_if import policy_line, read_basis, what_if, with_limit
from kafkats_airflow.reading.files import Unreadable, cached, json_of, lately, model, state_of
from kafkats_airflow.ui.reading.tables import made_of, table_of

BOARD: Final = "board.json"
VERDICTS: Final = "retention.parquet"
_MOST_SEGMENTS: Final = 3000
_MOST_PINS: Final = 200
_RULES: Final = {"start-offset": "log start offset"}


class Pin(BaseModel):
    """The first segment of a partition that is kept, which may pin later ones. `until_ms` None: no
    end is known. `bytes` and `now_bytes` are those of the partition.
    """

    log_dir: str
    partition_dir: str
    topic: str
    bytes: int = 0
    now_bytes: int = 0
    kept_by: int | None
    why: str
    until_ms: int | None
    pinned_bytes: int


class Board(BaseModel):
    """board.json. `lines`: per topic the time before which records are expired. `by_state`: per
    topic its bytes by state. `deleted_by`: per topic the bytes that each rule deletes now. Earlier
    versions wrote none of them.
    """

    now_ms: int
    topics: list[TopicRow]
    partitions: list[Pin]
    lines: dict[str, int] = {}
    by_state: dict[str, dict[str, int]] = {}
    deleted_by: dict[str, dict[str, int]] = {}


class Segment(TypedDict):
    """A segment in time, epoch ms. `weak`: it has no timestamps, so the mtime stands for both."""

    log_dir: str
    partition: str
    base_offset: int
    bytes: int
    first_ms: int
    last_ms: int
    weak: bool
    state: str
    why: str
    from_ms: int | None


class Timeline(TypedDict):
    """The segments of a topic, its retention line, its bytes by state. `left_out` are not shown."""

    topic: str
    segments: list[Segment]
    left_out: int
    line_ms: int | None
    by_state: dict[str, int]
    retention_ms: int | None
    policy_line: str


def board_of(folder: Path) -> Board | Unreadable | None:
    """Return the board of a run, None if it has none."""
    return model(folder / BOARD, Board)


def pins_of(board: Board) -> list[Pin]:
    """Return who pins others, the most bytes first."""
    pinning = [one for one in board.partitions if one.pinned_bytes]
    pinning.sort(key=lambda one: (-one.pinned_bytes, one.log_dir, one.partition_dir))
    return pinning[:_MOST_PINS]


def timeline_of(folder: Path, board: Board, topic: str) -> Timeline | Unreadable | None:
    """Return the segments of a topic as the run decided on them."""
    verdicts = _rows(folder / VERDICTS, RETENTION, topic)
    if not isinstance(verdicts, pa.Table):
        return verdicts
    return _timeline(verdicts, board.now_ms, topic, board.lines.get(topic))


def tried(
    folder: Path, board: Board, topic: str, retention_ms: int
) -> Timeline | Unreadable | None:
    """Return the segments of a topic as the rule would decide with another retention.ms.

    None: the report has no basis for it. Raises UsageError for what is no topic or no time.
    """
    basis = cached(folder / BASIS, _parse_basis)
    if not isinstance(basis, dict):
        return basis
    verdicts = _rows(folder / VERDICTS, RETENTION, topic)
    if not isinstance(verdicts, pa.Table):
        return verdicts
    segments = _rows(folder / "segments.parquet", SEGMENTS, topic)
    if not isinstance(segments, pa.Table):
        return segments
    policy, options = read_basis(basis)
    found = what_if(segments, verdicts, policy, options, topic, retention_ms)
    line_ms = None if retention_ms < 0 else board.now_ms - retention_ms
    return _timeline(found, board.now_ms, topic, line_ms) | {
        "retention_ms": retention_ms,
        "policy_line": policy_line(with_limit(policy, topic, retention_ms), topic),
    }


class Limit(TypedDict):
    """The limits by which a topic was decided; -1: none."""

    retention_ms: int
    retention_bytes: int


def limits_of(folder: Path, board: Board) -> dict[str, Limit]:
    """Return the limits of the topics of a board; none where the report does not tell them."""
    basis = cached(folder / BASIS, _parse_basis)
    if not isinstance(basis, dict):
        return {}
    policy, _ = read_basis(basis)
    limits = {one["topic"]: policy.limits(one["topic"]) for one in board.topics}
    return {
        topic: {"retention_ms": limit[0], "retention_bytes": limit[1]}
        for topic, limit in limits.items()
    }


def reasons_of(board: Board, limits: Mapping[str, Limit]) -> dict[str, str]:
    """Return a sentence per topic: the rules that delete, and what keeps most of the rest."""
    kept: dict[str, Pin] = {}
    for one in board.partitions:
        if one.kept_by is not None and _weight(one) > _weight(kept.get(one.topic)):
            kept[one.topic] = one
    return {
        topic: _reason(board.deleted_by.get(topic, {}), kept.get(topic), limits.get(topic))
        for topic in (one["topic"] for one in board.topics)
    }


def _weight(kept: Pin | None) -> tuple[int, int]:
    return (-1, 0) if kept is None else (kept.pinned_bytes, kept.bytes - kept.now_bytes)


def _reason(deleted_by: Mapping[str, int], most: Pin | None, limit: Limit | None) -> str:
    rules = sorted(deleted_by, key=lambda rule: (-deleted_by[rule], rule))
    by = " and ".join(_RULES.get(rule, rule) for rule in rules)
    said = [f"can be deleted by {by}"] if rules else []
    if most is not None:
        sized = most.why == NO_TIME and limit is not None and limit["retention_bytes"] >= 0
        why = "within retention.bytes" if sized else most.why
        said.append(f"{'pinned' if most.pinned_bytes else 'kept'}: {why}")
    return "; ".join(said) or "nothing is kept"


def can_try(folder: Path) -> bool:
    """Return whether another retention.ms can be tried."""
    return (folder / BASIS).is_file()


def _parse_basis(path: Path) -> dict[str, object]:
    content = json_of(path)
    read_basis(content)
    return content


def _rows(path: Path, schema: pa.Schema, topic: str) -> pa.Table | Unreadable | None:
    return _of_topic(path, schema, topic, state_of(path))


@lately(8)
def _of_topic(
    path: Path, schema: pa.Schema, topic: str, state: object
) -> pa.Table | Unreadable | None:
    """Return the rows of a topic; a file that changes has another `state`, and is read again."""
    mine = table_of(path, schema.names, only={"topic": topic})
    if not isinstance(mine, pa.Table):
        return mine
    return made_of(path, lambda: mine.select(schema.names).cast(schema))


def _timeline(verdicts: pa.Table, now_ms: int, topic: str, line_ms: int | None) -> Timeline:
    states = segment_states(verdicts, now_ms)
    sums = dict.fromkeys(STATES, 0)
    for state, size in zip(states, verdicts["bytes"].to_pylist(), strict=True):
        sums[state] += size
    rows = list(zip(verdicts.to_pylist(), states, strict=True))
    order = _by_weight(rows)
    rows.sort(
        key=lambda one: (order[one[0]["log_dir"], one[0]["partition_dir"]], one[0]["base_offset"])
    )
    return {
        "topic": topic,
        "segments": [_segment(row, state) for row, state in rows[:_MOST_SEGMENTS]],
        "left_out": max(len(rows) - _MOST_SEGMENTS, 0),
        "line_ms": line_ms,
        "by_state": sums,
        "retention_ms": None,
        "policy_line": "",
    }


def _by_weight(
    rows: Iterable[tuple[Mapping[str, Any], str]],
) -> dict[tuple[str, str], tuple[int, str, str]]:
    """Return the place of each partition: those with the most pinned bytes come first."""
    pinned: Counter[tuple[str, str]] = Counter()
    for row, state in rows:
        key = (row["log_dir"], row["partition_dir"])
        pinned[key] -= row["bytes"] if state == "expired, pinned" else 0
    return {key: (size, *key) for key, size in pinned.items()}


def _segment(row: Mapping[str, Any], state: str) -> Segment:
    """Return a row of RETENTION for the page."""
    first, last, mtime = row["first_timestamp"], row["largest_timestamp"], row["mtime_ms"]
    weak = last < 0
    begin = first if first is not None and 0 <= first <= last else last
    why = row["veto"] or "; ".join(row[name] for name in ("reason", "lasting") if row[name])
    return {
        "log_dir": row["log_dir"],
        "partition": row["partition_dir"],
        "base_offset": row["base_offset"],
        "bytes": row["bytes"],
        "first_ms": mtime if weak else begin,
        "last_ms": mtime if weak else last,
        "weak": weak,
        "state": state,
        "why": why,
        "from_ms": row["deletable_from_ms"],
    }
