"""The options of the model's commands (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from kafkats.config.option import Choice, Duration, Option, Options, Time


class Replay(Options):
    """Options of `replay`."""

    not_for_a_broker: bool = Option(
        "Allow dialects that never shipped: the log directories would mislead a broker",
        "--not-for-a-broker",
    ).default(False)

    output: Annotated[
        Path,
        Option(
            "The folder for the brokers' log directories; it must not exist, or be empty",
            "-o --output",
            "DIR",
        ),
    ]


class Layouts(Options):
    """For which times other indexes are measured."""

    every: Duration = Option(
        "Look up one time per step, for each step that has a record", "--every"
    ).default(60_000)
    times: tuple[Time, ...] = Option("Look up these times instead of each step", "--at").default(())
    by: Annotated[str, Choice(("partition", "segment"))] = Option(
        "Show one row per partition or per segment", "--by"
    ).default("partition")
    output: Path | None = Option(
        "Also write the files there, for dump to read", "-o --output", "FOLDER", writes=True
    ).default(None)
