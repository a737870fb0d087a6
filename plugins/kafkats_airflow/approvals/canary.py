"""The question to a person whether a canary does well, so that the other brokers may follow.

canary-question.json    in the run's folder: the digest of what was shown, the deadline, the answer

The digest is that of the ledger's last entry about the canary. A run that was cleared since has
converted, proved or certified it again: an answer to the earlier question is not taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context

from kafkats import clock
from kafkats_airflow import deployment
from kafkats_airflow.airflow_versions import AirflowSkipException
from kafkats_airflow.approvals import answers, questions
from kafkats_airflow.approvals.asking import DigestQuestion
from kafkats_airflow.approvals.recorded import CanaryQuestion
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.links import ResultsLink
from kafkats_airflow.results import Answer
from kafkats_airflow.runs import steps
from kafkats_airflow.runs.folders import CANARY_QUESTION, folder_of
from kafkats_airflow.settings import TIMEOUTS


class CanaryApproval(DigestQuestion, ApprovalOperator):
    """Asks whether a converted and verified canary does well; skipped in runs without one.

    A yes is written to the ledger. It counts only for the canary that was shown.
    """

    operator_extra_links = (ResultsLink(),)

    def __init__(
        self,
        *,
        subject: str = "May the other brokers follow this canary?",
        response_timeout: timedelta = TIMEOUTS.canary,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            subject=subject, defaults=self.REJECT, response_timeout=response_timeout, **kwargs
        )

    @in_our_words
    def execute(self, context: Context) -> Answer:
        digest = steps.canary_digest(params_of(context))
        if not digest:
            raise AirflowSkipException("this run has no canary to approve")
        self.assigned_users = deployment.assigned() or self.assigned_users
        if self.has_to_ask(context):
            self._record(context, digest)
            self.show(context, digest, questions.of_canary(context, digest))
            waiting: Answer = super().execute(context)
            return waiting
        steps.approve(params_of(context), f"airflow {context['run_id']}")
        return {"chosen_options": [self.APPROVE], "params_input": {}}

    @in_our_words
    def execute_complete(self, context: Context, event: dict[str, Any]) -> Answer:
        answer = answers.answer_in(event)
        deployment.check_responder(answer.get("responded_by_user"))
        asked = answers.question_of(context, CANARY_QUESTION)
        if asked and (why := self._not_taken(context, answer)):
            self.go_on_waiting(context, why, answers.until_ms(asked))
        taken: Answer = super().execute_complete(context, event)
        if taken["chosen_options"] == [self.APPROVE]:
            by = answers.name_in(taken) or f"airflow {context['run_id']}"
            steps.approve(params_of(context), by)
        if asked:  # pages list it as open until then; earlier versions wrote none
            said = {"option": taken["chosen_options"][0], "by": answers.name_in(taken)}
            self._write(context, {**asked, **said, "answered_ms": clock.now_ms()})
        return taken

    def _record(self, context: Context, digest: str) -> None:
        now_ms = clock.now_ms()
        asked = CanaryQuestion(
            digest=digest,
            asked_ms=now_ms,
            until_ms=now_ms + self.timeout_ms,
            task_id=self.task_id,
        )
        self._write(context, asked.content())

    def _write(self, context: Context, content: Mapping[str, object]) -> None:
        from kafkats.plans.files import make_folder, write_json

        make_folder(folder := folder_of(context), "the question")
        write_json(folder / CANARY_QUESTION, content)

    def _not_taken(self, context: Context, answer: Answer) -> str:
        """Return why a person's yes is not taken, "" if it is."""
        digest = steps.canary_digest(params_of(context))
        if not digest or answer.get("chosen_options") != [self.APPROVE]:
            return ""  # there is nothing to approve any more, or nothing is approved
        return answers.names_another(answer, digest)
