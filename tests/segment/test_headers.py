"""Batch headers as rows: what the plain decoders see, of real logs of every generation and in windows of any size."""

from __future__ import annotations

import numpy as np
import pytest

from kafkats.errors import Changed, CorruptBatch
from kafkats.formats import dispatch
from kafkats.kernels import headers_state as k
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import Source, Window, open_source
from kafkats_model.memory_source import array_source
from tests.builders.columns import expected
from tests.golden import Unpacked

CASES = (
    "matrix-0.8.2.2-v0",
    "upgrade-0.9-to-2.8",
    "transactions-4.3.1",
    "compaction-2.8.2",
    "matrix-2.8.2-v1",
)


def rows(source: Source, **limits: int) -> list[list[int]]:
    return [row for chunk in batch_headers(source, **limits) for row in chunk.tolist()]  # type: ignore[arg-type]


def in_windows(data: bytes, size: int) -> Source:
    """Each window has as few bytes as were asked for, or `size`."""
    whole = np.frombuffer(data, np.uint8)
    plain = array_source(whole)

    def window(position: int, needed: int) -> Window:
        loaded = min(position + max(needed, size), len(data))
        return Window(whole.ctypes.data + position, position, loaded, loaded, len(data))

    return plain._replace(window=window)


@pytest.mark.parametrize("name", CASES)
def test_rows_are_what_the_decoders_see(
    name: str, golden: Unpacked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkats.segment.headers.ROWS_AT_ONCE", 7)
    seen = 0
    for segment in golden.segments_in(
        name, "data" if not name.startswith(("up", "comp")) else _last(name)
    ):
        data = segment.log.read_bytes()
        wanted = [expected(b) for b in dispatch.batches(data, verify=False)]
        with open_source(segment.log) as source:
            assert rows(source) == wanted, segment
        for size in (61, 100, 4096):
            assert rows(in_windows(data, size)) == wanted, segment
        if len(wanted) > 2:
            assert rows(in_windows(data, 61), start=wanted[1][0], end=wanted[-1][0]) == wanted[1:-1]
        producers = [
            row
            for chunk in batch_headers(in_windows(data, 61), producers_only=True)
            for row in chunk.tolist()
        ]
        assert producers == [row for row in wanted if row[k.PRODUCER_ID] >= 0]
        seen += len(wanted)
    assert seen > 50


def _last(name: str) -> str:
    from tests.golden import case

    return case(name).states[-1]


def test_where_reading_ends(golden: Unpacked) -> None:
    log = golden.segments_of("transactions-4.3.1", "data", "txn-0")[0].log
    data = log.read_bytes()
    whole = rows(in_windows(data, 61))
    for cut in range(1, 61):
        assert rows(in_windows(data[:-cut], 61)) == whole[:-1], "a torn tail is the quiet end"
    for tail, why in ((bytes(61), "size 12"), (data[:16] + b"\x03" + data[17:], "magic 3")):
        with pytest.raises(CorruptBatch, match=why) as caught:
            rows(in_windows(data + tail, 61))
        assert caught.value.position == len(data)
    cut = in_windows(data, 61)
    short = cut._replace(
        window=lambda position, needed: cut.window(position, needed)._replace(
            file_end=len(data) - 1
        )
    )
    with pytest.raises(Changed):
        rows(short)
