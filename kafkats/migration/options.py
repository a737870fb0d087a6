"""The options of a migration of the message format (see kafkats.config.option)."""

from __future__ import annotations

from typing import Annotated, Final

from kafkats.config.option import Choice, Option, Options
from kafkats.config.options import IndexRule
from kafkats.generations import COMPRESSION_TYPES, DEFAULT_RULE, PRODUCER

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
        tuple[str, ...],
        Option(
            "What may be lost in an older format, such as headers, or all",
            "--accept-loss",
            "LOSS,...",
            unset="nothing",
        ),
    ] = ()
    rule: IndexRule = DEFAULT_RULE.name
