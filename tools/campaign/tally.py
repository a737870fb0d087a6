"""What a campaign has seen so far: counts by verb, mutation and kind of file, and every input that failed."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tools.campaign.classes import CLASSES
from tools.campaign.draw import Deck, Input
from tools.campaign.verbs import DEEP, VERBS

HEAD = """\
# The campaign

Made by `scripts/campaign --report docs/campaign.md`. Every input is one golden log directory with one change; each goes
through `verify --deep` and two more commands. Held for each: no exception that is not ours, no signal, at most 20 s,
bounded memory, valid JSON, the directory untouched, and where a readable record is gone or changed, a finding says so.
"""


KEPT: Final = ("next", "seconds", "slowest", "most_memory", "failures", "mended", "commits")
"""What a state holds beside the counters."""


AIM: Final = 100_000
RARE: Final = 50
"""What a committed run should have: so many inputs, and each command on each cell so often."""


class Tally:
    """Counts of a seed's inputs. `next` is the number of the first input that was not judged yet."""

    def __init__(self, seed: str, deck: Deck) -> None:
        self.seed, self.deck = seed, deck
        self.next, self.seconds = 0, 0.0
        self.ran: Counter[tuple[str, str, str]] = Counter()  # kind, mutation, verb
        self.lossy: Counter[tuple[str, str]] = Counter()
        self.classes: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.slowest = 0.0
        self.most_memory = 0
        self.failures: list[dict[str, Any]] = []
        self.mended: list[dict[str, Any]] = []
        self.commits: list[str] = []

    @classmethod
    def load(cls, path: Path | None, seed: str, deck: Deck) -> Tally:
        tally = cls(seed, deck)
        if path and path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["seed"] != seed:
                raise SystemExit(f"{path} is the state of seed {kept['seed']}")
            tally.ran = Counter({tuple(key): count for key, count in kept["ran"]})
            tally.lossy = Counter({tuple(key): count for key, count in kept["lossy"]})
            tally.classes, tally.codes = Counter(kept["classes"]), Counter(kept["codes"])
            for name in KEPT:
                setattr(tally, name, kept[name])
        return tally

    def save(self, path: Path | None) -> None:
        if not path:
            return
        kept = {name: getattr(self, name) for name in ("seed", *KEPT)}
        kept |= {"ran": list(self.ran.items()), "lossy": list(self.lossy.items())}
        kept |= {"classes": self.classes, "codes": self.codes}
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_text(json.dumps(kept), encoding="utf-8")
        os.replace(new, path)

    def add(self, one: Input, verdict: dict[str, Any], known_class: str | None) -> None:
        kind, mutation = one.change.kind, one.change.mutation
        for verb in (DEEP, *one.verbs):
            self.ran[kind, mutation, verb] += 1
        for verb, code in verdict["exit_codes"].items():
            self.codes[f"{verb} {code}"] += 1
        self.slowest = max(self.slowest, verdict.get("seconds", 0.0))
        self.most_memory = max(self.most_memory, verdict.get("memory_bytes", 0))
        if verdict["lossy"]:
            self.lossy[kind, mutation] += 1
        wrong = wrong_of(verdict, known_class)
        if wrong:
            self.failures.append({
                "wrong": wrong,
                "change": one.change,
                "verbs": one.verbs,
                "seed": one.seed,
            })
        elif known_class:
            self.classes[known_class] += 1

    def runs_on(self, commit: str) -> None:
        """Remember the commit whose code judges from now on."""
        if commit and commit not in self.commits:
            self.commits.append(commit)

    @property
    def inputs(self) -> int:
        return sum(count for (_, _, verb), count in self.ran.items() if verb == DEEP)

    def line(self) -> str:
        rate = self.inputs / self.seconds if self.seconds else 0
        return f"{self.inputs} inputs, {rate:.0f}/s, {sum(self.lossy.values())} lossy, {len(self.failures)} failed"

    def text(self) -> str:
        return "\n".join([*self._summary(), *self._matrix(), *self._classes(), *self._failures()])

    def page(self, faults: Mapping[str, Any]) -> str:
        parts = [
            self._summary(),
            self._classes(),
            self._failures(),
            _faults(faults),
            self._matrix(),
        ]
        return "\n".join([HEAD, *(line for part in parts for line in (*part, ""))])

    def _summary(self) -> Iterator[str]:
        yield f"Seed `{self.seed}`: {self.inputs} inputs, {sum(self.ran.values())} commands, {len(self.failures)} failed."
        if self.commits:
            yield f"They ran with the code of {', '.join(self.commits)}, and took {self.seconds / 3600:.1f} hours."
        if self.mended:
            yield f"{len(self.mended)} of them failed when they first ran; with the code of today they hold."
        yield f"Slowest input {self.slowest:.1f} s; most memory above an idle worker {self.most_memory // 1024**2} MiB."
        lossy = sum(self.lossy.values())
        yield f"{lossy} inputs lost or changed readable records; a finding says so in {lossy - self.classes.total()}."
        rare, cell = min(
            (self.ran[*cell, verb], (*cell, verb)) for cell in self._possible() for verb in VERBS
        )
        yield f"The rarest combination is {' × '.join(cell)}: {rare} times."
        if self.inputs < AIM or rare < RARE:
            yield f"The aim is {AIM} inputs, and each combination {RARE} times: this run was stopped before."

    def _possible(self) -> list[tuple[str, str]]:
        return [
            cell
            for cell in self.deck.cells
            if self.ran[*cell, DEEP] or self.next < len(self.deck.cells)
        ]

    def _matrix(self) -> Iterator[str]:
        """How often each verb ran on each mutation of each kind of file."""
        yield "How often each command ran on each mutation of each kind of file"
        yield ""
        yield "| | | " + " | ".join((DEEP, *sorted(VERBS))) + " |"
        yield "|---|---|" + "--:|" * (1 + len(VERBS))
        for kind, mutation in self.deck.cells:
            counts = [str(self.ran[kind, mutation, verb]) for verb in (DEEP, *sorted(VERBS))]
            yield f"| {kind} | {mutation} | {' | '.join(counts)} |"
        never = [" × ".join(cell) for cell in self.deck.cells if cell not in self._possible()]
        yield ""
        yield "Mutations of segments are of partition directories only. Bits, cuts, zeros, fields and more bytes are of files only."
        if never:
            yield f"No file of a golden directory can be changed so: {', '.join(never)}."

    def _classes(self) -> Iterator[str]:
        lossy = sum(self.lossy.values())
        if CLASSES:
            yield "| what no file can show | share of lossy inputs | why |"
            yield "|---|---|---|"
        for one in CLASSES:
            share = 100 * self.classes[one.name] / lossy if lossy else 0.0
            yield f"| {one.name} | {self.classes[one.name]} ({share:.1f} %) | {one.why} |"

    def _failures(self) -> Iterator[str]:
        for one in self.failures[:50]:
            yield f"FAILED {one['change']} {one['verbs']}: {one['wrong'][0]}"


def wrong_of(verdict: Mapping[str, Any], known_class: str | None) -> list[str]:
    """What did not hold of an input; `known_class` is the class of its silent loss, if it has one."""
    wrong = list(verdict["wrong"])
    if known_class and verdict.get("contradicted"):
        wrong.append(f"silent loss, and a file shows it: {verdict['contradicted'][0]}")
    elif verdict["lossy"] and not verdict["told"] and not known_class:
        wrong.append("silent loss: readable records are gone or changed, and no finding says so")
    return wrong


def _faults(faults: Mapping[str, Any]) -> Iterator[str]:
    """What the faults under everything that writes came to."""
    if not faults:
        return
    yield f"Faults under everything that writes (`scripts/campaign faults --full`): {sum(faults['counts'].values())} in"
    yield f"{faults['seconds'] / 60:.0f} minutes, {len(faults['failures'])} did not hold. {faults.get('remark', '')}".rstrip()
    yield ""
    yield "| scene and step | fault | times |"
    yield "|---|---|--:|"
    for name, count in sorted(faults["counts"].items()):
        scene, _, what = name.partition(": ")
        yield f"| {scene} | {what} | {count} |"
