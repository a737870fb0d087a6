from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats.errors import CorruptFile
from kafkats.logdir.snapshot import (
    ENTRY,
    HEADER,
    ProducerEntry,
    decode_snapshot,
    encode_snapshot,
    read_snapshot,
)
from tests.golden import Unpacked, case

EMPTY = bytes.fromhex("000148674bc700000000")
INT16, INT32, INT64 = (st.integers(-(2 ** (n - 1)), 2 ** (n - 1) - 1) for n in (16, 32, 64))
PRODUCERS = st.lists(
    st.builds(ProducerEntry, INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64), max_size=5
)


def test_empty() -> None:
    assert encode_snapshot([]) == EMPTY
    assert decode_snapshot(EMPTY) == []


@given(PRODUCERS)
def test_round_trip(producers: list[ProducerEntry]) -> None:
    data = encode_snapshot(producers)
    assert len(data) == HEADER.size + len(producers) * ENTRY.size
    assert decode_snapshot(data) == producers


@given(PRODUCERS, st.data())
def test_every_change_is_noticed(producers: list[ProducerEntry], data: st.DataObject) -> None:
    good = encode_snapshot(producers)
    at = data.draw(st.integers(0, len(good) - 1))
    flip = data.draw(st.integers(1, 255))
    with pytest.raises(CorruptFile) as raised:
        decode_snapshot(good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :], "f")
    assert (raised.value.path, raised.value.position in {0, 2}) == ("f", True)
    for other in (good[:at], good + b"\0"):
        with pytest.raises(CorruptFile):
            decode_snapshot(other)


def test_real_snapshots_say_what_kafkas_own_tool_says(golden: Unpacked) -> None:
    root = golden("transactions-4.3.1", "data")
    said: dict[str, list[tuple[int, ...]]] = {}
    for section in case("transactions-4.3.1").text("dump-log.txt.xz").split("### ")[1:]:
        path, _, body = section.partition("\n")
        if path.endswith(".snapshot"):
            said[path] = [
                tuple(map(int, re.findall(r"-?\d+", line)))
                for line in body.splitlines()
                if "producerId" in line
            ]
    assert any(said.values())
    for path, producers in said.items():
        ours = read_snapshot(root / path)
        assert len(ours) == len(producers)
        for entry in ours:
            numbers = next(p for p in producers if p[0] == entry.producer_id)
            assert {
                entry.producer_epoch,
                entry.coordinator_epoch,
                entry.txn_first_offset,
                entry.timestamp,
            } <= {
                *numbers,
                -1,
            }


def test_real_snapshots_come_back_to_the_byte(golden: Unpacked) -> None:
    seen = 0
    for path in golden("transactions-2.8.2", "data").rglob("*.snapshot"):
        assert encode_snapshot(read_snapshot(path)) == path.read_bytes()
        seen += path.stat().st_size > len(EMPTY)
    assert seen >= 5


def test_a_huge_count_costs_nothing(tmp_path: Path) -> None:
    from kafkats.compression.checksums import crc32c

    body = b"\x7f\xff\xff\xff"
    with pytest.raises(CorruptFile, match="announced"):
        decode_snapshot(b"\0\1" + crc32c(body).to_bytes(4, "big") + body)
    sparse = tmp_path / "00000000000000000000.snapshot"
    subprocess.run(["truncate", "-s", "3G", str(sparse)], check=True)
    with pytest.raises(CorruptFile, match="larger than"):
        read_snapshot(sparse)
