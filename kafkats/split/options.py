"""The options of a split of segments (see kafkats.config.option)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from kafkats.config.option import Choice, Option, Options, Size, Time

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
    segment_bytes: Annotated[
        Size | None, Option("For rolled: the limit of a segment's size", "--segment-bytes")
    ] = None
    segment_ms: Annotated[
        int | None,
        Field(ge=1),
        Option("For rolled: the limit of a segment's time", "--segment-ms", "MS"),
    ] = None
    earliest: Annotated[
        Time,
        Option(
            "For mixed: no record can be older",
            "--earliest",
            unset="1970",
            stored="earliest_ms",
            initial="1970-01-01T00:00:00Z",
        ),
    ] = 0
    latest: Annotated[
        Time | None,
        Option("For mixed: no record can be newer", "--latest", unset="now", stored="latest_ms"),
    ] = None
    before: Annotated[
        Time | None,
        Option("For expired: what is older has expired", "--before", stored="expired_before_ms"),
    ] = None
