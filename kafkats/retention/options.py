"""The options of retention (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from kafkats.config.option import ByRelease, Option, Options, Size, Time
from kafkats.config.options import Export, Now, of_release
from kafkats.generations import DEFAULT_RETENTION_RULE

TURNS: Final = "turns"
FACTS: Final = "facts"
WORST: Final = "worst"
HELD: Final = (TURNS, FACTS, WORST)
"""Tables of some partitions that are needed until the whole plan is decided."""


class Retain(Options):
    """Options of `plan retain`."""

    rule: Annotated[
        str,
        ByRelease("retention", ("kip33",)),
        of_release(
            "Delete as the brokers of this Kafka release do, such as 4.3. Before 0.11 they also"
            " delete above the high watermark",
            param="generation",
        ),
    ] = DEFAULT_RETENTION_RULE.name
    now: Now = None
    before: Time | None = Option(
        "Delete what is older than this moment, instead of applying retention.ms and"
        " retention.bytes",
        "--before",
        stored="before_ms",
        unset="by retention.ms and retention.bytes",
        title="Delete before",
        loses="Lost: records that retention.ms and retention.bytes keep, so that a broker would"
        " keep them",
    ).default(None)
    export: Export = None
    free_bytes: Size | None = Option(
        "Stop when this much would be freed, such as 20GiB",
        "--free",
        param="free",
        unset="delete all that has expired",
        title="Space to free",
        examples=("20GiB", "500GiB", "2TiB"),
    ).default(None)
    over_guard: bool = Option(
        "Delete also what a guard of the policy keeps", "--over-guard", by_hand=True
    ).default(False)
    inside_segments: bool = Option(
        "Also delete the expired first part of a segment that is kept; the rest is rewritten",
        "--inside-segments",
        loses="Lost: records that a broker keeps until their whole segment has expired",
    ).default(False)
    last_segment: bool = Option(
        "Also delete the last segment of a partition, as a broker does",
        "--last-segment",
        loses="Lost: the newest records of a partition, once they have expired; a broker"
        " deletes them too, but kafkats keeps them otherwise",
    ).default(False)


class Beyond(Options):
    """The option for the folder of a second plan without the guards."""

    beyond_guard: Path | None = Option(
        "If a guard keeps something, also write the plan without guards into this folder;"
        " approve one of the two. With --into the folder's name ends with the digest",
        "--beyond-guard",
        "PLAN",
        writes=True,
    ).default(None)
