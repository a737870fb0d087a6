"""Faults under everything that writes: each call below the volume fails once, or the process is killed before it.

    python -m tools.campaign.faults.run [--full] [--seed S] [--scene NAME] [--what errors|kills|plans|full-disk]

After each fault: our own error or success, no traceback; then the same command again, without a fault, must finish:
the files are those of an undisturbed run, and after undo those of before, with their times. A tampered plan is
refused, or does what undo takes back. On a full file system nothing is lost, and what was freed lets it go on.
Without --full, and in the larger scenes, a sample of the calls, drawn by the seed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from random import Random

from tools.campaign.corpus import Root, base_folder, corpus
from tools.campaign.faults import full_disk, plans
from tools.campaign.faults.commands import ERRNOS, KILL, Ended, Fault, preload
from tools.campaign.faults.scenes import SCENES, Content, Scene, bytes_of, content
from tools.campaign.faults.trial import STEPS, Report, load, trial, undisturbed


def faulted(
    scene: Scene, roots: dict[str, Root], parent: Path, step: str, fault: Fault, after: Content
) -> list[tuple[bool, str, Ended]]:
    """What must hold of one fault in one step: (holds, what, how the command ended)."""
    with trial(scene, roots, parent) as one:
        one.before_step(step)
        ended = one.do(step, fault._replace(folder=one.volume))
        held = [(_ours(ended, fault), f"{scene.name} {step} {fault.what} at {fault.at}", ended)]
        again = one.do(step)
        name = f"{scene.name} {step} again after {fault.what} at {fault.at} ({ended.last})"
        held.append((again.code == 0, name, again))
        if step == "undo":
            held.append((
                content(one.log_dir) == one.before,
                f"{name}: files are not those of before",
                again,
            ))
            return held
        held.append((
            bytes_of(content(one.log_dir)) == bytes_of(after),
            f"{name}: not the files of a good run",
            again,
        ))
        if step == "apply":
            back = one.do("undo")
            held.append((
                content(one.log_dir) == one.before,
                f"{name}: undo does not bring back",
                back,
            ))
        return held


def _ours(ended: Ended, fault: Fault) -> bool:
    if fault.what == KILL:
        return ended.code in (-9, 0)
    return ended.code in (0, 1, 2, 3) and "Traceback" not in ended.text


def errors(
    scene: Scene, roots: dict[str, Root], parent: Path, args: argparse.Namespace, report: Report
) -> None:
    """Errors and kills: with --full at every call of a tiny scene, else at a sample of the calls.

    An error at every call means that each call fails once, with the errnos in turn.
    """
    after, calls = undisturbed(scene, roots, parent)
    rng = Random(f"{args.seed}/{scene.name}")
    kinds = [("kills", KILL)] if args.what == "kills" else [*ERRNOS.items(), ("kills", KILL)]
    for step in STEPS:
        for number, (name, what) in enumerate(kinds):
            if args.full and scene.tiny:
                chosen = (
                    range(calls[step]) if what == KILL else range(number, calls[step], len(ERRNOS))
                )
            else:
                chosen = sorted(rng.sample(range(calls[step]), min(args.sample, calls[step])))
            for at in chosen:
                report.counts[f"{scene.name}, {step}: {name}"] += 1
                for held in faulted(scene, roots, parent, step, Fault(at, what, parent), after):
                    report.hold(*held)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="every call of the tiny scenes: once with an error, once with a kill",
    )
    parser.add_argument(
        "--sample", type=int, default=2, help="calls of a step per kind of fault, without --full"
    )
    parser.add_argument("--seed", default="kafkats")
    parser.add_argument("--scene", action="append", choices=[scene.name for scene in SCENES])
    parser.add_argument("--what", choices=("errors", "kills", "plans", "full-disk"))
    parser.add_argument("--output", type=Path, help="counts and failures, as JSON")
    args = parser.parse_args()
    preload()
    base = base_folder()
    roots = corpus(base)
    parent = base / f"faults-{os.getpid()}"
    parent.mkdir()
    report, began = Report(), time.monotonic()
    try:
        for scene in SCENES:
            if args.scene and scene.name not in args.scene:
                continue
            load(scene, roots, parent)
            if args.what in (None, "errors", "kills"):
                errors(scene, roots, parent, args, report)
            if scene.tiny:
                continue  # the larger scenes have more to tamper with, and to fill
            if args.what in (None, "plans"):
                plans.tampered(scene, roots, parent, args, report)
            if args.what in (None, "full-disk"):
                full_disk.filled(scene, roots, parent, args, report)
    finally:
        shutil.rmtree(parent, ignore_errors=True)
    for name, count in sorted(report.counts.items()):
        print(f"{count:6} {name}")
    print(
        f"{report.counts.total()} faults in {time.monotonic() - began:.0f} s, {len(report.failures)} did not hold"
    )
    if args.output:
        args.output.write_text(
            json.dumps({
                "counts": report.counts,
                "failures": report.failures,
                "seconds": time.monotonic() - began,
            }),
            encoding="utf-8",
        )
    return int(bool(report.failures))


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads that libraries had before a fork may abort an ordinary exit
