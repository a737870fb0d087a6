"""The options of a replay (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from kafkats.config.option import Option, Options


class Replay(Options):
    """Options of `replay`."""

    not_for_a_broker: Annotated[
        bool,
        Option(
            "Allow dialects that never shipped: the log directories would mislead a broker",
            "--not-for-a-broker",
        ),
    ] = False

    output: Annotated[
        Path,
        Option(
            "The folder for the brokers' log directories; it must not exist, or be empty",
            "-o --output",
            "DIR",
        ),
    ]
