"""The question to a person whether a canary does well, so that the other brokers may follow.

canary-question.json    in the run's folder: the digest of what was shown, the deadline, the answer

The digest is that of the ledger's last entry about the canary. A run that was cleared since has
converted, proved or certified it again: an answer to the earlier question is not taken.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import AirflowSkipException, Context
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.definitions.param import ParamsDict

from kafkats import clock
from kafkats_airflow import deployment
from kafkats_airflow.approvals import answers, asking, questions
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.params import digest_field
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.links import ResultsLink
from kafkats_airflow.results import Answer
from kafkats_airflow.runs import steps
from kafkats_airflow.runs.folders import CANARY_QUESTION, folder_of
from kafkats_airflow.settings import TIMEOUTS


class CanaryApproval(ApprovalOperator):
    """Asks whether a converted and verified canary does well; skipped in runs without one.

    A yes is written to the ledger. It counts only for the canary that was shown.
    """

    # A template in a run id or a name would be rendered, and can read passwords.
    template_fields = ()
    operator_extra_links = (ResultsLink(),)

    def __init__(
        self,
        *,
        subject: str = "May the other brokers follow this canary?",
        response_timeout: timedelta = TIMEOUTS.canary,
        always: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            subject=subject, defaults=self.REJECT, response_timeout=response_timeout, **kwargs
        )
        self.asks, self.always = subject, always

    @in_our_words
    def execute(self, context: Context) -> Answer:
        digest = steps.canary_digest(params_of(context))
        if not digest:
            raise AirflowSkipException("this run has no canary to approve")
        self.assigned_users = deployment.assigned() or self.assigned_users
        if self.always or deployment.hardened() or params_of(context)["need_approval"]:
            self._record(context, digest)
            self.params = ParamsDict({answers.DIGEST: digest_field(digest)})
            self.subject = questions.asked(self.asks, context)
            self.body = questions.of_canary(context, digest)
            waiting: Answer = super().execute(context)
            return waiting
        steps.approve(params_of(context), f"airflow {context['run_id']}")
        return {"chosen_options": [self.APPROVE], "params_input": {}}

    @in_our_words
    def execute_complete(self, context: Context, event: dict[str, Any]) -> Answer:
        answer = answers.answer_in(event)
        deployment.check_responder(answer.get("responded_by_user"))
        until_ms = _asked_until(context)
        if until_ms is not None and (why := self._not_taken(context, answer)):
            self.log.warning("%s", why)
            asking.go_on_waiting(self, context, until_ms)
        taken: Answer = super().execute_complete(context, event)
        if taken["chosen_options"] == [self.APPROVE]:
            by = answers.name_in(taken) or f"airflow {context['run_id']}"
            steps.approve(params_of(context), by)
        _record_answer(context, taken)
        return taken

    def _record(self, context: Context, digest: str) -> None:
        from kafkats.plans.files import make_folder, write_json

        now_ms = clock.now_ms()
        until_ms = now_ms + (self.response_timeout or timedelta()) // asking.MILLISECOND
        path = folder_of(context) / CANARY_QUESTION
        make_folder(path.parent, "the question")
        asked = {"digest": digest, "asked_ms": now_ms, "until_ms": until_ms}
        write_json(path, {**asked, "task_id": self.task_id})

    def _not_taken(self, context: Context, answer: Answer) -> str:
        """Return why a person's yes is not taken, "" if it is."""
        digest = steps.canary_digest(params_of(context))
        if not digest or answer.get("chosen_options") != [self.APPROVE]:
            return ""  # there is nothing to approve any more, or nothing is approved
        return answers.names_another(answer, digest)


def _record_answer(context: Context, answer: Answer) -> None:
    """Add the answer to the file of the question: pages list it as open until then."""
    from kafkats.plans.files import read_json, write_json

    path = folder_of(context) / CANARY_QUESTION
    if path.exists():  # earlier versions wrote none
        said = {"option": answer["chosen_options"][0], "by": answers.name_in(answer)}
        write_json(path, {**read_json(path), **said, "answered_ms": clock.now_ms()})


def _asked_until(context: Context) -> int | None:
    """Return the deadline of the question, epoch ms; None for a question of an earlier version."""
    from kafkats.plans.files import read_json

    path = folder_of(context) / CANARY_QUESTION
    until = read_json(path).get("until_ms") if path.exists() else None
    return until if isinstance(until, int) else None
