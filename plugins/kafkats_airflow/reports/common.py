"""The report of one DAG run: what its applications wrote, put together in one folder.

report.json         what was found, done and proved, in numbers, and where the plans and runs are
overview.json       the same per log directory, for pages (kafkats_airflow.reports.overview)
segments.parquet    kafkats.plans.facts.SEGMENTS before the change, one row per segment
after.parquet       the same for the segments that were changed, after it
actions.parquet     kafkats.plans.facts.ACTIONS, one row per file
health.parquet      kafkats.rebuild.health.HEALTH, one row per partition: the worst finding of each
                    segment, for pages
health.png          time-index health, partitions x segments, before and after (rebuild)

A migration's folder has its own pages: kafkats_airflow.reports.migration.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Sized,
)
from itertools import chain
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    NamedTuple,
    TypeAlias,
    TypedDict,
    TypeVar,
    cast,
)

from airflow.sdk import Asset, Context

from kafkats.counts import counted
from kafkats.operations import OPERATIONS
from kafkats.plans.operation import Operation
from kafkats_airflow import checks
from kafkats_airflow.approvals.stakes import on_disk
from kafkats_airflow.failing import UNFINISHED, Ended, failures, in_our_words, unfinished
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.reports import failed as failed_reports
from kafkats_airflow.reports import overview, unreachable
from kafkats_airflow.reports.failed import with_report
from kafkats_airflow.results import (
    Arguments,
    FormatResult,
    JobResult,
    PlanResult,
    Rates,
    Reserved,
)
from kafkats_airflow.runs import tries
from kafkats_airflow.runs.folders import folder_of
from kafkats_airflow.runs.overview import Volume

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.plans.facts import Summary
    from kafkats.plans.rows import Totals

R = TypeVar("R")
T = TypeVar("T")
Plans: TypeAlias = Sequence[PlanResult]
Results: TypeAlias = Sequence[JobResult]

PARTITION = ("log_dir", "partition_dir")
SEGMENT = ("log_dir", "partition_dir", "base_offset")
"""The columns of facts.SEGMENTS that name a segment."""
MOST_DRAWN: Final = 1_000_000
"""Segments of the largest picture of index health."""
UNSAFE = "DANGER is left"
"""Something that no rebuild repairs, and with which a broker must not be started."""


class ReportedPlan(TypedDict):
    """A plan in report.json. `on_disk` is that of stakes.Stake; earlier versions lack it."""

    plan: str
    digest: str
    totals: Totals
    on_disk: int | None


class Common(tries.TryFields):
    """The fields of report.json that every run with plans has."""

    volumes: list[str]
    plans: list[ReportedPlan]
    reserved: list[Reserved]
    files_planned: int
    files_blocked: int
    rates: dict[str, list[Rates]]


class Remarked(Ended):
    """The fields of report.json that every run has."""

    remarks: list[str]


class OperationReport(Common, Remarked):
    """report.json of one operation."""

    seen: Summary
    files_proved_equal: int


class Stages(TypedDict):
    """The results of the tasks that ran jobs (`finished`)."""

    plan: Plans
    apply: Results
    verify: Results


def finished(stages: T) -> T:
    """Return the XComs of tasks by name, [] for None: tasks that failed or were skipped."""
    results: Mapping[str, Sequence[object] | None] = cast("Any", stages)
    return cast("T", {name: list(found or ()) for name, found in results.items()})


def begin(context: Context, asked: Sequence[object] | None, looks: Sized) -> Path:
    """Return the folder of a run, in which its report can be written now.

    `asked` are its applications, None if their task failed; `looks` are the results of their plans.
    Raises the failure of a run without any plan, after a report that has no figures; UsageError,
    StorageFailed.
    """
    if not looks and (asked is None or asked):
        raise unfinished(failed_reports.write(context, failures(context)))
    folder = folder_of(context)
    checks.writable(folder)
    overview.labels_in(context, folder)
    return folder


@in_our_words
@with_report
def report(
    context: Context,
    operation: str,
    asked: Sequence[Arguments] | None,
    stages: Stages,
    asset: Asset | None = None,
    picture: Callable[[Path, Change], None] | None = None,
) -> OperationReport:
    """Write the report of a run of one operation, and the asset's event. Fails if the run must not
    count as a success.

    `picture` draws the segments before and after the change into the report's folder.
    """
    stages = finished(stages)
    plans, params = stages["plan"], params_of(context)
    folder = begin(context, asked, plans)
    whole = len(plans) == len(asked or [])
    change = write_report_tables(folder, plans)
    content: OperationReport = {
        "outcome": outcome(folder, params, operation, plans) if whole else UNFINISHED,
        "failures": [*failures(context), *unreachable.causes(plans)],
        "remarks": remarks_of(params["topics"], plans, change.topics),
        **common(folder, plans, stages),
        "seen": change.seen,
        "files_proved_equal": tries.fields_of(folder)["files_proved"],
        "report": str(folder),
    }
    if picture is not None:
        picture(folder, change)
    seen = change.at_the_end(SEGMENT)
    volumes = overview.volumes_of(content["volumes"], seen, looks=plans, params=params)
    close(context, content, volumes, asset)
    return content


class Change(NamedTuple):
    """The segments of a report: before the run, and those of changed partitions after it.

    They are in files, and are read some at a time. `seen` and `topics` are of those before.
    """

    before: Path
    after: Path
    seen: Summary
    topics: Collection[str]

    def at_the_end(self, keys: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the segments at the end of the run: those after it in place of rows with the same
        keys.
        """
        from kafkats.plans.facts import SEGMENTS, read_in_pieces, read_near
        from kafkats.plans.rows import partitions_of

        for rows in read_in_pieces(self.before, SEGMENTS):
            changed = read_near(self.after, SEGMENTS, partitions_of(rows))
            yield overview.not_in(rows, changed, keys)
        yield from read_in_pieces(self.after, SEGMENTS)

    def near(self, rows: pa.Table, keys: Sequence[str]) -> pa.Table:
        """Return the segments at the end of the run in the partitions that have these rows, as
        `at_the_end`.
        """
        from kafkats.plans.facts import SEGMENTS, read_near
        from kafkats.plans.rows import partitions_of

        places = partitions_of(rows)
        before, after = (
            overview.still_there(read_near(path, SEGMENTS, places), rows, PARTITION)
            for path in (self.before, self.after)
        )
        return overview.at_the_end(before, after, keys)


def write_report_tables(
    folder: Path, plans: Plans, *undone: Path, keys: Sequence[str] = SEGMENT
) -> Change:
    """Write the tables of a report; its actions are also those of the `undone` RUNs. `keys`: as in
    `write_health`.
    """
    from kafkats.plans.facts import ACTIONS, SEGMENTS, Summed

    seen, topics = Summed(), set[str]()

    def before() -> Iterator[pa.Table]:
        for rows in segments_of(plan["seen"]["report"] for plan in plans):
            seen.add(rows)
            topics.update(rows["topic"].unique().to_pylist())
            yield rows

    paths = folder / "segments.parquet", folder / "after.parquet"
    write_rows(paths[0], before(), SEGMENTS)
    write_rows(paths[1], after_of(folder), SEGMENTS)
    write_rows(folder / "actions.parquet", actions_of(folder, *undone), ACTIONS)
    change = Change(*paths, seen.summary, topics)
    write_health(folder, change, keys)
    return change


def write_health(folder: Path, change: Change, keys: Sequence[str] = SEGMENT) -> None:
    """Write what pages draw of the segments. A page reads a byte per segment.

    `keys` are those by which the segments after the run stand for those before it: PARTITION if it
    may have deleted segments.
    """
    import pyarrow as pa

    from kafkats.plans.facts import SEGMENTS, read_in_pieces, table_writer
    from kafkats.plans.rows import PartitionKey, partitions_of, whole_partitions
    from kafkats.rebuild.health import FILE, HEALTH, health_of, health_rows, kinds_in

    counts = {"before": Counter[str](), "now": Counter[str]()}
    none, known = health_of(SEGMENTS.empty_table()), set[PartitionKey]()
    with table_writer(folder / FILE, HEALTH) as writer:
        for before in whole_partitions(read_in_pieces(change.before, SEGMENTS)):
            now = change.near(before, keys)
            writer.write_table(health_rows(health_of(before), health_of(now)))
            for at, rows in (("before", before), ("now", now)):
                counts[at].update(kinds_in(rows))
            known |= partitions_of(before)
        for after in whole_partitions(read_in_pieces(change.after, SEGMENTS)):
            where = zip(*(after[name].to_pylist() for name in PARTITION), strict=True)
            new = after.filter(pa.array([one not in known for one in where], pa.bool_()))
            writer.write_table(health_rows(none, health_of(new)))
            counts["now"].update(kinds_in(new))
        told = {"kinds": json.dumps(counts), "keys": json.dumps(keys)}
        writer.add_key_value_metadata(told)


def write_rows(path: Path, pieces: Iterable[pa.Table], schema: pa.Schema) -> None:
    """Write a table of a report, whose rows come in pieces."""
    from kafkats.plans.facts import write_tables

    write_tables(path, chain((schema.empty_table(),), pieces))


def outcome(folder: Path, params: RunParams, operation: str, plans: Plans) -> str:
    """Return how this run ended, in words. A final UNFINISHED or UNSAFE marks a failure."""
    left = {
        word: sum(plan["totals"].get("not_repaired", {}).get(word, 0) for plan in plans)
        for word in ("danger", "damage")
    }
    of, todo = OPERATIONS[operation], any(plan["totals"]["files"] for plan in plans)
    words = ended(folder, of, plans) if plans else UNFINISHED
    if plans and params["dry_run"]:
        words = "dry run" if todo else of.nothing
    if left["damage"] and words != UNFINISHED:
        words += f", damage not repaired: {counted(left['damage'], 'finding')}"
    if words != UNFINISHED:
        words += left_out(plans)
    return f"{words}, {UNSAFE}" if left["danger"] else words


def ended(folder: Path, operation: Operation, plans: Plans, left: str = "") -> str:
    """Return how the tries of a run ended, in words. `left` follows what is done or not needed."""
    words = {
        "nothing": f"{operation.nothing}{left}",
        "proved": f"{operation.done} and proved{left}",
        "rejected": "rejected",
    }
    return words.get(tries.ending(folder, plans, rejected=tries.rejected(folder)), UNFINISHED)


def health(folder: Path, change: Change) -> None:
    """Draw the health of the time indexes before and after a rebuild; nothing of more segments than
    a picture can show.
    """
    from kafkats.plans.facts import SEGMENTS, read_table
    from kafkats.rebuild.plot import plot_health

    if change.seen["segments"] > MOST_DRAWN:
        return
    panels = {"before": read_table(change.before, SEGMENTS)}
    if rows_in(change.after):
        panels["after"] = concat([*change.at_the_end(SEGMENT)], SEGMENTS)
    plot_health(panels, folder / "health.png")


def remarks_of(topics: str, plans: Plans, seen: Iterable[str]) -> list[str]:
    """Return the remarks of every run with plans: no topic was there, reservations of others.

    `seen` are the topics of what was looked at.
    """
    return [*no_topic(topics, seen), *of_reservations(plans)] if plans else []


def no_topic(glob: str, seen: Iterable[str]) -> list[str]:
    """The remark that nothing was there to look at; `seen` are the topics of what was."""
    return [] if any(seen) else nothing(glob)


def nothing(glob: str) -> list[str]:
    """The remark itself."""
    what = (
        f"no topic on these volumes comes under {glob!r}"
        if glob != "*"
        else "there is no topic on these volumes"
    )
    return [f"{what}: nothing was looked at"]


def of_reservations(plans: Plans) -> list[str]:
    """The remarks of the plans on their log directories: taken over, left out, or held by a broker
    while nothing is written.
    """
    return [remark for plan in plans for remark in plan.get("reservation_remarks", ())]


def close(
    context: Context,
    content: Mapping[str, Any],
    volumes: Iterable[Volume] = (),
    asset: Asset | None = None,
    *more: str,
    left: str = UNSAFE,
    about: Iterable[str] = (),
) -> None:
    """Write report.json and overview.json, log the remarks, and write the asset's event, with
    `more` fields of the report. `about`: as in `overview.write`.

    Raises for an outcome that ends with UNFINISHED or with `left`.
    """
    failed = content["outcome"].endswith((UNFINISHED, left))
    overview.write(context, content, volumes, failed=failed, about=about)
    for remark in content.get("remarks", ()):
        logging.getLogger(__name__).warning("remark: %s", remark)
    if asset is not None:
        told = ("volumes", "outcome", "report", *more)
        context["outlet_events"][asset].extra = {name: content[name] for name in told}
    if failed:
        raise unfinished(content)


def left_out(plans: Plans) -> str:
    """For an outcome: which volumes the plans left to another run or person; "" where they left
    none. It ends with UNFINISHED if volumes could not be read.
    """
    skipped = [one for plan in plans for one in plan.get("reserved", ())]
    dead = unreachable.words(plans)
    if not skipped:
        return dead
    holders = ", ".join(dict.fromkeys(str(one["holder"]) for one in skipped))
    return f", {counted(len(skipped), 'volume')} left out: reserved by {holders}{dead}"


def common(folder: Path, plans: Plans, stages: Mapping[str, Any]) -> Common:
    """Return the fields of every report: the plans of the last try, the RUNs of all tries, and the
    speed of each stage. A check of parity has no rates.
    """
    return {
        "volumes": sorted(one for plan in plans for one in log_dirs_of(plan, plan["plan"])),
        "plans": [
            {
                "plan": plan["plan"],
                "digest": plan["digest"],
                "totals": plan["totals"],
                "on_disk": None if plan.get("undo") else on_disk(Path(plan["plan"])),
            }
            for plan in plans
        ],
        "reserved": [one for plan in plans for one in plan.get("reserved", ())],
        **tries.fields_of(folder),
        "files_planned": sum(plan["totals"]["files"] for plan in plans),
        "files_blocked": sum(plan["totals"]["blocked"] for plan in plans),
        "rates": {
            stage: [result["rates"] for result in results if "rates" in result]
            for stage, results in stages.items()
        },
    }


def actions_of(folder: Path, *more: Path) -> Iterator[pa.Table]:
    """Yield every file that a try touched or was refused, facts.ACTIONS in pieces; also of `more`
    RUNs.
    """
    from kafkats.plans.facts import ACTIONS

    runs = [*more, *(one.run for one in tries.tries_of(folder))]
    reports = (path for run in runs if (path := run / "report.parquet").exists())
    return pieces_of(reports, ACTIONS, later=("kind",))


def after_of(folder: Path) -> Iterator[pa.Table]:
    """Yield the segments that the last proof of each application has seen, facts.SEGMENTS in
    pieces.
    """
    return segments_of(seen.parent for seen in sorted(folder.glob("*/after/segments.parquet")))


def segments_of(folders: Iterable[str | Path]) -> Iterator[pa.Table]:
    """Yield the segments of several reports, facts.SEGMENTS in pieces."""
    from kafkats.plans.facts import SEGMENTS

    return pieces_of((Path(folder) / "segments.parquet" for folder in folders), SEGMENTS)


def pieces_of(
    paths: Iterable[Path], schema: pa.Schema, *, later: Sequence[str] = ()
) -> Iterator[pa.Table]:
    """Yield the rows of `rows_of` in pieces; `later` as in `read_in_pieces`."""
    from kafkats.plans.facts import read_in_pieces

    for path in paths:
        for rows in read_in_pieces(path, schema, later=later):
            yield overview.labelled(rows, path.parent)


def rows_of(paths: Iterable[Path], schema: pa.Schema) -> pa.Table:
    """Return the tables of several applications as one: files in folders of their folders."""
    from kafkats.plans.facts import read_table

    return concat(
        [overview.labelled(read_table(path, schema), path.parent) for path in paths], schema
    )


def rows_in(path: Path) -> int:
    """Return the number of rows of a table."""
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def log_dirs_of(one: FormatResult, place: str) -> list[str]:
    """Return the labels of a result's log directories; `place` lies in its application's folder."""
    labels = overview.labels_at(Path(place))
    return [labels.get(log_dir, log_dir) for log_dir in one["log_dirs"]]


def part_of(row: type[R], content: Mapping[str, object]) -> R:
    """Return the fields of `content` that a TypedDict has."""
    return cast("R", {name: content[name] for name in row.__annotations__ if name in content})


def concat(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """All of them as one table, also when there is none."""
    import pyarrow as pa

    return pa.concat_tables(tables) if tables else schema.empty_table()
