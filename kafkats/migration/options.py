"""The options of a migration of the message format (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from kafkats.config.option import FILES, RARE, Choice, Option, Options, Words
from kafkats.config.options import IndexRule
from kafkats.generations import (
    ALL_LOSSES,
    COMPRESSION_TYPES,
    DEFAULT_RULE,
    ENRICHED,
    LOSSES,
    OFFSETS_LOSS,
    PRODUCER,
)

PHASES: Final = ("phase-1", "canary", "phase-2", "rollback")
"""The phases of a cluster's migration, in order (kafkats.migration.phases)."""


class Migration(Options):
    """Options of a migration's beginning: its formats. The ledger keeps them."""

    from_magic: Annotated[
        int,
        Choice((0, 1)),
        Option(
            "Message format that the brokers write now: 0 up to Kafka 0.9, 1 up to 0.10",
            "--from-magic",
            "0|1",
            initial=1,
        ),
    ]
    to_magic: Annotated[
        int,
        Choice((1, 2)),
        Option("Message format to convert to: 2 is the newest", "--to-magic", "1|2", initial=2),
    ]


class Brokers(Options):
    """The option that lists a cluster's brokers."""

    brokers: Annotated[tuple[str, ...], Option("A broker's name", "--broker", "NAME")]


class Broker(Options):
    """The option that names the broker of a ledger's entry."""

    broker: Annotated[str, Option("The name of the broker", "--broker", "NAME")]


class Attest(Options):
    """Options by which a person states what kafkats cannot check."""

    text: Annotated[
        str,
        Option(
            "What you vouch for: that the broker understands the new format, and how you know",
            "--text",
        ),
    ]


class Migrate(Options):
    """Options of `plan migrate`: the target format, and the allowed losses."""

    to_magic: Annotated[int | None, Choice((0, 1, 2))] = Option(
        "Message format of what is written: 0 is Kafka 0.8 and 0.9, 1 is 0.10, 2 is 0.11 and"
        " later (4.x writes no other)",
        "--to-magic",
        "0|1|2",
        unset="an error",
    ).default(None)
    compression_type: Annotated[str, Choice(COMPRESSION_TYPES)] = Option(
        "Codec of what is written; producer keeps that of each batch",
        "--compression-type",
        section=RARE,
    ).default(PRODUCER)
    accept_loss: Words = Option(
        f"What may be lost in an older format: {', '.join(LOSSES)}, or {ALL_LOSSES}."
        f" {OFFSETS_LOSS}: also convert partitions in which records are missing",
        "--accept-loss",
        "LOSS,...",
        unset="nothing",
        title="Accepted losses",
        loses="Lost: what each word names, in every record that has it; it comes back only by"
        " an undo, before the old files are purged",
    ).default(())
    rule: IndexRule = DEFAULT_RULE.name


class ToDialect(Options):
    """Options of `plan migrate` for a format that never shipped."""

    to: Annotated[str | None, Choice((ENRICHED,))] = Option(
        "Instead of --to-magic: convert to a format that was proposed and never shipped",
        "--to",
        hidden=True,
    ).default(None)
    not_for_a_broker: bool = Option(
        "Allow --to, in a copy that no broker ever reads", "--not-for-a-broker", hidden=True
    ).default(False)


class Back(Options):
    """Options of a rollback, which may undo or certify instead of converting."""

    only_newer: bool = Option(
        "Plan only partitions that have batches newer than --to-magic; if there are none,"
        " certify that",
        "--only-newer",
    ).default(False)
    certificate_folder: Path | None = Option(
        "With --only-newer: the folder of that certificate", "--certify", "CERT", writes=True
    ).default(None)
    runs: tuple[Path, ...] = Option(
        "Make no plan if these runs can still be undone; name the latest first",
        "--undo",
        "RUN...",
    ).default(())


class ClientMix(Options):
    """The option of a forecast of what clients cost the brokers."""

    clients: Path | None = Option(
        "A file that says which versions of requests the clients have, by share, such as"
        " /etc/kafkats/clients.yaml; the plan's"
        " summary then has an estimate of what each phase costs the brokers",
        "--clients",
        "FILE",
        unset="no estimate",
        title="Client mix",
        section=FILES,
    ).default(None)


class Step(Options):
    """The step of a cluster's migration that a command belongs to."""

    ledger: Path | None = Option(
        "The ledger file of the migration",
        "--ledger",
        "FILE",
        empty="ledger.jsonl in the folder",
        title="Ledger file",
        section=FILES,
        writes=True,
    ).default(None)
    phase: str = Option(
        "The phase of that migration; needs --ledger", "--phase", "|".join(PHASES)
    ).default("")
    broker: str = Option(
        "The broker of these log directories; needs --ledger", "--broker", "NAME"
    ).default("")


class Certify(Options):
    """Options of `certify`."""

    min_magic: Annotated[int | None, Choice((0, 1, 2))] = Option(
        "Certify that there is no older message format than this", "--min-magic", "0|1|2"
    ).default(None)
    max_magic: Annotated[int | None, Choice((0, 1, 2))] = Option(
        "Certify that there is no newer message format than this", "--max-magic", "0|1|2"
    ).default(None)
    deep: bool = Option(
        "Also decode every record; one that does not decode prevents the certificate", "--deep"
    ).default(False)
    output: Path | None = Option(
        "The certificate's folder", "-o --output", "CERT", writes=True
    ).default(None)
    report: Path | None = Option(
        "Also write the formats as census.parquet into this folder; with a proof also"
        " segments.parquet",
        "--report",
        "FOLDER",
        writes=True,
    ).default(None)
    check: Path | None = Option(
        "Check whether this certificate is still true", "--check", "CERT"
    ).default(None)


class UndoCertify(Options):
    """Options of the certificate after an undo."""

    certified: tuple[Path, ...] = Option(
        "After the undo, certify the message formats in these, as kafkats certify does",
        "--certify",
        "LOG_DIR...",
    ).default(())
    max_magic: Annotated[int | None, Choice((0, 1, 2))] = Option(
        "With --certify: certify that there is no newer message format than this",
        "--max-magic",
        "0|1|2",
    ).default(None)
    output: Path | None = Option(
        "With --certify: the certificate's folder", "-o --output", "CERT", writes=True
    ).default(None)
    report: Path | None = Option(
        "With --certify: also write the formats as census.parquet into this folder",
        "--report",
        "FOLDER",
        writes=True,
    ).default(None)
