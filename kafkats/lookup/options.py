"""The options of searches by time, and of what is made of their answers (see kafkats.config.option)."""

from __future__ import annotations

from typing import Annotated

from kafkats.config.option import Choice, Duration, Option, Options, Time
from kafkats.lookup.exports import FORMATS, MISSING


class Search(Options):
    """What every search by time goes by."""

    high_watermark: Annotated[
        str,
        Choice(("checkpoint", "log-end")),
        Option(
            "Up to which offset records count. checkpoint: the high watermark that the broker wrote"
            " to disk; log-end: all",
            "--high-watermark",
        ),
    ] = "checkpoint"


class Table(Options):
    """Which cells a lookup table gets."""

    every: Annotated[
        Duration | None,
        Option(
            "One cell per this much time, at least 1s; a table keeps the step it began with",
            "--every",
            param="step",
            initial="1m",
        ),
    ] = None
    begins: Annotated[
        Time | None,
        Option(
            "Add cells from this time on",
            "--from",
            param="from",
            empty="the data interval of the run",
        ),
    ] = None
    until: Annotated[
        Time | None,
        Option(
            "Add cells up to this time, exclusive. Needs from",
            "--until",
            param="to",
        ),
    ] = None


class Export(Options):
    """Which offsets are exported, and to whom."""

    at: Annotated[
        Time,
        Option("Which offset was it at this time?", "--at", param="time"),
    ]
    to: Annotated[
        str,
        Choice(FORMATS),
        Option(
            "spark-...: options for Spark; group-csv: a file for kafka-consumer-groups; json: for"
            " programs",
            "--to",
            param="format",
            initial="spark-offsets",
        ),
    ]
    until: Annotated[
        Time | None,
        Option("The end of a range, exclusive", "--until", unset="no range"),
    ] = None
    missing: Annotated[
        str,
        Choice(tuple(MISSING)),
        Option(
            "A partition without an answer. fail: fail the run; all: from its start; none: from"
            " its end; leave: leave it out",
            "--missing",
        ),
    ] = "fail"
    margin: Annotated[
        Duration | None,
        Option(
            "How late records may have come, such as 10m: begin that much earlier and end that"
            " much later",
            "--margin",
            unset="none",
        ),
    ] = None
    group: Annotated[
        str | None,
        Option(
            "For group-csv: the group in the first column",
            "--group",
            "GROUP",
            unset="no such column",
        ),
    ] = None
