"""Simulated rolling of a run: segments by topic, and by topic and day, as is and simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from kafkats.rolling.by_topic import TOPIC_DAYS, TopicRow, UnreadRow
from kafkats_airflow.reading.files import Unreadable, lately, model, state_of
from kafkats_airflow.ui.reading.tables import made_of, table_of

SIMULATION: Final = "simulation.json"
_DAYS: Final = "simulation-days.parquet"
_MOST_DAYS: Final = 1000
ALL: Final = ""
"""All topics together."""


class Simulation(BaseModel):
    """simulation.json. `empty` counts partitions without batches, which are in no sum."""

    now_ms: int
    topics: list[TopicRow]
    empty: int = 0
    unread: list[UnreadRow] = []


def simulation_of(folder: Path) -> Simulation | Unreadable | None:
    """Return the simulation of a run, None if it has none."""
    return model(folder / SIMULATION, Simulation)


def days_of(folder: Path, topic: str) -> dict[str, object] | Unreadable | None:
    """Return the segments that began on each day of a topic, or of ALL, the earliest day first;
    None if the run has no table of days. `day_ms` is a midnight UTC; `left_out` earlier days are
    not given.
    """
    found = _sums(folder / _DAYS, state_of(folder / _DAYS))
    if not isinstance(found, pa.Table):
        return found
    mine = found.filter(pc.equal(found["topic"], topic)).select(["day_ms", "segments", "simulated"])
    rows = mine.slice(max(mine.num_rows - _MOST_DAYS, 0)).to_pylist()
    return {"topic": topic, "days": rows, "left_out": max(mine.num_rows - _MOST_DAYS, 0)}


@lately(4)
def _sums(path: Path, state: object) -> pa.Table | Unreadable | None:
    """Read the table, with ALL as a topic; a file that changes has another `state`."""
    table = table_of(path, TOPIC_DAYS.names)
    if not isinstance(table, pa.Table):
        return table
    return made_of(path, lambda: _with_all(table))


def _with_all(table: pa.Table) -> pa.Table:
    table = table.select(TOPIC_DAYS.names).cast(TOPIC_DAYS)
    sums = table.group_by("day_ms").aggregate([("segments", "sum"), ("simulated", "sum")])
    columns = [
        pa.repeat(ALL, sums.num_rows),
        *(sums[name] for name in ("day_ms", "segments_sum", "simulated_sum")),
    ]
    whole = pa.Table.from_arrays(columns, schema=TOPIC_DAYS)
    return pa.concat_tables([table, whole]).sort_by("day_ms")
