"""Judge many segments from their whole indexes and the ends of their logs, one row per segment.

    judge_indexes(rows)                     what the indexes say, and where to read each log from
    judge_last(rows)                        the same, from the last entries of the indexes alone
    judge_ends(rows, state, table, points)  the logs from there on, against the entries

`rows` is int64 of shape (n, ends_state.COLUMNS). The caller reads the files between the two calls.
The last three arrays are those of `walk`, which reads each end: a state with the addresses of the
checksum functions, and room for one point.

A row is SOUND if `index.tail_check.check_tail`, which is the reference, has neither a doubt nor a
finding, whether or not a broker is writing the segment. Its facts are then the same. All else, also
what the reference would accept after a closer look, is left to the reference: missing and
preallocated indexes, and logs that end with anything but a whole batch. After `judge_last` the
reference is `index.tail.read_tail`.
"""

from __future__ import annotations

from kafkats.kernels import ends_state as e
from kafkats.kernels import layout as f
from kafkats.kernels import walk_state as k
from kafkats.kernels.batch import timestamp_of
from kafkats.kernels.jit import entry, kernel
from kafkats.kernels.memory import i32, i64, u8
from kafkats.kernels.numbers import Int64Rows, Int64s, int64
from kafkats.kernels.walk import walk


@kernel
def _largest_interval(offsets: int, count: int) -> int:
    """Return the largest interval that allows these offset entries, -1 if they are not in order.

    ANY_INTERVAL without entries, and where the first one names the begin of the log.
    """
    relative, position, largest = int64(-1), int64(-1), int64(e.ANY_INTERVAL)
    for number in range(count):
        before, relative_before = position, relative
        relative, position = i32(offsets + 8 * number), i32(offsets + 8 * number + 4)
        if relative <= relative_before or position <= before:
            return int64(-1)
        largest = min(largest, position - max(before, int64(0)) - 1)
    begins_above_0 = count > 0 and i32(offsets + 4) > 0
    return largest if begins_above_0 else int64(e.ANY_INTERVAL)


@kernel
def _in_order(times: int, count: int) -> bool:
    """Return whether the timestamps of time entries increase, and their offsets do not decrease."""
    relative = int64(0)
    for number in range(count):
        at = times + 12 * number
        if i32(at + 8) < relative or (number > 0 and i64(at) <= i64(at - 12)):
            return False
        relative = i32(at + 8)
    return True


@kernel
def _entries_below(at: int, size: int, count: int, relative: int) -> int:
    """Return how many entries of `size` bytes have a relative offset below `relative`.

    `at` is the address of the first one's relative offset. They are in order.
    """
    low, high = int64(0), count
    while low < high:
        middle = (low + high) // 2
        if i32(at + size * middle) < relative:
            low = middle + 1
        else:
            high = middle
    return low


@entry
def judge_indexes(rows: Int64Rows) -> None:
    """Set the results of each row that is SOUND so far, and SOUND again; see the module."""
    for number in range(rows.shape[0]):
        row = rows[number]
        if row[e.SOUND] == 0:
            continue
        row[e.SOUND] = 0
        offsets, times = row[e.OFFSETS], row[e.TIMES]
        offset_count, time_count = row[e.OFFSET_BYTES] // 8, row[e.TIME_BYTES] // 12
        if row[e.OFFSET_BYTES] % 8 != 0 or row[e.TIME_BYTES] % 12 != 0:
            continue
        if offset_count > 0 and i64(offsets + 8 * (offset_count - 1)) == 0:
            continue  # zeros at the end
        last = times + 12 * (time_count - 1)
        if time_count > 0 and i64(last) == 0 and i32(last + 8) == 0:
            continue
        row[e.LARGEST] = _largest_interval(offsets, offset_count)
        if row[e.LARGEST] < 0 or not _in_order(times, time_count):
            continue
        chosen = offset_count - 1
        if time_count > 0:
            upto = _entries_below(offsets, int64(8), offset_count, i32(last + 8) + 1)
            chosen = min(chosen, upto - 1)
        start = i32(offsets + 8 * chosen + 4) if chosen >= 0 else int64(0)
        row[e.START], row[e.OFFSET_FROM] = start, max(chosen, int64(0))
        row[e.TIME_FROM] = 0
        if start > 0:
            relative = i32(offsets + 8 * chosen)
            row[e.TIME_FROM] = _entries_below(times + 8, int64(12), time_count, relative)
        begins = start < max(row[e.LOG_BYTES], int64(1))
        short = start > 0 or row[e.LOG_BYTES] <= e.SMALL
        row[e.SOUND] = int64(begins and short and row[e.LOG_BYTES] <= e.MOST_BYTES)


@entry
def judge_last(rows: Int64Rows) -> None:
    """Set the results of each row that is SOUND so far, and SOUND again; see the module.

    OFFSETS and TIMES are at most one entry each.
    """
    for number in range(rows.shape[0]):
        row = rows[number]
        if row[e.SOUND] == 0:
            continue
        row[e.SOUND] = row[e.OFFSET_FROM] = row[e.TIME_FROM] = 0
        row[e.START], row[e.LARGEST], row[e.LAST_RELATIVE] = 0, e.ANY_INTERVAL, -1
        if row[e.OFFSET_BYTES] > 0:
            if i64(row[e.OFFSETS]) == 0 or i32(row[e.OFFSETS]) < 0:
                continue
            row[e.START] = i32(row[e.OFFSETS] + 4)
        if row[e.TIME_BYTES] > 0:
            row[e.LAST_RELATIVE] = i32(row[e.TIMES] + 8)
            zeros = i64(row[e.TIMES]) == 0 and row[e.LAST_RELATIVE] == 0
            if zeros or row[e.LAST_RELATIVE] < 0:
                continue
        begins = 0 <= row[e.START] < max(row[e.LOG_BYTES], int64(1))
        row[e.SOUND] = int64(begins and row[e.LOG_BYTES] <= e.MOST_BYTES)


@kernel
def _walk_end(row: Int64s, state: Int64s, table: Int64Rows, points: Int64Rows) -> bool:
    """Walk from START to the end. Return whether whole batches without a defect lie there."""
    state[: k.CRC32] = 0
    state[k.BASE_OFFSET :] = 0
    for slot in (k.NOT_INCREASING, k.OUT_OF_RANGE, k.BAD_HEADER, k.UNKNOWN_CODEC):
        state[slot] = -1
    for slot in (k.HIGHEST_EPOCH, k.FIRST_OFFSET, k.LAST_OFFSET, k.FIRST_TIMESTAMP):
        state[slot] = -1
    state[k.MAX_TIMESTAMP], state[k.HIGHEST_OFFSET] = -1, k.UNKNOWN
    table[:] = 0
    start, size = row[e.START], row[e.LOG_BYTES]
    state[k.BASE_OFFSET], state[k.INTERVAL] = row[e.BASE_OFFSET], e.ANY_INTERVAL
    state[k.POSITION], state[k.ADDRESS], state[k.ORIGIN] = start, row[e.TAIL], start
    state[k.LOADED] = state[k.LIMIT] = state[k.FILE_END] = size
    state[k.OFFSET_ENTRIES] = row[e.OFFSETS] + 8 * row[e.OFFSET_FROM]
    state[k.OFFSET_COUNT] = row[e.OFFSET_BYTES] // 8 - row[e.OFFSET_FROM]
    state[k.TIME_ENTRIES] = row[e.TIMES] + 12 * row[e.TIME_FROM]
    state[k.TIME_COUNT] = row[e.TIME_BYTES] // 12 - row[e.TIME_FROM]
    if walk(state, table, points) != k.STOPPED or state[k.STOP] != k.END:
        return False
    for slot in (k.NOT_INCREASING, k.OUT_OF_RANGE, k.BAD_HEADER, k.UNKNOWN_CODEC):
        if state[slot] >= 0:
            return False
    return bool(state[k.POSITION] == size)


@kernel
def _entries_hold(row: Int64s, state: Int64s) -> bool:
    """Return whether the entries agree with the batches that were walked."""
    base, last = row[e.BASE_OFFSET], state[k.LAST_OFFSET]
    if state[k.OFFSET_WRONG] > 0 or state[k.TIME_WRONG] > 0:
        return False
    count = row[e.OFFSET_BYTES] // 8
    if row[e.OFFSET_FROM] < count:
        first_relative = i32(row[e.OFFSETS] + 8 * row[e.OFFSET_FROM])
        last_relative = i32(row[e.OFFSETS] + 8 * (count - 1))
        if last_relative > last - base or state[k.OFFSET_NEXT] < state[k.OFFSET_COUNT]:
            return False
        # a wrapper's first offset is unknown: a number below all
        first = max(state[k.FIRST_OFFSET], int64(-1))
        if row[e.START] > 0 and first_relative < first - base:
            return False
    if row[e.TIME_BYTES] == 0:
        return bool(max(state[k.MAX_TIMESTAMP], row[e.FIRST_TIMESTAMP]) < 0)
    entry_at = row[e.TIMES] + row[e.TIME_BYTES] - 12
    if state[k.TIME_NEXT] == 0 or i32(entry_at + 8) > last - base:
        return False
    return bool(i64(entry_at) == state[k.MAX_TIMESTAMP])


@kernel
def _set_sums(row: Int64s, state: Int64s, table: Int64Rows) -> None:
    """Set the facts of a log that was walked from its begin on."""
    row[e.BATCHES], row[e.FIRST_TIMESTAMP] = state[k.BATCHES], state[k.FIRST_TIMESTAMP]
    row[e.FIRST_OFFSET] = max(state[k.FIRST_OFFSET], int64(-1))
    row[e.RECORDS] = 0
    row[e.MAGICS : e.HIGHEST_EPOCH] = 0
    wrappers = False
    for at in range(k.CELLS):
        if table[at, k.CELL_BATCHES] == 0:
            continue
        magic, codec = at // (k.CODECS * k.TYPES), at // k.TYPES % k.CODECS
        if codec < 5:  # others are an unknown codec, which is no sound segment
            row[e.CODECS + codec] += table[at, k.CELL_BATCHES]
        wrappers = wrappers or (magic < 2 and codec > 0)
        row[e.MAGICS + magic] += table[at, k.CELL_BYTES]
        row[e.RECORDS] += table[at, k.CELL_RECORDS]
        row[e.CONTROL] += table[at, k.CELL_CONTROL]
        row[e.TRANSACTIONAL] += table[at, k.CELL_TRANSACTIONAL]
        row[e.DELETE_HORIZON] += table[at, k.CELL_DELETE_HORIZON]
    if wrappers:
        row[e.RECORDS] = -1


@kernel
def _set_head(row: Int64s) -> bool:
    """Set the facts of a log of which only the end was walked. Return whether its begin is known.

    Sums are -1, and so is the first offset of a wrapper.
    """
    head = row[e.HEAD]
    magic = u8(head + f.MAGIC_AT)
    if magic > 2:
        return False
    row[e.BATCHES] = row[e.RECORDS] = -1
    row[e.MAGICS : e.HIGHEST_EPOCH] = -1
    row[e.FIRST_TIMESTAMP] = timestamp_of(head, magic)
    row[e.FIRST_OFFSET] = i64(head + f.OFFSET_AT)
    if magic < 2 and u8(head + f.MESSAGE_FLAGS_AT) & f.CODEC_MASK:
        row[e.FIRST_OFFSET] = -1
        return True
    return bool(row[e.FIRST_OFFSET] >= row[e.BASE_OFFSET])


@entry
def judge_ends(rows: Int64Rows, state: Int64s, table: Int64Rows, points: Int64Rows) -> None:
    """Set the facts of each row that is SOUND so far, and SOUND again; see the module."""
    for number in range(rows.shape[0]):
        row = rows[number]
        if row[e.SOUND] == 0:
            continue
        row[e.SOUND] = 0
        if not _walk_end(row, state, table, points):
            continue
        if row[e.START] > 0:
            if not _set_head(row):
                continue
        else:
            _set_sums(row, state, table)
            if 0 <= row[e.FIRST_OFFSET] < row[e.BASE_OFFSET]:
                continue
        row[e.LAST_OFFSET] = state[k.LAST_OFFSET]
        row[e.NEXT_OFFSET] = row[e.BASE_OFFSET]
        if state[k.BATCHES] > 0:
            row[e.NEXT_OFFSET] = state[k.LAST_OFFSET] + 1
        row[e.MAX_TIMESTAMP] = state[k.MAX_TIMESTAMP]
        row[e.MAX_TIMESTAMP_OFFSET] = -1
        if state[k.MAX_TIMESTAMP] > -1:
            row[e.MAX_TIMESTAMP_OFFSET] = state[k.MAX_TIMESTAMP_OFFSET]
        row[e.HIGHEST_EPOCH] = state[k.HIGHEST_EPOCH]
        row[e.SOUND] = int64(_entries_hold(row, state))
