"""Which Spark applications a run needs: one per connection, each with the words of its jobs.

Volumes that differ in whether a stopped broker is vouched for go into separate applications of the same connection.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kafkats.config import Volume, read_policy
from kafkats.errors import UsageError

POLICY: Final = os.environ.get("KAFKATS_POLICY", "/etc/kafkats/policy.yaml")
"""Default of the param `policy`: the file that names the volumes."""
FOLDER: Final = os.environ.get("KAFKATS_FOLDER", "/var/lib/kafkats")
"""Default of the param `folder`: where plans, runs and reports go; every driver sees it at this path."""


def run_folder(folder: str, run_id: str) -> Path:
    """The folder of one DAG run; the same for every try of it."""
    return Path(folder) / re.sub(r"[^A-Za-z0-9._-]+", "_", run_id)


def planning(params: Mapping[str, Any], run_id: str) -> list[dict[str, Any]]:
    """Arguments of KafkatsJobOperator(job="plan"), one dict per application.

    Raises UsageError when the policy has no such volume, StorageFailed when it cannot be read.
    """
    groups: dict[tuple[str, bool], list[Volume]] = {}
    for volume in _chosen(read_policy(Path(params["policy"])).volumes, params["volumes"]):
        groups.setdefault((volume.connection, volume.owner_stopped), []).append(volume)
    flags = ["--only-after-unclean-stop"] if params["only_after_unclean_stop"] else []
    return [
        {
            "conn_id": connection,
            "application_args": [
                "rebuild",
                *(str(volume.path) for volume in volumes),
                *_reading(params),
                *flags,
                "--output",
                str(_folder(params, run_id, connection, stopped=stopped) / "plan"),
                "--report",
                str(_folder(params, run_id, connection, stopped=stopped) / "before"),
            ],
        }
        for (connection, stopped), volumes in groups.items()
    ]


def changing(
    params: Mapping[str, Any], planning: Sequence[Mapping[str, Any]], plans: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """For each plan that writes something: {"plan", "apply": arguments, "verify": arguments}. Empty for a dry run."""
    if params["dry_run"]:
        return []
    stopped = {str(v.path) for v in read_policy(Path(params["policy"])).volumes if v.owner_stopped}
    work = []
    for asked, plan in zip(planning, plans, strict=True):
        if not plan["totals"]["files"]:
            continue
        folder = Path(plan["plan"]).parent
        vouched = ["--owner-stopped"] if stopped.issuperset(plan["log_dirs"]) else []
        work.append({
            "plan": dict(plan),
            "apply": {
                "conn_id": asked["conn_id"],
                "application_args": [plan["plan"], "--digest", plan["digest"], "--run", str(run_of(plan)), *vouched],
            },
            "verify": {
                "conn_id": asked["conn_id"],
                "application_args": [
                    *plan["log_dirs"], *_reading(params), "--of-plan", plan["plan"], "--report", str(folder / "after"),
                ],
            },
        })  # fmt: skip
    return work


def run_of(plan: Mapping[str, Any]) -> Path:
    """The folder of the plan's run. A plan made anew, when a DAG run is cleared, gets a run of its own."""
    return Path(plan["plan"]).parent / f"run-{plan['digest'][:16]}"


def _chosen(volumes: Sequence[Volume], wanted: Sequence[str]) -> list[Volume]:
    """The volumes whose path or broker matches one of the globs; all when none is given."""

    def matches(volume: Volume, glob: str) -> bool:
        return fnmatch.fnmatchcase(str(volume.path), glob) or fnmatch.fnmatchcase(volume.broker, glob)

    for glob in wanted:
        if not any(matches(volume, glob) for volume in volumes):
            raise UsageError(f"no volume of the policy has a path or broker like {glob!r}")
    chosen = [v for v in volumes if not wanted or any(matches(v, glob) for glob in wanted)]
    if not chosen:
        raise UsageError("the policy has no volumes")
    return chosen


def _reading(params: Mapping[str, Any]) -> list[str]:
    return ["--policy", params["policy"], "--topics", params["topics"], "--generation", params["rule"]]


def _folder(params: Mapping[str, Any], run_id: str, connection: str, *, stopped: bool) -> Path:
    return run_folder(params["folder"], run_id) / (connection + ("-owner-stopped" if stopped else ""))
