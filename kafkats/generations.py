"""The differences between Kafka generations, and the rules of KIP texts, as frozen tables.

A *rule* says which offset an index entry carries when a broker of that generation rebuilds it from
the `.log`:

    last-offset    Kafka 2.0 and later (KAFKA-6530): offset of the last record of the batch.
                   The default.
    first-offset   Kafka 0.8 to 1.1: offset of the first record (of a wrapper: the first inner
                   message, decompressed).
    kip33          the text of KIP-33: time entries carry the *next* offset, the log's end when the
                   entry is inserted. An inactive segment without timestamps gets one entry
                   (mtime -> next base offset). For reading and reports only: a broker searches
                   with >= and would start after the matching record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

INDEX_INTERVAL_BYTES: Final = 4096
"""Kafka's default of `index.interval.bytes`."""
SEGMENT_INDEX_BYTES: Final = 10 * 1024 * 1024
"""Kafka's default of `segment.index.bytes`."""
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
PRODUCER: Final = "producer"
"""Value of `compression.type`: every batch keeps its own codec."""
LOSSES: Final = (
    "headers",
    "timestamps",
    "transactions",
    "control",
    "aborted-visible",
    "idempotence",
    "delete-horizon",
    "leader-epochs",
)
"""What older message formats cannot carry (see formats/losses.py): values of `--accept-loss`."""
ALL_LOSSES: Final = "all"
"""All of LOSSES, but not OFFSETS_LOSS, which must be named."""
OFFSETS_LOSS: Final = "offsets"
"""Value of `--accept-loss` that allows changes to partitions with `missing-records`."""
KIP228: Final = "kip228"
"""The dialect of KIP-228's text, see kafkats_model/formats/kip228.py."""
ENRICHED: Final = "enriched"
"""The dialect of the proposal of enriched metadata, see kafkats_model/formats/enriched.py."""
DIALECTS: Final = (ENRICHED, KIP228)
"""Formats that were proposed and never shipped. They are named with `--dialect`, never guessed:
their bytes are legal in the format that shipped with the same magic, with other content.
"""
COMPRESSION_TYPES: Final = (PRODUCER, "none", "gzip", "snappy", "lz4", "zstd")


class _Named(Protocol):
    @property
    def name(self) -> str: ...


R = TypeVar("R", bound=_Named)


def _by_name(*rules: R) -> dict[str, R]:
    return {rule.name: rule for rule in rules}


@dataclass(frozen=True)
class Rule:
    """The rule by which one generation's recovery fills the indexes of a segment."""

    name: str
    kafka: str
    first_offset: bool = False
    """The offset index carries the first offset of the batch, not the last."""
    next_offset: bool = False
    """Time entries carry the log's next offset, the last one the next segment's base offset."""
    mtime_entry: bool = False
    """A segment without timestamps gets the entry (mtime, next base offset)."""
    for_brokers: bool = True
    """Whether the index may be written where a broker reads it."""


RULES: Final = _by_name(
    Rule("last-offset", "2.0 and later"),
    Rule("first-offset", "0.8 to 1.1", first_offset=True),
    Rule("kip33", "KIP-33's text", next_offset=True, mtime_entry=True, for_brokers=False),
)
DEFAULT_RULE: Final = RULES["last-offset"]


@dataclass(frozen=True)
class RetentionRule:
    """The rule by which one generation selects segments to delete.

    Its passes run in order. Each deletes a prefix of the segments that are left.
    """

    name: str
    kafka: str
    passes: tuple[str, ...]
    index_rules: tuple[str, ...]
    """The RULES that its brokers may follow in recovery, the likely one first."""
    timestamps: bool = True
    """A segment's age is that of its largest record timestamp, or of its file if it has none.

    Without this it is always that of its file.
    """
    high_watermark: bool = True
    """No segment is deleted that reaches beyond the high watermark."""
    by_format: bool = False
    """Time indexes count only if message.format.version is 0.10 or later, or not given."""
    no_timestamp: int = -1
    """The largest number that is no timestamp."""


# KIP-33 gives a segment without timestamps the time of its file in three places (an entry of its
# own, or by default). 0.8 itself takes a retention.ms of -1 as a limit and deletes everything. Here
# -1 is no limit, as in 0.9 and later.
RETENTION_RULES: Final = _by_name(
    RetentionRule(
        "3.0", "3.0 and later", ("start-offset", "size", "time"), index_rules=("last-offset",)
    ),
    RetentionRule(
        "0.11",
        "0.11 to 2.8",
        ("time", "size", "start-offset"),
        index_rules=("last-offset", "first-offset"),
    ),
    RetentionRule(
        "0.10.1",
        "0.10.1 and 0.10.2",
        ("time", "size"),
        high_watermark=False,
        index_rules=("first-offset",),
    ),
    RetentionRule(
        "0.8",
        "0.8 to 0.10.0",
        ("time", "size"),
        timestamps=False,
        high_watermark=False,
        index_rules=("first-offset",),
    ),
    RetentionRule(
        "kip33",
        "KIP-33's text",
        ("time", "size"),
        high_watermark=False,
        index_rules=("last-offset", "first-offset"),
        by_format=True,
    ),
)
DEFAULT_RETENTION_RULE: Final = RETENTION_RULES["3.0"]


def rule_remarks(rule: str) -> list[str]:
    """Return warnings for whoever chooses this one of RETENTION_RULES. Raises KeyError."""
    chosen = RETENTION_RULES[rule]
    if chosen.high_watermark:
        return []
    return [
        f"rule {rule} ({chosen.kafka}) also deletes segments above the high watermark, which other"
        " replicas may lack"
    ]


@dataclass(frozen=True)
class RollRule:
    """The rule by which one generation begins a new segment, applied before each append."""

    name: str
    kafka: str
    since: str
    """The start of the time that segment.ms limits.

    `first-batch` and `first-append` count from their largest timestamp to the append's largest
    timestamp. `created` counts from the segment's creation to the broker's clock, and so do the
    others if the segment has no timestamp. `largest` counts from the largest timestamp so far to
    the broker's clock.
    """
    batches: bool = False
    """Each batch can get an index entry.

    Otherwise an append call is one unit with all its batches.
    """
    relative: bool = True
    """There is a time index, which can be full.

    An append must end less than 2^31 above the base offset.
    """
    begins_at_first: bool = True
    """A new segment begins at the first offset of its append, where that is known (2.0).

    Before, at the lowest possible one.
    """
    no_timestamp: int = -1
    """The largest number that is no timestamp."""


ROLL_RULES: Final = _by_name(
    RollRule("4.1", "3.9.1, 4.0.1, 4.1 and later", "first-batch", batches=True),
    RollRule("0.10.1", "0.10.1 to 3.9.0, 4.0.0", "first-append"),
    RollRule("0.8", "0.8 to 0.10.0", "created", relative=False),
    RollRule("largest", "KIP-32, and the interface section of KIP-33", "largest"),
)
DEFAULT_ROLL_RULE: Final = ROLL_RULES["4.1"]


@dataclass(frozen=True)
class SearchRule:
    """The rule by which one generation finds the offset at a time (ListOffsets)."""

    name: str
    kafka: str
    unit: str
    """What it finds: a record, an entry of the time index, or only a segment."""
    specials: tuple[int, ...]
    """Negative times that are words; any other is a time.

    -1 latest, -2 earliest, -3 maximum timestamp, -4 earliest local, -5 latest tiered.
    """
    log_start: bool = True
    """Records below the log start offset do not count."""
    strict: bool = False
    """A compressed batch whose records do not reach its maximum timestamp is an error.

    0.11+ skips it.
    """
    warm_section: bool = False
    """The last 8192 bytes of an index are searched first (KAFKA-6432, 2.1).

    Matters if it is not in order.
    """
    record_of_maximum: bool = False
    """-3 finds the record with the maximum (KAFKA-16342), not the last offset of its batch."""


SEARCH_RULES: Final = _by_name(
    SearchRule(
        "3.8",
        "3.8 and later",
        "record",
        (-1, -2, -3, -4, -5),
        warm_section=True,
        record_of_maximum=True,
    ),
    SearchRule("3.0", "3.0 to 3.7", "record", (-1, -2, -3, -4), warm_section=True),
    SearchRule("0.11", "0.11 to 2.8", "record", (-1, -2), warm_section=True),
    SearchRule("0.10.1", "0.10.1 and 0.10.2", "record", (-1, -2), log_start=False, strict=True),
    SearchRule("0.8", "0.8 to 0.10.0, and ListOffsets v0 of 0.8 to 3.9", "segment", (-1, -2)),
    SearchRule("kip33", "KIP-33's text", "entry", (-1, -2)),
)
DEFAULT_SEARCH_RULE: Final = SEARCH_RULES["3.8"]
