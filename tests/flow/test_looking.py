"""Stages that read the ends of many segments at once."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from kafkats.execution.executor import Executor, U, Work, log_dirs_of
from kafkats.flow.looking import read_ends
from kafkats.plans.units import Unit

SCHEMA = pa.schema([("base_offset", pa.int64())])


def bases(units: Sequence[Unit]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"base_offset": unit.base_offset} for unit in units], schema=SCHEMA
    )


class Noting(Executor):
    """Works in this thread, and notes the log directories of each unit."""

    def __init__(self) -> None:
        self.places: list[tuple[str, ...]] = []

    def run(self, stage: str, work: Work[U]) -> pa.Table:
        self.places += [log_dirs_of(unit) for unit in work.units]
        return pa.Table.from_batches([work.do(unit) for unit in work.units], work.schema)


def test_what_is_looked_at_in_one_go_is_of_one_log_directory() -> None:
    """No host may see two of them."""
    units = [
        Unit(
            f"/kafka/{name}", "t-0", base, next_base_offset=base + 1, live=False, files=(None,) * 5
        )
        for name, count in (("a", 1200), ("b", 3))
        for base in range(count)
    ]
    executor = Noting()
    rows = read_ends(executor, "tails", units, bases, SCHEMA, each=1)
    assert rows["base_offset"].to_pylist() == [*range(1200), 0, 1, 2]
    assert executor.places == [("/kafka/a",)] * 3 + [("/kafka/b",)]
