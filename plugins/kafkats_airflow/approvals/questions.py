"""The text of a question to an approver, as Markdown.

Built in Python when the question is asked. Airflow's templates are not used: they would also render
what params, run ids and file names contain, and such a template can read the connections'
passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from airflow.sdk import Context

from kafkats.counts import counted, size_text
from kafkats.errors import KafkatsError
from kafkats.operations import OPERATIONS
from kafkats.recovery.words import UNMARKED
from kafkats.text import of_row
from kafkats_airflow.approvals.recorded import KEEP_STOPPED, STOP, Question
from kafkats_airflow.approvals.stakes import size_now
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.forms.wording import in_form
from kafkats_airflow.links import page_of
from kafkats_airflow.results import PlanResult

if TYPE_CHECKING:
    from kafkats.plans.rows import Item
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


FIRST: Final = 10
"""Rows of a question; its page has all of them."""
_COLUMNS: Final = ("log_dir", "partition_dir", "file", "action", "reason", "before", "after_bytes")
_HEAD: Final = ("partition", "file", "action", "reason", "bytes before", "bytes after")


def body(context: Context, text: str, shown: Sequence[PlanResult], asked: Question) -> str:
    """Return the body of a question, as Markdown. `text` says what is asked."""
    parts = (
        _answers(asked),
        _where(asked),
        _before(asked),
        text,
        _rows(shown, asked),
        _ending(context, asked),
    )
    return "\n\n".join(parts)


def _where(asked: Question) -> str:
    """Name the log directories with their brokers."""
    brokers = asked.started.volumes
    log_dirs = sorted({one for plan in asked.plans for one in plan.log_dirs})
    named = [
        f"{code(one)}{f' of broker {code(brokers[one])}' if one in brokers else ''}"
        for one in log_dirs[:FIRST]
    ]
    more = f", and {len(log_dirs) - FIRST} more" if len(log_dirs) > FIRST else ""
    return f"Log directories: {', '.join(named)}{more}."


def _before(asked: Question) -> str:
    """Say what a person has to know before a yes: brokers, danger, undo."""
    lines = ["Before a yes:", ""]
    if asked.stops_brokers():
        lines.append(f"- {STOP}.")
    if kinds := asked.danger():
        lines.append(f"- DANGER was found when it was planned: {_counted(kinds)}. {KEEP_STOPPED}.")
    if asked.stops_brokers() and not asked.tells_danger():
        of = " of every plan" if kinds else ""
        lines.append(f"- Danger on the disk{of} is not known: no look that can be read tells it.")
    return "\n".join([*lines, f"- Can it be undone? {asked.undoable().capitalize()}."])


def _answers(asked: Question) -> str:
    """List what each answer does, by verb, files and bytes."""
    return "\n".join(f"- {code(option)}: {asked.does(option)}." for option in asked.options)


def _rows(shown: Sequence[PlanResult], asked: Question) -> str:
    if runs := [run for plan in shown for run in plan.get("undo", ())]:
        rest = [f"- and {len(runs) - FIRST} more"] if len(runs) > FIRST else []
        return "\n".join(["RUNs:\n", *(f"- {code(run)}" for run in runs[:FIRST]), *rest])
    files = sum(plan["totals"]["files"] for plan in shown)
    operations = {one.digest: one.operation for one in asked.plans}
    try:
        items = (one for plan in shown for one in _items(plan, operations[plan["digest"]]))
        rows = [_row(item) for item in islice(items, FIRST)]
    except KafkatsError as e:
        return f"The rows cannot be shown: {code(e)}"
    more = f"\n\nand more: {counted(files, 'file')} in all." if files > len(rows) else ""
    return f"First rows:\n\n{table(_HEAD, rows)}{more}"


def _items(plan: PlanResult, operation: str) -> Iterator[Item]:
    """Yield the rows of a plan that change a file, without those that follow their segment's .log.

    Reads no more parts of a plan than are asked for. Raises CorruptPlan, also for rows that do not
    match their digest; StorageFailed.
    """
    from kafkats.plans.parts import listed_plan
    from kafkats.plans.rows import item_rows

    follows = OPERATIONS[operation].leaves_out if operation in OPERATIONS else None
    for piece in listed_plan(Path(plan["plan"])).pieces():
        for batch in piece.items.select(_COLUMNS).to_batches(1024):
            for item in item_rows(batch):
                if item["action"] != "blocked" and not (follows and follows(item["file"])):
                    yield item


def _row(item: Item) -> list[str]:
    before, after = item["before"], item["after_bytes"]
    gone = item["action"] == "remove"
    size = before["size"] if before else None
    if item["action"] == "update":
        size = size_now(Path(item["log_dir"], item["partition_dir"], item["file"]))
    return [
        code(item["log_dir"] if item["partition_dir"] in {"", "."} else item["partition_dir"]),
        code(item["file"]),
        item["action"],
        code(in_form(of_row(item["reason"]))),
        "no file" if size is None else "not seen from here" if size < 0 else size_text(size),
        "gone" if gone else size_text(after) if after >= 0 else "known when it is built",
    ]


def _ending(context: Context, asked: Question) -> str:
    until = datetime.fromtimestamp(asked.until_ms / 1000, UTC)
    allows = asked.options.get(asked.default, [])
    then = "what it allows is applied" if allows else "nothing is written"
    who = ", ".join(code(one.name or one.id) for one in asked.assigned)
    may = who or "everybody who may edit the runs of this DAG"
    page = page_of("plan", context["dag"].dag_id, context["run_id"])
    return (
        f"Without an answer until {until:%Y-%m-%d %H:%M} UTC, {code(asked.default)} counts:"
        f" {then}. Who may answer: {may}. [Every row of this plan]({page}). An answer counts only"
        f" for digest {code(asked.digest[:16])}."
    )
