"""Report what a task skipped and what a broker deleted, on standard error and in a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from kafkats.errors import storage
from kafkats.plans.files import make_folder, write_text
from kafkats.records.piece import Piece, Skipped
from pyspark_kafkats.options import Wanted

MARKER = "KAFKATS_SKIPPED"
DELETED = "KAFKATS_DELETED"


def say_deleted(said: str) -> None:
    """Say on standard error what a running broker has deleted since it was listed."""
    print(DELETED, said, file=sys.stderr, flush=True)


@contextmanager
def told(piece: Piece, wanted: Wanted) -> Generator[Callable[[Skipped], None] | None, None, None]:
    """Provide the `on_skip` of `read_piece`, or None if unreadable bytes must fail the read.

    The file is written when the piece has been read or the task stops reading it. A repeated task,
    or another evaluation of the same DataFrame, writes the same file again.
    """
    if not wanted.skip:
        yield None
        return
    lines: list[str] = []

    def on_skip(skipped: Skipped) -> None:
        lines.append(
            json.dumps(skipped._asdict() | {"topic": piece.topic, "partition": piece.partition})
        )
        print(MARKER, lines[-1], file=sys.stderr, flush=True)

    try:
        yield on_skip
    finally:
        if wanted.report:
            _write(Path(wanted.report), piece, lines)


def _write(folder: Path, piece: Piece, lines: list[str]) -> None:
    path = folder / f"{piece.topic}-{piece.partition}-{piece.base_offset:020d}-{piece.start}.jsonl"
    if not lines:
        with storage(path, "removing"):
            path.unlink(missing_ok=True)
        return
    make_folder(folder, "what was skipped")
    write_text(path, "".join(f"{line}\n" for line in lines))
