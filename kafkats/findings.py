"""The kinds of findings in a log directory, each with a severity.

danger   a broker that starts on this loses or reuses offsets silently
damage   a file that Kafka reads here contradicts the log
remark   differs from what was expected, and is harmless
state    normal while a broker runs or after it was killed
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkats.errors import KafkatsError, Vanished

SEVERITIES: Final = ("state", "remark", "damage", "danger")
"""All severities, from harmless to worst, as JSON, tables and metrics have them."""
DEFECTS: Final = SEVERITIES[2:]
"""The severities of what is wrong."""


def severity_word(severity: str) -> str:
    """Return the word that people read: `state` is a note."""
    return "note" if severity == "state" else severity


_TEXTS: Final[dict[str, dict[str, str]]] = {
    "state": {
        "end-not-flushed": "after an unclean stop the log ends below what files know of: it had"
        " not been flushed",
        "cannot-be-told": "no file tells whether records are missing here",
        "transient": "left by a broker at work: .deleted, .cleaned, .swap, -delete, -future,"
        " -stray",
        "vanished": "went away while we looked",
        "preallocated": "the active segment's files are preallocated while a broker runs, and"
        " after kill -9",
        "moving-tail": "the log grew while we looked, or its last batch is being written",
    },
    "remark": {
        "other-rule": "sound, but equal to another generation's rebuild",
        "no-entries": "an offset index without entries, where a rebuild gives some",
        "other-interval": "sound, and denser than the index.interval.bytes that was given",
        "sound": "sound, but not equal to a rebuild",
        "timestamps-not-in-log": "timestamps beside a magic-0 log: taken from the messages before"
        " 0.10 stripped them",
        "negative-timestamps": "records from before 1970, and none later: no time index has them",
        "stray": "a file or directory that Kafka does not know",
    },
    "damage": {
        "segments-deleted": "a start deletes segments: they lie behind a corrupt batch, or the log"
        " ends below its log start offset",
        "hole-cut": "a start cuts a corrupt batch and what follows from a segment, and keeps the"
        " later segments",
        "torn-tail": "the last batch is incomplete",
        "zero-tail": "zeros after the last batch, or a preallocated file never cut to size",
        "bad-length": "a batch's size field is impossible",
        "bad-magic": "a batch of an unknown format",
        "bad-crc": "a batch's checksum does not match its bytes",
        "bad-header": "a batch's header contradicts itself",
        "offsets-not-increasing": "a batch begins at or below the last offset of the batch before",
        "offset-out-of-range": "an offset below the segment's base, or more than 2^31-1 above it",
        "undecodable": "records that do not decode",
        "oversized": "a batch that decompresses to more than --max-batch-bytes allows: its records"
        " were not looked at",
        "wrong-maximum": "a batch's maximum timestamp is not its records' maximum",
        "overlap": "a segment ends above the base offset of the next one",
        "wrong-epoch": "a batch's leader epoch is not what leader-epoch-checkpoint, or the batches"
        " before, say",
        "missing-index": "the file does not exist",
        "empty-index": "no entries though the log has timestamps",
        "zero-entries": "zeros in place of entries, or a preallocated file never cut to size",
        "partial-entry": "the length is not a whole number of entries",
        "not-monotonic": "an entry does not lie above the one before",
        "below-base": "an entry's offset lies below the segment's base offset",
        "beyond-end": "an entry points behind the end of the log",
        "not-in-log": "an entry misleads: what it says is not true of the log",
        "below-maximum": "the last timestamp is below the log's maximum",
        "above-maximum": "the last timestamp is above the log's maximum",
        "index-full": "a rebuild needs more entries than segment.index.bytes allows: recovery"
        " would fail",
        "missing-aborted": "aborted transactions are not in the .txnindex: read_committed shows"
        " their records",
        "wrong-aborted": "a .txnindex entry contradicts the log",
        "wrong-producers": "a producer snapshot contradicts the log: it is another partition's, or"
        " was changed",
        "producers-forgotten": "a start after a clean stop without any producer snapshot: the"
        " state of producers begins empty",
        "orphan": "an index or snapshot without its log",
        "stops-the-broker": "a name that a broker refuses to start with",
        "unreadable": "could not be read",
    },
    "danger": {
        "torn-tail-marked-clean": "torn tail beside a clean-shutdown marker: the next start moves"
        " the log end back and reuses offsets, or appends behind the tail, where no reader finds"
        " the records",
        "end-moved-back": "a start after a clean stop takes a log end below the last batch from an"
        " index that misleads: offsets are given out twice",
        "unknown-magic": "a batch has a magic byte above 2 and a correct checksum, which does not"
        " cover that byte: brokers keep the batch, and followers and consumers fail there",
        "bad-offset": "a batch ends above offset 2^63-2: a broker that starts on it deletes the"
        " partition's segments",
        "missing-records": "records are missing that files of the log directory know of",
        "missing-partition": "a partition's directory is gone, and checkpoints say that it held"
        " records",
        "gap-not-flushed": "an unclean stop lost records between two segments: a start keeps the"
        " later one, and the gap is never filled",
    },
}
KINDS: Final = {
    kind: (severity, text) for severity, texts in _TEXTS.items() for kind, text in texts.items()
}
"""The severity and the text of each kind."""

BY_ENDS: Final = frozenset({
    "missing-index", "empty-index", "partial-entry", "zero-entries", "orphan",
})  # fmt: skip
"""Kinds that a look at the ends of files finds as surely as one at whole files."""


class Remedy(NamedTuple):
    """The consequence of some kinds of defects if nothing is done, and the next step."""

    kinds: tuple[str, ...]
    consequence: str
    step: str


_REPLICA: Final = "take the partition from a replica"
REBUILD: Final = "rebuild it: rebuild_time_indexes, or kafkats plan rebuild"
"""The step for damaged indexes: the only one that a DAG does."""
NOTHING: Final = "nothing has to be done"
REMEDIES: Final = (
    Remedy(
        ("torn-tail-marked-clean", "end-moved-back"),
        "a start gives out offsets a second time, or appends records where no reader finds them",
        "keep the broker from starting; kafkats plan recover cuts a torn tail; otherwise remove"
        " .kafka_cleanshutdown and verify again",
    ),
    Remedy(
        ("gap-not-flushed",),
        "a start keeps the later segment, and a follower fetches from the log end: the gap stays",
        "if another in-sync replica leads, set the directory aside, so that it is fetched again; on"
        " the only replica, kafkats plan recover --accept-loss offsets",
    ),
    Remedy(
        ("missing-records", "missing-partition"),
        "a start takes the rest for the whole log: it gives out lost offsets again, and followers"
        " truncate theirs",
        f"keep the broker from starting; put the files back, or {_REPLICA}",
    ),
    Remedy(
        ("bad-offset",),
        "a start deletes every segment of the partition",
        f"keep the broker from starting; {_REPLICA}",
    ),
    Remedy(
        ("unknown-magic",),
        "followers and consumers fail at this batch; its records are whole",
        "kafkats plan recover --mend-magic writes magic 2 there; then plan recover again",
    ),
    Remedy(
        (
            "bad-length", "bad-magic", "bad-crc", "bad-header", "offsets-not-increasing",
            "offset-out-of-range", "undecodable", "overlap", "torn-tail", "zero-tail",
            "segments-deleted", "hole-cut",
        ),
        "a recovery that reads this segment truncates the log there, and may delete the later"
        " segments",
        _REPLICA,
    ),
    Remedy(
        ("wrong-maximum", "wrong-epoch"),
        "the batch or a checkpoint was changed: times or epochs mislead",
        _REPLICA,
    ),
    Remedy(
        ("oversized",),
        "the records of the batch were not checked",
        "verify again with a larger --max-batch-bytes",
    ),
    Remedy(
        (
            "missing-index", "empty-index", "zero-entries", "partial-entry", "not-monotonic",
            "below-base", "beyond-end", "not-in-log", "below-maximum", "above-maximum",
        ),
        "of a .timeindex: retention by time deletes the segment too early or never, and searches by"
        " time miss records; of an .index: reads begin in the wrong place, miss records, or fail",
        REBUILD,
    ),
    Remedy(
        ("index-full",),
        "a recovery of the segment fails",
        "raise segment.index.bytes in Kafka and in the policy, then rebuild",
    ),
    Remedy(
        ("missing-aborted", "wrong-aborted"),
        "consumers with read_committed get aborted records, or miss committed ones",
        f"have the broker rebuild the file, or {_REPLICA}",
    ),
    Remedy(
        ("wrong-producers", "producers-forgotten"),
        "the broker may accept a duplicate, or refuse good batches",
        f"have the broker rebuild the file, or {_REPLICA}",
    ),
    Remedy(
        ("stops-the-broker", "unreadable"),
        "the broker refuses to start, or does not read it",
        "move it out of the log directory, or give permission to read it",
    ),
    Remedy(("orphan",), "a broker deletes it at its next start", NOTHING),
)  # fmt: skip
"""Every kind of danger and damage is in one of them."""


HARMLESS: Final = frozenset(kind for one in REMEDIES for kind in one.kinds if one.step == NOTHING)
"""Kinds of damage for which a person does nothing. Pages and metrics do not count them."""


def remedy_of(kind: str) -> Remedy | None:
    """Return the remedy of a kind; None for a remark, a state, or an unknown kind."""
    return next((one for one in REMEDIES if kind in one.kinds), None)


class Finding(NamedTuple):
    """One finding in one file.

    `position` is a byte in `file` (-1: the file as a whole). `entry` is the number of an index
    entry (-1: none). `expected` and `found` are short texts for people.
    """

    kind: str
    file: str
    reason: str
    position: int = -1
    entry: int = -1
    expected: str = ""
    found: str = ""

    @property
    def severity(self) -> str:
        return KINDS[self.kind][0]


def missing_index(file: str) -> Finding:
    """Return the finding for an index that the log should have."""
    return Finding("missing-index", file, KINDS["missing-index"][1])


def partial_entry(file: str, size: int, entry_size: int) -> Finding:
    """Return the finding for an index of `size` bytes, not a multiple of `entry_size`."""
    reason = f"{size} bytes are not a whole number of entries of {entry_size}"
    return Finding("partial-entry", file, reason, size - size % entry_size, size // entry_size)


def unknown_magic(file: str, position: int) -> Finding:
    """Return the finding for a whole batch at byte `position` whose magic is above 2."""
    reason = (
        f"the batch at byte {position} has a magic byte above 2 and a correct checksum: brokers"
        " keep it, and followers and consumers fail there"
    )
    return Finding("unknown-magic", file, reason, position)


def failure(file: str, error: KafkatsError) -> Finding:
    """Return the finding for a file that failed with `error`: `vanished` or `unreadable`."""
    if isinstance(error, Vanished):
        return Finding("vanished", file, error.reason)
    return Finding(
        "unreadable", file, error.reason, -1 if error.position is None else error.position
    )


def worst(findings: Iterable[Finding]) -> str:
    """Return the worst severity among `findings`, "" when there is none."""
    ranks = [SEVERITIES.index(f.severity) for f in findings]
    return SEVERITIES[max(ranks)] if ranks else ""
