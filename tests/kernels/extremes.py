"""Every kernel over every case of `inputs`, between unreadable pages, held against the plain decoders.

    python -m tests.kernels.extremes FILE

A process of its own, with NUMBA_BOUNDSCHECK=1 and a cache of its own: compiled code with and without the check must not
meet. FILE says which case is at work, for a process that was killed. Prints how many cases there were, by kernel.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numba
import numpy as np

from kafkats.errors import Changed, CorruptBatch, KafkatsError, NotConvertible
from kafkats.formats import dispatch
from kafkats.formats.build import Target
from kafkats.formats.convert import convert_segment
from kafkats.generations import DEFAULT_RULE
from kafkats.index.build import build_from
from kafkats.kernels import cells, convert_state, walk_state
from kafkats.kernels import ends as ends_module
from kafkats.kernels import ends_state as e
from kafkats.kernels import headers_state as header_kernel
from kafkats.kernels.convert import convert as convert_kernel
from kafkats.kernels.crc import crc_addresses
from kafkats.kernels.headers import headers as headers_kernel
from kafkats.segment import columns as columns_module
from kafkats.segment import convert as convert_module
from kafkats.segment import unpack as unpack_module
from kafkats.segment import walk as walk_module
from kafkats.segment.convert import Conversion, convert_source
from kafkats.segment.deep import look_at_records
from kafkats.segment.headers import batch_headers
from kafkats.segment.reader import Source
from kafkats.segment.search import Searcher
from kafkats.segment.walk import walk
from tests.builders.columns import believed, expected, read
from tests.index.reference import build_reference, facts_of, read_batches, untrue_entries
from tests.kernels.guarded import Guarded, GuardedNumpy, GuardedSource
from tests.kernels.inputs import Case, cases, sample

_LOG: Final = Guarded(64 * 1024)
_INDEXES: Final = (Guarded(4096), Guarded(4096))
_HEAD: Final = Guarded(4096)
_NUMBERS: Final = (-(2**63), -1, 0, 71, 2**63 - 1)
_TARGETS: Final = (Target(0), Target(1, 0), Target(1, 3), Target(2), Target(2, 0), Target(2, 3))  # type: ignore[arg-type]
_SHOWN: Final = 20
_WATCHED: Final = 500
_STUCK_SECONDS: Final = 1200
LAYOUTS: Final = ((1, True), (1, False), (64 * 1024, True), (64 * 1024, False))
"""Windows: of as few bytes as were asked for, or of everything; at the page behind, or at the page before."""


def opened(case: Case, step: int, last: bool) -> Source:
    return GuardedSource(case.log, step=step, last=last, region=_LOG).source()


def segments(case: Case, source: Source) -> None:
    """walk, entries: facts and both indexes, and what is untrue of existing entries."""
    facts = facts_of(case.log, case.base_offset)
    built = build_from(source, case.base_offset, DEFAULT_RULE, 1, 4096)
    if (
        facts.first_offset < 0 <= built.facts.first_offset
        or built.facts.first_offset < 0 <= facts.first_offset
    ):
        facts = facts._replace(first_offset=built.facts.first_offset)
    assert built.facts == facts, (built.facts, facts)
    plain = build_reference(
        case.log, case.base_offset, index_interval_bytes=1, segment_index_bytes=4096
    )
    assert built.blocked == plain.blocked
    if not plain.blocked:
        assert (built.offset_index, built.time_index) == (plain.offset_index, plain.time_index)
    walked = walk(
        source, case.base_offset, offset_entries=case.offset_entries, time_entries=case.time_entries
    )
    offsets = [
        _pair(case.offset_entries[n : n + 8], 4) for n in range(0, len(case.offset_entries), 8)
    ]
    times = [_pair(case.time_entries[n : n + 12], 8) for n in range(0, len(case.time_entries), 12)]
    untrue = untrue_entries(case.log, case.base_offset, [o for o in offsets if o[1] >= 0], times)
    assert walked.offset_entries.wrong == len(untrue.offset_entries), untrue
    assert walked.time_entries.wrong == len(untrue.time_entries), untrue


def _pair(data: bytes, first: int) -> tuple[int, int]:
    return int.from_bytes(data[:first], "big", signed=True), int.from_bytes(
        data[first:], "big", signed=True
    )


def headers(case: Case, source: Source) -> None:
    wanted, found = [], []
    error: CorruptBatch | None = None
    try:
        for batch in dispatch.batches(case.log, verify=False):
            wanted.append(expected(batch))
    except CorruptBatch as e:
        error = e
    try:
        for rows in batch_headers(source):
            found += rows.tolist()
    except CorruptBatch as e:
        assert error is not None and e.position == error.position, (e, error)
    else:
        assert error is None, error
    assert found == wanted


def columns(case: Case, source: Source) -> None:
    records, fields, error = read(source, room=64)
    wanted, wanted_fields, wanted_error = believed(case.log)
    assert (records, fields) == (wanted[: len(records)], wanted_fields[: len(fields)])
    assert (error is None) == (wanted_error is None), (error, wanted_error)
    if error is None:
        assert records == wanted


def searches(case: Case, source: Source) -> None:
    log = _OpenLog(source)
    searcher = Searcher()
    targets = np.array(sorted(_NUMBERS), np.int64)
    for position in (0, len(case.log) // 3, len(case.log)):
        for target in _NUMBERS:
            for equal, strict in ((False, False), (True, False), (False, True)):
                start = -(2**63) if position else case.base_offset + 4
                _ours(lambda: searcher.first_record(  # type: ignore[call-overload]
                    log, position, target, start_offset=start, equal=equal, strict=strict  # noqa: B023
                ))  # fmt: skip
    found = np.full((len(targets), 3), -1, np.int64)
    _ours(lambda: searcher.sweep(log, targets, np.zeros(len(targets), np.int64), found))  # type: ignore[arg-type]


def ends(case: Case, source: Source) -> None:
    """judge_indexes, judge_last, judge_ends: nothing beside the bytes of a row is read."""
    entries = (case.offset_entries, case.time_entries)
    if not any(entries):
        built = build_from(source, case.base_offset, DEFAULT_RULE, 1, 4096)
        entries = (built.offset_index, built.time_index)
    if len(case.log) % 2:
        entries, judge = (entries[0][-8:], entries[1][-12:]), ends_module.judge_last
    else:
        judge = ends_module.judge_indexes
    row = np.zeros((1, e.COLUMNS), np.int64)
    row[0, [e.BASE_OFFSET, e.LOG_BYTES, e.SOUND]] = case.base_offset, len(case.log), 1
    row[0, [e.OFFSET_BYTES, e.TIME_BYTES]] = [len(one) for one in entries]
    row[0, [e.OFFSETS, e.TIMES]] = [
        region.put(one, last=True) for region, one in zip(_INDEXES, entries, strict=True)
    ]
    judge(row)
    row[0, e.SOUND] &= row[0, e.START] == 0 or len(case.log) >= e.HEAD_BYTES
    row[0, e.HEAD] = _HEAD.put(case.log[: e.HEAD_BYTES], last=True)
    row[0, e.TAIL] = _LOG.put(case.log[row[0, e.START] :] if row[0, e.SOUND] else b"", last=True)
    state, points = walk_state.new_state(), np.empty((1, walk_state.POINT_COLUMNS), np.int64)
    state[walk_state.CRC32], state[walk_state.CRC32C] = crc_addresses()
    ends_module.judge_ends(row, state, walk_state.new_table(), points)
    if row[0, e.SOUND]:
        facts = facts_of(case.log, case.base_offset)
        assert (row[0, e.LAST_OFFSET], facts.stop) == (facts.last_offset, None)


class _OpenLog:
    """What a Searcher wants of a log."""

    def __init__(self, source: Source) -> None:
        self.source, self.size, self.path = source, source.size, "log"


def _ours(call: Callable[[], object]) -> None:
    try:
        call()
    except CorruptBatch:
        pass
    except KafkatsError as e:
        assert isinstance(e, Changed), e


def deep(case: Case, source: Source) -> None:
    """records: of what was walked, and of bytes that nobody walked, as in a file that was changed meanwhile."""
    facts = facts_of(case.log, case.base_offset)
    undecodable = [b.position for b in read_batches(case.log)[0] if not _decodes(case.log, b)]
    looked = look_at_records(source, facts)
    assert looked.undecodable == len(undecodable)
    assert looked.undecodable_position == (undecodable[0] if undecodable else -1)
    look_at_records(source, facts._replace(valid_bytes=len(case.log)))


def _decodes(log: bytes, batch: Any) -> bool:
    try:
        dispatch.records(log, batch)
    except CorruptBatch:
        return False
    return True


def conversions(case: Case, source: Source) -> None:
    turn = len(case.name) % 3
    for target in (_TARGETS[turn], _TARGETS[turn + 3]):
        for log_end in (False, True):
            wanted = _converted(
                lambda target=target, log_end=log_end: (
                    convert_segment(case.log, case.base_offset, target, log_end=log_end).data
                )
            )
            parts: list[bytes] = []
            got = _converted(lambda: convert_source(
                source, case.base_offset, target, lambda data: parts.append(bytes(data)), log_end=log_end  # noqa: B023
            ))  # fmt: skip
            assert isinstance(got, Conversion) == isinstance(wanted, bytes), (
                target,
                log_end,
                got,
                wanted,
            )
            if isinstance(wanted, bytes):
                assert b"".join(parts) == wanted, (target, log_end)


def _converted(call: Callable[[], object]) -> object:
    try:
        return call()
    except (CorruptBatch, NotConvertible) as e:
        return type(e), e.position


KERNELS: Final[dict[str, Callable[[Case, Source], None]]] = {
    "walk": segments,
    "ends": ends,
    "headers": headers,
    "columns": columns,
    "search": searches,
    "records": deep,
    "convert": conversions,
}


def alone() -> None:
    """What the callers of kernels never do: positions before the window, rows beyond the cells."""
    picked = np.empty((3, 4), np.int64), np.empty(4, np.int32), np.empty(4, np.int8)
    table = np.zeros((2, cells.COLUMNS), np.int64)
    cells.pick(
        table,
        np.array([-1, 2, 2**62, -(2**63)]),
        np.zeros(4, np.int64),
        np.array([0, 1, 2, 3]),
        *picked,
    )
    assert picked[2].tolist() == [3, 3, 3, 3]
    state = np.zeros(header_kernel.STATE_SLOTS, np.int64)
    state[: header_kernel.NEEDED] = _LOG.address, 100, 200, 200, 200, -(2**63)
    assert (
        headers_kernel(state, np.empty((4, header_kernel.COLUMNS), np.int64))
        == header_kernel.STOPPED
    )
    state = convert_state.new_state()
    state[: convert_state.NEEDED] = _LOG.address, 100, 200, 200, 200, 0
    assert convert_kernel(state) == convert_state.STOPPED


def main(note: Path) -> None:
    assert numba.config.BOUNDSCHECK or os.environ.get("KAFKATS_KERNELS")
    shim: Any = GuardedNumpy()
    for module in (columns_module, convert_module, unpack_module):
        module.np = shim  # type: ignore[attr-defined]
    convert_module._PIECE, convert_module._ROOM, convert_module._AREA = 64, 128, 64  # type: ignore[misc]
    convert_module._PLAIN = columns_module._JOINED = unpack_module._ROOM = 64 * 1024  # type: ignore[misc]
    index = iter(range(2**62))
    walk_module._address = lambda data: _INDEXES[next(index) % 2].put(data, last=True)
    alone()
    counts: Counter[str] = Counter()
    failed = 0
    given = cases() if os.environ.get("KAFKATS_FULL") else sample()
    with note.open("w", encoding="utf-8") as file:
        for number, case in enumerate(given):
            if number % _WATCHED == 0:
                faulthandler.dump_traceback_later(_STUCK_SECONDS, exit=True)
            for name, drive in KERNELS.items():
                if name not in ("walk", "ends") and (case.offset_entries or case.time_entries):
                    continue
                step, last = LAYOUTS[(number + number // 4) % 4]
                file.seek(0)
                file.write(f"{name}: {case.name}, windows of {step}, last {last}".ljust(200))
                file.flush()
                try:
                    drive(case, opened(case, step, last))
                except Exception as e:
                    failed += 1
                    if failed <= _SHOWN:
                        print(
                            f"{name}: {case.name}, windows of {step}, last {last}: {repr(e)[:500]}",
                            file=sys.stderr,
                        )
                counts[name] += 1
    print(dict(counts), failed)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
