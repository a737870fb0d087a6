"""The converter with kernels against the plain one, byte for byte."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import Codec
from kafkats.errors import CorruptBatch, NotConvertible
from kafkats.formats.convert import Converted, Target, convert_segment
from kafkats.segment.convert import Conversion, convert_source
from kafkats.segment.reader import array_source
from tests.index.generated import BASE, damaged_logs, logs

TARGETS = [Target(magic, codec) for magic in (0, 1, 2) for codec in (None, *Codec)]


def ours(log: bytes, target: Target, *, log_end: bool = False) -> tuple[bytes, Conversion]:
    parts: list[bytes] = []
    source = array_source(np.frombuffer(log, np.uint8))
    done = convert_source(source, BASE, target, lambda data: parts.append(bytes(data)), log_end=log_end)
    assert done == convert_source(source, BASE, target, None, log_end=log_end)
    return b"".join(parts), done


def assert_same(log: bytes, target: Target, *, log_end: bool = False) -> None:
    try:
        expected: Converted | None = convert_segment(log, BASE, target, log_end=log_end)
    except (CorruptBatch, NotConvertible) as error:
        with pytest.raises((CorruptBatch, NotConvertible)) as raised:
            ours(log, target, log_end=log_end)
        # The plain one looks at all frames before it converts the first.
        assert (type(raised.value), raised.value.position) == (type(error), error.position) or (
            error.position is None or raised.value.position < error.position
        )
        return
    data, done = ours(log, target, log_end=log_end)
    assert data == expected.data
    assert (done.losses, done.records) == (expected.losses, expected.records)
    assert (done.bytes, done.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert done.changed == (data != log)


@settings(max_examples=400, deadline=None)
@given(logs(), st.sampled_from(TARGETS), st.booleans())
def test_whole_segments(log: bytes, target: Target, log_end: bool) -> None:
    assert_same(log, target, log_end=log_end)


@settings(max_examples=200, deadline=None)
@given(damaged_logs(), st.sampled_from(TARGETS), st.booleans())
def test_damaged_segments(log: bytes, target: Target, log_end: bool) -> None:
    assert_same(log, target, log_end=log_end)
