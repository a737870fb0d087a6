"""List the checksums and codecs that run in a C library, and what replaces a missing one.

A library of another version may not export a function that is called by its address. kafkats then
works as before, but several times slower: `kafkats --version -v` shows it.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkats.compression import checksums
from kafkats.segment import pack, unpack


class NativePath(NamedTuple):
    """The library that does one operation; `instead` names what does it where `native` is False."""

    operation: str
    native: bool
    library: str
    instead: str


def native_paths() -> tuple[NativePath, ...]:
    """Return every operation that calls a C function by its address.

    This takes 30 ms, since each gets a trial.
    """
    crc = checksums.library_addresses() is not None
    python = "the reader of kafkats.compression"
    return (
        NativePath(
            "CRC-32 of magic 0 and 1", crc, checksums.crc32_library(), "functions of kernels/crc.py"
        ),
        NativePath("CRC-32C of magic 2", crc, "isal", "functions of kernels/crc.py"),
        NativePath(
            "gzip, compress",
            pack.deflate_functions() is not None,
            "zlib of Python",
            "the zlib module",
        ),
        NativePath(
            "lz4, compress", pack.lz4_compress_default() is not None, "lz4", "the lz4 package"
        ),
        NativePath("lz4, decompress", unpack.lz4_decompress_safe() is not None, "lz4", python),
        NativePath(
            "zstd, compress",
            pack.zstd_functions() is not None,
            "zstandard",
            "the zstandard package",
        ),
        NativePath("zstd, decompress", unpack.zstd_functions() is not None, "zstandard", python),
    )


def native_lines() -> list[str]:
    """Return one line per operation, for people."""
    return [
        f"  {one.operation:26}"
        + (f"native: {one.library}" if one.native else f"NOT NATIVE: {one.instead}")
        for one in native_paths()
    ]
