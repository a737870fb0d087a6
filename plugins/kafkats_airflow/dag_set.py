"""A set of DAGs: those of kafkats, for one policy.

A deployment has one set, and another one for each policy more, with a prefix of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from airflow.sdk import DAG, Asset
from airflow.sdk.definitions.mappedoperator import MappedOperator

from kafkats.config.values import suggestion
from kafkats.errors import UsageError
from kafkats_airflow import alerts, deployment
from kafkats_airflow.forms.catalogue import DEPLOYMENT
from kafkats_airflow.forms.params import form
from kafkats_airflow.forms.tags import TAG, name_of, tag_of
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from kafkats_airflow.settings import OWNED
from kafkats_airflow.shipped import NAMES


class DagSet(NamedTuple):
    """The DAGs of one set. The fields are the arguments of `kafkats_dags`."""

    prefix: str = ""
    params: Mapping[str, object] = {}
    schedules: Mapping[str, Any] = {}
    pool: str = ""
    tags: tuple[str, ...] = ()

    def dag(
        self,
        name: str,
        operation: str,
        subject: str,
        *,
        schedule: Any,
        retries: int = 1,
        **more: Any,
    ) -> DAG:
        """Return a DAG with its form, tags, alerts and schedule, and with so many retries of its
        tasks. `operation` is the key of its form, `more` more arguments of the DAG.
        """
        dag_id = f"{self.prefix}{name}"
        deployment.put(dag_id, self.place())
        return DAG(
            dag_id,
            schedule=self.schedules.get(name, schedule),
            catchup=False,
            default_args={**OWNED, "retries": retries},
            tags=[TAG, tag_of(operation), subject, *self.tags],
            params=form(operation, self.params),
            **alerts.of(dag_id),
            **more,
        )

    def place(self) -> deployment.Place | None:
        """Return the policy and the folder of this set, None if it names neither."""
        if not DEPLOYMENT.keys() & self.params.keys():
            return None
        policy, folder = (
            str(self.params.get(one, DEPLOYMENT[one])) for one in ("policy", "folder")
        )
        return deployment.Place(policy, folder, name_of(folder, self.prefix))

    def asset(self, name: str, address: str) -> Asset:
        """Return an asset of this set."""
        name = f"{self.prefix}{name}"
        return Asset(name=name, uri=f"kafkats://{self.prefix}{address}", group="kafkats")


def kafkats_dags(
    *names: str,
    prefix: str = "",
    params: Mapping[str, object] | None = None,
    schedules: Mapping[str, Any] | None = None,
    pool: str = "",
    tags: Collection[str] = (),
) -> dict[str, DAG]:
    """Build DAGs in the file that Airflow parses, all of them or those with these names, and return
    them by id.

    `prefix` is that of their ids and of the names and addresses of their assets; each set of DAGs
    after the first needs one. `params` are other defaults of their forms, such as {"policy":
    "/etc/kafkats/west.yaml"}; a DAG takes those that its form has. `schedules` are by name, without
    the prefix; each is what Airflow takes for a schedule, None for none. The tasks that submit to
    Spark have `pool` instead of KAFKATS_POOL. `tags` are added to those by which pages find a DAG.

    Raises UsageError for a name of no DAG, and for a param of none of them.
    """
    wanted = names or NAMES
    _refuse_unknown("DAG", [*wanted, *(schedules or ())], NAMES)
    dags = DagSet(prefix, params or {}, schedules or {}, pool, tuple(tags))
    made: list[DAG] = [import_module(f"kafkats_airflow.dags.{one}").build(dags) for one in wanted]
    _refuse_unknown("param", params or (), sorted({name for dag in made for name in dag.params}))
    for dag in made:
        _put_into(dag, pool)
    return {dag.dag_id: dag for dag in made}


def _refuse_unknown(kind: str, given: Collection[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            hint = suggestion(name, known)
            raise UsageError(f"kafkats_dags: {name!r} is no {kind} of kafkats; {hint}")


def _put_into(dag: DAG, pool: str) -> None:
    """Put the tasks of a DAG that submit to Spark into a pool. Each of them is mapped."""
    for task in dag.tasks if pool else ():
        if isinstance(task, MappedOperator) and issubclass(task.operator_class, KafkatsJobOperator):
            task.partial_kwargs["pool"] = pool
