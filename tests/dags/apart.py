"""A job in this process that sees no more of the folder of all runs than a host by SSH gets, and gives back no more."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from kafkats_airflow.jobs.job_files import JobFiles
from kafkats_airflow.jobs.sending import parcel_of

from kafkats.detached import parcels
from kafkats.detached.messages import Answer
from kafkats.errors import KafkatsError
from kafkats.execution.executor import Executor
from kafkats.request import read_request
from tests.spark_jobs.words import Files, run_files


def run_apart(executor: Executor, job: str, files: JobFiles) -> KafkatsError | None:
    """Run the request in the files with the files of its parcel alone."""
    with tempfile.TemporaryDirectory() as name:
        request, result = Path(name, "request.json"), Path(name, "result.json")
        shutil.copy(files.request, request)
        with apart(request, files.request.parents[4]):
            error = run_files(executor, job, Files(request, result, {}))
        if result.exists():
            shutil.copy(result, files.result)
    return error


@contextmanager
def apart(request: Path, folder: Path) -> Generator[None]:
    """Meanwhile the folder has the files of this request alone; those that change come back, others are lost."""
    parcel = parcel_of(read_request(request), folder)
    sent = io.BytesIO()
    parcels.pack(sent, folder, parcel.files)
    real = folder.with_name(f"{folder.name}.real")
    folder.rename(real)
    folder.mkdir()
    came = io.BytesIO()
    try:
        sent.seek(0)
        parcels.unpack(sent, folder, parcel.paths, parcel.files)
        yield
        here = parcels.listed(folder, parcel.paths)
        changed = {name: one for name, one in here.items() if parcel.files.get(name) != one}
        parcels.pack(came, folder, changed)
    finally:
        shutil.rmtree(folder)
        real.rename(folder)
    came.seek(0)
    parcel.unpack(came, Answer(kafkats="this one", files=changed))
    parcels.remove(folder, parcel.paths, [name for name in parcel.files if name not in here])
