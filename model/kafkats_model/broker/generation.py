"""The rules of one release of brokers together, chosen by its name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, NamedTuple

from kafkats.errors import UsageError
from kafkats.generations import (
    ENRICHED,
    KIP228,
    RETENTION_RULES,
    ROLL_RULES,
    RULES,
    SEARCH_RULES,
    RetentionRule,
    RollRule,
    Rule,
    SearchRule,
)
from kafkats.recovery.rules import StartRule, start_rule
from kafkats.releases import behaviour
from kafkats_model.broker.compaction_rules import CLEANING_RULES, SINCE, CleaningRule
from kafkats_model.broker.leader_rules import LEADER_RULES, LeaderRule
from kafkats_model.broker.log_rules import LOG_RULES, LogRule
from kafkats_model.broker.log_rules import SINCE as LOG_SINCE
from kafkats_model.formats.kip228 import NO_TIMESTAMP_EXTENDED
from kafkats_model.formats.readers import Reader, reader

_LATEST_PATCH: Final = 999
KIPS: Final = "kip"
"""The name of the generation that follows the texts of KIP-31, KIP-32 and KIP-33."""
KIP_32: Final = "kip32"
"""As KIPS, but a segment rolls as KIP-32 says: by its largest timestamp and the clock."""
KIP_32_EARLIEST: Final = "kip32-earliest"
"""As KIPS, but rolling counts from a segment's earliest timestamp: option 4 of KIP-32's table."""
TEXTS: Final = frozenset({KIPS, KIP_32, KIP_32_EARLIEST})
"""The generations that follow texts, and no release."""


class Versions(NamedTuple):
    """The versions of a request that a broker answers, the lowest and the highest."""

    lowest: int
    highest: int


class Generation(NamedTuple):
    """The rules of one release."""

    kafka: str
    start: StartRule
    log: LogRule
    leader: LeaderRule
    roll: RollRule
    retention: RetentionRule
    search: SearchRule
    entries: Rule
    """The entries that a recovery writes."""
    cleaning: CleaningRule
    produce: Versions
    fetch: Versions
    list_offsets: Versions
    dialect: str | None = None
    """One of generations.DIALECTS: its logs are in a format that never shipped."""
    earliest: bool = False
    """Rolling counts from the earliest timestamp of a segment, not from its first one."""

    @property
    def reader(self) -> Reader:
        """The functions that read its logs."""
        return reader(self.dialect)

    @property
    def epochs(self) -> bool:
        """True if batches carry leader epochs, and the partition has a checkpoint of them."""
        return 2 in self.leader.magics


_PRODUCE: Final = (
    ((4, 1), 13), ((4, 0), 12), ((3, 8), 11), ((3, 7), 10), ((2, 8), 9), ((2, 4), 8), ((2, 1), 7),
    ((2, 0), 6), ((1, 0), 5), ((0, 11), 3), ((0, 10), 2), ((0, 9), 1), ((0, 8), 0),
)  # fmt: skip
_FETCH: Final = (
    ((4, 1), 18), ((3, 9), 17), ((3, 7), 16), ((3, 5), 15), ((3, 1), 13), ((2, 7), 12),
    ((2, 3), 11), ((2, 1), 10), ((2, 0), 8), ((1, 1), 7), ((1, 0), 6), ((0, 11), 5),
    ((0, 10, 1), 3), ((0, 10), 2), ((0, 9), 1), ((0, 8), 0),
)  # fmt: skip
_LIST_OFFSETS: Final = (
    ((4, 2), 11), ((4, 0), 10), ((3, 9), 9), ((3, 5), 8), ((3, 0), 7), ((2, 8), 6), ((2, 2), 5),
    ((2, 1), 4), ((2, 0), 3), ((0, 11), 2), ((0, 10, 1), 1), ((0, 8), 0),
)  # fmt: skip
"""The first release that answers the version, newest first."""
_LOWEST: Final = {"produce": 3, "fetch": 4, "list_offsets": 1}
"""The lowest versions from 4.0 on (KIP-896)."""


def generation(kafka: str) -> Generation:
    """Return the rules of a release such as `2.8.2`, of the texts of the KIPs, or of a dialect.

    Without a patch number the last patch is meant. Raises UsageError for an unknown release.
    """
    if kafka == KIPS:
        shipped = generation("0.10.2")
        return shipped._replace(
            kafka=KIPS,
            fetch=Versions(0, 2),
            start=replace(shipped.start, index_checks=False),
            leader=LEADER_RULES["kip32"],
            retention=RETENTION_RULES["kip33"],
            search=SEARCH_RULES["kip33"],
            entries=RULES["kip33"],
            cleaning=CLEANING_RULES["kip31"],
        )
    if kafka == KIP_32:
        return generation(KIPS)._replace(kafka=KIP_32, roll=ROLL_RULES["largest"])
    if kafka == KIP_32_EARLIEST:
        return generation(KIPS)._replace(kafka=KIP_32_EARLIEST, earliest=True)
    if kafka == KIP228:
        return _of_kip228()
    if kafka == ENRICHED:  # the rest of its rules is Kafka 0.8's
        return generation("0.8.2")._replace(kafka=ENRICHED, dialect=ENRICHED)
    try:
        start = start_rule(kafka)
    except UsageError as e:
        raise UsageError(e.reason.removeprefix("--")) from None
    row = behaviour(kafka)
    version = (*map(int, re.findall(r"[0-9]+", kafka)),)
    if len(version) < (4 if version[0] == 0 else 3):
        version = (*version, _LATEST_PATCH)
    lowest = _LOWEST if start.name == "4.0" else dict.fromkeys(_LOWEST, 0)
    return Generation(
        kafka,
        start,
        LOG_RULES[_since(version, *LOG_SINCE)],
        LEADER_RULES[_leader(version)],
        replace(ROLL_RULES[row.roll], begins_at_first=version >= (2, 0)),
        RETENTION_RULES[row.retention],
        SEARCH_RULES[row.search],
        RULES[row.recovery],
        CLEANING_RULES[_since(version, *SINCE)],
        Versions(lowest["produce"], _highest(version, _PRODUCE)),
        Versions(lowest["fetch"], _highest(version, _FETCH)),
        Versions(lowest["list_offsets"], _highest(version, _LIST_OFFSETS)),
    )


def _of_kip228() -> Generation:
    """Return the rules of 2.0, the last with the codecs of KIP-228's text, with its dialect."""
    shipped = generation("2.0.1")
    return shipped._replace(
        kafka=KIP228,
        leader=LEADER_RULES[KIP228],
        roll=replace(shipped.roll, no_timestamp=NO_TIMESTAMP_EXTENDED),
        retention=replace(shipped.retention, no_timestamp=NO_TIMESTAMP_EXTENDED),
        dialect=KIP228,
    )


def _leader(version: tuple[int, ...]) -> str:
    later = ((4, 0), "4.0"), ((3, 7), "3.7"), ((3, 6), "3.6"), ((3, 1), "3.1"), ((2, 6), "2.6")
    older = ((2, 5, 1), "2.5.1"), ((2, 4), "2.4"), ((0, 11), "0.11")
    oldest = ((0, 10, 2), "0.10.2"), ((0, 10), "0.10")
    return _since(version, *later, *older, *oldest)


def _since(version: tuple[int, ...], *known: tuple[tuple[int, ...], str]) -> str:
    """Return the name that holds since the newest release that is not later; else 0.8's."""
    return next((name for first, name in known if version >= first), "0.8")


def _highest(version: tuple[int, ...], known: tuple[tuple[tuple[int, ...], int], ...]) -> int:
    return next(number for first, number in known if version >= first)
