"""The options of rolling (see kafkats.config.option)."""

from __future__ import annotations

from typing import Annotated

from kafkats.config.option import RARE, Choice, Option, Options
from kafkats.config.options import Export, Now
from kafkats.generations import DEFAULT_ROLL_RULE, ROLL_RULES


class Roll(Options):
    """Options of `plan roll`."""

    rule: Annotated[
        str,
        Choice(tuple(ROLL_RULES)),
        Option(
            "Roll by the rules of a Kafka version. 4.1: 3.9.1, 4.0.1, 4.1 and later; 0.10.1: 0.10.1"
            " to 3.9.0 and 4.0.0; 0.8: before 0.10.1; largest: KIP-32 and the interface section of"
            " KIP-33",
            "--generation",
            param="generation",
            title="Kafka version",
            section=RARE,
        ),
    ] = DEFAULT_ROLL_RULE.name
    now: Now = None
    export: Export = None


class Simulate(Options):
    """Options of `simulate roll`."""

    seed: int = Option("The seed of the jitter that segment.jitter.ms allows", "--seed").default(0)


class Simulation(Options):
    """The option by which `plan roll` also simulates."""

    simulate: bool = Option(
        "Also simulate: append the stored batches again under the settings of their topics, and"
        " write beside the plan how many segments begin on each day, as is and simulated. Reads"
        " the headers of all batches: slower",
        "--simulate",
        title="Simulate rolling",
    ).default(False)
