"""Partition directories with random damage, the same for the same number: for `conformance.preflight`.

A sound partition of a golden directory is copied, then damaged once to three times: as a power loss,
a full disk, a restored backup or a helping hand leaves logs, indexes, snapshots and epochs.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.golden import Case, Unpacked, case

_SOUND: Final = ("untouched-0", "preallocated-0")
_STATES: Final = {"clean-start": "before", "crash": "before"}


class Source(NamedTuple):
    """A sound partition directory, and the settings with which it was written."""

    case: Case
    path: Path
    interval: int


class Damaged(NamedTuple):
    """A damaged copy: what was done, and the checkpoints that it gets."""

    directory: Path
    interval: int
    done: tuple[str, ...]
    recovery_point: int
    log_start: int
    source: Path
    """The sound partition that was copied."""

    def __str__(self) -> str:
        points = f"recovery point {self.recovery_point}, log start {self.log_start}"
        return f"{', '.join(self.done)}; {points}"


@cache
def sources(version: str, unpacked: Unpacked) -> list[Source]:
    """Return the sound partitions that brokers of this version wrote."""
    found = []
    for kind in ("clean-start", "crash", "matrix", "rolling", "transactions"):
        name = f"{kind}-{version}" + ("-v2" if kind == "matrix" else "")
        one, state = case(name), _STATES.get(kind, "data")
        for path in sorted(unpacked(name, state).iterdir()):
            sound = kind not in _STATES or path.name in _SOUND
            if sound and any(path.glob("*.log")) and path.name[:2] != "__":
                found.append(Source(one, path, one.interval(path.name)))
    return found


def damaged(
    version: str, number: int, unpacked: Unpacked, to: Path, *, keep: tuple[str, ...] = ()
) -> Damaged:
    """Copy a sound partition into the new folder `to` and damage it; `keep` are names left out."""
    dice = random.Random(f"{version} {number}")
    source = dice.choice(sources(version, unpacked))
    shutil.copytree(source.path, to, ignore=shutil.ignore_patterns(*keep), dirs_exist_ok=True)
    done = []
    for _ in range(dice.choice((1, 1, 2, 2, 3))):
        logs = sorted(to.glob("*.log"))
        if not logs:
            break
        log = logs[-1] if dice.random() < 0.6 else dice.choice(logs)
        way = dice.choice(sorted(_WAYS))
        _WAYS[way](log, dice)
        done.append(f"{way} {log.name}")
    bases = [int(log.stem) for log in sorted(to.glob("*.log"))] or [0]
    end = bases[-1] + 40
    points = (0, 0, dice.choice(bases), dice.randrange(end), end, 1_000_000)
    begins = (0, 0, 0, 0, dice.choice(bases), dice.randrange(end))
    point, begin = dice.choice(points), dice.choice(begins)
    return Damaged(to, source.interval, tuple(done), point, begin, source.path)


def _cut(log: Path, dice: random.Random) -> None:
    size = log.stat().st_size
    os.truncate(log, max(size - dice.choice((1, 5, 17, 60, dice.randrange(size + 1))), 0))


def _append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


def _flip(log: Path, dice: random.Random) -> None:
    data = bytearray(log.read_bytes())
    if data:
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        log.write_bytes(data)


def _index(log: Path, data: bytes | None) -> None:
    index = log.with_suffix(".index")
    if data is None:
        index.unlink(missing_ok=True)
    else:
        index.write_bytes(data)


def _copies(log: Path, ending: str, dice: random.Random) -> None:
    for kind in (".log", ".index", ".timeindex"):
        file = log.with_suffix(kind)
        if file.exists() and dice.random() < 0.9:
            shutil.copy2(file, f"{file}.{ending}")


def _snapshot(log: Path, dice: random.Random, data: bytes | None) -> None:
    found = sorted(log.parent.glob("*.snapshot"))
    if found and data is None:
        dice.choice(found).unlink()
    elif found and data is not None:
        dice.choice(found).write_bytes(data)


def _no_snapshots(log: Path) -> None:
    for snapshot in log.parent.glob("*.snapshot"):
        snapshot.unlink()


def _epochs(log: Path, text: str) -> None:
    (log.parent / "leader-epoch-checkpoint").write_text(text)


_WAYS: Final[dict[str, Callable[[Path, random.Random], object]]] = {
    "cut": _cut,
    "zeros behind": lambda log, dice: _append(log, bytes(dice.choice((1, 11, 17, 18, 30, 100)))),
    "noise behind": lambda log, dice: _append(log, dice.randbytes(dice.choice((1, 17, 18, 100)))),
    "bit flipped": _flip,
    "empty log": lambda log, dice: os.truncate(log, 0),
    "17 bytes of": lambda log, dice: os.truncate(log, min(17, log.stat().st_size)),
    "no log": lambda log, dice: log.unlink(),
    "no index": lambda log, dice: _index(log, None),
    "empty index": lambda log, dice: _index(log, b""),
    "index of noise": lambda log, dice: _index(log, dice.randbytes(8 * dice.choice((1, 2, 5)))),
    "odd index": lambda log, dice: _index(log, dice.randbytes(13)),
    "no time index": lambda log, dice: log.with_suffix(".timeindex").unlink(missing_ok=True),
    "txn index of noise": lambda log, dice: log.with_suffix(".txnindex").write_bytes(
        dice.choice((b"", dice.randbytes(34), dice.randbytes(13), bytes(34)))
    ),
    "no snapshot": lambda log, dice: _snapshot(log, dice, None),
    "no snapshots": lambda log, dice: _no_snapshots(log),
    "snapshot of noise": lambda log, dice: _snapshot(log, dice, dice.choice((b"", dice.randbytes(56)))),
    "wrong epochs": lambda log, dice: _epochs(
        log, dice.choice(("0\n2\n0 0\n", "", "0\n", "0\n1\nx 0\n", "7\n0\n", "0\n2\n0 0\n3 40\n"))
    ),
    "no epochs": lambda log, dice: log.with_name("leader-epoch-checkpoint").unlink(missing_ok=True),
    "deleted copy of": lambda log, dice: _copies(log, "deleted", dice),
    "cleaned copy of": lambda log, dice: _copies(log, "cleaned", dice),
    "swap copy of": lambda log, dice: _copies(log, "swap", dice),
    "foreign name beside": lambda log, dice: log.with_name(
        dice.choice(("zz.log.deleted", "x.tmp", "00000000000000000007.index", "old.snapshot", "xx.log.cleaned"))
    ).write_bytes(b"1234"),
}  # fmt: skip
