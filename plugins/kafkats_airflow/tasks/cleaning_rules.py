"""The rules of `clean_reports`: which folders of DAG runs may be removed, why others are kept.

A folder is kept if anything still needs it: an undo, a RUN to finish or to prove, a migration's
ledger, a certificate, a reservation, an open question, a DAG run that is not over. What cannot be
read counts as needed. Nothing here writes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkats.errors import CorruptPlan, KafkatsError, storage
from kafkats_airflow.reading.files import state_in
from kafkats_airflow.reading.runs import Found
from kafkats_airflow.reading.volumes import board
from kafkats_airflow.runs import tries
from kafkats_airflow.tasks.removal import Tree, tree_of

if TYPE_CHECKING:
    from kafkats.logdir.strict_json import Json

LEDGER: Final = "ledger.jsonl"
_RUN, _CERTIFICATE, _RESERVED = "run.json", "certificate.json", "reservation.json"


class RunFolder(NamedTuple):
    """The folder of a DAG run that has ended: it has a report. `report` is report.json."""

    path: Path
    dag_id: str
    run_id: str
    report: Mapping[str, Json]
    written_ns: int

    @property
    def log_dirs(self) -> list[str]:
        """The log directories that the report names."""
        return _texts(self.report.get("volumes"))


@dataclass(frozen=True)
class Needed:
    """The reasons to keep folders that are not in the folders themselves.

    `texts` are all texts in ledgers. `holders` hold a reservation, of the log directories that can
    be seen here; those in `unclear` have one that cannot be read.
    """

    texts: frozenset[str] = frozenset()
    lost_ledgers: frozenset[str] = frozenset()
    holders: frozenset[str] = frozenset()
    unclear: frozenset[str] = frozenset()
    newest: frozenset[Path] = frozenset()
    before_ns: int = 0
    now_ms: int = 0
    active: Callable[[str, str], bool] = field(default=lambda dag_id, run_id: True)


class Kept(NamedTuple):
    """The reason why a folder is kept: one of a few words, and a sentence."""

    why: str
    what: str


def folders_in(root: Path) -> Iterator[Path]:
    """Yield every folder of `root` that may be a DAG run's, of both layouts. Links are left out.

    Raises StorageFailed.
    """
    for above in _folders(root):
        if (above / "report.json").exists():  # the layout of earlier versions
            yield above
        else:
            yield from _folders(above)


def _folders(root: Path) -> list[Path]:
    with storage(root, "listing the folders of runs"), os.scandir(root) as listed:
        return sorted(
            Path(one.path)
            for one in listed
            if one.is_dir(follow_symlinks=False) and not one.name.startswith(".")
        )


def run_folder(path: Path, root: Path) -> RunFolder | Kept:
    """Return a folder as that of a DAG run that has ended, else why it is none."""
    from kafkats.plans.files import read_json

    report = path / "report.json"
    try:
        state = report.lstat()
        if not stat.S_ISREG(state.st_mode):
            return Kept("no report", "report.json is no file")
        content = read_json(report)
    except FileNotFoundError:
        return Kept(
            "no report",
            "no report.json: its run is not over or was killed, or it is no folder of a run",
        )
    except (OSError, KafkatsError) as e:
        return Kept("unreadable", str(e))
    if (path / _RUN).exists() or not isinstance(content.get("outcome"), str):
        return Kept("no report", "not the report of a DAG run")
    dag_id = path.parent.name if path.parent != root else ""
    named = _named(path)
    run_id = str(named.get("run_id") or path.name)
    return RunFolder(path, str(named.get("dag_id") or dag_id), run_id, content, state.st_mtime_ns)


def _named(path: Path) -> Mapping[str, Json]:
    """Return a file that names the run by its full id, which the folder's name may shorten."""
    from kafkats.plans.files import read_json

    for name in ("overview.json", "approval.json", "question.json"):
        with suppress(OSError, KafkatsError):
            content = read_json(path / name)
            if isinstance(content.get("run_id"), str):
                return content
    return {}


def needed_in(
    root: Path,
    runs: list[RunFolder],
    *,
    before_ns: int,
    now_ms: int,
    active: Callable[[str, str], bool],
) -> Needed:
    """Return what ledgers and reservations need, and the reports that pages still show.

    Raises CorruptFile, Locked, StorageFailed for a ledger that cannot be read.
    """
    from kafkats.migration import ledger

    texts: set[str] = set()
    lost: set[str] = set()
    ledgers = {str(root / LEDGER)} | {
        one for run in runs if isinstance(one := run.report.get("ledger"), str)
    }
    for path in sorted(ledgers):
        if not os.path.lexists(path):
            lost.add(path)
            continue
        for entry in ledger.read(path).entries:
            texts.update(_every_text(dict(entry.details)))
    holders, unclear = _reservations({one for run in runs for one in run.log_dirs}, now_ms)
    return Needed(
        texts=frozenset(texts),
        lost_ledgers=frozenset(lost),
        holders=frozenset(holders),
        unclear=frozenset(unclear),
        newest=frozenset(_newest(runs) | _deepest(runs, now_ms)),
        before_ns=before_ns,
        now_ms=now_ms,
        active=active,
    )


def _newest(runs: list[RunFolder]) -> set[Path]:
    """Return the newest report of each DAG, and of each DAG on each log directory."""
    newest: dict[tuple[str, str], RunFolder] = {}
    for run in runs:
        for log_dir in ("", *run.log_dirs):
            known = newest.get((run.dag_id, log_dir))
            if known is None or known.written_ns < run.written_ns:
                newest[run.dag_id, log_dir] = run
    return {run.path for run in newest.values()}


def _deepest(runs: list[RunFolder], now_ms: int) -> set[Path]:
    """Return the reports with defects that no newer look covers."""
    folders = {(run.dag_id, run.run_id): run.path for run in runs}
    found = [Found(run.dag_id, run.path, state_in(run.path.lstat())) for run in runs]
    rows = board(found, {}, now_ms).rows
    sources = {(told.source.dag_id, told.source.run_id) for row in rows for told in row.looks}
    return {path for key, path in folders.items() if key in sources}


def _reservations(log_dirs: set[str], now_ms: int) -> tuple[set[str], set[str]]:
    """Return the holders of these log directories, and those with an unreadable reservation."""
    from kafkats.logdir.reservation import read_reservation, reservation_area

    holders: set[str] = set()
    unclear: set[str] = set()
    for log_dir in log_dirs:
        if not os.path.isdir(log_dir):  # noqa: PTH112  # on another machine
            continue
        try:
            found = read_reservation(reservation_area(log_dir))
        except KafkatsError:
            unclear.add(log_dir)
            continue
        if found is not None and not found.expired(now_ms):
            holders.add(found.holder)
    return holders, unclear


def why_kept(run: RunFolder, needed: Needed) -> tuple[Kept | None, Tree]:
    """Return why a folder is kept, None if it may be removed; and what is in it.

    Raises StorageFailed.
    """
    tree = tree_of(run.path)
    rules = (_of_tree, _of_runs, _of_people, _of_ledgers, _of_airflow)
    found = (rule(run, tree, needed) for rule in rules)
    return next((kept for kept in found if kept), None), tree


def _of_tree(run: RunFolder, tree: Tree, needed: Needed) -> Kept | None:
    if tree.foreign:
        return Kept("unreadable", f"another file system is mounted at {tree.foreign}")
    if tree.newest_ns > needed.before_ns:
        return Kept("recent", f"the newest file in it is of {_day(tree.newest_ns)}")
    if run.path in needed.newest:
        return Kept("newest", "the newest report of its DAG, or of a log directory, or the deepest")
    return None


def _day(at_ns: int) -> str:
    try:
        return f"{datetime.fromtimestamp(at_ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError):  # the clock of that machine was wrong
        return f"{at_ns // 1_000_000} ms after 1970"


def _of_runs(run: RunFolder, tree: Tree, needed: Needed) -> Kept | None:
    """Return whether a RUN keeps the folder: it can be undone, or must be finished or proved."""
    found = [run.path / one for one in tree.files if one.name == _RUN]
    for one in found:
        folder = one.parent
        if (folder / "undone.json").exists() or (folder / "purge.json").exists():
            continue
        if not (folder / "report.json").exists():
            return Kept("interrupted", f"{folder} was not finished: apply or undo it")
        return Kept("undo", f"kafkats undo {folder} works until kafkats purge {folder}")
    for attempt in tries.tries_in(*{one.parent.parent for one in found}):
        if not attempt.undone and attempt.proved < 0:
            return Kept("not proved", f"{attempt.run} was not proved")
    return None


def _of_people(run: RunFolder, tree: Tree, needed: Needed) -> Kept | None:
    """Return whether an open question or a reservation keeps the folder."""
    from kafkats.plans.files import read_json
    from kafkats.reserving.record import read_record

    question, answer = run.path / "question.json", run.path / "approval.json"
    try:
        if question.exists() and not answer.exists():
            until = read_json(question).get("until_ms")
            if not isinstance(until, int):
                raise CorruptPlan("until_ms is no number", path=question)
            if until > needed.now_ms:
                return Kept("question", "nobody has answered it yet")
        for one in (run.path / one for one in tree.files if one.name == _RESERVED):
            record = read_record(one.parent)
            if record is not None and record.until_ms > needed.now_ms:
                return Kept("reserved", f"{one.parent} is reserved by {record.holder}")
    except KafkatsError as e:
        return Kept("unreadable", str(e))
    if f"airflow {run.dag_id} {run.run_id}" in needed.holders:
        return Kept("reserved", "this DAG run holds a reservation")
    if unclear := sorted({*run.log_dirs} & needed.unclear):
        return Kept("reserved", f"the reservation of {unclear[0]} cannot be read")
    return None


def _of_ledgers(run: RunFolder, tree: Tree, needed: Needed) -> Kept | None:
    from kafkats.plans.run import read_run

    if any(one.name == _CERTIFICATE for one in tree.files):
        return Kept("proof", "a certificate is in it")
    if (ledger := run.report.get("ledger")) and ledger in needed.lost_ledgers:
        return Kept("ledger", f"its ledger {ledger} is not here")
    for text in needed.texts:
        if _lies_in(text, run.path):
            return Kept("ledger", f"the ledger names {text}")
    for one in (run.path / one for one in tree.files if one.name == _RUN):
        try:
            known = {read_run(one.parent).run_id, read_run(one.parent).digest}
        except KafkatsError as e:
            return Kept("unreadable", str(e))
        if known & needed.texts:
            return Kept("ledger", f"the ledger names the RUN {one.parent}")
    return None


def _of_airflow(run: RunFolder, tree: Tree, needed: Needed) -> Kept | None:
    active = needed.active(run.dag_id, run.run_id)
    return Kept("running", "this DAG run is not over") if active else None


def _lies_in(text: str, folder: Path) -> bool:
    """Return whether a text is a path to the folder or into it, also by a link."""
    if not text.startswith("/"):
        return False
    return any(
        Path(kind(text)).is_relative_to(kind(folder))
        for kind in (os.path.abspath, os.path.realpath)
    )


def _every_text(value: Json) -> Iterator[str]:
    """Yield every text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _every_text(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _every_text(one)


def _texts(value: Json) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
