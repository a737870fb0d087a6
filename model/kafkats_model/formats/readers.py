"""Choose the reader of a log by the name of its dialect: a format that never shipped.

Without a name it is `dispatch`, which reads the formats that shipped. A dialect is never guessed,
and no kernel knows it: the kernels read every log as Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from kafkats.formats import dispatch
from kafkats.formats.model import NO_TIMESTAMP, Batch, Record
from kafkats.generations import KIP228
from kafkats_model.formats import enriched, kip228, produce
from kafkats_model.formats.kip228 import NO_TIMESTAMP_EXTENDED


class Reader(NamedTuple):
    """The functions that read a log: as `batches` and `records` of formats/dispatch.py."""

    batches: Callable[..., Iterator[Batch]]
    records: Callable[..., list[Record]]
    no_timestamp: int = NO_TIMESTAMP
    """The number that is no timestamp."""
    older: Callable[..., list[Record]] = dispatch.records
    """The records of a batch for its conversion to magic 0 or 1."""
    assign: Callable[..., produce.Assigned] = produce.assign
    """As `produce.assign`."""


_READERS: Final[Mapping[str | None, Reader]] = {
    None: Reader(dispatch.batches, dispatch.records),
    "enriched": Reader(enriched.batches, enriched.decode_records),
    KIP228: Reader(
        kip228.batches, kip228.records, NO_TIMESTAMP_EXTENDED, kip228.records_before, kip228.assign
    ),
}


def reader(dialect: str | None) -> Reader:
    """Return the reader of a dialect, one of generations.DIALECTS; None: what shipped."""
    return _READERS[dialect]
