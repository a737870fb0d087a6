"""The commands that a campaign runs over an input, as words for `kafkats`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from tools.campaign.corpus import base_folder, policy_of
from tools.campaign.mutations import Change

NOW: Final = "2026-01-01T00:00:00Z"
_TIMES: Final = (
    "latest",
    "earliest",
    "max-timestamp",
    "2020-09-13T12:27:30Z",
    "0",
    "1700000000000",
    "2100-01-01T00:00:00Z",
)
_LIMITS: Final = ("--policy", str(policy_of(base_folder())))
_ROLLS: Final = ("--config", "segment.ms=3600000")

Words = list[str]


def _files(change: Change, root: Path) -> list[Path]:
    changed = root / change.file
    if changed.exists() and not changed.is_dir():
        return [changed]
    return sorted(p for p in root.rglob("*") if p.is_file())[:1] or [changed]


VERBS: Final[dict[str, Callable[[Random, Change, Path, Path], Words]]] = {
    "verify": lambda rng, change, root, out: ["verify", str(root), "--json"],
    "inventory": lambda rng, change, root, out: [
        "inventory", str(root), "--by", rng.choice(("segment", "partition", "topic", "format")), "--json",
    ],
    "certify": lambda rng, change, root, out: [
        "certify", str(root), "--min-magic", str(rng.randrange(3)), "-o", str(out / "certificate"), "--json",
        *rng.choice(((), ("--deep",))),
    ],
    "dump": lambda rng, change, root, out: ["dump", str(rng.choice(_files(change, root))), *rng.choice(((), ("--deep",)))],
    "lookup": lambda rng, change, root, out: [
        "lookup", str(root), "--at", rng.choice(_TIMES), "--at", rng.choice(_TIMES), "--json",
        "--depth", rng.choice(("tail", "full", "deep")), "--how", rng.choice(("exact", "kafka")),
    ],
    "lookup table": lambda rng, change, root, out: [
        "lookup", str(root), "--every", "1m", "--from", "2020-09-13T12:00:00Z", "--until", "2020-09-13T13:00:00Z",
        "-o", str(out / "table"),
    ],
    "export": lambda rng, change, root, out: [
        "export", str(root), "--at", rng.choice(_TIMES), "--missing", rng.choice(("fail", "all", "none", "leave")),
        "--to", rng.choice(("spark-offsets", "spark-by-timestamp", "group-csv", "json")), "-o", str(out / "offsets"),
    ],
    "layouts": lambda rng, change, root, out: ["layouts", str(root), "--json", "-o", str(out / "layouts")],
    "latency": lambda rng, change, root, out: ["latency", str(root), "--json"],
    "plan rebuild": lambda rng, change, root, out: [
        "plan", "rebuild", str(root), "-o", str(out / "plan"), "--json", *rng.choice(((), ("--all",), ("--valid-prefix",))),
    ],
    "plan migrate": lambda rng, change, root, out: [
        "plan", "migrate", str(root), "-o", str(out / "plan"), "--json", "--to-magic", str(rng.randrange(3)),
        *rng.choice(((), ("--accept-loss", "all"))),
    ],
    "plan retain": lambda rng, change, root, out: [
        "plan", "retain", str(root), "-o", str(out / "plan"), "--json", "--now", NOW, *_LIMITS,
        *rng.choice(((), ("--last-segment",), ("--inside-segments",))),
    ],
    "plan roll": lambda rng, change, root, out: [
        "plan", "roll", str(root), "-o", str(out / "plan"), "--json", "--now", NOW, *_ROLLS,
    ],
    "plan split": lambda rng, change, root, out: [
        "plan", "split", str(root), "-o", str(out / "plan"), "--json", "--where", "rolled", "--segment-bytes", "1KiB",
    ],
    "plan recover": lambda rng, change, root, out: [
        "plan", "recover", str(root), "-o", str(out / "plan"), "--json", *rng.choice((
            (), ("--like-kafka",), ("--accept-loss", "offsets"), ("--copy-readable", str(out / "copies")),
        )),
    ],
    "preflight": lambda rng, change, root, out: [
        "preflight", str(root), "--json", "--kafka", rng.choice(("4.3", "3.9", "2.8", "1.1", "0.11")),
    ],
    "simulate retain": lambda rng, change, root, out: [
        "simulate", "retain", str(root), "--json", "--now", NOW, *_LIMITS,
    ],
    "simulate roll": lambda rng, change, root, out: ["simulate", "roll", str(root), "--json", *_ROLLS],
}  # fmt: skip
DEEP: Final = "verify --deep"
"""What every input goes through first."""


def words_of(verb: str, rng: Random, change: Change, root: Path, out: Path) -> Words:
    """The command line of one verb; what it writes goes below `out`."""
    return VERBS[verb](rng, change, root, out)
