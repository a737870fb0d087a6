"""Operations on addresses for kernels: load and store numbers, copy bytes, call C functions.

Numbers in files are big endian; numbers in Arrow buffers have the machine's byte order. Addresses
need not be aligned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafkats.kernels.jit import Emit, Later, intrinsic, procedure

if TYPE_CHECKING:
    from llvmlite import ir
    from numba.core import cgutils
    from numba.core.typing import Context
else:
    ir, cgutils = Later("llvmlite.ir"), Later("numba.core.cgutils")


def _load(bits: int, *, signed: bool = True, swap: bool = True) -> Callable[[int], int]:
    @intrinsic
    def load(typingctx: Context, address: int) -> Emit:
        def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
            integer = ir.IntType(bits)
            value = builder.load(builder.inttoptr(args[0], integer.as_pointer()), align=1)
            if swap and bits > 8:
                value = builder.bswap(value)
            extend = builder.sext if signed else builder.zext
            return value if bits == 64 else extend(value, ir.IntType(64))

        return emit

    return load


def _store(bits: int, *, swap: bool = True) -> Callable[[int, int], None]:
    @procedure
    def store(typingctx: Context, address: int, value: int) -> Emit:
        def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
            integer = ir.IntType(bits)
            value = args[1] if bits == 64 else builder.trunc(args[1], integer)
            if swap and bits > 8:
                value = builder.bswap(value)
            builder.store(value, builder.inttoptr(args[0], integer.as_pointer()), align=1)

        return emit

    return store


def _move(kind: Callable[[], ir.Type]) -> Callable[[int, int], None]:
    @procedure
    def move(typingctx: Context, to: int, start: int) -> Emit:
        def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
            pointer = kind().as_pointer()
            value = builder.load(builder.inttoptr(args[1], pointer), align=1)
            builder.store(value, builder.inttoptr(args[0], pointer), align=1)

        return emit

    return move


def _wrapping(operation: str) -> Callable[[int, int], int]:
    @intrinsic
    def compute(typingctx: Context, first: int, second: int) -> Emit:
        def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
            return getattr(builder, operation)(*args)

        return emit

    return compute


plus = _wrapping("add")
"""Java's long addition. numba's `+` assumes no overflow, and compiled code may rely on that."""
minus = _wrapping("sub")

i64 = _load(64)
i32 = _load(32)
i16 = _load(16)
u32 = _load(32, signed=False)
u8 = _load(8, signed=False)
own64 = _load(64, swap=False)

put64 = _store(64)
put32 = _store(32)
put16 = _store(16)
put8 = _store(8)
put_own64 = _store(64, swap=False)
put_own32 = _store(32, swap=False)
put_own16 = _store(16, swap=False)

move8 = _move(lambda: ir.IntType(64))
move4 = _move(lambda: ir.IntType(32))
move16 = _move(lambda: ir.VectorType(ir.IntType(8), 16))


@procedure
def copy(typingctx: Context, to: int, start: int, size: int) -> Emit:
    """Copy `size` bytes; the two ranges must not overlap."""

    def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> None:
        pointer = ir.IntType(8).as_pointer()
        to, start = builder.inttoptr(args[0], pointer), builder.inttoptr(args[1], pointer)
        cgutils.raw_memcpy(builder, to, start, args[2], 1)

    return emit


@intrinsic
def crc32_by(typingctx: Context, function: int, address: int, length: int) -> Emit:
    """Return the CRC-32 from the function at address `function` (checksums.Addresses.crc32)."""

    def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
        i32, i64, pointer = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
        target = builder.inttoptr(args[0], ir.FunctionType(i32, [i32, pointer, i64]).as_pointer())
        crc = builder.call(
            target, [ir.Constant(i32, 0), builder.inttoptr(args[1], pointer), args[2]]
        )
        return builder.zext(crc, i64)

    return emit


@intrinsic
def crc32c_by(typingctx: Context, function: int, address: int, length: int) -> Emit:
    """Return the CRC-32C from the function at address `function` (checksums.Addresses.crc32c)."""

    def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
        i32, i64, pointer = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
        target = builder.inttoptr(args[0], ir.FunctionType(i32, [pointer, i32, i32]).as_pointer())
        length = builder.trunc(args[2], i32)
        crc = builder.call(
            target, [builder.inttoptr(args[1], pointer), length, ir.Constant(i32, 0xFFFFFFFF)]
        )
        return builder.zext(builder.not_(crc), i64)

    return emit


@intrinsic
def lz4_by(typingctx: Context, function: int, start: int, to: int, size: int, room: int) -> Emit:
    """Call LZ4_decompress_safe or LZ4_compress_default, which share one signature.

    Returns the number of bytes written; 0 or less is an error.
    """

    def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
        i32, i64, pointer = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
        target = builder.inttoptr(
            args[0], ir.FunctionType(i32, [pointer, pointer, i32, i32]).as_pointer()
        )
        start, to = builder.inttoptr(args[1], pointer), builder.inttoptr(args[2], pointer)
        got = builder.call(
            target, [start, to, builder.trunc(args[3], i32), builder.trunc(args[4], i32)]
        )
        return builder.sext(got, i64)

    return emit


@intrinsic
def zstd_by(
    typingctx: Context, function: int, state: int, to: int, room: int, start: int, size: int
) -> Emit:
    """Call ZSTD_decompressDCtx.

    Returns the number of bytes written; errors are the highest numbers.
    """

    def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
        i64, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        target = builder.inttoptr(
            args[0], ir.FunctionType(i64, [pointer, pointer, i64, pointer, i64]).as_pointer()
        )
        state, to = builder.inttoptr(args[1], pointer), builder.inttoptr(args[2], pointer)
        return builder.call(
            target, [state, to, args[3], builder.inttoptr(args[4], pointer), args[5]]
        )

    return emit
