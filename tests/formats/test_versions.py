"""Which formats the versions of requests carry."""

from __future__ import annotations

from kafkats.formats.model import Codec
from kafkats.formats.versions import fetched_magic, produced_magic
from kafkats_model.formats.versions import carries, last_codec


def test_the_latest_format() -> None:
    assert [produced_magic(v) for v in (0, 1, 2, 3, 9)] == [0, 0, 1, 2, 2]
    assert [fetched_magic(v) for v in (0, 1, 2, 3, 4, 11)] == [0, 0, 1, 1, 2, 2]


def test_what_a_produce_carries() -> None:
    carried = [[m for m in range(3) if carries(v, m)] for v in (0, 1, 2, 3, 7)]
    assert carried == [[0, 1, 2], [0, 1, 2], [0, 1, 2], [2], [2]]
    assert [last_codec(v) for v in (2, 3, 6, 7)] == [Codec.ZSTD, Codec.LZ4, Codec.LZ4, Codec.ZSTD]
