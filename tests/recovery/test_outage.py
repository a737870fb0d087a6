"""Which partitions are recovered before a start, and which are left to the broker."""

from __future__ import annotations

import pytest

from kafkats.recovery.outage import (
    OURS,
    Load,
    Machine,
    broker_seconds,
    choose,
    is_worth,
    learned,
    next_slice,
    our_seconds,
    with_here,
)
from kafkats.recovery.rates import Rate

RATE = Rate("4.3.1", 0.38, 1.12e-6, 1.52e-6)
TWO = Machine(2, 2)
GB = 10**9


def loads(count: int, size: int, batch: int, log_dirs: int = 1, magic: int = 2) -> list[Load]:
    """`count` partitions of `size` bytes each, in batches of `batch` bytes."""
    n = size // batch
    return [
        Load(f"/d{i % log_dirs}", f"t-{i}", 1, size, n if magic == 2 else 0, n if magic < 2 else 0)
        for i in range(count)
    ]


def test_small_batches_are_recovered_here() -> None:
    choice = choose(loads(45, GB // 4, 120, magic=1), RATE, TWO)
    assert (len(choice.here), choice.left) == (45, ())
    assert choice.alone > 8 * (choice.ours + choice.rest)


def test_thousands_of_tiny_logs_are_left_to_the_broker() -> None:
    choice = choose(loads(4000, 20_000, 16_384), RATE, TWO)
    assert (choice.here, choice.ours) == ((), 0.0)
    assert choice.rest == choice.alone


def test_tiny_logs_are_left_where_large_ones_are_worth_it() -> None:
    small, large = loads(4000, 20_000, 16_384), loads(20, GB, 200, log_dirs=2)
    choice = choose(small + large, RATE, TWO)
    assert {one.log_bytes for one in choice.here[:20]} == {GB}
    assert len(choice.left) > 3000
    assert choice.ours + choice.rest < choice.alone * 0.85


def test_partitions_that_are_needed_here_come_first() -> None:
    large = [one._replace(log_dir="/large") for one in loads(20, GB, 200)]
    choice = choose(loads(4000, 20_000, 16_384) + large, RATE, TWO)
    needed = [choice.left[7], choice.here[3]]
    changed = with_here(choice, {one.where for one in needed})
    assert {*changed.here[:2]} == {*needed}
    assert {*changed.here} == {*choice.here, choice.left[7]}
    assert {*changed.left} == {*choice.left} - {choice.left[7]}


@pytest.mark.parametrize("batch", [100, 1000, 16_384, 1_000_000])
@pytest.mark.parametrize("size", [1, 10**5, 10**8, 10**9])
@pytest.mark.parametrize("count", [1, 45, 2000])
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_no_mix_is_estimated_to_take_two_seconds_longer(
    batch: int, size: int, count: int, threads: int
) -> None:
    choice = choose(loads(count, size, batch, log_dirs=3), RATE, Machine(2, threads))
    assert choice.ours + choice.rest < choice.alone + 2
    assert len(choice.here) + len(choice.left) == count


def test_a_few_small_logs_are_recovered_here_for_the_sake_of_their_records() -> None:
    assert len(choose(loads(5, 10_000, 500), RATE, TWO).here) == 5


def test_a_broker_reads_one_partition_with_one_thread() -> None:
    [one] = loads(1, GB, 1000)
    assert broker_seconds([one], RATE, Machine(8, 8)) == pytest.approx(0.38 + 1.12, abs=0.01)
    two = loads(2, GB, 1000, log_dirs=2)
    assert broker_seconds(two, RATE, Machine(8, 1)) == pytest.approx(1.5, abs=0.01)
    assert broker_seconds(two, RATE, Machine(1, 1)) == pytest.approx(3.0, abs=0.01)


def test_nothing_to_recover() -> None:
    assert choose([], RATE, TWO) == ((), (), 0.0, 0.0, 0.0)


def test_slices_take_about_the_time_that_is_asked_for() -> None:
    some = loads(10, GB, 16_384)
    each = our_seconds(some[:1], OURS, TWO)
    assert next_slice(some, each * 3.5, OURS, TWO) == 3
    assert next_slice(some, each / 2, OURS, TWO) == 1
    assert next_slice(some, each * 99, OURS, TWO) == 10


def test_a_disk_that_flushes_slowly_leaves_small_logs_to_the_broker() -> None:
    small = loads(400, 2_000_000, 100)
    first = choose(small, RATE, TWO)
    assert first.here
    slow = learned(OURS, small[:20], 20.0, TWO)
    assert slow.per_partition > OURS.per_partition
    fine = is_worth(small[20:], RATE, TWO, OURS, took=2.0, alone=first.alone)
    assert fine and not is_worth(small[20:], RATE, TWO, slow, took=22.0, alone=first.alone)


def test_a_start_gets_a_little_longer_once_not_with_each_slice() -> None:
    some = loads(100, 1_000_000, 16_384)
    alone = broker_seconds(some, RATE, TWO)
    assert is_worth(some, RATE, TWO, OURS, took=0.1, alone=alone)
    assert not is_worth(some, RATE, TWO, OURS, took=1.5, alone=alone)


def test_a_disk_that_reads_slowly_teaches_nothing() -> None:
    large = loads(3, GB, 16_384)
    assert learned(OURS, large, 60.0, TWO) == OURS
    assert learned(OURS, large, 0.1, TWO) == OURS
