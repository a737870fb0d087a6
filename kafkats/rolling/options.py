"""The options of rolling (see kafkats.config.option)."""

from __future__ import annotations

from typing import Annotated

from kafkats.config.option import Choice, Option, Options
from kafkats.config.options import Export, Now
from kafkats.generations import DEFAULT_ROLL_RULE, ROLL_RULES


class Roll(Options):
    """Which active segments are closed."""

    rule: Annotated[
        str,
        Choice(tuple(ROLL_RULES)),
        Option(
            "Roll by the rules of this Kafka version and later ones;"
            " largest is the interface section of KIP-32 and KIP-33",
            "--generation",
            param="generation",
        ),
    ] = DEFAULT_ROLL_RULE.name
    now: Now = None
    export: Export = None


class Simulate(Options):
    """How rolling is simulated."""

    seed: Annotated[
        int, Option("The seed of the jitter that segment.jitter.ms allows", "--seed")
    ] = 0
