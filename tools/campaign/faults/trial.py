"""One volume of a scene, planned, and what must hold of commands on it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.campaign.corpus import Root
from tools.campaign.faults.commands import Ended, Fault, freeze, here, run
from tools.campaign.faults.scenes import Content, Scene, build, content

STEPS = ("apply", "undo", "purge")


class Trial:
    """A volume of a scene, planned, and what its files are before and after an undisturbed apply."""

    def __init__(self, scene: Scene, roots: Mapping[str, Root], folder: Path) -> None:
        self.scene, self.folder = scene, folder
        self.log_dir = build(scene, roots, folder)
        self.plan, self.run = folder / "plan", folder / "plan.run"
        self.before = content(self.log_dir)
        ended = here(
            "plan", *scene.plan[:1], str(self.log_dir), *scene.plan[1:], "-o", str(self.plan)
        )
        if ended.code not in (0, 1):
            raise SystemExit(f"{scene.name}: not planned: {ended.text}")

    @property
    def volume(self) -> Path:
        return self.folder / "volume"

    def do(
        self, step: str, fault: Fault | None = None, *, count: bool = False, apart: bool = False
    ) -> Ended:
        """Do a step: in a child where it may fail or is counted, or where `apart` says so."""
        words = (
            ["apply", str(self.plan), "--digest", "any"]
            if step == "apply"
            else [step, str(self.run)]
        )
        if fault is None and not count and not apart:
            return here(*words)
        return run(*words, fault=fault, count=self.volume if count else None)

    def before_step(self, step: str) -> None:
        if step != "apply":
            self.do("apply")


@contextmanager
def trial(scene: Scene, roots: Mapping[str, Root], parent: Path) -> Generator[Trial]:
    folder = Path(tempfile.mkdtemp(prefix=f"{scene.name.replace(' ', '-')}-", dir=parent))
    try:
        yield Trial(scene, roots, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Report:
    """Counts, and what did not hold."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def missing(self, why: str) -> None:
        """A part that cannot be tried here."""
        if os.environ.get("CI"):
            self.failures.append(why)
        print(f"left out: {why}", file=sys.stderr)

    def hold(self, true: bool, what: str, ended: Ended) -> None:
        if not true:
            self.failures.append(
                f"{what}: exit {ended.code}, at {ended.last!r}: {ended.text.strip()[-600:]}"
            )
            print("FAILED", self.failures[-1], file=sys.stderr, flush=True)


def load(scene: Scene, roots: Mapping[str, Root], parent: Path) -> None:
    """Everything once in this process."""
    for ending in ("undo", "purge"):
        with trial(scene, roots, parent) as one:
            one.do("apply")
            one.do(ending)
    freeze()


def undisturbed(
    scene: Scene, roots: Mapping[str, Root], parent: Path
) -> tuple[Content, dict[str, int]]:
    """The files after apply, and how many calls each step makes below the volume."""
    calls = {}
    with trial(scene, roots, parent) as one:
        calls["apply"] = one.do("apply", count=True).calls
        after = content(one.log_dir)
        calls["undo"] = one.do("undo", count=True).calls
        if content(one.log_dir) != one.before:
            raise SystemExit(f"{scene.name}: undo does not bring back what was there")
    with trial(scene, roots, parent) as one:
        one.do("apply")
        calls["purge"] = one.do("purge", count=True).calls
    return after, calls
