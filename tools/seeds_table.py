"""Read model/docs/seeds/*.toml: one file per document, a row per behaviour that the document describes.

A file has the keys `document` (its title) and `complete`, and the tables `[[item]]` and
`[[mutation]]`, whose keys are the fields of `Item` and `Mutation`:

    [[item]]
    id = "K31-13"
    says = "The outer offset is set without compressing again."
    state = "command"
    module = "model/kafkats_model/broker/validate.py"
    test = "model/tests/broker/test_replay_kip31.py::test_no_recompression[gzip]"
    command = "kafkats replay"
    mutation = "kip31-recompress"

    [[mutation]]
    name = "kip31-recompress"
    file = "model/kafkats_model/broker/validate.py"
    old = "..."
    new = "..."

A further row of the same mutation also has `shares = "why"`, and a row whose test fails with other
mutations, too, names them in `further`. `scripts/mutations NAME...` tries one.
A row of the state `absent` has a `reason` instead of a module, a test and a command.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

FOLDER: Final = Path(__file__).parents[1] / "model" / "docs" / "seeds"
COUNTS: Final = {
    "kip32": ("K32", 63),
    "kip33": ("K33", 63),
    "kip228": ("K228", 30),
    "kip31": ("K31", 52),
    "enriched": ("ENR", 40),
}
"""Document -> what its ids begin with, and how many there are: K32-01 to K32-63."""
State: TypeAlias = Literal["command", "client API", "rejected by the document", "absent"]
CLIENT_API: Final = frozenset([
    "K32-06",
    "K32-07",
    "K32-13",
    "K32-14",
    "K32-15",
    "K31-37",
    "K228-12",
    "K228-14",
    "ENR-30",
])
REJECTED: Final = frozenset([
    "K32-41",
    "K32-42",
    "K32-43",
    "K32-45",
    "K32-46",
    "K32-47",
    "K32-48",
    "K32-49",
    "K32-60",
    "K32-61",
    "K33-59",
    "K33-60",
    "K228-09",
    "K228-10",
    "K228-11",
])
ABSENT: Final = frozenset(["K32-63"])
LISTED: Final[dict[State, frozenset[str]]] = {
    "client API": CLIENT_API,
    "rejected by the document": REJECTED,
    "absent": ABSENT,
}
"""The ids of the states other than `command`."""
LIMITS: Final[dict[State, int]] = {
    "client API": 12,
    "rejected by the document": 16,
    "absent": 2,
}


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Item(_Table):
    """A row: one behaviour, rule, table row, scenario or estimate of a document."""

    id: str
    says: str = Field(max_length=140)
    """The behaviour in one plain sentence."""
    state: State
    module: str = ""
    """The file that holds the rule."""
    test: str = ""
    """The node id of the test that runs `command` and asserts the document's value."""
    command: str = ""
    """The command that shows it: `kafkats replay`, `scripts/seeds`."""
    mutation: str = ""
    """The name of the mutation, of any document, with which `test` fails."""
    further: tuple[str, ...] = ()
    """The names of other mutations with which `test` fails, too."""
    shares: str = ""
    """Why another row names the same mutation."""
    reason: str = ""
    """Why it is absent."""

    @property
    def mutations(self) -> frozenset[str]:
        """The names of all mutations with which `test` fails."""
        return frozenset({self.mutation, *self.further} - {""})


class Mutation(_Table):
    """The inversion of a rule: in `file`, `old` becomes `new`. `old` occurs once."""

    name: str
    file: str
    old: str
    new: str


class Document(_Table):
    """The rows and mutations of one document."""

    name: str
    document: str
    complete: bool = False
    item: tuple[Item, ...] = ()
    mutation: tuple[Mutation, ...] = ()

    @property
    def ids(self) -> list[str]:
        """All ids that the document has, with or without a row."""
        prefix, count = COUNTS[self.name]
        return [f"{prefix}-{n:02}" for n in range(1, count + 1)]


def read_documents(folder: Path = FOLDER) -> list[Document]:
    """Return the documents, in the order of COUNTS."""
    return [
        Document.model_validate({
            "name": name, **tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
        })
        for name in COUNTS
    ]  # fmt: skip
