"""The walk kernel as machine code in a file, which a process runs without numba.

Most commands run this one kernel. To import numba and to load what it has compiled takes half a
second; to load an object file with llvmlite, on which numba stands, 40 ms.

    <folder>/walk-<digest>.o        a line with the SHA-256 of the rest, and an ELF object file

The digest in the name covers the source of all kernels, the version of llvmlite and the processor,
so machine code of another source or for another processor is never run. The folder is that of
NUMBA_CACHE_DIR, the kernels' `__pycache__`, or the user's cache. Without a folder that can be
written, with other settings of numba, and for a package in an archive, numba loads the kernel.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kafkats import kernels
from kafkats.compression.checksums import Addresses, library_addresses
from kafkats.kernels import walk_state as k

if TYPE_CHECKING:
    from llvmlite import binding

    from kafkats.kernels.jit import Emit

Walk: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], int]
"""kernels.walk.walk: state, table and points to the reason why it returned."""

_KERNELS: Final = Path(kernels.__file__).parent
_SETTINGS: Final = ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS")
"""Settings of numba that do not change machine code."""
_MESSAGE: Final = bytes.fromhex(
    "000000000000000700000016bf0c40ff010000000181914ab000ffffffff00000000"
)
"""A message of magic 1 with offset 7, no key and an empty value."""
_NEEDS: Final = "define void @NRT_MemInfo_call_dtor(i8* %p) { ret void }"
"""numba's code names this function. It calls it for arrays that numba has allocated: here, none."""

_lock: Final = threading.Lock()
_walks: Final[list[Walk]] = []
_kept: Final[list[object]] = []
"""What must live as long as the machine code."""


def checksum_addresses() -> Addresses:
    """Return the functions that the kernel calls. Imports numba only if no library has them."""
    found = library_addresses()
    if found is not None:
        return found
    from kafkats.kernels.crc import crc_addresses

    return crc_addresses()


def walk_kernel() -> Walk:
    """Return the kernel, from the first folder that has it; otherwise compile it, and store it.

    Raises UsageError if NUMBA_DISABLE_JIT is set.
    """
    with _lock:
        if not _walks:
            _walks.append(_stored() or _compiled())
        return _walks[0]


def _stored() -> Walk | None:
    changed = any(name.startswith("NUMBA_") and name not in _SETTINGS for name in os.environ)
    if changed or not Path(__file__).is_file():
        return None
    name = _file_name()
    for folder in _folders():
        with suppress(OSError):
            walk = load((folder / name).read_bytes())
            if walk is not None:
                return walk
    for folder in _folders():
        if _may_write(folder):
            content = compiled_object()
            walk = load(content)
            if walk is not None:
                with suppress(OSError):
                    _write(folder / name, content)
            return walk
    return None


def _compiled() -> Walk:
    from kafkats.kernels.walk import walk

    return walk


def _folders() -> Iterator[Path]:
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        yield Path(given)
        return
    yield _KERNELS / "__pycache__"
    with suppress(RuntimeError):  # a user without a home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kafkats")


def _may_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _file_name() -> str:
    import llvmlite
    from llvmlite import binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    platform = (llvmlite.__version__, llvm.get_process_triple(), llvm.get_host_cpu_name(), features)
    digest = hashlib.sha256(repr(platform).encode())
    for path in (*sorted(_KERNELS.glob("*.py")), Path(__file__)):
        source = path.read_bytes()
        digest.update(f"{path.name} {len(source)}\n".encode() + source)
    return f"walk-{digest.hexdigest()[:24]}.o"


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically: another process reads all of it, or none."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        new.write_bytes(content)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def compiled_object() -> bytes:
    """Compile the kernel with numba, and return the content of its file.

    The stored function gets four numbers: the addresses of the arrays, and the rows of `points`.
    """
    import numba
    from llvmlite import binding as llvm
    from numba import carray, types

    from kafkats.kernels.jit import intrinsic
    from kafkats.kernels.walk import walk

    int64s = intrinsic(_pointer, types.CPointer(types.int64))
    slots, cells = (k.STATE_SLOTS,), (k.CELLS, k.CELL_COLUMNS)

    def walk_at(state: int, table: int, points: int, rows: int) -> int:
        return walk(
            carray(int64s(state), slots),
            carray(int64s(table), cells),
            carray(int64s(points), (rows, k.POINT_COLUMNS)),
        )

    bare = numba.njit(walk_at, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    signature = (types.int64,) * 4
    bare.compile(signature)
    module = llvm.parse_assembly(bare.inspect_llvm(signature))
    module.link_in(llvm.parse_assembly(_NEEDS))
    entry: str = bare.overloads[signature].fndesc.llvm_func_name
    code: bytes = _machine().emit_object(module)
    content = entry.encode() + b"\n" + code
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def _pointer(_context: object, _address: int) -> Emit:
    """Emit the pointer to the integers at an address."""
    from llvmlite import ir

    def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
        return builder.inttoptr(args[0], ir.IntType(64).as_pointer())

    return emit


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


def load(content: bytes) -> Walk | None:
    """Return the kernel of a file's content, None if the file is damaged or answers wrongly."""
    from llvmlite import binding as llvm

    digest, _, rest = content.partition(b"\n")
    if digest != hashlib.sha256(rest).hexdigest().encode():
        return None
    entry, _, code = rest.partition(b"\n")
    try:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
    except RuntimeError:  # LLVM's word for all that it cannot do
        return None
    address = engine.get_function_address(entry.decode())
    walk = _callable(address) if address else None
    if walk is None or not _answers(walk):
        return None
    _kept.append(engine)
    return walk


def _callable(address: int) -> Walk:
    """Return the function at `address`. By numba's calling convention it returns a status, and
    writes its result and an exception to its first two arguments.
    """
    result_type, number = ctypes.c_void_p, ctypes.c_int64
    types = (ctypes.c_int32, result_type, result_type, number, number, number, number)
    function = ctypes.CFUNCTYPE(*types)(address)

    def walk(state: NDArray[np.int64], table: NDArray[np.int64], points: NDArray[np.int64]) -> int:
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        arrays = (
            _address(state, (k.STATE_SLOTS,)),
            _address(table, (k.CELLS, k.CELL_COLUMNS)),
            _address(points, (len(points), k.POINT_COLUMNS)),
        )
        status = function(ctypes.byref(result), ctypes.byref(error), *arrays, len(points))
        if status:  # the kernel raises nothing
            raise RuntimeError(f"the walk kernel ended with status {status}")
        return result.value

    return walk


def _address(array: NDArray[np.int64], shape: tuple[int, ...]) -> int:
    """Return the address of the numbers. This takes a third of the time of `array.ctypes.data`."""
    if array.dtype != np.int64 or array.shape != shape or not array.flags.c_contiguous:
        raise TypeError(f"an array of {array.dtype}, {array.shape}, which the kernel does not take")
    return ctypes.addressof(ctypes.c_int64.from_buffer(array.data))


def _answers(walk: Walk) -> bool:
    """Return whether a kernel reads a message, and finds that another one is corrupt."""
    addresses = checksum_addresses()
    for log, stop in ((_MESSAGE, k.END), (_MESSAGE[:-1] + b"\1", k.BAD_CRC)):
        data = np.frombuffer(log, np.uint8)
        state, table, points = (
            k.new_state(),
            k.new_table(),
            np.zeros((1, k.POINT_COLUMNS), np.int64),
        )
        state[:5] = data.ctypes.data, 0, len(log), len(log), len(log)
        state[k.CRC32], state[k.CRC32C] = addresses
        state[k.INTERVAL] = 2**62
        good = stop == k.END
        wanted = (k.STOPPED, stop, int(good), len(log) if good else 0, 7 if good else -1)
        found = (walk(state, table, points), *state[[k.STOP, k.BATCHES, k.POSITION, k.LAST_OFFSET]])
        if found != wanted:
            return False
    return True
