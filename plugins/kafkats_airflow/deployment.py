"""A deployment in which triggering a DAG is not enough to write: KAFKATS_APPROVERS is set.

Without that setting whoever may trigger a DAG decides all: the params name the policy and the
folder, and say whether anybody is asked. With it, these are checked by every task and before every
submit, on the worker, whatever the params, XComs and states of tasks say:

* an Airflow in which everybody is an admin runs nothing
* policy and folder are those of the DAG's set; ledger and tables lie in that folder
* a plan is applied after the yes of an approver to its digest, and none is made or applied that
  overrides a guard
* a job has no words that the DAGs do not give it, reads and writes no path but the policy's volumes
  and the folder, and connects where the policy says
* old files are kept for KAFKATS_UNDO_DAYS_FLOOR days
* who attests that brokers understand a format is the user who triggered the run
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from airflow.configuration import conf
from airflow.sdk import Context

from kafkats.config.approvers import Approver
from kafkats.deployment import SET, Bounds, Deployment
from kafkats.errors import Refused
from kafkats.request import Request
from kafkats_airflow import checks, settings
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.results import User

if TYPE_CHECKING:
    from airflow.sdk.execution_time.hitl import HITLUser


class Place(NamedTuple):
    """The policy and the folder of a set of DAGs; `name` is "" for that of the deployment."""

    policy: str
    folder: str
    name: str = ""


_PLACES: Final[dict[str, Place]] = {}
"""By DAG id, of the sets that this process has built: a worker parses the file of its DAG. Params
do not tell: Airflow writes the values of a run into those of the DAG.
"""


def put(dag_id: str, place: Place | None) -> None:
    """Note the place of a DAG that is being built, None for that of the deployment."""
    _PLACES.pop(dag_id, None)
    if place is not None:
        _PLACES[dag_id] = place


def place_of(context: Context) -> Place:
    """Return the place of the task's DAG; that of the deployment for a DAG without a set."""
    own = Place(settings.POLICY, settings.FOLDER)
    return _PLACES.get(getattr(context.get("dag"), "dag_id", ""), own)


def hardened() -> bool:
    """Return whether the deployment names approvers."""
    return settings.HARDENED


def check(context: Context) -> None:
    """The run's params. Raises Refused for what this deployment does not allow."""
    if not hardened():
        return
    _check_airflow()
    params, place = params_of(context), place_of(context)
    _check_fixed("policy", params.get("policy", place.policy), place.policy)
    _check_fixed("folder", params.get("folder", place.folder), place.folder)
    for name in ("ledger", "clients", "tables"):
        if path := params.get(name):
            bounds(place).check_inside(path, name)
    days = params.get("undo_days", settings.FLOOR_DAYS)
    if days < settings.FLOOR_DAYS:
        raise Refused(
            f"undo_days: {days} is below {settings.FLOOR_DAYS}, the least of this deployment{SET}"
        )
    if who := params.get("attested_by"):
        user = getattr(context["dag_run"], "triggering_user_name", None)
        if who != user:
            raise Refused(
                f"attested_by: {who!r} is not who triggered this run, {user or 'nobody'}: vouch"
                f" for it yourself{SET}"
            )


def _check_fixed(name: str, given: str, fixed: str) -> None:
    if given != fixed:
        raise Refused(f"{name}: {given!r} is not this deployment's, which is {fixed}{SET}")


def check_request(connection: str, request: Request, place: Place) -> None:
    """Raise Refused if the deployment does not allow this request on this connection."""
    volumes = checks.policy_of({"policy": place.policy}).volumes
    if connection not in {volume.connection for volume in volumes}:
        raise Refused(f"connection {connection!r} is none of the policy's{SET}")
    bounds(place).check(request)


def check_answer(request: Request) -> None:
    """Raise Refused for a request to write that no approver has allowed.

    A job on this worker checks that itself. The host of another home may not know the approvers.
    """
    if not hardened() or request.verb not in {"apply", "undo"}:
        return
    from kafkats.plans.parts import open_plan
    from kafkats.plans.run import read_run

    own = Deployment.of_environment()
    digests = [read_run(run.folder).digest for run in request.runs]
    if request.plan is not None:
        plan = open_plan(request.plan.folder)
        own.check_guards(plan)
        digests.append(plan.digest)
    own.check_approval(request.record, digests)


def bounds(place: Place) -> Bounds:
    """Return what the requests of this set may name."""
    return Bounds(place.policy, place.folder, settings.FLOOR_DAYS)


def check_responder(user: User | None) -> None:
    """Raise Refused unless who answered is an approver; `user` is None if nobody did in time."""
    if not hardened() or user is None:
        return
    _check_airflow()
    answered = Approver(str(user.get("id") or ""), str(user.get("name") or ""))
    if answered not in settings.APPROVERS:
        raise Refused(
            f"{answered.name or answered.id!r} answered, who is not an approver; clear the task to"
            f" ask again{SET}"
        )


def assigned() -> list[HITLUser] | None:
    """Return the people who are asked; None for everybody."""
    if not hardened():
        return None
    return [{"id": approver.id, "name": approver.name} for approver in settings.APPROVERS]


def _check_airflow() -> None:
    manager = conf.get("core", "auth_manager", fallback="")
    if "SimpleAuthManager" in manager and conf.getboolean(
        "core", "simple_auth_manager_all_admins", fallback=False
    ):
        raise Refused(
            "in this Airflow everybody is an admin, so nobody can be told to be an approver; switch"
            f" simple_auth_manager_all_admins off{SET}"
        )
