"""Compile kernels: without the GIL, and cached on disk where the cache directory is writable.

numba checks only a kernel's own file for changes, but the machine code of a kernel also holds what
it inlines from other files. The name of a cache file therefore contains a digest of all files in
this directory. A change in any of them compiles every kernel again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.extending import intrinsic as _intrinsic

from kafkats.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` at its first call.

    The result is cached on disk. A read-only installation without a home directory compiles again
    in each process. Raises UsageError if NUMBA_DISABLE_JIT is set.
    """
    if numba.config.DISABLE_JIT:
        raise UsageError(
            "NUMBA_DISABLE_JIT is set: kafkats reads logs with compiled code only, unset it"
        )
    name = function.__qualname__
    function.__qualname__ = f"{name}_{_content()}"  # numba names the cache file by it, now
    try:
        compiled = numba.njit(function, nogil=True, cache=True)
    except RuntimeError:  # numba: "cannot cache function: no locator available"
        compiled = numba.njit(function, nogil=True)
    compiled.__qualname__ = function.__qualname__ = name
    return cast(F, compiled)


def inlined(function: F) -> F:
    """Compile `function` into every kernel that calls it, so that its results stay in registers."""
    return cast(F, numba.njit(function, nogil=True, forceinline=True))


@cache
def _content() -> str:
    """Digest of the source of all kernels, 12 hex digits. Takes less than a millisecond."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        source = path.read_bytes()
        digest.update(f"{path.name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:12]


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Define a piece of machine code with a Python name. It cannot be called from Python."""
    return cast("Callable[..., Any]", _intrinsic(function))
