"""Retention and rolling by DAG: real spark-submits once each; guards, backfills and purge with the real jobs in one Spark session."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from airflow.providers.common.compat.sdk import AirflowFailException
from click.testing import CliRunner
from kafkats_airflow.approvals.guards import NO, YES, GuardApproval
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.tasks import retention

from kafkats.cli import cli
from kafkats.config.policy import Policy
from kafkats.config.values import parse_time
from kafkats.formats import dispatch
from kafkats.logdir.checkpoints import read_epochs, read_offsets
from kafkats.plans.files import read_document
from kafkats.plans.plan import read_plan
from kafkats.progress import Progress
from kafkats.result import Result
from kafkats.retention.what_if import read_basis
from tests.dags.runs import states
from tests.golden import retention_policy, tree
from tests.retained import AS_OF, GOLDEN, RETAIN
from tests.spark_jobs.words import job

ROLL: dict[str, Any] = {
    name: RETAIN[name] for name in ("volumes", "topics", "as_of", "undo_days", "dry_run", "need_approval")
} | {
    "generation": "4.1", "split": "no", "segment_bytes": None, "segment_ms": None,
    "earliest": "1970-01-01T00:00:00Z", "before": None,
}  # fmt: skip


def policy(volume: Path, topics: dict[str, Any] | None = None, **more: Any) -> str:
    path = volume.parents[1] / "policy.yaml"
    given = {"topics": topics} if topics else retention_policy(GOLDEN)
    volumes = [{"broker": "1", "path": str(volume), "owner_stopped": True}]
    path.write_text(yaml.safe_dump(given | {"volumes": volumes} | more))
    return str(path)


def run_dag(
    bag: Any, dag: str, volume: Path, given: str, *, logical_date: Any = None, **conf: Any
) -> Any:
    params = RETAIN if dag == "apply_retention" else ROLL
    where = {"policy": given, "folder": str(volume.parents[1] / "reports")}
    return bag.dags[dag].test(run_conf=params | where | conf, logical_date=logical_date)


def report(volume: Path) -> dict[str, Any]:
    """Of the latest run."""
    found = (volume.parents[1] / "reports").glob("*/*/report.json")
    return dict(json.loads(max(found, key=lambda path: path.stat().st_mtime_ns).read_text()))


def logs(root: Path, partition: str) -> list[int]:
    return sorted(int(log.name.partition(".")[0]) for log in (root / partition).glob("*.log"))


@pytest.mark.full(42)
def test_retention_with_real_spark_submits(bag: Any, volume: Path) -> None:
    run = run_dag(bag, "apply_retention", volume, policy(volume), last_segment=True)
    assert states(run) | {"purge": "skipped"} == states(run)
    assert set(states(run).values()) == {"success", "skipped"}
    for name, told in GOLDEN.info["retention"].items():
        if isinstance(told["limits"], dict):
            assert logs(volume, name) == told["segments_after"], name
    said = report(volume)
    assert (said["outcome"], said["files_proved"]) == ("deleted and proved", said["files_planned"])
    assert said["as_of"] == AS_OF
    folder = Path(said["report"])
    for task in ("plan", "apply", "verify"):
        [files] = folder.glob(f"jobs/{task}-0-*")
        told = read_document(files / "result.json", Result)
        ended = read_document(files / "progress.json", Progress)
        assert told is not None and (told.ended, told.verb) == ("fine", task) and told.rates
        assert ended is not None and ended.state == "ended" and ended.ui.startswith("http")
    assert pq.read_table(folder / "retention.parquet").num_rows == 40
    board = json.loads((folder / "board.json").read_text())
    assert len(board["partitions"]) == len(board["by_state"]) == 10
    assert board["lines"]["time-all"] < board["now_ms"]
    given = Policy.model_validate(retention_policy(GOLDEN))
    basis = read_basis(json.loads((folder / "basis.json").read_text()))
    assert basis[0].limits("time-all") == given.limits("time-all")
    assert (basis[1].now_ms, basis[1].rule) == (board["now_ms"], "3.0")
    for picture in ("reclaimable", "timeline"):
        assert (folder / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    for ti in run.get_task_instances():
        said = ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index)
        assert len(json.dumps(said, default=str)) < 8000, ti.task_id


@pytest.mark.slow(7)
def test_a_dry_run_is_a_forecast_for_now(bag: Any, volume: Path, here: list[str]) -> None:
    """Without a logical date there is no interval whose end could be meant."""
    before = tree(volume)
    began = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=1)
    given = policy(volume, {"tmie-*": {}} | retention_policy(GOLDEN)["topics"])
    run = run_dag(
        bag,
        "apply_retention",
        volume,
        given,
        dry_run=True,
        need_approval=True,
        as_of=None,
        generation="0.10.1",
    )
    assert (str(run.state), run.logical_date, here) == ("success", None, ["plan"])
    assert tree(volume) == before
    said = report(volume)
    assert said["outcome"] == "dry run"
    assert said["now_bytes"] == said["freed_bytes"] > 0
    assert said["pinned_bytes"] > 0, "a record from the future is there"
    assert began < dt.datetime.fromisoformat(said["as_of"]) < began + dt.timedelta(minutes=5)
    assert [remark.split("'")[1] for remark in said["remarks"] if "misspelt" in remark] == [
        "tmie-*"
    ]
    assert any("above the high watermark" in remark for remark in said["remarks"])
    (seen,) = json.loads(Path(said["report"], "overview.json").read_text())["volumes"]
    sums = ("now_bytes", "day_bytes", "week_bytes", "pinned_bytes", "vetoed_bytes")
    assert seen["reclaimable"] == {name: said[name] for name in sums}
    assert (seen["log_dir"], seen["bytes"]) == (str(volume), said["bytes"])
    board = json.loads(Path(said["report"], "board.json").read_text())
    (pinned,) = (row for row in board["partitions"] if row["partition_dir"] == "future-pins-0")
    assert (
        pinned["why"].endswith("94 % of its batches in ms, 6 % in the future")
        and pinned["kept_offset"] == 60
    )
    topics = {row["topic"]: row for row in board["topics"]}
    assert len(topics) == 10 and topics["future-pins"]["pinned_bytes"] == pinned["pinned_bytes"]
    assert sum(row["week_bytes"] for row in topics.values()) == said["week_bytes"]


LIMIT = "2020-09-13T12:29:00Z"
INSIDE: dict[str, Any] = {"before": LIMIT, "inside_segments": True}


def batches(partition: Path) -> list[tuple[int, int, bytes]]:
    """First offset, largest timestamp and bytes of each batch, by the plain decoders."""
    found = []
    for log in sorted(partition.glob("*.log")):
        data = log.read_bytes()
        for batch in dispatch.batches(data):
            records = dispatch.records(data, batch)
            raw = data[batch.position : batch.position + batch.size]
            found.append((records[0].offset, max(record.timestamp for record in records), raw))
    return found


@pytest.mark.slow(10)
def test_expired_heads(bag: Any, volume: Path, here: list[str]) -> None:
    """What is left of each partition begins with the first batch that has not expired, and so does its log; undo brings all back."""
    limit = int(dt.datetime.fromisoformat(LIMIT).timestamp() * 1000)
    partitions = ["time-all-0", "time-some-0", "start-offset-0"]
    before, files = {name: batches(volume / name) for name in partitions}, contents(volume)
    keep = {
        topic: {"cleanup.policy": "delete", "retention.ms": 1} for topic in ("time-*", "start-*")
    }
    run = run_dag(bag, "apply_retention", volume, policy(volume, keep), **INSIDE)
    assert states(run) | {"purge": "skipped"} == states(run)
    said = report(volume)
    assert (said["outcome"], said["files_proved"]) == ("deleted and proved", said["files_planned"])
    assert said["plans"][0]["totals"]["heads"] == 3
    for name, all_of_it in before.items():
        now = batches(volume / name)
        fresh = next(n for n, (_, timestamp, _) in enumerate(all_of_it) if timestamp >= limit)
        assert 0 < len(now) < len(all_of_it) and now == all_of_it[fresh:]
        start = now[0][0]
        assert (
            read_epochs(volume / name / "leader-epoch-checkpoint")[0].start_offset
            == logs(volume, name)[0]
            == start
        )
    starts = read_offsets(volume / "log-start-offset-checkpoint")
    assert not {str(name) for name in starts} & set(partitions), (
        "brokers write only those above the first base offset"
    )
    [undone] = said["runs"]
    assert CliRunner().invoke(cli, ["undo", undone]).exit_code == 0
    assert contents(volume) == files


def contents(root: Path) -> dict[str, bytes]:
    found = (path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


@pytest.mark.slow(2)
def test_a_dry_run_is_a_forecast_of_heads_too(bag: Any, volume: Path, here: list[str]) -> None:
    before = tree(volume)
    freed = {}
    for inside in (False, True):
        run = run_dag(
            bag,
            "apply_retention",
            volume,
            policy(volume),
            dry_run=True,
            **INSIDE | {"inside_segments": inside},
        )
        assert (str(run.state), here) == ("success", ["plan"])
        said = report(volume)
        assert said["outcome"] == "dry run" and said["now_bytes"] == said["freed_bytes"]
        freed[inside] = said["freed_bytes"], said["kafka_bytes"]
        here.clear()
    assert freed[True][0] > freed[False][0] and freed[True][1] == freed[False][1]
    assert tree(volume) == before


GUARDED = {
    "time-all": {
        "cleanup.policy": "delete",
        "retention.ms": 86400000,
        "kafkats.guard.max.share": 0.3,
    }
}


@pytest.mark.slow(2)
@pytest.mark.examples(1)
@pytest.mark.parametrize(
    ("answer", "need_approval", "left", "outcome"),
    [
        (YES, True, [102], "deleted and proved"),
        (NO, True, [34, 68, 102], "deleted and proved, 3 segments kept by a guard"),
        (YES, False, [34, 68, 102], "deleted and proved, 3 segments kept by a guard"),
    ],
)
def test_over_the_guard_only_after_a_yes(
    bag: Any,
    volume: Path,
    here: list[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    need_approval: bool,
    left: list[int],
    outcome: str,
) -> None:
    bodies = answers(monkeypatch, answer)
    run = run_dag(
        bag, "apply_retention", volume, policy(volume, GUARDED), need_approval=need_approval
    )
    assert str(run.state) == "success"
    assert logs(volume, "time-all-0") == left
    assert report(volume)["outcome"] == outcome
    assert len(bodies) == int(need_approval)
    if bodies:
        assert f"| `{volume}` | 1, 4.0 KiB | 2, 8.0 KiB" in bodies[0] and "over-guard" in bodies[0]


def answers(monkeypatch: pytest.MonkeyPatch, answer: str) -> list[str]:
    """Whoever is asked says `answer`; gives what was asked."""

    def upsert(**asked: Any) -> None:
        raise _Asked(asked["body"])

    execute = GuardApproval.execute
    bodies: list[str] = []

    def answered(self: GuardApproval, context: Any) -> Any:
        try:
            return execute(self, context)
        except _Asked as asked:
            bodies.append(str(asked))
            now = dt.datetime.now(tz=dt.UTC)
            said = {
                "chosen_options": [answer],
                "params_input": {},
                "responded_at": now,
                "responded_by_user": None,
            }
            return self.execute_complete(context, said)

    monkeypatch.setattr("kafkats_airflow.airflow_versions.upsert_hitl_detail", upsert)
    monkeypatch.setattr(GuardApproval, "execute", answered)
    return bodies


class _Asked(Exception):
    """In place of a person."""


@pytest.mark.slow(3)
@pytest.mark.parametrize(("answer", "starts"), [(YES, 106), (NO, 102)])
def test_a_head_over_the_guard_goes_only_after_a_yes(
    bag: Any,
    volume: Path,
    here: list[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    starts: int,
) -> None:
    """All that could go is the head of the last segment."""
    for path in (volume / "time-all-0").glob("*"):
        if path.name[:20].isdigit() and int(path.name[:20]) < 102:
            path.unlink()
    # As a broker does that deletes these segments.
    (volume / "time-all-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 102\n")
    answers(monkeypatch, answer)
    given = {
        "time-all": {"cleanup.policy": "delete", "retention.ms": 1, "kafkats.guard.max.share": 0.01}
    }
    run = run_dag(
        bag, "apply_retention", volume, policy(volume, given), need_approval=True, **INSIDE
    )
    assert str(run.state) == "success"
    assert logs(volume, "time-all-0") == [starts]
    kept = "" if answer == YES else ", 1 segment kept by a guard"
    assert report(volume)["outcome"] == (
        "deleted and proved" if answer == YES else f"nothing to delete{kept}"
    )


@pytest.mark.slow(6)
def test_a_backfill_of_three_days_decides_as_of_each_day(
    bag: Any, volume: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs and intervals are those that `airflow backfill create` makes; only the scheduler's loop is that of dag.test."""
    from airflow.models import dagrun
    from airflow.models.backfill import ReprocessBehavior, _create_backfill
    from airflow.utils.state import DagRunState

    days = {"time-all": 1, "time-some": 2, "size": 3}
    keep = {
        topic: {"cleanup.policy": "delete", "retention.ms": n * 86_400_000}
        for topic, n in days.items()
    }
    folder = volume.parents[1] / "reports"
    conf = RETAIN | {"policy": policy(volume, keep), "folder": str(folder), "as_of": None}
    _create_backfill(
        dag_id="apply_retention", from_date=dt.datetime(2020, 9, 14, tzinfo=dt.UTC),
        to_date=dt.datetime(2020, 9, 16, 12, tzinfo=dt.UTC), max_active_runs=1, reverse=False, dag_run_conf=conf,
        triggering_user_name="tests", reprocess_behavior=ReprocessBehavior.NONE,
    )  # fmt: skip

    def made(*, dag: Any, logical_date: Any, session: Any, **_: Any) -> Any:
        [run] = dagrun.DagRun.find(
            dag_id="apply_retention", logical_date=logical_date, session=session
        )
        run.dag = dag
        run.state = DagRunState.RUNNING
        session.commit()
        return run

    monkeypatch.setattr(dagrun, "get_or_create_dagrun", made)
    gone = []
    for day in (14, 15, 16):
        run = bag.dags["apply_retention"].test(
            logical_date=dt.datetime(2020, 9, day, 2, tzinfo=dt.UTC), run_conf=conf
        )
        assert (str(run.run_type), str(run.state)) == ("backfill", "success")
        assert report(volume)["as_of"] == f"2020-09-{day + 1}T02:00:00+00:00"
        gone.append({topic for topic in days if logs(volume, f"{topic}-0") == [102]})
    assert gone == [{"time-all"}, {"time-all", "time-some"}, {"time-all", "time-some", "size"}]
    assert logs(volume, "size-zero-0") == [0, 34, 68, 102], "the policy says nothing of it"


@pytest.mark.slow(3)
@pytest.mark.parametrize("layout", ["FOLDER/DAG/RUN", "FOLDER/RUN, as before"])
def test_purge_of_what_is_due(bag: Any, volume: Path, here: list[str], layout: str) -> None:
    given = policy(volume)
    run_dag(bag, "apply_retention", volume, given)
    [run] = report(volume)["runs"]
    assert report(volume)["purged"] == [], "its seven days have just begun"
    if layout == "FOLDER/RUN, as before":
        folder = Path(report(volume)["report"])
        run = run.replace(str(folder), str(folder.rename(folder.parents[1] / "manual__1")))
    where = RETAIN | {"policy": given, "folder": str(volume.parents[1] / "reports"), "undo_days": 0}
    [asked] = retention.due({"params": where}, "retain")  # type: ignore[typeddict-item]
    assert asked["request"] == {"runs": [run], "options": {"Purge": {"older_than": 0}}}
    for more in ({"dry_run": True}, {"undo_days": 1}):
        assert retention.due({"params": where | more}, "retain") == []  # type: ignore[typeddict-item]
    assert retention.due({"params": where}, "roll") == [], "another operation's"  # type: ignore[typeddict-item]
    here.clear()
    run_dag(bag, "apply_retention", volume, given, undo_days=0)
    said = report(volume)
    assert here == ["plan", "purge"]
    assert (said["outcome"], said["purged"]) == ("nothing to delete", [run])
    assert said["purged_bytes"] > 0
    assert retention.due({"params": where}, "retain") == [], "once is enough"  # type: ignore[typeddict-item]


@pytest.mark.slow(1)
def test_rolling(bag: Any, volume: Path, here: list[str], executor: Any) -> None:
    given = policy(volume, {"time-*": {"segment.ms": 60_000}, "size*": {"segment.ms": 2**62}})
    run = run_dag(bag, "roll_segments", volume, given, simulate=True)
    assert (str(run.state), here) == ("success", ["plan", "apply", "verify"])
    assert logs(volume, "time-all-0") == [0, 34, 68, 102, 130]
    assert logs(volume, "size-0") == [0, 34, 68, 102]
    said = report(volume)
    assert (said["outcome"], said["files_proved"]) == ("rolled and proved", said["files_planned"])
    due = pq.read_table(Path(said["report"], "due.parquet"))
    assert (said["active_segments"], said["due_segments"]) == (10, sum(due["rolls"].to_pylist()))
    topics = json.loads(Path(said["report"], "simulation.json").read_text())["topics"]
    [time_all] = [one for one in topics if one["topic"] == "time-all"]
    assert (time_all["segments"], time_all["segment_ms"]) == (4, 60_000), "before the roll"
    days = pq.read_table(Path(said["report"], "simulation-days.parquet")).to_pylist()
    for name in ("segments", "simulated"):
        assert sum(one[name] for one in topics) == sum(one[name] for one in days)
    (volume / "time-all-0" / "00000000000000000130.index").write_bytes(b"12345678")
    plan = dict(read_plan(Path(said["plans"][0]["plan"])).header["totals"])
    proof = job(executor, "verify", volume, "--of-plan", said["plans"][0]["plan"])
    assert (proof["exit_code"], proof["equal"]) == (1, plan["files"] - 4)


@pytest.mark.slow(6)
@pytest.mark.parametrize(
    ("split", "given", "where"),
    [
        ("rolled", {"segment_bytes": "2KiB"}, ("segment_bytes", 2048)),
        ("expired", {"before": LIMIT}, ("before", parse_time(LIMIT))),
    ],
)
def test_splitting(
    bag: Any,
    volume: Path,
    here: list[str],
    executor: Any,
    split: str,
    given: dict[str, Any],
    where: tuple[str, int],
) -> None:
    """Plan, reservation, approval, apply, proof, report, undo and purge of a split."""
    before = {name: logs(volume, name) for name in ("time-all-0", "size-0")}
    run = run_dag(bag, "roll_segments", volume, policy(volume), split=split, **given)
    assert (str(run.state), here) == ("success", ["plan", "apply", "verify"])
    said = report(volume)
    assert (said["outcome"], said["files_proved"]) == ("split and proved", said["files_planned"])
    assert min(said["split_segments"], said["segments_added"]) > 0
    parts = pq.read_table(Path(said["report"], "parts.parquet"))
    assert parts.num_rows >= said["split_segments"] + said["segments_added"]
    (plan,) = said["plans"]
    stored = read_plan(Path(plan["plan"])).header
    assert (stored["operation"], stored["options"]["split"]) == ("split", split)
    added = [log for name in before for log in logs(volume, name) if log not in before[name]]
    assert added, "batches of these begin segments of their own now"
    (asked,) = retention.planning(
        {"params": run.conf, "run_id": "r", "dag": run.dag, "dag_run": run}, "roll"
    )
    assert asked["request"]["operation"] == "split"
    assert asked["request"]["options"]["Split"][where[0]] == where[1]
    assert job(executor, "undo", *said["runs"])["exit_code"] == 0
    assert {name: logs(volume, name) for name in before} == before


@pytest.mark.slow(3)
def test_both_write_to_one_inventory(bag: Any) -> None:
    outlets = {
        name: [asset.name for asset in bag.dags[name].get_task("report").outlets]
        for name in ("apply_retention", "roll_segments")
    }
    assert outlets == {"apply_retention": ["kafka_inventory"], "roll_segments": ["kafka_inventory"]}


@pytest.mark.slow(1)
def test_a_job_that_fails_fails_the_run_but_not_the_report(
    bag: Any, volume: Path, here: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    execute = KafkatsJobOperator.execute

    def fail(self: KafkatsJobOperator, context: Any) -> dict[str, Any]:
        if self.job == "apply":
            raise AirflowFailException("Locked: held by a broker")
        return execute(self, context)

    monkeypatch.setattr(KafkatsJobOperator, "execute", fail)
    run = run_dag(bag, "apply_retention", volume, policy(volume), undo_days=0)
    assert str(run.state) == "failed"
    assert report(volume)["outcome"] == "not finished"
    assert "purge" not in here


def test_one_application_per_connection_all_for_the_same_moment(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(
        "volumes:\n"
        "  - {broker: '1', path: /volumes/one, connection: host_1}\n"
        "  - {broker: '2', path: /volumes/two, connection: host_2}\n"
        "  - {broker: '2', path: /volumes/three, connection: host_2}\n"
    )
    end = dt.datetime(2026, 11, 3, 2, tzinfo=dt.UTC)
    params = RETAIN | {
        "policy": str(path),
        "folder": str(tmp_path / "r"),
        "as_of": None,
        "free": "20GiB",
        "last_segment": True,
    }
    dag = SimpleNamespace(dag_id="apply_retention")
    context = {
        "params": params,
        "run_id": "scheduled__1",
        "data_interval_end": end,
        "dag": dag,
        "dag_run": SimpleNamespace(run_type="scheduled"),
        "ti": SimpleNamespace(xcom_push=lambda *_: None),
    }
    one, two = retention.planning(context, "retain")  # type: ignore[arg-type]
    assert [one["conn_id"], two["conn_id"]] == ["host_1", "host_2"]
    assert two["request"]["log_dirs"] == ["/volumes/two", "/volumes/three"]
    for asked in (one, two):
        request = asked["request"]
        options, folder = request["options"], f"{tmp_path}/r/apply_retention/scheduled__1"
        said = {"now": end.isoformat(), "free_bytes": 20 * 2**30, "last_segment": True}
        assert request["operation"] == "retain" and said.items() <= options["Retain"].items()
        assert options["Beyond"]["beyond_guard"] == f"{folder}/{asked['conn_id']}/over-guard"
    params["inside_segments"] = True
    with pytest.raises(AirflowFailException, match="does not go with free"):
        retention.planning(context, "retain")  # type: ignore[arg-type]
    roll = retention.planning(context, "roll")  # type: ignore[arg-type]
    assert "Beyond" not in roll[0]["request"]["options"]
