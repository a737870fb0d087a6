"""The options of a migration of the message format (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from kafkats.config.option import Choice, Option, Options, Words
from kafkats.config.options import IndexRule
from kafkats.generations import (
    ALL_LOSSES,
    COMPRESSION_TYPES,
    DEFAULT_RULE,
    LOSSES,
    OFFSETS_LOSS,
    PRODUCER,
)

PHASES: Final = ("phase-1", "canary", "phase-2", "rollback")
"""The phases of a cluster's migration, in order (kafkats.migration.phases)."""


class Migration(Options):
    """What a cluster migrates from and to. The ledger keeps it."""

    from_magic: Annotated[
        int,
        Choice((0, 1)),
        Option(
            "Message format that the brokers write now: 0 up to Kafka 0.9, 1 up to 0.10",
            "--from-magic",
            initial=1,
        ),
    ]
    to_magic: Annotated[
        int,
        Choice((1, 2)),
        Option("Message format to convert to: Kafka 4 needs 2", "--to-magic", initial=2),
    ]


class Migrate(Options):
    """What the segments of one broker are converted to, and what may be lost."""

    to_magic: Annotated[
        int,
        Choice((0, 1, 2)),
        Option(
            "Message format of what is written: 0 is Kafka 0.8 and 0.9, 1 is 0.10, 2 is 0.11 and"
            " later (4.x writes no other)",
            "--to-magic",
        ),
    ]
    compression_type: Annotated[
        str,
        Choice(COMPRESSION_TYPES),
        Option("Codec of what is written; producer keeps that of each batch", "--compression-type"),
    ] = PRODUCER
    accept_loss: Annotated[
        Words,
        Option(
            f"What may be lost in an older format: {', '.join(LOSSES)}, or {ALL_LOSSES}."
            f" {OFFSETS_LOSS}: also convert partitions in which records are missing",
            "--accept-loss",
            "LOSS,...",
            unset="nothing",
        ),
    ] = ()
    rule: IndexRule = DEFAULT_RULE.name


class Step(Options):
    """The step of a cluster's migration that a command belongs to."""

    ledger: Annotated[
        Path | None,
        Option(
            "The ledger file of the migration",
            "--ledger",
            "FILE",
            empty="ledger.jsonl in the folder",
        ),
    ] = None
    phase: Annotated[
        str,
        Option("The phase of that migration; needs --ledger", "--phase", "|".join(PHASES)),
    ] = ""
    broker: Annotated[
        str, Option("Whose volumes these are; needs --ledger", "--broker", "NAME")
    ] = ""
