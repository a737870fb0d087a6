"""The report of one phase of a migration, put together in one folder.

report.json           outcome, brokers as they stand now, bytes by magic before and after, losses,
                      parity, certificates
segments.parquet      kafkats.plans.facts.SEGMENTS before the change, one row per segment
after.parquet         the same for the segments that were changed, after it
forecast.parquet      kafkats.migration.forecast.FORECAST, one row per segment: what was promised
actions.parquet       kafkats.plans.facts.ACTIONS, one row per file: what was done, with both parity
                      digests of each log
census.parquet        kafkats.migration.census.CENSUS as it is at the end
census-before.parquet the same before the change
overview.json         in numbers per log directory, for pages (kafkats_airflow.reports.overview)
zero-copy.json        per topic the bytes that brokers of 0.10 to 3.9 convert for old fetches, at
                      the end
formats.png           share of bytes by magic, per volume and topic, at the end; formats-before.png
                      before the change
burn-down.png         bytes by magic over all runs that have their reports beside this one; also as
                      burn-down.json
forecast.png          sizes and times, promised and real
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from airflow.sdk import Asset, Context

from kafkats import clock
from kafkats.counts import counted
from kafkats_airflow import failing
from kafkats_airflow.failing import UNFINISHED
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.reports import common, overview, unreachable
from kafkats_airflow.reports.burn_down import write_burn_down
from kafkats_airflow.reports.failed import with_report
from kafkats_airflow.results import Parity, PhaseApplication, PhaseWork, PlanResult
from kafkats_airflow.runs import steps, tries
from kafkats_airflow.runs.steps import CENSUS, LostZeroCopy, Results, Summary

if TYPE_CHECKING:
    import pyarrow as pa


class Stages(TypedDict):
    """The results of the tasks (`common.finished`)."""

    look: Sequence[PlanResult]
    convert: Results
    parity: Sequence[Parity]
    certify: Results


class MigrationReport(common.Common, common.Remarked):
    """report.json of a migration's phase."""

    times_ms: list[int]
    phase: str
    brokers: steps.BrokerRows
    ledger: str
    magic_bytes: dict[str, list[int]]
    parity: list[Parity]
    loses_zero_copy: list[LostZeroCopy]
    certificates: list[str]
    statements: list[str]


@failing.in_our_words
@with_report
def report(
    context: Context,
    asset: Asset,
    asked: Sequence[PhaseApplication] | None,
    brokers: steps.BrokerRows | None,
    stages: Stages,
) -> Summary:
    """The last word on a run, and the asset's event; fails when the run must not count as a
    success.

    Any of the rest may be None: what comes of tasks that failed or were skipped.
    """
    from kafkats.migration.plot import magic_bytes

    params, began = params_of(context), context["dag_run"].start_date
    # There is no edge from `changes`: it skips what follows, and a report is always due.
    work: Sequence[PhaseWork] = context["ti"].xcom_pull(task_ids="changes") or []
    stages, now_ms = common.finished(stages), clock.now_ms()
    looked = stages["look"]
    folder = common.begin(context, asked, looked)
    no = tries.rejected(folder) and tries.ending(folder, (), rejected=True) == "rejected"
    plans = [one for one in looked if "plan" in one]
    ended = [one for one in [*stages["convert"], *stages["certify"]] if "census" in one]
    before, after = _censuses(looked), _censuses(ended)
    now = overview.at_the_end(before, after, ("log_dir",))
    undone = [Path(plan["plan"]) for plan in plans if "undo" in plan]
    end = outcome(params, asked, stages, work, brokers, rejected=no)
    if not end.endswith(UNFINISHED):
        end += unreachable.words(looked)
    content: MigrationReport = {
        "times_ms": [int(began.timestamp() * 1000) if began else now_ms, now_ms],
        "outcome": end,
        "failures": [*failing.failures(context), *unreachable.causes(looked, "look")],
        "remarks": common.remarks_of("*", looked, before["topic"].unique().to_pylist()),
        "phase": params["phase"],
        **common.common(folder, plans, stages),
        "runs": [*map(str, undone), *tries.fields_of(folder)["runs"]],
        "volumes": sorted(
            log_dir
            for one in looked
            for log_dir in common.log_dirs_of(one, one["census"]["report"])
        ),
        "brokers": steps.rows(params),
        "ledger": str(steps.ledger_of(params)),
        "magic_bytes": {"before": magic_bytes(before), "after": magic_bytes(now)},
        "parity": list(stages["parity"]),
        "loses_zero_copy": _fetchers(params),
        "certificates": [one["certificate"] for one in [*looked, *ended] if one.get("certificate")],
        "statements": [one["statement"] for one in [*looked, *ended] if one.get("statement")],
        "report": str(folder),
    }
    seen: Iterable[pa.Table] | None = None
    if looked:
        change = common.write_report_tables(
            folder, [plan for plan in plans if "seen" in plan], *undone
        )
        _write_tables(folder, plans, before, now)
        seen = change.at_the_end(common.SEGMENT) if plans else None
    census = now if now.num_rows else None
    volumes = overview.volumes_of(
        content["volumes"], seen, census=census, looks=looked, params=params
    )
    try:
        common.close(context, content, volumes, asset, "phase")
    finally:  # it shows this report, too, also that of a run that failed
        if looked:
            write_burn_down(folder, Path(params["folder"]))
    return common.part_of(Summary, content)


def outcome(
    params: RunParams,
    asked: Sequence[PhaseApplication] | None,
    stages: Stages,
    work: Sequence[PhaseWork],
    brokers: steps.BrokerRows | None,
    *,
    rejected: bool,
) -> str:
    """Return how the phase ended, in words. They end with UNFINISHED if it is no success.

    `brokers` is what `migration.record` returned, None if it did not run.
    """
    looked = stages["look"]
    if asked is None or len(looked) != len(asked):
        return UNFINISHED
    if params["phase"] == CENSUS or params["dry_run"]:
        return "census" if params["phase"] == CENSUS else "dry run"
    if not asked:
        return "no broker is left for this phase"
    if rejected:
        return "rejected"
    if brokers is None:
        return UNFINISHED
    results: Results = [*looked, *stages["convert"], *stages["certify"]]
    certified = sum(bool(one.get("certificate")) for one in results)
    left = "" if certified >= len(work) else ", not certified"
    if blocked := sum(one["plan"]["totals"]["blocked"] for one in work):
        left += f", {counted(blocked, 'segment')} left as before"
    statuses = {str(row["broker"]): str(row["status"]) for row in brokers}
    return _ending(params["phase"], work, statuses, left)


def _ending(phase: str, work: Sequence[PhaseWork], brokers: Mapping[str, str], left: str) -> str:
    statuses = {brokers[one["broker"]] for one in work}
    if phase in steps.UP:
        return f"converted and proved{left}" if statuses <= {"verified", "approved"} else UNFINISHED
    if phase == "phase-1":
        return (
            "certified"
            if statuses <= {"certified"}
            else f"disks of magic above the old one{left}, {UNFINISHED}"
        )
    done = "undone" if all(one["plan"].get("undo") for one in work) else "converted back"
    return f"{done}{left}" if statuses <= {"certified", "rolled-back"} else UNFINISHED


def _write_tables(folder: Path, plans: common.Plans, before: pa.Table, now: pa.Table) -> None:
    """Write the tables of a report that only a migration has, and the pictures.

    `before` and `now` are censuses.
    """
    from kafkats.migration.census import zero_copy
    from kafkats.migration.forecast import FORECAST
    from kafkats.migration.plot import plot_forecast, plot_formats
    from kafkats.plans.facts import ACTIONS, read_in_pieces, write_table
    from kafkats.plans.files import write_json

    forecast, actions = folder / "forecast.parquet", folder / "actions.parquet"
    converting = (Path(plan["plan"]) for plan in plans if "undo" not in plan)
    tables = (plan / "forecast.parquet" for plan in converting)
    common.write_rows(forecast, common.pieces_of(tables, FORECAST), FORECAST)
    write_table(folder / "census.parquet", now)
    write_table(folder / "census-before.parquet", before)
    write_json(folder / "zero-copy.json", {"topics": zero_copy(now)})
    plot_formats(before, folder / "formats-before.png")
    plot_formats(now, folder / "formats.png")
    rows = read_in_pieces(forecast, FORECAST), read_in_pieces(actions, ACTIONS)
    plot_forecast(*rows, folder / "forecast.png")


def _fetchers(params: RunParams) -> list[LostZeroCopy]:
    """Return the clients that a broker cannot serve from the file any more."""
    from kafkats.migration.phases import lose_zero_copy

    lose = lose_zero_copy(params["from_magic"], params["to_magic"])
    return [common.part_of(LostZeroCopy, who._asdict()) for who in lose]


def _censuses(results: Results) -> pa.Table:
    from kafkats.migration.census import CENSUS as SCHEMA

    return common.rows_of(
        (Path(one["census"]["report"]) / "census.parquet" for one in results), SCHEMA
    )
