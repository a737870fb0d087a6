"""A person's yes to a plan's digest, asked for when the run wants it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from airflow.providers.common.compat.sdk import Context
from airflow.providers.standard.operators.hitl import ApprovalOperator

BODY: Final = """\
| volumes | files to write | bytes | blocked | not repaired | digest | plan |
|---|---|---|---|---|---|---|
{% for one in ti.xcom_pull(task_ids='changes') | map(attribute='plan') -%}
| {{ one.log_dirs | join(', ') }} | {{ one.totals.files }} | {{ one.totals.write_bytes }} | {{ one.totals.blocked }} \
| {% for word, count in one.totals.not_repaired.items() if count %}{{ count }} {{ word }} {% endfor %}| `{{ one.digest[:16] }}` | `{{ one.plan }}` |
{% endfor %}

`kafkats show PLAN` says which bytes, and why.
"""


class PlanApproval(ApprovalOperator):
    """Waits for a person when the run's param `need_approval` is true; otherwise approves by itself.

    No answer within `response_timeout` is a no.
    """

    def __init__(self, *, response_timeout: timedelta = timedelta(days=1), **kwargs: Any) -> None:
        kwargs.setdefault("body", BODY)
        super().__init__(defaults=self.REJECT, response_timeout=response_timeout, **kwargs)

    def execute(self, context: Context) -> Any:
        if context["params"]["need_approval"]:
            return super().execute(context)
        self.log.info("approved: this run does not ask for approval")
        return {"chosen_options": [self.APPROVE], "params_input": {}}

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        # A no ends this task before its result is kept; the report wants to know.
        context["ti"].xcom_push("answer", event.get("chosen_options"))
        return super().execute_complete(context, event)
