"""Compile the kernels that Python calls to object files, with numba."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from llvmlite import binding as llvm
from llvmlite import ir
from numba import carray, types

from kafkats.kernels import machine
from kafkats.kernels.jit import Emit, Entry, compiler, intrinsic

if TYPE_CHECKING:
    from kafkats.kernels.machine import Source

_NUMBER: Final = ir.IntType(64)
_POINTER: Final = ir.IntType(8).as_pointer()


def object_code(kernel: Source, target: llvm.TargetMachine) -> bytes:
    """Compile a kernel to an object file. Its function is `machine.symbol`, as `machine` says."""
    wrapper, width = _by_numbers(kernel)
    signature = (types.int64,) * width
    bare = compiler().njit(wrapper, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
    bare.compile(signature)
    module = llvm.parse_assembly(bare.inspect_llvm(signature))
    inner: str = bare.overloads[signature].fndesc.llvm_func_name
    module.link_in(llvm.parse_assembly(str(_outer(machine.symbol(kernel), inner, width))))
    module.verify()
    code: bytes = target.emit_object(module)
    return code


def _by_numbers(kernel: Source) -> tuple[Any, int]:
    """Return a function of numbers that calls the kernel, and how many numbers it takes."""
    names: list[str] = []
    arguments: list[str] = []
    *given, result = machine.kinds(kernel)
    for number, wanted in enumerate(given):
        names.append(f"a{number}")
        if wanted in machine.ARRAYS:
            kind, dimensions = machine.ARRAYS[wanted]
            shape = [f"n{number}_{axis}" for axis in range(dimensions)]
            names += shape
            arguments.append(f"carray({kind}(a{number}), ({', '.join(shape)},))")
        else:
            arguments.append(f"bool(a{number})" if wanted == "bool" else f"a{number}")
    call = f"kernel({', '.join(arguments)})"
    body = f"    {call}\n    return 0" if result == "None" else f"    return number({call})"
    scope: dict[str, Any] = {"kernel": kernel, "carray": carray, "number": types.int64}
    for kind, _ in machine.ARRAYS.values():
        scope[kind] = _pointer(getattr(types, kind))
    source = f"def by_numbers({', '.join(names)}):\n{body}\n"
    exec(compile(source, f"<{machine.symbol(kernel)}>", "exec"), scope)  # noqa: S102 - made above
    return scope["by_numbers"], len(names)


def _pointer(element: Any) -> Any:
    """Return the function that makes a pointer to such elements of an address."""

    def pointer(_context: object, _address: int) -> Emit:
        def emit(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
            return builder.inttoptr(args[0], ir.IntType(element.bitwidth).as_pointer())

        return emit

    return intrinsic(pointer, lambda numba_types: numba_types.CPointer(element))


def _outer(name: str, inner: str, width: int) -> ir.Module:
    """Return a module with the C function `name`.

    By numba's calling convention `inner` returns a status, and writes its result and an exception
    to its first two arguments.
    """
    module = ir.Module()
    numbers = [_NUMBER] * width
    kind = ir.FunctionType(ir.IntType(32), [_NUMBER.as_pointer(), _POINTER.as_pointer(), *numbers])
    called = ir.Function(module, kind, inner)
    function = ir.Function(module, ir.FunctionType(_NUMBER, numbers), name)
    builder = ir.IRBuilder(function.append_basic_block())
    result, error = builder.alloca(_NUMBER), builder.alloca(_POINTER)
    status = builder.call(called, [result, error, *function.args])
    failed = builder.icmp_signed("!=", status, ir.Constant(status.type, 0))
    builder.ret(builder.select(failed, ir.Constant(_NUMBER, machine.FAILED), builder.load(result)))
    # numba's code names this function. It calls it for arrays that numba has allocated: here, none.
    kind = ir.FunctionType(ir.VoidType(), [_POINTER])
    freed = ir.Function(module, kind, "NRT_MemInfo_call_dtor")
    freed.linkage = "weak"  # every object file has it
    ir.IRBuilder(freed.append_basic_block()).ret_void()
    return module


def entries() -> list[Entry[..., Any]]:
    """Return all kernels that Python calls, by module and name."""
    found: dict[str, Entry[..., Any]] = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        module = importlib.import_module(f"kafkats.kernels.{path.stem}")
        for value in vars(module).values():
            if isinstance(value, Entry):
                found[machine.symbol(value)] = value
    return [found[name] for name in sorted(found)]
