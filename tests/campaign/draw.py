"""Which input comes next: every mutation of every kind of file in turn, with every verb as often as any other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from random import Random
from typing import Final, NamedTuple

from tests.campaign.corpus import Root, kind_of
from tests.campaign.mutations import DIRECTORY_MUTATIONS, FILE_MUTATIONS, Change, draw
from tests.campaign.verbs import VERBS

DIRECTORY: Final = "partition directory"
TRIES: Final = 50
"""How many files are tried until the mutation changes something."""


class Input(NamedTuple):
    """A change, the verbs after `verify --deep`, and the seed of their words."""

    change: Change
    verbs: list[str]
    seed: str


class Deck:
    """Draws input number n of a seed; the same one each time."""

    def __init__(self, roots: Mapping[str, Root]) -> None:
        self.roots = roots
        self.places: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for root in roots.values():
            for file in root.files:
                if kind := kind_of(file):
                    self.places[kind].append((root.name, file))
            self.places[DIRECTORY] += [(root.name, partition) for partition in root.partitions]
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
            name, file = rng.choice(self.places[kind])
            if change := draw(rng, self.roots[name], file, mutation):
                return Input(change, self.verbs(seed, cell, turn), f"{seed}/{number}")
        return None

    @staticmethod
    def verbs(seed: str, cell: int, turn: int) -> list[str]:
        """Two verbs; after len(VERBS) / 2 turns a cell has had each of them once."""
        pairs = len(VERBS) // 2
        names = sorted(VERBS)
        Random(f"{seed}/{cell}/{turn // pairs}").shuffle(names)
        at = 2 * (turn % pairs)
        return names[at : at + 2]
