"""The files of one try of a task's job, readable by this user alone:

FOLDER/<DAG id>/<run folder>/jobs/<task>-<map index>-<try>/request.json    what to do
                                                           result.json     what came of it
                                                           progress.json   how far it is
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from airflow.sdk import Context

from kafkats.errors import storage
from kafkats.plans.files import make_folder
from kafkats.request import Request, write_request
from kafkats_airflow.runs.folders import file_name, folder_of


class JobFiles(NamedTuple):
    """The files of a try."""

    request: Path
    result: Path
    progress: Path

    @classmethod
    def of(cls, context: Context) -> JobFiles:
        """Return the files of the task's try."""
        ti = context["ti"]
        name = f"{file_name(ti.task_id)}-{ti.map_index}-{ti.try_number}"
        folder = folder_of(context) / "jobs" / name
        return cls(*(folder / f"{one}.json" for one in cls._fields))

    @property
    def words(self) -> list[str]:
        """The arguments of the job."""
        return [word for name in self._fields for word in (f"--{name}", str(getattr(self, name)))]


def write_files(context: Context, request: Request) -> JobFiles:
    """Write the request of the task's try, where an earlier submit of the try left nothing.

    Raises UsageError, StorageFailed.
    """
    files = JobFiles.of(context)
    make_folder(files.request.parent, "the request of a job")
    for path in (files.result, files.progress):
        with storage(path, "removing it"):
            path.unlink(missing_ok=True)
    write_request(files.request, request)
    return files
