"""The options of `preflight` and of a recovery (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from kafkats.config.option import FILES, RARE, Duration, Option, Options, Size, Words
from kafkats.config.options import IndexRule
from kafkats.generations import DEFAULT_RULE
from kafkats.recovery.holding import hold_words


class Preflight(Options):
    """Options of `preflight`."""

    kafka: Annotated[
        str,
        Option(
            "The release of the broker that will start, such as 4.3 or 2.8.2", "--kafka", "RELEASE"
        ),
    ]
    recovery_rate: Annotated[Size | None, Field(ge=1)] = Option(
        "Bytes that this broker recovers in a second, in each log directory, to tell"
        " how long the start takes",
        "--recovery-rate",
        "SIZE",
        unset="a rate that was measured with this generation",
    ).default(None)
    describe: Path | None = Option(
        "The output of `kafka-topics --describe`: brokers with KRaft set a directory aside, or"
        " delete it, if this does not have its topic id, or has other replicas",
        "--describe",
        "FILE",
        unset="this is not predicted",
    ).default(None)
    cluster_id: str = Option(
        "The cluster that the broker will join: meta.properties of another one stops it",
        "--cluster-id",
        "ID",
    ).default("")
    node_id: Annotated[int | None, Field(ge=0)] = Option(
        "The broker's node.id or broker.id", "--node-id", "N"
    ).default(None)
    go_on: bool = Option(
        "Exit with 0 although the broker does not start, or loses something", "--go-on"
    ).default(False)


class BeforeStart(Options):
    """Options of `recover`, which runs before a broker's start."""

    release: str = Option(
        "The release of the broker that will start, such as 4.3 or 2.8.2",
        "--kafka",
        "RELEASE",
        unset="that of the jars near the server.properties or the COMMAND, else the newest known",
    ).default("")
    node_id: Annotated[int | None, Field(ge=0)] = Option(
        "The broker's node.id or broker.id: a log directory of another one holds the start",
        "--node-id",
        "N",
        unset="that of the server.properties",
    ).default(None)
    cluster_id: str = Option(
        "The broker's cluster: a log directory of another one holds the start",
        "--cluster-id",
        "ID",
        unset="that of most of its log directories",
    ).default("")
    threads: Annotated[int | None, Field(ge=1)] = Option(
        "num.recovery.threads.per.data.dir of the broker, to estimate its time",
        "--recovery-threads",
        "N",
        unset="that of the server.properties, else Kafka's default",
    ).default(None)
    within: Duration = Option(
        "Stop after this time: the broker recovers the partitions that are left",
        "--within",
        "DURATION",
    ).default(300_000)
    hold: Words = Option(
        "The findings for which the broker must not start (exit code 3), with commas between"
        " them, or none; docs/guard.md has the list",
        "--hold",
        "FINDING,...",
        unset="default",
    ).default(())
    record: Path | None = Option(
        "A folder on another disk for a further recover.json, which tells a lost disk from a new"
        " one",
        "--record",
        "FOLDER",
        unset="the work areas only",
        writes=True,
    ).default(None)

    @field_validator("hold")
    @classmethod
    def _known_words(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        hold_words(words)
        return words


class ServerProperties(Options):
    """The option of `recover` that names a broker's configuration."""

    server_properties: Path | None = Option(
        "The broker's server.properties: its log.dirs, the directory of its metadata log, its"
        " node.id and its recovery threads",
        "--server-properties",
        "FILE",
    ).default(None)


class Recover(Options):
    """Options of `plan recover`."""

    like_kafka: bool = Option(
        "Where a log is corrupt, delete what follows, as Kafka's own recovery does; without it"
        " such a partition is left as it is",
        "--like-kafka",
        loses="Lost: every record behind the first corrupt batch of a log, also those that can"
        " be read",
    ).default(False)
    copy_readable: Path | None = Option(
        "Copy the good batches that lie behind a corrupt place to this folder, such as"
        " /var/tmp/copies, which is in no log directory",
        "--copy-readable",
        "DIR",
        unset="they are not copied",
        title="Folder for copies of readable records",
        section=FILES,
        writes=True,
    ).default(None)
    mend_magic: bool = Option(
        "Write magic 2 into whole batches with a magic byte above 2, which brokers keep and"
        " nobody can read. Their partitions are only mended: plan again to recover them",
        "--mend-magic",
        section=RARE,
    ).default(False)
    rule: IndexRule = DEFAULT_RULE.name
