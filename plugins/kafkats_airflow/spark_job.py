"""The operator that submits one of spark_jobs/ and listens to what it says.

The job prints marker lines (spark_jobs/fanout.py). The operator takes them out of the log stream: the result becomes the
task's XCom, progress is shown live in the task's page (state store and log), and the Spark UI gets a link. That needs
the driver's output, so connections use client deploy mode (the default) or a local master.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException, BaseOperatorLink, Context

from kafkats_airflow import settings
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.settings import SUBMITTING

PROGRESS: Final = "KAFKATS_PROGRESS "
RESULT: Final = "KAFKATS_RESULT "

JOBS: Final = Path(os.environ.get("KAFKATS_SPARK_JOBS", Path(__file__).parents[2] / "spark_jobs"))


class SparkUiLink(BaseOperatorLink):
    """To the driver's own UI, as long as it runs."""

    name = "Spark UI"
    xcom_key = "spark_ui"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return str(getattr(operator, "spark_ui", "") or "")


class KafkatsJobOperator(SparkSubmitOperator):
    """Submits `spark_jobs/<job>.py` with `application_args`; returns the job's result. `about` names it among its like.

    A job that failed with an error of ours fails the task with that error's own words, and without a retry when no
    retry can help. `application_args` may hold Paths and numbers.
    """

    operator_extra_links = (SparkUiLink(),)
    # Words of params end up in these fields: a template in one would be rendered, and can read passwords.
    template_fields = ()

    def __init__(self, *, job: str, about: str = "", **kwargs: Any) -> None:
        kwargs = SUBMITTING | kwargs
        super().__init__(application=str(JOBS / f"{job}.py"), name=f"kafkats {job}", **kwargs)
        self.job = job
        self.connection = kwargs.get("conn_id", "")
        self.about = about or self.connection
        self.spark_ui: str | None = None
        self._context: Context | None = None
        self._result: dict[str, Any] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        self._context, self._result = context, None
        in_our_words(settings.check)()
        self.application_args = [str(arg) for arg in self.application_args or []]
        try:
            super().execute(context)
        except AirflowException:
            self._fail_in_our_words()
            raise
        if self._result is None:
            raise AirflowFailException(f"{self.job} gave no result: its driver must run here (client deploy mode)")
        return self._result

    def _fail_in_our_words(self) -> None:
        result = self._result or {}
        if said := result.get("error"):
            kind = AirflowException if result.get("retryable") else AirflowFailException
            raise kind(f"{result.get('kind')}: {said}")
        if result:  # the job came to an end, and what it found is the failure
            raise AirflowFailException(f"{self.job} found: {json.dumps(result)}")

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook()
        inner = hook._process_spark_submit_log  # private: the provider is pinned, a test covers it
        hook._process_spark_submit_log = lambda lines: inner(self._tap(lines))
        return hook

    def _tap(self, lines: Iterable[str]) -> Iterator[str]:
        """Everything but the marker lines, which are acted upon."""
        for line in lines:
            if line.startswith(RESULT):
                self._result = json.loads(line.removeprefix(RESULT))
            elif line.startswith(PROGRESS):
                self._progress(json.loads(line.removeprefix(PROGRESS)))
            else:
                yield line

    def _progress(self, said: dict[str, Any]) -> None:
        context = self._context
        if context is None:
            return
        if ui := said.get("ui"):
            self.spark_ui = ui
            context["ti"].xcom_push(SparkUiLink.xcom_key, ui)
        if (store := context.get("task_state_store")) is not None:
            store.set("progress", said)
        if "of_bytes" in said:
            self.log.info(
                "%(stage)s: %(units)s of %(of_units)s units, %(bytes)s of %(of_bytes)s bytes, "
                "%(bytes_per_second)s bytes/s, %(seconds_left)s s left, %(failed_tasks)s tasks repeated",
                said,
            )
