"""Unpacks a fixture of tests/compat/written as if kafkats had left it here.

A plan and a journal name what they were made from: absolute paths, inodes and ctimes, which no archive can bring back. Here
the new ones take the place of the old ones, and the digests over them are made again: by the few lines below, which
import nothing of kafkats, so that they also hold today's canonical JSON to what it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

WRITTEN = Path(__file__).parent / "written"
_IDENTITY = 4
"""A journal has size, mtime, ctime and inode of a file in a list."""


class Replayed(NamedTuple):
    """`before` and `now` are the bytes, mode and mtime of every file of the log dir: before the plan, and when it was archived."""

    into: Path
    before: dict[str, Any]
    now: dict[str, Any]

    @property
    def data(self) -> Path:
        return self.into / "volume" / "data"

    @property
    def plan(self) -> Path:
        return self.into / "plan"

    @property
    def run(self) -> Path:
        return self.into / "plan.run"


def replay(name: str, into: Path) -> Replayed:
    """The state `name` in the empty folder `into`."""
    subprocess.run(["tar", "-xJf", str(WRITTEN / f"{name}.tar.xz"), "-C", str(into)], check=True)
    recorded = json.loads((into / "identity.json").read_text())
    _Rewriting(into, recorded).everything()
    return Replayed(into, recorded.get("before", {}), recorded.get("now", {}))


def digest_of(header: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The digest of a plan, as it was defined when the fixtures were written: sha256 over lines of sorted JSON."""
    lines = [{key: value for key, value in header.items() if key != "digest"}, *rows]
    text = "".join(
        json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=True) + "\n"
        for line in lines
    )
    return hashlib.sha256(text.encode()).hexdigest()


class _Rewriting:
    def __init__(self, into: Path, recorded: dict[str, Any]) -> None:
        self.into, self.root = into, recorded["root"]
        self.words = {self.root: str(into)}
        self.inodes: dict[int, int] = {}
        self.ctimes: dict[tuple[int, int], int] = {}
        self.folders: dict[tuple[str, int], int] = {}
        for path, (inode, ctime_ns) in recorded["files"].items():
            now = (into / path).lstat()
            self.inodes[inode] = now.st_ino
            self.ctimes[inode, ctime_ns] = now.st_ctime_ns
            self.folders[path.removeprefix("volume/data/"), ctime_ns] = now.st_ctime_ns

    def everything(self) -> None:
        plan = self.into / "plan"
        if plan.exists():
            self.plan(plan)
        done = {plan / "plan.json", plan / "items.parquet", self.into / "ledger.jsonl"}
        for path in sorted(self.into.rglob("*")):
            if (
                path in done
                or path.is_relative_to(self.into / "volume" / "data")
                or "table" in path.parts
            ):
                continue
            if path.suffix == ".parquet":
                self.parquet(path)
            elif path.suffix == ".json":
                path.write_text(self.text(path.read_text()))
        self.certificate(self.into / "certificate")
        self.ledger(self.into / "ledger.jsonl")
        self.work_area(self.into / "volume" / ".kafkats" / "data")

    def plan(self, folder: Path) -> None:
        header = json.loads((folder / "plan.json").read_text())
        items = pq.read_table(folder / "items.parquet")
        assert digest_of(_sealed(header), items.to_pylist()) == header["digest"], (
            "what is digested has changed"
        )
        rows = [self.item(row) for row in items.to_pylist()]
        old = header["digest"]
        header = json.loads(self.text(json.dumps(header)))
        header["digest"] = digest_of(_sealed(header), rows)
        for digits in (len(old), 16, 12):
            self.words[old[:digits]] = header["digest"][:digits]
        (folder / "plan.json").write_text(json.dumps(header))
        pq.write_table(pa.Table.from_pylist(rows, schema=items.schema), folder / "items.parquet")

    def item(self, row: dict[str, Any]) -> dict[str, Any]:
        found = json.loads(self.text(json.dumps(row)))
        key = found["partition_dir"], found["directory_ctime_ns"]
        found["directory_ctime_ns"] = self.folders.get(key, found["directory_ctime_ns"])
        for name in ("before", "log"):
            if found[name] is not None:
                one = found[name]
                ids = one["inode"], one["ctime_ns"]
                one["ctime_ns"] = self.ctimes.get(ids, one["ctime_ns"])
                one["inode"] = self.inodes.get(one["inode"], one["inode"])
        return found

    def parquet(self, path: Path) -> None:
        table = pq.read_table(path)
        rows = json.loads(self.text(json.dumps(table.to_pylist())))
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)

    def certificate(self, folder: Path) -> None:
        if folder.exists():
            header = json.loads((folder / "certificate.json").read_text())
            rows = pq.read_table(folder / "segments.parquet").to_pylist()
            covered = {key: value for key, value in header.items() if key != "at"}
            (folder / "certificate.json").write_text(
                json.dumps(header | {"digest": digest_of(covered, rows)})
            )

    def ledger(self, path: Path) -> None:
        """Each line has the digest of the one before, and its own over what it says without it."""
        lines, before = [], "0" * 64
        for line in path.read_text().splitlines() if path.exists() else ():
            entry = json.loads(line)
            digest = entry.pop("digest")
            recorded = json.dumps(entry, ensure_ascii=False)
            assert digest == hashlib.sha256(recorded.encode()).hexdigest(), (
                "the ledger is not what it was"
            )
            entry = json.loads(self.text(recorded)) | {"before": before}
            before = hashlib.sha256(json.dumps(entry, ensure_ascii=False).encode()).hexdigest()
            lines.append(json.dumps(entry | {"digest": before}, ensure_ascii=False) + "\n")
        if lines:
            path.write_text("".join(lines))

    def text(self, text: str) -> str:
        for old, new in self.words.items():
            text = text.replace(old, new)
        return text

    def work_area(self, area: Path) -> None:
        for folder in sorted(area.glob("*/runs/*")):
            folder.rename(folder.with_name(self.text(folder.name)))
        for path in sorted(area.glob("*/runs/*/journal*")):
            digest, _, body = path.read_bytes().rstrip(b"\n").partition(b"\n")
            assert digest.decode() == hashlib.sha256(body).hexdigest(), (
                "a journal is not what it was"
            )
            body = json.dumps(self.journal(json.loads(self.text(body.decode())))).encode()
            path.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body + b"\n")
        for path in area.glob("*/lease"):
            path.write_text(self.text(path.read_text()))
        reservation = area / "reservation"
        if reservation.exists():
            content = json.loads(self.text(reservation.read_text()))
            now_ms = time.time_ns() // 1_000_000
            content |= {"made_ms": now_ms, "until_ms": now_ms + 3_600_000}
            reservation.write_text(json.dumps(content))

    def journal(self, value: Any) -> Any:
        if (
            isinstance(value, list)
            and len(value) == _IDENTITY
            and all(type(one) is int for one in value)
        ):
            size, mtime_ns, ctime_ns, inode = value
            return [
                size,
                mtime_ns,
                self.ctimes.get((inode, ctime_ns), ctime_ns),
                self.inodes.get(inode, inode),
            ]
        if isinstance(value, list):
            return [self.journal(one) for one in value]
        if not isinstance(value, dict):
            return value
        found = {key: self.journal(one) for key, one in value.items()}
        if found.get("home"):
            found["home"][0] = self.inodes.get(found["home"][0], found["home"][0])
        if found.get("attributes"):
            found["attributes"][1:3] = os.getuid(), os.getgid()
        return found


def _sealed(header: dict[str, Any]) -> dict[str, Any]:
    """The part of plan.json that the digest covers."""
    return {key: header[key] for key in ("operation", "format", "kafkats", "options", "totals")}
