"""Pieces of any size, from indexes true or not, are the whole; what offsets, transactions and damage leave of it, against plain models."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.errors import BadInput, Changed, CorruptBatch, CorruptIndex, KafkatsError, UsageError
from kafkats.formats import dispatch, v0, v1, v2
from kafkats.formats.control import ControlType, encode_end_marker
from kafkats.formats.model import Codec, Record, TimestampType
from kafkats.paths import LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX, segment_file
from kafkats.plans.units import list_units
from kafkats.records.piece import Piece, Skipped, read_piece
from kafkats.records.plan import EARLIEST, LATEST, ReadOptions, plan_read
from kafkats.segment.arrow import COLUMNS
from tests.builders.logs import build
from tests.index.generated import BASE, damaged_logs, logs

Row = tuple[int, bytes | None]


@contextmanager
def partition(
    segments: dict[int, bytes], files: dict[str, bytes] | None = None, name: str = "t-0"
) -> Generator[Path, None, None]:
    """A partition directory of these logs, with the indexes that a rebuild makes, or those that are given."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder, "data", name)
        directory.mkdir(parents=True)
        for base, data in segments.items():
            built = build(np.frombuffer(data, np.uint8), base, index_interval_bytes=64)
            (directory / segment_file(base, LOG)).write_bytes(data)
            (directory / segment_file(base, OFFSET_INDEX)).write_bytes(built.offset_index)
            (directory / segment_file(base, TIME_INDEX)).write_bytes(built.time_index)
        for file, data in (files or {}).items():
            (directory / file).write_bytes(data)
        yield directory


def read(path: Path, *, control: bool = True, on_skip: Any = None, **options: Any) -> list[Row]:
    pieces = plan_read([path], ReadOptions(**options))
    return [row for piece in pieces for row in rows_of(piece, control=control, on_skip=on_skip)]


def rows_of(piece: Piece, **how: Any) -> Iterator[Row]:
    for batch in read_piece(piece, COLUMNS, **how):
        assert batch.num_rows > 0
        batch.validate(full=True)
        yield from zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)


def plain(data: bytes) -> list[Row]:
    return [
        (r.offset, r.value)
        for batch in dispatch.batches(data)
        for r in dispatch.records(data, batch)
    ]


@pytest.mark.slow(3)
@settings(max_examples=150, deadline=None)
@given(logs(), st.integers(1, 400), st.integers(BASE - 3, BASE + 60), st.integers(0, 60), st.data())
def test_any_pieces_are_the_whole(
    data: bytes, size: int, begin: int, more: int, choose: st.DataObject
) -> None:
    """Also where the offset index lies: an entry with another position or offset, or anything at all."""
    index = choose.draw(
        st.none()
        | st.binary(max_size=64)
        | st.lists(st.tuples(st.integers(0, 60), st.integers(0, 900)))
    )
    if isinstance(index, list):
        index = b"".join(struct.pack(">ii", *entry) for entry in sorted(index))
    files = {} if index is None else {segment_file(BASE, OFFSET_INDEX): index}
    with partition({BASE: data}, files) as directory:
        whole = plain(data)
        assert read(directory, piece_bytes=size) == whole
        wanted = {"starting_offsets": {("t", 0): begin}, "ending_offsets": {("t", 0): begin + more}}
        found = read(directory, piece_bytes=size, fail_on_data_loss=False, **wanted)
        assert found == [row for row in whole if begin <= row[0] < begin + more]


@pytest.mark.parametrize(
    "encode", [v0.encode_batch, v1.encode_batch, v2.encode_batch], ids=["v0", "v1", "v2"]
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_an_index_entry_with_too_low_an_offset_hides_no_record(encode: Any, codec: Codec) -> None:
    """The entry claims offset 50 at the position of offset 120: a read from 60 on must not trust it."""
    frames = [
        encode(
            [Record(10 * n + i, -1, TimestampType.NONE, b"k", b"v") for i in range(10)], codec=codec
        )
        for n in range(20)
    ]
    position = sum(len(frame) for frame in frames[:12])
    files = {segment_file(0, OFFSET_INDEX): struct.pack(">ii", 50, position)}
    with partition({0: b"".join(frames)}, files) as directory:
        found = read(directory, piece_bytes=100, starting_offsets={("t", 0): 60})
    assert [offset for offset, _ in found] == list(range(60, 200))


@pytest.mark.slow(4)
@settings(max_examples=150, deadline=None)
@given(damaged_logs(), st.integers(1, 400), st.booleans())
def test_damage_is_an_error_or_is_told(data: bytes, size: int, last: bool) -> None:
    """Rows up to it, then CorruptBatch; or all that is sound in front of it, and what was left out."""
    behind = {BASE + 10_000: b""} if not last else {}
    skipped: list[Skipped] = []
    with partition({BASE: data} | behind) as directory:
        found: list[Row] = []
        error: KafkatsError | None = None
        try:
            for piece in plan_read([directory], ReadOptions(piece_bytes=size)):
                found += rows_of(piece, control=True)
        except CorruptBatch as e:
            error = e
            assert e.path is not None and e.position is not None
        tolerant = read(directory, piece_bytes=size, on_skip=skipped.append)
    expected: list[Row] = []
    sound = 0
    try:
        for batch in dispatch.batches(data):
            expected += [(r.offset, r.value) for r in dispatch.records(data, batch)]
            sound = batch.position + batch.size
        quiet = last or sound == len(data)
    except CorruptBatch:
        quiet = last and not any(data[sound:])
    assert tolerant[: len(expected)] == expected
    assert bool(skipped) == (error is not None)
    if quiet:
        assert error is None and found == expected
    else:
        assert error is not None
        assert found == expected[: len(found)], "nothing behind the damage"
        assert min(one.position for one in skipped) == sound


# ---------------------------------------------------------------- transactions


class Log:
    """Transactions of a few producers as a broker writes them, with the .txnindex; and which records a consumer must see."""

    def __init__(self) -> None:
        self.offset = 0
        self.batches: list[bytes] = []
        self.aborted: list[tuple[int, int, int, int, int]] = []
        self.open: dict[int, list[int]] = {}
        self.visible: set[int] = set()
        self.markers: set[int] = set()

    def records(self, producer: int, count: int, *, transactional: bool) -> None:
        offsets = list(range(self.offset, self.offset + count))
        records = [Record(o, 100 + o, TimestampType.CREATE_TIME, None, b"%d" % o) for o in offsets]
        self.batches.append(
            v2.encode_batch(
                records,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=0,
                transactional=transactional,
            )
        )
        self.offset += count
        if transactional:
            self.open.setdefault(producer, []).extend(offsets)
        else:
            self.visible.update(offsets)

    def end(self, producer: int, kind: ControlType) -> None:
        key, value = encode_end_marker(kind, 0)
        marker = Record(self.offset, 100 + self.offset, TimestampType.CREATE_TIME, key, value)
        self.batches.append(
            v2.encode_batch(
                [marker], producer_id=producer, producer_epoch=0, transactional=True, control=True
            )
        )
        self.markers.add(self.offset)
        offsets = self.open.pop(producer, [])
        if kind is ControlType.COMMIT:
            self.visible.update(offsets)
        elif offsets:
            self.aborted.append((0, producer, offsets[0], self.offset, 0))
        self.offset += 1

    @property
    def stable(self) -> int:
        return min((offsets[0] for offsets in self.open.values()), default=self.offset)

    def written(self, cut: int) -> tuple[dict[int, bytes], dict[str, bytes]]:
        """Two segments, the second from batch `cut` on, each with the .txnindex of the markers in it."""
        parts = {0: self.batches[:cut], 1: self.batches[cut:]}
        first = (
            struct.unpack(">q", self.batches[cut][:8])[0]
            if cut < len(self.batches)
            else self.offset
        )
        bases = {0: 0, 1: first} if first else {1: 0}
        entries = {
            base: [e for e in self.aborted if (e[3] >= first) == bool(n)]
            for n, base in bases.items()
        }
        files = {
            segment_file(base, TXN_INDEX): b"".join(struct.pack(">hqqqq", *e) for e in of) for base, of in entries.items() if of
        }  # fmt: skip
        return {
            base: b"".join(parts[n] if first else self.batches) for n, base in bases.items()
        }, files


STEPS = st.lists(
    st.tuples(st.sampled_from(["data", "data", "plain", "commit", "abort"]), st.sampled_from([5, 6, 7]), st.integers(1, 4)),
    max_size=25,
)  # fmt: skip


def played(steps: list[tuple[str, int, int]]) -> Log:
    log = Log()
    for what, producer, count in steps:
        if what == "data":
            log.records(producer, count, transactional=True)
        elif what == "plain":
            log.records(-1, count, transactional=False)
        else:
            log.end(producer, ControlType.COMMIT if what == "commit" else ControlType.ABORT)
    return log


@pytest.mark.slow(2)
@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(0, 25), st.integers(1, 500), st.booleans())
def test_read_committed(
    steps: list[tuple[str, int, int]], cut: int, size: int, control: bool
) -> None:
    log = played(steps)
    segments, files = log.written(min(cut, len(log.batches)))
    with partition(segments, files) as directory:
        found = [
            offset
            for offset, _ in read(directory, committed=True, piece_bytes=size, control=control)
        ]
        everything = [offset for offset, _ in read(directory, piece_bytes=size)]
    assert everything == list(range(log.offset))
    shown = log.visible | log.markers if control else log.visible
    assert found == sorted(o for o in shown if o < log.stable)


def test_an_abort_that_no_index_knows() -> None:
    log = played([
        ("data", 5, 2),
        ("data", 6, 2),
        ("commit", 6, 0),
        ("abort", 5, 0),
        ("plain", 0, 1),
    ])
    segments, files = log.written(0)
    with partition(segments) as directory:
        assert len(read(directory, control=False)) == 5
        with pytest.raises(
            CorruptIndex,
            match=r"aborts the transaction of producer 5 with offset 0 at offset 5, and no .txn",
        ):
            read(directory, committed=True)
    with partition(segments, files) as directory:
        assert [offset for offset, _ in read(directory, committed=True, control=False)] == [2, 3, 6]
        # Of one segment named by its path the neighbours' indexes count, too.
        assert read(directory / segment_file(0, LOG), committed=True, control=False) == [
            (2, b"2"),
            (3, b"3"),
            (6, b"6"),
        ]


# ---------------------------------------------------------------- what is asked for


def some(count: int, first: int = 0) -> bytes:
    return b"".join(
        v2.encode_batch([Record(o, 100 + 10 * o, TimestampType.CREATE_TIME, None, b"v")])
        for o in range(first, first + count)
    )


def test_topics_and_internal_topics(tmp_path: Path) -> None:
    for name in (
        "a-0",
        "b-0",
        "b-1",
        "__consumer_offsets-0",
        "gone-0.0123456789abcdef0123456789abcdef-delete",
    ):
        directory = tmp_path / "data" / name
        directory.mkdir(parents=True)
        (directory / segment_file(0, LOG)).write_bytes(some(2))

    def topics(path: Path, *globs: str) -> list[tuple[str, int]]:
        return [piece[1:3] for piece in plan_read([path], ReadOptions(topics=globs))]

    root = tmp_path / "data"
    assert topics(root) == [("a", 0), ("b", 0), ("b", 1)]
    assert topics(root, "*") == [("__consumer_offsets", 0), ("a", 0), ("b", 0), ("b", 1)], (
        "as for every command"
    )
    assert topics(root, "*[ab_]*") == [("a", 0), ("b", 0), ("b", 1)], (
        "no other glob than one that begins so"
    )
    assert topics(root, "b*") == [("b", 0), ("b", 1)]
    assert topics(root, "a", "__*") == [("__consumer_offsets", 0), ("a", 0)]
    assert topics(root / "__consumer_offsets-0") == [("__consumer_offsets", 0)]
    assert topics(root / "gone-0.0123456789abcdef0123456789abcdef-delete") == [("gone", 0)]


def test_offsets_and_times() -> None:
    with partition({0: some(10), 10: some(10, 10)}) as directory:
        (directory.parent / "log-start-offset-checkpoint").write_text("0\n1\nt 0 3\n")

        def offsets(**options: Any) -> list[int]:
            return [offset for offset, _ in read(directory.parent, **options)]

        assert offsets() == list(range(3, 20)), "from the log start on"
        assert offsets(starting_offsets=LATEST) == []
        assert offsets(starting_timestamp=141) == list(range(5, 20))
        assert offsets(starting_timestamp=0, ending_timestamp=210) == list(range(3, 11))
        assert offsets(starting_timestamp=10_000) == []
        for begin, end, wanted in (
            (EARLIEST, 12, range(3, 12)),
            (12, LATEST, range(12, 20)),
            (5, 5, range(0)),
            (LATEST, LATEST, range(0)),
        ):
            given = {"starting_offsets": {("t", 0): begin}, "ending_offsets": {("t", 0): end}}
            assert offsets(**given) == list(wanted)
        for begin, end, words in (
            (2, LATEST, "has offsets 3 to 20, not 2; failOnDataLoss=false"),
            (EARLIEST, 21, "has offsets 3 to 20, not 21"),
            (9, 8, "offset 8 to end at lies before 9"),
        ):
            with pytest.raises(UsageError, match=words):
                offsets(starting_offsets={("t", 0): begin}, ending_offsets={("t", 0): end})
        with pytest.raises(UsageError, match="startingOffsets names u-0, which is not there"):
            offsets(starting_offsets={("t", 0): 3, ("u", 0): 3})
        with pytest.raises(UsageError, match="endingOffsets does not name t-0"):
            offsets(ending_offsets={})


def test_only_what_is_wanted_is_read() -> None:
    data = some(5000)
    with partition({0: data, 5000: some(10, 5000)}) as directory:
        wanted = {"starting_offsets": {("t", 0): 4000}, "ending_offsets": {("t", 0): 4010}}
        (piece,) = plan_read([directory], ReadOptions(**wanted, piece_bytes=100_000))
        assert piece.base_offset == 0 and piece.end - piece.start < 3000
        times = ReadOptions(
            starting_timestamp=100 + 49_990, ending_timestamp=100 + 50_020, piece_bytes=100_000
        )
        pieces = plan_read([directory], times)
        assert [one.base_offset for one in pieces] == [0, 5000]
        assert pieces[0].start > len(data) - 500


def test_a_partition_twice() -> None:
    with partition({0: some(2)}) as one, partition({0: some(2)}) as other:
        with pytest.raises(
            UsageError, match=r"t-0 lies in .* and in .*: its records would come twice"
        ):
            plan_read([one, other], ReadOptions())
        assert len(plan_read([one, one, one.parent], ReadOptions())) == 1


def test_a_file_that_was_cut_since() -> None:
    with partition({0: some(5)}) as directory:
        (piece,) = plan_read([directory], ReadOptions())
        Path(piece.log).write_bytes(some(3))
        with pytest.raises(Changed, match=r"bytes, and .* when it was listed"):
            list(read_piece(piece, COLUMNS))


def test_what_a_broker_appends_after_the_listing_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last batch may be half written."""
    with partition({0: some(5000)}) as directory:
        listed = list(list_units([directory]))
        with partition({0: some(9000) + some(1, 9000)[:30]}) as later:
            for file in later.iterdir():
                (directory / file.name).write_bytes(file.read_bytes())
        monkeypatch.setattr("kafkats.records.plan.list_units", lambda *_, **__: iter(listed))
        pieces = plan_read([directory], ReadOptions(piece_bytes=100_000))
        assert len(pieces) > 1 and pieces[-1].log_end
        assert [row[0] for piece in pieces for row in rows_of(piece)] == list(range(5000))


def test_what_cannot_be_seen(tmp_path: Path) -> None:
    with partition({0: some(2)}) as directory:
        log = directory / segment_file(2, LOG)
        log.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(BadInput, match=r"no regular file.*its records cannot be seen"):
            plan_read([directory], ReadOptions())
        (tmp_path / "elsewhere").touch()
        with pytest.raises(BadInput, match=r"a symbolic link.*its records cannot be seen"):
            plan_read([directory], ReadOptions())
