"""One phase of a format migration: which brokers, and the requests of their jobs, from the gate to
the ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from airflow.sdk import Context

from kafkats.counts import counted
from kafkats.errors import NotEqual, UsageError
from kafkats_airflow import checks
from kafkats_airflow.airflow_versions import AirflowSkipException
from kafkats_airflow.failing import in_our_words
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.jobs.applications import Given, options_of, to_plan
from kafkats_airflow.results import (
    Arguments,
    Asked,
    FormatResult,
    Parity,
    PhaseApplication,
    PhaseWork,
    PlanResult,
)
from kafkats_airflow.runs import steps
from kafkats_airflow.runs.folders import folder_of, run_of
from kafkats_airflow.runs.steps import CENSUS, Results
from kafkats_airflow.runs.tries import name_of, tries_in, unproved
from kafkats_airflow.runs.volumes import Group, groups_of


@in_our_words
def gate(context: Context) -> list[PhaseApplication]:
    """Return the applications of the brokers that may do the phase now; empty if there are none.

    Fails when the ledger does not allow this phase now, and for params that contradict each other.
    """
    params = params_of(context)
    checks.writable(params["folder"])
    groups = groups_of(params, by_broker=True)
    if params["phase"] == CENSUS or params["dry_run"]:
        return [_asked(context, group, idle=True) for group in groups]
    every = groups_of({**params, "volumes": []}, by_broker=True)
    known = [group.broker for group in every]
    if not all(known):
        raise UsageError(
            "a migration goes broker by broker: every volume of the policy needs its broker's name"
        )
    if twice := sorted({broker for broker in known if known.count(broker) > 1}):
        raise UsageError(
            f"broker {twice[0]}: all of its volumes are one run, so need the same connection,"
            " owner_stopped and work_area"
        )
    chosen = steps.let_in(params, sorted({group.broker for group in groups}), known, _by(context))
    brokers = steps.begun(params).brokers
    # The whole broker, whichever of its volumes was asked for by path: phases are states of
    # brokers.
    whole = [(group, brokers[group.broker].status) for group in every if group.broker in chosen]
    return [
        _asked(context, group, idle=status in {"verified", "approved"}) for group, status in whole
    ]


def _asked(context: Context, group: Group, *, idle: bool) -> PhaseApplication:
    params, folder = params_of(context), folder_of(context) / group.name
    if params["phase"] == CENSUS:
        job, options = CENSUS, {"Census": {"by": "topic"}}
        options["Report"] = {"report": str(folder / "before")}
        request: Asked = {"log_dirs": group.log_dirs, "options": options}
    else:
        job = "plan"
        request = to_plan(context, group, "migrate", _options(params, group, folder))
    return {
        "broker": group.broker,
        "log_dirs": group.log_dirs,
        "folder": str(folder),
        "idle": idle,
        "look": {
            "job": job,
            "conn_id": group.connection,
            "about": f"{group.broker} on {group.connection}" if group.broker else group.connection,
            "request": request,
        },
    }


def _options(params: RunParams, group: Group, folder: Path) -> Given:
    phase = params["phase"]
    magic = params["to_magic"] if phase in steps.UP else params["from_magic"]
    options = options_of("migrate", {**params, "ledger": None})
    options["Migrate"] |= {"to_magic": magic}
    if phase == "phase-1":
        options["Back"] = {"only_newer": True, "certificate_folder": str(folder / "certificate")}
    if not params["dry_run"]:
        ledger = str(steps.ledger_of(params))
        options["Step"] = {"ledger": ledger, "phase": phase, "broker": group.broker}
        if phase == "rollback" and (runs := steps.standing_runs(params, group.broker)):
            options["Back"] = {"runs": runs}
    return options


@in_our_words
def changing(
    context: Context, asked: Sequence[PhaseApplication], looked: Sequence[PlanResult]
) -> list[PhaseWork]:
    """Return the work of each application; nothing for a dry run, and where there is only to be
    looked.
    """
    params = params_of(context)
    if params["dry_run"] or params["phase"] == CENSUS:
        return []
    return [
        _work(params, one, plan)
        for one, plan in zip(asked, looked, strict=True)
        if not plan.get("unreachable")  # the ledger records whole brokers
    ]


def to_look(asked: PhaseApplication) -> Arguments:
    """Return the arguments of `look`."""
    return asked["look"]


def to_convert(work: PhaseWork) -> Arguments:
    """Return the arguments of `convert`; skip a broker that has nothing to convert."""
    if not (given := work["convert"]):
        raise AirflowSkipException("no need to convert")
    return given


def to_certify(work: PhaseWork) -> Arguments:
    """Return the arguments of `certify`, with all RUNs that are not proved yet; skip a broker that
    is certified.
    """
    if not (given := work["certify"]):
        raise AirflowSkipException("no need to certify")
    if "request" not in given:  # the job refuses what an earlier version made
        return given
    proof = {"ProofOptions": {"of_run": unproved(Path(work["folder"]))}}
    request = given["request"]
    return {**given, "request": {**request, "options": request["options"] | proof}}


def _work(params: RunParams, one: PhaseApplication, plan: PlanResult) -> PhaseWork:
    folder, up = Path(one["folder"]), params["phase"] in steps.UP
    bound = {"min_magic": params["to_magic"]} if up else {"max_magic": params["from_magic"]}
    out = {**bound, "output": str(folder / "certificate"), "report": str(folder / "after")}
    where: Arguments = {"conn_id": one["look"]["conn_id"], "about": one["look"]["about"]}
    convert: Arguments | None = None
    proof: Given = {"Certify": out, "IndexSettings": {"rule": params["rule"]}}
    asked: Asked = {"log_dirs": one["log_dirs"], "options": proof}
    certify: Arguments | None = {**where, "job": "certify", "request": asked}
    if runs := plan.get("undo"):
        after = {"UndoCertify": {"certified": one["log_dirs"], **out}}
        convert = {**where, "job": "undo", "request": {"runs": runs, "options": after}}
        certify = None
    elif plan["totals"]["files"] or (
        up and not one["idle"]
    ):  # a broker with nothing to convert passes the phase, too
        convert = {**where, "job": "apply", "plan": name_of(plan)}
    elif plan.get("certificate") and not tries_in(folder):
        certify = None
    return {
        "broker": one["broker"],
        "folder": str(folder),
        "plan": plan,
        "convert": convert,
        "certify": certify,
    }


@in_our_words
def parity(_: Context, work: Sequence[PhaseWork]) -> list[Parity]:
    """Return the parity of old and new logs that the conversions of all tries report.

    Fails when there is a log of which it does not say that.
    """
    from kafkats.plans.run import WROTE

    found = []
    for one in work:
        converts = one["convert"] and one["convert"]["job"] == "apply"
        last = run_of(one["plan"]) if converts else None
        runs = [
            each.run
            for each in tries_in(Path(one["folder"]))
            if not each.undone and each.run != last
        ]
        earlier = [run for run in runs if (run / "report.parquet").exists()]
        found += [_proved(one["broker"], run, WROTE) for run in earlier]
        found += [_proved(one["broker"], last)] if last else []
    return found


def _proved(broker: str, run: Path, outcomes: Collection[str] = ()) -> Parity:
    """Return the parity of the logs with these outcomes; of all logs without any."""
    from kafkats.plans.run import read_actions

    rows = read_actions(run).to_pylist()
    logs = [
        row
        for row in rows
        if row["file"].endswith(".log") and (not outcomes or row["outcome"] in outcomes)
    ]
    wrong = [
        row
        for row in logs
        if not row["parity_before"] or row["parity_before"] != row["parity_after"]
    ]
    if wrong:
        where = f"{wrong[0]['partition_dir']}/{wrong[0]['file']}"
        raise NotEqual(
            f"not proved to hold the same records: {counted(len(wrong), 'log')}, first {where}",
            path=run,
        )
    before, after = (_digest(row[f"parity_{side}"] for row in logs) for side in ("before", "after"))
    return {
        "broker": broker,
        "run": str(run),
        "logs": len(logs),
        "records": sum(row["records"] for row in logs),
        "before": before,
        "after": after,
    }


def _digest(digests: Iterable[str]) -> str:
    return hashlib.sha256("".join(digests).encode()).hexdigest()


@in_our_words
def record(
    context: Context,
    work: Sequence[PhaseWork],
    converted: Results | None,
    certified: Results | None,
) -> steps.BrokerRows:
    """Tell the ledger what was verified and certified; return the state of each broker."""
    params, results = params_of(context), [*(converted or []), *(certified or [])]
    found: dict[str, FormatResult] = {
        one["certificate"]: one for one in results if one.get("certificate")
    }
    planned = [one["plan"] for one in work if one["plan"].get("certificate")]
    found |= {plan["certificate"]: plan for plan in planned}
    for broker in dict.fromkeys(one["broker"] for one in work):
        own = [one for one in work if one["broker"] == broker]
        runs = [name for one in own for name in _runs(one)]
        certificates = [found.get(str(Path(one["folder"], "certificate"))) for one in own]
        steps.record(params, broker, runs, certificates, _by(context))
    return steps.rows(params)


def _runs(one: PhaseWork) -> list[str]:
    """Names of the RUNs of all tries, or of the one that was undone."""
    if one["plan"].get("undo"):
        return [run_of(one["plan"]).name]
    return [each.run.name for each in tries_in(Path(one["folder"])) if not each.undone]


def _by(context: Context) -> str:
    return f"airflow {context['run_id']}"
