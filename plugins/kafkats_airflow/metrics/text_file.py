"""The metrics as a file for the textfile collector of a node exporter (KAFKATS_METRICS_FILE).

The task that writes a report writes the file, too: the figures change with the reports only. For
what changes without one, such as a purge by hand: `python -m kafkats_airflow.metrics.text_file`.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Final

from kafkats_airflow import settings
from kafkats_airflow.runs.folders import file_name

_LOG: Final = logging.getLogger(__name__)


def refresh(folder: str | Path, name: str = "") -> None:
    """Write KAFKATS_METRICS_FILE, if it is set and the run is of the deployment's folder.

    `name` is that of another set of DAGs with this folder: its figures are in a file beside it.
    A failure is a warning: no run fails for its metrics.
    """
    if not settings.METRICS_FILE or (not name and Path(folder) != Path(settings.FOLDER)):
        return
    try:
        write(Path(settings.METRICS_FILE), name, Path(folder))
    except (OSError, ValueError) as e:  # a NUL in the path
        _LOG.warning("remark: KAFKATS_METRICS_FILE %s: %s", settings.METRICS_FILE, e)


def write(path: Path, name: str, folder: Path) -> None:
    """Write the file of a set in one step; everybody may read it. Raises OSError."""
    from prometheus_client import exposition

    from kafkats_airflow.metrics.families import registry

    if name:
        path = path.with_name(f"{path.stem}-{file_name(name)}{path.suffix}")
    made = registry(lambda: {name: folder}, by_partition=settings.METRICS_PARTITIONS)
    exposition.write_to_textfile(str(path), made)
    path.chmod(0o644)


def main() -> int:
    """Write the file that the deployment sets. Returns 2 if it sets none or cannot be written."""
    if settings.WRONG or not settings.METRICS_FILE:
        print(settings.WRONG or "KAFKATS_METRICS_FILE is not set", file=sys.stderr)
        return 2
    try:
        write(Path(settings.METRICS_FILE), "", Path(settings.FOLDER))
    except OSError as e:
        print(f"{settings.METRICS_FILE}: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
