"""Look at segments by depth, and take over what a report of `verify` says about them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from kafkats.execution import Executor
from kafkats.inspect.known import known_rows
from kafkats.inspect.tails import LOOKED, look_at_tails, look_whole
from kafkats.inspect.verify import VerifyOptions
from kafkats.plans.depths import DEPTHS, Looked
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.rows import keys_of
from kafkats.plans.units import Unit, segments_in

ASKED: Final = "asked for"
KNOWN: Final = "from the report"
CHANGED: Final = "not in the report, or changed since"
_AT_ONCE: Final = 100
"""Segments that one call looks at, where only their ends are read: each takes a fraction of a
millisecond.
"""
_TAIL_BYTES: Final = 64 * 1024
"""Read of a segment's files then, about."""


def look(
    executor: Executor, units: Sequence[Unit], options: VerifyOptions, *, depth: str
) -> Looked:
    """Look at `units` to `depth`: full; or tail, and at the segments in doubt as for full."""
    if depth != "tail":
        whole = _whole(executor, units, options)
        return _looked(whole, [ASKED] * whole.num_rows)
    do = partial(look_at_tails, options=options)
    tails = read_ends(executor, "tails", units, do, LOOKED, each=_TAIL_BYTES)
    doubts = tails["doubt"].to_pylist()
    doubted = tails.filter(pc.not_equal(tails["doubt"], ""))
    if not doubted.num_rows:
        return _looked(tails, doubts)
    by_key = {unit.key: unit for unit in units}
    again = _whole(executor, [by_key[key] for key in keys_of(doubted)], options)
    read = pc.add(again["read_bytes"], doubted["read_bytes"])
    again = again.set_column(LOOKED.names.index("read_bytes"), LOOKED.field("read_bytes"), read)
    return _looked(_in_place(tails, doubts, again), doubts)


def look_with_report(
    executor: Executor, units: Sequence[Unit], options: VerifyOptions, report: pa.Table
) -> Looked:
    """Take over the rows of a report (facts.SEGMENTS) that still hold, and read the rest whole."""
    known = known_rows(units, report, options)
    others = [unit for unit in units if unit.key not in known]
    seen = _whole(executor, others, options)
    rows = [{**row, "doubt": "", "read_bytes": 0} for row in known.values()]
    table = pa.concat_tables([seen, pa.Table.from_pylist(rows, schema=LOOKED)])
    at = {key: number for number, key in enumerate(keys_of(table))}
    order = [at[unit.key] for unit in units if unit.key in at]
    reasons = [CHANGED] * seen.num_rows + [KNOWN] * len(rows)
    looked = _looked(table.take(pa.array(order, pa.int64())), [reasons[n] for n in order])
    return looked._replace(known=len(known))


def _whole(executor: Executor, units: Sequence[Unit], options: VerifyOptions) -> pa.Table:
    do = partial(look_whole, options=options)
    return read_whole(executor, units, do, LOOKED, deep=options.deep)


def read_whole(
    executor: Executor,
    units: Sequence[Unit],
    do: Callable[[Unit], pa.RecordBatch],
    schema: pa.Schema,
    *,
    deep: bool,
) -> pa.Table:
    """Return the rows of `do`, which reads a segment whole, for each unit."""
    return executor.map(
        "verify",
        units,
        do,
        schema,
        size=lambda unit: unit.bytes,
        threads=not deep,
        least=lambda unit: segments_in((unit,)),
    )


def read_ends(
    executor: Executor,
    stage: str,
    units: Sequence[Unit],
    do: Callable[[Sequence[Unit]], pa.RecordBatch],
    schema: pa.Schema,
    *,
    each: int,
) -> pa.Table:
    """Return the rows of `do`, which reads the ends of many segments, about `each` bytes of one."""
    chunks = [tuple(units[n : n + _AT_ONCE]) for n in range(0, len(units), _AT_ONCE)]
    return executor.map(
        stage, chunks, do, schema, size=lambda chunk: len(chunk) * each, least=segments_in
    )


def _in_place(tails: pa.Table, doubts: Iterable[str], again: pa.Table) -> pa.Table:
    """Return `tails` with the rows of `again`, in their order, in place of those in doubt."""
    order, following = [], tails.num_rows
    for number, doubt in enumerate(doubts):
        order.append(following if doubt else number)
        following += bool(doubt)
    return pa.concat_tables([tails, again]).take(pa.array(order, pa.int64()))


def _looked(table: pa.Table, reasons: Collection[str]) -> Looked:
    depths = (
        table
        .select([name for name in DEPTHS.names if name != "reason"])
        .append_column("reason", pa.array(reasons, pa.string()))
        .filter(pc.greater_equal(table["base_offset"], 0))
    )
    depths = depths.set_column(
        depths.column_names.index("depth"), "depth", pc.fill_null(depths["depth"], "")
    )
    read = pc.sum(table["read_bytes"]).as_py() or 0
    return Looked(table.select(SEGMENTS.names), depths.select(DEPTHS.names).cast(DEPTHS), read)
