"""The operator that submits one of spark_jobs/ and listens to what it says.

The job prints marker lines (spark_jobs/fanout.py). The operator takes them out of the log stream:
the result becomes the task's XCom, progress is shown live in the task's page (state store and log),
and the Spark UI gets a link. That needs the driver's output, so connections use client deploy mode
(the default) or a local master.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.common.compat.sdk import AirflowException, BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowTaskTimeout

from kafkats.errors import Holder, KafkatsError
from kafkats_airflow import checks, deployment, sentences, settings
from kafkats_airflow.failing import failed, keep
from kafkats_airflow.forms.values import RunParams, given_params, params_of
from kafkats_airflow.jobs.processes import end_session
from kafkats_airflow.results import JobResult, Progress
from kafkats_airflow.runs.progress import Teller, telling
from kafkats_airflow.settings import SUBMITTING

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey

PROGRESS: Final = "KAFKATS_PROGRESS "
RESULT: Final = "KAFKATS_RESULT "

JOBS: Final = Path(os.environ.get("KAFKATS_SPARK_JOBS", Path(__file__).parents[3] / "spark_jobs"))


class SparkUiLink(BaseOperatorLink):
    """A link to the driver's own UI, while the driver runs."""

    name = "Spark UI"
    xcom_key = "spark_ui"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return str(getattr(operator, "spark_ui", "") or "")


class WordsJobOperator(SparkSubmitOperator):
    """Submits `spark_jobs/<job>.py` with `application_args` and returns the job's result.

    If the job failed with an error of ours, the task fails with the error's own words, and without
    a retry if none can help. `application_args` may hold Paths and numbers. `about` labels a mapped
    task.
    """

    operator_extra_links = (SparkUiLink(),)
    # Words of params end up in these fields: a template in one would be rendered, and can read
    # passwords.
    template_fields = ()
    default_connection = "spark_default"

    def __init__(self, *, job: str, about: str = "", **kwargs: Any) -> None:
        kwargs = {**SUBMITTING, **kwargs}
        super().__init__(application=str(JOBS / f"{job}.py"), name=f"kafkats {job}", **kwargs)
        self.job = job
        self.connection = str(kwargs.get("conn_id", self.default_connection))
        self.about = about or self.connection
        self.spark_ui: str | None = None
        self._context: Context | None = None
        self._result: JobResult | None = None
        self._teller: Teller | None = None

    def execute(self, context: Context) -> JobResult:  # type: ignore[override]  # Spark's is None
        self._context, self._result = context, None
        self._hook = None  # the provider's keeps the words of the submit before
        try:
            self._check(context)
        except KafkatsError as e:
            raise failed(sentences.of(e, given_params(context)), context=context) from None
        self.application_args = [str(arg) for arg in self.application_args or []]
        with telling(context, self.job, self.about) as self._teller:
            return self._submitted(context)

    def _submitted(self, context: Context) -> JobResult:
        try:
            super().execute(context)
        except AirflowException as e:
            raise self._failed(e) from None
        except AirflowTaskTimeout:
            self._end_driver()
            limit = self.execution_timeout or settings.TIMEOUTS.job
            sentence = sentences.of_timeout(self.job, sentences.duration(limit.total_seconds()))
            keep(sentence, context)
            raise AirflowTaskTimeout(sentence) from None
        finally:
            self._end_driver()
        if self._result is None:
            sentence = (
                f"{self.job}: gave no result: its driver must run on this worker (client deploy"
                f" mode of {self.connection})"
            )
            raise failed(sentence, context=context)
        return self._result

    def on_kill(self) -> None:
        super().on_kill()
        self._end_driver()

    def _check(self, context: Context) -> None:
        """Raises UsageError or Refused before anything is submitted."""
        settings.check()
        if deployment.hardened():
            deployment.check(context)
            words = [str(arg) for arg in self.application_args or []]
            deployment.check_words(self.job, self.connection, words, params_of(context))
        checks.connected(self.connection)

    def _failed(self, error: AirflowException) -> AirflowException:
        """Return the exception with the job's own sentence, else with the provider's words."""
        result: JobResult = self._result or {}
        if reason := result.get("error"):
            sentence = sentences.of_error(str(result.get("kind")), reason, self._params())
            return failed(
                sentence,
                retryable=bool(result.get("retryable")),
                holders=[Holder(**one) for one in result.get("holders", ())],
                context=self._context,
            )
        if result:  # the job came to an end, and what it found is the failure
            self.log.info("%s found: %s", self.job, json.dumps(result))
            sentence = sentences.of_findings(self.job, result, self._params())
            return failed(sentence, context=self._context)
        return failed(
            sentences.of_no_result(self.job, str(error)), retryable=True, context=self._context
        )

    def _params(self) -> RunParams | None:
        return None if self._context is None else given_params(self._context)

    def _end_driver(self) -> None:
        """Kill what is left of the submit: JVM, driver and Python workers are one session of
        processes.
        """
        submitted = getattr(self._hook, "_submit_sp", None)
        if pid := getattr(submitted, "pid", None):  # it leads its session
            end_session(pid)

    def _get_hook(self) -> SparkSubmitHook:
        hook = super()._get_hook()
        inner = hook._process_spark_submit_log  # private: the provider is pinned, a test covers it
        hook._process_spark_submit_log = (  # type: ignore[method-assign]
            lambda itr: inner(self._tap(itr))
        )
        submit = partial(hook.submit, start_new_session=True)
        hook.submit = submit  # type: ignore[method-assign]  # the hook has no place for it
        return hook

    def _tap(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield all lines but the marker lines, and handle those."""
        for line in lines:
            if line.startswith(RESULT):
                self._result = json.loads(line.removeprefix(RESULT))
            elif line.startswith(PROGRESS):
                self._progress(line.removeprefix(PROGRESS))
            else:
                yield line

    def _progress(self, text: str) -> None:
        context = self._context
        if context is None:
            return
        content = json.loads(text)
        progress: Progress = content
        if ui := progress.get("ui"):
            self.spark_ui = ui
            context["ti"].xcom_push(SparkUiLink.xcom_key, ui)
        if (store := context.get("task_state_store")) is not None:
            store.set("progress", content)
        if self._teller is not None:
            self._teller.tell(progress)
        if "of_bytes" in progress:
            self.log.info(sentences.of_progress(progress))
