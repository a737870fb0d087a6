"""What two commits left and printed, compared; and what may differ."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from tools.same.allowed import ALLOWED, RENAMED

VOLATILE: Final = frozenset({
    "seconds", "digest", "rates", "at", "made_at", "written_at", "planned_at", "started_at", "finished_at", "bytes_per_second",
    "until_ms", "reserved_until_ms", "holder", "created", "planned",
})  # fmt: skip
"""Keys whose values are times of the run, or cover a text that may be worded in another way."""
IDENTITY: Final = frozenset({"inode", "ctime_ns", "directory_ctime_ns"})
"""Keys that differ when the file was written once more, by undo for example."""
TEXTS: Final = frozenset({
    "reason", "reasons", "error", "errors", "remarks", "note", "notes", "why", "statement", "sentences", "kept_by", "warning"
})  # fmt: skip
"""Keys of sentences for people. A value without a space is a code, and counts."""


def allowed(difference: str) -> str | None:
    """Why this difference is wanted, or None."""
    return next((why for pattern, why in ALLOWED if fnmatchcase(difference, pattern)), None)


def differences(one: Any, other: Any, where: str = "", *, identity: bool = True) -> Iterator[str]:
    """Every place at which two JSON values differ, as `where: one != other`; without `identity`, inodes and ctimes may."""
    key = where.rsplit(".", 1)[-1].split("[")[0]
    if key in VOLATILE or (not identity and key in IDENTITY):
        return
    if key in TEXTS and _is_text(one) and _is_text(other):
        return
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        renamed = {RENAMED.get(name, name): value for name, value in one.items()}
        for name in sorted({*renamed, *other}):
            if name not in other:
                yield f"{where}.{name}: gone"
            elif name not in renamed:
                yield f"{where}.{name}: new"
            else:
                yield from differences(
                    renamed[name], other[name], f"{where}.{name}", identity=identity
                )
    elif isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            yield f"{where}: {len(one)} != {len(other)} rows"
        for n, (left, right) in enumerate(zip(one, other, strict=False)):
            yield from differences(left, right, f"{where}[{n}]", identity=identity)
    elif (RENAMED.get(one, one) if isinstance(one, str) else one) != other or type(one) is not type(
        other
    ):
        yield f"{where}: {_short(one)} != {_short(other)}"


def _is_text(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_text(one) for one in value)
    if isinstance(value, Mapping):
        return all(_is_text(name) for name in value)
    return isinstance(value, str) and (" " in value or not value)


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) < 80 else text[:77] + "..."


def printed(text: str, out: Path) -> Any:
    """Rows of JSON, a job's result, or the text itself; the folder `out` is called OUT."""
    text = text.replace(str(out), "OUT")
    rows = []
    lines = text.splitlines()
    if results := [line for line in lines if line.startswith("KAFKATS_RESULT ")]:
        return json.loads(results[-1].split(" ", 1)[1])
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:
            return text
    return rows


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
            {"columns": [f"{f.name} {f.type}" for f in table.schema], "rows": rows}, default=str
        )
        return json.loads(text.replace(str(out), "OUT"))
    data = path.read_bytes()
    if path.suffix == ".json":
        return json.loads(data.decode().replace(str(out), "OUT"))
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
