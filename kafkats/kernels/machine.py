"""Machine code of the kernels that Python calls, from the first place that has it:

    kernels/kernels-<digest>.so     in a wheel or package of this platform; runs without numba
    <folder>/<kernel>-<digest>.o    compiled here earlier; llvmlite, on which numba stands, loads it
    numba                           compiles it, and stores it where a folder can be written

The digest in a name covers the source of all kernels. That of an object file also covers the
version of llvmlite, the processor and the settings of numba, so machine code of another source or
for another processor is never run. The folder is that of NUMBA_CACHE_DIR, the kernels'
`__pycache__`, or the user's cache. KAFKATS_KERNELS is the path of another library of these sources,
or `compiled`: without a library.

A kernel is a C function of numbers of 64 bits. An array is its address and the numbers of its
shape. The result is a number: FAILED if the kernel raised, which happens under numba's checks only.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kafkats.errors import UsageError
from kafkats.kernels.digest import source_digest

if TYPE_CHECKING:
    from llvmlite import binding

FAILED: Final = -(2**63)
ARRAYS: Final = {
    "Int64s": ("int64", 1),
    "Int64Rows": ("int64", 2),
    "Int32s": ("int32", 1),
    "Int8s": ("int8", 1),
}
"""Data type and dimensions of the arrays that a kernel takes; other parameters are numbers."""
NO_COMPILER: Final = (
    "this installation has no machine code for this platform, and no compiler: install the extra "
    "kafkats[compile], which brings numba"
)

_HERE: Final = Path(__file__).parent
_SETTINGS: Final = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")
"""Settings of numba that do not change machine code."""

_lock: Final = threading.RLock()
_kept: Final[list[object]] = []
"""What must live as long as the machine code."""


class Source(Protocol):
    """A kernel that Python calls (kernels.jit.Entry)."""

    function: Callable[..., Any]


class Native(NamedTuple):
    """A kernel as machine code: its address, and the function to call with the kernel's arguments.

    That function raises TypeError for an array of another type or shape, or with gaps.
    """

    address: int
    function: Callable[..., Any]


def native(kernel: Source) -> Native:
    """Return the kernel's machine code.

    Raises UsageError if there is none and it cannot be compiled.
    """
    with _lock:
        found = library()
        if found is None:
            return _native(kernel, _stored(kernel))
        address = ctypes.cast(found[symbol(kernel)], ctypes.c_void_p).value
        return _native(kernel, address or 0)


def symbol(kernel: Source) -> str:
    """Return the name of the kernel in libraries, object files, and folders of these."""
    module = kernel.function.__module__.rpartition(".")[2]
    return f"kafkats_{module}_{kernel.function.__name__}"


def library_name() -> str:
    """Return the name of the library of the kernels of these sources."""
    return f"kernels-{source_digest(_HERE)}.so"


@cache
def library() -> ctypes.CDLL | None:
    """Return the library beside this file, None without one of these sources and this platform.

    Raises UsageError if KAFKATS_KERNELS names another one.
    """
    given = os.environ.get("KAFKATS_KERNELS")
    if given == "compiled":
        return None
    path = Path(given) if given else _HERE / library_name()
    try:
        if path.name == library_name():
            return ctypes.CDLL(str(path))
    except OSError:
        pass
    if given:
        raise UsageError(f"KAFKATS_KERNELS: {path} has no kernels of this source and platform")
    return None


def _stored(kernel: Source) -> int:
    """Return the address of the kernel, which an object file holds; write it if there is none."""
    name = _file_name(kernel)
    for folder in _folders():
        with suppress(OSError):
            address = load(symbol(kernel), (folder / name).read_bytes())
            if address:
                return address
    content = compiled_object(kernel)
    address = load(symbol(kernel), content)
    if not address:
        raise UsageError(f"the machine code of {symbol(kernel)} cannot be loaded on this machine")
    for folder in filter(_may_write, _folders()):
        with suppress(OSError):
            _write(folder / name, content)
        break
    return address


def compiled_object(kernel: Source) -> bytes:
    """Compile a kernel for this processor, and return the content of its file."""
    try:
        emit = import_module("kafkats.kernels.emit")
    except ImportError as e:
        raise UsageError(NO_COMPILER) from e
    if sys.stderr.isatty():
        print(
            f"kafkats: compiling {kernel.function.__name__} for this machine, once", file=sys.stderr
        )
    code: bytes = emit.object_code(kernel, _machine())
    return hashlib.sha256(code).hexdigest().encode() + b"\n" + code


def load(name: str, content: bytes) -> int:
    """Return the address of the function in a file's content, 0 if the file is damaged."""
    from llvmlite import binding as llvm

    digest, _, code = content.partition(b"\n")
    if digest != hashlib.sha256(code).hexdigest().encode():
        return 0
    try:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
    except RuntimeError:  # LLVM's word for all that it cannot do
        return 0
    address: int = engine.get_function_address(name)
    _kept.append(engine)
    return address


def _folders() -> Iterator[Path]:
    if not Path(__file__).is_file():
        return  # a package in an archive, whose sources have no digest
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        yield Path(given)
        return
    yield _HERE / "__pycache__"
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kafkats")


def _may_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _file_name(kernel: Source) -> str:
    try:
        import llvmlite
        from llvmlite import binding as llvm
    except ImportError as e:
        raise UsageError(NO_COMPILER) from e
    features = llvm.get_host_cpu_features().flatten()
    platform = (llvmlite.__version__, llvm.get_process_triple(), llvm.get_host_cpu_name(), features)
    settings = sorted(
        pair
        for pair in os.environ.items()
        if pair[0].startswith("NUMBA_") and pair[0] not in _SETTINGS
    )
    digest = hashlib.sha256(repr((platform, settings)).encode()).hexdigest()
    return f"{symbol(kernel)}-{source_digest(_HERE)}{digest[:12]}.o"


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically: another process reads all of it, or none."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        new.write_bytes(content)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _machine() -> binding.TargetMachine:
    """Return the target machine of this processor."""
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        codemodel="jitdefault",
        jit=True,
    )


def _native(kernel: Source, address: int) -> Native:
    *given, result = kinds(kernel)
    arrays = [ARRAYS.get(kind) for kind in given]
    width = sum(1 + array[1] if array else 1 for array in arrays)
    number = ctypes.c_int64
    function = ctypes.CFUNCTYPE(number, *(number,) * width)(address)
    name = kernel.function.__name__

    def call(*arguments: Any) -> Any:
        found = function(*_numbers(arrays, arguments))
        if found == FAILED:
            raise RuntimeError(f"the kernel {name} ended with an exception")
        return found

    if result == "bool":
        return Native(address, lambda *arguments: call(*arguments) != 0)
    return Native(address, call)


def kinds(kernel: Source) -> list[str]:
    """Return the annotations of the kernel's parameters, and that of its result."""
    function = kernel.function
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return [function.__annotations__[name] for name in (*names, "return")]


def _numbers(arrays: Sequence[tuple[str, int] | None], arguments: Sequence[Any]) -> list[int]:
    numbers: list[int] = []
    for wanted, argument in zip(arrays, arguments, strict=True):
        if wanted is None:
            numbers.append(int(argument))
            continue
        if argument.dtype != wanted[0] or argument.ndim != wanted[1]:
            raise TypeError(f"an array of {argument.dtype}, {argument.shape}, not {wanted}")
        numbers.append(_address(argument))
        numbers += argument.shape
    return numbers


def _address(array: Any) -> int:
    """Return the address of the numbers. This takes a tenth of the time of `array.ctypes.data`."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError):  # read-only, or empty
        if not array.flags.c_contiguous:
            raise TypeError("an array with gaps, which a kernel does not take") from None
        address: int = array.ctypes.data
        return address
