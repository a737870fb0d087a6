"""The folders of recoveries before a start: their plans and runs, and how long these are kept.

Each log directory has its own, in its work area: what is begun on a disk is ended there.

    <work area>/@recover/<UTC time>-<number>-<random>/
        recovery.json     why its old bytes are kept, "" if they are torn bytes and zeros only
        plan/  plan.run/  as of `kafkats plan recover` and `apply`
        readable/         copies of good batches that the broker's own recovery deletes

Torn bytes and zeros are purged at the next clean start, or after `KEEP_DAYS`. A cut that holds a
whole batch or lies below the high watermark is kept until a person purges it, and copies until a
person deletes their folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from kafkats.clock import DAY_MS, utc_text
from kafkats.errors import KafkatsError, storage
from kafkats.logdir import strict_json
from kafkats.logdir.disk import DISK
from kafkats.logdir.text import read_small
from kafkats.logdir.workarea import WorkArea, area_path, make_area, make_folder, write_durably

KEEP_DAYS: Final = 7
_FOLDER: Final = "@recover"
_NOTE: Final = "recovery.json"
COPY_NOTE: Final = "copy.json"
"""The note in the folder of each copy."""


class KeptRun(NamedTuple):
    """The folder of one recovery of a log directory.

    `keep` says why a person has to purge it, "" if nobody has to.
    """

    folder: Path
    keep: str
    at_ms: int

    @property
    def plan(self) -> Path:
        return self.folder / "plan"

    @property
    def run(self) -> Path:
        return self.folder / "plan.run"

    @property
    def readable(self) -> Path:
        return self.folder / "readable"

    def is_due(self, now_ms: int, *, clean: bool) -> bool:
        """Return whether its old bytes may be purged now; `clean` after a clean stop.

        A folder with copies never is: they may be the only ones.
        """
        old = clean or now_ms - self.at_ms > KEEP_DAYS * DAY_MS
        return old and not self.keep and not self.has_copies()

    def has_copies(self) -> bool:
        """Return whether there are copies of good batches, or may be: it cannot be read."""
        try:
            return any(COPY_NOTE in names for _, _, names in os.walk(self.readable, onerror=_fail))
        except OSError as e:
            return not isinstance(e, FileNotFoundError)


def _fail(error: OSError) -> None:
    raise error


def kept_runs(log_dirs: Iterable[str], place: Path | None) -> Iterator[KeptRun]:
    """Yield the recoveries in the work areas of log directories, oldest first.

    An area that cannot be read has none.
    """
    for above in sorted({area_path(log_dir, place) / _FOLDER for log_dir in log_dirs}):
        names: list[str] = []
        with suppress(OSError):
            names = DISK.names(above)
        for name in names:
            with suppress(KafkatsError, ValueError, KeyError, TypeError):
                content = strict_json.loads(read_small(above / name / _NOTE))
                yield KeptRun(above / name, str(content["keep"]), int(content["at_ms"]))


def new_run(area: WorkArea, at_ms: int, number: int) -> KeptRun:
    """Make the folder of a recovery. It belongs to the log directory's owner.

    Raises NotPermitted, StorageFailed.
    """
    above = area.path / _FOLDER
    stamp = utc_text(at_ms).replace(":", "").replace(" ", "-")
    run = KeptRun(above / f"{stamp}-{number}-{os.urandom(4).hex()}", "", at_ms)
    with storage(run.folder, "making the folder of a recovery"):
        make_area(area, DISK)
        for folder in (above, run.folder):
            make_folder(folder, area, DISK)
    return keep(run, "", area)


def keep(run: KeptRun, why: str, area: WorkArea) -> KeptRun:
    """Note why a person has to purge a recovery. Raises StorageFailed."""
    content = json.dumps({"keep": why, "at_ms": run.at_ms}).encode() + b"\n"
    with storage(run.folder, "noting the recovery"):
        write_durably(run.folder / _NOTE, content, area, DISK)
    return run._replace(keep=why)
