"""The question about a DAG run's plans and its answer, as files in the run's folder.

question.json    for each option the digests that it allows, the plans, and the time of the question
approval.json    the answer (kafkats.plans.approval); `apply` writes nothing unless it allows the
                 digest

They are files because whoever may use Airflow's API can change XComs and the states of tasks.
A new question removes the old answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from airflow.providers.common.compat.sdk import Context

from kafkats import clock
from kafkats.errors import Changed, CorruptPlan, KafkatsError, Refused, UsageError
from kafkats_airflow import deployment
from kafkats_airflow.approvals.questions import plain
from kafkats_airflow.approvals.stakes import UNDO, on_disk
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.results import Answer, PlanName, PlanResult, User
from kafkats_airflow.runs.folders import folder_of
from kafkats_airflow.runs.started import Started, started_of
from kafkats_airflow.runs.volumes import labels_of

if TYPE_CHECKING:
    from airflow.sdk.execution_time.hitl import HITLUser

    from kafkats.logdir.strict_json import Json
    from kafkats.plans.rows import Totals

NOBODY: Final = "nobody"
DIGEST: Final = "digest"
"""The name of the field of an answer that says what was shown."""
SHORTEST_DIGEST: Final = 8


class AskedPlan(PlanName):
    """A plan in question.json. `operation` and `on_disk` are those of stakes.Stake."""

    totals: Totals
    operation: str
    on_disk: int | None


class Asked(TypedDict):
    """question.json. `default` is the option that counts without an answer.

    `digest` is that of the only plan, or of all digests together. Only those in `assigned` may
    answer; everybody may if it is empty. `told` are the notifiers that were called.
    """

    options: dict[str, list[str]]
    plans: list[AskedPlan]
    digest: str
    default: str
    assigned: list[User]
    told: list[str]
    task_id: str
    asked_ms: int
    until_ms: int
    dag_id: str
    run_id: str
    started: Started


def approval_of(context: Context) -> Path:
    """Return the file that records the answer."""
    return folder_of(context) / "approval.json"


def forget(context: Context) -> None:
    """Remove the earlier question and its answer: the plan may be another one now."""
    for name in ("approval.json", "question.json"):
        (folder_of(context) / name).unlink(missing_ok=True)


def ask(
    context: Context,
    task_id: str,
    options: Mapping[str, Sequence[PlanResult]],
    timeout_ms: int,
    *,
    default: str,
    assigned: Iterable[HITLUser] = (),
    told: Sequence[str] = (),
) -> Asked:
    """Write the question: the plans that each option allows to be applied. Return it."""
    from kafkats.plans.files import make_folder, write_json

    path, now_ms = folder_of(context) / "question.json", clock.now_ms()
    make_folder(path.parent, "the question")
    every = {plan["digest"]: plan for plans in options.values() for plan in plans}
    digests = {option: digests_of(plans) for option, plans in options.items()}
    asked: Asked = {
        "options": digests,
        "plans": [
            {
                "plan": one["plan"],
                "digest": one["digest"],
                "totals": one["totals"],
                "log_dirs": _labels(context, one),
                "operation": (operation := _operation(context, one)),
                "on_disk": None if one.get("undo") or not operation else on_disk(Path(one["plan"])),
            }
            for one in every.values()
        ],
        "digest": joined(chain.from_iterable(digests.values())),
        "default": default,
        "assigned": [{"id": user["id"], "name": user["name"]} for user in assigned],
        "told": list(told),
        "task_id": task_id,
        "asked_ms": now_ms,
        "until_ms": now_ms + timeout_ms,
        "dag_id": context["dag"].dag_id,
        "run_id": context["run_id"],
        "started": started_of(
            context, [one for plan in every.values() for one in _labels(context, plan)]
        ),
    }
    write_json(path, {**asked, "started": asked["started"].model_dump(mode="json")})
    return asked


def _labels(context: Context, plan: PlanResult) -> list[str]:
    labels = labels_of(params_of(context), Path(plan["plan"]))
    return [labels.get(log_dir, log_dir) for log_dir in plan["log_dirs"]]


def _operation(context: Context, plan: PlanResult) -> str:
    """Return the operation of a plan, the verb of end_run for RUNs, "" for an unreadable plan."""
    from kafkats.plans.files import read_json

    if plan.get("undo"):
        return str(params_of(context).get("verb", UNDO))
    with suppress(KafkatsError):
        return str(read_json(Path(plan["plan"], "plan.json")).get("operation") or "")
    return ""


def joined(digests: Iterable[str]) -> str:
    """Return the only digest, else the sha256 of all of them, sorted, one per line."""
    every = sorted(set(digests))
    return every[0] if len(every) == 1 else hashlib.sha256("\n".join(every).encode()).hexdigest()


def not_taken(context: Context, event: Answer) -> str:
    """Return why a person's answer is not taken, "" if it is.

    An answer that lets something be applied has to name the digest of the question, or its first
    digits. A no needs no digest. Questions of earlier versions have none.
    """
    if "error" in event:
        return ""
    asked, option = _question(context), event["chosen_options"][0]
    options, wanted = asked.get("options"), asked.get(DIGEST)
    if not isinstance(wanted, str) or not isinstance(options, dict) or not options.get(option):
        return ""
    return names_another(event, wanted)


def names_another(event: Answer, wanted: str) -> str:
    """Return why a person's answer is not one to the digest `wanted`, "" if it is; also if nobody
    has answered.
    """
    if "error" in event or not event.get("responded_by_user"):
        return ""
    shown = str((event.get("params_input") or {}).get(DIGEST) or "").strip().lower()
    if len(shown) >= SHORTEST_DIGEST and wanted.startswith(shown):
        return ""
    named = f"plan {plain(shown[:16])}" if shown else "no plan"
    return (
        f"{event['chosen_options'][0]!r} by {plain(name_in(event))} is not taken: it names {named},"
        f" and the question is about {wanted[:16]}. The question stays open; answer it again with"
        " the digest that its page gives"
    )


def until_ms(context: Context) -> int:
    """Return the deadline of the question, epoch ms; now for one that has none."""
    until = _question(context).get("until_ms")
    return until if isinstance(until, int) else clock.now_ms()


def _question(context: Context) -> dict[str, Json]:
    from kafkats.plans.files import read_json

    path = folder_of(context) / "question.json"
    return read_json(path) if path.exists() else {}


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
        raise Refused("an answer without its question; clear the task to ask again", path=path)
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
            f"the plan that was made had digest {plan['digest'][:16]}; clear the run to make a new"
            " plan",
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
    approval = Approval(option, tuple(digests), by, why, clock.now_ms())
    write_approval(approval_of(context), approval, **more, **_where(context))


def _where(context: Context) -> dict[str, str]:
    return {"dag_id": context["dag"].dag_id, "run_id": context["run_id"]}
