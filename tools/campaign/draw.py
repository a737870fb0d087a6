"""Which input comes next: every mutation of every kind of file in turn, with every verb as often as any other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tools.campaign.corpus import Root, kind_of
from tools.campaign.mutations import DIRECTORY_MUTATIONS, FILE_MUTATIONS, Change, draw, segments_of
from tools.campaign.verbs import VERBS

DIRECTORY: Final = "partition directory"
TRIES: Final = 200
"""How many files are tried until the mutation changes something."""


BETWEEN_PARTITIONS: Final = 0.7
"""Share of swaps in which the other file is another partition's, where a root has one partition."""


class Input(NamedTuple):
    """A change, the verbs after `verify --deep`, and the seed of their words."""

    change: Change
    verbs: list[str]
    seed: str


class Deck:
    """Draws input number n of a seed; the same one each time.

    A file is drawn with a weight of 1 by the square of its root's segments: what an input costs grows with them, and
    most roots with many segments differ little.
    """

    def __init__(self, roots: Mapping[str, Root]) -> None:
        self.roots = roots
        self.places: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.neighbours: dict[tuple[str, str], list[Path]] = defaultdict(list)
        for root in roots.values():
            for file in root.files:
                if kind := kind_of(file):
                    self.places[kind].append((root.name, file))
                    if "/" in file and len(root.partitions) == 1:
                        self.neighbours[kind, root.state].append(root.path / file)
            self.places[DIRECTORY] += [(root.name, partition) for partition in root.partitions]
        cost = {
            name: max(1, sum(file.endswith(".log") for file in root.files)) ** 2
            for name, root in roots.items()
        }
        self.weights = {
            kind: list(accumulate(1 / cost[name] for name, _ in places))
            for kind, places in self.places.items()
        }
        self.cells = [
            (kind, mutation)
            for kind in sorted(self.places)
            for mutation in (DIRECTORY_MUTATIONS if kind == DIRECTORY else FILE_MUTATIONS)
        ]

    def input(self, seed: str, number: int) -> Input | None:
        """None where the cell has no file that the mutation can change."""
        rng = Random(f"{seed}/{number}")
        turn, cell = divmod(number, len(self.cells))
        kind, mutation = self.cells[cell]
        for _ in range(TRIES):
            if change := self._change(rng, kind, mutation):
                return Input(change, self.verbs(seed, cell, turn), f"{seed}/{number}")
        return None

    def _change(self, rng: Random, kind: str, mutation: str) -> Change | None:
        name, file = self._place(rng, kind)
        root = self.roots[name]
        if mutation == "swap" and kind != DIRECTORY and "/" not in file:
            return self._from_another_log_dir(rng, root, file, kind)
        if (
            mutation == "swap"
            and kind != DIRECTORY
            and len(root.partitions) == 1
            and rng.random() < BETWEEN_PARTITIONS
        ):
            return self._from_another_partition(rng, root, file, kind)
        if mutation == "middle segment removed" and segments_of(root, file) < 3:
            return None
        return draw(rng, root, file, mutation)

    def _from_another_log_dir(self, rng: Random, root: Root, file: str, kind: str) -> Change | None:
        """The same checkpoint of another log directory in its place."""
        name, other = self._place(rng, kind)
        source = self.roots[name].path / other
        if source.read_bytes() == (root.path / file).read_bytes():
            return None
        return Change(root.name, file, "swap", [f"../{source.parent.name}/{other}"])

    def _from_another_partition(
        self, rng: Random, root: Root, file: str, kind: str
    ) -> Change | None:
        """The file of another partition of the same log directory in its place, of the same name if there is one."""
        folder, _, name = file.partition("/")
        others = [path for path in self.neighbours[kind, root.state] if path.parent.name != folder]
        same = [path for path in others if path.name == name]
        if not others:
            return None
        source = rng.choice(same if same and rng.random() < 0.7 else others)
        return Change(root.name, file, "swap", [f"../{source.relative_to(root.path.parent)}"])

    def _place(self, rng: Random, kind: str) -> tuple[str, str]:
        return rng.choices(self.places[kind], cum_weights=self.weights[kind])[0]

    @staticmethod
    def verbs(seed: str, cell: int, turn: int) -> list[str]:
        """Two verbs; after len(VERBS) / 2 turns a cell has had each of them once."""
        pairs = len(VERBS) // 2
        names = sorted(VERBS)
        Random(f"{seed}/{cell}/{turn // pairs}").shuffle(names)
        at = 2 * (turn % pairs)
        return names[at : at + 2]
