"""Names and calls that differ between the supported versions of Airflow, from 3.1 on.

Other modules import from here whatever is not the same in all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.error import URLError
from urllib.request import urlopen

from airflow import __version__
from airflow.configuration import conf
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.execution_time.hitl import upsert_hitl_detail
from airflow.sdk.timezone import utcnow
from packaging.version import Version

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Context

VERSION: Final = Version(__version__).release
AWAITS: Final = VERSION >= (3, 3)
"""Whether a task waits for an answer in a state of its own. Earlier it defers to a triggerer."""
SYNC_DEADLINES: Final = VERSION >= (3, 2)
"""Whether a deadline can call a function in a worker of the executor."""
_SECONDS: Final = 3.0

if TYPE_CHECKING or VERSION >= (3, 2):
    from airflow.sdk import CronDataIntervalTimetable, CronTriggerTimetable
    from airflow.sdk.definitions.callback import SyncCallback
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferred,
    )
else:
    from airflow.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowSkipException,
        AirflowTaskTimeout,
        TaskDeferred,
    )
    from airflow.sdk.definitions.deadline import SyncCallback
    from airflow.timetables.interval import CronDataIntervalTimetable
    from airflow.timetables.trigger import CronTriggerTimetable

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowSkipException",
    "AirflowTaskTimeout",
    "CronDataIntervalTimetable",
    "CronTriggerTimetable",
    "SyncCallback",
    "TaskDeferred",
]


def taken_by(operator: type[BaseOperator], **given: Any) -> dict[str, Any]:
    """Return those of the arguments that this version of an operator has."""
    known = signature(operator.__init__).parameters
    return {name: value for name, value in given.items() if name in known}


class Question(HITLOperator):
    """A task that asks a person, and waits `response_timeout` for the answer."""

    def __init__(self, *, response_timeout: timedelta | None = None, **kwargs: Any) -> None:
        given = taken_by(HITLOperator, response_timeout=response_timeout)
        super().__init__(**given, **kwargs)
        self.response_timeout = response_timeout

    def execute(self, context: Context) -> Any:
        """Ask, and wait. Raises what tells Airflow that the task waits."""
        upsert_hitl_detail(
            ti_id=context["task_instance"].id,
            options=self.options,
            subject=self.subject,
            body=self.body,
            defaults=self.defaults,
            multiple=self.multiple,
            params=self.serialized_params,
            assigned_users=self.assigned_users,
        )
        self.wait(context, self.response_timeout)

    def wait(self, context: Context, left: timedelta | None) -> NoReturn:
        """Wait so long for an answer. Raises what tells Airflow that the task waits."""
        if AWAITS:
            from airflow.sdk.exceptions import TaskAwaitingInput

            raise TaskAwaitingInput(method_name="execute_complete", timeout=left)
        from airflow.providers.standard.triggers.hitl import HITLTrigger

        trigger = HITLTrigger(
            ti_id=context["task_instance"].id,
            options=self.options,
            defaults=self.defaults,
            params=self.serialized_params,
            multiple=self.multiple,
            timeout_datetime=utcnow() + left if left else None,
        )
        self.defer(trigger=trigger, method_name="execute_complete")
        raise AssertionError("defer raises")

    def validate_params_input(self, params_input: Mapping[str, Any]) -> None:
        """Nothing: the digest is the only field, and its value is compared with the question's.

        Early versions count the DAG's params as fields that the answer lacks.
        """


def no_triggerer(health: Mapping[str, Any]) -> str:
    """Return what to do about a missing triggerer, "" if one runs or none is needed.

    `health` is what Airflow's REST says at monitor/health; {} if it says nothing.
    """
    if AWAITS or not health or (health.get("triggerer") or {}).get("status") == "healthy":
        return ""
    return (
        "No triggerer runs. Airflow before 3.3 takes no answer without one: start"
        " `airflow triggerer`"
    )


def health_seen_by_a_task() -> dict[str, Any]:
    """Return the health that the API server reports to a worker; {} if it cannot be asked, as under
    `airflow dags test`.
    """
    server = conf.get("core", "execution_api_server_url", fallback="") or ""
    base = server.rstrip("/").removesuffix("/execution") or conf.get("api", "base_url", fallback="")
    address = f"{base.rstrip('/')}/api/v2/monitor/health"
    if AWAITS or not address.startswith(("http://", "https://")):
        return {}
    try:
        with urlopen(address, timeout=_SECONDS) as answer:  # noqa: S310  # http, or https
            found: dict[str, Any] = json.load(answer)
            return found
    except (URLError, OSError, ValueError):
        return {}


def health_here() -> dict[str, Any]:
    """Return the health that the API server reports, in the API server itself."""
    if AWAITS:
        return {}
    from airflow.api.common.airflow_health import get_airflow_health

    return get_airflow_health()


def teams_of(dag_ids: Iterable[str]) -> dict[str, str | None]:
    """Return the team of each DAG, in the API server."""
    from airflow.models.dag import DagModel

    wanted = sorted(dag_ids)
    if hasattr(DagModel, "get_dag_id_to_team_name_mapping"):
        return dict(DagModel.get_dag_id_to_team_name_mapping(wanted))
    return {dag_id: DagModel.get_team_name(dag_id) for dag_id in wanted}


def bag_of(path: Any, folder: Any) -> Any:
    """Return the DAGs of a file in a folder of DAGs, and the errors of its import."""
    if VERSION >= (3, 2):
        from airflow.dag_processing.dagbag import DagBag

        return DagBag(dag_folder=path, bundle_path=folder, bundle_name="dags-folder")
    from airflow.models.dagbag import DagBag as Bag

    return Bag(dag_folder=path, bundle_path=folder, include_examples=False)
