"""The options of rolling (see kafkats.config.option)."""

from __future__ import annotations

from typing import Annotated

from kafkats.config.option import ByRelease, Option, Options
from kafkats.config.options import Export, Now, of_release
from kafkats.generations import DEFAULT_ROLL_RULE


class Roll(Options):
    """Options of `plan roll`."""

    rule: Annotated[
        str,
        ByRelease("roll", ("largest",)),
        of_release(
            "Roll as the brokers of this Kafka release do, such as 4.3 or 3.9.0", param="generation"
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
