"""The tasks of end_run: they undo or purge what one DAG run has written, or release its volumes.

A page of kafkats triggers it. The digest names the RUNs that the person saw there: if the DAG run
has other RUNs by now, nothing is done. A release is about reservations, which need no digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NotRequired, TypedDict

from airflow.sdk import Context

from kafkats.clock import DAY_MS, now_ms
from kafkats.errors import Refused, UsageError
from kafkats_airflow import checks, deployment, settings
from kafkats_airflow.airflow_versions import AirflowSkipException
from kafkats_airflow.approvals.answers import SHORTEST_DIGEST, joined
from kafkats_airflow.approvals.stakes import PURGE, RELEASE, UNDO
from kafkats_airflow.failing import UNFINISHED, Ended, failures, in_our_words
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.jobs.applications import work_area
from kafkats_airflow.jobs.plan_job import holder_over
from kafkats_airflow.reading.runs import chosen_by
from kafkats_airflow.reports.common import close, finished
from kafkats_airflow.reports.failed import with_report
from kafkats_airflow.results import Arguments, Asked, JobResult, PlanResult, PurgeResult
from kafkats_airflow.runs import tries
from kafkats_airflow.runs.folders import folder_of, run_folder
from kafkats_airflow.runs.volumes import by_group, named

if TYPE_CHECKING:
    from kafkats.plans.run import Run

DONE: Final = {UNDO: "undone", PURGE: "purged", RELEASE: "released"}
FILES: Final = {UNDO: "undone.json", PURGE: "purge.json"}
"""The file in a RUN's folder that tells of its end."""


class Ending(TypedDict):
    """The work of one application. `plan["undo"]` are the RUNs, the latest first. A release has no
    plan: it has the fields of its `request`.
    """

    conn_id: str
    verb: str
    plan: PlanResult | None
    request: NotRequired[Asked]


class Stages(TypedDict):
    """The results of the tasks that ran jobs (`common.finished`)."""

    undo: Sequence[JobResult]
    purge: Sequence[PurgeResult]
    release: Sequence[JobResult]


class EndReport(Ended):
    """report.json of end_run. `of` is the folder of the DAG run whose RUNs were ended."""

    of: str
    verb: str
    runs: list[str]
    volumes: list[str]
    files: int
    freed_bytes: int


def open_runs(folder: Path) -> list[Path]:
    """Return the RUNs of the DAG run with this folder that are neither undone nor purged, the
    latest first.
    """
    return [
        one.run
        for one in reversed(tries.tries_of(folder))
        if not any((one.run / name).exists() for name in FILES.values())
    ]


def digest_of(runs: Sequence[Path]) -> str:
    """Return the digest that names these RUNs: the only one, else the sha256 of all of them.

    Raises CorruptPlan, StorageFailed.
    """
    from kafkats.plans.run import read_run

    return joined(read_run(run).digest for run in runs)


@in_our_words
def changing(context: Context) -> list[Ending]:
    """Return the Ending of each application.

    Raises UsageError for params without a run and for volumes that the policy does not name,
    Refused if there is nothing to end, if it is too early, or for other RUNs than were shown.
    """
    from kafkats.plans.run import read_run

    params = params_of(context)
    folder, verb = _asked(params)
    if verb == RELEASE:
        holder_over(context)
        return _releasing(params, folder)
    paths = _chosen(context, folder, params.get("digest") or "")
    _check_inside(paths, folder)
    if verb == PURGE:
        _check_floor(paths)
    groups = by_group(params)
    every = {path: one for volumes in groups.values() for path, one in volumes.items()}
    by_connection: dict[str, list[tuple[Path, Run]]] = {}
    for path in paths:
        run = read_run(path)
        connections = {  # of the application that wrote it, where the policy still has that
            log_dir: one.connection
            for log_dir, one in (every | groups.get(path.parent.name, {})).items()
        }
        by_connection.setdefault(_connection(run, path, connections), []).append((path, run))
    return [_ending(conn_id, verb, runs) for conn_id, runs in by_connection.items()]


def _releasing(params: RunParams, folder: Path) -> list[Ending]:
    """Return the releases of what a DAG run may have reserved. Raises UsageError."""
    chosen, volumes = chosen_by(folder), checks.policy_of(params).volumes
    by_area: dict[tuple[str, str], list[str]] = {}
    for one, volume in zip(named(volumes), volumes, strict=True):
        if chosen & {one.label, one.path}:
            key = (one.connection, str(volume.work_area or ""))
            by_area.setdefault(key, []).append(one.path)
    if not by_area:
        raise UsageError("this run names no volume of the policy: nothing is released", path=folder)
    return [
        {
            "conn_id": conn_id,
            "verb": RELEASE,
            "plan": None,
            "request": {"log_dirs": log_dirs, "options": work_area(area)},
        }
        for (conn_id, area), log_dirs in by_area.items()
    ]


def _asked(params: RunParams) -> tuple[Path, str]:
    """Return the folder of the DAG run to end, and the verb. Raises UsageError."""
    of_dag, of_run = params.get("of_dag"), params.get("of_run")
    if not of_dag or not of_run:
        raise UsageError("of_dag and of_run name the DAG run to undo, to purge or to release")
    checks.writable(params["folder"])
    folder = run_folder(params["folder"], of_dag, of_run)
    if folder.is_symlink() or folder.parent.is_symlink():
        raise Refused(
            "a link: it may lead to the RUNs of another DAG; name the run where it lies",
            path=folder,
        )
    return folder, params["verb"]


def _check_inside(paths: Sequence[Path], folder: Path) -> None:
    """Raise Refused for a RUN that lies elsewhere, also by a link."""
    for path in paths:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise Refused(
                f"this RUN does not lie in the folder of the run that was named, {folder}: name the"
                " run that wrote it, or end it by the command line",
                path=path,
            )


def _chosen(context: Context, folder: Path, digest: str) -> list[Path]:
    """Return the RUNs to end. A cleared run ends the RUNs that it chose at first.

    Raises UsageError, Refused.
    """
    from kafkats.plans.files import make_folder, read_json, write_json

    kept = folder_of(context) / "ending.json"
    if kept.exists():
        named = read_json(kept).get("runs")
        return (
            [Path(run) for run in named if isinstance(run, str)] if isinstance(named, list) else []
        )
    paths = open_runs(folder)
    if not paths:
        raise Refused(
            "nothing to end: every RUN here is undone or purged, or there is none", path=folder
        )
    shown, found = digest.strip().lower(), digest_of(paths)
    if len(shown) < SHORTEST_DIGEST:
        raise UsageError(f"digest: at least {SHORTEST_DIGEST} digits; the run's is {found[:16]}")
    if not found.startswith(shown):
        raise Refused(
            f"this run has other RUNs than were shown: their digest is {found[:16]}, not"
            f" {shown[:16]}; look at the run again",
            path=folder,
        )
    make_folder(kept.parent, "the RUNs to end")
    write_json(kept, {"of": str(folder), "digest": found, "runs": [str(path) for path in paths]})
    return paths


def _check_floor(paths: Sequence[Path]) -> None:
    """Raise Refused if a RUN ended too recently for a purge in this deployment."""
    from kafkats.plans.run import ended_ms

    if not deployment.hardened():
        return
    for path in paths:
        age_ms = now_ms() - ended_ms(path)
        if age_ms < settings.FLOOR_DAYS * DAY_MS:
            raise Refused(
                f"this deployment keeps old files for {settings.FLOOR_DAYS} days"
                " (KAFKATS_UNDO_DAYS_FLOOR), and this RUN is younger",
                path=path,
            )


def _connection(run: Run, path: Path, connections: Mapping[str, str]) -> str:
    """Return the connection that sees all log directories of a RUN. Raises UsageError."""
    unknown = [log_dir for log_dir in run.directories if log_dir not in connections]
    if unknown:
        raise UsageError(f"the policy has no volume {unknown[0]}, where this RUN wrote", path=path)
    found = {connections[log_dir] for log_dir in run.directories}
    if len(found) != 1:
        raise UsageError(
            "the policy has no single connection for the volumes of this RUN", path=path
        )
    return found.pop()


def _ending(conn_id: str, verb: str, runs: Sequence[tuple[Path, Run]]) -> Ending:
    paths = [path for path, _ in runs]
    files = sum(_number(path / "report.json", "files") for path in paths)
    partitions = sum(len(some) for _, run in runs for some in run.directories.values())
    plan: PlanResult = {
        "plan": str(paths[0]),
        "digest": joined(run.digest for _, run in runs),
        "log_dirs": sorted({log_dir for _, run in runs for log_dir in run.directories}),
        "undo": [str(path) for path in paths],
        "totals": {
            "files": files, "blocked": 0, "segments": 0, "partitions": partitions,
            "read_bytes": 0, "write_bytes": 0, "segments_seen": 0,
        },
    }  # fmt: skip
    return {"conn_id": conn_id, "verb": verb, "plan": plan}


def to_undo(one: Ending) -> Arguments:
    """Return arguments of the job undo; skip a purge."""
    if one["verb"] != UNDO:
        raise AirflowSkipException("nothing is undone")
    return {"conn_id": one["conn_id"], "request": {"runs": _runs(one)}}


def to_purge(one: Ending) -> Arguments:
    """Return arguments of the job purge; skip an undo."""
    if one["verb"] != PURGE:
        raise AirflowSkipException("nothing is purged")
    request: Asked = {"runs": _runs(one)}
    if deployment.hardened():
        request["options"] = {"Purge": {"older_than": settings.FLOOR_DAYS * DAY_MS}}
    return {"conn_id": one["conn_id"], "request": request}


def to_release_over(one: Ending) -> Arguments:
    """Return arguments of ReleaseOverJobOperator; skip RUNs to end."""
    if "request" not in one:
        raise AirflowSkipException("nothing is released")
    return {"conn_id": one["conn_id"], "request": one["request"]}


def _runs(one: Ending) -> list[str]:
    return one["plan"]["undo"] if one["plan"] else []


@in_our_words
@with_report
def report(context: Context, work: Sequence[Ending] | None, stages: Stages) -> EndReport:
    """Write report.json of end_run. Fails unless every RUN is ended and every volume released, or a
    person rejected it.
    """
    from kafkats.plans.files import make_folder

    folder, params = folder_of(context), params_of(context)
    verb = params["verb"]
    stages, work = finished(stages), work or []
    runs = [Path(run) for one in work for run in _runs(one)]
    asked = [one["plan"] or one["request"] for one in work]
    if verb == RELEASE:
        done = 0 < len(work) == len(stages["release"])
    else:
        done = bool(runs) and all((run / FILES[verb]).exists() for run in runs)
    end = "rejected" if tries.rejected(folder) else DONE[verb] if done else UNFINISHED
    content: EndReport = {
        "outcome": end,
        "failures": failures(context),
        "report": str(folder),
        "of": _of(params),
        "verb": verb,
        "runs": [str(run) for run in runs],
        "volumes": sorted({log_dir for one in asked for log_dir in one["log_dirs"]}),
        "files": sum(one.get("files", 0) for one in (*stages["undo"], *stages["purge"])),
        "freed_bytes": sum(one["freed_bytes"] for one in stages["purge"]),
    }
    make_folder(folder, "the report")
    close(context, content, about=content["volumes"])
    return content


def _of(params: RunParams) -> str:
    of_dag, of_run = params.get("of_dag"), params.get("of_run")
    return str(run_folder(params["folder"], of_dag, of_run)) if of_dag and of_run else ""


def _number(path: Path, name: str) -> int:
    """Return a count in a RUN's file, 0 if it has none: the RUN was interrupted."""
    from kafkats.errors import KafkatsError
    from kafkats.plans.files import read_json

    try:
        found = read_json(path).get(name)
    except KafkatsError:
        return 0
    return found if isinstance(found, int) else 0
