"""Look up offsets, with one row per unit and time in their order, and write exports of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa

from kafkats.execution.executor import Executor
from kafkats.lookup.exports import Export
from kafkats.lookup.partitions import LOOKUP, LookupOptions, lookup_unit
from kafkats.plans.files import make_folder, write_text
from kafkats.search import PartitionUnit
from kafkats.search import Target as Time


def lookup(
    executor: Executor,
    units: Sequence[PartitionUnit],
    times: Sequence[Time],
    options: LookupOptions,
) -> pa.Table:
    """Look up the offset at each time: rows of LOOKUP, by partition, in the order of `times`."""
    suffix = ".timeindex" if options.depth == "tail" else ".log"
    do = partial(lookup_unit, targets=times, options=options)
    return executor.map(
        "lookup", units, do, LOOKUP, size=lambda unit: partition_bytes(unit, suffix)
    )


def partition_bytes(unit: PartitionUnit, suffix: str) -> int:
    """Bytes of all files of a kind. A directory that cannot be read counts 0 here: the search
    reports it.
    """
    with suppress(OSError):
        return sum(path.stat().st_size for path in unit.path.glob(f"*{suffix}"))
    return 0


def keep_export(made: Export, output: Path | None) -> None:
    """Write an export, if there is a file for it. Raises UsageError, StorageFailed."""
    if output is not None:
        make_folder(output.parent, "the export")
        write_text(output, made.text)
