"""Checksum functions for the kernels: the library's and our own."""

from __future__ import annotations

import binascii
import ctypes
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkats.compression import checksums
from kafkats.kernels import crc


def call(addresses: checksums.Addresses, data: bytes) -> tuple[int, int]:
    buffer = ctypes.create_string_buffer(data, len(data))
    refl = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64)(
        addresses.crc32
    )
    iscsi = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)(
        addresses.crc32c
    )
    return refl(0, buffer, len(data)), iscsi(buffer, len(data), 0xFFFFFFFF) ^ 0xFFFFFFFF


@pytest.mark.slow(2)
@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_all_ways_agree(data: bytes) -> None:
    expected = binascii.crc32(data), checksums.crc32c(data)
    assert checksums.crc32(data) == expected[0]
    assert call(crc.fallback_addresses(), data) == expected
    assert call(crc.crc_addresses(), data) == expected


def test_buffers_of_any_kind() -> None:
    data = bytes(range(256))
    for kind in (data, bytearray(data), memoryview(data)):
        assert checksums.crc32(kind) == binascii.crc32(data)
        assert checksums.crc32c(kind) == checksums.crc32c(data)


def test_fallback_where_the_library_exports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "_address", lambda library, name: 0)
    checksums.library_addresses.cache_clear()
    crc.crc_addresses.cache_clear()
    try:
        assert checksums.library_addresses() is None
        assert crc.crc_addresses() == crc.fallback_addresses()
    finally:
        checksums.library_addresses.cache_clear()
        crc.crc_addresses.cache_clear()


def test_wrong_answers_are_noticed() -> None:
    right = crc.fallback_addresses()
    assert checksums.answers(right)
    other = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64)(
        lambda a, b, c: 5
    )
    wrong = right._replace(crc32=ctypes.cast(other, ctypes.c_void_p).value or 0)
    assert not checksums.answers(wrong)


OWN = """
import numba.core.caching
numba.core.caching.CacheImpl._locator_classes = []
from kafkats.kernels import machine
machine._folders = lambda: iter([])
machine.library = lambda: None
from kafkats.compression import checksums
checksums._address = lambda library, name: 0
import numpy as np
from kafkats.kernels import crc
{broken}
from kafkats.formats import v1, v2
from kafkats.formats.model import Record, TimestampType
from tests.builders.logs import build
assert checksums.library_addresses() is None
log = v1.encode_batch([Record(0, 5, TimestampType.CREATE_TIME, None, b"x" * 100)])
log += v2.encode_batch([Record(1, 6, TimestampType.CREATE_TIME, None, b"y" * 100)])
facts = build(np.frombuffer(log, np.uint8), 0).facts
assert (facts.batches, facts.stop) == (2, None), facts
for at in (60, len(log) - 1):
    turned = bytearray(log); turned[at] ^= 1
    assert build(np.frombuffer(turned, np.uint8), 0).facts.stop == "bad-crc"
assert crc.crc_addresses() == crc.fallback_addresses()
"""
"""A read-only installation without a home directory, on a machine whose libraries export nothing."""


def walk_with_our_own(broken: str = "") -> subprocess.CompletedProcess[str]:
    script = OWN.replace("{broken}", broken)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


@pytest.mark.slow(2)
def test_walk_with_our_own_functions_and_without_a_place_for_a_cache() -> None:
    done = walk_with_our_own()
    assert done.returncode == 0, done.stderr


@pytest.mark.slow(7)
@pytest.mark.parametrize(("table", "batches"), [("_CRC32", 0), ("_CRC32C", 1)])
def test_wrong_functions_of_our_own_are_seen_by_that_walk(table: str, batches: int) -> None:
    """It fails when one of our functions is wrong, so it does walk with them."""
    spoil = f"crc.{table}[3, :] ^= np.uint32(1)\n"
    assert (
        "checksum functions give wrong answers on this machine" in walk_with_our_own(spoil).stderr
    )
    done = walk_with_our_own(spoil + "crc.answers = lambda found: True\n")
    assert done.returncode and f"batches={batches}" in done.stderr and "'bad-crc'" in done.stderr


def test_commands_that_need_no_kernel_do_not_import_numba() -> None:
    script = "import sys, kafkats.index.check, kafkats.index.tail, kafkats.segment.walk; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
