"""The tags of DAGs: a DAG is found by its operation and its policy, whatever its id is.

An operator may deploy copies under other ids, for example one per cluster. Each copy keeps the tags
of its file, and has another default of the param `policy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

TAG: Final = "kafkats"
"""The tag of all DAGs of kafkats."""


class Dag(NamedTuple):
    """A deployed DAG. `operation` is the key of its form, `policy` the default of that param, ""
    if it has none.
    """

    dag_id: str
    operation: str
    policy: str = ""


def tag_of(operation: str) -> str:
    """Return the tag of the DAGs of an operation."""
    return f"{TAG}:{operation}"


def deployed_dag(dag_id: str, tags: Iterable[str], params: Mapping[str, object]) -> Dag | None:
    """Return what a DAG's tags and params say of it; None without the tag of an operation."""
    named = sorted(one for one in tags if one.startswith(f"{TAG}:"))
    if not named:
        return None
    return Dag(dag_id, named[0].partition(":")[2], str(params.get("policy") or ""))


def chosen(dags: Iterable[Dag], operation: str, policy: str) -> str:
    """Return the id of the DAG that does an operation: the only one, else the first by id of those
    with this policy; "" if there is none.
    """
    found = sorted(one for one in dags if one.operation == operation)
    same = [one for one in found if one.policy == policy] if len(found) > 1 else found
    return same[0].dag_id if same else ""


def missing(operation: str) -> str:
    """Return the sentence for an operation without a DAG for it."""
    return f"no DAG with the tag {tag_of(operation)} is deployed for this policy"
