"""The limits of every reader of logs: threads that do nothing but read them, or check their bytes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np

from bench.harness import wall_seconds
from kafkats.kernels.crc import crc_addresses
from kafkats.segment.reader import open_segment

_AT_ONCE: Final = 256 * 1024
"""Bytes of each read and of each checksum: they stay in the processor's cache."""
_CRC32C: Final = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32)


def reading_seconds(files: Sequence[Path], threads: int) -> float:
    """Return the wall seconds of reading the files, each thread into one buffer of its own."""
    return _in_threads(_read, files, threads)


def checking_seconds(files: Sequence[Path], threads: int) -> float:
    """Return the wall seconds of mapping the files and computing the CRC-32C of all bytes."""
    return _in_threads(_check, files, threads)


def _in_threads(
    work: Callable[[Sequence[Path]], None], files: Sequence[Path], threads: int
) -> float:
    shares = [files[n::threads] for n in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        return wall_seconds(lambda: list(pool.map(work, shares)))


def _read(files: Sequence[Path]) -> None:
    buffer = np.empty(_AT_ONCE, np.uint8).data
    for file in files:
        fd = os.open(file, os.O_RDONLY)
        try:
            at = 0
            while got := os.preadv(fd, [buffer], at):
                at += got
        finally:
            os.close(fd)


def _check(files: Sequence[Path]) -> None:
    crc32c = _CRC32C(crc_addresses().crc32c)
    for file in files:
        with open_segment(file) as view:
            address, size = view.ctypes.data, len(view)
            for at in range(0, size, _AT_ONCE):
                crc32c(address + at, min(_AT_ONCE, size - at), 0xFFFFFFFF)
