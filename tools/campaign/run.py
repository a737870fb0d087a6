"""A campaign: damaged log directories by the thousand, each through `verify --deep` and two more commands.

    scripts/campaign [--seconds N] [--inputs N] [--seed S] [--jobs N] [--state FILE] [--report FILE] [--replay FILE]

Held for every input: no exception that is not ours, no signal, at most 20 s, bounded memory, valid JSON, an untouched
directory, and no silent loss: where a record that was readable is gone or changed, a finding says so, or no file can
show it (tools.campaign.classes). Exits with 1 when something did not hold. A campaign that was stopped goes on where
it was when it is started again with the same --state.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tools.campaign.classes import class_of
from tools.campaign.corpus import base_folder, corpus
from tools.campaign.draw import Deck, Input
from tools.campaign.mutations import Change
from tools.campaign.tally import Tally, wrong_of
from tools.campaign.workers import Worker, answering

ROUND = 400
"""Inputs after which the state is written."""
FAILED = Path(__file__).with_name("failed.jsonl")
"""Every input that ever failed, for CI."""


def judged(
    inputs: Iterable[Input], workers: list[Worker]
) -> Iterator[tuple[Input, dict[str, Any]]]:
    """Every input with its verdict, in the order in which they come."""
    waiting, busy = iter(inputs), {}
    idle = list(workers)
    while True:
        while idle and (one := next(waiting, None)) is not None:
            worker = idle.pop()
            worker.give(one)
            busy[worker] = one
        if not busy:
            return
        for worker in answering(busy, 0.5):
            if (verdict := worker.answer()) is not None:
                yield busy.pop(worker), verdict
                idle.append(worker)


def replayed(path: Path) -> list[Input]:
    """The inputs of a file of failed ones."""
    lines = [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]
    return [Input(Change(*line["change"]), line["verbs"], line["seed"]) for line in lines]


def campaign(args: argparse.Namespace) -> int:
    base = base_folder()
    deck = Deck(corpus(base))
    tally = Tally.load(args.state, args.seed, deck)
    began = time.monotonic()
    if not args.again:
        tally.runs_on(commit())
    workers = [Worker(base, base / f"work-{os.getpid()}-{n}") for n in range(args.jobs)]
    try:
        if args.replay:
            _hold(judged(replayed(args.replay), workers), tally, deck)
        if args.again:
            _judge_again(tally, workers, deck)
        while not (args.only_replay or args.again) and _goes_on(args, tally, began):
            numbers = range(
                tally.next,
                tally.next + min(ROUND, args.inputs - tally.inputs if args.inputs else ROUND),
            )
            drawn = [one for n in numbers if (one := deck.input(args.seed, n))]
            _hold(judged(drawn, workers), tally, deck)
            tally.next = numbers.stop
            tally.seconds += time.monotonic() - began
            began_round, began = began, time.monotonic()
            args.seconds = args.seconds and args.seconds - (began - began_round)
            tally.save(args.state)
            print(tally.line(), file=sys.stderr, flush=True)
    finally:
        for worker in workers:
            worker.stop()
    tally.save(args.state)
    print(tally.text())
    if args.report:
        faults = json.loads(args.faults.read_text(encoding="utf-8")) if args.faults else {}
        args.report.write_text(tally.page(faults), encoding="utf-8")
    if args.failed:
        args.failed.write_text(
            "".join(json.dumps(one) + "\n" for one in tally.failures), encoding="utf-8"
        )
    return int(bool(tally.failures))


def _goes_on(args: argparse.Namespace, tally: Tally, began: float) -> bool:
    if args.inputs and tally.inputs >= args.inputs:
        return False
    return args.seconds is None or time.monotonic() - began < args.seconds


def _hold(verdicts: Iterable[tuple[Input, dict[str, Any]]], tally: Tally, deck: Deck) -> None:
    for one, verdict in verdicts:
        silent = verdict["lossy"] and not verdict["told"]
        tally.add(
            one, verdict, class_of(one.change, deck.roots[one.change.root]) if silent else None
        )


def _judge_again(tally: Tally, workers: list[Worker], deck: Deck) -> None:
    """The inputs that failed, by the code of now: those that hold count as mended."""
    failed = {one["seed"]: one for one in tally.failures}
    inputs = [Input(Change(*one["change"]), one["verbs"], one["seed"]) for one in failed.values()]
    for one, verdict in judged(inputs, workers):
        silent = verdict["lossy"] and not verdict["told"]
        known_class = class_of(one.change, deck.roots[one.change.root]) if silent else None
        if not wrong_of(verdict, known_class):
            tally.mended.append(failed.pop(one.seed))
            tally.classes[known_class] += 1 if known_class else 0
    tally.failures = list(failed.values())


def commit() -> str:
    """The commit that runs, with a + where files differ from it; "" outside a repository."""
    words = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    ran = subprocess.run(words, capture_output=True, text=True, cwd=Path(__file__).parent)
    return ran.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds", type=float, help="stop after so long; for ever if neither this nor --inputs"
    )
    parser.add_argument("--inputs", type=int, help="stop after N inputs")
    parser.add_argument("--seed", default="kafkats")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--state", type=Path, help="where the campaign is kept, to go on with it")
    parser.add_argument("--report", type=Path, help="write the page for docs/ there")
    parser.add_argument(
        "--faults", type=Path, help="what tools.campaign.faults.run --output wrote, for the report"
    )
    parser.add_argument(
        "--again", action="store_true", help="only judge the inputs again that failed in --state"
    )
    parser.add_argument("--failed", type=Path, help="write the inputs that failed there")
    parser.add_argument(
        "--replay", type=Path, help=f"first the inputs of such a file, such as {FAILED.name}"
    )
    parser.add_argument("--only-replay", action="store_true", help="and no others")
    return campaign(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
