"""The output folder of a replay: it has all log directories of a script, or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from kafkats import paths
from kafkats.errors import Refused, StorageFailed, UsageError, storage
from kafkats.logdir.partition import log_bases
from kafkats.plans.files import make_folder

_UNFINISHED: Final = ".unfinished"


@contextmanager
def new_output(output: Path) -> Generator[Path, None, None]:
    """Yield an empty folder. Its content moves into the folder `output` at the end.

    After an error or an interrupt the folder is deleted, with the folders that were created for it.
    A killed process leaves `output/.unfinished`. Raises Refused if `output` is not empty, or lies
    in a log directory; StorageFailed.
    """
    with storage(output, "looking"):
        if output.exists() and (not output.is_dir() or any(output.iterdir())):
            raise Refused("it is not empty: name a folder that does not exist", path=output)
        real = Path(os.path.realpath(output))
        created = [folder for folder in (real, *real.parents) if not folder.exists()]
    _check_place(real, output)
    try:
        make_folder(output, "a replay")
    except UsageError as e:
        raise Refused(e.reason, path=output) from e
    unfinished = output / _UNFINISHED
    try:
        with storage(output, "creating"):
            unfinished.mkdir()
        yield unfinished
        with storage(output, "renaming"):
            for path in sorted(unfinished.iterdir()):
                path.rename(output / path.name)
        created = []
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        for folder in created:
            with suppress(OSError):
                folder.rmdir()


def _check_place(real: Path, output: Path) -> None:
    """Raise Refused if `real` lies in a partition directory, or beside one."""
    for above in real.parents:
        if _is_partition(above):
            raise Refused(f"it lies in the partition directory {above}", path=output)
        beside = _partition_in(above)
        if beside is not None:
            raise Refused(
                f"it lies in the log directory {above}, which has the partition {beside}",
                path=output,
            )


def _partition_in(folder: Path) -> str | None:
    """Return the name of a partition directory in `folder`, None if there is none to be seen."""
    with suppress(OSError):
        return next((path.name for path in folder.iterdir() if _is_partition(path)), None)
    return None


def _is_partition(folder: Path) -> bool:
    """Return whether a directory is named as a partition, and has logs."""
    if paths.parse_partition(folder.name) is None:
        return False
    with suppress(StorageFailed):
        return bool(log_bases(folder))
    return False
