"""The list of who decided and did what: every line is of a file of a run that the person may read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.ui.folders import HOSTILE, change, ended, volume, write

NOW = 1_800_000_000_000
VIEWER = {"Authorization": "Bearer viewer"}
DIGEST = "ab" * 32


def events(folder: Path) -> list[Any]:
    from kafkats_airflow.reading.runs import runs_in
    from kafkats_airflow.ui.reading.audit import events_of

    from tests.ui.harness import DAGS

    return events_of(runs_in(folder, sorted(DAGS)))


def story(folder: Path, by: str = "ulla") -> Path:
    """A retention that Ada triggered and Ulla approved; Vera let it be undone."""
    run = folder / "apply_retention" / "manual__1"
    started = {"by": "ada", "volumes": {"/data": "1"}}
    plan = {"plan": "p", "digest": DIGEST, "totals": {"files": 1}, "operation": "retain"}
    write(
        run / "question.json",
        {"options": {"Approve": [DIGEST], "Reject": []}, "plans": [plan | {"log_dirs": ["/data"]}]}
        | {"asked_ms": NOW, "until_ms": NOW + 9, "run_id": run.name, "started": started},
    )
    write(
        run / "approval.json",
        {"option": "Approve", "digests": [DIGEST], "by": by, "why": "answered"}
        | {"answered_ms": NOW + 1, "run_id": run.name},
    )
    kept = change(run, DIGEST, {"/data": 5}, None)
    applied = run / "spark_default" / f"run-{DIGEST[:16]}"
    write(applied / "undone.json", {"at_ms": NOW + 3})
    more = {"run": run.name, "undo": [kept], "started": started}
    ended(folder, NOW + 2, volume("/data"), dag="apply_retention", **more)
    undo = ended(folder, NOW + 4, dag="end_run", started={"by": "vera"})
    told = json.loads((undo / "report.json").read_text())
    write(undo / "report.json", told | {"of": str(run), "verb": "undo"})
    write(
        run / "jobs" / "release-0-1" / "result.json",
        {"released": [{"log_dir": "/data", "outcome": "released"}]},
    )
    return run


def test_who_asked_approved_wrote_undid_and_released(folder: Path) -> None:
    story(folder)
    found = {one.verb: (one.by, one.run_id, one.log_dirs) for one in events(folder)}
    assert found == {
        "asked": ("ada", "manual__1", ("/data",)),
        "approved": ("ulla", "manual__1", ("/data",)),
        "wrote": ("ada, approved by ulla", "manual__1", ("/data",)),
        "undid": ("vera", "manual__1", ("/data",)),
        "released": ("ada, approved by ulla", "manual__1", ("/data",)),
    }
    assert [one.what for one in events(folder) if one.verb == "released"] == ["its reservation"]
    gone = {"released": [{"log_dir": "/data", "outcome": "released"}]}
    write(next((folder / "end_run").iterdir()) / "jobs" / "release-0-1" / "result.json", gone)
    whose = {one.what for one in events(folder) if one.verb == "released"}
    assert whose == {"its reservation", "the reservation of manual__1"}
    approved = next(one for one in events(folder) if one.verb == "approved")
    assert (approved.at_ms, approved.what) == (NOW + 1, f"Approve: {DIGEST[:16]}")


def test_a_purge_that_no_run_did_names_nobody(folder: Path) -> None:
    run = story(folder)
    write(
        run / "spark_default" / f"run-{DIGEST[:16]}" / "purge.json", {"at_ms": 1, "freed_bytes": 7}
    )
    purged = next(one for one in events(folder) if one.verb == "purged")
    assert (purged.at_ms, purged.by) == (1, "")


def test_the_page_shows_only_what_the_person_may_read(client: Any, folder: Path) -> None:
    story(folder, by=HOSTILE)
    text = client.get("/kafkats/audit").text
    assert "ada" in text and "manual__1" in text and "<script>document" not in text
    assert "manual__1" not in client.get("/kafkats/audit", headers=VIEWER).text
    only = client.get("/kafkats/audit", params={"verb": "undid", "find": "VERA"}).text
    assert only.count("data-verb=") == 1 and 'data-verb="undid"' in only
    assert "No row fits" in client.get("/kafkats/audit", params={"find": "nobody"}).text
