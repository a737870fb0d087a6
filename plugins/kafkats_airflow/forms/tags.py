"""The tags of DAGs: a DAG is found by its operation and its policy, whatever its id is.

An operator may deploy copies under other ids, for example one per cluster. Each copy keeps the tags
of its file, and has another default of the param `policy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kafkats_airflow import settings
from kafkats_airflow.shipped import NAMES

TAG: Final = "kafkats"
"""The tag of all DAGs of kafkats."""


class Dag(NamedTuple):
    """A deployed DAG. `operation` is the key of its form, `policy` and `folder` are the defaults of
    these params, "" if it has none. `stale`: Airflow has not parsed it lately; its file is gone, or
    has an error. Its runs are still there.
    """

    dag_id: str
    operation: str
    policy: str = ""
    folder: str = ""
    stale: bool = False


def tag_of(operation: str) -> str:
    """Return the tag of the DAGs of an operation."""
    return f"{TAG}:{operation}"


def deployed_dag(dag_id: str, tags: Iterable[str], params: Mapping[str, object]) -> Dag | None:
    """Return what a DAG's tags and params say of it; None without the tag of an operation."""
    named = sorted(one for one in tags if one.startswith(f"{TAG}:"))
    if not named:
        return None
    policy, folder = (str(params.get(one) or "") for one in ("policy", "folder"))
    return Dag(dag_id, named[0].partition(":")[2], policy, folder)


def prefix_of(dag_id: str) -> str:
    """Return the prefix of the DAG's set; "" for none, and for a copy under another name."""
    return next((dag_id.removesuffix(one) for one in NAMES if dag_id.endswith(one)), "")


def name_of(folder: str, prefix: str) -> str:
    """Return the name of the set of DAGs with this folder: its prefix, else the folder's path; ""
    for that of the deployment.
    """
    if Path(folder) == Path(settings.FOLDER):
        return ""
    return prefix.strip("_-.") or folder


def chosen(dags: Iterable[Dag], operation: str, policy: str, folder: str = "") -> str:
    """Return the id of the DAG that does an operation: the only one, else of those with this
    policy the first by id, one with this folder before others; "" if there is none that is not
    stale.
    """
    found = sorted(one for one in dags if one.operation == operation and not one.stale)
    same = [one for one in found if one.policy == policy] if len(found) > 1 else found
    same.sort(key=lambda one: one.folder != folder)
    return same[0].dag_id if same else ""


def missing(operation: str) -> str:
    """Return the sentence for an operation without a DAG for it."""
    return f"no DAG with the tag {tag_of(operation)} is deployed for this policy"
