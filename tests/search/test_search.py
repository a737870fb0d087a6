"""Searches by time: every answer that a real broker gave, and the truth by brute force."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkats import search
from kafkats.compression import Codec, compress
from kafkats.errors import BadInput, CorruptBatch, CorruptIndex, KafkatsError, UsageError, Vanished
from kafkats.formats import dispatch
from kafkats.formats.message_set import encode_message
from kafkats.formats.model import Record
from kafkats.generations import SEARCH_RULES
from kafkats.index import time_index
from kafkats.search.broker import offsets_before
from tests.builders.directories import open_below
from tests.builders.partitions import (
    DAMAGE,
    NONE,
    Made,
    batch,
    made,
    partitions,
    write_indexes,
)
from tests.golden import Case, Unpacked, case, cases
from tests.index.generated import BASE, damaged_logs


def rule_of(kafka: str) -> str:
    version = tuple(int(part) for part in kafka.split(".")[:3])
    for since, rule in (
        ((3, 8), "3.8"),
        ((3, 0), "3.0"),
        ((0, 11), "0.11"),
        ((0, 10, 1), "0.10.1"),
    ):
        if version >= since:
            return rule
    return "0.8"


def searchable(case: Case, kafka: str, partition: str) -> bool:
    """Whether that broker searches a topic of this format by time."""
    settings = case.info["brokers"][-1].get("settings", {})
    version = case.topic_config(partition).get("message.format.version") or settings.get(
        "log.message.format.version"
    )
    return not version or rule_of(kafka) == "3.8" or not version.startswith(("0.8", "0.9"))


@pytest.fixture(scope="module")
def recorded(golden: Unpacked, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A case -> (what was recorded, the partition as it was when the broker was asked: with the mtimes of that moment)."""
    into = tmp_path_factory.mktemp("asked")

    def of(case: Case) -> Iterator[tuple[dict[str, Any], search.Partition]]:
        root = golden(case, case.states[-1])
        for asked in case.times():
            (found,) = root.rglob(asked["tp"])
            copy = into / case.name / asked["tp"]
            if not copy.exists():
                shutil.copytree(found, copy)
            for name, mtime_ms in asked["mtime_ms_of_logs_when_asked"].items():
                if (copy / name).exists():
                    os.utime(copy / name, ns=(mtime_ms * 10**6, mtime_ms * 10**6))
            clean = (found.parent / ".kafka_cleanshutdown").exists()
            served = searchable(case, asked["kafka"], asked["tp"])
            log_start = checkpoint(found.parent, asked["tp"])
            with search.Partition(
                copy, clean=clean, searchable=served, log_start_offset=log_start
            ) as partition:
                yield asked, partition

    return of


def checkpoint(root: Path, partition: str) -> int:
    file = root / "log-start-offset-checkpoint"
    lines = file.read_text().splitlines()[2:] if file.exists() else []
    entries = {f"{topic}-{number}": int(offset) for topic, number, offset in map(str.split, lines)}
    return entries.get(partition, 0)


ASKED = [case for case in cases() if (case.folder / "offsets_for_times.json.xz").exists()]


@pytest.mark.examples(20)
@pytest.mark.parametrize("case", ASKED, ids=str)
def test_answers_of_real_brokers(case: Case, recorded: Any) -> None:
    compared = 0
    for asked, partition in recorded(case):
        rule = rule_of(asked["kafka"])
        for target, theirs in asked["answers"]:
            where = asked["tp"], target
            compared += 1
            if rule == "0.8":
                assert theirs["offsets"] in by_segments(partition, target, asked), where
                continue
            ours = search.find(partition, target, rule)
            said = ours.offset, ours.timestamp
            assert said == ((theirs["offset"], theirs["timestamp"]) if theirs else NONE), (
                *where,
                ours,
            )
            assert ours.reason in search.REASONS
            if theirs and "leader_epoch" in theirs:
                assert ours.leader_epoch == theirs["leader_epoch"], where
    assert compared > 100


def by_segments(
    partition: search.Partition, target: search.Target, asked: dict[str, Any]
) -> list[list[int]]:
    """The broker's clock was at `asked_at_ms` or a little later: what it answers about the time in between is open."""
    clocks = {
        asked["asked_at_ms"],
        max(
            asked["asked_at_ms"],
            0 if isinstance(target, search.Word) else target + (target < 2**63 - 1),
        ),
    }
    return [offsets_before(partition, target, now_ms=now_ms) for now_ms in clocks]


SPECIALS = {"v1": (-1, -2), "v7": (-1, -2, -3), "v8": (-1, -2, -3, -4), "v9": (-1, -2, -3, -4, -5)}
"""ListOffsets of 3.8 and later: from which version on a negative time is a word."""


@pytest.mark.parametrize("case", ASKED, ids=str)
def test_special_times_of_real_brokers(case: Case, recorded: Any) -> None:
    compared = 0
    for asked, partition in recorded(case):
        rule = rule_of(asked["kafka"])
        for word, answers in asked["special"].items():
            for version, theirs in answers.items():
                where = asked["tp"], word, version
                compared += 1
                if version == "v0":
                    if theirs["error_code"] == 0:
                        assert theirs["offsets"] in by_segments(
                            partition, search.Word(int(word)), asked
                        ), where
                    else:
                        assert int(word) < -2
                        assert rule == "3.8", where
                    continue
                if rule == "3.8" and int(word) not in SPECIALS[version]:
                    assert theirs["error_code"] == 35, where
                    continue
                ours = search.find(partition, search.Word(int(word)), rule)
                assert (ours.offset, ours.timestamp) == (theirs["offset"], theirs["timestamp"]), (
                    *where,
                    ours,
                )
                if theirs["error_code"] == 43:
                    assert (ours.reason, partition.searchable) == ("no-timestamps", False)
                else:
                    assert theirs["error_code"] == 0
                if (
                    "leader_epoch" in theirs and word != "-1"
                ):  # of the latest offset it is the leader's own, in memory
                    assert ours.leader_epoch == theirs["leader_epoch"], (*where, ours)
    assert compared


# ---------------------------------------------------------------- brute force


@pytest.mark.slow(1)
@settings(deadline=None, max_examples=60)
@given(partitions())
def test_exact_answers_are_those_of_brute_force(
    parts: tuple[list[bytes], list[int], int, int],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = made(Path(folder), *parts)
        with one.open() as partition:
            for target in one.targets():
                for depth in search.DEPTHS:
                    ours = search.find_exact(partition, target, depth=depth)
                    assert (ours.offset, ours.timestamp) == one.first(target), (target, depth, ours)
                    check_reason(one, target, ours)


def check_reason(one: Made, target: int, ours: search.Answer) -> None:
    if ours.offset < 0 and one.log_start and one.records:
        assert ours.reason in (
            "past-end",
            "no-timestamps",
        )  # what is below the log start may still count as a timestamp
    elif ours.offset < 0:
        timed = any(r.timestamp != -1 for r in one.records)
        assert ours.reason == ("past-end" if timed or not one.records else "no-timestamps")
    elif ours.timestamp == target:
        assert ours.reason == "exact"
    elif ours.offset == one.records[0].offset:
        assert ours.reason == ("deleted" if one.log_start else "before-start")
    else:
        assert ours.reason == "first-after"


@pytest.mark.slow(2)
@settings(deadline=None, max_examples=80)
@given(
    partitions(),
    st.sampled_from(sorted(DAMAGE)),
    st.sampled_from([".index", ".timeindex"]),
    st.booleans(),
)
def test_no_index_misleads_the_exact_answer(
    parts: tuple[list[bytes], list[int], int, int], way: str, kind: str, clean: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = made(Path(folder), *parts)
        for path in one.path.glob(f"*{kind}"):
            DAMAGE[way](path)
        with one.open(clean=clean) as partition:
            for target in one.targets():
                for depth in ("full", "deep"):
                    ours = search.find_exact(partition, target, depth=depth)
                    assert (ours.offset, ours.timestamp) == one.first(target), (target, depth, ours)


@pytest.mark.slow(1)
@pytest.mark.parametrize("way", ["missing", "empty", "zeros", "odd", "half", "shifted", "reversed"])
@settings(deadline=None, max_examples=15)
@given(partitions())
def test_what_is_visibly_wrong_with_a_time_index_does_not_mislead_at_depth_tail(
    way: str, parts: tuple[list[bytes], list[int], int, int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = made(Path(folder), *parts)
        for path in one.path.glob("*.timeindex"):
            before = path.read_bytes()
            DAMAGE[way](path)
            if path.exists() and len(path.read_bytes()) == len(before) == 12 and way != "zeros":
                path.write_bytes(b"")  # an entry alone cannot be out of order
        with one.open(clean=True) as partition:
            for target in one.targets():
                ours = search.find_exact(partition, target, depth="tail")
                assert (ours.offset, ours.timestamp) == one.first(target), (target, ours)


BEFORE_1970 = bytes.fromhex(
    "00000000000003e80000000e795748e00000ffffffff00000000"
    "00000000000003e9000000164e69b4ce01008000000000000000ffffffff00000000"
)
"""A message without a time, and one whose time is the lowest of all."""


@pytest.mark.slow(2)
@settings(deadline=None, max_examples=60)
@example(([BEFORE_1970], [1000], 0, 0), 0)
@given(partitions(), st.integers(0, 10))
def test_brokers_find_the_exact_answer_where_everything_is_as_it_should_be(
    parts: tuple[list[bytes], list[int], int, int], margin: int
) -> None:
    """Sound indexes, no segment without timestamps that a file's time could speak for, nothing below the log start."""
    with tempfile.TemporaryDirectory() as folder:
        one = made(Path(folder), *parts[:2], 0, parts[3])
        for log in one.path.glob("*.log"):
            os.utime(log, (0, 0))
        with one.open(clean=True) as partition:
            for target in (t for t in one.targets() if t > 0):
                exact = search.find_exact(partition, target)
                reasons = {exact.reason, "weak-evidence"}
                if one.first(0)[0] < 0:  # times before 1970 are in no time index
                    reasons.add("no-timestamps")
                for rule in ("3.8", "3.0", "0.11"):
                    kafka = search.find(partition, target, rule)
                    assert kafka[:4] == exact[:4], (target, rule, kafka)
                    assert kafka.reason in reasons, (kafka, exact)
                    assert search.compare(partition, kafka, exact) == ""
                check_coarse(one, target, search.find(partition, target, "kip33"))
                check_safe(one, target, margin, search.find_safe(partition, target, margin))


def check_coarse(one: Made, target: int, coarse: search.Answer) -> None:
    """KIP-33's promise: nothing after the target is missed."""
    after = [r.offset for r in one.records if r.timestamp > target]
    assert (coarse.offset < 0) == (not after), coarse
    assert not after or coarse.offset <= after[0], coarse
    assert coarse.reason in ("coarse", "past-end")


def check_safe(one: Made, target: int, margin: int, safe: search.Answer) -> None:
    assert (safe.offset, safe.timestamp) == one.first(target - margin)
    assert safe.target_ms == target
    assert (safe.reason == "out-of-order-window") == (safe.offset != one.first(target)[0])


@pytest.mark.slow(2)
@settings(deadline=None, max_examples=150)
@given(
    damaged_logs(),
    st.sampled_from([".index", ".timeindex", ""]),
    st.binary(max_size=60),
    st.integers(-9, 70),
)
def test_damage_of_any_kind_ends_as_an_error_or_a_true_answer(
    log: bytes, kind: str, noise: bytes, target: int
) -> None:
    records, whole, decodable = readable(log)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{BASE:020d}.log")
        path.write_bytes(log)
        write_indexes(path)
        if kind:
            path.with_suffix(kind).write_bytes(noise)
        with search.Partition(folder, clean=True) as partition:
            for rule in SEARCH_RULES:
                with suppress(KafkatsError):
                    ours = search.find(partition, target, rule)
                    assert ours.reason in search.REASONS
                    if (
                        rule in ("3.8", "3.0", "0.11", "0.10.1")
                        and ours.offset >= 0
                        and target >= 0
                    ):
                        assert ours.timestamp >= target
            expected = next(
                ((r.offset, r.timestamp) for r in records if r.timestamp >= target), NONE
            )
            for depth in ("full", "deep") if target >= 0 else ():
                try:
                    exact = search.find_exact(partition, target, depth=depth)
                except CorruptBatch:
                    assert not whole, "the log is whole, and yet there was an error"
                    continue
                if depth == "full" and not decodable:
                    continue  # what no header speaks of is not decoded
                assert (exact.offset, exact.timestamp) == expected, (target, depth, exact)
                assert whole or expected != NONE, (
                    "behind what cannot be read there may be an earlier answer"
                )


def readable(log: bytes) -> tuple[list[Record], bool, bool]:
    """The records before the first corrupt batch, whether there is none (zeros at the end are none) nor an odd offset, and whether
    all records decode, up to a batch that has a corrupt frame."""
    records: list[Record] = []
    last, odd, decodable = BASE - 1, False, False
    try:
        for one in dispatch.batches(log):
            decodable = False
            records += dispatch.records(log, one)
            decodable = True
            odd = odd or max(one.base_offset, one.last_offset if one.magic < 2 else 0) <= last
            last = one.last_offset
            odd = odd or not BASE <= last < BASE + 2**31
    except CorruptBatch as e:
        return records, not odd and not any(log[e.position :]), decodable
    return records, not odd, True


# ---------------------------------------------------------------- what misleads, one by one


def touch(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


def test_a_young_file_without_timestamps_hides_all_behind_it(tmp_path: Path) -> None:
    one = made(tmp_path, [batch(0, -1, magic=0), batch(1, 5000), batch(2, 9000)], [0, 1, 2], 0)
    first = one.path / f"{0:020d}.log"
    with one.open(clean=True) as partition:
        kafka, exact = search.find(partition, 5000), search.find_exact(partition, 5000)
        assert (kafka.offset, kafka.reason, kafka.segment) == (-1, "weak-evidence", 0)
        assert "mtime" in kafka.evidence
        assert (exact.offset, exact.reason) == (1, "exact")
        assert search.compare(partition, kafka, exact) == "mtime"
    touch(first, 1)
    with one.open(clean=True) as partition:
        kafka = search.find(partition, 5000)
        assert (kafka.offset, kafka.reason) == (1, "exact"), (
            "a magic-0 segment that is skipped misses nothing"
        )


def test_a_lost_time_index_lets_a_segment_be_skipped(tmp_path: Path) -> None:
    one = made(tmp_path, [batch(0, 5000), batch(1, 9000)], [0, 1], 0)
    (one.path / f"{0:020d}.timeindex").unlink()
    touch(one.path / f"{0:020d}.log", 1)
    with one.open(clean=True) as partition:
        kafka, exact = (
            search.find(partition, 5000),
            search.find_exact(partition, 5000, depth="tail"),
        )
        assert (kafka.offset, kafka.reason) == (1, "weak-evidence")
        assert (exact.offset, exact.reason) == (0, "exact")
        assert "every batch header" in exact.evidence
        assert search.compare(partition, kafka, exact) == "mtime"


def test_a_missing_offset_index_is_built_as_a_start_would(tmp_path: Path) -> None:
    one = made(tmp_path, [batch(0, 5000), batch(1, 9000)], [0, 1], 0)
    for kind in ("index", "timeindex"):
        (one.path / f"{0:020d}.{kind}").unlink()
    touch(one.path / f"{0:020d}.log", 1)
    with one.open(clean=True) as partition:
        assert search.find(partition, 5000)[1:2] + search.find(partition, 5000)[4:5] == (0, "exact")


def test_the_first_segment_that_promises_ends_the_search(tmp_path: Path) -> None:
    """Its late record lies below the log start; the later segment that has one, too, is not tried."""
    one = made(
        tmp_path, [batch(0, 9000) + batch(1, 10), batch(2, 20), batch(3, 9000)], [0, 2, 3], 1
    )
    with one.open(clean=True) as partition:
        kafka, exact = search.find(partition, 9000), search.find_exact(partition, 9000)
        assert (kafka.offset, exact.offset) == (-1, 3)
        assert search.compare(partition, kafka, exact) == "first-segment-only"
        assert search.find(partition, 9000, "0.10.1").offset == 0, "0.10 knows no log start"
        assert search.find_exact(partition, 5).reason == "deleted"


def test_what_lies_above_the_high_watermark_is_not_seen(tmp_path: Path) -> None:
    one = made(tmp_path, [batch(0, 10) + batch(1, 20) + batch(2, 30)], [0], 0)
    with one.open(clean=True, high_watermark=2) as partition:
        assert search.find(partition, 20).offset == 1
        kafka, exact = search.find(partition, 30), search.find_exact(partition, 30)
        assert (kafka.offset, exact.offset) == (-1, 2)
        assert search.compare(partition, kafka, exact) == "high-watermark"
        assert search.find(partition, search.Word.LATEST).offset == 2
        assert search.find_exact(partition, search.Word.LATEST).offset == 3
        assert search.find(partition, 30, "0.10.1").offset == 2, (
            "0.10 lets the record at the high watermark through"
        )


def test_an_index_in_order_and_untrue_misleads_tail_and_full_is_the_remedy(tmp_path: Path) -> None:
    """What `lookup --help` says of --depth: the entry in the middle says that nothing of 3000 lies before offset 3."""
    log = b"".join(batch(n, time) for n, time in enumerate((1000, 3000, 2000, 3000, 5000)))
    one = made(tmp_path, [log], [0], 0, interval=1)
    index = one.path / f"{0:020d}.timeindex"
    entries = np.fromfile(index, time_index.ENTRY)
    assert entries.tolist() == [(3000, 1), (5000, 4)]
    entries[0] = (2999, 3)
    entries.tofile(index)
    with one.open(clean=True) as partition:
        answers = {
            depth: search.find_exact(partition, 3000, depth=depth) for depth in search.DEPTHS
        }
    assert {depth: (one.offset, one.reason) for depth, one in answers.items()} == {
        "tail": (3, "exact"), "full": (1, "exact"), "deep": (1, "exact"),
    }  # fmt: skip


def test_a_header_with_a_wrong_maximum_misleads_all_but_the_deep_search(tmp_path: Path) -> None:
    one = made(
        tmp_path,
        [batch(0, 10, max_timestamp=5) + batch(1, 50), batch(2, 99, max_timestamp=1000)],
        [0, 2],
        0,
    )
    with one.open(clean=True) as partition:
        assert search.find_exact(partition, 10, depth="deep").offset == 0
        assert search.find_exact(partition, 10).offset == 1
        assert search.find_exact(partition, 100) == (
            100,
            -1,
            -1,
            -1,
            "past-end",
            -1,
            "every batch header",
        )
        kafka = search.find(partition, 100)
        assert (kafka.offset, kafka.segment) == (-1, 2)
    shutil.rmtree(one.path)
    wrapper = encode_message(
        1,
        bytes((1, Codec.GZIP)) + (70).to_bytes(8, "big"),
        None,
        compress(Codec.GZIP, batch(0, 1, 2, magic=1)),
    )
    one = made(tmp_path, [wrapper + batch(2, 80, magic=1)], [0], 0)
    with one.open(clean=True) as partition:
        assert search.find(partition, 60, "0.11").offset == 2
        with pytest.raises(CorruptBatch, match=r"0\.10"):
            search.find(partition, 60, "0.10.1")


@pytest.mark.parametrize("rule", ["3.8", "3.0", "0.11", "0.10.1"])
def test_a_corrupt_batch_ends_as_an_error_not_as_an_answer(tmp_path: Path, rule: str) -> None:
    parts = [batch(0, 10), batch(1, 20), batch(2, 30)]
    one = made(tmp_path, [b"".join(parts)], [0], 0, interval=0)
    log = one.path / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[len(parts[0]) + 35] ^= 1  # the second batch's maximum
    log.write_bytes(data)
    with one.open(clean=True) as partition:
        assert search.find(partition, 10, rule).offset == 0
        for find in (
            lambda: search.find(partition, 15, rule),
            lambda: search.find_exact(partition, 15),
        ):
            with pytest.raises(CorruptBatch, match=r"CRC|crc") as caught:
                find()
            assert (caught.value.path, caught.value.position) == (str(log), len(parts[0]))
        for depth in search.DEPTHS:
            with pytest.raises(CorruptBatch):
                search.find_exact(partition, 15, depth=depth)
            if depth != "tail":
                assert search.find_exact(partition, 10, depth=depth).offset == 0
                with pytest.raises(CorruptBatch):
                    search.find_exact(partition, 2**40, depth=depth)


def test_an_offset_index_that_leads_into_a_batch_is_an_error(tmp_path: Path) -> None:
    one = made(tmp_path, [batch(0, 10) + batch(1, 20) + batch(2, 30, 31, 32)], [0], 0, interval=0)
    index = one.path / f"{0:020d}.index"
    entries = np.frombuffer(index.read_bytes(), ">i4").reshape(-1, 2).copy()
    for shift, raised in ((7, CorruptIndex), (-(2**20), CorruptIndex), (2**20, None)):
        wrong = entries.copy()
        wrong[:, 1] += shift
        index.write_bytes(wrong.tobytes())
        with one.open(clean=True) as partition:
            if raised:
                with pytest.raises(raised):
                    search.find(partition, 31)
            else:
                assert search.find(partition, 31)[1:6] == (-1, -1, -1, "untrusted-index", 0)
            assert search.find_exact(partition, 31).offset == 3


def test_a_time_index_that_is_not_in_order_is_not_trusted(tmp_path: Path) -> None:
    times = [10, 20, 30, 40, 50, 60, 70]
    one = made(
        tmp_path, [b"".join(batch(n, time) for n, time in enumerate(times))], [0], 0, interval=0
    )
    index = one.path / f"{0:020d}.timeindex"
    entries = index.read_bytes()
    index.write_bytes(b"".join(entries[at : at + 12] for at in range(len(entries) - 12, -1, -12)))
    with one.open(clean=True) as partition:
        for target in (5, 10, 11, 35):
            kafka = search.find(partition, target)
            assert kafka.offset == search.find_exact(partition, target, depth="tail").offset or kafka.reason in (
                "untrusted-index", "past-end",
            )  # fmt: skip
        assert search.find_exact(partition, 35, depth="tail")[1:3] == (3, 40)
        assert search.find(partition, 5, "kip33").reason == "untrusted-index"


def test_a_running_brokers_preallocated_indexes(tmp_path: Path) -> None:
    """Zeros behind the last entry, no closing entry: the largest timestamp is in the broker's memory, and in the log."""
    one = made(tmp_path, [b"".join(batch(n, 10 * n) for n in range(9))], [0], 0, interval=200)
    for kind, keep in ((".index", 16), (".timeindex", 24)):
        path = one.path / f"{0:020d}{kind}"
        path.write_bytes(path.read_bytes()[:keep] + bytes(2400))
    for live in (False, True):
        with one.open(live=live) as partition:
            for target in range(1, 81):
                assert search.find(partition, target)[1:3] == one.first(target)
                assert search.find_exact(partition, target, depth="tail")[1:3] == one.first(target)
            assert search.find(partition, 81)[1:5] == (-1, -1, -1, "past-end")
            assert search.find(partition, search.Word.MAX_TIMESTAMP)[1:3] == (8, 80)
            assert search.find(partition, search.Word.LATEST).offset == 9


def test_nothing_there(tmp_path: Path) -> None:
    empty = tmp_path / "empty-0"
    empty.mkdir()
    with search.Partition(empty, log_start_offset=7) as partition:
        for rule in SEARCH_RULES:
            assert search.find(partition, 5, rule).offset == -1
        assert search.find(partition, search.Word.EARLIEST).offset == 7
        assert search.find_exact(partition, search.Word.LATEST).offset == 7
        assert search.find_exact(partition, 5)[4:] == ("past-end", -1, "no records")
        assert search.find(partition, search.Word.MAX_TIMESTAMP).reason == "no-timestamps"
        with pytest.raises(UsageError, match=r"0\.10\.1"):
            search.find(partition, 5, "0.10")
        with pytest.raises(UsageError, match="tail"):
            search.find_exact(partition, 5, depth="shallow")
        with pytest.raises(UsageError, match="negative"):
            search.find_safe(partition, 5, -1)
    with pytest.raises(Vanished):
        search.Partition(tmp_path / "gone-0")


def test_a_log_that_goes_away_and_one_that_is_no_file(tmp_path: Path) -> None:
    one = made(tmp_path, [batch(0, 10), batch(1, 20)], [0, 1], 0)
    with one.open() as partition:
        (one.path / f"{1:020d}.log").unlink()
        os.mkfifo(one.path / f"{1:020d}.log")
        assert search.find(partition, 10).offset == 0
        with pytest.raises(BadInput, match="regular"):
            search.find_exact(partition, 20)
        (one.path / f"{1:020d}.log").unlink()
        with pytest.raises(Vanished):
            search.find(partition, 20)


def test_more_segments_than_are_held_open(tmp_path: Path) -> None:
    count = 150
    one = made(tmp_path, [batch(n, 10 * n) for n in range(count)], list(range(count)), 0)
    with one.open(clean=True) as partition:
        for _ in range(2):
            assert [search.find_exact(partition, 10 * n).offset for n in range(1, count)] == list(
                range(1, count)
            )
            assert [search.find(partition, 10 * n).offset for n in range(1, count)] == list(
                range(1, count)
            )
        assert 0 < open_below(tmp_path) <= 3 * 64
    assert open_below(tmp_path) == 0


@pytest.mark.parametrize("stale", [False, True])
@pytest.mark.parametrize(
    ("mtime_s", "answers"),
    [
        (1600000001, [29, 42, 42, 42]),
        (1600000080, [29, -1, -1, 42]),
        (1700000000, [29, -1, -1, -1]),
    ],
)
def test_an_empty_segment_without_its_index_ends_a_search_by_its_mtime(
    golden: Unpacked, tmp_path: Path, mtime_s: int, answers: list[int], stale: bool
) -> None:
    """Compaction leaves such segments. The answers are those of Kafka 2.8.2 and 4.3.1: a start builds both indexes
    again, so a time index that is left there counts for nothing."""
    source = golden(case("crash-4.3.1"), "after") / "untouched-0"
    directory = shutil.copytree(source, tmp_path / "untouched-0")
    log = directory / f"{30:020d}.log"
    log.write_bytes(b"")
    log.with_suffix(".index").unlink()
    if not stale:
        log.with_suffix(".timeindex").unlink()
    os.utime(log, (mtime_s, mtime_s))
    targets = [1600000020000, 1600000030000, 1600000069000, 1650000000000]
    with search.Partition(directory, clean=True) as partition:
        assert [search.find(partition, target).offset for target in targets] == answers
