"""Replace a plan in its folder: a process that is killed leaves the old plan or the new one.

`plan.json` decides which plan is there. The rows of a plan in parts have names of their own. Those
of another plan are in `items.parquet`, whatever the plan: its earlier content gets a second name
until the new `plan.json` is written.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Final

from kafkats.errors import CorruptPlan, exists, storage
from kafkats.logdir.strict_json import Json
from kafkats.plans.files import read_json, write_bytes

ITEMS_FILE: Final = "items.parquet"
PARTS: Final = "parts"
"""The folder of a plan's parts, each in a file that is named by its digest."""
DECIDING: Final = "deciding-"
"""Beginning of the name of a folder beside `plan.json` while a large plan is decided."""
SEEN: Final = "driver"
"""The file in such a folder whose lock shows that its process is alive."""
_SCRATCH: Final = re.compile(rf"\.?{DECIDING}[0-9a-f]{{12}}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)
"""The errors of a file system that has no second names for files, such as a share."""
_KEPT: Final = re.compile(r"items-[0-9a-f]{16}\.parquet")


def part_file(folder: Path, digest: str) -> Path:
    """Return the file of a part of the plan in `folder`. Raises CorruptPlan for no digest."""
    if not _DIGEST.fullmatch(digest):
        raise CorruptPlan(f"not the digest of a part: {digest!r}", path=folder)
    return folder / PARTS / f"{digest}.parquet"


def table_file(folder: Path, name: str, digest: str) -> Path:
    """Return the file of a document's only table, `name`.

    The rows of a plan have another name after a process was killed that replaced the plan. Raises
    StorageFailed.
    """
    if name != ITEMS_FILE or not _DIGEST.fullmatch(digest):
        return folder / name
    kept = _kept(folder, digest)
    return kept if exists(kept, "looking for the rows of the plan") else folder / name


def _kept(folder: Path, digest: str) -> Path:
    return folder / f"items-{digest[:16]}.parquet"


def keep_rows(folder: Path) -> None:
    """Give the rows of an earlier plan another name, before those of a new one are written.

    Raises StorageFailed.
    """
    if earlier := _digest_in(folder):
        items, kept = table_file(folder, ITEMS_FILE, earlier), _kept(folder, earlier)
        with storage(folder, "keeping the rows of the earlier plan"):
            if items != kept and items.exists():
                _link(items, kept)


def _link(file: Path, name: Path) -> None:
    try:
        name.hardlink_to(file)
    except OSError as e:
        if e.errno not in _NO_LINKS:
            raise
        write_bytes(name, file.read_bytes())


def is_scratch(path: Path) -> bool:
    """Return whether kafkats made this folder to decide a large plan in. Raises OSError."""
    if not _SCRATCH.fullmatch(path.name) or not _is_folder(path):
        return False
    names = {one.name for one in path.iterdir()}
    return SEEN in names or not names


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def is_ours(folder: Path, what: str) -> bool:
    """Return whether a folder is of a plan or a certificate, `what`, of any format, or a large plan
    was decided in it and not finished.

    Raises OSError, StorageFailed.
    """
    if exists(folder / f"{what}.json", f"looking for an earlier {what}"):
        return bool(_digest_in(folder, what))
    return any(map(is_scratch, folder.iterdir()))


def _header(file: Path) -> dict[str, Json]:
    try:
        return read_json(file)
    except CorruptPlan:
        return {}


def _digest_in(folder: Path, what: str = "plan") -> str:
    if not exists(folder / f"{what}.json", f"looking for an earlier {what}"):
        return ""
    header = _header(folder / f"{what}.json")
    digest = str(header.get("digest"))
    return digest if "format" in header and _DIGEST.fullmatch(digest) else ""


def remove_other_rows(folder: Path) -> None:
    """Remove rows that are not those of the folder's plan. Raises StorageFailed."""
    parts = _header(folder / "plan.json").get("parts")
    digests = (
        {part["digest"] for part in parts if isinstance(part, dict)}
        if isinstance(parts, list)
        else None
    )
    with storage(folder, "removing the rows of an earlier plan"):
        names = {path.name for path in folder.iterdir()}
        others = [folder / name for name in names if _KEPT.fullmatch(name)]
        if digests is not None and ITEMS_FILE in names:
            others.append(folder / ITEMS_FILE)
        stored = folder / PARTS if _is_folder(folder / PARTS) else None
        if stored is not None:
            ours = (path for path in stored.glob("*.parquet") if _DIGEST.fullmatch(path.stem))
            others += [path for path in ours if path.stem not in (digests or ())]
        for path in others:
            path.unlink(missing_ok=True)
        if digests is None and stored is not None and not any(stored.iterdir()):
            stored.rmdir()
