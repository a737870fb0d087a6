"""The rows of index files for `kafkats dump`: their fields are in the docstring of dump."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from kafkats import paths
from kafkats.errors import CorruptIndex, storage
from kafkats.index import offset_index, time_index, txn_index
from kafkats.logdir.strict_json import Json, int64
from kafkats.segment.reader import open_file

Row: TypeAlias = dict[str, Json]

WINDOW: Final = 1024 * 1024
"""Bytes per read. Files are not mapped, because a running broker truncates them."""


def rows(path: Path, dtype: np.dtype[np.void], kind: str, base: int | None) -> Iterator[Row]:
    """Yield a row of this kind for each entry of `dtype`. `base` is the base offset if it is known.

    Zeros to the end of the file are one row. Raises CorruptIndex for bytes behind the last whole
    entry, after every row; StorageFailed.
    """
    width = dtype.itemsize
    with open_file(path) as fd:
        size = os.fstat(fd).st_size
        with storage(path, "reading"):
            zeros = _zeros_from(fd, size // width * width, width)
        per_window = WINDOW // width
        for first in range(0, zeros, per_window):
            count = min(per_window, zeros - first)
            with storage(path, "reading"):
                data = os.pread(fd, count * width, first * width)
            for n, fields in enumerate(
                np.frombuffer(data[: len(data) // width * width], dtype).tolist(), first
            ):
                yield _row(kind, dtype.names or (), fields, n, base)
        if zeros < size // width:
            yield {
                "kind": "zeros",
                "entry": zeros,
                "position": zeros * width,
                "size": size // width * width - zeros * width,
            }
        if size % width:
            reason = f"{size % width} bytes after the last whole entry of {width}"
            raise CorruptIndex(reason, path=path, position=size // width * width)


def _zeros_from(fd: int, end: int, width: int) -> int:
    """Return the number of the first entry from which everything up to `end` is zero.

    A single entry of zeros is an entry: timestamp 0 at the base offset.
    """
    at = 0 if end == width else end
    while at > 0:
        start = max(0, at - WINDOW)
        used = len(os.pread(fd, at - start, start).rstrip(b"\0"))
        if used:
            return -(-(start + used) // width)
        at = start
    return 1 if end == width else 0


def _row(kind: str, names: Iterable[str], fields: Iterable[Json], n: int, base: int | None) -> Row:
    """Return the row of an entry: its fields, and the offset behind the relative one."""
    row: Row = {"kind": kind, "entry": n}
    for name, value in zip(names, fields, strict=True):
        row[name] = value
        if name == "relative_offset":
            row["offset"] = None if base is None else base + int64(value)
    return row


INDEXES: Final[dict[str, tuple[np.dtype[np.void], str]]] = {
    paths.OFFSET_INDEX: (offset_index.ENTRY, "offset-entry"),
    paths.TIME_INDEX: (time_index.ENTRY, "time-entry"),
    paths.TXN_INDEX: (txn_index.ENTRY, "aborted-txn"),
}
"""The entries of index files, and the kind of their rows, by the file's suffix."""
