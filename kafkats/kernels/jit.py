"""Compile kernels: without the GIL, and cached on disk where the cache directory is writable.

numba checks only a kernel's own file for changes. Everything that a kernel inlines must therefore
live in the kernel's module, or in a module whose functions never change (memory.py, varints.py,
offsets.py).
"""

from __future__ import annotations

from collections.abc import Callable
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
        raise UsageError("NUMBA_DISABLE_JIT is set: kafkats reads logs with compiled code only, unset it")
    try:
        return cast(F, numba.njit(function, nogil=True, cache=True))
    except RuntimeError:  # numba: "cannot cache function: no locator available"
        return cast(F, numba.njit(function, nogil=True))


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Define a piece of machine code with a Python name. It cannot be called from Python."""
    return cast("Callable[..., Any]", _intrinsic(function))
