"""The options of searches by time and of exports (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from kafkats.config.option import RARE, ByRelease, Choice, Duration, Instant, Option, Options, Time
from kafkats.generations import DEFAULT_SEARCH_RULE
from kafkats.lookup.exports import FORMATS, MISSING
from kafkats.releases import NEWEST

HOW: Final = ("exact", "safe", "kafka")
HIGH_WATERMARKS: Final = ("checkpoint", "log-end")
"""Up to where a broker returns records.

`checkpoint`: the checkpointed high watermark, written every 5 s, which may be far behind after a
kill. `log-end`: everything, as for a restarted broker that leads alone.
"""
_MISSING: Final = Option(
    "For a partition without an answer: fail refuses the export; all writes the log start, at the"
    " end of a range the log end; none writes the log end; leave omits the partition",
    "--missing",
)
_OUTPUT: Final = Option(
    "The file to write", "-o --output", "FILE", unset="standard output", writes=True
)


class Search(Options):
    """Options of every search by time."""

    high_watermark: Annotated[str, Choice(HIGH_WATERMARKS)] = Option(
        "Up to which offset records count. checkpoint: the high watermark that the broker wrote"
        " to disk; log-end: all",
        "--high-watermark",
        section=RARE,
    ).default("checkpoint")


class Logs(Options):
    """The option that compares a table with log directories."""

    logs: tuple[Path, ...] = Option(
        "With a TABLE: where its logs lie, to see which of its offsets exist now",
        "--logs",
        "LOG_DIR",
        unset="the table's newest rows tell",
    ).default(())


class Times(Options):
    """The times to look up."""

    times: tuple[Instant, ...] = Option(
        "Which offset was it at this time? latest, earliest and max-timestamp are times, too",
        "--at",
    ).default(())


class Table(Options):
    """Options that select the cells of a lookup table."""

    every: Duration | None = Option(
        "One cell per this much time, at least 1s; a table keeps the step it began with",
        "--every",
        param="step",
        initial="1m",
        examples=("1m", "10m", "1h"),
    ).default(None)
    begins: Time | None = Option(
        "Add cells from this time on. Give both ends or none",
        "--from",
        param="from",
        empty="the data interval of the run",
        title="Cells from",
        section=RARE,
    ).default(None)
    until: Time | None = Option(
        "Add cells up to this time, exclusive. Give both ends or none",
        "--until",
        param="to",
        title="Cells to",
        section=RARE,
    ).default(None)
    output: Path | None = Option(
        "The table's folder, with --every", "-o --output", "TABLE", writes=True
    ).default(None)


class Lookup(Options):
    """Options of `lookup`."""

    how: Annotated[str, Choice(HOW)] = Option(
        "exact: the first record at or after the time; safe: early enough for late records;"
        " kafka: what a broker answers",
        "--how",
    ).default("exact")
    margin: Duration | None = Option(
        "With --how safe: how late records may have come, such as 10m; the answer is that much"
        " earlier",
        "--margin",
        unset="none",
    ).default(None)
    depth: Annotated[str, Choice(("tail", "full", "deep"))] = Option(
        "tail: trust indexes that are in order, although a wrong one can hide an earlier"
        " record; full: read all batch headers; deep: decode the records",
        "--depth",
    ).default("tail")
    rule: Annotated[
        str,
        ByRelease("search", ("kip33",)),
        Option(
            "Also show what the brokers of this Kafka release answer, such as 4.3",
            "--kafka --generation",
            unset=NEWEST,
        ),
    ] = DEFAULT_SEARCH_RULE.name
    now: Annotated[
        Time | None,
        Option("The time on the clock, for --kafka 0.8.2", "--now", unset="this machine's"),
    ] = None
    report: Path | None = Option(
        "Also write the rows into this folder; for a table, the records of its busiest"
        " partitions, for plots",
        "--report",
        "FOLDER",
        writes=True,
    ).default(None)
    around: Duration | None = Option(
        "With --at and --report: also write the records this near to the times, for plots",
        "--around",
    ).default(None)
    go_on: bool = Option(
        "Exit with 0 although partitions cannot be searched, or none matches", "--go-on"
    ).default(False)


class Export(Options):
    """Options of `export`."""

    at: Annotated[
        Instant, Option("Which offset was it at this time?", "--at", "TIME", param="time")
    ]
    until: Instant | None = Option(
        "The end of a range, exclusive", "--until", "TIME", unset="no range"
    ).default(None)
    to: Annotated[
        str,
        Choice(FORMATS),
        Option(
            "spark-...: options for Spark; group-csv: a file for kafka-consumer-groups; json: for"
            " programs",
            "--to",
            param="format",
            title="File format",
            initial="spark-offsets",
        ),
    ]
    missing: Annotated[str, Choice(tuple(MISSING)), _MISSING] = "fail"
    margin: Duration | None = Option(
        "How late records may have come, such as 10m: begin that much earlier and end that much"
        " later",
        "--margin",
        unset="none",
        examples=("1m", "10m", "1h"),
        section=RARE,
    ).default(None)
    group: str | None = Option(
        "For group-csv: the group in the first column, such as billing",
        "--group",
        "GROUP",
        unset="no such column",
        title="Consumer group",
    ).default(None)
    output: Annotated[Path | None, _OUTPUT] = None


class Committed(Options):
    """Options that name the committed offsets of consumer groups."""

    committed: Annotated[
        Path,
        Option("The output of kafka-consumer-groups --describe, or its CSV", "--committed", "FILE"),
    ]
    group: str = Option(
        "The group's name, if FILE does not have it",
        "--group",
        "GROUP",
    ).default("")


class Diff(Options):
    """Options of `diff`."""

    margin: Duration | None = Option(
        "How late records may have come, such as 10m; a reader resumes that much earlier in the"
        " second cluster",
        "--margin",
        unset="none",
    ).default(None)
    begins: Time | None = Option(
        "The first time to compare", "--from", unset="all that either table has"
    ).default(None)
    until: Time | None = Option(
        "The end of the times to compare, exclusive",
        "--until",
    ).default(None)
    by: Annotated[str, Choice(("partition", "time"))] = Option(
        "Show one row per partition or per time", "--by"
    ).default("partition")


class Failover(Options):
    """Options of `failover`."""

    margin: Annotated[
        Duration, Option("How late records came to the cluster of FROM_TABLE", "--margin")
    ]
    missing: Annotated[str, Choice(tuple(MISSING)), _MISSING] = "fail"
    output: Annotated[Path | None, _OUTPUT] = None
