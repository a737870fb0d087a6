"""The Spark applications of a run, with the requests of their jobs.

There is one application per connection. Volumes that differ in `owner_stopped` or
`work_area` get separate applications. So do volumes of different brokers, in DAGs that handle one
broker at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from airflow.sdk import Context

from kafkats.config.option import Declared, Parsed, declared
from kafkats.errors import UsageError
from kafkats.request import models_of
from kafkats_airflow import checks
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.catalogue import declared_in, form_of
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.results import Arguments, Asked, PlanResult, Work
from kafkats_airflow.runs.folders import folder_of
from kafkats_airflow.runs.moment import time_of
from kafkats_airflow.runs.tries import work_of
from kafkats_airflow.runs.volumes import Group, groups_of, listed

Given: TypeAlias = dict[str, dict[str, Any]]
"""The fields of options that are given, by model."""
START: Final = "start"
"""The folder of a report of preflight, in the folder of its broker."""


@in_our_words
def planning(context: Context, operation: str) -> list[Arguments]:
    """Return arguments of PlanJobOperator, one dict per application. The form of the operation
    (kafkats_airflow.forms.catalogue) has the options. Raises as `groups_of`.
    """
    params = params_of(context)
    checks.writable(params["folder"])
    options = options_of(operation, params)
    return of_groups(groups_of(params), lambda group: to_plan(context, group, operation, options))


def of_groups(groups: Iterable[Group], request: Callable[[Group], Asked]) -> list[Arguments]:
    """Return arguments of KafkatsJobOperator, one dict per application, with its request."""
    return [{"conn_id": group.connection, "request": request(group)} for group in groups]


def to_plan(context: Context, group: Group, operation: str, options: Given) -> Asked:
    """Return the fields of a request to plan for the volumes of a group."""
    folder = str(folder_of(context) / group.name)
    # People are asked about what can be done; question and report name what is blocked.
    places = {"PlanFolder": {"into": folder, "report": f"{folder}/before", "go_on": True}}
    return {
        "operation": operation,
        "log_dirs": group.log_dirs,
        "options": {**options, **places, **work_area(group.work_area)},
    }


def work_area(place: str) -> Given:
    """Return the option for a work area, none for ""."""
    return {"WorkArea": {"place": place}} if place else {}


@in_our_words
def starting(context: Context) -> list[Arguments]:
    """Return arguments of the job preflight, one dict per broker; [] if no release is given.

    Raises as `groups_of`.
    """
    params = params_of(context)
    kafka = (params.get("kafka") or "").strip()
    if not kafka:
        return []
    folder = folder_of(context)

    def request(group: Group) -> Asked:
        report = {"report": str(folder / group.name / START)}
        options: Given = {"Preflight": {"kafka": kafka, "go_on": True}, "Report": report}
        return {"log_dirs": group.log_dirs, "options": options}

    return of_groups(groups_of(params, by_broker=True, writes=False), request)


def options_of(operation: str, params: RunParams, form: str = "") -> Given:
    """Return the options of `plan` and an operation as the form gives them; empty boxes give none.

    `form` is that of another operation. Raises UsageError.
    """
    boxes = declared_in(form_of(form or operation))
    found: Given = {}
    for model in models_of("plan", operation):
        for one in declared(model):
            if (box := boxes.get(one.param)) and box.option == one.option:
                # A run that was made before the form had the option takes what it begins with.
                value = params.get(one.param, one.option.initial)
                if not (value is None or value is False or value in ("", [])):
                    given = _read(one, one.param, value)
                    found.setdefault(model.__name__, {})[one.name] = given
    return found


def _read(one: Declared, name: str, value: object) -> object:
    """Return the value of an option as requests have it. Raises UsageError."""
    if one.kind.base is Path and not Path(str(value)).is_absolute():
        raise UsageError(f"{name}: {value!r} does not begin with /: workers have no such folder")
    if isinstance(one.kind.text, Parsed) and isinstance(value, str):
        if one.kind.text.format == "date-time":
            return one.kind.text.parse(time_of(value, name).isoformat())
        return checks.amount(one.kind.text.parse, value, name)
    return listed(value) if isinstance(value, list) else value


@in_our_words
def changing(
    context: Context, planning: Sequence[Arguments], plans: Sequence[PlanResult]
) -> list[Work]:
    """Return the Work of each application (kafkats_airflow.runs.tries); nothing for a dry run."""
    params = params_of(context)
    if params["dry_run"]:
        return []
    proof: Given = {"Topics": {"topics": params["topics"]}}
    if "rule" in params:
        proof["IndexSettings"] = {"rule": params["rule"]}
    found = [
        work_of(asked["conn_id"], plan, proof, writes=bool(plan["totals"]["files"]))
        for asked, plan in zip(planning, plans, strict=True)
    ]
    return [work for work in found if work]
