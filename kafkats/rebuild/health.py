"""Index health: the worst finding of each segment, partition by partition.

The picture in reports and the map in Airflow draw the same cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafkats.findings import KINDS, SEVERITIES
from kafkats.paths import TIME_INDEX
from kafkats.plans.rows import PartitionKey

NONE: Final = "no segment"
FINE: Final = "no defect"
CELLS: Final[tuple[str, ...]] = (
    NONE,
    FINE,
    *sorted(KINDS, key=lambda kind: SEVERITIES.index(KINDS[kind][0])),
)
"""The values of cells by their numbers: a greater number is at least as bad."""
COLUMNS: Final = ("log_dir", "partition_dir", "base_offset", "findings")
"""The columns of facts.SEGMENTS that `health_of` reads."""
DAMAGED: Final = min(n for n, kind in enumerate(CELLS) if KINDS.get(kind, ("",))[0] == "damage")
"""The first number in CELLS that is a defect."""
_SHADES: Final = {
    "state": ("#d4d4d4", "#7f7f7f"),
    "remark": ("#a6d3ef", "#0072b2"),
    "damage": ("#f5c04a", "#a86400"),
    "danger": ("#b2182b", "#4d0010"),
}
"""One hue per severity, from the light to the dark shade of its kinds, for the colour-blind too."""
_DARK_SHADES: Final = {
    "state": ("#4a4a52", "#8a8a94"),
    "remark": ("#2b5f80", "#56b4e9"),
    "damage": ("#ffc04d", "#a86400"),
    "danger": ("#ff8a80", "#a8342a"),
}
"""The same on a dark page."""


FILE: Final = "health.parquet"
HEALTH: Final = pa.schema([
    ("log_dir", pa.string()),
    ("partition_dir", pa.string()),
    ("before", pa.binary()),
    ("now", pa.binary()),
])
"""A row per partition: its cells before a run and at its end, a byte each: numbers in CELLS. The
file's metadata has `kinds`: the findings by kind, `before` and `now`; and `keys`: the columns by
which segments after the run stand for those before it, which earlier versions did not tell.
"""


class Health(NamedTuple):
    """The cells of partitions. Row n has `cells[starts[n] : starts[n + 1]]`, oldest first."""

    partitions: list[PartitionKey]
    starts: NDArray[np.int64]
    cells: NDArray[np.uint8]
    """Numbers in CELLS."""

    def row(self, n: int) -> NDArray[np.uint8]:
        """Return the cells of a partition."""
        return self.cells[self.starts[n] : self.starts[n + 1]]


def health_of(segments: pa.Table) -> Health:
    """Return the worst finding of each segment of facts.SEGMENTS, in order of base offset.

    Among findings of one severity those about the time index come first. Unknown kinds are of no
    severity and are left out.
    """
    real = segments.select(COLUMNS).filter(pc.greater_equal(segments["base_offset"], 0))
    base = real["base_offset"].to_numpy()
    log_dirs, log_dir = _coded(real["log_dir"])
    names, name = _coded(real["partition_dir"])
    order = np.lexsort((base, name, log_dir))
    log_dir, name = log_dir[order], name[order]
    first = np.flatnonzero(np.append(True, (np.diff(log_dir) != 0) | (np.diff(name) != 0)))
    first = first[: len(base)]
    return Health(
        [PartitionKey(log_dirs[log_dir[row]], names[name[row]]) for row in first],
        np.append(first, len(base)).astype(np.int64),
        _worst(real["findings"].combine_chunks())[order],
    )


def health_rows(before: Health, now: Health) -> pa.Table:
    """Return HEALTH of partitions before a run and at its end."""
    of = [
        {where: one.row(n).tobytes() for n, where in enumerate(one.partitions)}
        for one in (before, now)
    ]
    rows = [(*where, *(cells.get(where, b"") for cells in of)) for where in of[0] | of[1]]
    columns = zip(*rows, strict=True) if rows else [[] for _ in HEALTH]
    arrays = [pa.array(one, field.type) for one, field in zip(columns, HEALTH, strict=True)]
    return pa.table(arrays, schema=HEALTH)


def health_in(rows: pa.Table, column: str) -> Health:
    """Return the health that a column of HEALTH has. Raises ValueError for unknown cells."""
    rows = rows.filter(pc.greater(pc.binary_length(rows[column]), 0))
    rows = rows.sort_by([(name, "ascending") for name in PartitionKey._fields])
    names = (rows[name].to_pylist() for name in PartitionKey._fields)
    cells = rows[column].to_pylist()
    joined = np.frombuffer(b"".join(cells), np.uint8)
    if len(joined) and int(joined.max()) >= len(CELLS):
        raise ValueError("cells of a later version")
    starts = np.cumsum([0, *map(len, cells)], dtype=np.int64)
    return Health(list(map(PartitionKey, *names)), starts, joined)


def kinds_in(segments: pa.Table) -> dict[str, int]:
    """Return how many findings of each kind are in all rows of facts.SEGMENTS."""
    flat = pc.list_flatten(segments["findings"])
    return dict(Counter(pc.struct_field(flat, "kind").to_pylist()))


def _coded(column: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int64]]:
    """Return the distinct values in order, and the place of each row's value among them."""
    coded = column.combine_chunks()
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    values = coded.dictionary.to_pylist()
    ordered = sorted(set(values))
    at = {value: place for place, value in enumerate(ordered)}
    places = np.array([at[value] for value in values], np.int64)
    return ordered, places[coded.indices.to_numpy()]


def _worst(findings: pa.ListArray) -> NDArray[np.uint8]:
    cells = np.full(len(findings), CELLS.index(FINE), np.uint8)
    flat = pc.list_flatten(findings)
    if not len(flat):
        return cells
    number = pc.index_in(pc.struct_field(flat, "kind"), pa.array(CELLS)).fill_null(0).to_numpy()
    severity = np.array([
        SEVERITIES.index(KINDS[kind][0]) if kind in KINDS else -1 for kind in CELLS
    ])
    of_time = pc.ends_with(pc.struct_field(flat, "file"), TIME_INDEX).fill_null(False)
    rank = 2 * severity[number] + of_time.to_numpy(zero_copy_only=False)
    row = pc.list_parent_indices(findings).to_numpy()
    # the last of a row in this order is its first finding of the highest rank
    order = np.lexsort((-np.arange(len(row)), rank, row))
    last = order[np.append(np.flatnonzero(np.diff(row[order])), len(row) - 1)]
    known = last[number[last] > 0]
    cells[row[known]] = number[known]
    return cells


def palette(kinds: Sequence[str], *, dark: bool = False) -> dict[str, str]:
    """Return a colour (#rrggbb) for each kind of finding, NONE and FINE. A severity has one hue."""
    chosen = {NONE: "#16161a", FINE: "#22443a"} if dark else {NONE: "#ffffff", FINE: "#d9efe6"}
    for severity, shades in (_DARK_SHADES if dark else _SHADES).items():
        of_it = [kind for kind in kinds if kind in KINDS and KINDS[kind][0] == severity]
        begin, end = (bytes.fromhex(shade[1:]) for shade in shades)
        for n, kind in enumerate(of_it):
            share = n / max(len(of_it) - 1, 1)
            mixed = (round(a + (b - a) * share) for a, b in zip(begin, end, strict=True))
            chosen[kind] = "#" + bytes(mixed).hex()
    return chosen
