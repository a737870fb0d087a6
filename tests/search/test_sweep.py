"""Many times in one pass: for each the answer of a search of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats import search
from kafkats.errors import KafkatsError, UsageError
from kafkats.search.sweep import sweep
from tests.builders.partitions import DAMAGE, Made, batch, made
from tests.builders.partitions import partitions as made_partitions
from tests.golden import Unpacked, cases, partitions
from tests.index.generated import BASE


def one_by_one(
    partition: search.Partition, targets: list[int], depth: str
) -> list[tuple[int, int, int, int, str]]:
    found = []
    for target in targets:
        try:
            answer = search.find_exact(partition, target, depth=depth)
            found.append((
                answer.offset,
                answer.timestamp,
                answer.leader_epoch,
                answer.segment,
                answer.reason,
            ))
        except KafkatsError:
            found.append((-1, -1, -1, -1, "unreadable"))
    return found


def at_once(
    partition: search.Partition, targets: list[int], depth: str
) -> list[tuple[int, int, int, int, str]]:
    found = sweep(partition, np.array(targets, np.int64), depth=depth)
    numbers = [column.tolist() for column in found[:4]]
    return list(zip(*numbers, found.words(), strict=True))


@pytest.mark.slow(3)
@settings(deadline=None, max_examples=120)
@given(
    made_partitions(),
    st.sampled_from(sorted(DAMAGE)),
    st.sampled_from([".index", ".timeindex"]),
    st.booleans(),
)
def test_as_one_by_one(
    parts: tuple[list[bytes], list[int], int, int], way: str, kind: str, clean: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = made(Path(folder), *parts)
        for path in one.path.glob(f"*{kind}"):
            DAMAGE[way](path)
        with one.open(clean=clean) as partition:
            assert at_once(partition, one.targets(), "full") == one_by_one(
                partition, one.targets(), "full"
            )
        if way == "none":
            with one.open(clean=clean) as partition:
                assert at_once(partition, one.targets(), "tail") == one_by_one(
                    partition, one.targets(), "tail"
                )


@pytest.mark.parametrize("live", [False, True])
def test_on_real_partitions(golden: Unpacked, live: bool) -> None:
    compared = 0
    for case in cases("timestamps", "content", "compaction", "rolling"):
        for path in partitions(golden(case, case.states[-1])):
            with search.Partition(path, live=live) as partition:
                newest = search.find_exact(partition, search.Word.MAX_TIMESTAMP, depth="tail")
                oldest = partition.first_record
                if newest.timestamp < 0 or oldest is None:
                    continue
                first = max(oldest.timestamp, 0)
                span = sorted({first, newest.timestamp})
                times = np.unique(
                    np.linspace(span[0] - 3, span[-1] + 3, 40).astype(np.int64)
                ).tolist()
                for depth in ("tail", "full"):
                    assert at_once(partition, times, depth) == one_by_one(
                        partition, times, depth
                    ), path
                    compared += len(times)
    assert compared > 1000


def test_a_corrupt_batch_leaves_what_lies_behind_it_open(tmp_path: Path) -> None:
    parts = [batch(0, 10), batch(1, 20), batch(2, 30)]
    one = made(tmp_path, [b"".join(parts), batch(3, 40)], [0, 3], 0, interval=0)
    log = one.path / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[len(parts[0]) + 35] ^= 1
    log.write_bytes(data)
    for depth in ("tail", "full"):
        with one.open(clean=True) as partition:
            found = at_once(partition, [5, 10, 15, 20, 25, 30, 40, 50], depth)
            assert [row[0] for row in found[:3]] == [0, 0, -1]
            assert [row[4] for row in found[:4]] == [
                "before-start",
                "exact",
                "unreadable",
                "unreadable",
            ]
            assert found == one_by_one(partition, [5, 10, 15, 20, 25, 30, 40, 50], depth)


def test_a_damaged_index_is_not_trusted(tmp_path: Path) -> None:
    one = made(tmp_path, [b"".join(batch(n, 10 * n) for n in range(1, 9))], [0], 0, interval=0)
    index = one.path / f"{0:020d}.index"
    index.write_bytes(
        b"".join(
            index.read_bytes()[at : at + 4] + (at + 3).to_bytes(4, "big")
            for at in range(0, index.stat().st_size, 8)
        )
    )
    with one.open(clean=True) as partition:
        times = list(range(0, 90, 5))
        assert [row[:2] for row in at_once(partition, times, "tail")] == [
            one.first(t) for t in times
        ]


def test_what_is_asked_wrongly(tmp_path: Path) -> None:
    one = Made(tmp_path, BASE, [])
    with one.open() as partition:
        assert sweep(partition, np.array([5, 6])).words() == ["past-end", "past-end"]
        with pytest.raises(UsageError, match="ascend"):
            sweep(partition, np.array([6, 5]))
        with pytest.raises(UsageError, match="depth"):
            sweep(partition, np.array([6]), depth="deep")
