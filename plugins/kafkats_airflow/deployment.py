"""A deployment in which triggering a DAG is not enough to write: KAFKATS_APPROVERS is set.

Without that setting whoever may trigger a DAG decides all: the params name the policy and the
folder, and say whether anybody is asked. With it, these are checked by every task and before every
submit, on the worker, whatever the params, XComs and states of tasks say:

* an Airflow in which everybody is an admin runs nothing
* policy and folder are those of the deployment; ledger and tables lie in that folder
* a plan is applied after the yes of an approver to its digest, and none is made or applied that
  goes over a guard
* a job has no words that the DAGs do not give it, reads and writes no path but the policy's volumes
  and the folder, and connects
  where the policy says
* old files stay for KAFKATS_UNDO_DAYS_FLOOR days
* who attests that brokers understand a format is the user who triggered the run
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow.configuration import conf
from airflow.providers.common.compat.sdk import Context

from kafkats.config import parse_duration
from kafkats.config.approvers import Approver
from kafkats.errors import Refused
from kafkats.operations import OPERATIONS
from kafkats_airflow import checks, settings
from kafkats_airflow.forms import declared_in, flag_of, form_of
from kafkats_airflow.results import User
from kafkats_airflow.run_params import RunParams, params_of

if TYPE_CHECKING:
    from airflow.sdk.execution_time.hitl import HITLUser

DAY_MS: Final = 86_400_000
_FLAG, _TEXT, _PATH, _POLICY, _WINDOW, _AREA = "flag", "text", "path", "policy", "window", "area"


def _kind(base: type) -> str:
    return _FLAG if base is bool else _PATH if base is Path else _TEXT


WORDS: Final[Mapping[str, str]] = {
    **{flag_of(one): _kind(one.kind.base) for name in OPERATIONS
       for one in declared_in(form_of(name)).values() if one.option.flags},
    **dict.fromkeys(
        ("--only-after-unclean-stop", "--inside-segments", "--last-segment", "--only-newer",
         "--skip-reserved", "--go-on", "--owner-stopped"), _FLAG),
    **dict.fromkeys(
        ("--topics", "--generation", "--now", "--before", "--free", "--compression-type",
         "--to-magic", "--accept-loss", "--phase", "--where", "--latest", "--broker", "--reserve",
         "--reserve-until", "--take-over", "--digest", "--holder", "--min-magic",
         "--max-magic", "--every", "--from",
         "--until", "--depth", "--high-watermark", "--at", "--around", "--by", "--kafka"), _TEXT),
    **dict.fromkeys(
        ("--output", "--into", "--report", "--beyond-guard", "--certify", "--ledger", "--undo",
         "--run", "--approval", "--of-plan", "--of-run"), _PATH),
    "--policy": _POLICY,
    "--work-area": _AREA,
    "--older-than": _WINDOW,
}  # fmt: skip
"""Every option that a DAG gives to a job, and what its value is."""


def hardened() -> bool:
    """Return whether the deployment names approvers."""
    return settings.HARDENED


def check(context: Context) -> None:
    """The run's params. Raises Refused for what this deployment does not allow."""
    if not hardened():
        return
    _check_airflow()
    params = params_of(context)
    _check_fixed("policy", params.get("policy", settings.POLICY), settings.POLICY)
    _check_fixed("folder", params.get("folder", settings.FOLDER), settings.FOLDER)
    if ledger := params.get("ledger"):
        _inside(ledger, "ledger")
    if clients := params.get("clients"):
        _inside(clients, "clients")
    if tables := params.get("tables"):
        _inside(tables, "tables")
    days = params.get("undo_days", settings.FLOOR_DAYS)
    if days < settings.FLOOR_DAYS:
        raise Refused(
            f"undo_days: {days} is below {settings.FLOOR_DAYS}, the least of this deployment{_SET}"
        )
    if who := params.get("attested_by"):
        user = getattr(context["dag_run"], "triggering_user_name", None)
        if who != user:
            raise Refused(
                f"attested_by: {who!r} is not who triggered this run, {user or 'nobody'}: vouch"
                f" for it yourself{_SET}"
            )


def _check_fixed(name: str, given: str, fixed: str) -> None:
    if given != fixed:
        raise Refused(f"{name}: {given!r} is not this deployment's, which is {fixed}{_SET}")


def check_words(job: str, connection: str, words: Sequence[str], params: RunParams) -> None:
    """Raise Refused if the deployment does not allow these words of a job."""
    if not hardened():
        return
    volumes = checks.policy_of({**params, "policy": settings.POLICY}).volumes
    if connection not in {volume.connection for volume in volumes}:
        raise Refused(f"connection {connection!r} is none of the policy's{_SET}")
    known = {str(volume.path) for volume in volumes}
    areas = {str(volume.work_area) for volume in volumes if volume.work_area}
    for option, value in _read(job, words):
        kind = WORDS.get(option, _PATH)
        if kind == _POLICY and value != settings.POLICY:
            raise Refused(f"{job}: {option} {value!r} is not this deployment's policy{_SET}")
        if kind == _AREA and value not in areas:
            raise Refused(f"{job}: {option} {value!r} is none of the policy's{_SET}")
        if (
            kind == _WINDOW
            and checks.amount(parse_duration, value, option) < settings.FLOOR_DAYS * DAY_MS
        ):
            raise Refused(f"{job}: {option} {value} is less than {settings.FLOOR_DAYS} days{_SET}")
        if kind == _PATH and value not in known:
            _inside(value, f"{job}: {option or 'path'}")


def check_responder(user: User | None) -> None:
    """Raise Refused unless who answered is an approver; `user` is None if nobody did in time."""
    if not hardened() or user is None:
        return
    _check_airflow()
    answered = Approver(str(user.get("id") or ""), str(user.get("name") or ""))
    if answered not in settings.APPROVERS:
        raise Refused(
            f"{answered.name or answered.id!r} answered, who is not an approver; clear the task to"
            f" ask again{_SET}"
        )


def assigned() -> list[HITLUser] | None:
    """Return the people who are asked; None for everybody."""
    if not hardened():
        return None
    return [{"id": approver.id, "name": approver.name} for approver in settings.APPROVERS]


_SET: Final = " (KAFKATS_APPROVERS is set)"


def _check_airflow() -> None:
    manager = conf.get("core", "auth_manager", fallback="")
    if "SimpleAuthManager" in manager and conf.getboolean(
        "core", "simple_auth_manager_all_admins", fallback=False
    ):
        raise Refused(
            "in this Airflow everybody is an admin, so nobody can be told to be an approver; switch"
            f" simple_auth_manager_all_admins off{_SET}"
        )


def _read(job: str, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(option, value) of each word; the option is "" for a path on its own. Raises Refused for
    words that no DAG gives.
    """
    rest = list(words)
    if job == "plan" and (not rest or rest.pop(0) not in OPERATIONS):
        raise Refused(f"plan: {words[:1]} is not one of {', '.join(OPERATIONS)}{_SET}")
    needed = {"apply": "--approval", "undo": "--approval", "purge": "--older-than"}.get(job)
    if needed and needed not in rest:
        raise Refused(f"{job}: without {needed}{_SET}")
    if job == "purge" and "--now" in rest:
        raise Refused(f"purge: --now is no word that a DAG gives{_SET}")
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            yield "", word
        elif word not in WORDS:
            raise Refused(f"{job}: {word!r} is no word that a DAG gives{_SET}")
        elif WORDS[word] != _FLAG:
            if not rest:
                raise Refused(f"{job}: {word} without its value{_SET}")
            value = rest.pop(0)
            if (
                value.startswith("-") and not value[1:].isdecimal()
            ):  # an option, where the one before it needs no value
                raise Refused(f"{job}: {word} with the value {value!r}{_SET}")
            yield word, value


def _inside(path: str, name: str) -> None:
    """Raises Refused unless the path, with links followed, lies in the deployment's folder."""
    folder = Path(os.path.realpath(settings.FOLDER))
    if (
        not Path(path).is_absolute()
        or ".." in Path(path).parts
        or not Path(os.path.realpath(path)).is_relative_to(folder)
    ):
        raise Refused(
            f"{name} {path!r} is not in the folder of this deployment, {settings.FOLDER}{_SET}"
        )
