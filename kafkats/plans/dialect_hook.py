"""Readers of dialects, formats that never shipped: another distribution registers them.

They are looked up by name where a user or a stored plan names one: `kafkats.dialects` and
`kafkats.files` are groups of entry points. kafkats itself reads and writes only what shipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kafkats.errors import Refused, UsageError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from kafkats.config.given import Given
    from kafkats.formats.build import Target as Format
    from kafkats.formats.model import Batch, Record
    from kafkats.logdir.strict_json import Json
    from kafkats.plans.operation import Proving
    from kafkats.plans.proof import Proof
    from kafkats.search.answers import Answer, Target
    from kafkats.search.partition import Partition
    from kafkats.segment.convert import Conversion
    from kafkats.segment.parity import Parity
    from kafkats.segment.reader import Source

    Row: TypeAlias = dict[str, Json]


class Entries(NamedTuple):
    """The entries of an index file: their layout, and the kind of their rows in `dump`."""

    dtype: np.dtype[np.void]
    kind: str


class Migration(NamedTuple):
    """Conversion of whole segments to and from a dialect."""

    magic: int
    """The magic of its messages."""
    check: Callable[[Given], None]
    """Check the options that name a dialect, read or written. Raises UsageError, Refused."""
    trusted: Callable[[pa.Table], pa.Table]
    """Facts of logs of the dialect (facts.SEGMENTS), without what was misread in them."""
    convert: Callable[..., Conversion]
    """As segment.convert.convert_source."""
    prove: Callable[[Source, Source, Format], tuple[Parity, Parity]]
    """Compare the records of the old and the new log. Raises NotEqual."""
    build_index: Callable[..., bytes]
    """Return the `.index` of a log: (source, base_offset, *, index_interval_bytes)."""
    prove_written: Callable[[Proving], Proof]
    """Prove the files of a run that wrote the dialect."""


class DialectHook(NamedTuple):
    """The functions that read a dialect. `batches` and `records` are as in formats.dispatch."""

    batches: Callable[..., Iterator[Batch]]
    records: Callable[..., list[Record]]
    columns: Callable[[bytes, Batch, Sequence[Record]], Row]
    """Columns of a batch's row in `dump` that differ from those of the formats that shipped."""
    index_entries: Entries | None = None
    """The entries of its `.index`, if they differ."""
    find_exact: Callable[[Partition, Target], Answer] | None = None
    """As search.exact.find_exact."""
    migration: Migration | None = None


@cache
def _loaded(group: str, name: str) -> Any:
    """Return what is registered, None if nothing is."""
    from importlib.metadata import entry_points

    found = [*entry_points(group=group, name=name)]
    return found[0].load() if found else None


def dialect(name: str) -> DialectHook:
    """Return the readers of a dialect. Raises UsageError where they are not installed."""
    hook: DialectHook | None = _loaded("kafkats.dialects", name)
    if hook is None:
        raise UsageError(f"dialect {name}: install kafkats-model, also on the workers")
    return hook


def migration_of(name: str) -> Migration:
    """Return how a stored plan's dialect is converted. Raises Refused where that is not known."""
    try:
        migration = dialect(name).migration
    except UsageError as e:
        raise Refused(e.reason) from e
    if migration is None:
        raise Refused(f"logs of the dialect {name} are not converted")
    return migration


def proposed_file(suffix: str) -> Entries:
    """Return the entries of an index file that never shipped, by the end of its name.

    Raises UsageError where they are not known.
    """
    entries: Entries | None = _loaded("kafkats.files", suffix.lstrip("."))
    if entries is None:
        raise UsageError(f"a file *{suffix} never was Kafka's: install kafkats-model to read it")
    return entries
