"""Commands in forked children of this process, with one call of the C library made to fail."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import io
import mmap
import os
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Final, NamedTuple

ERRNOS: Final = {
    "EIO": errno.EIO,
    "ENOSPC": errno.ENOSPC,
    "EROFS": errno.EROFS,
    "EACCES": errno.EACCES,
}
KILL: Final = -9
SOURCE: Final = Path(__file__).with_name("fault.c")
_LIBRARY: Final = "KAFKATS_FAULT_LIBRARY"
_SECONDS: Final = 60


class Fault(NamedTuple):
    """Call number `at` below `folder` fails with `what` (an errno, or KILL)."""

    at: int
    what: int
    folder: Path


class Ended(NamedTuple):
    """How a command ended: its exit code, negative for a signal; all that it printed; calls below the fault's folder."""

    code: int
    text: str
    calls: int
    last: str


def preload() -> None:
    """Start this program again with the fault library, if it is not loaded yet. Raises SystemExit without a compiler."""
    if os.environ.get(_LIBRARY):
        return
    library = Path(tempfile.mkdtemp(prefix="kafkats-fault-")) / "fault.so"
    compiler = next((one for one in ("cc", "gcc", "clang") if _exists(one)), None)
    if compiler is None:
        raise SystemExit("scripts/campaign --faults needs a C compiler: cc, gcc or clang")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"], check=True
    )
    os.environ |= {_LIBRARY: str(library), "LD_PRELOAD": str(library)}
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _exists(program: str) -> bool:
    return (
        subprocess.run(["sh", "-c", f"command -v {program}"], stdout=subprocess.DEVNULL).returncode
        == 0
    )


def run(*words: str, fault: Fault | None = None, count: Path | None = None, uid: int = 0) -> Ended:
    """`kafkats WORDS` in a child; with `count`, only counts the calls below that folder."""
    shared = mmap.mmap(-1, 4096)
    armed = fault or (Fault(-1, 0, count) if count else None)
    with tempfile.TemporaryFile() as out:
        child = os.fork()
        if child == 0:
            _child(words, armed, shared, out.fileno(), uid)
        code = _waited(child)
        out.seek(0)
        text = out.read().decode("utf-8", "replace")
    calls, length = struct.unpack_from("qq", shared, 0)
    return Ended(code, text, calls, shared[16 : 16 + length].decode("utf-8", "replace"))


def _child(
    words: tuple[str, ...], fault: Fault | None, shared: mmap.mmap, out: int, uid: int
) -> None:
    from kafkats.cli import main

    library = ctypes.CDLL(os.environ[_LIBRARY])
    library.fault_seen.restype, library.fault_last.restype = ctypes.c_long, ctypes.c_char_p
    code = 70
    os.dup2(out, 1)
    os.dup2(out, 2)
    if uid:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    if fault:
        library.fault_arm(ctypes.c_long(fault.at), fault.what, str(fault.folder).encode())
    try:
        main(list(words))
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 71
    except BaseException:
        sys.excepthook(*sys.exc_info())
    library.fault_disarm()
    last = (library.fault_last() or b"")[:4000]
    struct.pack_into("qq", shared, 0, library.fault_seen(), len(last))
    shared[16 : 16 + len(last)] = last
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _waited(child: int) -> int:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -100


def here(*words: str) -> Ended:
    """`kafkats WORDS` in this process: where nothing fails, a child would only cost time."""
    from kafkats.cli import main

    out, code = io.StringIO(), 70
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main(list(words))
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else 71
        except BaseException:
            traceback.print_exc(file=out)
    return Ended(code, out.getvalue(), 0, "")


def freeze() -> None:
    """Have children share all that is loaded by now."""
    gc.collect()
    gc.freeze()
