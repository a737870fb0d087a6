"""The question about a DAG run's plans and its answer, as files in the run's folder.

question.json    for each option the digests that it allows, the plans, and the time of the question
approval.json    the answer (kafkats.plans.approval); `apply` writes nothing unless it allows the
                 digest

They are files because whoever may use Airflow's API can change XComs and the states of tasks.
A new question removes the old answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.common.compat.sdk import Context

from kafkats.errors import Changed, CorruptPlan, Refused, UsageError
from kafkats_airflow import deployment
from kafkats_airflow.folders import folder_of
from kafkats_airflow.results import Answer, PlanResult

if TYPE_CHECKING:
    from kafkats.logdir.strict_json import Json

NOBODY: Final = "nobody"


def approval_of(context: Context) -> Path:
    """Return the file that records the answer."""
    return folder_of(context) / "approval.json"


def forget(context: Context) -> None:
    """Remove the earlier question and its answer: the plan may be another one now."""
    for name in ("approval.json", "question.json"):
        (folder_of(context) / name).unlink(missing_ok=True)


def ask(context: Context, options: Mapping[str, Sequence[PlanResult]], timeout_ms: int) -> None:
    """Write the question: the plans that each option allows to be applied."""
    from kafkats.plans.files import make_folder, write_json

    path, now_ms = folder_of(context) / "question.json", _now_ms()
    make_folder(path.parent, "the question")
    every = {plan["digest"]: plan for plans in options.values() for plan in plans}
    write_json(
        path,
        {
            "options": {option: digests_of(plans) for option, plans in options.items()},
            "plans": [
                {
                    "plan": one["plan"],
                    "digest": one["digest"],
                    "totals": one["totals"],
                    "log_dirs": one["log_dirs"],
                }
                for one in every.values()
            ],
            "asked_ms": now_ms,
            "until_ms": now_ms + timeout_ms,
            **_where(context),
        },
    )


def answered(context: Context, event: Answer) -> None:
    """Record the answer in Airflow's `event` to the last question; record nothing if it is an
    error.

    Raises Refused if nobody was asked, or if the deployment names approvers and the responder is
    not one of them; CorruptPlan.
    """
    from kafkats.plans.files import read_json

    if "error" in event:
        return
    option, user = event["chosen_options"][0], event.get("responded_by_user")
    deployment.check_responder(user)
    path = folder_of(context) / "question.json"
    if not path.exists():
        raise Refused("an answer without its question; clear the task to ask anew", path=path)
    asked = read_json(path)
    options = asked.get("options")
    digests = _digests(options.get(option)) if isinstance(options, dict) else None
    if digests is None:
        raise CorruptPlan(f"the question did not offer {option!r}", path=path)
    by = name_in(event)
    why = f"answered by {by}" if by else "no answer in time: the default holds"
    _write(context, option, digests, by or NOBODY, why, asked)


def answer_in(event: Mapping[str, Any]) -> Answer:
    """Return Airflow's event as the answer that it is."""
    given: Any = event
    answer: Answer = given
    return answer


def name_in(answer: Answer) -> str:
    """Return the name of who answered, else the id; "" if nobody did."""
    user = answer.get("responded_by_user")
    return str(user.get("name") or user.get("id") or "") if user else ""


def not_asked(context: Context, option: str, plans: Sequence[PlanResult], why: str) -> None:
    """Record that these plans needed no question, and why."""
    _write(context, option, digests_of(plans), "", why)


def digests_of(plans: Iterable[PlanResult]) -> list[str]:
    """Return the digests that an approval of these plans covers: of the RUNs, if a plan undoes
    RUNs.
    """
    from kafkats.plans.run import read_run

    found = [
        digest
        for plan in plans
        for digest in (
            [read_run(Path(run)).digest for run in plan["undo"]]
            if plan.get("undo")
            else [plan["digest"]]
        )
    ]
    return sorted(set(found))


def from_disk(context: Context, plan: PlanResult) -> PlanResult:
    """Return the plan with totals and digest from its files: people see what would be applied.

    Raises Refused for a plan of another DAG run, Changed if its digest differs, CorruptPlan,
    StorageFailed.
    """
    from kafkats.plans.files import read_json
    from kafkats.plans.plan import is_header

    if plan.get("undo"):
        return plan  # the RUNs' own digests count
    folder = inside(context, Path(plan["plan"]))
    if not (folder / "plan.json").is_file():
        raise CorruptPlan("no plan here: plan.json is missing", path=folder)
    header = read_json(folder / "plan.json")
    if header.get("digest") != plan["digest"]:
        raise Changed(
            f"the plan that was made had digest {plan['digest'][:16]}; clear the run to plan anew",
            path=folder,
        )
    if not is_header(header):
        raise CorruptPlan("plan.json lacks operation, options or totals", path=folder)
    return {**plan, "totals": header["totals"]}


def inside(context: Context, path: Path) -> Path:
    """Return `path`. Raises Refused unless it lies in the DAG run's own folder."""
    folder = folder_of(context)
    if ".." in path.parts or not path.is_relative_to(folder) or path == folder:
        raise Refused(f"not a plan of this DAG run, whose folder is {folder}", path=path)
    return path


def _digests(value: Json) -> list[str] | None:
    """Return a list of texts, None for anything else."""
    texts = [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
    return texts if texts == value else None


def _write(
    context: Context,
    option: str,
    digests: Sequence[str],
    by: str,
    why: str,
    question: dict[str, Json] | None = None,
) -> None:
    from kafkats.plans.approval import Approval, write_approval

    for digest in digests:
        if not isinstance(digest, str):
            raise UsageError("a digest is a text", path=approval_of(context))
    more = {} if question is None else {"question": question}
    approval = Approval(option, tuple(digests), by, why, _now_ms())
    write_approval(approval_of(context), approval, **more, **_where(context))


def _where(context: Context) -> dict[str, str]:
    return {"dag_id": context["dag"].dag_id, "run_id": context["run_id"]}


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
