"""Hashes of file contents: the text names the algorithm, and older text is SHA-256."""

import hashlib
import io
from pathlib import Path

import pytest
from blake3 import blake3

from kafkats.errors import CorruptFile
from kafkats.hashes import BLAKE3, SHA256, Hash, algorithm_of, hash_bytes, hash_file

DATA = bytes(range(256)) * 5000


def test_the_text_names_the_algorithm() -> None:
    assert hash_bytes(b"") == (
        "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    ), "the hash of nothing in BLAKE3's own test vectors"
    assert hash_bytes(DATA) == f"blake3:{blake3(DATA).hexdigest()}"
    assert hash_bytes(DATA, SHA256) == hashlib.sha256(DATA).hexdigest()
    for algorithm in (BLAKE3, SHA256):
        assert algorithm_of(hash_bytes(DATA, algorithm)) == algorithm


@pytest.mark.parametrize("algorithm", [BLAKE3, SHA256])
def test_pieces_and_files_have_the_hash_of_the_whole(algorithm: str) -> None:
    grown = Hash(algorithm)
    for start in range(0, len(DATA), 99_991):
        grown.update(DATA[start : start + 99_991])
    assert grown.text() == hash_bytes(DATA, algorithm) == hash_file(io.BytesIO(DATA), algorithm)


def test_an_unknown_algorithm_is_refused_with_the_file() -> None:
    with pytest.raises(CorruptFile, match="md5") as e:
        algorithm_of("md5:00", Path("a.log"))
    assert e.value.path == "a.log"
