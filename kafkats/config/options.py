"""The options that several operations share, declared once (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from kafkats.config.option import FILES, RARE, ByRelease, Choice, Option, Options, Size, Time, Words
from kafkats.generations import DIALECTS, OFFSETS_LOSS
from kafkats.releases import EXAMPLES, NEWEST


def of_release(sentence: str, title: str = "Kafka release", param: str = "") -> Option:
    """Return the option that names a Kafka release, whose rule is taken. `param` as in Option."""
    return Option(
        sentence,
        "--kafka --generation",
        unset=NEWEST,
        param=param,
        title=title,
        initial=NEWEST,
        examples=EXAMPLES,
        section=RARE,
    )


IndexRule = Annotated[
    str,
    ByRelease("recovery", misleading=("kip33",)),
    of_release(
        "The Kafka release whose recovery writes such indexes, such as 4.3: from 2.0 on they are"
        " the same",
        "Kafka release of the indexes",
    ),
]
"""One of generations.RULES."""
Now = Annotated[
    Time | None,
    Option(
        "Decide as if it were this moment",
        "--now",
        param="as_of",
        stored="now_ms",
        unset="the moment of the run",
        title="Decide as of",
        section=RARE,
    ),
]
Export = Annotated[
    Path | None,
    Option(
        "The output of `kafka-configs --describe` for the topics; it overrides the policy's"
        " defaults, and the policy's topics override it",
        "--export",
        "FILE",
        by_hand=True,
    ),
]


class Dialect(Options):
    """The option that names the format of the logs that are read, if it never shipped."""

    dialect: Annotated[str | None, Choice(DIALECTS)] = Option(
        "Read the log in a format that was proposed and never shipped; it is never guessed",
        "--dialect",
        unset="the formats that shipped",
        hidden=True,
    ).default(None)


class Topics(Options):
    """Options that select topics."""

    topics: str = Option(
        "Only topics whose name matches one of these globs, separated by commas. * selects all"
        " topics; any other glob selects a topic that begins with __ only if the glob begins"
        " with __",
        "--topics",
        "GLOB",
        examples=("*", "orders-*", "orders-*,payments"),
    ).default("*")


class Settings(Options):
    """Options that name the settings of topics."""

    policy_file: Path | None = Option(
        "The policy file, which names the volumes and the limits",
        "--policy",
        "FILE",
        param="policy",
        title="Policy file",
        section=FILES,
    ).default(None)
    settings: tuple[str, ...] = Option(
        "A topic setting by Kafka's name, over the policy: docs/policy.md lists all",
        "--config",
        "KEY=VALUE",
    ).default(())


class IndexSettings(Options):
    """By whose rule indexes are compared and written."""

    rule: IndexRule = "last-offset"


class MissingRecords(Options):
    """The option that allows changes to partitions with missing records."""

    accept_loss: Words = Option(
        f"{OFFSETS_LOSS}: also change partitions in which records are missing, which no plan"
        " changes otherwise",
        "--accept-loss",
        OFFSETS_LOSS,
        by_hand=True,
    ).default(())


class Json(Options):
    """The option for the output format."""

    as_json: bool = Option("Print one JSON object per line", "--json").default(False)


class EveryFile(Options):
    """The option for a longer table."""

    files: bool = Option(
        "List every file of a recovery, not one row per partition", "--files"
    ).default(False)


class Processes(Options):
    """The option for the number of worker processes."""

    jobs: Annotated[int | None, Field(ge=1)] = Option(
        "Worker processes, or threads where the segments are large",
        "--jobs",
        "N",
        unset="one process per 512 MiB of work or one thread, up to one per processor; one"
        " thread below 64 MiB",
    ).default(None)


class BatchLimit(Options):
    """The option that limits the memory of decompression."""

    max_batch_bytes: Size = Option(
        "The largest decompressed size of one batch. kafkats may need twice as much memory",
        "--max-batch-bytes",
        "SIZE",
    ).default(256 * 1024 * 1024)


class WorkArea(Options):
    """The option for the folder of undo material."""

    place: Path | None = Option(
        "The folder for undo material and the reservation",
        "--work-area",
        "FOLDER",
        unset="beside LOG_DIR",
        writes=True,
    ).default(None)


class Vouched(Options):
    """The option by which a person states that the broker is stopped."""

    owner_stopped: bool = Option(
        "You state that no broker runs on LOG_DIR; needed where a lock proves nothing: network"
        " file systems, snapshots",
        "--owner-stopped",
    ).default(False)


class Report(Options):
    """The option for the folder of a full report."""

    report: Path | None = Option(
        "Also write the full report into this folder",
        "-o --output --report",
        "FOLDER",
        writes=True,
    ).default(None)
