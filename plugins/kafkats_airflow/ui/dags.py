"""The deployed DAGs of kafkats, by operation: Airflow's database knows their tags and params."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from airflow.models.dag import DagModel, DagTag
from airflow.models.dagrun import DagRun
from airflow.models.serialized_dag import SerializedDagModel
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState
from sqlalchemy import select

from kafkats_airflow import settings
from kafkats_airflow.forms.tags import TAG, Dag, chosen, deployed_dag


class Dags(NamedTuple):
    """The deployed DAGs. Those that are stale count for what is read, and do no operation."""

    dags: tuple[Dag, ...]

    def of(self, operation: str, like: str = "") -> str:
        """Return the id of the DAG of an operation, with the policy of the DAG `like`; "" for that
        of the deployment. "" if there is none.
        """
        policies = [one.policy for one in self.dags if one.dag_id == like]
        return chosen(self.dags, operation, policies[0] if policies else settings.POLICY)

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all DAGs."""
        return frozenset(one.dag_id for one in self.dags)

    def having(self, operations: frozenset[str]) -> frozenset[str]:
        """Return the ids of all DAGs of these operations."""
        return frozenset(one.dag_id for one in self.dags if one.operation in operations)


def over(asked: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Return those of the runs (DAG id, run id) that Airflow says are over, or does not know: they
    were marked or deleted, and ask nobody any more.
    """
    if not asked:
        return frozenset()
    with create_session() as session:
        states = [DagRunState.QUEUED, DagRunState.RUNNING]
        rows = session.execute(
            select(DagRun.dag_id, DagRun.run_id).where(
                DagRun.run_id.in_({run_id for _, run_id in asked}), DagRun.state.in_(states)
            )
        )
        return frozenset(asked) - {(dag_id, run_id) for dag_id, run_id in rows}


def deployed() -> Dags:
    """Return the DAGs that Airflow has parsed, also those that are stale: an error in their file
    hides no report. Raises SQLAlchemyError.
    """
    with create_session() as session:
        tagged = session.execute(
            select(DagTag.dag_id, DagModel.is_stale)
            .join(DagModel, DagModel.dag_id == DagTag.dag_id)
            .where(DagTag.name.startswith(f"{TAG}:"))
        )
        stale = {dag_id: is_stale for dag_id, is_stale in tagged}
        ids = sorted(stale)
        rows = SerializedDagModel.get_latest_serialized_dags(dag_ids=ids, session=session)
        found = [_read(row) for row in rows]
    known = (one for one in found if one is not None)
    return Dags(tuple(one._replace(stale=stale[one.dag_id]) for one in known))


_READ: Final[dict[str, tuple[str, Dag | None]]] = {}
"""By DAG id, with the hash of the serialized DAG: every page asks for all DAGs."""


def _read(row: SerializedDagModel) -> Dag | None:
    known = _READ.get(row.dag_id)
    if known is None or known[0] != row.dag_hash:
        dag = row.dag
        known = row.dag_hash, deployed_dag(dag.dag_id, dag.tags, dag.params.dump())
        _READ[row.dag_id] = known
    return known[1]
