"""lookup --every: the interval that it adds to a lookup table."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkats.cli.terminal import say_summary
from kafkats.counts import counted

if TYPE_CHECKING:
    from kafkats.execution import Executor
    from kafkats.lookup.partitions import PartitionUnit
    from kafkats.tables import Written

_NAMED: Final = 5


def add_interval(
    executor: Executor,
    units: list[PartitionUnit],
    cells: tuple[int, int, int],
    output: Path,
    report: Path | None,
    *,
    exact: bool,
    as_json: bool,
) -> int:
    """Add an interval to a table. Returns 1 if cells are unreadable, or of another log.

    `cells` are its begin, end and step in ms. Raises UsageError, StorageFailed.
    """
    from kafkats.flow.looking import partition_bytes
    from kafkats.flow.picturing import keep_clouds
    from kafkats.lookup.partitions import partition_count, unread_sentences
    from kafkats.plans.files import make_folder, write_json
    from kafkats.tables import Busiest, build
    from kafkats.tables.spans import check_interval

    begins, until, step = cells
    check_interval(begins, until, step)
    busy = Busiest() if report is not None else None
    suffix = ".log" if exact else ".timeindex"
    written = build(
        output,
        units,
        begins,
        until,
        step_ms=step,
        exact=exact,
        executor=executor,
        size=partial(partition_bytes, suffix=suffix),
        busy=busy,
    )
    summary: dict[str, Any] = {
        "table": str(output),
        "from_ms": begins,
        "to_ms": until,
        "step_ms": step,
        "partitions": partition_count(units),
        **written._asdict(),
    }
    if report is not None and busy is not None:
        make_folder(report, "the report")
        keep_clouds(executor, report, units, busy.most(), begins, until)
        write_json(report / "report.json", summary)
        summary["report"] = str(report)
    sentences = [*_sentences(written, output), *unread_sentences(units)]
    say_summary(summary, as_json, sentences)
    return int(written.unreadable > 0 or bool(written.other_logs))


def _sentences(written: Written, output: Path) -> list[str]:
    sentences = [
        f"{counted(written.added, 'cell')} added, {written.closed} closed, {written.kept} kept,"
        f" {written.open} open, {written.unreadable} unreadable",
        f"table {output}: {counted(written.files, 'file')}, {written.bytes} bytes",
    ]
    if written.above_high_watermark:
        sentences.append(
            f"left open, as their records are above the checkpointed high watermark:"
            f" {counted(written.above_high_watermark, 'cell')}. A later run closes them;"
            " --high-watermark log-end closes"
            " them now"
        )
    sentences += written.other_logs[:_NAMED]
    if written.other_logs:
        more = len(written.other_logs) - _NAMED
        sentences.append(
            (f"and {more} more such partitions; " if more > 0 else "")
            + "recreated or truncated: their cells stay open as other-log;"
            " start a table in another folder for them"
        )
    return sentences
