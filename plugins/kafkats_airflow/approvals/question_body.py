"""The body of a question about plans: totals, first rows, deadline, link and digest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from airflow.providers.common.compat.sdk import Context

from kafkats.counts import counted, size_text
from kafkats.errors import CorruptPlan, KafkatsError, storage
from kafkats.operations import OPERATIONS
from kafkats_airflow.airflow_words import in_airflow
from kafkats_airflow.approvals.questions import code, table
from kafkats_airflow.approvals.stakes import Stake, together
from kafkats_airflow.links import page_of
from kafkats_airflow.results import PlanResult

if TYPE_CHECKING:
    from kafkats.plans.rows import Item
    from kafkats_airflow.approvals.answers import Asked

FIRST: Final = 10
"""Rows of a question; its page has all of them."""
_COLUMNS: Final = ("log_dir", "partition_dir", "file", "action", "reason", "before", "after_bytes")
_HEAD: Final = ("partition", "file", "action", "reason", "bytes before", "bytes after")


def body(context: Context, text: str, shown: Sequence[PlanResult], asked: Asked) -> str:
    """Return the body of a question, as Markdown. `text` says what is asked."""
    parts = (_answers(asked), _where(asked), text, _rows(shown), _ending(context, asked))
    return "\n\n".join(parts)


def _where(asked: Asked) -> str:
    """Name the log directories with their brokers."""
    brokers = asked["started"].volumes
    log_dirs = sorted({one for plan in asked["plans"] for one in plan["log_dirs"]})
    named = [
        f"{code(one)}{f' of broker {code(brokers[one])}' if one in brokers else ''}"
        for one in log_dirs[:FIRST]
    ]
    more = f", and {len(log_dirs) - FIRST} more" if len(log_dirs) > FIRST else ""
    return f"Log directories: {', '.join(named)}{more}."


def _answers(asked: Asked) -> str:
    """List what each answer does, by verb, files and bytes."""
    by_digest = {plan["digest"]: plan for plan in asked["plans"]}
    lines = []
    for option, digests in asked["options"].items():
        plans = [by_digest[one] for one in digests if one in by_digest]
        plans = plans or (asked["plans"] if digests else [])  # digests of RUNs name no plan
        does = together([
            Stake(one["plan"], one["operation"], one["totals"], one["on_disk"]) for one in plans
        ])
        lines.append(f"- {code(option)}: {does or 'nothing is written'}.")
    return "\n".join(lines)


def _rows(shown: Sequence[PlanResult]) -> str:
    if runs := [run for plan in shown for run in plan.get("undo", ())]:
        rest = [f"- and {len(runs) - FIRST} more"] if len(runs) > FIRST else []
        return "\n".join(["RUNs:\n", *(f"- {code(run)}" for run in runs[:FIRST]), *rest])
    files = sum(plan["totals"]["files"] for plan in shown)
    try:
        rows = [
            _row(item) for item in islice((one for plan in shown for one in _items(plan)), FIRST)
        ]
    except KafkatsError as e:
        return f"The rows cannot be shown: {code(e)}"
    more = f"\n\nand more: {counted(files, 'file')} in all." if files > len(rows) else ""
    return f"First rows:\n\n{table(_HEAD, rows)}{more}"


def _items(plan: PlanResult) -> Iterator[Item]:
    """Yield the rows of a plan that change a file, without those that follow their segment's .log.

    Reads no more of the table than is asked for. Raises CorruptPlan, StorageFailed.
    """
    import pyarrow as pa
    from pyarrow import parquet

    from kafkats.plans.rows import item_rows

    path = Path(plan["plan"], "items.parquet")
    follows = OPERATIONS[_operation(plan)].leaves_out if _operation(plan) in OPERATIONS else None
    try:
        with storage(path, "reading"), path.open("rb") as file:
            for batch in parquet.ParquetFile(file).iter_batches(1024, columns=list(_COLUMNS)):
                for item in item_rows(pa.Table.from_batches([batch])):
                    if item["action"] != "blocked" and not (follows and follows(item["file"])):
                        yield item
    except (pa.ArrowException, KeyError) as e:
        raise CorruptPlan(f"not a readable table: {e}", path=path) from e


def _operation(plan: PlanResult) -> str:
    from kafkats.plans.files import read_json

    return str(read_json(Path(plan["plan"], "plan.json")).get("operation"))


def _row(item: Item) -> list[str]:
    before, after = item["before"], item["after_bytes"]
    gone = item["action"] == "remove"
    return [
        code(item["log_dir"] if item["partition_dir"] in {"", "."} else item["partition_dir"]),
        code(item["file"]),
        item["action"],
        code(in_airflow(item["reason"])),
        size_text(before["size"]) if before else "no file",
        "gone" if gone else size_text(after) if after >= 0 else "known when it is built",
    ]


def _ending(context: Context, asked: Asked) -> str:
    until = datetime.fromtimestamp(asked["until_ms"] / 1000, UTC)
    allows = asked["options"].get(asked["default"], [])
    then = "what it allows is applied" if allows else "nothing is written"
    who = ", ".join(code(one.get("name") or one["id"]) for one in asked["assigned"])
    may = who or "everybody who may edit the runs of this DAG"
    page = page_of("plan", context["dag"].dag_id, context["run_id"])
    return (
        f"Without an answer until {until:%Y-%m-%d %H:%M} UTC, {code(asked['default'])} counts:"
        f" {then}. Who may answer: {may}. [Every row of this plan]({page}). An answer counts only"
        f" for digest {code(asked['digest'][:16])}."
    )
