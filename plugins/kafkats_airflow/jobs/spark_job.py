"""The operator that submits one of spark_jobs/ with a request, and reads its result.

The request is made when the task runs, from its arguments and the policy, and written into a file
(kafkats_airflow.jobs.job_files). The job writes its result and its progress beside it. The result
becomes the task's XCom; progress is shown live in the task's page (state store and log), and the
Spark UI gets a link. Every driver sees the run's folder; it runs on the worker (client deploy mode,
the default, or a local master), where the task can end it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.common.compat.sdk import BaseOperator, BaseOperatorLink, Context
from airflow.sdk.exceptions import AirflowTaskTimeout

from kafkats import clock
from kafkats.errors import KafkatsError, UsageError
from kafkats.plans.files import read_document
from kafkats.progress import Progress
from kafkats.request import PolicyContent, Request, made_of
from kafkats.result import Result
from kafkats_airflow import checks, deployment, sentences, settings, shipped
from kafkats_airflow.failing import failed, in_our_words, keep
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.jobs.job_files import JobFiles, write_files
from kafkats_airflow.jobs.submit import Submit
from kafkats_airflow.results import Asked, JobResult
from kafkats_airflow.runs.progress import Teller, telling
from kafkats_airflow.runs.volumes import volumes_at
from kafkats_airflow.settings import SUBMITTING

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

SECONDS: Final = 0.5
"""How often the progress is looked at."""
_PARTS: Final = frozenset({"operation", "log_dirs", "options", "runs"})
"""The fields of a request that an XCom may have."""
_GO_ON: Final = frozenset({"census", "lookup", "plan", "preflight"})
"""The jobs that leave out volumes which cannot be read: their run reports those, and fails."""
# A search by time answers by the policy, too; a table to be filled by none.
_BY_POLICY: Final = frozenset({"certify", "plan", "verify"})
_OLD: Final = (
    "its arguments were made by an earlier version of kafkats; clear the first task of the run, and"
    " with it all tasks after it, to make new ones"
)


class SparkUiLink(BaseOperatorLink):
    """A link to the driver's own UI, while the driver runs."""

    name = "Spark UI"
    xcom_key = "spark_ui"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        return str(getattr(operator, "spark_ui", "") or "")


class KafkatsJobOperator(BaseOperator):
    """Submits `spark_jobs/<job>.py` with a request of which `request` has some fields, and returns
    the job's result.

    If the job failed with an error of ours, the task fails with the error's own words, and without
    a retry if none can help. `about` labels a mapped task. `application_args` are of an earlier
    version.
    """

    operator_extra_links = (SparkUiLink(),)
    # Texts of params end up in these fields: a template in one would be rendered, and can read
    # passwords.
    template_fields = ()

    def __init__(
        self,
        *,
        job: str,
        conn_id: str = "spark_default",
        request: Asked | None = None,
        about: str = "",
        application_args: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{**SUBMITTING, **kwargs})
        self.job, self.connection, self.request = job, conn_id, request
        self.application_args = application_args
        self.about = about or self.connection
        self.spark_ui: str | None = None
        self._submit: Submit | None = None
        self._seen: Progress | None = None

    def execute(self, context: Context) -> JobResult:
        request, files = in_our_words(self._prepared)(context)
        with telling(context, self.job, self.about) as teller:
            error = self._submitted(files, context, teller)
            return in_our_words(self._ended)(context, request, files, error)

    def on_kill(self) -> None:
        if self._submit is not None:
            self._submit.end()

    def asked(self, context: Context) -> Request:
        """Return the request of the task. Raises UsageError."""
        ti = context["ti"]
        name = f"{context['dag'].dag_id}/{context['run_id']}/{ti.task_id}/{ti.map_index}"
        made_ms = clock.now_ms()
        return made_of({
            **self._fields(context), "id": name, "made_ms": made_ms, "verb": self.job,
        })  # fmt: skip

    def _fields(self, context: Context) -> dict[str, Any]:
        """Return the fields that this job has besides those of every request."""
        given: Mapping[str, Any] = self.request or {}
        if self.application_args is not None or given.keys() - _PARTS:
            raise UsageError(_OLD)
        found = {name: given[name] for name in ("operation", "options") if name in given}
        if self.job in _BY_POLICY or "Times" in found.get("options", {}):
            found["policy"] = PolicyContent.of(checks.policy_of(params_of(context)))
        return {
            **found,
            "log_dirs": [{"path": path} for path in given.get("log_dirs", ())],
            "runs": [{"folder": folder} for folder in given.get("runs", ())],
            "no_topic_is_fine": True,
            "suspects": True,
            "unreachable_is_fine": self.job in _GO_ON,
        }

    def _prepared(self, context: Context) -> tuple[Request, JobFiles]:
        """Return the request, in its file. Raises UsageError or Refused before anything is
        submitted.
        """
        request = self.asked(context)
        if deployment.hardened():
            deployment.check_request(self.connection, request, params_of(context))
        checks.connected(self.connection)
        return request, write_files(context, request)

    def submitting(self, files: JobFiles) -> Submit:
        """Return the submit of the job with these files, which has not begun."""
        hook = SparkSubmitHook(
            conn_id=self.connection, name=f"kafkats {self.job}", application_args=files.words
        )
        return Submit(hook, str(shipped.JOBS / f"{self.job}.py"))

    def _submitted(self, files: JobFiles, context: Context, teller: Teller) -> Exception | None:
        """Run the job, and return what the provider raised. Only this thread talks to Airflow."""
        self._submit = submit = self.submitting(files)
        try:
            submit.start()
            while not submit.wait(SECONDS):
                self._tell(files, context, teller)
        except AirflowTaskTimeout:
            limit = self.execution_timeout or settings.TIMEOUTS.job
            sentence = sentences.of_timeout(self.job, sentences.duration(limit.total_seconds()))
            keep(sentence, context)
            raise AirflowTaskTimeout(sentence) from None
        finally:
            submit.end()
        self._tell(files, context, teller)
        return submit.error

    def _tell(self, files: JobFiles, context: Context, teller: Teller) -> None:
        """Tell people of the progress, if there is a new one."""
        found, seen = None, self._seen
        with suppress(KafkatsError):
            found = read_document(files.progress, Progress)
        if found is None or (seen and seen.written_ms == found.written_ms):
            return
        self._seen, fields = found, found.of_stage()
        teller.tell(fields)
        if seen is not None and seen.of_stage() == fields:
            return
        if found.ui and found.ui != self.spark_ui:
            self.spark_ui = found.ui
            context["ti"].xcom_push(SparkUiLink.xcom_key, found.ui)
        if (store := context.get("task_state_store")) is not None:
            store.set("progress", fields)
        if found.of_bytes is not None:
            self.log.info(sentences.of_progress(found))

    def _ended(
        self, context: Context, request: Request, files: JobFiles, error: Exception | None
    ) -> JobResult:
        """Return the job's result. Raises the error that ended it, or the failure of findings."""
        result = read_document(files.result, Result)
        # A job that cannot read its request does not know whose it is.
        if result is None or result.request not in {"", request.id}:
            sentence = sentences.of_no_result(self.job, str(error or ""))
            raise failed(sentence, retryable=True, context=context)
        if result.error is not None:
            raise result.error.as_error()
        told: Any = sentences.of_result(result, params_of(context))
        if result.exit_code:
            self.log.info("%s found: %s", self.job, json.dumps(told))
            findings = sentences.of_findings(result, params_of(context))
            raise failed(f"{self.job}: {findings}", context=context)
        if error is not None:
            self.log.warning("the job was done before its driver failed: %s", error)
        found: JobResult = told
        if left := found.get("unreachable"):
            volumes = volumes_at(params_of(context), self.connection)
            for one in left:
                if named := volumes.get(one["log_dir"]):
                    one["log_dir"], one["broker"] = named.label, named.broker
                self.log.error("left out: %s", one["error"])
        return found
