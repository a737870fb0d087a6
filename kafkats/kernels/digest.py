"""The digest of the source of all kernels, by which their machine code is named."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def source_digest(*folders: Path) -> str:
    """Return the digest of the Python files in `folders`, each folder once: 12 hex digits.

    Takes less than a millisecond.
    """
    digest = hashlib.sha256()
    for place in dict.fromkeys(folders):
        for path in sorted(place.glob("*.py")):
            source = path.read_bytes()
            digest.update(f"{path.name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:12]
