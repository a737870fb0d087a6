"""Compile all kernels that Python calls into one library, which runs without numba.

    python -m tools.kernels_library FOLDER      writes kernels-<digest>.so there, and prints its path

The library is for every processor of this platform: it uses baseline instructions only. It needs no other library than the
C library, and of that `memcpy` and the like. `kafkats.kernels.machine` loads it. It takes half a minute, and `ld`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kafkats.kernels import machine

_BASELINE: Final = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
"""numba optimizes for the processor that is named here when it is imported."""
_LINK: Final = (
    "ld",
    "-shared",
    "--strip-all",
    "--build-id=none",
    "-z",
    "noexecstack",
    "-z",
    "relro",
)


def write_library(folder: Path) -> Path:
    """Compile all kernels, link the library into `folder`, and return its path.

    Raises RuntimeError if the linker fails.
    """
    from llvmlite import binding as llvm

    from kafkats.kernels import emit

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu="generic", features="", opt=3, reloc="pic", codemodel="small"
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / machine.library_name()
    with tempfile.TemporaryDirectory() as scratch:
        objects = []
        for kernel in emit.entries():
            objects.append(Path(scratch, f"{machine.symbol(kernel)}.o"))
            objects[-1].write_bytes(emit.object_code(kernel, target))
        exported = Path(scratch, "exported")
        exported.write_text("{ global: kafkats_*; local: *; };")
        words = [*_LINK, f"--version-script={exported}", "-o", path, *objects]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ld failed: {done.stderr[-1000:]}")
    return path


def main(words: Sequence[str]) -> int:
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    if any(os.environ.get(name) != value for name, value in _BASELINE.items()):
        again = [sys.executable, "-m", "tools.kernels_library", *words]
        return subprocess.run(again, env=os.environ | _BASELINE, check=False).returncode
    print(write_library(Path(words[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
