"""Faults under everything that writes: each call below the volume fails once, or the process is killed before it.

    python -m tests.campaign.faults.run [--full] [--seed S] [--scene NAME] [--what errors|kills|plans|full-disk]

After each fault: our own error or success, no traceback; then the same command again, without a fault, must finish:
the files are those of an undisturbed run, and after undo those of before, with their times. A tampered plan is
refused, or does what undo takes back. On a full file system nothing is lost, and what was freed lets it go on.
Without --full a sample of the calls, drawn by the seed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.campaign.corpus import Root, base_folder, corpus
from tests.campaign.faults.commands import ERRNOS, KILL, Ended, Fault, preload, run, warm
from tests.campaign.faults.scenes import SCENES, Content, Scene, build, bytes_of, content

STEPS = ("apply", "undo", "purge")
SAMPLE = 4
"""How many calls of a step are tried, per kind of fault, without --full."""


class Trial:
    """A volume of a scene, planned, and what its files are before and after an undisturbed apply."""

    def __init__(self, scene: Scene, roots: dict[str, Root], folder: Path, do: Callable[..., Ended | None] = run) -> None:
        self.scene, self.folder = scene, folder
        self.log_dir = build(scene, roots, folder)
        self.plan, self.run = folder / "plan", folder / "plan.run"
        self.before = content(self.log_dir)
        ended = do("plan", *scene.plan[:1], str(self.log_dir), *scene.plan[1:], "-o", str(self.plan))
        if ended and ended.code not in (0, 1):
            raise SystemExit(f"{scene.name}: not planned: {ended.text}")

    @property
    def volume(self) -> Path:
        return self.folder / "volume"

    def do(self, step: str, fault: Fault | None = None, *, count: bool = False) -> Ended:
        words = ["apply", str(self.plan), "--digest", "any"] if step == "apply" else [step, str(self.run)]
        return run(*words, fault=fault, count=self.volume if count else None)

    def before_step(self, step: str) -> None:
        if step != "apply":
            self.do("apply")


@contextmanager
def trial(
    scene: Scene, roots: dict[str, Root], parent: Path, do: Callable[..., Ended | None] = run
) -> Iterator[Trial]:
    folder = Path(tempfile.mkdtemp(prefix=f"{scene.name}-", dir=parent))
    try:
        yield Trial(scene, roots, folder, do)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Report:
    """Counts, and what did not hold."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def hold(self, true: bool, what: str, ended: Ended) -> None:
        if not true:
            self.failures.append(f"{what}: exit {ended.code}, at {ended.last!r}: {ended.text.strip()[-600:]}")
            print("FAILED", self.failures[-1], file=sys.stderr, flush=True)


def load(scene: Scene, roots: dict[str, Root], parent: Path) -> None:
    """Everything once in this process."""
    for ending in ("undo", "purge"):
        with trial(scene, roots, parent, warm) as one:
            warm("apply", str(one.plan), "--digest", "any")
            warm(ending, str(one.run))


def undisturbed(scene: Scene, roots: dict[str, Root], parent: Path) -> tuple[Content, dict[str, int]]:
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


def faulted(scene: Scene, roots: dict[str, Root], parent: Path, step: str, fault: Fault, after: Content) -> list[tuple[bool, str, Ended]]:
    """What must hold of one fault in one step: (holds, what, how the command ended)."""
    with trial(scene, roots, parent) as one:
        one.before_step(step)
        ended = one.do(step, fault._replace(folder=one.volume))
        held = [(_ours(ended, fault), f"{scene.name} {step} {fault.what} at {fault.at}", ended)]
        again = one.do(step)
        name = f"{scene.name} {step} again after {fault.what} at {fault.at} ({ended.last})"
        held.append((again.code == 0, name, again))
        if step == "undo":
            held.append((content(one.log_dir) == one.before, f"{name}: files are not those of before", again))
            return held
        held.append((bytes_of(content(one.log_dir)) == bytes_of(after), f"{name}: not the files of a good run", again))
        if step == "apply":
            back = one.do("undo")
            held.append((content(one.log_dir) == one.before, f"{name}: undo does not bring back", back))
        return held


def _ours(ended: Ended, fault: Fault) -> bool:
    if fault.what == KILL:
        return ended.code in (-9, 0)
    return ended.code in (0, 1, 2, 3) and "Traceback" not in ended.text


def errors(scene: Scene, roots: dict[str, Root], parent: Path, args: argparse.Namespace, report: Report) -> None:
    """Every call with every errno (--full), or a sample of them; kills at the same places."""
    load(scene, roots, parent)
    after, calls = undisturbed(scene, roots, parent)
    rng = Random(f"{args.seed}/{scene.name}")
    kinds = [("kills", KILL)] if args.what == "kills" else [*ERRNOS.items(), ("kills", KILL)]
    for step in STEPS:
        for name, what in kinds:
            every = range(calls[step])
            for at in every if args.full else sorted(rng.sample(every, min(SAMPLE, len(every)))):
                report.counts[f"{scene.name} {step} {name}"] += 1
                for held in faulted(scene, roots, parent, step, Fault(at, what, parent), after):
                    report.hold(*held)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="every call, every errno")
    parser.add_argument("--seed", default="kafkats")
    parser.add_argument("--scene", action="append", choices=[scene.name for scene in SCENES])
    parser.add_argument("--what", choices=("errors", "kills", "plans", "full-disk"))
    parser.add_argument("--output", type=Path, help="counts and failures, as JSON")
    args = parser.parse_args()
    preload()
    from tests.campaign.faults import full_disk, plans

    base = base_folder()
    roots = corpus(base)
    parent = base / f"faults-{os.getpid()}"
    parent.mkdir()
    report, began = Report(), time.monotonic()
    try:
        for scene in SCENES:
            if args.scene and scene.name not in args.scene:
                continue
            if args.what in (None, "errors", "kills"):
                errors(scene, roots, parent, args, report)
            if args.what in (None, "plans"):
                plans.tampered(scene, roots, parent, args, report)
            if args.what in (None, "full-disk"):
                full_disk.filled(scene, roots, parent, args, report)
    finally:
        shutil.rmtree(parent, ignore_errors=True)
    for name, count in sorted(report.counts.items()):
        print(f"{count:6} {name}")
    print(f"{report.counts.total()} faults in {time.monotonic() - began:.0f} s, {len(report.failures)} did not hold")
    if args.output:
        args.output.write_text(json.dumps({"counts": report.counts, "failures": report.failures}), encoding="utf-8")
    return int(bool(report.failures))


if __name__ == "__main__":
    sys.exit(main())
