"""Makes docs/json.md from the rows and summaries that commands print with --json. With --check only compares.

python tools/json_page.py [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, NamedTuple, get_type_hints

import pyarrow as pa
from json_fields import ROWS, SUMMARY
from pages import write_or_compare

from kafkats.errors import Holder
from kafkats.flow.ending import ENDED
from kafkats.lookup.cluster_diff import BY_PARTITION, DIFF
from kafkats.lookup.lag import LAG
from kafkats.lookup.latency import LATENCY
from kafkats.lookup.marks import Mark
from kafkats.lookup.partitions import LOOKUP
from kafkats.migration import census
from kafkats.migration.recheck import Difference
from kafkats.operations import OPERATIONS
from kafkats.plans.depths import DepthTotals
from kafkats.plans.facts import ACTIONS, Summary
from kafkats.plans.rows import KeyRow, LocatedFinding, Totals
from kafkats.recovery.rows import STARTS
from kafkats.reserving.releasing import Released
from kafkats.result import Proved
from kafkats.retention.summary import SummaryRow, Sums
from kafkats.rolling.simulate import SIMULATED_NOW

ROOT: Final = Path(__file__).parents[1]
HEAD: Final = """\
# The fields of `--json`

For programs: every field that commands print with `--json`. Each line of the output is one object:
first the rows, then `{"summary": {...}}`. `--json` may also stand before the command. An error is no
object: it is on standard error. `dump` and `export --to json` print JSON without the option.

The exit code says how it ended: 0 fine; 1 findings, such as defects, blocked rows, or partitions
without an answer; 2 bad usage or bad input, or the work failed; 3 refused for safety; 130
interrupted; 141 the reader of the output has gone. `exit_code` in a row or a summary is the same
number. Jobs and Airflow get the summary, too ([requests](requests.md)).

Bytes, offsets and counts are whole numbers. Times are epoch milliseconds where the name ends in
`_ms` or is `timestamp`. `a.b` is the field `b` of the objects in `a`. -1 or null stands for none or
unknown. Names stay, and new ones are added ([compatibility](compatibility.md)): ignore those that
you do not know.

The page is made by `tools/json_page.py` from the models of the rows.
"""


class LedgerRow(NamedTuple):
    """A row of `ledger show`; kafkats.migration.phases makes it."""

    broker: str
    status: str
    phase: str
    at: str
    by: str
    runs: str
    next: str
    waits_for: str


class Page(NamedTuple):
    """The JSON of a command: a sentence about its rows, their models, the models of the summary.

    A model is a row (TypedDict, NamedTuple, dataclass, pydantic model), a schema, or names of fields,
    alone or with their types.
    """

    command: str
    rows: str
    row: tuple[Any, ...]
    summary: tuple[Any, ...]


TYPES: Final = {
    "text": "action depth codec digest error evidence file holder kafka_reason kafka log_dir note outcome partition_dir"
    " plan problem reason report run statement table target"
    " timestamp_type timestamp_utc topic why word worst certificate certificate_digest",
    "list": "runs missing append_time_topics error_kinds errors failed free log_dirs not_due not_equal other_logs released remarks"
    " reservation_remarks reserved reserves undo words magic_batches magic_bytes",
    "object": "beyond census clients proof seen totals outcomes problems",
    "yes or no": "clean active live holds unchanged certified breaks",
}
"""The types of fields that no model has; of any other field: number."""


def _held(name: str) -> tuple[Any, ...]:
    """Return the fields of a list of reservations."""
    return ((name, "list"), *(f"{name}.{one.name}" for one in fields(Holder)))


_PROOF: Final = ("proof", *(f"proof.{name}" for name in Proved.model_fields))
_OF_A_LOG_DIR: Final = (
    "log_dir", "outcome", "words", "live", "clean", "partitions", "missing", "recovered_segments", "recovered_bytes",
    "recovery_seconds",
)  # fmt: skip
_GROUP: Final = ("log_dir", "partition_dir", "topic", "base_offset")
_ENDS: Final = (
    "first_timestamp",
    "max_timestamp",
    "last_offset",
    "log_bytes",
    "index_bytes",
    "worst",
)
_OF_A_PLAN: Final = ("plan", "digest", "totals", "remarks")
_MADE: Final = (
    "log_dirs",
    "seen",
    "reservation_remarks",
    "holder",
    "reserved_until_ms",
    "reserves",
    *_held("reserved"),
)
_CERTIFIED: Final = (
    "certificate", "certificate_digest", "certified", "statement", "exceptions", "refusals", "min_magic", "max_magic",
)  # fmt: skip
_COUNTS: Final = (census.Summary, ("groups",))
_MORE: Final = {
    "rebuild": ("looked_bytes", "known_segments"),
    "migrate": ("census", "undo", "clients", *_CERTIFIED),
    "retain": (
        "now_ms",
        "before_ms",
        "over_guard",
        "beyond",
        "beyond.plan",
        "beyond.digest",
        "beyond.totals",
    ),
    "roll": ("now_ms",),
}
"""Fields of the summary of a plan that one operation has."""
_PLAN_ROW: Final = ("action", "log_dir", "partition_dir", "file", "after_bytes", "reason")
_SIMULATED: Final = ("segments", "simulated", "open_files", "simulated_open_files", "remarks")
_FORMATS: Final = (
    _GROUP, census.CELL, ("segments", "bytes", "share", "batches", "records"),
    tuple(name for name in census.CENSUS.names if name.endswith("_batches")),
    census.CONVERTED,
)  # fmt: skip
PAGES: Final = (
    Page("apply", "A row per file.", (ACTIONS,), (("files", "outcomes", "written_bytes", "errors", "error_kinds", "exit_code", "note", "remarks", *_PROOF, "partitions", "left_partitions", "run"),)),
    Page("census", "A row per format of a group; then a row per topic with bytes that brokers convert.", _FORMATS, (*_COUNTS, ("log_dirs", "census", "report"))),
    Page("certify", "A row per segment outside the bounds, or that could not be certified; with `--check` a row per difference.", (KeyRow, ("magic_batches", "magic_bytes", "kind", "reason"), Difference), ((*_CERTIFIED, "digest", "log_dirs", "census", "report", "seen", "runs", "holds", "unchanged", "differences"), Proved)),
    Page("diff", "A row per partition; with `--by time` a row per partition and time.", (BY_PARTITION, DIFF), (("partitions", "times", "both", "only_first", "only_second", "neither", "unreadable", "most_again"),)),
    Page("inventory", "A row per partition, topic or segment; with `--by format` as `census`.", (_GROUP, _ENDS, ("partitions", "segments", "log_start_offset", "timeindex_bytes", "active", "depth")), (Summary, ("groups",))),
    Page("lag", "A row per group and partition.", (LAG,), (("partitions", "untold", "most_ms"),)),
    Page("latency", "A row per partition and source.", (LATENCY,), (("append_time_ms", "mtime_ms", "unreadable"),)),
    Page("ledger show", "A row per broker.", (LedgerRow,), (("entries", "torn"),)),
    Page("lookup", "A row per partition and time, of log directories or of a TABLE.", (LOOKUP, Mark, ("target", "timestamp_utc")), (("partitions", "times", "differ", "unreadable", "above_high_watermark", "append_time_topics", "untold"),)),
    Page("lookup --every", "No rows.", (), (("table", "from_ms", "to_ms", "step_ms", "partitions", "added", "closed", "kept", "open", "unreadable", "above_high_watermark", "files", "bytes", "other_logs"),)),
    *(Page(f"plan {name}", "A row per file.", (_PLAN_ROW,), (Totals, _OF_A_PLAN, _MADE, _MORE.get(name, ()))) for name in OPERATIONS),
    Page("preflight", "A row per partition.", (STARTS,), (("kafka", "outcome", "words", "live", "partitions", "segments", "log_bytes", "recovered_segments", "recovered_bytes", "cut_bytes", "zero_bytes", "deleted_segments", "deleted_bytes", "lost_offsets", "behind_high_watermark", "set_aside", "partitions_with_loss", "replay_bytes", "told_epoch", "report", "log_dirs", *(f"log_dirs.{one}" for one in _OF_A_LOG_DIR)),)),
    Page("purge", "A row per directory.", (ENDED,), (("runs", "files", "freed_bytes", "errors", "not_due", "exit_code", "note"),)),
    Page("release", "A row per log directory.", (Released,), ((*_held("released"), *_held("kept"), "free", "failed", "exit_code"),)),
    Page("show", "A row per file of the plan.", (_PLAN_ROW,), (Totals, _OF_A_PLAN)),
    Page("simulate retain", "A row per partition.", (SummaryRow,), (Totals, Sums, ("remarks",))),
    Page("simulate roll", "A row per partition.", (SIMULATED_NOW,), (_SIMULATED,)),
    Page("undo", "A row per directory.", (ENDED,), (("runs", "files", "errors", "remarks", *_CERTIFIED, "census", "report", "log_dirs"),)),
    Page("verify", "A row per finding.", (LocatedFinding,), (Summary, DepthTotals, ("looked_bytes", "runs"), Proved)),
)  # fmt: skip


def fields_of(models: Iterable[Any]) -> dict[str, str]:
    """Return the fields of models, with their types."""
    return {name: kind for model in models for name, kind in _fields(model)}


def _fields(model: Any) -> Iterator[tuple[str, str]]:
    if isinstance(model, tuple):
        yield from (one if isinstance(one, tuple) else (one, _of_name(one)) for one in model)
    elif isinstance(model, pa.Schema):
        for field in model:
            yield from _of_field(field.name, field.type)
    else:
        yield from ((name, _of_hint(hint)) for name, hint in get_type_hints(model).items())


def _of_field(name: str, kind: pa.DataType) -> Iterator[tuple[str, str]]:
    """Yield a column, and the fields of the objects in it as `column.field`."""
    if pa.types.is_boolean(kind):
        yield name, "yes or no"
    elif pa.types.is_list(kind):
        yield name, "list"
        for inner in kind.value_type if pa.types.is_struct(kind.value_type) else ():
            yield from _of_field(f"{name}.{inner.name}", inner.type)
    else:
        yield name, "text" if pa.types.is_string(kind) else "number"


def _of_name(name: str) -> str:
    field = name.split(".")[-1]
    return next((kind for kind, names in TYPES.items() if field in names.split()), "number")


def _of_hint(hint: Any) -> str:
    said = str(hint)
    if said.startswith(("dict", "collections.abc.Mapping")):
        return "object"
    if "Sequence" in said or said.startswith(("list", "tuple")):
        return "list"
    words = {"bool": "yes or no", "str": "text", "Literal": "text"}
    return next((kind for word, kind in words.items() if word in said), "number")


def page() -> str:
    """Return the whole page. Raises KeyError for a field without a meaning."""
    return "\n".join([HEAD, *(line for one in PAGES for line in section(one))])


def section(one: Page) -> Iterator[str]:
    """Yield the lines of one command."""
    yield from (f"## {one.command}", "", one.rows, "")
    if one.row:
        yield from table(one.command, fields_of(one.row), ROWS)
    yield from ("The summary:", "")
    yield from table(one.command, fields_of(one.summary), SUMMARY)


def table(command: str, fields: dict[str, str], meanings: dict[str, str]) -> Iterator[str]:
    """Yield the table of some fields."""
    yield from ("| field | type | meaning |", "|---|---|---|")
    for name, kind in sorted(fields.items()):
        inner = name.split(".")[-1]
        meaning = meanings.get(f"{command} {name}") or meanings.get(name) or meanings[inner]
        yield f"| `{name}` | {kind} | {meaning} |"
    yield ""


def main() -> int:
    return write_or_compare(
        {ROOT / "docs" / "json.md": page()},
        "docs/json.md is not what the models say: run scripts/lint --fix",
    )


if __name__ == "__main__":
    sys.exit(main())
