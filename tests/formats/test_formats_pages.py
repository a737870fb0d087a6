"""The pages in docs/formats say what the code does: positions, sizes, types, bytes."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from types import ModuleType

import pytest

from kafkats.compression import MAX_OUTPUT_BYTES, Codec, compress
from kafkats.formats import framing, v0, v1, v2

PAGES = Path(__file__).parents[2] / "docs" / "formats"
TYPES = {"q": "int64", "i": "int32", "I": "uint32", "h": "int16", "b": "int8", "B": "uint8"}
ROW = re.compile(r"^\| (\d+) \| `(\w+)` \| (\d+) \| (\w+) \|(?: (yes|no) \|)?", re.MULTILINE)


def _page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def _layout(header: struct.Struct, names: tuple[str, ...]) -> list[tuple[int, str, int, str]]:
    rows, at = [], 0
    for code, name in zip(header.format.lstrip(">"), names, strict=True):
        size = struct.calcsize(f">{code}")
        rows.append((at, name, size, TYPES[code]))
        at += size
    assert at == header.size
    return rows


MESSAGE = ("offset", "size", "crc", "magic", "attributes")


@pytest.mark.parametrize(
    ("page", "layout", "names"),
    [
        ("message-v0", v0, MESSAGE),
        ("message-v1", v1, (*MESSAGE, "timestamp")),
        ("batch-v2", v2, v2.BatchHeader._fields),
    ],
)
def test_header_tables(page: str, layout: ModuleType, names: tuple[str, ...]) -> None:
    text = _page(page)
    rows = [(int(at), name, int(size), kind) for at, name, size, kind, _ in ROW.findall(text)]
    assert rows == _layout(layout.HEADER, names)
    assert f"\n{layout.HEADER.size} bytes, then" in text


def test_crc_column_of_v2() -> None:
    rows = ROW.findall(_page("batch-v2"))
    assert len(rows) == 13
    for at, _, _, _, covered in rows:
        assert covered == ("yes" if int(at) >= v2.CRC_FROM else "no")


@pytest.mark.parametrize(("page", "smallest"), [
    ("message-v0", framing.MIN_SIZE),
    ("message-v1", v1.MIN_FRAME_BYTES - framing.OVERHEAD),
    ("batch-v2", v2.HEADER_BYTES - framing.OVERHEAD),
])  # fmt: skip
def test_smallest_sizes(page: str, smallest: int) -> None:
    assert f"bytes that follow this field, {smallest} or more" in _page(page)


def test_first_bytes_of_streams() -> None:
    said = dict(
        re.findall(r"^\| ([\w ]+) \| `([0-9a-f]+)` \|$", _page("compression"), re.MULTILINE)
    )
    streams = {
        "gzip": compress(Codec.GZIP, b"x"),
        "snappy": compress(Codec.SNAPPY, b"x"),
        "lz4": compress(Codec.LZ4, b"x"),
        "lz4 in magic 0": compress(Codec.LZ4, b"x", broken_lz4=True),
    }
    assert said.keys() == streams.keys()
    for name, first in said.items():
        assert streams[name].hex().startswith(first)


def test_codec_numbers_and_limit() -> None:
    text = _page("compression")
    numbers = {
        name: int(number)
        for name, number in re.findall(r"^\| (\w+) \| (\d) \|", text, re.MULTILINE)
    }
    assert numbers == {codec.name.lower(): codec for codec in Codec if codec}
    assert f"{MAX_OUTPUT_BYTES >> 20} MiB for one batch" in text
