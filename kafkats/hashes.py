"""Hashes of file contents, as text that names the algorithm.

    blake3:<64 hex digits>   BLAKE3: logs, and what a consumer reads from them
    <64 hex digits>          SHA-256: index files, and everything that earlier versions wrote

BLAKE3 takes a quarter of the time of SHA-256 on processors with instructions for both
(`scripts/bench convert`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO, Final, Protocol, TypeAlias

from kafkats.errors import CorruptFile

BLAKE3: Final = "blake3"
SHA256: Final = "sha256"
Bytes: TypeAlias = bytes | bytearray | memoryview
EMPTY_SHA256: Final = hashlib.sha256(b"").hexdigest()
"""The hash of an empty file."""
_WINDOW: Final = 1 << 20


class _State(Protocol):
    def update(self, data: Bytes, /) -> object: ...

    def hexdigest(self) -> str: ...


class Hash:
    """A hash that grows by `update`."""

    def __init__(self, algorithm: str = BLAKE3) -> None:
        self._prefix = "" if algorithm == SHA256 else f"{algorithm}:"
        self._state = _new(algorithm)

    def update(self, data: Bytes) -> None:
        self._state.update(data)

    def text(self) -> str:
        """Return the hash of the bytes so far, with the name of the algorithm unless SHA-256."""
        return self._prefix + self._state.hexdigest()


def algorithm_of(text: str, path: str | Path | None = None) -> str:
    """Return the algorithm of a stored hash.

    Raises CorruptFile for an algorithm that is unknown here; `path` names the hashed file.
    """
    name, colon, _ = text.partition(":")
    algorithm = name if colon else SHA256
    if algorithm not in (BLAKE3, SHA256):
        raise CorruptFile(
            f"a hash by {algorithm[:20]!r}, which this version does not know", path=path
        )
    return algorithm


def hash_bytes(data: Bytes, algorithm: str = BLAKE3) -> str:
    """Return the hash of `data`."""
    whole = Hash(algorithm)
    whole.update(data)
    return whole.text()


def hash_file(file: BinaryIO, algorithm: str = BLAKE3) -> str:
    """Return the hash of `file` from its position to its end."""
    whole, window = Hash(algorithm), bytearray(_WINDOW)
    while count := file.readinto(window):  # type: ignore[attr-defined]
        whole.update(memoryview(window)[:count])
    return whole.text()


def _new(algorithm: str) -> _State:
    if algorithm == SHA256:
        return hashlib.sha256()
    from blake3 import blake3  # only where a log is hashed: commands start without it

    return blake3()
