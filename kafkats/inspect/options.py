"""The options of what only reads (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from kafkats.config.option import Choice, Option, Options


class Inventory(Options):
    """How an inventory is summed up."""

    by: Annotated[
        str,
        Choice(("segment", "partition", "topic", "format")),
        Option("One row for each of these; format: read the logs, too", "--by"),
    ] = "partition"


class Census(Options):
    """How message formats are counted."""

    by: Annotated[
        str,
        Choice(("segment", "partition", "topic", "volume", "format")),
        Option("One row for each of these and each format in it", "--by"),
    ] = "format"
    deep: Annotated[bool, Option("Also count the records inside wrappers", "--deep")] = False


class Deep(Options):
    """How much is read."""

    deep: Annotated[bool, Option("Also decode every record", "--deep")] = False


class Remarks(Options):
    """Which findings are listed."""

    remarks: Annotated[
        bool, Option("Also list remarks and states, which are no defects", "--remarks")
    ] = False


class ProofOptions(Options):
    """What a proof is about."""

    of_plan: Annotated[
        Path | None,
        Option(
            "Prove only what this plan wrote: each file must be as it was planned",
            "--of-plan",
            "PLAN",
        ),
    ] = None
    of_run: Annotated[
        tuple[Path, ...],
        Option(
            "Prove only what this run did; several from the earliest to the latest",
            "--of-run",
            "RUN",
        ),
    ] = ()
