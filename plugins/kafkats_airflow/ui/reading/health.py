"""Index health of a run: a cell per segment, before the run and after it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from kafkats.findings import HARMLESS, KINDS, remedy_of, severity_word
from kafkats.rebuild.health import (
    CELLS,
    COLUMNS,
    DAMAGED,
    FILE,
    HEALTH,
    Health,
    health_in,
    health_of,
    kinds_in,
    palette,
)
from kafkats_airflow.reading.files import Unreadable, lately, state_of
from kafkats_airflow.reading.runs import overview_of
from kafkats_airflow.runs.overview import Overview
from kafkats_airflow.ui import words
from kafkats_airflow.ui.reading.tables import made_of, table_of

At: TypeAlias = Literal["before", "now"]
SEGMENTS: Final = "segments.parquet"
_AFTER: Final = "after.parquet"
_DANGER: Final = min(n for n, kind in enumerate(CELLS) if KINDS.get(kind, ("",))[0] == "danger")
_CODED: Final = ("log_dir", "partition_dir")
_MOST_CELLS: Final = 1_000_000
_MOST_FINDINGS: Final = 2_000
_TOLD: Final = ("kind", "severity", "file", "reason")


class Kind(TypedDict):
    """A value of cells. `severity` is empty for no segment and no defect; `word` is its word for
    people. `count` are its findings, as Volumes counts them. `consequence` and `step` are empty for
    what is no defect. A severity has one colour.
    """

    name: str
    severity: str
    word: str
    means: str
    consequence: str
    step: str
    count: int
    colour: str
    dark: str


class Map(TypedDict):
    """The data of the map. Row n has the cells `starts[n]` to `starts[n + 1]`; the worst is first.

    `cells` are bytes, deflated (RFC 1950), in base64: places in `kinds`. `left_out` rows are
    healthier than these.
    """

    at: At
    kinds: list[Kind]
    log_dirs: list[str]
    log_dir: list[int]
    names: list[str]
    starts: list[int]
    defects: list[int]
    worst: list[int]
    cells: str
    left_out: int


def changed(folder: Path) -> bool:
    """Return whether the run has changed segments: its map differs before and after it."""
    after = table_of(folder / _AFTER, ["base_offset"])
    return isinstance(after, pa.Table) and after.num_rows > 0


def ends_only(folder: Path) -> bool:
    """Return whether the run did not read all segments whole: it saw no damage inside of a log."""
    found = overview_of(folder)
    volumes = found.volumes if isinstance(found, Overview) else ()
    return any(one.depth in ("stat", "tail") for one in volumes)


class Said(NamedTuple):
    """Sentences on all segments: in danger, damaged, and the whole."""

    danger: str
    damage: str
    whole: str


class Drawn(NamedTuple):
    """The map of a run as a page shows it: sentences, and `Map` as JSON."""

    said: Said
    map: bytes


def drawn_of(folder: Path, at: At) -> Drawn | Unreadable | None:
    """Return the map of a run's segments, None if its report has none."""
    names = (FILE, SEGMENTS, _AFTER) if at == "now" else (FILE, SEGMENTS)
    return _drawn(folder, at, names, tuple(state_of(folder / name) for name in names))


@lately(8)
def _drawn(folder: Path, at: At, names: Sequence[str], states: object) -> Drawn | Unreadable | None:
    """Draw the tables; `states` are those of the files: a change is read again."""
    seen = _read_cells(folder / FILE, at) or _read(folder, names[1:])
    if not isinstance(seen, _Seen):
        return seen
    drawn = json.dumps(map_of(*seen, at), separators=(",", ":")).encode()
    return Drawn(said_of(*seen), drawn)


class _Seen(NamedTuple):
    """The cells of segments, and the findings in all rows by kind."""

    health: Health
    kinds: dict[str, int]


def _read_cells(path: Path, at: At) -> _Seen | Unreadable | None:
    """Return what a report has for this page; reports of earlier versions have nothing."""
    table = table_of(path, HEALTH.names)
    if not isinstance(table, pa.Table):
        return table
    return made_of(path, lambda: _Seen(health_in(table.cast(HEALTH), at), _counts(path, at)))


def _counts(path: Path, at: At) -> dict[str, int]:
    """Return the findings by kind. Raises KeyError, TypeError, ValueError."""
    return {str(kind): int(count) for kind, count in _told(path)["kinds"][at].items()}


def _told(path: Path) -> dict[str, Any]:
    """Return the metadata of HEALTH. Raises OSError, ValueError, such as an ArrowException."""
    with path.open("rb") as file:
        told = pq.read_metadata(file).metadata or {}
    return {one.decode(): json.loads(told[one]) for one in (b"kinds", b"keys") if one in told}


def _by_partition(path: Path) -> bool:
    """Return whether segments after the run stand for whole partitions before it."""
    try:
        return _told(path).get("keys") == ["log_dir", "partition_dir"]
    except (OSError, ValueError):  # of an earlier version, or corrupt
        return False


def _read(folder: Path, names: Sequence[str]) -> _Seen | Unreadable | None:
    found: list[pa.Table] = []
    seen: _Seen | Unreadable | None = None
    for name in names:
        table = table_of(folder / name, COLUMNS, coded=_CODED)
        if isinstance(table, Unreadable):
            return table
        if table is None:
            break  # no segments, or none after the run
        found.append(table)
        seen = made_of(folder / name, lambda: _seen(_last(found)))
        if isinstance(seen, Unreadable):
            break
    return seen


def _seen(table: pa.Table) -> _Seen:
    return _Seen(health_of(table), kinds_in(table))


def _last(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all tables; of a segment the last one."""
    if len(tables) == 1:
        return tables[0]
    rows = pa.concat_tables([one.select(COLUMNS) for one in tables]).unify_dictionaries()
    keys = [*_CODED, "base_offset"]
    places = rows.select(keys).append_column("row", pa.array(range(rows.num_rows)))
    return rows.take(places.group_by(keys).aggregate([("row", "max")])["row_max"])


def map_of(health: Health, counts: Mapping[str, int], at: At) -> Map:
    """Return the data of the map, the rows in most trouble first."""
    count = len(health.partitions)
    sizes = np.diff(health.starts)
    of_row = np.repeat(np.arange(count), sizes)
    defects = np.bincount(of_row[health.cells >= DAMAGED], minlength=count)
    worst = np.zeros(count, np.uint8)
    np.maximum.at(worst, of_row, health.cells)
    severe = np.where(worst >= DAMAGED, worst, 0)  # remarks do not order rows
    order = np.lexsort((np.arange(count), -defects, -severe.astype(np.int64)))
    fits = int(np.searchsorted(np.cumsum(sizes[order]), _MOST_CELLS, side="right"))
    order = order[:fits]
    log_dirs = sorted({health.partitions[n].log_dir for n in order})
    places = {log_dir: place for place, log_dir in enumerate(log_dirs)}
    cells = b"".join(health.row(n).tobytes() for n in order)
    return {
        "at": at,
        "kinds": _kinds(counts),
        "log_dirs": log_dirs,
        "log_dir": [places[health.partitions[n].log_dir] for n in order],
        "names": [health.partitions[n].partition_dir for n in order],
        "starts": np.cumsum([0, *sizes[order]]).tolist(),
        "defects": defects[order].tolist(),
        "worst": worst[order].tolist(),
        "cells": base64.b64encode(zlib.compress(cells, 1)).decode(),
        "left_out": count - fits,
    }


def _kinds(counts: Mapping[str, int]) -> list[Kind]:
    """Return all values of cells."""
    first = {KINDS[kind][0]: kind for kind in reversed(CELLS) if kind in KINDS}
    light, dark = palette(list(first.values())), palette(list(first.values()), dark=True)
    kinds: list[Kind] = []
    for kind in CELLS:
        severity, (_, means) = _severity(kind), KINDS.get(kind, ("", ""))
        remedy = remedy_of(kind) if kind not in HARMLESS else None
        coloured = first.get(severity, kind)
        kinds.append({
            "name": kind,
            "severity": severity,
            "word": severity_word(severity),
            "means": means,
            "consequence": remedy.consequence if remedy else "",
            "step": remedy.step if remedy else "",
            "count": counts.get(kind, 0),
            "colour": light[coloured],
            "dark": dark[coloured],
        })
    return kinds


def _whole(segments: int, partitions: int, *, sound: bool) -> str:
    if not segments:
        return "This run saw no segment."
    seen = f"{words.plural(segments, 'segment')} of {words.plural(partitions, 'partition')}"
    return f"No defect in {seen}." if sound else f"Looked at {seen}."


def _severity(kind: str) -> str:
    """Return the severity of a kind on pages, "" for an unknown one."""
    return "remark" if kind in HARMLESS else KINDS.get(kind, ("",))[0]


def _where(cells: NDArray[np.bool_], of_row: NDArray[np.int64]) -> str:
    if not cells.any():
        return " in no segment"
    partitions = words.plural(len(np.unique(of_row[cells])), "partition")
    return f" in {words.plural(int(cells.sum()), 'segment')} of {partitions}"


def said_of(health: Health, kinds: Mapping[str, int]) -> Said:
    """Return sentences on the findings, counted by kind, and the segments in which they are.

    `danger` and `damage` are "" if there is none.
    """
    of_row = np.repeat(np.arange(len(health.partitions)), np.diff(health.starts))
    at = {
        "danger": health.cells >= _DANGER,
        "damage": (health.cells >= DAMAGED) & (health.cells < _DANGER),
    }
    counts = {}
    for severity, cells in at.items():
        found = sum(n for kind, n in kinds.items() if _severity(kind) == severity)
        if found:
            counts[severity] = f"{words.plural(found, 'finding')}{_where(cells, of_row)}"
    return Said(
        f"Possible loss: {counts['danger']}." if "danger" in counts else "",
        f"Damage: {counts['damage']}." if "damage" in counts else "",
        _whole(len(health.cells), len(health.partitions), sound=not counts),
    )


def findings_of(
    folder: Path, at: At, log_dir: str, partition: str
) -> dict[str, object] | Unreadable | None:
    """Return the findings of one partition and a sentence on them, None if there is no table."""
    found: dict[int, list[dict[str, object]]] = {}
    wanted = {"log_dir": log_dir, "partition_dir": partition}
    by_partition = at == "now" and _by_partition(folder / FILE)
    for name in (SEGMENTS, _AFTER) if at == "now" else (SEGMENTS,):
        table = table_of(folder / name, COLUMNS, only=wanted)
        if isinstance(table, Unreadable):
            return table
        if table is None and name == SEGMENTS:
            return None
        if table is None:
            continue
        rows = made_of(folder / name, partial(_findings, table))
        if isinstance(rows, Unreadable):
            return rows
        found = rows if rows and by_partition else found | rows
    findings = [finding for base in sorted(found) for finding in found[base]]
    said = f"{words.plural(len(found), 'segment')}, {words.plural(len(findings), 'finding')}."
    if len(findings) > _MOST_FINDINGS:
        said += f" The first {words.of_count(_MOST_FINDINGS)} are shown."
    return {"said": said, "findings": findings[:_MOST_FINDINGS]}


def _findings(table: pa.Table) -> dict[int, list[dict[str, object]]]:
    """Return the findings by base offset."""
    rows = table.select(["base_offset", "findings"]).to_pylist()
    return {
        row["base_offset"]: [
            {name: one[name] or "" for name in _TOLD}
            | {"base_offset": row["base_offset"], "severity": _word(one)}
            for one in row["findings"] or []
        ]
        for row in rows
    }


def _word(finding: Mapping[str, str | None]) -> str:
    """Return the word of a finding's severity; that of the report for a kind of a later version."""
    return severity_word(_severity(finding["kind"] or "") or finding["severity"] or "")
