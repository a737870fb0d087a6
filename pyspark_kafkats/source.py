"""The data source as Spark wants it: schema, what each task reads, and the reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

# Spark imports this whenever the first data source is looked up, anybody's: the rest is imported when it is ours.
if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.records import Piece
    from pyspark_kafkats.options import Wanted

NAME = "kafkats"
_OPENING_BYTES = 64 * 1024
"""What could be read in the time that opening one more file takes."""


class DefaultSource(DataSource):
    """The data source; made by Spark, with the options of one read."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        """The columns option's columns. Spark cannot tell which of them a query uses: what is not wanted should not be named."""
        from kafkats.segment.arrow import spark_types
        from pyspark_kafkats.options import read_options

        types = spark_types()
        return ", ".join(f"`{name}` {types[name]}" for name in read_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_kafkats.options import check_schema, read_options

        check_schema(schema)
        return Reader(read_options(self.options), schema)


class Reader(DataSourceReader):
    """Lists pieces on the driver, reads them in tasks."""

    def __init__(self, wanted: Wanted, schema: StructType) -> None:
        self.wanted = wanted
        self.fields = schema

    def partitions(self) -> list[InputPartition]:
        from kafkats.records import plan_read

        pieces = plan_read(self.wanted.paths, self.wanted.options)
        return [InputPartition(task) for task in _tasks(pieces, self.wanted.options.piece_bytes)] or [
            InputPartition([])
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.pandas.types import to_arrow_schema

        from kafkats.records import read_piece
        from pyspark_kafkats.skipped import told

        _keep_modules()
        schema = to_arrow_schema(self.fields, timezone="UTC")
        for piece in partition.value or ():
            with told(piece, self.wanted) as on_skip:
                # Spark's worker writes each batch before it asks for the next.
                yield from read_piece(piece, schema, control=self.wanted.control, on_skip=on_skip, reuse=True)


def _tasks(pieces: Sequence[Piece], most: int) -> list[list[Piece]]:
    """Pieces in their order, in as few tasks as `most` bytes each allow, all about as large: one that is larger keeps the others' cores waiting."""
    costs = [piece.end - piece.start + _OPENING_BYTES for piece in pieces]
    total = sum(costs)
    count = -(-total // (most + _OPENING_BYTES))
    tasks: list[list[Piece]] = [[] for _ in range(count)]
    before = 0
    for piece, cost in zip(pieces, costs, strict=True):
        tasks[(2 * before + cost) * count // (2 * total)].append(piece)  # where its middle lies
        before += cost
    return [task for task in tasks if task]


def _keep_modules() -> None:
    """Spark's worker collects garbage after each task, and would look at all that numba and pyarrow brought, for 75 ms, while its slot
    waits. What was imported stays as long as the process, so it need not be looked at again."""
    import gc

    from kafkats.kernels import columns, headers  # ruff: ignore[unused-import]

    if not gc.get_freeze_count():
        gc.freeze()
