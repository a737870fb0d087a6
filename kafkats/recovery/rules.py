"""The start of each generation of brokers as a frozen table, and the choice by release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from kafkats.errors import UsageError
from kafkats.releases import behaviour
from kafkats.text import Flag

Unreadable = Literal["empty", "offline", "stops"]
"""A start on an unreadable checkpoint: it counts as empty, the log directory goes offline, or the
broker stops."""


_LOGS: Final = (".log",)
_FAMILY: Final = (*_LOGS, ".index", ".timeindex", ".txnindex", ".snapshot", ".swap")
_ALL: Final = (*_FAMILY, ".cleaned")
_STATES: Final = ("delete", "future", "stray")


@dataclass(frozen=True)
class StartRule:
    """The rule by which the brokers of one generation load their logs; the newest by default."""

    name: str
    kafka: str
    index_checks: bool = False
    """Each start checks length and last entry of all indexes, and recovers where they are wrong."""
    base_entry: bool = True
    """An index may end with an entry at the segment's base offset."""
    corrupt_index_stops: bool = False
    """A wrong index stops the broker: it is not rebuilt."""
    missing_index_rebuilt: bool = True
    """A segment without .index is recovered. Otherwise it is opened with an empty one."""
    swaps_renamed: bool = True
    """Swaps are finished by renaming. Otherwise the .log.swap is recovered and swapped in."""
    numbered: tuple[str, ...] = _ALL
    """Endings of files whose name must begin with a number."""
    checkpoint: Unreadable = "offline"
    """A start on an unreadable recovery point or log start offset."""
    epochs: Unreadable | None = "offline"
    """A start on an unreadable leader-epoch-checkpoint or partition.metadata; None: there is none.

    Since 3.2.1 it is a failed disk (KAFKA-13773). 3.2.1 counts as 3.2.0.
    """
    lowest_epoch: int = 0
    """The lowest leader epoch that a recovery assigns. 2.1.0 and 2.6.0 count as their patches."""
    epochs_anew: bool = True
    """A start assigns the leader epochs of the checkpoint anew, one after the other."""
    falling_epochs: bool = True
    """A batch with a lower leader epoch begins it, and replaces what is not below.

    Before, it begins none, and epochs may begin at one offset. 2.0.0 counts as its patch.
    """
    start_wins: bool = True
    """A log that ends below its log start is emptied, and begins there.

    Before 2.2.1 it stays as it is, and a log without segments begins at 0. 2.2.0 counts as 2.2.1.
    """
    strict_sizes: bool = True
    """A batch size below 14 at the log's end is an error. Otherwise the log ends there."""
    producers: bool = True
    """There is producer state, with snapshots and transaction indexes."""
    deleting_loaded: bool = False
    """A `-delete` directory is loaded and recovered as any other."""
    states: tuple[str, ...] = _STATES
    """States of partition directories (`paths.PartitionName`) that are loaded. A broker that knows
    `stray` also sets directories aside that the cluster does not know."""
    newest_magic: int = 2
    """The newest message format that it knows."""
    topic_ids: bool = True
    """Partition directories have topic ids (`recovery.topic_id`)."""
    marker_epoch: bool = True
    """The clean-shutdown marker holds the broker epoch that is told to the controller."""

    @property
    def java_checkpoints(self) -> bool:
        """Return whether checkpoints are read by the class of 3.0 (`recovery.checkpoints`)."""
        return self.name in ("3.0", "3.3", "3.7", "4.0")

    @property
    def marker_goes_first(self) -> bool:
        """Return whether the marker is deleted before the partitions are listed (2.8)."""
        return self.java_checkpoints or self.name == "2.8"

    @property
    def stray_snapshots_go(self) -> bool:
        """Return whether a start deletes most snapshots at no segment's base (2.8, KAFKA-9393)."""
        return self.java_checkpoints or self.name == "2.8"

    @property
    def warm_search(self) -> bool:
        """Return whether an index is searched in its last entries first (2.0)."""
        return self.producers and self.name not in ("0.11", "1.0")

    @property
    def time_indexes(self) -> bool:
        """Return whether segments have a .timeindex (0.10.1)."""
        return self.name not in ("0.8", "0.9", "0.10.0")

    @property
    def recovery_threads(self) -> int:
        """Return the default of num.recovery.threads.per.data.dir (4.0, KIP-1030)."""
        return 2 if self.name == "4.0" else 1


NEWEST: Final = StartRule("4.0", "4.0 and later")
"""For what no release is given to. A start of 4.0 differs from one of 3.7 in its messages only."""

_OLDER: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("3.7", "3.7 to 3.9", {}),
    ("3.3", "3.3 to 3.6", {"states": _STATES[:2], "marker_epoch": False}),
    ("3.0", "3.0 to 3.2", {"epochs": "stops"}),
    ("2.8", "2.8", {"swaps_renamed": False}),
    ("2.7", "2.7", {"topic_ids": False}),
    ("2.6", "2.6", {"epochs_anew": False}),
    ("2.3", "2.3 to 2.5", {"lowest_epoch": 1}),
    ("2.2", "2.2", {"index_checks": True, "missing_index_rebuilt": False}),
    ("2.1", "2.1", {"start_wins": False}),
    ("2.0", "2.0", {"lowest_epoch": 0}),
    (
        "1.0",
        "1.0 and 1.1",
        {"base_entry": False, "falling_epochs": False, "numbered": _FAMILY},
    ),
    (
        "0.11",
        "0.11",
        {
            "missing_index_rebuilt": True,
            "numbered": _LOGS,
            "checkpoint": "empty",
            "deleting_loaded": True,
            "states": _STATES[:1],
        },
    ),
    (
        "0.10",
        "0.10.1 and 0.10.2",
        {"epochs": None, "producers": False, "newest_magic": 1},
    ),
    ("0.10.0", "0.10.0", {}),
    (
        "0.9",
        "0.9",
        {"missing_index_rebuilt": False, "strict_sizes": False, "states": (), "newest_magic": 0},
    ),
    ("0.8", "0.8.2", {"corrupt_index_stops": True, "missing_index_rebuilt": True}),
)
"""Name, versions of Kafka, and the differences from the next newer rule."""


def _rules() -> Iterator[StartRule]:
    """Yield all rules, newest first."""
    yield (rule := NEWEST)
    for name, kafka, differences in _OLDER:
        yield (rule := replace(rule, name=name, kafka=kafka, **differences))


START_RULES: Final = {rule.name: rule for rule in _rules()}
"""By name, newest first."""


def start_rule(kafka: str) -> StartRule:
    """Return the rule of a release such as `4.3` or `2.8.2`.

    Raises UsageError for any other, with the known ones.
    """
    try:
        return START_RULES[behaviour(kafka).start]
    except ValueError as e:
        raise UsageError(Flag("--kafka"), f" {e}") from None
