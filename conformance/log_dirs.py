"""Changes of a broker's log directories: its properties, a second one, other things than files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from conformance.started import Started
from kafkats import paths


def set_property(root: Path, key: str, value: str | None) -> None:
    """Change a line of meta.properties; None removes it."""
    file = root / paths.META_PROPERTIES
    kept = [line for line in file.read_text().splitlines() if not line.startswith(f"{key}=")]
    kept += [] if value is None else [f"{key}={value}"]
    file.write_text("\n".join(kept) + "\n")


def second_log_dir(broker: Started) -> Path:
    """Add a second log directory of the same broker, without partitions."""
    second = broker.work / "data-2"
    second.mkdir()
    shutil.copy2(broker.root / paths.META_PROPERTIES, second)
    set_property(second, "directory.id", None)
    shutil.copy2(broker.root / paths.CLEAN_SHUTDOWN, second)
    broker.more = [second]
    return second


def _in_place_of(
    name: str, put: Callable[[Path], object], *, second: bool = False
) -> Callable[[Started], None]:
    """Put something else in the place of a file of a log directory."""

    def replace(broker: Started) -> None:
        file = (second_log_dir(broker) if second else broker.root) / name
        file.unlink(missing_ok=True)
        put(file)

    return replace


def _dangling(file: Path) -> None:
    file.symlink_to("nowhere/at-all")


def _folder_with_a_file(file: Path) -> None:
    file.mkdir()
    (file / "file").touch()


IN_PLACE: Final[dict[str, Callable[[Started], None]]] = {
    "recovery points: a link to nothing": _in_place_of(paths.RECOVERY_POINT, _dangling),
    "log starts: a link to nothing": _in_place_of(paths.LOG_START, _dangling),
    "high watermarks: a link to nothing": _in_place_of(paths.HIGH_WATERMARK, _dangling),
    "high watermarks: a directory": _in_place_of(paths.HIGH_WATERMARK, Path.mkdir),
    "recovery points: a directory": _in_place_of(paths.RECOVERY_POINT, Path.mkdir),
    "recovery points: a link to nothing in the second directory": _in_place_of(
        paths.RECOVERY_POINT, _dangling, second=True
    ),
    "a marker: a link to nothing": _in_place_of(paths.CLEAN_SHUTDOWN, _dangling),
    "a marker: an empty directory": _in_place_of(paths.CLEAN_SHUTDOWN, Path.mkdir),
    "a marker: a directory with a file": _in_place_of(paths.CLEAN_SHUTDOWN, _folder_with_a_file),
    "a marker: a directory with a file in the second directory": _in_place_of(
        paths.CLEAN_SHUTDOWN, _folder_with_a_file, second=True
    ),
    "meta.properties: a link to nothing": _in_place_of(paths.META_PROPERTIES, _dangling),
    "meta.properties: a directory": _in_place_of(paths.META_PROPERTIES, Path.mkdir),
    "meta.properties: a directory in the second directory": _in_place_of(
        paths.META_PROPERTIES, Path.mkdir, second=True
    ),
    "meta.properties: a link to nothing in the second directory": _in_place_of(
        paths.META_PROPERTIES, _dangling, second=True
    ),
    "a lock: a directory": _in_place_of(paths.LOCK, Path.mkdir),
    "a lock: a link to nothing": _in_place_of(paths.LOCK, _dangling),
    "a lock: a directory in the second directory": _in_place_of(
        paths.LOCK, Path.mkdir, second=True
    ),
}
"""Something else in the place of a file of a log directory, by name."""
