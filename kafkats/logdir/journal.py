"""The journal of one run in one partition: the intended changes and the phase.

    intent -> done -> undo -> undone        undo may begin at intent too
              done, undone -> purged

The journal is one file, written and synced once: `intent` is on disk before any live file is
touched. The file's name tells the phase. So each transition is one rename, which needs no free
space:

    journal     intent; in a journal of an older kafkats the file itself tells the phase
    journal.done, journal.undo, journal.undone, journal.purged

`done` follows the last swap. A run that finds `intent` or `undo` was interrupted, and is finished
from the recorded steps. Which step was reached is seen from the live files; it is not recorded.
Superfluous files are removed after the transition that makes them superfluous, and again at each
later visit.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypedDict

from kafkats.errors import CorruptFile, Refused
from kafkats.logdir import strict_json
from kafkats.logdir.disk import Disk
from kafkats.logdir.identity import Attributes, FileIdentity
from kafkats.logdir.strict_json import Json
from kafkats.logdir.workarea import Site, write_durably

Phase = Literal["intent", "done", "undo", "undone", "purged"]

_VERSION: Final = 1
_NAME: Final = "journal"
_PHASES: Final[tuple[Phase, ...]] = ("intent", "done", "undo", "undone", "purged")
_PHASE_OF: Final = {f"{_NAME}.{phase}": phase for phase in _PHASES[1:]}


class Step(NamedTuple):
    """One file to change from `before` (None: absent) to `after` (None: removed)."""

    name: str
    before: FileIdentity | None
    after: FileIdentity | None
    attributes: Attributes | None
    sha256: str | None


class Home(NamedTuple):
    """The identity of a directory, since a later one of the same name may belong to another topic.

    `metadata` is the content of its partition.metadata, "" for none.
    """

    inode: int
    metadata: str


class Note(TypedDict, total=False):
    """Columns of facts.ACTIONS about a new file that only staging can fill."""

    sha256: str
    after_bytes: int
    records: int
    parity_before: str
    parity_after: str


class Journal(NamedTuple):
    """The changes of one run in one partition.

    `epoch` names the staging folder of the new files. `unchanged` holds the files from which the
    new ones were made. `notes` are by file name, for the run to read when it finishes an
    interrupted attempt. `joins` names the logs behind removed ones: without them an undo would
    leave a gap.
    """

    phase: Phase
    epoch: int
    steps: tuple[Step, ...]
    unchanged: dict[str, FileIdentity]
    notes: Mapping[str, Note] = {}
    joins: tuple[str, ...] = ()
    home: Home | None = None


def write_journal(place: Site, journal: Journal, disk: Disk) -> None:
    """Write and sync the journal.

    It is read back first: without a journal that can be read there is no undo. Raises Refused,
    OSError.
    """
    body = json.dumps({
        "version": _VERSION,
        "partition": place.partition,
        "run_id": place.run_id,
        "phase": journal.phase,
        "epoch": journal.epoch,
        "steps": [_encode_step(step) for step in journal.steps],
        "unchanged": journal.unchanged,
        "notes": dict(journal.notes),
        "joins": journal.joins,
        "home": journal.home,
    }).encode()
    try:
        _decode(strict_json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise Refused(
            f"nothing was changed, as this could not be undone: the journal cannot hold {e}",
            path=place.directory,
        ) from e
    write_durably(place.run / _NAME, _digest(body) + b"\n" + body + b"\n", place.area, disk)


def advance(place: Site, journal: Journal, phase: Phase, disk: Disk) -> Journal:
    """Record durably that the run is in `phase`, and return the journal with that phase.

    This is a rename within one directory: it needs no free block and no free inode. Raises OSError.
    """
    name, now = _found(place, disk), f"{_NAME}.{phase}"
    if name != now:
        disk.rename(place.run / name, place.run / now)
    disk.sync_dir(place.run)
    return journal._replace(phase=phase)


def begun_at(place: Site, disk: Disk) -> int | None:
    """Return when the journal was written, in ns since 1970; None without one. Raises OSError."""
    name = _found(place, disk)
    found = disk.identify(place.run / name) if name else None
    return found.mtime_ns if found else None


def read_journal(place: Site, disk: Disk) -> Journal | None:
    """Return the journal, or None when the run has changed nothing yet.

    Raises CorruptFile, OSError.
    """
    name = _found(place, disk)
    if not name:
        return None
    path = place.run / name
    digest, _, body = disk.read(path).rstrip(b"\n").partition(b"\n")
    if digest != _digest(body):
        raise CorruptFile("a journal whose digest does not hold", path=path)
    try:
        journal = _decode(strict_json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise CorruptFile(f"not a journal of this version: {e}", path=path) from e
    return journal._replace(phase=_PHASE_OF[name]) if name in _PHASE_OF else journal


def _found(place: Site, disk: Disk) -> str:
    """Return the journal's name, or "". If a restored backup left two, the later phase counts."""
    there = set(disk.names(place.run))
    return next((name for name in reversed((_NAME, *_PHASE_OF)) if name in there), "")


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def _encode_step(step: Step) -> dict[str, Json]:
    fields: dict[str, Json] = step._asdict()
    if step.attributes is not None:
        xattrs: list[Json] = [
            [name, base64.b64encode(value).decode()] for name, value in step.attributes.xattrs
        ]
        fields["attributes"] = [*step.attributes[:3], xattrs]
    return fields


def _decode(body: Any) -> Journal:
    if body["version"] != _VERSION or body["phase"] not in _PHASES:
        raise ValueError(f"version {body['version']}, phase {body['phase']}")
    steps = tuple(map(_decode_step, body["steps"]))
    unchanged = {name: FileIdentity(*identity) for name, identity in body["unchanged"].items()}
    home = body.get("home")
    return Journal(
        body["phase"],
        body["epoch"],
        steps,
        unchanged,
        body.get("notes", {}),
        tuple(body.get("joins", ())),
        Home(*home) if home else None,
    )


def _decode_step(fields: dict[str, Any]) -> Step:
    """Return a step. Raises KeyError, TypeError unless `fields` has just those of a Step."""
    kept = None
    if fields["attributes"] is not None:
        mode, uid, gid, xattrs = fields["attributes"]
        kept = Attributes(
            mode, uid, gid, tuple((key, base64.b64decode(value)) for key, value in xattrs)
        )
    before, after = _identity(fields["before"]), _identity(fields["after"])
    return Step(**fields | {"before": before, "after": after, "attributes": kept})


def _identity(fields: list[int] | None) -> FileIdentity | None:
    return None if fields is None else FileIdentity(*fields)
