"""Judge many message sets in one go, by kernels, and make the bytes that the leader appends.

The results are those of `validate`, set by set. Sets that keep magic and codec are rewritten where
they lie, as in Kafka; the others are built anew in a buffer of the judge, by the kernels that
convert segments. What the kernels decline is left to `validate`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkats.errors import CorruptBatch
from kafkats.formats.framing import MAGIC_AT
from kafkats.formats.model import Codec, TimestampType
from kafkats.kernels import convert_state as k
from kafkats.kernels.crc import crc_addresses
from kafkats.primitives import view
from kafkats.segment.convert import Converter
from kafkats.segment.unpack import Unpacker, address_of, lz4_decompress_safe
from kafkats_model.broker.leader_rules import LeaderRule
from kafkats_model.broker.settings import Topic
from kafkats_model.kernels import append_checks as c
from kafkats_model.kernels.append_builds import build
from kafkats_model.kernels.appends import PACKED, judge

ALL_MAGICS: Final = (0, 1, 2)
_AT_ONCE: Final = 1 << 20
"""Bytes of sets that are judged and then written: they stay in the processor's cache."""
_ROOM: Final = 1 << 20
"""Bytes for the content of a set of lz4 or snappy; `unpack` decompresses larger ones."""
_TOP: Final = 2**62
_ANY: Final = (-(2**63), 2**63 - 1)
_LOWEST_BUILT: Final = -1
"""Kafka builds no record with a lower timestamp. In a set that stays in place it appends it."""


class Judged(NamedTuple):
    """The first of the sets as they are appended. Valid until the next."""

    data: NDArray[np.uint8]
    rows: NDArray[np.int64]
    """A row of `kernels.append_checks` for each set."""
    outcomes: Mapping[str, int]
    """Sets by what was done: `in place`, `converted`, `recompressed`."""


class SetJudge:
    """Judges the message sets of one topic as `validate` does, many at a time."""

    def __init__(
        self,
        topic: Topic,
        rule: LeaderRule,
        magics: Collection[int] = ALL_MAGICS,
        last_codec: int = Codec.ZSTD,
    ) -> None:
        """Sets of other magics, and with a codec above `last_codec`, are left to `validate`."""
        self._topic, self._rule = topic, rule
        self._unpacker = Unpacker()
        self._plain = np.empty(0, np.uint8)
        """Kept here because the kernel reads it until it returns."""
        self._room = np.empty(_ROOM, np.uint8)
        self._converter: Converter | None = None
        target = topic.target
        self._state = np.zeros(c.JUDGE_SLOTS, np.int64)
        self._state[c.MAGIC :] = (
            target.magic,
            -1 if target.codec is None else target.codec,
            topic.timestamp_type == TimestampType.LOG_APPEND_TIME,
            rule.untimed,
            topic.compacted,
            rule.record_of_maximum,
            rule.built_last,
            rule.stamp_inner,
            topic.rolling.segment_bytes,
            sum(1 << magic for magic in magics),
            last_codec,
            *crc_addresses(),
            address_of(lz4_decompress_safe()),
            self._room.ctypes.data,
            _ROOM,
        )

    def judge(
        self,
        data: NDArray[np.uint8],
        ends: NDArray[np.int64],
        *,
        now_ms: int,
        offset: int,
        leader_epoch: int,
    ) -> Judged:
        """Return the first sets of `data` as they are appended at `offset`.

        `ends` are their ends in bytes. The result is of about a MiB. It ends before a set that is
        left to `validate`, which is not changed, and where sets that stay in place follow others.
        """
        if not data.flags.writeable or not data.flags.c_contiguous:
            raise TypeError(
                "sets are rewritten where they lie: they must be in memory of their own"
            )
        if len(ends) and ends[-1] > _AT_ONCE:
            ends = ends[: max(1, int(np.searchsorted(ends, _AT_ONCE, "right")))]
        rows, state = np.empty((len(ends), c.ROW_SLOTS), np.int64), self._state
        lowest, highest = self._range(now_ms)
        state[: c.PLAIN_SIZE] = (0, offset, leader_epoch, now_ms, lowest, highest, 0)
        while judge(data, state, ends, rows) == PACKED:
            if not self._unpack(data):
                break
        done = int(state[c.NUMBER])
        if done:
            return Judged(data[: int(ends[done - 1])], rows[:done], {"in place": done})
        state[c.PLAIN], state[c.LOWEST] = 0, max(lowest, _LOWEST_BUILT)
        return self._build(data, ends, rows)

    def _range(self, now_ms: int) -> tuple[int, int]:
        """Return the lowest and the highest timestamp that a record may have."""
        topic = self._topic
        if topic.timestamp_type == TimestampType.LOG_APPEND_TIME:
            return _ANY
        after = topic.after_max_ms if self._rule.bounds else topic.before_max_ms
        return max(now_ms - topic.before_max_ms, -1), min(now_ms + after, _TOP)

    def _build(
        self, data: NDArray[np.uint8], ends: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> Judged:
        """Build the first sets, which do not stay in place."""
        converter = self._converter = self._converter or Converter(self._topic.target)
        s = converter.state
        s[k.FILLED], s[k.PHASE] = 0, k.FRAME
        while (why := build(data, self._state, ends, rows, converter.vector)) != k.DONE:
            if not self._serve(why, data, converter):
                break
        done = int(self._state[c.NUMBER])
        magics = data[np.append(0, ends[:done])[:done] + MAGIC_AT]
        converted = int(np.count_nonzero(magics != self._topic.target.magic))
        return Judged(
            converter.out[: s[k.FILLED]],
            rows[:done],
            {"converted": converted, "recompressed": done - converted},
        )

    def _serve(self, why: int, data: NDArray[np.uint8], converter: Converter) -> bool:
        """Do what the kernel requests. False: it cannot go on with the set."""
        s = converter.state
        if why == k.UNPACK:
            return self._unpack(data)
        if why == k.PACK:
            return converter.pack()
        if why == k.NEED_AREA:
            converter.take_area(s[k.NEEDED])
            return True
        if why == k.FULL and s[k.FILLED] == 0:
            converter.take_out(s[k.NEEDED])
            return True
        return False

    def _unpack(self, data: NDArray[np.uint8]) -> bool:
        """Decompress what the kernel asks for. False: what it holds is left to `validate`."""
        state = self._state
        at = int(state[c.AT_PACKED])
        packed = view(data)[at : at + int(state[c.SIZE_PACKED])]
        codec, old = int(state[c.CODEC_PACKED]), bool(state[c.OLD_LZ4])
        try:
            plain = self._unpacker.unpack(codec, packed, broken_lz4=old)
        except CorruptBatch:
            return False
        state[c.PLAIN], state[c.PLAIN_SIZE] = plain.ctypes.data, plain.size
        self._plain = plain
        return plain.size > 0
