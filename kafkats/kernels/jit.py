"""How kernels are compiled: without the GIL, cached on disk where there is a place for it.

numba notices a changed kernel by its own file only: what a kernel inlines lives in its module, or (memory.py, varints.py) never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.extending import intrinsic as _intrinsic

from kafkats.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile at first call; a read-only installation without a home directory compiles in every process.

    Raises UsageError where numba was told not to compile.
    """
    if numba.config.DISABLE_JIT:
        raise UsageError("NUMBA_DISABLE_JIT is set: kafkats reads logs with compiled code only, unset it")
    try:
        return cast(F, numba.njit(function, nogil=True, cache=True))
    except RuntimeError:  # numba: "cannot cache function: no locator available"
        return cast(F, numba.njit(function, nogil=True))


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A piece of machine code with a Python name; it has no Python form."""
    return cast("Callable[..., Any]", _intrinsic(function))
