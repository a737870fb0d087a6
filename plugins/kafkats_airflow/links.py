"""Addresses of the pages of kafkats inside Airflow (kafkats_airflow.ui)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode, urlsplit

from airflow.configuration import conf
from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, XComArg
    from airflow.sdk.types import TaskInstanceKey

FRAME: Final = "/plugin/kafkats"
"""The route of the menu in which Airflow frames the pages. The path of the framed page follows."""


def page_of(page: str, dag_id: str, run_id: str) -> str:
    """Return the address of a page about a DAG run; absolute if `[api] base_url` is set."""
    base = conf.get("api", "base_url", fallback="").rstrip("/")
    query = urlencode({"dag_id": dag_id, "run_id": run_id}, quote_via=quote)
    path = urlsplit(base).path  # the framed page has it as well
    return f"{base}{FRAME}{path}/kafkats/{page}?{query}"


def with_results(reported: XComArg) -> XComArg:
    """Give the task that reports a link to the page of its run, and return its XCom."""
    reported.operator.operator_extra_links = (ResultsLink(),)  # type: ignore[attr-defined]
    return reported


class PlanLink(BaseOperatorLink):
    """A link from a task to the page with every row of the run's plans."""

    name = "Plan"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return page_of("plan", ti_key.dag_id, ti_key.run_id)


class ResultsLink(BaseOperatorLink):
    """A link from a task to the page of its run: stages, results, undo and purge."""

    name = "Results"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return page_of("run", ti_key.dag_id, ti_key.run_id)
