"""What differs between Kafka generations, and the dialects of the documents, as one frozen table.

A *rule* says which offset an index entry carries when a broker of that generation rebuilds it from the `.log`:

    last-offset    Kafka 2.0 and later (KAFKA-6530): offset of the last record of the batch. The default.
    first-offset   Kafka 0.8 to 1.1: offset of the first record (of a wrapper: the first inner message, decompressed).
    kip33          the text of KIP-33: time entries carry the *next* offset, the log's end when the entry is
                   inserted; an inactive segment without timestamps gets the one entry (mtime -> next base offset). For reading and reports: a broker, which searches with
                   >=, would start after the matching record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INDEX_INTERVAL_BYTES: Final = 4096
"""Kafka's default of `index.interval.bytes`."""
SEGMENT_INDEX_BYTES: Final = 10 * 1024 * 1024
"""Kafka's default of `segment.index.bytes`."""
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
PRODUCER: Final = "producer"
"""Of `compression.type`: every batch keeps its own codec."""
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
"""What an older message format cannot carry (formats/losses.py explains each), as the words of `--accept-loss`."""
ALL_LOSSES: Final = "all"
"""Everything of LOSSES; not OFFSETS_LOSS, which has to be named."""
OFFSETS_LOSS: Final = "offsets"
"""Records that are missing already (`missing-records`), as a word of `--accept-loss`: the partition is changed all the same."""
COMPRESSION_TYPES: Final = (PRODUCER, "none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Rule:
    """How one generation's recovery fills the indexes of a segment."""

    name: str
    kafka: str
    first_offset: bool
    """The offset index carries the first offset of the batch, not the last."""
    next_offset: bool
    """Time entries carry the log's next offset at the moment of inserting; the closing one the next segment's base."""
    mtime_entry: bool
    """A segment without timestamps gets the entry (mtime, next base offset)."""
    for_brokers: bool
    """May be written where a broker reads."""


RULES: Final = {
    r.name: r
    for r in (
        Rule(
            "last-offset", "2.0 and later", first_offset=False, next_offset=False, mtime_entry=False, for_brokers=True
        ),
        Rule("first-offset", "0.8 to 1.1", first_offset=True, next_offset=False, mtime_entry=False, for_brokers=True),
        Rule("kip33", "KIP-33's text", first_offset=False, next_offset=True, mtime_entry=True, for_brokers=False),
    )
}
DEFAULT_RULE: Final = RULES["last-offset"]


@dataclass(frozen=True)
class RetentionRule:
    """How one generation decides which segments to delete: passes in order, each over a prefix of what is left."""

    name: str
    kafka: str
    passes: tuple[str, ...]
    timestamps: bool
    """A segment's age is that of its largest record timestamp, and that of its file only when it has none; otherwise always that of its file."""
    high_watermark: bool
    """Nothing that reaches beyond the high watermark goes."""
    index_rules: tuple[str, ...]
    """Whose recovery (RULES) its brokers have, the likely one first."""
    by_format: bool = False
    """Timestamps of time indexes are loaded only where the topic's message.format.version has them (0.10 and later, or not given)."""


# KIP-33 gives a segment without timestamps the time of its file in three places (an entry of its own, or by default).
# 0.8 itself takes a retention.ms of -1 for a limit, and deletes everything; here, as from 0.9 on, it is none.
RETENTION_RULES: Final = {
    r.name: r
    for r in (
        RetentionRule("3.0", "3.0 and later", ("start-offset", "size", "time"), timestamps=True, high_watermark=True, index_rules=("last-offset",)),
        RetentionRule("0.11", "0.11 to 2.8", ("time", "size", "start-offset"), timestamps=True, high_watermark=True, index_rules=("last-offset", "first-offset")),
        RetentionRule("0.10.1", "0.10.1 and 0.10.2", ("time", "size"), timestamps=True, high_watermark=False, index_rules=("first-offset",)),
        RetentionRule("0.8", "0.8 to 0.10.0", ("time", "size"), timestamps=False, high_watermark=False, index_rules=("first-offset",)),
        RetentionRule("kip33", "KIP-33's text", ("time", "size"), timestamps=True, high_watermark=False, index_rules=("last-offset", "first-offset"), by_format=True),
    )
}  # fmt: skip
DEFAULT_RETENTION_RULE: Final = RETENTION_RULES["3.0"]


def rule_remarks(rule: str) -> list[str]:
    """What somebody should know who chooses this one of RETENTION_RULES. Raises KeyError."""
    chosen = RETENTION_RULES[rule]
    if chosen.high_watermark:
        return []
    return [f"by rule {rule} ({chosen.kafka}) segments above the high watermark go, too: replicas need not have them"]


@dataclass(frozen=True)
class RollRule:
    """How one generation decides, before each append, that a new segment begins."""

    name: str
    kafka: str
    since: str
    """What segment.ms counts from, up to the append's largest timestamp: `first-batch` or `first-append`, by their largest timestamps.
    Without one, and always with `created`, from when the segment was made up to the broker's clock; with `largest` from the
    largest timestamp so far up to the broker's clock."""
    batches: bool
    """Each batch can get an index entry; otherwise one append call is one unit, however many batches it brings."""
    relative: bool
    """There is a time index, which can be full, and nothing is appended that lies 2^31 or more above the base offset."""


ROLL_RULES: Final = {
    r.name: r
    for r in (
        RollRule("4.1", "3.9.1, 4.0.1, 4.1 and later", "first-batch", batches=True, relative=True),
        RollRule("0.10.1", "0.10.1 to 3.9.0, 4.0.0", "first-append", batches=False, relative=True),
        RollRule("0.8", "0.8 to 0.10.0", "created", batches=False, relative=False),
        RollRule("largest", "KIP-32, and the interface section of KIP-33", "largest", batches=False, relative=True),
    )
}
DEFAULT_ROLL_RULE: Final = ROLL_RULES["4.1"]


@dataclass(frozen=True)
class SearchRule:
    """How one generation answers "which offset was it at this time?" (ListOffsets)."""

    name: str
    kafka: str
    unit: str
    """What it finds: a record, an entry of the time index, or no more than a segment."""
    specials: tuple[int, ...]
    """Negative times that are words: -1 latest, -2 earliest, -3 maximum timestamp, -4 earliest local, -5 latest tiered; any other is a time."""
    log_start: bool
    """Records below the log start offset do not count."""
    strict: bool
    """A compressed batch that promises a later time than its records have is an error; since 0.11 it is passed over."""
    warm_section: bool
    """The last 8192 bytes of an index are searched first (KAFKA-6432, 2.1): tells where an index is not in order."""
    record_of_maximum: bool
    """-3 finds the record that holds it (KAFKA-16342), not the last offset of its batch."""


SEARCH_RULES: Final = {
    r.name: r
    for r in (
        SearchRule("3.8", "3.8 and later", "record", (-1, -2, -3, -4, -5), log_start=True, strict=False, warm_section=True, record_of_maximum=True),
        SearchRule("3.0", "3.0 to 3.7", "record", (-1, -2, -3, -4), log_start=True, strict=False, warm_section=True, record_of_maximum=False),
        SearchRule("0.11", "0.11 to 2.8", "record", (-1, -2), log_start=True, strict=False, warm_section=True, record_of_maximum=False),
        SearchRule("0.10.1", "0.10.1 and 0.10.2", "record", (-1, -2), log_start=False, strict=True, warm_section=False, record_of_maximum=False),
        SearchRule("0.8", "0.8 to 0.10.0, and ListOffsets v0 of 0.8 to 3.9", "segment", (-1, -2), log_start=True, strict=False, warm_section=False, record_of_maximum=False),
        SearchRule("kip33", "KIP-33's text", "entry", (-1, -2), log_start=True, strict=False, warm_section=False, record_of_maximum=False),
    )
}  # fmt: skip
DEFAULT_SEARCH_RULE: Final = SEARCH_RULES["3.8"]
