"""The options of a split of segments (see kafkats.config.option)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from kafkats.config.option import RARE, Choice, Option, Options, Size, Time

SPLITS: Final = ("rolled", "mixed", "expired")


class Split(Options):
    """Options of `plan split`."""

    where: Annotated[
        str,
        Choice(SPLITS),
        Option(
            "rolled: where segment.bytes or segment.ms would have rolled; mixed: around implausible"
            " timestamps; expired: after the expired records",
            "--where",
            stored="split",
        ),
    ]
    segment_bytes: Size | None = Option(
        "Needed by rolled, unless a time is given: parts are at most this large",
        "--segment-bytes",
        unset="no limit",
        section=RARE,
    ).default(None)
    segment_ms: Annotated[int | None, Field(ge=1)] = Option(
        "Needed by rolled, unless a size is given: the timestamps of a part span at most so"
        " many ms, such as 86400000",
        "--segment-ms",
        "MS",
        unset="no limit",
        section=RARE,
    ).default(None)
    earliest: Time = Option(
        "For mixed: timestamps before this time are implausible",
        "--earliest",
        unset="1970",
        stored="earliest_ms",
        initial="1970-01-01T00:00:00Z",
        section=RARE,
    ).default(0)
    latest: Time | None = Option(
        "For mixed: timestamps after this time are implausible",
        "--latest",
        unset="now",
        stored="latest_ms",
    ).default(None)
    before: Time | None = Option(
        "Needed by expired: records before this time have expired",
        "--before",
        stored="expired_before_ms",
        section=RARE,
    ).default(None)
