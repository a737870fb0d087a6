"""Differences between two commits that are wanted, each with its reason."""

from __future__ import annotations

from typing import Final

RENAMED: Final[dict[str, str]] = {}
"""JSON keys and whole values, old -> new. A key that is renamed needs an alias where it is read."""

_FAR: Final = "a checkpoint far above all else that is known is likely wrong itself (one judgement of a log's end)"
_KNOWN: Final = "verify, preflight and plan recover have one judgement of a log's end, and count what lies below it"
_NEXT: Final = "after a recovery the next steps are preflight, the start, and purge"
_MARKER: Final = "the plan removes a marker that a torn tail makes untrue; then a broker recovers every partition, and so does the plan"
_TIMES: Final = "people read times as UTC text"
_TORN: Final = "a torn tail that a marker hides is a danger"
_CUT: Final = "a log that is cut in its last segment has no later ones"
_VERSION: Final = "plans and certificates hold the version, and so do their digests"
_STEPS: Final = "the next steps follow what was found"
_BARE: Final = "a bare number that can be seconds or milliseconds is refused"
_GAPS: Final = "preflight names the gaps between segments that a broker's start does not repair"

ALLOWED: Final[list[tuple[str, str]]] = [
    ("*: printed*summary.*: new", "a command's summary is also the result of the job of its name"),
    ("*: undo *: printed: * rows", "undo takes several runs, and ends with a summary"),
    (
        "*: roll*: apply*: * 0 != 1*",
        "an apply ends with the proof, which finds a corrupt log before the segment that was rolled",
    ),
    ("*: file.volumes.json: new", "a plan belongs to the volumes that were seen"),
    ("*recover*: file.recovery.parquet.*behind_high_watermark: new", _KNOWN),
    ("*recover*: file.recovery.parquet.*known_end: new", _KNOWN),
    ("*recover*: file.recovery.parquet.*lost: new", _KNOWN),
    ("*recover*: *behind_high_watermark: * != *", _KNOWN),
    ("*preflight*: *.behind_high_watermark: new", _KNOWN),
    ("*preflight*: *.zero_bytes: new", _KNOWN),
    ("dags: *.params.mend_magic: new", "plan recover mends whole batches of an unknown magic"),
    ("*preflight*: *.known_end: * != *", _KNOWN),
    ("clean-start-*: *plan recover kafka*", _MARKER),
    (
        "clean-start-*recover*: * the marker is not true, but without it a broker recovers *",
        _MARKER,
    ),
    ("*: *'offsets * but *-checkpoint says *' != 'offsets * but *index says *'", _KNOWN),
    ("*preflight*: *.findings: ? != ? rows", _GAPS),
    ("*preflight*: *.findings.*: new", _GAPS),
    ("*preflight*: *: new *: offset* missing: the log ends at offset *", _GAPS),
    ("*preflight*: *: new *lost at least: offset*", _GAPS),
    ("*preflight*: *: new 'next: kafkats plan recover *", _GAPS),
    ("*recover*: *.remarks: new '*: offset * is missing: the log ends at offset *", _GAPS),
    ("*recover*: *: new '*: offset * is missing: the log ends at offset *", _GAPS),
    ("*recover said: printed: gone 'blocked *: offset * is missing: *", _GAPS),
    ("*wrong preflight: error: * '--kafka'*.\" != *", "a missing option is explained"),
    ("*preflight*: *: new '*: log * to *, high watermark *'", _GAPS),
    ("*preflight*: *: gone '  lost at least: offsets *", _FAR),
    ("*preflight said 0.10.2: printed: '  cuts * from * partitions' != *", _KNOWN),
    ("*recover*: *: new *: a broker's start ends the log at *, below its high watermark *", _KNOWN),
    ("*recover*: *: new *far above all else that is known: *", _FAR),
    ("*recover* files: file.recovery.parquet.rows*.log_end: * != *", _KNOWN),
    ("*recover*: '* logs will end below the high watermark: * != '* logs will end below *", _KNOWN),
    ("*preflight*: *.cut_bytes: *", _KNOWN),
    ("*preflight*: *.lost_offsets: *", _KNOWN),
    ("*preflight*: *.partitions_with_loss: *", _KNOWN),
    ("*preflight*: *new * offsets * are missing: *", _GAPS),
    ('*preflight*: *new "A recovery by kafkats keeps what it cuts until purge, *', _NEXT),
    ("*recover*: printed: *: apply needs * of free space*", "a plan's space counts the cut tails"),
    ("*recover*: apply*: printed: gone 'next: kafkats undo *", _NEXT),
    ("*recover*: apply*: printed: new 'next: restore the blocked *", _NEXT),
    ("*recover*: apply*: printed: new 'then: kafkats preflight *", _NEXT),
    ("*recover*: apply*: printed: new 'before that start: kafkats undo *", _NEXT),
    ("*recover*: apply*: printed: new 'when the broker serves again: kafkats purge *", _NEXT),
    ("*: lookup said: printed: '*", _TIMES),
    ("*: lookup*: printed[[]*[]].t*: new", _TIMES),
    ("*: inventory said: printed: '*", _TIMES),
    ("*: *.worst: 'damage' != 'danger'", _TORN),
    ("*: *.kinds.torn-tail: *", _TORN),
    ("*: *.severities.da*: *", _TORN),
    ("*: *printed: gone 'next: *", _STEPS),
    ("*: *printed: new 'next: *", _STEPS),
    ("*: *printed: new 'then: *", _STEPS),
    ("*: *.said: new 'next: *", _STEPS),
    ("*: verify said: printed: 'next: * != 'next: *", _STEPS),
    ('*: preflight said *: gone "A recovery by kafkats keeps what it cuts until purge, *', _STEPS),
    ("*: *plan retain last*", "--generation takes every release that has this rule"),
    ("*: *reason: * and delete 0 later segments (0 bytes)* != *", _CUT),
    ("*: show *: *and delete 0 later segments (0 bytes)* != *", _CUT),
    ("*: *: printed: 'next: kafkats plan rebuild * != 'next: kafkats plan recover *", _STEPS),
    ("*: *: printed: new '* was not stopped cleanly: its next start recovers such logs'", _STEPS),
    ("*: job table*", _BARE),
    ("*: *.kind: new", "a row of a run has the kind of its error"),
    ("*: *error_kinds*: new", "a row of a run has the kind of its error"),
    ("*: *.plan.json.kafkats: '0.1.0' != '0.2.0'", _VERSION),
    ("*: *certificate*.kafkats: '0.1.0' != '0.2.0'", _VERSION),
    ("*: *certificate_digest: *", _VERSION),
    ("*: table *: printed[[]*[]].t*: new", _TIMES),
    ("*: wrong copies: *", "an output in a log directory is refused"),
    ("*: wrong digest: error: *", "digests hold the reasons of blocked rows, which are shorter"),
]
"""(pattern of `STATE: STEP: PLACE: ONE != OTHER`, why): shell globs; the first that matches counts."""

WORDS: Final[list[tuple[str, str, str]]] = [
    (
        r"offsets (\d+) to \d+ are missing: the log ends at offset \1, but recovery-point-offset-checkpoint"
        r" says (\d+); no other file says so, so that file may be wrong itself",
        r"recovery-point-offset-checkpoint says \2, far above all else that is known: the log ends at offset"
        r" \1. That file is likely wrong itself, not the log",
        _FAR,
    ),
    (
        r"; no other file says so, so that file may be wrong itself",
        r"; no other file says so: it may be wrong itself, or a recovery has cut the log and its indexes",
        "a recovery cuts the indexes that said so, too",
    ),
    (
        r"  the recovery point of (.*), after all partitions",
        r"  recovery-point-offset-checkpoint: the recovery point of \1, after all partitions",
        "a row of checkpoints names its file",
    ),
    (
        r"will start, and loses nothing\.",
        r"will start, and loses nothing that is stored now.",
        "what a killed broker had not written is not known",
    ),
    (r"(\d+) remark, (\d+) state$", r"\1 remark, \2 note", "the lowest severity is called note"),
    (
        r" and delete 0 later segments \(0 bytes\)",
        "",
        _CUT,
    ),
    (r"docs/findings\.md says", "kafkats help findings says", "a wheel has no folder docs"),
    (
        r"are cut; undo keeps them",
        r"are cut, as by a broker at its start; undo restores them",
        "a broker cuts them without undo",
    ),
]
"""(before, after, why): a regular expression of BEFORE's text, the text of AFTER in its place (as `re.sub` takes it), and
the reason. A line that these make a line of AFTER's text is no difference; every other line that differs is one."""
