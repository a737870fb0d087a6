"""The ledger: only grows, shows edits, survives a cut, and keeps appends apart."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kafkats import paths
from kafkats.errors import CorruptFile, DiskFull, Locked, Refused, StorageFailed, UsageError
from kafkats.migration import ledger
from kafkats.migration.ledger import START, Entry, append, read

ROOT = Path(__file__).parents[2]
WRITER = """
import sys
import tracemalloc
from kafkats.migration.ledger import append
path, who, count = sys.argv[1:]
for n in range(int(count)):
    append(path, "note", by=who, now_ms=n, details={"n": n, "fill": who * 300})
"""


def fill(path: Path, count: int) -> list[Entry]:
    return [
        append(path, "note", by="me", now_ms=n * 1000, broker=str(n), details={"n": n})
        for n in range(count)
    ]


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "ledger.jsonl"
    details = {"text": "läuft 4.1\n\0", "brokers": ("1", "2"), 3: None}
    entry = append(
        path,
        "attest",
        by="ops",
        now_ms=1_767_605_400_000,
        broker="1",
        phase="phase-1",
        details=details,
    )
    assert entry[:6] == (1, "2026-01-05T09:30:00.000+00:00", "attest", "1", "phase-1", "ops")
    assert entry.details == {"text": "läuft 4.1\n\0", "brokers": ["1", "2"], "3": None}
    assert entry.before == START
    more = append(path, "note", by="ops", now_ms=-1)
    assert read(path) == ((entry, more), 0)
    assert (more.number, more.before) == (2, entry.digest)


def test_it_is_lines_of_json_that_only_grow(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    seen = b""
    for n, entry in enumerate(fill(path, 5)):
        assert entry.number == n + 1
    for entry in read(path).entries:
        seen += json.dumps(entry._asdict()).encode() + b"\n"
    assert path.read_bytes() == seen
    fill(path, 1)
    assert path.read_bytes().startswith(seen)


def test_no_ledger_and_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with pytest.raises(UsageError, match="no ledger here"):
        read(path)
    assert list(tmp_path.iterdir()) == []
    path.touch()
    assert read(path) == ((), 0)
    assert fill(path, 1)[0].number == 1


Edit = Callable[[list[bytes]], list[bytes]]
EDITS: dict[str, tuple[Edit, int]] = {
    "a letter": (lambda s: [s[0], s[1].replace(b'"me"', b'"he"'), *s[2:]], 1),
    "the last line": (lambda s: [*s[:3], s[3].replace(b'"me"', b'"he"')], 3),
    "a line less": (lambda s: [s[0], *s[2:]], 1),
    "the first line less": (lambda s: s[1:], 0),
    "a line twice": (lambda s: [s[0], s[1], s[1], *s[2:]], 2),
    "two lines swapped": (lambda s: [s[0], s[2], s[1], s[3]], 1),
    "an empty line": (lambda s: [s[0], b"\n", *s[1:]], 1),
    "a blank": (lambda s: [s[0], s[1].replace(b", ", b",", 1), *s[2:]], 1),
    "no JSON": (lambda s: [b"hello\n", *s], 0),
    "a list": (lambda s: [b"[]\n", *s], 0),
    "NaN": (lambda s: [s[0], s[1].replace(b'"n": 1', b'"n": NaN'), *s[2:]], 1),
    "not UTF-8": (lambda s: [s[0], s[1].replace(b'"me"', b'"\xff"'), *s[2:]], 1),
    "deep": (lambda s: [b"[" * 100_000 + b"\n", *s], 0),
    "a field twice": (lambda s: [s[0].replace(b'"by":', b'"by": "x", "by":'), *s[1:]], 0),
    "true for one": (lambda s: [s[0].replace(b'"number": 1', b'"number": true'), *s[1:]], 0),
    "a zero page inside": (lambda s: [s[0], b"\0" * 40 + s[1][40:], *s[2:]], 1),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_shows(tmp_path: Path, edit: str) -> None:
    path = tmp_path / "ledger.jsonl"
    fill(path, 4)
    lines = path.read_bytes().splitlines(keepends=True)
    change, bad = EDITS[edit]
    edited = b"".join(change(lines))
    assert edited != path.read_bytes()
    path.write_bytes(edited)
    with pytest.raises(CorruptFile, match=f"line {bad + 1} does not fit") as e:
        read(path)
    assert (e.value.path, e.value.position) == (str(path), len(b"".join(change(lines)[:bad])))
    with pytest.raises(CorruptFile):
        fill(path, 1)
    assert path.read_bytes() == edited


def test_a_rewritten_line_shows_in_the_next(tmp_path: Path) -> None:
    path, other = tmp_path / "ledger.jsonl", tmp_path / "other"
    fill(path, 3)
    append(other, "note", by="he", now_ms=0, broker="0", details={"n": 0})
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([other.read_bytes(), *lines[1:]]))
    with pytest.raises(CorruptFile, match="line 2 does not fit: it does not continue"):
        read(path)


def test_every_cut_is_read_and_mended(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    entries = tuple(fill(path, 3))
    whole = path.read_bytes()
    before = len(b"".join(whole.splitlines(keepends=True)[:2]))
    for cut in (*range(before, len(whole) - 1, 7), len(whole) - 1):
        path.write_bytes(whole[:cut])
        # Without its line end alone it is all there: an editor, too, may have taken that.
        kept, torn = (3, 0) if cut == len(whole) - 1 else (2, cut - before)
        assert read(path) == (entries[:kept], torn)
        entry = append(path, "note", by="me", now_ms=5)
        assert (entry.number, read(path)) == (kept + 1, ((*entries[:kept], entry), 0))


@pytest.mark.parametrize(
    "tail", [b"\0" * 5000, b'{"number": 3' + b"\0" * 4096 + b'"x"}\n', b"\0\n"]
)
def test_pages_that_never_reached_the_disk(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "ledger.jsonl"
    entries = tuple(fill(path, 2))
    with path.open("ab") as file:
        file.write(tail)
    assert read(path) == (entries, len(tail))
    assert fill(path, 1)[0].number == 3
    assert read(path).torn == 0


def test_a_file_of_zeros_is_refused_and_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    fill(path, 1)
    os.truncate(path, 1 << 30)
    tracemalloc.start()
    try:
        for try_it in (lambda: read(path), lambda: append(path, "note", by="me", now_ms=5)):
            with pytest.raises(CorruptFile, match="line 2 does not fit: it is too long"):
                try_it()
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


def test_processes_append_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    command = [sys.executable, "-c", WRITER, str(path)]
    running = [subprocess.Popen([*command, who, "60"], cwd=ROOT) for who in "ab"]
    sizes = [0]
    while any(p.poll() is None for p in running):  # a reader never sees half a line
        if path.exists():
            entries, torn = read(path)
            assert torn == 0
            sizes.append(len(entries))
    assert [p.returncode for p in running] == [0, 0]
    assert sizes == sorted(sizes)
    entries, _ = read(path)
    assert [e.number for e in entries] == list(range(1, 121))
    for who in "ab":
        assert [e.details["n"] for e in entries if e.by == who] == list(range(60))


def test_threads_append_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: append(path, "note", by=str(n), now_ms=n), range(40)))
    assert sorted(e.number for e in made) == list(range(1, 41))
    assert len(read(path).entries) == 40


def test_nobody_comes_between_the_check_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"

    def only_one(entries: Sequence[Entry], entry: Entry) -> None:
        if any(e.event == "canary" for e in entries):
            raise Refused("there is one")

    def claim(n: int) -> bool:
        try:
            append(path, "canary", by=str(n), now_ms=n, check=only_one)
        except Refused:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(16))) == 1
    assert len(read(path).entries) == 1


def test_a_refused_entry_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "ledger.jsonl"

    def refuse(entries: Sequence[Entry], entry: Entry) -> None:
        assert entry.number == len(entries) + 1
        raise Refused("no")

    with pytest.raises(Refused, match="no"):
        append(path, "note", by="me", now_ms=0, check=refuse)
    assert not path.parent.exists()
    fill(path, 2)
    before = path.read_bytes()
    with pytest.raises(Refused, match="no"):
        append(path, "note", by="me", now_ms=0, check=refuse)
    assert path.read_bytes() == before


UNWRITABLE: dict[str, dict[str, Any]] = {
    "NaN": {"details": {"x": float("nan")}},
    "an object": {"details": {"x": object()}},
    "half a character": {"details": {"x": "\ud800"}},
    "a long number": {"details": {"x": 10**5000}},
    "a long text": {"details": {"x": "y" * (1 << 20)}},
    "a name that is not UTF-8": {"by": "\udcff"},
    "a number for a broker": {"broker": 1},
    "too late": {"now_ms": 10**30},
    "no time": {"now_ms": float("nan")},
}


@pytest.mark.parametrize("what", UNWRITABLE)
def test_what_cannot_be_written_is_refused(tmp_path: Path, what: str) -> None:
    path, given = tmp_path / "ledger.jsonl", UNWRITABLE[what]
    with pytest.raises(UsageError):
        append(path, "note", **({"by": "me", "now_ms": 0} | given))
    fill(path, 1)
    before = path.read_bytes()
    with pytest.raises(UsageError):
        append(path, "note", **({"by": "me", "now_ms": 0} | given))
    assert path.read_bytes() == before


def test_nesting_is_refused(tmp_path: Path) -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"x": deep}
    with pytest.raises(UsageError):
        append(tmp_path / "ledger.jsonl", "note", by="me", now_ms=0, details=deep)


@pytest.mark.parametrize(
    "sign", [paths.META_PROPERTIES, paths.CLEAN_SHUTDOWN, *paths.OFFSET_CHECKPOINTS]
)
def test_never_in_a_log_directory(tmp_path: Path, sign: str) -> None:
    log_dir = tmp_path / "kafka-logs"
    (log_dir / "orders-0").mkdir(parents=True)
    (log_dir / sign).touch()
    link = tmp_path / "ledger.jsonl"
    link.symlink_to(log_dir / "ledger.jsonl")
    for path in (
        log_dir / "ledger.jsonl",
        log_dir / "orders-0" / "ledger",
        log_dir / "new" / "ledger",
        link,
    ):
        with pytest.raises(UsageError, match="log directory"):
            fill(path, 1)
    assert sorted(p.name for p in log_dir.rglob("*")) == sorted([sign, "orders-0"])


def test_a_link_leads_to_the_ledger(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "runs" / "ledger")
    fill(tmp_path / "link", 2)
    assert read(tmp_path / "runs" / "ledger") == read(tmp_path / "link")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises((UsageError, StorageFailed)):
            read(path)
        with pytest.raises((UsageError, StorageFailed)):
            fill(path, 1)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file: name a folder for the ledger"):
        fill(tmp_path / "file" / "ledger", 1)


def test_a_lock_that_is_kept_is_waited_for_not_forever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    fill(path, 1)
    monkeypatch.setattr(ledger, "_WAIT_SECONDS", 0.05)

    def hold(entries: Sequence[Entry], entry: Entry) -> None:
        with pytest.raises(Locked) as e:
            fill(path, 1)
        assert e.value.retryable
        with pytest.raises(Locked):
            read(path)

    append(path, "note", by="me", now_ms=0, check=hold)
    assert len(read(path).entries) == 2


def test_a_ledger_that_was_replaced_meanwhile_gets_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    fill(path, 1)
    (tmp_path / "copy").write_bytes(path.read_bytes())
    real = fcntl.flock

    def late(fd: int, kind: int) -> None:
        if (tmp_path / "copy").exists():  # between opening and locking
            (tmp_path / "copy").replace(path)
        real(fd, kind)

    monkeypatch.setattr(fcntl, "flock", late)
    fill(path, 1)
    assert [e.number for e in read(path).entries] == [1, 2]


def test_a_file_system_without_locks_is_read_and_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ledger.jsonl"
    fill(path, 2)

    def none(fd: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", none)
    assert len(read(path).entries) == 2
    with pytest.raises(Refused, match="no locks"):
        fill(path, 1)
    assert len(read(path).entries) == 2


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_append_leaves_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    path = tmp_path / "ledger.jsonl"
    fill(path, 2)
    before = path.read_bytes()
    real_write = os.write

    def fail(fd: int, *data: Any) -> int:
        if data and len(data[0]) > 10:  # a full disk takes the first bytes
            return real_write(fd, data[0][:10])
        raise OSError(code, os.strerror(code))

    with (
        monkeypatch.context() as patch,
        pytest.raises(DiskFull if code == errno.ENOSPC else StorageFailed),
    ):
        patch.setattr(os, call, fail)
        fill(path, 1)
    assert path.read_bytes() == before
    assert fill(path, 1)[0].number == 3


def test_a_short_write_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.jsonl"
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, data[:7]))
    made = tuple(fill(path, 2))
    assert read(path) == (made, 0)


def test_the_order_of_effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is safe before the first line, the line before `append` returns, with nothing written after the sync."""
    path = tmp_path / "ledger.jsonl"
    done: list[str] = []

    def watch(name: str) -> None:
        real = getattr(os, name)

        def call(fd: int, *rest: Any) -> Any:
            done.append(f"{name} {Path(os.readlink(f'/proc/self/fd/{fd}')).name}")
            return real(fd, *rest)

        monkeypatch.setattr(os, name, call)

    for name in ("write", "fsync", "ftruncate"):
        watch(name)
    fill(path, 1)
    names = done.index("write ledger.jsonl")
    assert done[0] == f"fsync {tmp_path.name}" and all(d.startswith("fsync") for d in done[:names])
    assert done[names:] == ["write ledger.jsonl", "fsync ledger.jsonl"]
    with path.open("ab") as file:
        file.write(b"torn")
    done.clear()
    fill(path, 1)
    assert done == ["ftruncate ledger.jsonl", "write ledger.jsonl", "fsync ledger.jsonl"]
