"""Full file systems: a volume on a tmpfs with a few blocks or inodes left, for each step.

Held: an error of ours or success, and nothing lost; when there is room again, the same command finishes. What purge
frees, it frees without room. Mounting needs root; without it the part is left out, which is an error in CI.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.campaign.corpus import Root
from tools.campaign.faults.scenes import Scene, bytes_of, content
from tools.campaign.faults.trial import STEPS, Report, Trial, trial, undisturbed

PAGE: Final = 4096
LEFT: Final = (0, 1, 2, 3, 5, 8, 12, 20)
"""Blocks, or inodes, that are left."""
SIZE: Final = "64m"


def filled(
    scene: Scene, roots: Mapping[str, Root], parent: Path, args: argparse.Namespace, report: Report
) -> None:
    """Each step with so much left of blocks, and of inodes."""
    if os.geteuid():
        report.missing("full file systems need root, to mount one")
        return
    after, _ = undisturbed(scene, roots, parent)
    for step in STEPS:
        for what in ("blocks", "inodes"):
            for left in LEFT if args.full else LEFT[::3]:
                report.counts[f"{scene.name}, {step}: few {what} left"] += 1
                with _mounted(parent) as place, trial(scene, roots, place) as one:
                    _try(one, step, what, left, bytes_of(after), report)


def _try(
    one: Trial, step: str, what: str, left: int, after: Mapping[str, str], report: Report
) -> None:
    one.before_step(step)
    filler = one.folder / "filler"
    _fill(filler, what, left)
    name = f"{one.scene.name} {step} with {left} {what} left"
    ended = one.do(step, apart=True)
    report.hold(ended.code in (0, 1, 2, 3) and "Traceback" not in ended.text, name, ended)
    if step == "purge":
        report.hold(ended.code == 0, f"{name}: does not free", ended)
    _empty(filler)
    again = one.do(step)
    report.hold(again.code == 0, f"{name}, again with room", again)
    wanted = bytes_of(one.before) if step == "undo" else after
    report.hold(bytes_of(content(one.log_dir)) == wanted, f"{name}: wrong files", again)


def _fill(folder: Path, what: str, left: int) -> None:
    folder.mkdir()
    free = os.statvfs(folder)
    if what == "blocks":
        with (folder / "blocks").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(free.f_bfree - left, 1) * free.f_frsize)
    else:
        for number in range(max(free.f_ffree - left, 0)):
            (folder / str(number)).touch()


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


@contextmanager
def _mounted(parent: Path) -> Generator[Path]:
    place = parent / "mount"
    place.mkdir(exist_ok=True)
    options = f"size={SIZE},nr_inodes=600"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
