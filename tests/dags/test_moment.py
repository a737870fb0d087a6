"""Which time a run decides for: the interval of its schedule or backfill, or when it was triggered."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafkats_airflow.runs.moment import moment, time_of
from kafkats_airflow.tasks import lookup

from kafkats.errors import UsageError
from tests.golden import case

BEGIN = dt.datetime(2026, 11, 3, 2, tzinfo=dt.UTC)
END = BEGIN + dt.timedelta(days=1)
ASKED = dt.datetime(2026, 11, 20, 10, 25, 7, tzinfo=dt.UTC)


def context(run_type: str, **params: Any) -> Any:
    given = {"as_of": None, "from": None, "to": None} | params
    run = SimpleNamespace(run_type=run_type, run_after=ASKED)
    return {"params": given, "dag_run": run, "data_interval_start": BEGIN, "data_interval_end": END}


@pytest.mark.parametrize("run_type", ["scheduled", "backfill"])
def test_a_schedule_and_a_backfill_decide_for_their_interval(run_type: str) -> None:
    assert moment(context(run_type)) == END.isoformat()
    assert lookup.interval(context(run_type)) == (BEGIN, END)


@pytest.mark.parametrize("run_type", ["manual", "operator_triggered", "asset_triggered"])
def test_everything_else_decides_for_when_it_was_triggered(run_type: str) -> None:
    """The form fills in a logical date, of which Airflow makes the interval before it."""
    assert moment(context(run_type)) == ASKED.isoformat()
    assert lookup.interval(context(run_type)) == (
        ASKED.replace(hour=9, minute=0, second=0),
        ASKED.replace(hour=10, minute=0, second=0),
    )


@pytest.mark.parametrize("run_type", ["manual", "scheduled"])
def test_a_given_time_goes_before_all(run_type: str) -> None:
    assert (
        moment(context(run_type, as_of="2026-11-01T00:00:00+01:00")) == "2026-11-01T00:00:00+01:00"
    )


@pytest.mark.parametrize(
    "text", ["2026-11-01T00:00:00", "2026-11-01", "yesterday", "1762300800000", ""]
)
def test_a_time_needs_its_offset(text: str) -> None:
    with pytest.raises(
        UsageError,
        match=r"^as_of: .* is no time with its offset from UTC, such as 2026-01-31T10:00:00Z$",
    ):
        time_of(text, "as_of")


@pytest.mark.slow(1)
def test_by_hand_with_a_logical_date(bag: Any, tmp_path: Path, here: list[str]) -> None:
    volume = tmp_path / "broker" / "data"
    volume.mkdir(parents=True)
    case("retention-4.3.1").unpack("before", volume)
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"volumes: [{{path: {volume}}}]")
    conf = bag.defaults["roll_segments"] | {
        "policy": str(policy),
        "folder": str(tmp_path / "reports"),
        "dry_run": True,
    }
    run = bag.dags["roll_segments"].test(
        run_conf=conf, logical_date=dt.datetime(2026, 11, 20, 10, 25, tzinfo=dt.UTC)
    )
    assert (str(run.state), here) == ("success", ["plan"])
    assert run.data_interval_end < run.run_after
    found = next(
        path for path in (tmp_path / "reports").rglob("report.json") if "as_of" in path.read_text()
    )
    assert dt.datetime.fromisoformat(json.loads(found.read_text())["as_of"]) == run.run_after
