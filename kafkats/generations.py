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

from dataclasses import dataclass, replace
from typing import Final, Literal

INDEX_INTERVAL_BYTES: Final = 4096
"""Kafka's default of `index.interval.bytes`."""
SEGMENT_INDEX_BYTES: Final = 10 * 1024 * 1024
"""Kafka's default of `segment.index.bytes`."""
MAX_RELATIVE_OFFSET: Final = 2**31 - 1
NO_TIMESTAMP_EXTENDED: Final = -(2**63)
"""KIP-228's value for "no timestamp"."""
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
"""The dialect of KIP-228's text, see formats/kip228.py."""
ENRICHED: Final = "enriched"
"""The dialect of the proposal of enriched metadata, see formats/enriched.py."""
DIALECTS: Final = (ENRICHED, KIP228)
"""Formats that were proposed and never shipped. They are named with `--dialect`, never guessed:
their bytes are legal in the format that shipped with the same magic, with other content.
"""
COMPRESSION_TYPES: Final = (PRODUCER, "none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Rule:
    """The rule by which one generation's recovery fills the indexes of a segment."""

    name: str
    kafka: str
    first_offset: bool
    """The offset index carries the first offset of the batch, not the last."""
    next_offset: bool
    """Time entries carry the log's next offset, the last one the next segment's base offset."""
    mtime_entry: bool
    """A segment without timestamps gets the entry (mtime, next base offset)."""
    for_brokers: bool
    """Whether the index may be written where a broker reads it."""


RULES: Final = {
    r.name: r
    for r in (
        Rule(
            "last-offset",
            "2.0 and later",
            first_offset=False,
            next_offset=False,
            mtime_entry=False,
            for_brokers=True,
        ),
        Rule(
            "first-offset",
            "0.8 to 1.1",
            first_offset=True,
            next_offset=False,
            mtime_entry=False,
            for_brokers=True,
        ),
        Rule(
            "kip33",
            "KIP-33's text",
            first_offset=False,
            next_offset=True,
            mtime_entry=True,
            for_brokers=False,
        ),
    )
}
DEFAULT_RULE: Final = RULES["last-offset"]


@dataclass(frozen=True)
class RetentionRule:
    """The rule by which one generation selects segments to delete.

    Its passes run in order. Each deletes a prefix of the segments that are left.
    """

    name: str
    kafka: str
    passes: tuple[str, ...]
    timestamps: bool
    """A segment's age is that of its largest record timestamp, or of its file if it has none.

    Without this it is always that of its file.
    """
    high_watermark: bool
    """No segment is deleted that reaches beyond the high watermark."""
    index_rules: tuple[str, ...]
    """The RULES that its brokers may follow in recovery, the likely one first."""
    by_format: bool = False
    """Time indexes count only if message.format.version is 0.10 or later, or not given."""
    no_timestamp: int = -1
    """The largest number that is no timestamp."""


# KIP-33 gives a segment without timestamps the time of its file in three places (an entry of its
# own, or by default). 0.8 itself takes a retention.ms of -1 as a limit and deletes everything. Here
# -1 is no limit, as in 0.9 and later.
RETENTION_RULES: Final = {
    r.name: r
    for r in (
        RetentionRule(
            "3.0",
            "3.0 and later",
            ("start-offset", "size", "time"),
            timestamps=True,
            high_watermark=True,
            index_rules=("last-offset",),
        ),
        RetentionRule(
            "0.11",
            "0.11 to 2.8",
            ("time", "size", "start-offset"),
            timestamps=True,
            high_watermark=True,
            index_rules=("last-offset", "first-offset"),
        ),
        RetentionRule(
            "0.10.1",
            "0.10.1 and 0.10.2",
            ("time", "size"),
            timestamps=True,
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
            timestamps=True,
            high_watermark=False,
            index_rules=("last-offset", "first-offset"),
            by_format=True,
        ),
    )
}
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
    batches: bool
    """Each batch can get an index entry.

    Otherwise an append call is one unit with all its batches.
    """
    relative: bool
    """There is a time index, which can be full.

    An append must end less than 2^31 above the base offset.
    """
    begins_at_first: bool = True
    """A new segment begins at the first offset of its append, where that is known (2.0).

    Before, at the lowest possible one.
    """
    no_timestamp: int = -1
    """The largest number that is no timestamp."""


ROLL_RULES: Final = {
    r.name: r
    for r in (
        RollRule("4.1", "3.9.1, 4.0.1, 4.1 and later", "first-batch", batches=True, relative=True),
        RollRule("0.10.1", "0.10.1 to 3.9.0, 4.0.0", "first-append", batches=False, relative=True),
        RollRule("0.8", "0.8 to 0.10.0", "created", batches=False, relative=False),
        RollRule(
            "largest",
            "KIP-32, and the interface section of KIP-33",
            "largest",
            batches=False,
            relative=True,
        ),
    )
}
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
    log_start: bool
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


SEARCH_RULES: Final = {
    r.name: r
    for r in (
        SearchRule(
            "3.8",
            "3.8 and later",
            "record",
            (-1, -2, -3, -4, -5),
            log_start=True,
            warm_section=True,
            record_of_maximum=True,
        ),
        SearchRule(
            "3.0", "3.0 to 3.7", "record", (-1, -2, -3, -4), log_start=True, warm_section=True
        ),
        SearchRule("0.11", "0.11 to 2.8", "record", (-1, -2), log_start=True, warm_section=True),
        SearchRule("0.10.1", "0.10.1 and 0.10.2", "record", (-1, -2), log_start=False, strict=True),
        SearchRule(
            "0.8",
            "0.8 to 0.10.0, and ListOffsets v0 of 0.8 to 3.9",
            "segment",
            (-1, -2),
            log_start=True,
        ),
        SearchRule("kip33", "KIP-33's text", "entry", (-1, -2), log_start=True),
    )
}
DEFAULT_SEARCH_RULE: Final = SEARCH_RULES["3.8"]


@dataclass(frozen=True)
class LeaderRule:
    """The rule by which the leaders of one generation judge a message set before they append it."""

    name: str
    kafka: str
    magics: tuple[int, ...]
    """The formats that a topic can have."""
    bounds: bool
    """Two limits, before.max.ms and after.max.ms; otherwise one difference for both sides."""
    after_max_ms: int
    """Default of message.timestamp.after.max.ms, or of the difference."""
    untimed: bool
    """A record without a timestamp is in range."""
    stamped: bool
    """A CreateTime topic takes batches that are marked LogAppendTime, if their times are in range.
    """
    holes: Literal["renumbered", "rejected", "unread"]
    """Offsets in a compressed set that are not 0, 1, 2 ... become so, or the set is rejected.

    `unread`: only a batch of magic 2 that stays as it is, since its values were not read. Checked
    by the sources, and on Log of 2.3.1, 2.4.1, 2.5.0, 2.5.1, 2.6.0, and LogValidator of 2.8, 4.3.
    """
    record_of_maximum: bool
    """In an uncompressed set the largest timestamp is that of a record, not of a batch."""
    delete_horizon: bool
    """Bit 6 of a batch's attributes stays where its header is written anew (KIP-534)."""
    stamp_inner: bool
    """A wrapper that is built anew has the broker's time in its messages, too (0.11)."""
    built_last: bool
    """The largest timestamp of a rebuilt set under LogAppendTime is its last message's (0.10.2)."""
    out_of_range: str
    """The error for a timestamp out of range."""
    invalid: str
    """The error for a record or a header that breaks a rule.

    Up to 2.3 the exception for it was one of a corrupt record.
    """
    one_kind: bool
    """All batches of a set have one magic, and a compressed set is one batch (2.4).

    Before, such a set is built anew as one; uncompressed batches of the topic's magic stay as they
    are. Checked, like `invalid`, on Log of 1.1.1, 2.3.1 and 2.4.1.
    """
    dialect: str | None = None
    """One of DIALECTS: the format in which it writes, if it never shipped."""


_FOREVER: Final = 2**63 - 1
_LEADER_4_0: Final = LeaderRule(
    "4.0",
    "4.0 and later",
    (2,),
    bounds=True,
    after_max_ms=3_600_000,
    untimed=True,
    stamped=True,
    holes="unread",
    record_of_maximum=False,
    delete_horizon=True,
    stamp_inner=True,
    built_last=False,
    out_of_range="INVALID_TIMESTAMP",
    invalid="INVALID_RECORD",
    one_kind=True,
)
_LEADER_3_7: Final = replace(
    _LEADER_4_0, name="3.7", kafka="3.7 to 3.9", magics=(0, 1, 2), after_max_ms=_FOREVER
)
_LEADER_3_6: Final = replace(_LEADER_3_7, name="3.6", kafka="3.6", record_of_maximum=True)
_LEADER_3_1: Final = replace(
    _LEADER_3_6, name="3.1", kafka="3.1 to 3.5", bounds=False, stamped=False
)
_LEADER_2_6: Final = replace(_LEADER_3_1, name="2.6", kafka="2.6 to 3.0", delete_horizon=False)
_LEADER_2_5_1: Final = replace(_LEADER_2_6, name="2.5.1", kafka="2.5.1", holes="renumbered")
_LEADER_2_4: Final = replace(_LEADER_2_5_1, name="2.4", kafka="2.4 and 2.5.0", holes="rejected")
_LEADER_0_11: Final = replace(
    _LEADER_2_4,
    name="0.11",
    kafka="0.11 to 2.3",
    holes="renumbered",
    invalid="CORRUPT_MESSAGE",
    one_kind=False,
)
_LEADER_0_10_2: Final = replace(
    _LEADER_0_11,
    name="0.10.2",
    kafka="0.10.2",
    magics=(0, 1),
    untimed=False,
    stamp_inner=False,
    built_last=True,
)
_LEADER_0_10: Final = replace(
    _LEADER_0_10_2, name="0.10", kafka="0.10.0 and 0.10.1", built_last=False
)
_LEADER_0_8: Final = replace(_LEADER_0_10, name="0.8", kafka="0.8 and 0.9", magics=(0,))
_LEADER_KIP32: Final = replace(
    _LEADER_0_10,
    name="kip32",
    kafka="the texts of KIP-31 and KIP-32",
    untimed=True,
    out_of_range="TimestampExceededThresholdException",
)
_LEADER_KIP228: Final = replace(
    _LEADER_0_11, name=KIP228, kafka="the text of KIP-228", magics=(2,), dialect=KIP228
)
LEADER_RULES: Final = {
    r.name: r
    for r in (
        *(_LEADER_4_0, _LEADER_3_7, _LEADER_3_6, _LEADER_3_1, _LEADER_2_6, _LEADER_2_5_1),
        *(_LEADER_2_4, _LEADER_0_11, _LEADER_0_10_2, _LEADER_0_10, _LEADER_0_8),
        *(_LEADER_KIP32, _LEADER_KIP228),
    )
}
"""By name, newest first. Each rule names only its differences from the next newer one."""
