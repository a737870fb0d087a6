"""What is read of the real brokers' directories is what their consumers read, of every case and state."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kafkats.errors import CorruptBatch
from kafkats.records.piece import Skipped, read_piece
from kafkats.records.plan import ReadOptions, plan_read
from kafkats.segment.arrow import COLUMNS
from tests.golden import Case, Unpacked, cases
from tests.records.rows import ASKED, differences, ended_in_error, theirs, views

DAMAGED = {
    "crc-first-0",
    "crc-middle-0",
    "crc-last-0",
    "crc-old-segment-0",
    "indexed-0",
    "not-indexed-0",
}
"""Where a broker left damaged batches standing."""
CHECKING = [
    one
    for one in cases("crash", "clean-start")
    if not one.name.endswith(("0.8.2.2", "0.9.0.1", "0.10.2.2", "-v1"))
]
"""Consumers of magic 2 read on up to the damaged batch."""
SCHEMA = pa.schema([COLUMNS.field(name) for name in ASKED])


def roots(root: Path) -> list[Path]:
    """The log.dirs of an unpacked state."""
    return sorted(root.glob("disk-*")) or [root]


@pytest.mark.slow(1)
@pytest.mark.examples(by="kafka")
@pytest.mark.parametrize("one", cases(), ids=str)
def test_what_the_consumer_read(one: Case, golden: Unpacked) -> None:
    for view in views(one):
        skipped: list[Skipped] = []
        pieces = plan_read(
            roots(golden(one, view.state)), ReadOptions(committed=view.committed, piece_bytes=2000)
        )
        batches = [
            batch for piece in pieces for batch in read_piece(piece, SCHEMA, on_skip=skipped.append)
        ]
        left_out = {Path(one.log).parent.name for one in skipped}
        assert differences(one, view, pa.Table.from_batches(batches, SCHEMA), left_out) == []
        assert left_out <= DAMAGED


@pytest.mark.parametrize("one", CHECKING, ids=str)
def test_where_the_consumer_failed(one: Case, golden: Unpacked) -> None:
    """The same error in the same place: behind the records that it read."""
    for view in views(one):
        expected = theirs(one, view)
        for tp in ended_in_error(one, view):
            (folder,) = golden(one, view.state).rglob(tp)
            rows = 0
            with pytest.raises(CorruptBatch) as caught:
                for piece in plan_read([folder], ReadOptions()):
                    for batch in read_piece(piece, SCHEMA):
                        rows += batch.num_rows
            assert rows == len(expected[tp])
            assert caught.value.path is not None and Path(caught.value.path).parent == folder
            assert caught.value.position is not None
