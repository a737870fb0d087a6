"""The operator that has a request carried out where the log directories are, and reads its result.

The request is made when the task runs, from its arguments and the policy, and written into a file
(kafkats_airflow.jobs.job_files). The type of the connection says how (kafkats_airflow.jobs.homes).
The result and the progress come into files beside it. The result becomes the task's XCom; progress
is shown live in the task's page (state store and log), and the Spark UI gets a link. A Spark driver
sees the run's folder; it runs on the worker (client deploy mode, the default, or a local master),
where the task can end it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator, BaseOperatorLink, Context

from kafkats import clock
from kafkats.errors import KafkatsError, UsageError
from kafkats.plans.files import read_document
from kafkats.progress import Progress
from kafkats.request import PolicyContent, Request, made_of, read_request
from kafkats.result import Result
from kafkats_airflow import checks, deployment, sentences, settings, shipped
from kafkats_airflow.airflow_versions import AirflowTaskTimeout
from kafkats_airflow.failing import failed, in_our_words, keep
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.jobs.homes import Home, SparkHome, Task
from kafkats_airflow.jobs.host_home import HostHome
from kafkats_airflow.jobs.hosts import KINDS
from kafkats_airflow.jobs.job_files import JobFiles, write_files
from kafkats_airflow.jobs.submit import Submit, environment, hook_of
from kafkats_airflow.results import Asked, JobResult
from kafkats_airflow.runs.progress import Teller, live_file, telling
from kafkats_airflow.runs.volumes import volumes_at
from kafkats_airflow.settings import SUBMITTING

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey

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
    """Carries out a request of the verb `job`, of which `request` has some fields, and returns its
    result. On Spark that is `spark_jobs/<job>.py`.

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
        self._home: Home | None = None
        self._seen: Progress | None = None

    def execute(self, context: Context) -> JobResult:
        home, request, files = in_our_words(self._prepared)(context)
        return in_our_words(self._carried)(context, home, request, files, None)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> JobResult:
        """Read the result of work for which the task waited without a worker."""
        home, request, files = in_our_words(self._resumed)(context)
        return in_our_words(self._carried)(context, home, request, files, event)

    def on_kill(self) -> None:
        if self._home is not None:
            self._home.end()

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

    def _prepared(self, context: Context) -> tuple[Home, Request, JobFiles]:
        """Return the home of the connection, and the request in its file. Raises UsageError or
        Refused before anything is started.
        """
        request = self.asked(context)
        if deployment.hardened():
            deployment.check_request(self.connection, request, deployment.place_of(context))
        home = self._home = self.home(checks.connected(self.connection))
        home.ready(request)
        return home, request, write_files(context, request)

    def _resumed(self, context: Context) -> tuple[Home, Request, JobFiles]:
        home = self._home = self.home(checks.connected(self.connection))
        files = JobFiles.of(context)
        return home, read_request(files.request), files

    def home(self, kind: str) -> Home:
        """Return the home of the connection, which is of this type."""
        if kind in KINDS:
            return HostHome(kind, self.connection)
        return SparkHome(
            lambda task: self.submitting(task.files, deployment.place_of(task.context))
        )

    def submitting(self, files: JobFiles, place: deployment.Place) -> Submit:
        """Return the submit of a job of this set with these files, which has not begun."""
        hook = hook_of(self.connection, f"kafkats {self.job}", files.words)
        return Submit(hook, str(shipped.JOBS / f"{self.job}.py"), environment(place))

    def _carried(
        self,
        context: Context,
        home: Home,
        request: Request,
        files: JobFiles,
        event: dict[str, Any] | None,
    ) -> JobResult:
        """Have the request carried out, and return its result; after an `event` what is left."""
        limit = self.execution_timeout or settings.TIMEOUTS.job
        with telling(context, self.job, self.about) as teller:
            task = Task(
                context,
                self.job,
                request,
                files,
                Path(params_of(context)["folder"]),
                live_file(context),
                limit,
                lambda: self._tell(files, context, teller),
            )
            try:
                error = home.run(task) if event is None else home.resumed(task, event)
            except AirflowTaskTimeout:
                with suppress(KafkatsError):
                    home.end()
                sentence = sentences.of_timeout(self.job, sentences.duration(limit.total_seconds()))
                keep(sentence, context)
                raise AirflowTaskTimeout(sentence) from None
            return self._ended(context, request, files, error)

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
