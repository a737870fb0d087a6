"""Terminal output: tables, sentences and progress for people, and the same rows as JSON lines."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kafkats.cli.next_steps import after_run
from kafkats.cli.session import session
from kafkats.cli.streams import say, shown
from kafkats.cli.tables import table_text
from kafkats.clock import utc_text
from kafkats.counts import counted, size_text
from kafkats.findings import SEVERITIES, severity_word
from kafkats.operations import OPERATIONS

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.lookup.exports import Export
    from kafkats.plans.disks import Room
    from kafkats.plans.plan import AnyPlan
    from kafkats.plans.proof import Proof
    from kafkats.reserving.releasing import Released
    from kafkats.result import Certified, ReservationMade

T = TypeVar("T")
_NOTES: Final = 10
_WRONG: Final = 200
_TIMES: Final = {
    name: name.removesuffix("_ms")
    for name in (
        "first_timestamp",
        "max_timestamp",
        "newest_timestamp",
        "next_timestamp",
        "target_ms",
        "timestamp",
    )
}
"""Columns of epoch milliseconds, which people read as UTC -> their names in a table."""
_DISKS: Final = 3
"""Log directories whose free space is told where there is enough."""


def say_summary(summary: Mapping[str, Any], sentences: Sequence[str]) -> None:
    """Print the summary and keep it in the session: a job's result has the same fields."""
    session().summary.update(summary)
    if session().as_json:
        say(json.dumps({"summary": summary}))
    else:
        for sentence in sentences:
            say_sentence(sentence)


def say_sentence(sentence: str) -> None:
    """Print a sentence for people, in lines of the terminal's width."""
    say(_fitted(shown(sentence)))


def _fitted(sentence: str) -> str:
    """Return a sentence broken into lines of the terminal's width.

    A sentence with a command to copy is not broken, and neither is any in the output to a pipe.
    """
    if not sys.stdout.isatty() or "kafkats " in sentence:
        return sentence
    indent = " " * (len(sentence) - len(sentence.lstrip()) + 2)
    width = shutil.get_terminal_size().columns
    return textwrap.fill(
        sentence, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def seen_sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return how much was looked at, and the number of findings by severity."""
    counts = summary["severities"]
    found = ", ".join(f"{counts.get(s, 0)} {severity_word(s)}" for s in reversed(SEVERITIES))
    return [f"{_looked_at(summary)}: {found}"]


def formats_sentence(summary: Mapping[str, Any]) -> str:
    """Return the bytes by magic."""
    held = ", ".join(
        f"{size_text(size)} of magic {magic}"
        for magic, size in enumerate(summary["magic_bytes"])
        if size
    )
    return f"{_looked_at(summary)}: {held or 'no batches'}"


def problem_sentences(problems: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the first of the problems."""
    return first_of([
        f"{p['problem']}: {Path(p['log_dir'], p['partition_dir'])}"
        + ("" if p["base_offset"] < 0 else f" from offset {p['base_offset']}")
        + f": {p['reason']}"
        for p in problems
    ])


def first_of(sentences: Sequence[str], most: int = 20, what: str = "") -> list[str]:
    """Return the first of many sentences, and how many more there are."""
    more = len(sentences) - most
    return [*sentences[:most], *([f"and {more} more{what}"] if more > 0 else [])]


def _looked_at(summary: Mapping[str, Any]) -> str:
    size = size_text(summary["log_bytes"])
    return (
        f"{counted(summary['segments'], 'segment')} in"
        f" {counted(summary['partitions'], 'partition')}, {size}"
    )


def unread_sentences(segments: pa.Table) -> list[str]:
    """Return the files in facts.SEGMENTS that could not be read."""
    from kafkats.plans.facts import all_findings

    return [
        f"not read: {Path(f['log_dir'], f['partition_dir'], file)}: {f['reason']}"
        for f in all_findings(segments)
        for file in ["" if f["file"] == f["partition_dir"] else f["file"]]
        if f["kind"] == "unreadable"
    ]


def plan_sentences(made: AnyPlan, folder: Path, room: Sequence[Room] = ()) -> list[str]:
    """Return what a plan of any operation does, the space that it needs, and the next command."""
    totals = made.header["totals"]
    operation = OPERATIONS.get(made.operation)
    sentences = [
        *_not_shown(made),
        f"{counted(totals['files'], 'file')} to change for"
        f" {counted(totals['segments'], 'segment')} in"
        f" {counted(totals['partitions'], 'partition')}; {counted(totals['blocked'], 'row')}"
        " blocked;"
        f" {counted(totals['segments_seen'], 'segment')} seen",
        f"apply reads {size_text(totals['read_bytes'])} of logs and writes"
        f" {size_text(totals['write_bytes'])}",
    ]
    sentences += map(_room_sentence, [one for one in room if one.short] or room[:_DISKS])
    sentences += operation.sentences(made.header) if operation else []
    sentences.append(f"digest {made.digest}")
    if totals["files"]:
        sentences.append(
            f"to do it: kafkats apply {quote(str(folder))} --digest {made.digest[:12]}"
        )
    elif totals["blocked"]:
        sentences.append(
            "nothing to apply; next: restore the blocked partitions from a replica, or do what"
            " their rows say"
        )
    return sentences


def _room_sentence(one: Room) -> str:
    """Return the space that an apply needs in a log directory, and what is free."""
    needed = f"{one.log_dir}: apply needs {size_text(one.needed_bytes)} of free space"
    if one.free_bytes < 0:
        return needed
    free = f"{size_text(one.free_bytes)} {'is' if one.short else 'are'} free"
    return (
        f"{needed}, and only {free}: it would begin nothing there"
        if one.short
        else f"{needed}; {free}"
    )


def _not_shown(made: AnyPlan) -> list[str]:
    """Return how many files of the plan the table leaves out: they change with a .log."""
    operation = OPERATIONS.get(made.operation)
    if operation is None or not operation.follows:
        return []
    tables = made.tables(["file"])
    left_out = sum(
        operation.leaves_out(file) for rows in tables for file in rows["file"].to_pylist()
    )
    return [f"not shown: {counted(left_out, 'file')} that change with a .log"] if left_out else []


def retention_sentences(totals: Mapping[str, Any]) -> list[str]:
    """Return a summary of retention."""
    sentences = [
        f"{size_text(totals['bytes'])} in {counted(totals['segments_seen'], 'segment')}:"
        f" {size_text(totals['now_bytes'])} to delete now,"
        f" {size_text(totals['day_bytes'])} within a day, {size_text(totals['week_bytes'])} within"
        " a week"
    ]
    if totals["pinned_bytes"]:
        sentences.append(
            f"{size_text(totals['pinned_bytes'])} expired behind a segment that has not:"
            " retention does not reach them"
        )
    return sentences + [
        f"kept: {counted(count, 'segment')}: {veto}" for veto, count in totals["vetoes"].items()
    ]


def run_sentences(
    summary: Mapping[str, Any], made: AnyPlan, plan: Path, folder: Path, proved: Sequence[str] = ()
) -> list[str]:
    """Return what a run in `folder` did, what its proof found, and the next commands. `plan` is the
    folder of what was applied.
    """
    words = {"already": "done before", "nothing": "already as planned"}
    counts = (
        ", ".join(f"{n} {words.get(o, o)}" for o, n in summary["outcomes"].items())
        or "nothing to do"
    )
    sentences = [
        f"{counted(summary['files'], 'file')}: {counts}; {size_text(summary['written_bytes'])}"
        " written"
    ]
    sentences += [f"error: {error}" for error in summary["errors"]]
    sentences += [summary["note"]] if "note" in summary else []
    sentences += proved
    return [*sentences, *after_run(made, folder, plan, summary), f"run {folder}"]


def export_sentences(made: Export, output: Path | None) -> list[str]:
    """Return a sentence per reason for which another offset replaces a missing answer, and one
    naming the partitions left out.
    """
    first = [counted(made.partitions, "partition") + (f" in {output}" if output else "")]
    words = {None: "no answer", -1: "the latest", -2: "the earliest"}
    notes = [
        f"{n.topic}-{n.partition} has no {n.side} ({n.reason}):"
        f" {words.get(n.wrote, f'offset {n.wrote}')}"
        for n in made.notes
    ]
    return first + first_of(notes, _NOTES, " without an answer")


def certificate_sentences(certified: Certified | None) -> list[str]:
    """Return what a certificate states, and how to look again if it was written."""
    if certified is None:
        return []
    sentences = [certified.statement, f"digest {certified.digest}"]
    if folder := certified.folder:
        sentences.append(
            f"certificate {folder}; to look again: kafkats certify --check {quote(folder)}"
        )
    return sentences


def proof_sentences(proof: Proof) -> list[str]:
    """Return a line for each wrong file, and the number of those that are as planned."""
    sentences = [f"not as it should be: {reason}" for reason in proof.reasons[:_WRONG]]
    if not (proof.files or sentences):
        return ["proved: nothing. The run wrote no file, or all of it was undone"]
    return [*sentences, f"proved: {proof.equal} of {counted(proof.files, 'file')} as planned"]


def reserved_sentences(made: ReservationMade | None) -> list[str]:
    """Return a line for each log directory that is reserved for a plan."""
    from kafkats.logdir.reservation import time_in_words

    return [
        f"{one.log_dir}: reserved by {one.holder} until {time_in_words(one.until_ms)}"
        for one in (made.mine if made else ())
    ]


def released_sentences(released: Iterable[Released]) -> list[str]:
    """Return a line for each log directory, but those of which the release failed."""
    from kafkats.logdir.reservation import time_in_words

    lines = []
    for one in released:
        words = {
            "released": f"released; it was reserved by {one.holder}",
            "kept": f"not released: it is reserved by {one.holder}",
            "free": "is not reserved",
        }
        until = f" until {time_in_words(one.until_ms)}" if one.until_ms > 0 else ""
        if one.outcome in words:
            lines.append(f"{one.log_dir}: {words[one.outcome]}{until}")
    return lines


def show_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print a table of `columns`; with --json or in a scheduler's log a JSON object per row.

    A terminal gets a table per log directory, a pipe one whose first column names it; a single log
    directory is not named. Columns without a value are left out.
    """
    as_json, most = session().as_json, session().front.most_rows
    if as_json or most is not None:
        for row in rows if as_json else rows[:most]:
            say(json.dumps(row))
        if not as_json and most is not None and len(rows) > most:
            say(f"... and {len(rows) - most} more")
        return
    if not rows:
        return
    log_dirs = list(dict.fromkeys(row.get("log_dir") for row in rows))
    named = [c for c in columns if any(_cell(row.get(c)) for row in rows) and c != "log_dir"]
    if not sys.stdout.isatty():
        _say_table(rows, ["log_dir"] * (len(log_dirs) > 1) + named, None)
        return
    width = shutil.get_terminal_size().columns
    for log_dir in log_dirs:
        if len(log_dirs) > 1:
            say(shown(f"{log_dir}:"))
        _say_table([row for row in rows if row.get("log_dir") == log_dir], named, width)


def all_but(rows: Sequence[Mapping[str, Any]], *hidden: str) -> list[str]:
    """Return the columns of rows without those that only --json shows."""
    return [name for name in (rows[0] if rows else ()) if name not in hidden]


def _say_table(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], width: int | None
) -> None:
    head = {
        _TIMES.get(c, c).replace("_", " "): c not in _TIMES and isinstance(rows[0].get(c), int)
        for c in columns
    }
    cells = [[_cell(row.get(column), column) for column in columns] for row in rows]
    say(table_text(head, cells, columns=width))


def _cell(value: object, column: str = "") -> str:
    if column in _TIMES and isinstance(value, int) and value != -1:
        return utc_text(value)
    return "" if value is None or value == -1 else shown(str(value))


_COUNTED: Final = {
    "compare": "files",
    "look for old files": "directories",
    "purge": "directories",
    "read journals": "directories",
    "undo": "directories",
}
"""What the sizes of a stage's units count, if not bytes."""


@contextmanager
def progress_bar(stage: str, total: int) -> Generator[Callable[[int], None]]:
    """Shows a stage of `total` bytes, or of what _COUNTED says, on standard error: the done part,
    rate and time left. Yields what to call with a part that is done.
    """
    if not sys.stderr.isatty():
        yield lambda _size: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{size_text(task.speed)}/s" if task.speed else "")

    noun = _COUNTED.get(stage)
    done = (
        (DownloadColumn(binary_units=True), Rate())
        if noun is None
        else (TextColumn(f"{{task.completed:.0f}} of {{task.total:.0f}} {noun}"),)
    )
    columns = (TextColumn("{task.description}"), BarColumn(), *done, TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task(stage, total=total)
        yield lambda size: progress.advance(task, size)


def progress(items: Sequence[T], what: str) -> Iterable[T]:
    """Return `items`, and show the share done and the time left on standard error meanwhile."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(items, what, console=console, transient=True, disable=not console.is_terminal)
