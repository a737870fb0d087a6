"""Make a process of the command line answer and end fast; the library does none of this.

pandas    is hidden: pyarrow imports it, where it is installed, before it makes its first array,
          which takes 0.25 s, and kafkats does without it. `--spark` brings it back
plugins   of pydantic are not looked for: that reads the metadata of every installed package
teardown  of the interpreter is left out: it takes 0.03 s with Arrow
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NoReturn


class _NoPandas:
    """A finder for sys.meta_path that does not find pandas."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden from this process", name=name)
        return None


def start_fast() -> None:
    """Prepare this process, which runs one command and ends."""
    sys.meta_path.insert(0, _NoPandas)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def end_fast(code: int) -> NoReturn:
    """End this process with an exit code, after its exit handlers and its last output."""
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads it any more: Python says so
        sys.exit(code)
    os._exit(code)


def show_pandas() -> None:
    """Undo the hiding of pandas, before anything has looked for it."""
    if _NoPandas in sys.meta_path:
        sys.meta_path.remove(_NoPandas)
