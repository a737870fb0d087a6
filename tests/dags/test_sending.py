"""The files that a host gets with a request: all that it names, and none from elsewhere; a ledger is appended to, not replaced."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.jobs.sending import parcel_of

from kafkats.detached import parcels
from kafkats.detached.messages import Answer
from kafkats.errors import Refused, UsageError
from kafkats.migration import ledger
from kafkats.request import Request, made_of


def asked(verb: str, **fields: Any) -> Request:
    return made_of({"verb": verb, "id": "a", "made_ms": 1, **fields})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder of runs with a plan, its RUN beside it, and a plan of another try."""
    runs = tmp_path / "runs"
    for name, file, digest in (
        ("plan-1", "plan.json", "d1"),
        ("plan-2", "plan.json", "d2"),
        ("run-1", "run.json", "d1"),
    ):
        (runs / "g" / name).mkdir(parents=True)
        (runs / "g" / name / file).write_text(json.dumps({"digest": digest}))
    return runs


def test_a_run_goes_with_its_plan(runs: Path) -> None:
    named = {"ProofOptions": {"of_run": [str(runs / "g" / "run-1")]}}
    parcel = parcel_of(asked("verify", options=named), runs)
    assert sorted(parcel.files) == ["g/plan-1/plan.json", "g/run-1/run.json"]
    undone = parcel_of(asked("undo", runs=[{"folder": str(runs / "g" / "run-1")}]), runs)
    assert undone.files == parcel.files


def test_log_directories_and_work_areas_are_of_the_host(runs: Path) -> None:
    request = asked(
        "undo",
        runs=[{"folder": str(runs / "g" / "run-1")}],
        options={"UndoCertify": {"certified": ["/kafka/a"], "report": str(runs / "g" / "after")}},
    )
    paths = {str(one.relative_to(runs)) for one in parcel_of(request, runs).paths}
    assert paths == {"g/run-1", "g/plan-1", "g/after"}
    plan = asked("plan", operation="rebuild", options={"WorkArea": {"place": "/mnt/work"}})
    assert parcel_of(plan, runs).paths == ()


def test_what_lies_elsewhere_is_refused(runs: Path) -> None:
    with pytest.raises(UsageError, match="files of the folder of all runs only"):
        parcel_of(asked("census", options={"Report": {"report": "/srv/report"}}), runs)


@pytest.mark.parametrize("name", ["g/approved.json", "g/./approved.json"])
def test_no_host_changes_the_record_of_an_approval(runs: Path, name: str) -> None:
    (record := runs / "g" / "approved.json").write_text("{}")
    plan = {"folder": str(runs / "g" / "plan-1"), "digest": "d1"}
    parcel = parcel_of(asked("apply", plan=plan, approval={"record": str(record)}), runs)
    assert record in parcel.paths
    with pytest.raises(Refused, match="record of an approval"):
        parcel.unpack(io.BytesIO(), Answer(kafkats="0", files={name: "d"}))
    with pytest.raises(Refused, match="record of an approval"):
        parcel.removed(Answer(kafkats="0", gone=(name,)))
    assert record.exists()


def test_the_folder_has_a_token_by_which_a_host_knows_it(runs: Path) -> None:
    parcel = parcel_of(asked("census"), runs)
    assert (runs / parcel.mark).is_file()


def grown(path: Path, *events: str) -> None:
    for event in events:
        ledger.append(
            path, event, by="ops", now_ms=1_795_500_000_000, broker=event[-1], phase="phase-1"
        )


def test_entries_of_a_host_are_appended_once_behind_those_of_others(
    runs: Path, tmp_path: Path
) -> None:
    ours = runs / "ledger.jsonl"
    grown(ours, "begun-0")
    host = tmp_path / "host" / "ledger.jsonl"
    host.parent.mkdir()
    shutil.copy(ours, host)
    grown(host, "started-1", "converted-1")
    grown(ours, "started-2")
    (runs / "g" / "plan-1" / "plan.json").write_text(
        json.dumps({"digest": "d1", "options": {"ledger": str(ours)}})
    )
    parcel = parcel_of(
        asked("apply", plan={"folder": str(runs / "g" / "plan-1"), "digest": "d1"}), runs
    )
    assert parcel.ledgers == (ours,)
    files = parcels.listed(host.parent, [host])
    for _ in range(2):  # the host is asked again if the connection was lost
        came = io.BytesIO()
        parcels.pack(came, host.parent, files)
        came.seek(0)
        parcel.unpack(came, Answer(kafkats="0", files=files))
    parcel.removed(Answer(kafkats="0", gone=("ledger.jsonl",)))  # it is never the host's to remove
    events = [one.event for one in ledger.read(ours).entries]
    assert events == ["begun-0", "started-2", "started-1", "converted-1"]
