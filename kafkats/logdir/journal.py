"""The journal of one run in one partition: what is meant, and how far it is.

    intent -> done -> undo -> undone        undo may begin at intent too
              done, undone -> purged

It is one file, replaced whole and synced at every arrow: `intent` is on disk before anything live is touched, `done`
after the last swap is. A run that finds `intent` or `undo` was interrupted, and is finished from what the steps say;
where each file stands is seen from the file itself, not written down. What is no longer needed is removed after the
entry that makes it so, and again whenever someone comes by.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from kafkats.errors import CorruptFile
from kafkats.logdir.disk import Disk
from kafkats.logdir.identity import Attributes, FileIdentity
from kafkats.logdir.workarea import Site, write_durably

Phase = Literal["intent", "done", "undo", "undone", "purged"]

_VERSION: Final = 1
_PHASES: Final = ("intent", "done", "undo", "undone", "purged")


class Step(NamedTuple):
    """One file to change: from `before` (None: there was none) to `after` (None: removed) with these attributes."""

    name: str
    before: FileIdentity | None
    after: FileIdentity | None
    attributes: Attributes | None
    sha256: str | None


class Home(NamedTuple):
    """Which directory it is: one of the same name may be another topic's. `metadata` is its partition.metadata, "" for none."""

    inode: int
    metadata: str


class Journal(NamedTuple):
    """`epoch` tells whose staging holds the new files, `unchanged` what the new files were made from.

    `notes` is what the run wants to know of its files when an interrupted attempt is finished: plain JSON by file name.
    `joins` names the logs that lie behind removed ones: without them an undo would leave a hole.
    """

    phase: Phase
    epoch: int
    steps: tuple[Step, ...]
    unchanged: dict[str, FileIdentity]
    notes: Mapping[str, Any] = {}
    joins: tuple[str, ...] = ()
    home: Home | None = None


def journal_path(place: Site) -> Path:
    return place.run / "journal"


def write_journal(place: Site, journal: Journal, disk: Disk) -> None:
    """Make this the journal, durably. Raises OSError."""
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
    write_durably(journal_path(place), _digest(body) + b"\n" + body + b"\n", place.area, disk)


def read_journal(place: Site, disk: Disk) -> Journal | None:
    """The journal, or None when this run has not begun to change anything. Raises CorruptFile, OSError."""
    path = journal_path(place)
    if disk.identify(path) is None:
        return None
    digest, _, body = disk.read(path).rstrip(b"\n").partition(b"\n")
    if digest != _digest(body):
        raise CorruptFile("a journal whose digest does not hold", path=path)
    try:
        return _decode(json.loads(body))
    except (ValueError, KeyError, TypeError) as e:
        raise CorruptFile(f"not a journal of this version: {e}", path=path) from e


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()


def _encode_step(step: Step) -> dict[str, Any]:
    fields = step._asdict()
    if step.attributes is not None:
        xattrs = [(name, base64.b64encode(value).decode()) for name, value in step.attributes.xattrs]
        fields["attributes"] = [*step.attributes[:3], xattrs]
    return fields


def _decode(body: dict[str, Any]) -> Journal:
    if body["version"] != _VERSION or body["phase"] not in _PHASES:
        raise ValueError(f"version {body['version']}, phase {body['phase']}")
    steps = tuple(_decode_step(**step) for step in body["steps"])
    unchanged = {name: FileIdentity(*identity) for name, identity in body["unchanged"].items()}
    home = Home(*body["home"]) if body.get("home") else None
    return Journal(
        body["phase"], body["epoch"], steps, unchanged, body.get("notes", {}), tuple(body.get("joins", ())), home
    )


def _decode_step(
    name: str, before: list[int] | None, after: list[int] | None, attributes: list[Any] | None, sha256: str | None
) -> Step:
    kept = None
    if attributes is not None:
        mode, uid, gid, xattrs = attributes
        kept = Attributes(mode, uid, gid, tuple((key, base64.b64decode(value)) for key, value in xattrs))
    return Step(name, _identity(before), _identity(after), kept, sha256)


def _identity(fields: list[int] | None) -> FileIdentity | None:
    return None if fields is None else FileIdentity(*fields)
