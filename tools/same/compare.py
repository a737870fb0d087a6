"""Compare the files and the output of two commits; and find which differences are wanted."""

from __future__ import annotations

import hashlib
import json
import stat
import time
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from tools.same import texts
from tools.same.allowed import ALLOWED, RENAMED

VOLATILE: Final = frozenset({
    "seconds", "rates", "at", "made_at", "written_at", "planned_at", "started_at", "finished_at", "bytes_per_second",
    "created", "planned", "digest", "tokens", "free_bytes",
})  # fmt: skip
"""Keys whose values are times of the run, of the machine, or made of random bytes. `digest` covers a whole plan: see `plans`."""
IDENTITY: Final = frozenset({"inode", "ctime_ns", "directory_ctime_ns"})
"""Keys that differ when the file was written once more, by undo for example."""


_ROW: Final = ("log_dir", "partition_dir", "file", "finding")
"""The columns that name a row of a plan or a report."""
WORDED: Final = "worded in another way: "


def allowed(difference: str) -> str | None:
    """Return the reason why this difference is wanted, or None."""
    _, worded, why = difference.partition(WORDED)
    if worded:
        return why
    return next((why for pattern, why in ALLOWED if fnmatchcase(difference, pattern)), None)


def differences(one: Any, other: Any, where: str = "", *, identity: bool = True) -> Iterator[str]:
    """Every place at which two JSON values differ, as `where: one != other`; without `identity`, inodes and ctimes may."""
    key = where.rsplit(".", 1)[-1].split("[")[0]
    if key in VOLATILE or (not identity and key in IDENTITY):
        return
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        yield from _mappings(one, other, where, identity=identity)
    elif _is_texts(one) and _is_texts(other):
        yield from _texts("\n".join(one), "\n".join(other), where)
    elif (keyed := _keyed(one)) and (others := _keyed(other)):
        yield from _mappings(keyed, others, where, identity=identity)
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            yield f"{where}: {len(one)} != {len(other)} rows"
        for n, (left, right) in enumerate(zip(one, other, strict=False)):
            yield from differences(left, right, f"{where}[{n}]", identity=identity)
    elif isinstance(one, str) and isinstance(other, str):
        yield from _texts(RENAMED.get(one, one), other, where)
    elif one != other or type(one) is not type(other):
        yield f"{where}: {_short(one)} != {_short(other)}"


def _mappings(
    one: Mapping[str, Any], other: Mapping[str, Any], where: str, *, identity: bool
) -> Iterator[str]:
    renamed = {RENAMED.get(name, name): value for name, value in one.items()}
    for name in sorted({*renamed, *other}):
        at = f"{where}.{name}"
        if name not in other:
            yield f"{at}: gone"
        elif name not in renamed:
            yield f"{at}: new"
        else:
            yield from differences(renamed[name], other[name], at, identity=identity)


def _keyed(rows: Any) -> dict[str, Any] | None:
    """Return the rows of a plan by their file, None for other lists: a row more moves no other."""
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        return None
    named = [tuple(str(row.get(name, "")) for name in _ROW) for row in rows]
    if len({*named}) < len(named) or not any("".join(name[1:]) for name in named):
        return None
    return {f"[{'/'.join(name)}]": row for name, row in zip(named, rows, strict=True)}


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _texts(one: str, other: str, where: str) -> Iterator[str]:
    """Every line of a text that is another. An accepted rewording is yielded with its reason behind `WORDED`."""
    lines = texts.unfolded(other)
    made, reasons = texts.reworded(texts.unfolded(one), lines)
    yield from (f"{where}: {WORDED}{why}" for why in reasons)
    yield from (f"{where}: {line}" for line in texts.lines(made, lines))


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) < 240 else text[:237] + "..."


def printed(text: str, out: Path) -> Any:
    """Rows of JSON, a job's result, or the text itself, without what varies from run to run."""
    now = time.time()
    lines = text.splitlines()
    if results := [line for line in lines if line.startswith("KAFKATS_RESULT ")]:
        return texts.values(json.loads(results[-1].split(" ", 1)[1]), out, now)
    try:
        return [texts.values(json.loads(line), out, now) for line in lines]
    except ValueError:
        return texts.normal(text, out, now)


def plans(one: Any, other: Any, found: list[str]) -> Iterator[str]:
    """Two plans whose digests differ although nothing else was `found` to differ in their folders."""
    if one["digest"] != other["digest"] and not found:
        yield f"file.plan.json.digest: {one['digest']} != {other['digest']}"


def last_row(text: str) -> Any:
    """The last line as JSON: what comes before are a library's log lines."""
    return json.loads(text.splitlines()[-1])


def folder(path: Path, out: Path) -> dict[str, Any]:
    """The content of every file below `path`: rows of Parquet, JSON, or a digest of the bytes."""
    return {
        str(one.relative_to(path)): _content(one, out)
        for one in sorted(path.rglob("*"))
        if one.is_file()
    }


def _content(path: Path, out: Path) -> Any:
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        rows = table.to_pylist()
        text = json.dumps(
            {"columns": {f.name: str(f.type) for f in table.schema}, "rows": rows}, default=str
        )
        return texts.values(json.loads(text), out, time.time())
    data = path.read_bytes()
    if path.suffix == ".json":
        return texts.values(json.loads(data), out, time.time())
    return hashlib.sha256(data).hexdigest()


def tree(root: Path, since_ns: int) -> dict[str, Any]:
    """Every file and folder below `root`: mode, owner, and for files bytes and time; times since `since_ns` are "new"."""
    found = {}
    for path in sorted(root.rglob("*")):
        st = path.lstat()
        one: dict[str, Any] = {"mode": stat.filemode(st.st_mode), "owner": [st.st_uid, st.st_gid]}
        if path.is_file():
            one["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
            one["size"] = st.st_size
            one["mtime_ns"] = st.st_mtime_ns if st.st_mtime_ns < since_ns else "new"
        found[str(path.relative_to(root))] = one
    return found
