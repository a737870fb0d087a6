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


def severity_word(severity: str) -> str:
    """Return the word that people read: `state` is a note."""
    return "note" if severity == "state" else severity


KINDS: Final[dict[str, tuple[str, str]]] = {
    # the .log
    "torn-tail-marked-clean": (
        "danger",
        "torn tail beside a clean-shutdown marker: the next start moves the log end back and"
        " reuses offsets, or appends behind the tail, where no reader finds the records",
    ),
    "end-moved-back": (
        "danger",
        "a start after a clean stop takes a log end below the last batch from an index that"
        " misleads: offsets are given out twice",
    ),
    "segments-deleted": (
        "damage",
        "a start deletes segments: they lie behind a corrupt batch, or the log ends below its log"
        " start offset",
    ),
    "hole-cut": (
        "damage",
        "a start cuts a corrupt batch and what follows from a segment, and keeps the later"
        " segments",
    ),
    "torn-tail": ("damage", "the last batch is incomplete"),
    "zero-tail": ("damage", "zeros after the last batch, or a preallocated file never cut to size"),
    "bad-length": ("damage", "a batch's size field is impossible"),
    "bad-magic": ("damage", "a batch of an unknown format"),
    "unknown-magic": (
        "danger",
        "a batch has a magic byte above 2 and a correct checksum, which does not cover that byte:"
        " brokers keep the batch, and followers and consumers fail there",
    ),
    "bad-crc": ("damage", "a batch's checksum does not match its bytes"),
    "bad-offset": (
        "danger",
        "a batch ends above offset 2^63-2: a broker that starts on it deletes the partition's"
        " segments",
    ),
    "bad-header": ("damage", "a batch's header contradicts itself"),
    "offsets-not-increasing": (
        "damage",
        "a batch begins at or below the last offset of the batch before",
    ),
    "offset-out-of-range": (
        "damage",
        "an offset below the segment's base, or more than 2^31-1 above it",
    ),
    "undecodable": ("damage", "records that do not decode"),
    "oversized": (
        "damage",
        "a batch that decompresses to more than --max-batch-bytes allows: its records were not"
        " looked at",
    ),
    "wrong-maximum": ("damage", "a batch's maximum timestamp is not its records' maximum"),
    "overlap": ("damage", "a segment ends above the base offset of the next one"),
    "wrong-epoch": (
        "damage",
        "a batch's leader epoch is not what leader-epoch-checkpoint, or the batches before, say",
    ),
    # .index and .timeindex
    "missing-index": ("damage", "the file does not exist"),
    "empty-index": ("damage", "no entries though the log has timestamps"),
    "zero-entries": (
        "damage",
        "zeros in place of entries, or a preallocated file never cut to size",
    ),
    "partial-entry": ("damage", "the length is not a whole number of entries"),
    "not-monotonic": ("damage", "an entry does not lie above the one before"),
    "below-base": ("damage", "an entry's offset lies below the segment's base offset"),
    "beyond-end": ("damage", "an entry points behind the end of the log"),
    "not-in-log": ("damage", "an entry misleads: what it says is not true of the log"),
    "below-maximum": ("damage", "the last timestamp is below the log's maximum"),
    "above-maximum": ("damage", "the last timestamp is above the log's maximum"),
    "index-full": (
        "damage",
        "a rebuild needs more entries than segment.index.bytes allows: recovery would fail",
    ),
    "other-rule": ("remark", "sound, but equal to another generation's rebuild"),
    "no-entries": ("remark", "an offset index without entries, where a rebuild gives some"),
    "other-interval": ("remark", "sound, and denser than the index.interval.bytes that was given"),
    "sound": ("remark", "sound, but not equal to a rebuild"),
    "timestamps-not-in-log": (
        "remark",
        "timestamps beside a magic-0 log: taken from the messages before 0.10 stripped them",
    ),
    "negative-timestamps": (
        "remark",
        "records from before 1970, and none later: no time index has them",
    ),
    # .txnindex and .snapshot
    "missing-aborted": (
        "damage",
        "aborted transactions are not in the .txnindex: read_committed shows their records",
    ),
    "wrong-aborted": ("damage", "a .txnindex entry contradicts the log"),
    "wrong-producers": (
        "damage",
        "a producer snapshot contradicts the log: it is another partition's, or was changed",
    ),
    "producers-forgotten": (
        "damage",
        "a start after a clean stop without any producer snapshot: the state of producers begins"
        " empty",
    ),
    # the partition as a whole
    "missing-records": ("danger", "records are missing that files of the log directory know of"),
    "missing-partition": (
        "danger",
        "a partition's directory is gone, and checkpoints say that it held records",
    ),
    "end-not-flushed": (
        "state",
        "after an unclean stop the log ends below what files know of: it had not been flushed",
    ),
    "gap-not-flushed": (
        "danger",
        "an unclean stop lost records between two segments: a start keeps the later one, and the"
        " gap is never filled",
    ),
    "cannot-be-told": ("state", "no file tells whether records are missing here"),
    # the directory
    "orphan": ("damage", "an index or snapshot without its log"),
    "stray": ("remark", "a file or directory that Kafka does not know"),
    "stops-the-broker": ("damage", "a name that a broker refuses to start with"),
    "transient": (
        "state",
        "left by a broker at work: .deleted, .cleaned, .swap, -delete, -future, -stray",
    ),
    "unreadable": ("damage", "could not be read"),
    "vanished": ("state", "went away while we looked"),
    "preallocated": (
        "state",
        "the active segment's files are preallocated while a broker runs, and after kill -9",
    ),
    "moving-tail": ("state", "the log grew while we looked, or its last batch is being written"),
}


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
    Remedy(("orphan",), "a broker deletes it at its next start", "nothing has to be done"),
)  # fmt: skip
"""Every kind of danger and damage is in one of them."""


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
