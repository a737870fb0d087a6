"""Lookup tables and exports by DAG: one real spark-submit; hours in any order, and exports, with the jobs in one Spark session."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from kafkats_airflow.tasks import lookup

from kafkats import tables
from kafkats.errors import UsageError
from kafkats.lookup import exports
from kafkats.lookup.marks import read_marks
from kafkats.lookup.partitions import lookup_partitions
from tests.golden import case, tree

GOLDEN = case("timestamps-4.3.1")
NOON = dt.datetime(2020, 9, 13, 12, tzinfo=dt.UTC)
"""The hour that most records are of begins here."""
HOUR = dt.timedelta(hours=1)
BUILD: dict[str, Any] = {
    "volumes": [], "topics": "*", "step": "1s", "exact": False, "from": None, "to": None, "tables": None, "high_watermark": "checkpoint",
}  # fmt: skip
EXPORT: dict[str, Any] = {
    "time": "2020-09-13T12:26:40Z", "topics": "*", "format": "spark-offsets", "until": None, "margin": None,
    "missing": "all", "group": None, "source": "volumes", "volumes": [], "tables": None, "high_watermark": "checkpoint",
}  # fmt: skip


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    root = tmp_path / "broker" / "data"
    root.mkdir(parents=True)
    return GOLDEN.unpack("data", root)


def where(volume: Path, name: str = "reports") -> dict[str, str]:
    path = volume.parents[1] / "policy.yaml"
    path.write_text(yaml.safe_dump({"volumes": [{"broker": "1", "path": str(volume)}]}))
    return {"policy": str(path), "folder": str(volume.parents[1] / name)}


def an_hour(begin: dt.datetime) -> dict[str, str]:
    """Params for an hour; a run by hand has none of its own."""
    return {"from": begin.isoformat(), "to": (begin + HOUR).isoformat()}


def ms(moment: dt.datetime) -> int:
    return int(moment.timestamp() * 1000)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def built(root: Path, folder: Path, *hours: dt.datetime) -> dict[str, bytes]:
    for hour in hours:
        tables.build(folder, lookup_partitions([root]), ms(hour), ms(hour + HOUR), step_ms=1000)
    return content(folder)


def reports(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*/*/report.json"))]


@pytest.mark.long(8)
def test_an_hour_with_a_real_spark_submit(bag: Any, volume: Path) -> None:
    before = tree(volume)
    run = bag.dags["build_lookup_tables"].test(run_conf=BUILD | where(volume) | an_hour(NOON))
    assert str(run.state) == "success"
    folder = volume.parents[1] / "reports" / "lookup" / "spark_default-1"
    assert content(folder) == built(volume, volume.parents[1] / "ours", NOON)
    [said] = reports(volume.parents[1] / "reports")
    assert (said["from"], said["to"]) == ("2020-09-13T12:00:00+00:00", "2020-09-13T13:00:00+00:00")
    assert (said["added"], said["unreadable"]) == (9 * 3600, 0)
    assert tree(volume) == before
    assert events("kafkats://lookup/spark_default-1")[-1] == said["tables"][0]
    assert said["tables"][0]["table"] == str(folder)
    drawn(said["tables"][0], {"staircase.png", "disorder.png", "calendar.png"})


def drawn(said: dict[str, Any], names: set[str]) -> None:
    assert set(said["pictures"]) == names
    for name in names:
        assert Path(said["report"], name).read_bytes().startswith(b"\x89PNG")


def events(uri: str) -> list[dict[str, Any]]:
    """The extras of an asset's events, oldest first."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        asked = (
            select(AssetEvent)
            .join(AssetModel, AssetModel.id == AssetEvent.asset_id)
            .where(AssetModel.uri == uri)
        )
        return [dict(event.extra) for event in session.scalars(asked.order_by(AssetEvent.id))]


@pytest.mark.slow(3)
def test_a_backfill_in_either_order_gives_the_same_bytes(
    bag: Any, volume: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs and intervals are those that `airflow backfill create` makes; only the scheduler's loop is that of dag.test."""
    from airflow.models import dagrun
    from airflow.models.backfill import ReprocessBehavior, _create_backfill
    from airflow.utils.state import DagRunState

    def made(*, dag: Any, logical_date: Any, session: Any, **_: Any) -> Any:
        [run] = dagrun.DagRun.find(
            dag_id="build_lookup_tables", logical_date=logical_date, session=session
        )
        run.dag = dag
        run.state = DagRunState.RUNNING
        session.commit()
        return run

    conf = BUILD | where(volume)
    _create_backfill(
        dag_id="build_lookup_tables", from_date=NOON, to_date=NOON + HOUR * 1.5, max_active_runs=1, reverse=False,
        dag_run_conf=conf, triggering_user_name="tests", reprocess_behavior=ReprocessBehavior.NONE,
    )  # fmt: skip
    dag = bag.dags["build_lookup_tables"]
    with monkeypatch.context() as patch:
        patch.setattr(dagrun, "get_or_create_dagrun", made)
        for hour in (NOON, NOON + HOUR):
            run = dag.test(logical_date=hour, run_conf=conf)
            assert (str(run.run_type), str(run.state)) == ("backfill", "success")
            assert (run.data_interval_start, run.data_interval_end) == (hour, hour + HOUR)
    others = BUILD | where(volume, "others")
    for hour in (NOON + HOUR, NOON):
        run = dag.test(run_conf=others | an_hour(hour))
        assert str(run.state) == "success"
    assert here == ["lookup"] * 4
    one, other = (
        content(volume.parents[1] / name / "lookup" / "spark_default-1")
        for name in ("reports", "others")
    )
    assert one == other == built(volume, volume.parents[1] / "ours", NOON, NOON + HOUR)


def test_without_a_logical_date_the_last_full_hour(bag: Any, volume: Path, here: list[str]) -> None:
    began = dt.datetime.now(dt.UTC)
    run = bag.dags["build_lookup_tables"].test(run_conf=BUILD | where(volume), logical_date=None)
    assert (str(run.state), run.logical_date) == ("success", None)
    [said] = reports(volume.parents[1] / "reports")
    begin, end = (dt.datetime.fromisoformat(said[name]) for name in ("from", "to"))
    assert end - begin == HOUR
    assert end.minute == end.second == 0
    assert end <= dt.datetime.now(dt.UTC) and began - HOUR < end
    assert said["added"] == 9 * 3600


@pytest.mark.slow(8)
@pytest.mark.usefixtures("rendered")
def test_exports_from_volumes_and_from_their_tables(
    bag: Any, volume: Path, here: list[str]
) -> None:
    folder = volume.parents[1] / "reports"
    tables.build(
        folder / "lookup" / "spark_default-1",
        lookup_partitions([volume]),
        ms(NOON),
        ms(NOON + HOUR),
        step_ms=1000,
    )
    texts = {}
    for source in ("volumes", "tables"):
        for to in ("spark-offsets", "group-csv"):
            conf = EXPORT | where(volume) | {"source": source, "format": to}
            run = bag.dags["export_offsets"].test(run_conf=conf)
            assert str(run.state) == "success"
            [said] = [
                one for one in reports(folder) if one["format"] == to and (source, to) not in texts
            ]
            texts[source, to] = Path(said["export"]).read_text()
            assert (said["outcome"], said["partitions"]) == ("exported", 9)
            drawn(
                said, {"staircase.png", "disorder.png" if source == "volumes" else "calendar.png"}
            )
            for path in folder.glob("*/*/report.json"):
                path.unlink()
    assert here == ["lookup"] * 2, "a table is read, not searched"
    at = 1_600_000_000_000
    starts, _ = read_marks(folder / "lookup" / "spark_default-1", at)
    for to in ("spark-offsets", "group-csv"):
        assert (
            texts["volumes", to]
            == texts["tables", to]
            == exports.export(starts, to=to, missing="all").text
        )


@pytest.mark.slow(2)
def test_partitions_without_an_answer_are_a_remark(bag: Any, volume: Path) -> None:
    folder = volume.parents[1] / "reports"
    tables.build(
        folder / "lookup" / "spark_default-1",
        lookup_partitions([volume]),
        ms(NOON),
        ms(NOON + HOUR),
        step_ms=1000,
    )
    late = (NOON + HOUR - dt.timedelta(seconds=1)).isoformat()
    conf = EXPORT | where(volume) | {"source": "tables", "time": late}
    assert str(bag.dags["export_offsets"].test(run_conf=conf).state) == "success"
    [said] = reports(folder)
    without = len(said["notes"])
    assert 0 < without <= said["partitions"]
    [remark] = said["remarks"]
    assert remark.startswith(f"no record of this time for {without} of {said['partitions']} ")
    assert "param missing, which was all" in remark


def test_a_topic_that_a_table_has_not_is_a_remark(bag: Any, volume: Path) -> None:
    folder = volume.parents[1] / "reports"
    tables.build(
        folder / "lookup" / "spark_default-1",
        lookup_partitions([volume]),
        ms(NOON),
        ms(NOON + HOUR),
        step_ms=1000,
    )
    conf = EXPORT | where(volume) | {"source": "tables", "topics": "ordres-*"}
    assert str(bag.dags["export_offsets"].test(run_conf=conf).state) == "success"
    [said] = reports(folder)
    assert (said["outcome"], said["export"]) == ("nothing to export", None)
    assert said["remarks"] == [
        "no topic on these volumes comes under 'ordres-*': nothing was looked at"
    ]


def test_a_refused_export_has_a_report(bag: Any, volume: Path) -> None:
    """The page of the run says why: no later task would."""
    folder = volume.parents[1] / "reports"
    conf = EXPORT | where(volume) | {"source": "tables"}
    assert str(bag.dags["export_offsets"].test(run_conf=conf).state) == "failed"
    [said] = reports(folder)
    [why] = said["failures"]
    assert (said["outcome"], why.partition(":")[0]) == ("not finished", "write")
    [path] = folder.glob("*/*/overview.json")
    assert json.loads(path.read_text())["failed"]


def test_an_export_does_not_start_without_a_time(bag: Any) -> None:
    """A click through the form must not export everything; a scheduler keeps the DAG as JSON, which must say the same."""
    from airflow.sdk.exceptions import ParamValidationError
    from airflow.serialization.serialized_objects import DagSerialization

    dag = bag.dags["export_offsets"]
    time = DagSerialization.from_dict(DagSerialization.to_dict(dag)).params.get_param("time")
    assert time.dump()["value"] is None, "the form asks for it"
    assert {k: v for k, v in time.schema.items() if k != "title"} == {
        "type": "string",
        "format": "date-time",
    }
    with pytest.raises(ParamValidationError):
        dag.test(run_conf={name: value for name, value in EXPORT.items() if name != "time"})


def context(volume: Path, **params: Any) -> Any:
    return {"params": BUILD | EXPORT | where(volume) | params, "run_id": "scheduled__1", "data_interval_start": NOON,
            "data_interval_end": NOON + HOUR, "dag_run": SimpleNamespace(run_type="scheduled"), "dag": SimpleNamespace(dag_id="build_lookup_tables")}  # fmt: skip


def test_one_table_per_broker_and_connection(tmp_path: Path) -> None:
    path = tmp_path / "brokers.yaml"
    path.write_text(
        "volumes:\n"
        "  - {broker: '1', path: /volumes/one, connection: host_1}\n"
        "  - {broker: '1', path: /volumes/two, connection: host_1, owner_stopped: true}\n"
        "  - {broker: '2', path: /volumes/three, connection: host_1}\n"
        "  - {broker: '3', path: /volumes/four, connection: host_2}\n"
    )
    given = context(tmp_path / "broker" / "data", exact=True)
    given["params"] |= {"policy": str(path), "folder": str(tmp_path / "r")}
    asked = lookup.building(given)
    assert [one["conn_id"] for one in asked] == ["host_1", "host_1", "host_2"]
    assert [one["about"] for one in asked] == ["host_1-1", "host_1-2", "host_2-3"]
    assert asked[0]["request"] == {
        "log_dirs": ["/volumes/one", "/volumes/two"],
        "options": {
            "Topics": {"topics": "*"},
            "Search": {"high_watermark": "checkpoint"},
            "Table": {
                "every": "1s",
                "begins": "2020-09-13T12:00:00+00:00",
                "until": "2020-09-13T13:00:00+00:00",
                "output": f"{tmp_path}/r/lookup/host_1-1",
            },
            "Lookup": {
                "go_on": True,
                "depth": "full",
                "report": f"{tmp_path}/r/build_lookup_tables/scheduled__1/host_1-1",
            },
        },
    }


@pytest.mark.slow(2)
def test_a_run_says_what_waits_for_the_high_watermark(
    bag: Any, volume: Path, here: list[str]
) -> None:
    (volume / "replication-offset-checkpoint").write_text("0\n1\nts-falling 0 0\n")
    conf = BUILD | where(volume)
    for mark, waits in (("checkpoint", True), ("log-end", False)):
        run = bag.dags["build_lookup_tables"].test(
            run_conf=conf | {"high_watermark": mark} | an_hour(NOON)
        )
        assert str(run.state) == "success"
        said = reports(volume.parents[1] / "reports")[-1]
        assert (said["above_high_watermark"] > 0) == waits
        assert (said["closed"] > 0) == (not waits)


@pytest.mark.parametrize(
    "wrong",
    [
        {"from": "2020-09-13T12:00:00Z"},
        {"from": "2020-09-13T12:00:00", "to": "2020-09-13T13:00:00Z"},
    ],
)
def test_half_an_interval_is_refused(tmp_path: Path, wrong: dict[str, str]) -> None:
    (tmp_path / "broker").mkdir()
    with pytest.raises(UsageError):
        lookup.interval(context(tmp_path / "broker" / "data", **wrong))
