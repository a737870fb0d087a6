"""The progress of a job beside the run's report."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafkats_airflow.runs.progress import FILES, telling

SAID = {
    "stage": "verify",
    "units": 1,
    "of_units": 2,
    "bytes": 5,
    "of_bytes": 9,
    "seconds": 1.5,
    "bytes_per_second": 3,
    "seconds_left": None,
    "failed_tasks": 0,
}


def context(folder: Path) -> Any:
    return {
        "params": {"folder": str(folder)},
        "dag": SimpleNamespace(dag_id="rebuild_time_indexes"),
        "run_id": "manual__2026-11-22T18:56:53+00:00",
        "ti": SimpleNamespace(task_id="plan", map_index=3),
    }


def told(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob(f"rebuild_time_indexes/*/{FILES}")
    return dict(json.loads(path.read_text()))


def test_it_is_written_at_begin_with_each_word_of_the_job_and_at_its_end(tmp_path: Path) -> None:
    from kafkats_airflow.reading.runs import progress_of

    with telling(context(tmp_path), "plan", "host_1") as teller:
        assert (told(tmp_path)["state"], told(tmp_path)["stage"]) == ("running", "")
        teller.tell(SAID)
        assert SAID.items() <= told(tmp_path).items()
    assert SAID.items() <= told(tmp_path).items()
    assert told(tmp_path)["state"] == "done"
    (folder,) = (tmp_path / "rebuild_time_indexes").iterdir()
    (read,) = progress_of(folder)
    assert (read.run_id, read.map_index, read.about) == (
        "manual__2026-11-22T18:56:53+00:00",
        3,
        "host_1",
    )


def test_a_job_that_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), telling(context(tmp_path), "plan", "") as teller:
        teller.tell(SAID)
        raise KeyboardInterrupt
    assert (told(tmp_path)["state"], told(tmp_path)["units"]) == ("failed", 1)


@pytest.mark.parametrize(
    "said", [{"stage": 7}, {"units": -1, "stage": ""}, {"bytes": "x", "stage": ""}]
)
def test_what_cannot_be_written_fails_no_task(tmp_path: Path, said: Any) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "good"):
        with telling(context(folder), "plan", "") as teller:
            teller.tell(said)
    with telling({}, "plan", "") as teller:
        teller.tell(SAID)
