"""The options of `preflight` (see kafkats.config.option)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kafkats.config.option import Option, Options, Size


class Preflight(Options):
    """Options of `preflight`."""

    kafka: Annotated[
        str,
        Option(
            "The release of the broker that will start, such as 4.3 or 2.8.2", "--kafka", "RELEASE"
        ),
    ]
    recovery_rate: Annotated[
        Size | None,
        Field(ge=1),
        Option(
            "Bytes that this broker recovers in a second, in each log directory: the time is told by"
            " it",
            "--recovery-rate",
            "SIZE",
            unset="a rate that was measured with this generation",
        ),
    ] = None
    cluster_id: Annotated[
        str,
        Option(
            "The cluster that the broker will join: meta.properties of another one stops it",
            "--cluster-id",
            "ID",
        ),
    ] = ""
    node_id: Annotated[
        int | None,
        Field(ge=0),
        Option("The broker's node.id or broker.id", "--node-id", "N"),
    ] = None
