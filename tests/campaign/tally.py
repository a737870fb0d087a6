"""What a campaign has seen so far: counts by verb, mutation and kind of file, and every input that failed."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.campaign.classes import CLASSES
from tests.campaign.draw import Deck, Input
from tests.campaign.verbs import DEEP, VERBS

HEAD = """\
# The campaign

Made by `scripts/campaign --report docs/campaign.md`. Every input is one golden log directory with one change; each goes
through `verify --deep` and two more commands. Held for each: no exception that is not ours, no signal, at most 20 s,
bounded memory, valid JSON, the directory untouched, and where a readable record is gone or changed, a finding says so.
"""


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
            for name in ("next", "seconds", "slowest", "most_memory", "failures"):
                setattr(tally, name, kept[name])
        return tally

    def save(self, path: Path | None) -> None:
        if not path:
            return
        kept = {name: getattr(self, name) for name in ("seed", "next", "seconds", "slowest", "most_memory", "failures")}
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
        wrong = list(verdict["wrong"])
        if verdict["lossy"]:
            self.lossy[kind, mutation] += 1
            if known_class and verdict.get("contradicted"):
                wrong.append(f"silent loss, and a file shows it: {verdict['contradicted'][0]}")
            elif known_class:
                self.classes[known_class] += 1
            elif not verdict["told"]:
                wrong.append("silent loss: readable records are gone or changed, and no finding says so")
        if wrong:
            self.failures.append({"wrong": wrong, "change": one.change, "verbs": one.verbs, "seed": one.seed})

    @property
    def inputs(self) -> int:
        return sum(count for (_, _, verb), count in self.ran.items() if verb == DEEP)

    def line(self) -> str:
        rate = self.inputs / self.seconds if self.seconds else 0
        return f"{self.inputs} inputs, {rate:.0f}/s, {sum(self.lossy.values())} lossy, {len(self.failures)} failed"

    def text(self) -> str:
        return "\n".join([*self._summary(), *self._matrix(), *self._classes(), *self._failures()])

    def page(self) -> str:
        return "\n".join([HEAD, *self._summary(), "", *self._matrix(), "", *self._classes(), *self._failures(), ""])

    def _summary(self) -> Iterator[str]:
        yield f"Seed `{self.seed}`: {self.inputs} inputs, {sum(self.ran.values())} commands, {len(self.failures)} failed."
        yield f"Slowest input {self.slowest:.1f} s; most memory above an idle worker {self.most_memory // 1024**2} MiB."
        lossy = sum(self.lossy.values())
        yield f"{lossy} inputs lost or changed readable records; a finding says so in {lossy - self.classes.total()}."

    def _matrix(self) -> Iterator[str]:
        """Inputs per cell, and the verb that ran least often in it."""
        mutations = list(dict.fromkeys(mutation for _, mutation in self.deck.cells))
        yield "Inputs by kind of file and mutation (in brackets: how often the verb ran that ran least often there)"
        yield ""
        yield "| | " + " | ".join(mutations) + " |"
        yield "|---|" + "---|" * len(mutations)
        for kind in sorted({kind for kind, _ in self.deck.cells}):
            yield f"| {kind} | " + " | ".join(self._cell(kind, mutation) for mutation in mutations) + " |"

    def _cell(self, kind: str, mutation: str) -> str:
        if (kind, mutation) not in self.deck.cells:
            return ""
        return f"{self.ran[kind, mutation, DEEP]} ({min(self.ran[kind, mutation, verb] for verb in VERBS)})"

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
