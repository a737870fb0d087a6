"""The files of a partition directory after the loader's deletions and swaps: names only.

3.0 and later   remove `.deleted` and `.cleaned`; remove `.swap` from the smallest `.cleaned` on;
                delete every numbered file in the range of the remaining `.log.swap`; rename them
2.0 to 2.8      the same removals; a swapped segment's index is deleted, so it is recovered;
                then the `.log.swap` is recovered and takes the place of the segments it covers
to 1.1          as 2.0, without the rule of the smallest `.cleaned`

Then indexes without a log are removed. Source: LogLoader.load, before 3.0 Log.loadSegments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from kafkats import paths
from kafkats.logdir.partition import starts_with_number
from kafkats.recovery.rules import StartRule
from kafkats.recovery.words import bad_number

SWAP: Final = ".swap"
CLEANED: Final = ".cleaned"


@dataclass
class Files:
    """A partition directory while it loads.

    `sources` has the file that holds the bytes of each name: another one after a swap, "" for a new
    empty file.
    """

    sources: dict[str, str]
    removed: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    swapped_logs: list[int] = field(default_factory=list)
    """Bases of `.log.swap` files that are recovered later (before 3.0)."""

    def remove(self, name: str) -> None:
        """Delete a file."""
        if self.sources.pop(name, None) is None:
            return
        if f"{name}{SWAP}" in self.renamed:
            self.renamed.remove(f"{name}{SWAP}")
            self.removed.append(f"{name}{SWAP}")
        if name in self.created:
            self.created.remove(name)
        else:
            self.removed.append(name)

    def create(self, name: str) -> None:
        """Create an empty file, unless it is there."""
        if name in self.removed:
            self.restore(name)
        elif name not in self.sources:
            self.sources[name] = ""
            self.created.append(name)

    def restore(self, name: str) -> None:
        """Undo a removal: a recovery writes the file again."""
        if name in self.removed:
            self.removed.remove(name)
            self.sources[name] = ""

    def bases(self) -> list[int]:
        """Return the base offsets of the logs, sorted."""
        logs = (name for name in self.sources if name.endswith(paths.LOG))
        return sorted(f.base_offset for f in map(paths.parse_segment_file, logs) if f)


def stopping_name(names: Iterable[str], rule: StartRule) -> str:
    """Return the broker's words for the first name that it cannot parse, "" without one."""
    for name in sorted(names):
        if name.endswith(rule.numbered) and not starts_with_number(name):
            return bad_number(name.partition(".")[0])
    return ""


def load_names(
    names: Iterable[str], rule: StartRule, next_offset: Callable[[int, str], int]
) -> Files:
    """Return the files after deletions and swaps.

    `next_offset` returns the end of a `.log.swap`, given its base offset and its name.
    """
    files = Files({name: name for name in names})
    for name in sorted(name for name in files.sources if name.endswith(".deleted")):
        files.remove(name)
    if not rule.swaps_renamed:
        _drop_swapped_indexes(files)
    swaps = _valid_swaps(files, rule)
    if rule.swaps_renamed:
        _rename_swaps(files, swaps, next_offset)
    else:
        logs = [name for name in swaps if name.endswith(f"{paths.LOG}{SWAP}")]
        files.swapped_logs.extend(map(_number, logs))
    bases = set(files.bases())
    indexes = paths.INDEX_KINDS if rule.time_indexes else paths.INDEX_KINDS[:1]
    for name in [name for name in files.sources if name.endswith(indexes)]:
        if starts_with_number(name) and _number(name) not in bases:
            files.remove(name)
    return files


def complete_swaps(names: Collection[str]) -> list[str]:
    """Return the `.swap` files of complete replacements, sorted. All names begin with a number.

    A replacement renames its `.cleaned` files to `.swap` from the last to the first. So while
    `.cleaned` files are left, the `.swap` files from the smallest of their offsets on are not all.
    """
    cleaned = [_number(name) for name in names if name.endswith(CLEANED)]
    swaps = sorted(name for name in names if name.endswith(SWAP))
    return [name for name in swaps if not cleaned or _number(name) < min(cleaned)]


def _valid_swaps(files: Files, rule: StartRule) -> list[str]:
    """Remove `.cleaned` files and swaps of an unfinished replacement; return the others."""
    cleaned = sorted(name for name in files.sources if name.endswith(CLEANED))
    swaps = sorted(name for name in files.sources if name.endswith(SWAP))
    complete = complete_swaps(files.sources) if CLEANED in rule.numbered else swaps
    for name in [*cleaned, *(name for name in swaps if name not in complete)]:
        files.remove(name)
    return complete


def _rename_swaps(files: Files, swaps: list[str], next_offset: Callable[[int, str], int]) -> None:
    logs = [name for name in swaps if name.endswith(f"{paths.LOG}{SWAP}")]
    if not swaps:
        return
    begin = min((_number(name) for name in logs), default=2**63 - 1)
    end = max((next_offset(_number(name), name) for name in logs), default=-1)
    for name in sorted(files.sources):
        if name not in swaps and starts_with_number(name) and begin <= _number(name) < end:
            files.remove(name)
    for log in logs:  # opening a swap creates the indexes that it lacks
        index = log.replace(paths.LOG, paths.OFFSET_INDEX)
        if index not in files.sources:
            swaps.append(index)
            files.created.append(index.removesuffix(SWAP))
            files.sources[index] = ""
    for name in swaps:
        final = name.removesuffix(SWAP)
        files.sources[final] = files.sources.pop(name)
        if files.sources[final]:
            files.renamed.append(name)


def _drop_swapped_indexes(files: Files) -> None:
    for name in sorted(name for name in files.sources if name.endswith(SWAP)):
        parsed = paths.parse_segment_file(name)
        if parsed and parsed.suffix == SWAP and parsed.kind in (paths.LOG, *paths.INDEX_KINDS):
            for kind in paths.INDEX_KINDS:
                files.remove(paths.segment_file(parsed.base_offset, kind))


def _number(name: str) -> int:
    return int(name.partition(".")[0])
