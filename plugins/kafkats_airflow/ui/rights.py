"""The rights of the person, asked of Airflow at every route.

Airflow gives a plugin's app no rights of its own. 401: nobody is signed in. 403: the person may not
see Airflow's pages, or not the runs of this DAG; or the request names no DAG.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import (
    AccessView,
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.models.dag import DagModel, DagTag
from airflow.utils.session import create_session
from fastapi import Depends, HTTPException, Request
from sqlalchemy import select

from kafkats_airflow.airflow_versions import teams_of
from kafkats_airflow.forms.tags import TAG

EVERYWHERE: Final = [Depends(requires_access_view(AccessView.WEBSITE))]
"""What every route asks first: a person who may see Airflow's pages."""
ALL: Final = "~"
"""Airflow's word for all DAGs: no page of ours is about all of them at once."""


class Person(NamedTuple):
    """The person who asks. `dag_ids` are the DAGs of kafkats whose runs Airflow lets them read."""

    name: str
    dag_ids: frozenset[str]


def readable(user: GetUserDep) -> Person:
    """Return the person, for pages about several DAGs: these show nothing of other DAGs."""
    manager = get_auth_manager()
    seen = ours(manager.get_authorized_dag_ids(user=user, method="GET"))
    teams = teams_of(seen)
    may_read = {dag_id for dag_id in seen if _may(user, dag_id, teams.get(dag_id))}
    return Person(str(user.get_name()), frozenset(may_read))


def dag_asked(request: Request, user: GetUserDep) -> str:
    """Return the `dag_id` of the request, given once. Raises 403 without the right to its runs."""
    given = request.query_params.getlist("dag_id")
    if len(given) != 1 or given[0] in {"", ALL}:
        raise HTTPException(403, "The address of this page names no DAG, or more than one.")
    dag_id = given[0]
    if not _may(user, dag_id, DagModel.get_team_name(dag_id)):
        raise HTTPException(403, "You may not see the runs of this DAG.")
    return dag_id


def ours(dag_ids: Iterable[str]) -> frozenset[str]:
    """Return those of the DAGs that have the tag of kafkats. Copies under other ids have it too."""
    wanted = frozenset(dag_ids)
    with create_session() as session:
        tagged = session.scalars(select(DagTag.dag_id).where(DagTag.name == TAG))
        return wanted & frozenset(tagged)


def _may(user: GetUserDep, dag_id: str, team: str | None) -> bool:
    return get_auth_manager().is_authorized_dag(
        method="GET",
        access_entity=DagAccessEntity.RUN,
        details=DagDetails(id=dag_id, team_name=team),
        user=user,
    )


Readable = Annotated[Person, Depends(readable)]
DagAsked = Annotated[str, Depends(dag_asked)]
