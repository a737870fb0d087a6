"""The options that several operations share, declared once (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from kafkats.config.option import Choice, Option, Options, Time
from kafkats.generations import RULES

IndexRule = Annotated[
    str,
    Choice(tuple(RULES)),
    Option(
        "last-offset: indexes as Kafka 2.0 and later writes them; first-offset: as Kafka up to 1.1",
        "--generation",
        choices=tuple(name for name, rule in RULES.items() if rule.for_brokers),
    ),
]
"""One of generations.RULES. Forms offer those that brokers may read."""
Now = Annotated[
    Time | None,
    Option(
        "Decide as if it were this moment",
        "--now",
        param="as_of",
        unset="the moment of the run",
    ),
]
Export = Annotated[
    Path | None,
    Option(
        "The output of `kafka-configs --describe` for the topics: it replaces the defaults of the"
        " policy, and the policy's topics replace it",
        "--export",
        "FILE",
    ),
]


class Topics(Options):
    """Which topics an operation looks at."""

    topics: Annotated[
        str,
        Option(
            "Only topics whose name matches one of these globs, separated by commas; __* needs a"
            " glob that begins so",
            "--topics",
            "GLOB",
        ),
    ] = "*"


class Settings(Options):
    """Where an operation reads the settings of topics."""

    policy_file: Annotated[
        Path | None,
        Option(
            "The policy file, which names the volumes and the limits",
            "--policy",
            "FILE",
            param="policy",
        ),
    ] = None
    settings: Annotated[
        tuple[str, ...],
        Option(
            "A topic setting by Kafka's name, over the policy: docs/policy.md lists all",
            "--config",
            "KEY=VALUE",
        ),
    ] = ()
