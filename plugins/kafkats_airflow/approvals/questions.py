"""The text of a question to an approver, as Markdown.

Built in Python when the question is asked. Airflow's templates are not used: they would also render
what params, run ids and file names contain, and such a template can read the connections'
passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

from airflow.providers.common.compat.sdk import Context

from kafkats.counts import counted, size_text
from kafkats.recovery.words import UNMARKED
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.links import page_of
from kafkats_airflow.results import PlanResult

if TYPE_CHECKING:
    from kafkats_airflow.runs.steps import Summary

Row: TypeAlias = Sequence[str]
Plans: TypeAlias = Sequence[PlanResult]
Counts: TypeAlias = Literal["not_repaired", "losses"]


def asked(question: str, context: Context) -> str:
    """The headline, which pages and messages show as plain text."""
    return f"{question} Run {plain(context['run_id'])}"


def of_rebuild(context: Context, plans: Plans) -> str:
    """The plans of a rebuild."""
    return _of_plans(plans, "not repaired", "not_repaired")


def of_plans(_: Context, plans: Plans) -> str:
    """The plans of any operation."""
    return _of_plans(plans)


def of_roll(context: Context, plans: Plans) -> str:
    """The plans to close active segments, or to split segments."""
    split = params_of(context).get("split", "no")
    splits = f"Segments are split: {code(split)}.\n\n" if split != "no" else ""
    return splits + of_plans(context, plans)


def of_migration(context: Context, plans: Plans) -> str:
    """The plans of one phase of a migration."""
    return f"Phase {code(params_of(context)['phase'])}.\n\n" + _of_plans(
        plans, "would be lost", "losses"
    )


def of_canary(context: Context, digest: str) -> str:
    """A canary that was converted and verified: may the others follow?"""
    report: Summary = context["ti"].xcom_pull(task_ids="report")
    who = report["loses_zero_copy"]
    page = page_of("run-migration", context["dag"].dag_id, context["run_id"])
    rows = [
        [f"fetch versions {code(one['versions'])}", f"{one['clients']}", f"{one['followers']}"]
        for one in who
    ]
    return "\n\n".join([
        f"{code(report['outcome'])}: {_codes(report['volumes'])}. [Numbers and pictures]({page}),"
        f" in {code(report['report'])}.",
        *([table(["lose zero-copy", "as clients", "as followers"], rows)] if rows else []),
        "Do this broker, its followers and its clients do well? A yes lets the other brokers"
        " follow. A no changes nothing, and they wait; so does no answer until the time is over. To"
        " restore the canary, trigger this DAG with `phase` rollback, its broker in `volumes`, and"
        " `dry_run` off.",
        f"A yes counts only for digest {code(digest[:16])}: the ledger's last entry on it.",
    ])


def of_guards(within: Plans, beyond: Plans, *, answers_itself: bool) -> str:
    """The plans that keep to the guards of the policy, and beside each the one that does not: the
    same where a guard keeps nothing.

    `answers_itself`: no answer lets go what is within the guards.
    """
    rows = []
    for one, more in zip(within, beyond, strict=True):
        shown = [one, more] if one["digest"] != more["digest"] else [one]
        rows.append([
            _codes(one["log_dirs"]),
            _amount(one["totals"]["segments"], one["totals"]["freed_bytes"]),
            _amount(_more(one, more, "segments"), _more(one, more, "freed_bytes")),
            ", ".join(code(plan["digest"][:16]) for plan in shown),
            ", ".join(code(plan["plan"]) for plan in shown),
        ])
    head = ["volumes", "segments, bytes within the guard", "over the guard", "digest", "plan"]
    end = (
        "the run deletes only what the guards allow"
        if answers_itself
        else "the run deletes nothing"
    )
    return f"{table(head, rows)}\n\nWithout an answer {end}."


def of_recover(context: Context, plans: Plans) -> str:
    """The plans of a recovery; what it loses, and what it leaves to the brokers."""
    totals = [plan["totals"] for plan in plans]
    dropped = sum(one["dropped_segments"] for one in totals)
    cut = sum(one["cut_bytes"] for one in totals)
    sentences = [f"{size_text(cut)} behind the last good batches are cut off."] if cut else []
    if dropped:
        sentences.append(
            f"LOST, as by Kafka's recovery: {counted(dropped, 'segment')} behind a corrupt one."
        )
    if markers := sum(one.get("markers_removed", 0) for one in totals):
        sentences.append(
            f"{counted(markers, 'clean-shutdown marker')} removed, as logs are cut below offsets"
            f" that files name: without it {UNMARKED}."
        )
    if blocked := sum(one["blocked"] for one in totals):
        sentences.append(
            f"NOT recovered: {counted(blocked, 'partition')}, left as they are, because a broker's"
            " start could lose data there: restore them from a replica first. Their reasons are on"
            " the page of the plan, action `blocked`."
        )
    return "\n\n".join([_of_plans(plans), *([" ".join(sentences)] if sentences else [])])


def of_ending(context: Context, plans: Plans) -> str:
    """The RUNs to undo or to purge."""
    params = params_of(context)
    files = sum(plan["totals"]["files"] for plan in plans)
    many = f" ({counted(files, 'file')})" if files else ""
    of = f"{code(params['of_run'])} of {code(params['of_dag'])}"
    if params["verb"] == "purge":
        return f"The old files of run {of} are deleted{many}; no undo after that."
    return f"Every file of run {of} is put back{many}."


def code(value: object) -> str:
    """`value` as a code span that shows it letter by letter: no Markdown, HTML or link in it acts,
    in a table neither.
    """
    text = plain(value).replace("|", "\\x7c")
    fence = "`" * (1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    space = (
        " " if not text.strip() or text.startswith(("`", " ")) or text.endswith(("`", " ")) else ""
    )
    return f"{fence}{space}{text}{space}{fence}"


def plain(value: object) -> str:
    """`value` in one line, with escapes in place of what a page would not show as it is."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(value))


def table(head: Row, rows: Iterable[Row]) -> str:
    """A Markdown table; the cells are Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in chain([head, ["---"] * len(head)], rows))


def _of_plans(plans: Plans, left: str = "", counts: Counts = "losses") -> str:
    """`left` heads the column of the totals' `counts`; without it there is none."""
    rows = []
    for plan in plans:
        totals = plan["totals"]
        rows.append([
            _codes(plan["log_dirs"]),
            f"{totals['files']}",
            size_text(totals["write_bytes"]),
            f"{totals['blocked']}",
            *([_counted(totals[counts]) or "nothing"] if left else []),
            code(plan["digest"][:16]),
            code(plan["plan"]),
        ])
    head = [
        "volumes",
        "files",
        "to write",
        "blocked",
        *([left] if left else []),
        "digest",
        "plan",
    ]
    return table(head, rows)


def _amount(segments: int, freed_bytes: int) -> str:
    return f"{segments}, {size_text(freed_bytes)}" if segments else "none"


def _more(one: PlanResult, other: PlanResult, total: Literal["segments", "freed_bytes"]) -> int:
    return int(other["totals"][total]) - int(one["totals"][total])


def _counted(counts: Mapping[str, int]) -> str:
    return " ".join(f"{count} {word}" for word, count in counts.items() if count)


def _codes(values: Iterable[object]) -> str:
    return ", ".join(code(value) for value in values)
