"""Small volumes and what is done to them: one per operation that writes.

FOLDER/volume/kafka      the log directory
FOLDER/volume/.kafkats   its work area
FOLDER/plan, plan.run    the plan and the run
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tools.campaign.corpus import CHECKPOINTS, Root, base_folder, policy_of

NOW: Final = "2026-01-01T00:00:00Z"


class Scene(NamedTuple):
    """`root` is the golden log directory's small root, `damage` what is done to a copy of it before planning."""

    name: str
    root: str
    partitions: tuple[str, ...]
    plan: tuple[str, ...]
    damage: Callable[[Path], None] = lambda log_dir: None
    tiny: bool = False
    """Whether --full tries every call: the others have a sample of their calls tried."""


def _without_its_time_index(log_dir: Path) -> None:
    for path in log_dir.glob("*/*.timeindex"):
        path.unlink()


def _without_time_indexes(log_dir: Path) -> None:
    indexes = sorted(log_dir.glob("*/*.timeindex"))
    for path in indexes[::2]:
        path.unlink()
    os.truncate(indexes[1], 0)


SCENES: Final = (
    Scene("rebuild", "matrix-4.3.1-v2:data", ("lz4-ct-0", "none-lat-0"), ("rebuild",), _without_time_indexes),
    Scene("migrate", "upgrade-0.9-to-2.8:data", ("none-many-segments-0",), ("migrate", "--to-magic", "2")),
    Scene(
        "retain", "retention-4.3.1:before", ("time-some-0", "time-all-0"),
        ("retain", "--now", NOW, "--policy", str(policy_of(base_folder()))),
    ),
    Scene(
        "roll", "rolling-4.3.1:data", ("by-bytes-0", "by-ms-0"),
        ("roll", "--now", NOW, "--config", "segment.ms=3600000"),
    ),
    Scene(
        "split", "matrix-4.3.1-v2:data", ("none-ct-0",),
        ("split", "--where", "rolled", "--segment-bytes", "1KiB"),
    ),
    Scene("recover", "crash-4.3.1:before", ("torn-0", "swap-complete-0"), ("recover",)),
    Scene("tiny recover", "crash-4.3.1:before", ("few-bytes-0",), ("recover",), tiny=True),
    Scene("tiny rebuild", "rolling-4.3.1:data", ("by-ms-old-0",), ("rebuild",), _without_its_time_index, tiny=True),
    Scene("tiny migrate", "timestamps-0.10.2.2:data", ("ts-negative-0",), ("migrate", "--to-magic", "2"), tiny=True),
    Scene(
        "tiny retain", "rolling-1.1.1:data", ("by-ms-jump-0",),
        ("retain", "--now", NOW, "--policy", str(policy_of(base_folder()))), tiny=True,
    ),
    Scene(
        "tiny roll", "rolling-4.3.1:data", ("by-ms-old-0",),
        ("roll", "--now", NOW, "--config", "segment.ms=3600000"), tiny=True,
    ),
    Scene(
        "tiny split", "rolling-4.3.1:data", ("by-ms-jump-0",),
        ("split", "--where", "rolled", "--segment-bytes", "200"), tiny=True,
    ),
)  # fmt: skip


def build(scene: Scene, roots: Mapping[str, Root], folder: Path) -> Path:
    """A volume of the scene in the existing `folder`; returns its log directory."""
    log_dir = folder / "volume" / "kafka"
    log_dir.mkdir(parents=True)
    of_one = {
        one.partitions[0]: one
        for one in roots.values()
        if len(one.partitions) == 1 and one.state == scene.root
    }
    sources = [of_one[partition] for partition in scene.partitions]
    for partition, root in zip(scene.partitions, sources, strict=True):
        shutil.copytree(root.path / partition, log_dir / partition)
        for file in root.files:
            if "/" not in file and not (log_dir / file).exists() and file not in CHECKPOINTS:
                shutil.copy2(root.path / file, log_dir / file)
    for name in CHECKPOINTS:
        _checkpoint([root.path / name for root in sources], log_dir / name, scene.partitions)
    (log_dir / ".lock").touch()
    scene.damage(log_dir)
    return log_dir


def _checkpoint(parts: list[Path], to: Path, partitions: tuple[str, ...]) -> None:
    """The lines of these partitions from the small roots' checkpoints, as one file."""
    texts = [part.read_text().splitlines() for part in parts if part.exists()]
    if not any(texts):
        return
    lines = [
        line for text in texts for line in text[2:] if "-".join(line.split()[:2]) in partitions
    ]
    to.write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")


Content = dict[str, tuple[str, int]]


def content(log_dir: Path) -> Content:
    """Path below the log directory -> (sha256, mtime in ns) of each file."""
    found = {}
    for path in sorted(log_dir.rglob("*")):
        if path.is_file() and path.name != ".lock":
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(log_dir))] = (digest, path.stat().st_mtime_ns)
    return found


def bytes_of(files: Content) -> dict[str, str]:
    """Without the times, which are new for files that a run makes."""
    return {path: digest for path, (digest, _) in files.items()}
