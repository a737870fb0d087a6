"""overview.json beside report.json: what a run saw on each log directory, in numbers.

A page reads it instead of the report's tables, which have a row per segment. It is written by the
task `report`, last, from the tables in memory.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from airflow.sdk import Context

from kafkats import clock
from kafkats.errors import KafkatsError
from kafkats.logdir.volume import Volume as Identity
from kafkats_airflow.deployment import place_of
from kafkats_airflow.forms.values import RunParams, params_of
from kafkats_airflow.metrics import text_file
from kafkats_airflow.reports import holes, unreachable
from kafkats_airflow.runs import tries
from kafkats_airflow.runs.overview import FORMAT, NAME, Overview, Reclaimable, Undo, Volume
from kafkats_airflow.runs.started import started_of
from kafkats_airflow.runs.volumes import Named, by_group, labels_of
from kafkats_airflow.sentences import first_of

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.retention.summary import SummaryRow
    from kafkats_airflow.results import FormatResult

DEPTHS: Final = ("stat", "tail", "full", "deep")
LABELS: Final = "labels.json"


def write(
    context: Context,
    report: Mapping[str, Any],
    volumes: Iterable[Volume] = (),
    *,
    failed: bool = False,
    about: Iterable[str] = (),
) -> None:
    """Write report.json, and then overview.json, into a run's folder. `failed`: the run must not
    count as a success.

    `about` are the log directories of a run whose params do not choose them. Raises StorageFailed.
    """
    from kafkats.plans.files import write_json

    params, folder = params_of(context), Path(report["report"])
    write_json(folder / "report.json", report)
    made = Overview(
        format=FORMAT,
        dag_id=context["dag"].dag_id,
        run_id=context["run_id"],
        written_ms=clock.now_ms(),
        outcome=report["outcome"],
        failed=failed,
        why=first_of(report["failures"]) if failed else "",
        dry_run=bool(params.get("dry_run", False)),
        topics=params.get("topics", "*"),
        volumes=list(volumes),
        undo=undo_of(folder, params.get("undo_days")),
        started=started_of(context, about),
    )
    write_json(folder / NAME, made.model_dump(mode="json"))
    place = place_of(context)
    named = place.name if params["folder"] == place.folder else ""
    text_file.refresh(params["folder"], named)


def undo_of(folder: Path, undo_days: int | None) -> list[Undo]:
    """Return the undo material of every RUN of this DAG run that has changed files.

    A RUN that cannot be read is left out: the page of the run shows it as such.
    """
    from kafkats.plans.run import ended_ms, read_run

    found = []
    for one in tries.tries_of(folder):
        if not (one.run / "report.parquet").exists():
            continue
        try:
            run, freed, ended = read_run(one.run), _kept_bytes(one.run), ended_ms(one.run)
        except KafkatsError as e:
            logging.getLogger(__name__).warning("no undo material is listed for it: %s", e)
            continue
        labels = labels_at(one.run)
        until = ended + undo_days * clock.DAY_MS if undo_days is not None else None
        found.append(
            Undo(
                run=str(one.run),
                operation=run.operation,
                digest=run.digest,
                ended_ms=ended,
                until_ms=until,
                bytes={
                    labels.get(path, path): size
                    for path, size in (dict.fromkeys(run.directories, 0) | freed).items()
                },
            )
        )
    return found


def _kept_bytes(run: Path) -> Counter[str]:
    """Return the bytes of old files that a RUN keeps, by log directory.

    Raises CorruptPlan, StorageFailed.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from kafkats.plans.facts import ACTIONS, read_in_pieces
    from kafkats.plans.holes import read_holes
    from kafkats.plans.rows import grouped
    from kafkats.plans.run import WROTE

    names = ("log_dir", "partition_dir", "file", "outcome", "before_bytes")
    seen, freed = read_holes(run.parent / "before"), Counter[str]()
    schema = pa.schema([ACTIONS.field(name) for name in names])
    for actions in read_in_pieces(run / "report.parquet", schema):
        kept = actions.filter(
            pc.and_(
                pc.is_in(actions["outcome"], pa.array(WROTE)),
                pc.greater_equal(actions["before_bytes"], 0),
            )
        )
        sums = grouped(kept, "log_dir", [("before_bytes", "sum")]).to_pylist()
        freed.update({row["log_dir"]: row["before_bytes_sum"] for row in sums})
        freed.subtract(holes.of_kept(seen, kept))
    return freed


class _Place(NamedTuple):
    broker: str = ""
    name: str = ""
    identity: Identity | None = None


def labels_in(context: Context, folder: Path) -> None:
    """Write labels.json into the folders of applications whose paths other volumes have, too.

    Tables of the run then name the volumes by their labels (kafkats_airflow.runs.volumes).
    """
    from kafkats.plans.files import write_json

    for group in folder.glob("*/"):
        if labels := labels_of(params_of(context), group / "any"):
            write_json(group / LABELS, labels)


def labels_at(place: Path) -> dict[str, str]:
    """Return {path: label} of the application in whose folder `place` lies; {} for most."""
    from kafkats.plans.files import read_json

    path = place.parent / LABELS
    found = read_json(path) if path.is_file() else {}
    return {one: label for one, label in found.items() if isinstance(label, str)}


def labelled(table: pa.Table, place: Path) -> pa.Table:
    """Return a table of an application with the labels of its volumes in place of their paths."""
    import pyarrow.compute as pc

    for path, label in labels_at(place).items():
        mine = pc.equal(table["log_dir"], path)
        at = table.schema.get_field_index("log_dir")
        table = table.set_column(at, "log_dir", pc.if_else(mine, label, table["log_dir"]))
    return table


def _reports(looks: Sequence[FormatResult]) -> Iterator[tuple[FormatResult, Path]]:
    """Yield the looks that kept a report, with its folder."""
    for one in looks:
        if kept := one.get("seen") or one.get("census"):
            yield one, Path(kept["report"])


def holes_of(looks: Sequence[FormatResult]) -> pa.Table:
    """Return kafkats.plans.holes.HOLES of the reports of plans."""
    import pyarrow as pa

    from kafkats.plans.holes import HOLES, read_holes

    tables = [labelled(read_holes(report), report) for _, report in _reports(looks)]
    return pa.concat_tables([HOLES.empty_table(), *tables])


def _places(params: RunParams | None, looks: Sequence[FormatResult]) -> dict[str, _Place]:
    """Return which volumes the looks were at, by label."""
    from kafkats.plans.volumes import read_volumes

    groups: dict[str, dict[str, Named]] = {}
    with suppress(KafkatsError):  # a policy that cannot be read fails a task in its own words
        groups = by_group(params) if params else {}
    found = {}
    for one, report in _reports(looks):
        volumes, known = groups.get(report.parent.name, {}), dict[str, Identity]()
        with suppress(KafkatsError):
            known = read_volumes(report)
        for path in one.get("log_dirs", ()):
            named = volumes.get(path) or Named(path, "", "", "", path)
            found[named.label] = _Place(named.broker, named.name, known.get(path))
    return found


def volumes_of(
    log_dirs: Iterable[str],
    segments: Iterable[pa.Table] | None = None,
    *,
    verdicts: Sequence[SummaryRow] | None = None,
    census: pa.Table | None = None,
    looks: Sequence[FormatResult] = (),
    params: RunParams | None = None,
) -> list[Volume]:
    """Return the volumes of a run from its tables.

    `segments` are facts.SEGMENTS at the end of the run, in pieces. `verdicts` are rows of
    retention's summary, `census` is migration.census.CENSUS. The reports of `looks` say how full
    the disks were.
    """
    facts = _of_segments(segments, holes_of(looks)) if segments is not None else {}
    magics = _of_census(census) if census is not None else {}
    deleted = _of_verdicts(verdicts) if verdicts is not None else {}
    disks, places = _of_disks(looks), _places(params, looks)
    seen = [
        Volume(
            log_dir=log_dir,
            **places.get(log_dir, _Place())._asdict(),
            **{
                name: figure
                for known in (facts, magics, deleted, disks)
                for name, figure in known.get(log_dir, {}).items()
            },
        )
        for log_dir in sorted({*log_dirs, *facts, *magics})
    ]
    return [*seen, *unreachable.volumes(looks)]


def _of_disks(looks: Sequence[FormatResult]) -> dict[str, dict[str, object]]:
    """Return the sizes that plans and censuses kept beside their reports, if they did."""
    from kafkats.plans.disks import read_disks

    found: dict[str, dict[str, object]] = {}
    for _, report in _reports(looks):
        labels = labels_at(report)
        for path, disk in read_disks(report).items():
            found[labels.get(path, path)] = {
                "disk_bytes": disk.bytes,
                "disk_free_bytes": disk.free_bytes,
            }
    return found


class _Facts:
    """The figures of a log directory, added up over pieces of facts.SEGMENTS.

    A partition may be in several pieces.
    """

    def __init__(self) -> None:
        self.sums = Counter[str]()
        self.partitions: set[str] = set()
        self.kinds: dict[str, Counter[str]] = {}
        self.rank: int | None = None

    def figures(self) -> dict[str, Any]:
        """Return fields of Volume."""
        sums = self.sums
        return {
            "partitions": len(self.partitions),
            "segments": sums["segments"],
            "bytes": sums["bytes"],
            "log_bytes": sums["log_bytes"],
            "kinds": {severity: dict(sorted(of.items())) for severity, of in self.kinds.items()},
            "depth": "tail" if self.rank is None else DEPTHS[self.rank],
            "magic_bytes": tuple(sums[f"magic{n}"] for n in range(3)) if sums["known"] else None,
        }


def _of_segments(pieces: Iterable[pa.Table], seen: pa.Table) -> dict[str, dict[str, Any]]:
    """Return fields of Volume by log directory; `seen` are kafkats.plans.holes.HOLES."""
    found: defaultdict[str, _Facts] = defaultdict(_Facts)
    for segments in pieces:
        _add_sums(found, segments)
        _add_kinds(found, segments)
        _add_depths(found, segments)
        for log_dir, size in holes.by_log_dir(seen, segments).items():
            found[log_dir].sums["bytes"] -= size
    return {log_dir: facts.figures() for log_dir, facts in found.items()}


def _add_sums(found: defaultdict[str, _Facts], segments: pa.Table) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    from kafkats.plans.rows import grouped, partitions_of

    real = pc.greater_equal(segments["base_offset"], 0)
    log = _sizes(segments, "log")
    total = log
    for name in ("index", "timeindex", "txnindex", "snapshot"):
        total = pc.add(total, _sizes(segments, name))
    magic = segments["magic_bytes"].combine_chunks()
    by_magic = [pc.list_element(magic, n) for n in range(3)]
    known = pc.and_(real, pc.fill_null(pc.greater_equal(by_magic[0], 0), False))
    table = pa.table({
        "log_dir": segments["log_dir"],
        "segments": real.cast(pa.int64()),
        "bytes": pc.if_else(real, total, 0),
        "log_bytes": pc.if_else(real, log, 0),
        "known": known.cast(pa.int64()),
        **{f"magic{n}": pc.if_else(known, column, 0) for n, column in enumerate(by_magic)},
    })
    names = table.column_names[1:]
    for row in grouped(table, "log_dir", [(name, "sum") for name in names]).to_pylist():
        found[row["log_dir"]].sums.update({name: row[f"{name}_sum"] for name in names})
    for log_dir, partition in partitions_of(segments.filter(real)):
        found[log_dir].partitions.add(partition)


def _sizes(segments: pa.Table, name: str) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return pc.fill_null(pc.struct_field(segments[name], "size"), 0)


def _add_depths(found: defaultdict[str, _Facts], segments: pa.Table) -> None:
    """Add the least depths. What could not be read is no look at its ends."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from kafkats.plans.rows import grouped

    ranks = pc.index_in(pc.fill_null(segments["depth"], "stat"), pa.array(DEPTHS))
    unread = pc.and_(pc.is_null(segments["depth"]), pc.not_equal(segments["worst"], ""))
    seen = pc.and_(pc.greater_equal(segments["base_offset"], 0), pc.invert(unread))
    table = pa.table({"log_dir": segments["log_dir"], "rank": ranks}).filter(seen)
    for row in grouped(table, "log_dir", [("rank", "min")]).to_pylist():
        facts, rank = found[row["log_dir"]], row["rank_min"]
        facts.rank = rank if facts.rank is None else min(facts.rank, rank)


def _add_kinds(found: defaultdict[str, _Facts], segments: pa.Table) -> None:
    """Count the findings by severity and kind."""
    import pyarrow as pa
    import pyarrow.compute as pc

    some = segments.filter(pc.not_equal(segments["worst"], ""))
    flat = pc.list_flatten(some["findings"])
    table = pa.table({
        "log_dir": some["log_dir"].take(pc.list_parent_indices(some["findings"])),
        "severity": pc.struct_field(flat, "severity"),
        "kind": pc.struct_field(flat, "kind"),
    })
    counted = table.group_by(["log_dir", "severity", "kind"]).aggregate([([], "count_all")])
    for row in counted.to_pylist():
        kinds = found[row["log_dir"]].kinds.setdefault(row["severity"], Counter())
        kinds[row["kind"]] += row["count_all"]


def _of_census(census: pa.Table) -> dict[str, dict[str, object]]:
    from kafkats.plans.rows import grouped

    sums: dict[str, Counter[int]] = {}
    for row in grouped(census, ["log_dir", "magic"], [("bytes", "sum")]).to_pylist():
        sums.setdefault(row["log_dir"], Counter())[row["magic"]] += max(row["bytes_sum"], 0)
    return {
        log_dir: {"magic_bytes": tuple(of[n] for n in range(3)), "log_bytes": of.total()}
        for log_dir, of in sums.items()
    }


def _of_verdicts(rows: Sequence[SummaryRow]) -> dict[str, dict[str, object]]:
    from kafkats.retention.summary import sums_of

    by_dir: dict[str, list[SummaryRow]] = {}
    for row in rows:
        by_dir.setdefault(row["log_dir"], []).append(row)
    return {
        log_dir: {"reclaimable": Reclaimable.model_validate(sums_of(of_dir))}
        for log_dir, of_dir in by_dir.items()
    }


def still_there(rows: pa.Table, segments: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows about segments that are in `segments`, in their order."""
    return _joined(rows, segments, keys, "left semi")


def at_the_end(before: pa.Table, after: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return facts.SEGMENTS at the end of a run: `after` in place of rows with the same keys."""
    import pyarrow as pa

    return pa.concat_tables([not_in(before, after, keys), after]) if after.num_rows else before


def not_in(rows: pa.Table, others: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows whose keys `others` do not have, in their order."""
    return _joined(rows, others, keys, "left anti") if others.num_rows else rows


def _joined(rows: pa.Table, others: pa.Table, keys: Sequence[str], how: str) -> pa.Table:
    """Return the rows that a join with the keys of others leaves, in their order.

    Arrow joins them: a report may have a million rows.
    """
    import numpy as np
    import pyarrow as pa

    numbered = rows.select(list(keys)).append_column("row", pa.array(np.arange(rows.num_rows)))
    there = others.select(list(keys)).group_by(list(keys)).aggregate([])
    kept = numbered.join(there, list(keys), join_type=how)["row"]
    return rows.take(kept.combine_chunks().sort())
