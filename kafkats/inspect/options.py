"""The options of what only reads (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from kafkats.config.option import Choice, Option, Options


class Inventory(Options):
    """Options of `inventory`."""

    by: Annotated[str, Choice(("segment", "partition", "topic", "format"))] = Option(
        "Show one row per segment, per partition or per topic; format: one per topic and"
        " message format, for which the logs are read",
        "--by",
    ).default("partition")


class Census(Options):
    """Options of `census`."""

    by: Annotated[str, Choice(("segment", "partition", "topic", "volume", "format"))] = Option(
        "Show one row per format, or per segment, partition, topic or volume and each format in it",
        "--by",
    ).default("format")
    deep: bool = Option("Also count the records inside wrappers", "--deep").default(False)


class Deep(Options):
    """The option that also decodes records."""

    deep: bool = Option("Also decode every record", "--deep").default(False)


class VerifyDepth(Options):
    """The option for how much of each segment `verify` reads."""

    depth: Annotated[str, Choice(("tail", "full", "deep"))] = Option(
        "tail: the indexes and the end of each log, and whole segments where these raise"
        " doubts; full: every batch header and checksum; deep: every record, as --deep",
        "--depth",
    ).default("full")


class Remarks(Options):
    """The option that also lists findings without damage."""

    remarks: bool = Option(
        "Also list remarks and states, which are no defects", "--remarks"
    ).default(False)


class ProofOptions(Options):
    """Options that select the written files to prove."""

    of_plan: Path | None = Option(
        "Verify only the files that this plan wrote",
        "--of-plan",
        "PLAN",
    ).default(None)
    of_run: tuple[Path, ...] = Option(
        "Verify only the files that this run wrote; name several runs from earliest to latest",
        "--of-run",
        "RUN",
    ).default(())
