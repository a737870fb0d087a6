"""Declare kernels, without numba: it is imported by the first that is compiled.

    entry       a kernel that Python calls: machine code that was built ahead runs without numba
                (kernels.machine)
    kernel      a function of other kernels; Python may call it too, with numba
    inlined     a function that is compiled into every kernel that calls it
    intrinsic   a piece of machine code; procedure: one without a result

numba checks only a kernel's own file for changes, but the machine code of a kernel also holds what
it inlines from other files. The name of a cache file therefore contains a digest of all files in
this directory, and in the kernel's own where that is another one. A change in any of them compiles
the kernel again.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeAlias, TypeVar

from kafkats.errors import UsageError
from kafkats.kernels import machine
from kafkats.kernels.digest import source_digest

if TYPE_CHECKING:
    from llvmlite.ir import IRBuilder, Value
    from numba.core.base import BaseContext
    from numba.core.typing import Context, Signature

P = ParamSpec("P")
R = TypeVar("R")

Emit: TypeAlias = Callable[["IRBuilder", Sequence["Value"]], "Value"]
"""Emit the instructions for these arguments and return their result."""
Codegen: TypeAlias = Callable[["BaseContext", "IRBuilder", "Signature", Sequence["Value"]], "Value"]

_HERE: Final = Path(__file__).parent


class Compiled:
    """A piece of a kernel that numba compiles at its first use. numba reads `_numba_type_`."""

    @cached_property
    def compiled(self) -> Any:
        """numba's object. Raises UsageError without numba, and if NUMBA_DISABLE_JIT is set."""
        raise NotImplementedError

    @property
    def _numba_type_(self) -> Any:
        from numba.core.registry import cpu_target

        return cpu_target.typing_context.resolve_value_type(self.compiled)


class Kernel(Compiled, Generic[P, R]):
    """A function that numba compiles at its first call, without the GIL.

    The result is cached on disk. A read-only installation without a home directory compiles again
    in each process.
    """

    def __init__(self, function: Callable[P, R], **options: bool) -> None:
        self.function, self._options = function, options
        wraps(function)(self)

    @cached_property
    def compiled(self) -> Any:
        function, options = self.function, {"nogil": True, **self._options}
        njit = compiler().njit
        if self._options:
            return njit(function, **options)
        name = function.__qualname__
        digest = source_digest(_HERE, Path(function.__code__.co_filename).parent)
        function.__qualname__ = f"{name}_{digest}"  # numba names the cache file by it, now
        try:
            compiled = njit(function, cache=True, **options)
        except RuntimeError:  # numba: "cannot cache function: no locator available"
            compiled = njit(function, **options)
        compiled.__qualname__ = function.__qualname__ = name
        return compiled

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self.compiled(*args, **kwargs)
        return result


class Entry(Kernel[P, R]):
    """A kernel that Python calls. Its annotations are the types of its machine code.

    They are `int`, `bool`, and the arrays of kernels.numbers. The result is int, bool or None.
    """

    @property
    def address(self) -> int:
        """Address of the machine code in this process, a C function (kernels.machine)."""
        return self._native.address

    @cached_property
    def _native(self) -> machine.Native:
        return machine.native(self)

    @cached_property
    def _call(self) -> Callable[..., R]:
        return self._native.function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._call(*args)


class _Inserted(Compiled):
    def __init__(self, define: Callable[..., Emit], result: Callable[[Any], object]) -> None:
        """`result` returns the type of the result, of numba.types."""
        self._define, self._result = define, result
        self.__doc__ = define.__doc__

    @cached_property
    def compiled(self) -> Any:
        types = compiler().types
        from numba.core.registry import cpu_target
        from numba.extending import intrinsic as numba_intrinsic

        defined = numba_intrinsic(_typed(self._define, self._result(types)))
        cpu_target.typing_context.refresh()
        return defined


class Later(Compiled):
    """A name of numba's or llvmlite's that a kernel's module needs before anything is compiled."""

    def __init__(self, module: str, name: str = "") -> None:
        self._module, self._name = module, name

    @cached_property
    def compiled(self) -> Any:
        module = importlib.import_module(self._module)
        return getattr(module, self._name) if self._name else module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)


def compiler() -> Any:
    """Return the module numba. Raises UsageError without it, and if NUMBA_DISABLE_JIT is set."""
    try:
        module = importlib.import_module("numba")
    except ImportError as e:
        raise UsageError(machine.NO_COMPILER) from e
    if module.config.DISABLE_JIT:
        raise UsageError(
            "NUMBA_DISABLE_JIT is set: kafkats reads logs with compiled code only, unset it"
        )
    return module


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` when it is first called, from Python or from another kernel."""
    return Kernel(function)


def entry(function: Callable[P, R]) -> Entry[P, R]:
    """Compile `function` for calls from Python, ahead of time too."""
    return Entry(function)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` into every kernel that calls it, so that its results stay in registers."""
    return Kernel(function, forceinline=True)


def intrinsic(
    define: Callable[Concatenate[Context, P], Emit],
    result: Callable[[Any], object] = lambda types: types.int64,
) -> Callable[P, int]:
    """Define a piece of machine code with a Python name. It cannot be called from Python.

    Its arguments are numbers of 64 bits. `define` returns the function that emits the instructions.
    `result` returns the type of its result, of numba.types.
    """
    return _Inserted(define, result)  # type: ignore[return-value]


def procedure(define: Callable[Concatenate[Context, P], Emit]) -> Callable[P, None]:
    """As `intrinsic`, for a piece of machine code without a result."""
    return _Inserted(define, lambda types: types.void)  # type: ignore[return-value]


def _typed(define: Callable[..., Emit], result: Any) -> Callable[..., tuple[Signature, Codegen]]:
    from numba import types

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
