"""The report of one phase of a migration, put together in one folder.

report.json           outcome, brokers as they stand now, bytes by magic before and after, losses,
                      parity, certificates
segments.parquet      kafkats.plans.facts.SEGMENTS before the change, one row per segment
forecast.parquet      kafkats.migration.forecast.FORECAST, one row per segment: what was promised
actions.parquet       kafkats.plans.facts.ACTIONS, one row per file: what was done, with both parity
                      digests of each log
census.parquet        kafkats.migration.census.CENSUS as it is at the end
census-before.parquet the same before the change
zero-copy.json        per topic the bytes that brokers of 0.10 to 3.9 convert for old fetches, at
                      the end
formats.png           share of bytes by magic, per volume and topic, at the end; formats-before.png
                      before the change
burn-down.png         bytes by magic over all runs that have their reports beside this one
forecast.png          sizes and times, promised and real
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.common.compat.sdk import Asset, Context

from kafkats_airflow import checks, failing, reports, steps, tries
from kafkats_airflow.folders import folder_of
from kafkats_airflow.migration import CENSUS, Asked, Work
from kafkats_airflow.reports import UNFINISHED, Results


@failing.in_our_words
def report(
    context: Context, asset: Asset, asked: Any, brokers: Any, stages: Mapping[str, Any]
) -> dict[str, Any]:
    """The last word on a run, and the asset's event; fails when the run must not count as a
    success.

    Any of the rest may be None: what comes of tasks that failed or were skipped.
    """
    params, began = context["params"], context["dag_run"].start_date
    work = context["ti"].xcom_pull(
        task_ids="changes"
    )  # no edge: it skips what follows, and a report is always due
    given = {stage: list(results or []) for stage, results in stages.items()}
    asked = None if asked is None else list(asked)
    folder = folder_of(context)
    no = tries.rejected(folder) and tries.ending(folder, (), rejected=True) == "rejected"
    end = outcome(params, asked, given, list(work or []), brokers, rejected=no)
    now_ms = time.time_ns() // 1_000_000
    times_ms = int(began.timestamp() * 1000) if began else now_ms, now_ms
    said = write_report(
        params, folder, given, outcome=end, times_ms=times_ms, failures=failing.failures(context)
    )
    reports.log_remarks(said)
    context["outlet_events"][asset].extra = {
        key: said[key] for key in ("volumes", "phase", "outcome", "report")
    }
    if end.endswith(UNFINISHED):
        raise failing.unfinished(end, said)
    told = (
        "outcome",
        "phase",
        "volumes",
        "runs",
        "magic_bytes",
        "loses_zero_copy",
        "certificates",
        "report",
    )
    return {key: said[key] for key in told}


def outcome(
    params: Mapping[str, Any],
    asked: Sequence[Asked] | None,
    stages: Mapping[str, Results],
    work: Sequence[Work],
    brokers: Results | None,
    *,
    rejected: bool,
) -> str:
    """How the phase ended, in words; with UNFINISHED at their end when it must not count as a
    success.

    `brokers` is what `migration.record` said, None when it did not come to that.
    """
    if asked is None or len(stages["look"]) != len(asked):
        return UNFINISHED
    if params["phase"] == CENSUS or params["dry_run"]:
        return "census" if params["phase"] == CENSUS else "dry run"
    if not asked:
        return "no broker is left for this phase"
    if rejected:
        return "rejected"
    if brokers is None:
        return UNFINISHED
    certified = sum(
        bool(one.get("certificate"))
        for stage in ("look", "convert", "certify")
        for one in stages[stage]
    )
    left = "" if certified >= len(work) else ", not certified"
    if blocked := sum(one["plan"]["totals"]["blocked"] for one in work):
        left += f", {blocked} segments left as they were"
    return _ending(params["phase"], work, {row["broker"]: row["status"] for row in brokers}, left)


def _ending(phase: str, work: Sequence[Work], brokers: Mapping[str, str], left: str) -> str:
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


def write_report(
    params: Mapping[str, Any],
    folder: Path,
    stages: Mapping[str, Results],
    *,
    outcome: str,
    times_ms: tuple[int, int],
    failures: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the folder; returns the content of report.json. Repeating it writes the same again.

    `stages` are the results of look, convert, parity and certify; `times_ms` when the run began and
    when it ended.
    """
    checks.writable(folder)
    from kafkats.migration.census import zero_copy
    from kafkats.migration.forecast import FORECAST
    from kafkats.migration.phases import lose_zero_copy
    from kafkats.migration.plot import magic_bytes, plot_burn_down, plot_forecast, plot_formats
    from kafkats.plans.facts import read_table, write_json, write_table

    looked = stages["look"]
    plans = [one for one in looked if "plan" in one]
    ended = [one for one in [*stages["convert"], *stages["certify"]] if "census" in one]
    before, after = _censuses(looked), _censuses(ended)
    now = reports.overlaid(before, after, ("log_dir",))
    segments = reports.segments_of(plan["seen"]["report"] for plan in plans if "seen" in plan)
    tables = [Path(plan["plan"]) / "forecast.parquet" for plan in plans if "undo" not in plan]
    forecast = reports.concat([read_table(table, FORECAST) for table in tables], FORECAST)
    undone = [Path(plan["plan"]) for plan in plans if "undo" in plan]
    actions = reports.actions_of(folder, *undone)
    said = {
        "times_ms": list(times_ms),
        "outcome": outcome,
        "failures": list(failures),
        "remarks": [*reports.no_topic("*", before), *reports.of_reservations(looked)]
        if looked
        else [],
        "phase": params["phase"],
        **reports.common(
            folder,
            plans,
            {stage: [r for r in results if "rates" in r] for stage, results in stages.items()},
        ),
        "runs": [*map(str, undone), *tries.told(folder)["runs"]],
        "volumes": sorted(log_dir for one in looked for log_dir in one["log_dirs"]),
        "brokers": steps.rows(params),
        "ledger": str(steps.ledger_of(params)),
        "magic_bytes": {"before": magic_bytes(before), "after": magic_bytes(now)},
        "parity": list(stages["parity"]),
        "loses_zero_copy": [
            who._asdict() for who in lose_zero_copy(params["from_magic"], params["to_magic"])
        ],
        "certificates": [one["certificate"] for one in [*looked, *ended] if one.get("certificate")],
        "statements": [one["statement"] for one in [*looked, *ended] if one.get("statement")],
        "report": str(folder),
    }
    named = {
        "segments": segments,
        "forecast": forecast,
        "actions": actions,
        "census": now,
        "census-before": before,
    }
    for name, table in named.items():
        write_table(folder / f"{name}.parquet", table)
    write_json(folder / "zero-copy.json", {"topics": zero_copy(now)})
    write_json(folder / "report.json", said)
    plot_formats(before, folder / "formats-before.png")
    plot_formats(now, folder / "formats.png")
    plot_burn_down(_history(folder.parent, Path(params["folder"])), folder / "burn-down.png")
    plot_forecast(forecast, actions, folder / "forecast.png")
    return said


def _censuses(results: Results) -> Any:
    from kafkats.migration.census import CENSUS as SCHEMA
    from kafkats.plans.facts import read_table

    tables = [
        read_table(Path(one["census"]["report"]) / "census.parquet", SCHEMA) for one in results
    ]
    return reports.concat(tables, SCHEMA)


def _history(*folders: Path) -> list[tuple[int, Any]]:
    """(epoch milliseconds, bytes by magic of all volumes seen so far) at begin and end of every run
    in `folders`.

    Earlier versions had the runs of all DAGs in one folder.
    """
    from kafkats.plans.facts import read_json

    found = [
        (read_json(path), path.parent)
        for folder in folders
        for path in folder.glob("*/report.json")
    ]
    runs = sorted(
        (said["times_ms"], at)
        for said, at in found
        if (at / "census.parquet").exists() and "times_ms" in said
    )
    known: dict[str, list[dict[str, Any]]] = {}
    points = []
    for (began_ms, ended_ms), at in runs:
        for moment_ms, name in ((began_ms, "census-before"), (ended_ms, "census")):
            seen = _by_volume(at / f"{name}.parquet")
            if name == "census-before" and not seen.keys() - known.keys():
                continue  # as the run before had left it
            known |= seen
            points.append((moment_ms, _table(row for rows in known.values() for row in rows)))
    return points


def _by_volume(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Per volume the bytes of each magic: all that a burn-down needs of a census."""
    from kafkats.migration.census import CENSUS as SCHEMA
    from kafkats.plans.facts import read_table

    summed = (
        read_table(path, SCHEMA)
        .group_by(["log_dir", "magic"])
        .aggregate([("bytes", "sum")])
        .to_pylist()
    )
    volumes: dict[str, list[dict[str, Any]]] = {}
    for row in summed:
        volumes.setdefault(row["log_dir"], []).append({
            "magic": row["magic"],
            "bytes": row["bytes_sum"],
        })
    return volumes


def _table(rows: Iterable[Mapping[str, Any]]) -> Any:
    import pyarrow as pa

    return pa.Table.from_pylist(
        list(rows), schema=pa.schema([("magic", pa.int8()), ("bytes", pa.int64())])
    )
