"""The files of one try of a task's job, readable by this user alone:

FOLDER/<DAG id>/<run folder>/jobs/<task>-<map index>-<try>/request.json    what to do
                                                           result.json     what came of it
                                                           progress.json   how far it is
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from airflow.providers.common.compat.sdk import Context

from kafkats.errors import storage
from kafkats.plans.files import make_folder
from kafkats.request import Request, write_request
from kafkats_airflow.runs.folders import file_name, folder_of


class JobFiles(NamedTuple):
    """The files of a try, in its folder."""

    folder: Path

    @property
    def request(self) -> Path:
        """What the job is to do (kafkats.request)."""
        return self.folder / "request.json"

    @property
    def result(self) -> Path:
        """What came of it (kafkats.result)."""
        return self.folder / "result.json"

    @property
    def progress(self) -> Path:
        """How far the job is (kafkats.progress)."""
        return self.folder / "progress.json"

    @property
    def words(self) -> list[str]:
        """Return the arguments of the job."""
        named = {"--request": self.request, "--result": self.result, "--progress": self.progress}
        return [word for name, path in named.items() for word in (name, str(path))]


def write_files(context: Context, request: Request) -> JobFiles:
    """Write the request of the task's try, where an earlier submit of the try left nothing.

    Raises UsageError, StorageFailed.
    """
    ti = context["ti"]
    name = f"{file_name(ti.task_id)}-{ti.map_index}-{ti.try_number}"
    files = JobFiles(folder_of(context) / "jobs" / name)
    make_folder(files.folder, "the request of a job")
    for path in (files.result, files.progress):
        with storage(path, "removing it"):
            path.unlink(missing_ok=True)
    write_request(files.request, request)
    return files
