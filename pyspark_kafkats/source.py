"""The data source in Spark's interface: schema, planning of tasks, reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

# Spark imports this module at the first lookup of any data source. Other imports wait until this
# source is used.
if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.records.piece import Piece
    from pyspark_kafkats.options import Wanted

NAME = "kafkats"
_OPENING_BYTES = 64 * 1024
"""Bytes that can be read in the time that opening one more file takes."""


class DefaultSource(DataSource):
    """The data source. Spark creates it with the options of one read."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        """Return the columns that the option `columns` names.

        Spark does not tell the source which columns a query uses, so name only the needed ones.
        """
        from kafkats.segment.arrow import spark_types
        from pyspark_kafkats.options import read_options

        types = spark_types()
        return ", ".join(f"`{name}` {types[name]}" for name in read_options(self.options).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_kafkats.options import check_schema, read_options

        check_schema(schema)
        return Reader(read_options(self.options), schema)


class Reader(DataSourceReader):
    """Lists pieces on the driver and reads them in tasks."""

    def __init__(self, wanted: Wanted, schema: StructType) -> None:
        self.wanted = wanted
        self.fields = schema

    def partitions(self) -> list[InputPartition]:
        from kafkats.execution.executor import log_dirs_of
        from kafkats.logdir.volume import volumes_at
        from kafkats.records.plan import plan_read

        pieces = plan_read(self.wanted.paths, self.wanted.options)
        listed = volumes_at(log_dir for piece in pieces for log_dir in log_dirs_of(piece))
        return [
            InputPartition((task, listed))
            for task in _tasks(pieces, self.wanted.options.piece_bytes)
        ] or [InputPartition(([], {}))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a task. Raises Refused on another volume than the driver listed."""
        from pyspark.sql.pandas.types import to_arrow_schema

        from kafkats.execution.executor import log_dirs_of
        from kafkats.logdir.volume import check_volume
        from kafkats.records.settled import read_settled
        from pyspark_kafkats.modules import keep_modules
        from pyspark_kafkats.skipped import say_deleted, told

        keep_modules()
        schema = to_arrow_schema(self.fields, timezone="UTC")
        pieces, listed = partition.value
        for log_dir in dict.fromkeys(place for piece in pieces for place in log_dirs_of(piece)):
            check_volume(log_dir, listed)
        for piece in pieces:
            with told(piece, self.wanted) as on_skip:
                # Spark's worker writes each batch before it requests the next.
                yield from read_settled(
                    piece,
                    schema,
                    control=self.wanted.control,
                    on_skip=on_skip,
                    on_deleted=say_deleted,
                    reuse=True,
                )


def _tasks(pieces: Sequence[Piece], most: int) -> list[list[Piece]]:
    """Distribute the pieces in order over tasks of similar size.

    The number of tasks is the smallest that keeps them at about `most` bytes each. A much larger
    task would leave the other cores idle.
    """
    costs = [piece.end - piece.start + _OPENING_BYTES for piece in pieces]
    total = sum(costs)
    count = -(-total // (most + _OPENING_BYTES))
    tasks: list[list[Piece]] = [[] for _ in range(count)]
    before = 0
    for piece, cost in zip(pieces, costs, strict=True):
        # by the middle of the piece
        tasks[(2 * before + cost) * count // (2 * total)].append(piece)
        before += cost
    return [task for task in tasks if task]
