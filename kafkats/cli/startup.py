"""Make a process of the command line answer and end fast; the library does none of this.

pandas    is hidden: pyarrow imports it, where it is installed, before it makes its first array,
          which takes 0.25 s, and kafkats does without it. `--spark` brings it back
datasets  of pyarrow, too: grouping rows imports them, with file systems and ssl
plugins   of pydantic are not looked for: that reads the metadata of every installed package
docs      of Arrow's functions, which no command shows, are not made of their options' docs
teardown  of the interpreter is left out: it takes 0.03 s with Arrow
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final, NoReturn

_HIDDEN: Final = ("pandas", "pyarrow.dataset")


class _Hidden:
    """A finder for sys.meta_path that does not find what kafkats does without."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in _HIDDEN:
            raise ModuleNotFoundError(f"{name} is hidden from this process", name=name)
        return None


_before: dict[str, str] = {}


_SET_ASIDE: Final = ("LD_PRELOAD", "LD_AUDIT")
"""The self-contained program gives these another name (tools/start.c)."""

_COERCED: Final = "LC_CTYPE"
"""Python gives it another value in a C locale (PEP 538)."""
_ENVIRON: Final = Path("/proc/self/environ")


def environment() -> dict[str, str]:
    """Return the environment as this process got it, for a command that it becomes."""
    found = dict(_before or os.environ)
    if _COERCED in found:
        _undo_coercion(found)
    for name in _SET_ASIDE:
        if (value := found.pop(f"KAFKATS_{name}", None)) is not None:
            found[name] = value
    return found


def _undo_coercion(found: dict[str, str]) -> None:
    """Give LC_CTYPE the value with which this process began, if the system tells it."""
    try:
        began = _ENVIRON.read_bytes().split(b"\0")
    except OSError:
        return
    del found[_COERCED]
    pairs = (os.fsdecode(one).partition("=") for one in began)
    found.update((name, value) for name, _, value in pairs if name == _COERCED)


def start_fast() -> None:
    """Prepare this process, which runs one command and ends."""
    _before.update(os.environ)
    sys.meta_path.insert(0, _Hidden)
    _stand_in("pydantic.plugin._loader", get_plugins=tuple)
    _stand_in("pyarrow.vendored.docscrape", NumpyDocString=lambda _: {"Parameters": ()})
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _stand_in(name: str, **content: object) -> None:
    """Put a module in place of one that has not been imported."""
    module = ModuleType(name)
    vars(module).update(content)
    sys.modules.setdefault(name, module)


def end_fast(code: int) -> NoReturn:
    """End this process with an exit code, after its exit handlers and its last output."""
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # nobody reads it any more: Python says so
        sys.exit(code)
    os._exit(code)


def show_hidden() -> None:
    """Undo the hiding, before anything has looked for what is hidden."""
    if _Hidden in sys.meta_path:
        sys.meta_path.remove(_Hidden)
