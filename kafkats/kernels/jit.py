"""Compile kernels: without the GIL, and cached on disk where the cache directory is writable.

numba checks only a kernel's own file for changes, but the machine code of a kernel also holds what
it inlines from other files. The name of a cache file therefore contains a digest of all files in
this directory, and in the kernel's own where that is another one. A change in any of them compiles
the kernel again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeAlias, TypeVar

import numba
from llvmlite.ir import IRBuilder, Value
from numba import types
from numba.core.base import BaseContext
from numba.core.typing import Context, Signature
from numba.extending import intrinsic as numba_intrinsic

from kafkats.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")

Emit: TypeAlias = Callable[[IRBuilder, Sequence[Value]], Value]
"""Emit the instructions for these arguments and return their result."""
Codegen: TypeAlias = Callable[[BaseContext, IRBuilder, Signature, Sequence[Value]], Value]


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` at its first call.

    The result is cached on disk. A read-only installation without a home directory compiles again
    in each process. Raises UsageError if NUMBA_DISABLE_JIT is set.
    """
    if numba.config.DISABLE_JIT:
        raise UsageError(
            "NUMBA_DISABLE_JIT is set: kafkats reads logs with compiled code only, unset it"
        )
    name = function.__qualname__
    digest = _content(Path(function.__code__.co_filename).parent)
    function.__qualname__ = f"{name}_{digest}"  # numba names the cache file by it, now
    try:
        compiled: Callable[P, R] = numba.njit(function, nogil=True, cache=True)
    except RuntimeError:  # numba: "cannot cache function: no locator available"
        compiled = numba.njit(function, nogil=True)
    compiled.__qualname__ = function.__qualname__ = name
    return compiled


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` into every kernel that calls it, so that its results stay in registers."""
    compiled: Callable[P, R] = numba.njit(function, nogil=True, forceinline=True)
    return compiled


@cache
def _content(folder: Path) -> str:
    """Digest of the source of all kernels here and in `folder`, 12 hex digits.

    Takes less than a millisecond.
    """
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for place in (here,) if folder == here else (here, folder):
        for path in sorted(place.glob("*.py")):
            source = path.read_bytes()
            digest.update(f"{path.name} {len(source)}\n".encode() + source)
    return digest.hexdigest()[:12]


def intrinsic(
    define: Callable[Concatenate[Context, P], Emit], result: types.Type = types.int64
) -> Callable[P, int]:
    """Define a piece of machine code with a Python name. It cannot be called from Python.

    Its arguments are numbers of 64 bits. `define` returns the function that emits the instructions.
    """
    compiled: Callable[P, int] = numba_intrinsic(_typed(define, result))
    return compiled


def procedure(define: Callable[Concatenate[Context, P], Emit]) -> Callable[P, None]:
    """As `intrinsic`, for a piece of machine code without a result."""
    compiled: Callable[P, None] = numba_intrinsic(_typed(define, types.void))
    return compiled


def _typed(
    define: Callable[..., Emit], result: types.Type
) -> Callable[..., tuple[Signature, Codegen]]:
    @wraps(define)
    def typed(typingctx: Context, *arguments: types.Type) -> tuple[Signature, Codegen]:
        emit = define(typingctx, *arguments)

        def codegen(
            context: BaseContext, builder: IRBuilder, _signature: Signature, values: Sequence[Value]
        ) -> Value:
            value = emit(builder, values)
            return context.get_dummy_value() if result == types.void else value

        return result(*[types.int64] * len(arguments)), codegen

    return typed
