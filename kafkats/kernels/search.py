"""The first record at or after a time, from a position in a segment on: headers are walked, one batch is looked into.

    search(state)               goes over a window; returns when it found a record, or what else it needs
    inside(state, start, size)  looks into the batch at POSITION, whose plain bytes its caller decompressed
    sweep(state, targets, starts, found)  the same for many times, ascending, in one go

`state` is an int64 vector, one slot per name below. A record qualifies when its batch's maximum and its own timestamp are TARGET or
later and its offset is START or above. With EQUAL both must be TARGET, and only the first such batch is looked into. With STRICT
a batch that says it has such a record and has not ends the search, as in Kafka 0.10. Checksums of batches that are passed are looked at.

Rules: FileRecords.searchForTimestamp (Kafka 0.11 to 4.3), and RecordBatch.offsetOfMaxTimestamp (3.8 and later).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types

from kafkats.kernels.jit import intrinsic, kernel

# Where the bytes are: file positions ORIGIN to LOADED at ADDRESS; batches that begin at LIMIT or later are left to the next window.
ADDRESS: Final = 0
ORIGIN: Final = 1
LOADED: Final = 2
LIMIT: Final = 3
FILE_END: Final = 4
POSITION: Final = 5
NEEDED: Final = 6  # NEED_BYTES: bytes wanted from POSITION on
# What is wanted.
CRC32: Final = 7  # function addresses
CRC32C: Final = 8
TARGET: Final = 9
START: Final = 10
EQUAL: Final = 11
STRICT: Final = 12
# What came out.
OFFSET: Final = 13
TIMESTAMP: Final = 14
EPOCH: Final = 15
BATCHES: Final = 16  # that were passed
# COMPRESSED: of the batch at POSITION.
CODEC: Final = 17
MAGIC: Final = 18
PACKED: Final = 19  # address and size of its compressed bytes
PACKED_SIZE: Final = 20
# Of a sweep.
NUMBER: Final = 21  # of the target that is next
STEP: Final = 22  # BEGIN, SEARCH (goes on from POSITION), NOTE (a record was found)
LAST: Final = 23  # where the batch of the record found last begins
STATE_SLOTS: Final = 24

BEGIN: Final = 0
SEARCH: Final = 1
NOTE: Final = 2

# Why a kernel returned.
DONE: Final = 0  # the quiet end of the log, or (inside) no such record in this batch
NEED_BYTES: Final = 1
FOUND: Final = 2
COMPRESSED: Final = 3
BAD: Final = 4  # the batch at POSITION is corrupt
ABSENT: Final = 5  # STRICT or EQUAL: the batch at POSITION has no such record

_HEADER_V2: Final = 61


def _load(bits: int, signed: bool) -> Any:
    @intrinsic
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            integer = ir.IntType(bits)
            value = builder.load(builder.inttoptr(args[0], integer.as_pointer()), align=1)
            if bits > 8:
                value = builder.bswap(value)
            extend = builder.sext if signed else builder.zext
            return value if bits == 64 else extend(value, ir.IntType(64))

        return types.int64(types.int64), codegen

    return load


_i64 = _load(64, signed=True)
_i32 = _load(32, signed=True)
_u32 = _load(32, signed=False)
_u8 = _load(8, signed=False)


@intrinsic
def _crc32(typingctx: Any, function: Any, address: Any, length: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i32, i64, pointer = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
        target = builder.inttoptr(args[0], ir.FunctionType(i32, [i32, pointer, i64]).as_pointer())
        crc = builder.call(target, [ir.Constant(i32, 0), builder.inttoptr(args[1], pointer), args[2]])
        return builder.zext(crc, i64)

    return types.int64(types.int64, types.int64, types.int64), codegen


@intrinsic
def _crc32c(typingctx: Any, function: Any, address: Any, length: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i32, i64, pointer = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
        target = builder.inttoptr(args[0], ir.FunctionType(i32, [pointer, i32, i32]).as_pointer())
        length = builder.trunc(args[2], i32)
        crc = builder.call(target, [builder.inttoptr(args[1], pointer), length, ir.Constant(i32, 0xFFFFFFFF)])
        return builder.zext(builder.not_(crc), i64)

    return types.int64(types.int64, types.int64, types.int64), codegen


@kernel
def _varint(at: Any, end: Any, longest: Any) -> Any:
    """Value of the varint of at most `longest` bytes at `at`, and the address after it, 0 when it does not end in time."""
    raw, shift, stop = np.uint64(0), np.uint64(0), min(end, at + longest)
    while at < stop:
        byte = np.uint64(_u8(at))
        at += 1
        raw |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            if longest == 5:
                raw &= np.uint64(0xFFFFFFFF)
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at
        shift += np.uint64(7)
    return np.int64(0), np.int64(0)


@kernel
def _take(state: Any, offset: Any, timestamp: Any) -> bool:
    """Whether this record is the one; it is noted then."""
    if offset < state[START]:
        return False
    if (timestamp != state[TARGET]) if state[EQUAL] else (timestamp < state[TARGET]):
        return False
    state[OFFSET], state[TIMESTAMP] = offset, timestamp
    return True


@kernel
def _records(state: Any, header: Any, at: Any, end: Any) -> int:
    """Look through the records of the v2 batch at `header`, plain between `at` and `end`."""
    base, base_time, append_time = _i64(header), _i64(header + 27), _i64(header + 35)
    appended, count = (_u8(header + 22) >> 3) & 1, _i32(header + 57)
    if count < 0:
        return BAD
    for _ in range(count):
        length, at = _varint(at, end, 5)
        if at == 0 or length < 1 or length > end - at:
            return BAD
        record_end = at + length
        delta, at = _varint(at + 1, record_end, 10)
        if at == 0:
            return BAD
        offset_delta, at = _varint(at, record_end, 5)
        if at == 0:
            return BAD
        if _take(state, base + offset_delta, append_time if appended else base_time + delta):
            return FOUND
        at = record_end
    return DONE


@kernel
def _message_set(state: Any, wrapper: Any, start: Any, end: Any) -> int:
    """Look through the messages of the wrapper at `wrapper`, plain between `start` and `end`."""
    at, last, count = start, np.int64(0), 0
    while end - at >= 12:
        size = _i32(at + 8)
        if size < 14:
            return BAD
        if 12 + size > end - at:
            break
        magic = _u8(at + 16)
        if magic > 1 or _u8(at + 17) & 7 or size < 14 + 8 * magic:
            return BAD
        last = _i64(at)
        count += 1
        at += 12 + size
    if count == 0:
        return BAD
    offset, relative = _i64(wrapper), np.int64(0)
    appended = False
    if _u8(wrapper + 16) == 1:
        appended = (_u8(wrapper + 17) >> 3) & 1 == 1
        if offset != 0:
            if offset < last:
                return BAD
            relative = offset - last
    at = start
    for _ in range(count):
        timestamp = np.int64(-1)
        if _u8(at + 16) == 1:
            timestamp = _i64(wrapper + 18) if appended else _i64(at + 18)
        if _take(state, _i64(at) + relative, timestamp):
            return FOUND
        at += 12 + _i32(at + 8)
    return DONE


@kernel
def inside(state: Any, start: Any, size: Any) -> int:
    """Look into the batch at POSITION, plain in `size` bytes at address `start`; DONE: POSITION is the next batch's."""
    at = state[ADDRESS] + (state[POSITION] - state[ORIGIN])
    if state[MAGIC] == 2:
        why = _records(state, at, start, start + size)
    else:
        why = _message_set(state, at, start, start + size)
    if why == DONE:
        if state[EQUAL] or state[STRICT]:
            return ABSENT
        state[POSITION] += 12 + _i32(at + 8)
    return why


@kernel
def search(state: Any) -> int:  # noqa: C901 - one loop
    """Go on from POSITION; see the module. The GIL is not held."""
    address, origin, loaded = state[ADDRESS], state[ORIGIN], state[LOADED]
    limit, file_end = state[LIMIT], state[FILE_END]
    target, equal, position = state[TARGET], state[EQUAL], state[POSITION]
    why = DONE
    while file_end - position >= 18:
        if position >= limit or position + 18 > loaded:
            why, state[NEEDED] = NEED_BYTES, 18
            break
        at = address + (position - origin)
        size = _i32(at + 8)
        total = np.int64(size) + 12
        if size < 14:
            why = BAD
            break
        if total > file_end - position:
            break
        magic = _u8(at + 16)
        if magic > 2 or (magic == 2 and total < _HEADER_V2) or (magic == 1 and size < 22):
            why = BAD
            break
        if position + total > loaded:
            why, state[NEEDED] = NEED_BYTES, total
            break
        if magic == 2:
            good = _crc32c(state[CRC32C], at + 21, total - 21) == _u32(at + 17)
        else:
            good = _crc32(state[CRC32], at + 16, total - 16) == _u32(at + 12)
        if not good:
            why = BAD
            break
        state[BATCHES] += 1
        newest = np.int64(-1)
        if magic > 0:
            newest = _i64(at + 35) if magic == 2 else _i64(at + 18)
        if (newest != target) if equal else (newest < target):
            position += total
            continue

        state[EPOCH] = _i32(at + 12) if magic == 2 else -1
        codec = _u8(at + (22 if magic == 2 else 17)) & 7
        found = DONE
        if codec != 0 and (magic < 2 or _i32(at + 57) > 0):
            state[CODEC], state[MAGIC] = codec, magic
            start, length = at + _HEADER_V2, total - _HEADER_V2
            if magic < 2:
                # The value of a wrapper, behind a key that is null as a rule.
                start = at + 18 + 8 * magic
                key = np.int64(max(_i32(start), 0))
                if key > at + total - start - 8:
                    why = BAD
                    break
                start += 4 + key
                length = np.int64(_i32(start))
                start += 4
                if length < 0 or length > at + total - start:
                    why = BAD
                    break
            state[PACKED], state[PACKED_SIZE] = start, length
            why = COMPRESSED
            break
        if magic == 2:
            found = _records(state, at, at + _HEADER_V2, at + total)
        elif _take(state, _i64(at), newest):
            found = FOUND
        if found != DONE:
            why = found
            break
        if equal or state[STRICT]:
            why = ABSENT
            break
        position += total
    state[POSITION] = position
    return why


@kernel
def sweep(state: Any, targets: Any, starts: Any, found: Any) -> int:
    """For each of `targets` (int64, ascending) the first record from `starts` (positions, ascending) on: offset, timestamp, epoch into `found`.

    A record answers all targets up to its own time, and no later one is answered before it. DONE: NUMBER is how many were answered.
    """
    number, step, why = state[NUMBER], state[STEP], DONE
    while True:
        if step == NOTE:
            while number < len(targets) and targets[number] <= state[TIMESTAMP]:
                found[number, 0], found[number, 1] = state[OFFSET], state[TIMESTAMP]
                found[number, 2] = state[EPOCH]
                number += 1
            state[LAST], step = state[POSITION], BEGIN
        if number == len(targets):
            why = DONE
            break
        if step == BEGIN:
            state[TARGET], state[POSITION] = targets[number], max(starts[number], state[LAST])
            step = SEARCH
        why = search(state)
        if why != FOUND:
            break
        step = NOTE
    state[NUMBER], state[STEP] = number, step
    return why
