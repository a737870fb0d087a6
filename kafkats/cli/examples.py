"""An example for each command, which its --help ends with."""

from __future__ import annotations

from typing import Final

import click

_EXAMPLES: Final = (
    "inventory /var/lib/kafka/data --by topic",
    "census /var/lib/kafka/data --by topic",
    "verify /var/lib/kafka/data --report report",
    "preflight /var/lib/kafka/data --kafka 4.3",
    "recover --server-properties /opt/kafka/config/server.properties",
    "dump /var/lib/kafka/data/orders-0/00000000000000000000.timeindex",
    "plan rebuild /var/lib/kafka/data -o rebuild.plan",
    "plan recover /var/lib/kafka/data -o recover.plan",
    "plan migrate /var/lib/kafka/data --to-magic 2 -o migrate.plan",
    "plan retain /var/lib/kafka/data --policy policy.yaml -o retain.plan",
    "plan roll /var/lib/kafka/data --policy policy.yaml -o roll.plan",
    "plan split /var/lib/kafka/data --where mixed -o split.plan",
    "show rebuild.plan",
    "apply rebuild.plan --digest 66c3cb4963c7",
    "undo rebuild.plan.run",
    "purge rebuild.plan.run --older-than 7d",
    "release /var/lib/kafka/data",
    "certify /var/lib/kafka/data --min-magic 2 -o certificate",
    "ledger begin ledger.jsonl --from-magic 1 --to-magic 2 --broker 1 --broker 2",
    "ledger attest ledger.jsonl --broker 1 --text 'runs Kafka 2.8.2'",
    "ledger approve ledger.jsonl --broker 1",
    "ledger show ledger.jsonl",
    "simulate retain /var/lib/kafka/data --policy policy.yaml",
    "simulate roll /var/lib/kafka/data --policy policy.yaml",
    "lookup /var/lib/kafka/data --at 2026-01-31T10:00:00Z",
    "export /var/lib/kafka/data --at 2026-01-31T10:00:00Z --to group-csv -o offsets.csv",
    "lag /var/lib/kafka/data --committed committed.csv --group billing",
    "latency /var/lib/kafka/data",
    "diff first.table second.table",
    "failover first.table second.table --committed committed.csv --group billing --margin 10m",
    "help problems",
)


def add_example(command: click.Command, words: str) -> None:
    """Give a command of the program the example that begins with its words."""
    for example in _EXAMPLES:
        if example.startswith(f"{words} "):
            command.epilog = f"\b\nExample:\n  kafkats {example}"
