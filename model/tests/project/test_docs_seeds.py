"""model/docs/seeds/*.toml: rows name modules, tests, commands and mutations that exist; a complete file has every id."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from tests.builders.commands import command_of
from tools.seeds_table import COUNTS, LIMITS, LISTED, Document, Item, Mutation, read_documents

ROOT = Path(__file__).parents[3]
DOCUMENTS = read_documents()


@cache
def functions(path: Path) -> frozenset[str]:
    """`function` and `Class::function` of a test module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
    for one in tree.body:
        if isinstance(one, ast.ClassDef):
            found |= {f"{one.name}::{f.name}" for f in one.body if isinstance(f, ast.FunctionDef)}
    return frozenset(found)


def has_test(node: str) -> bool:
    """Whether the file of a node id has that function. Its parameters are not compared."""
    name, _, function = node.partition("::")
    return (ROOT / name).is_file() and function.partition("[")[0] in functions(ROOT / name)


def has_command(text: str) -> bool:
    """Whether `text` is a command of kafkats with options that it has, or a script with its words."""
    program, *words = text.split()
    if program != "kafkats":
        return program.startswith("scripts/") and (ROOT / program).is_file()
    command, words = command_of(words)
    options = {one for param in command.params for one in [*param.opts, *param.secondary_opts]}
    given = {word.partition("=")[0] for word in words if word.startswith("-")}
    return not isinstance(command, click.Group) and given <= options


def is_sentence(text: str) -> bool:
    return re.fullmatch(r"[^\n.]([^\n]*[^\n.])?\.", text) is not None


def faults_of_item(item: Item, mutations: dict[str, Mutation]) -> Iterator[str]:
    state = next((state for state, ids in LISTED.items() if item.id in ids), "command")
    if item.state != state:
        yield f"its state is listed as {state!r}"
    if not is_sentence(item.says):
        yield "says is no sentence"
    if item.state == "absent":
        if item.module or item.test or item.command:
            yield "what is absent has no module, test or command"
        if not is_sentence(item.reason):
            yield "reason is no sentence"
        return
    if item.reason:
        yield "a reason belongs to a row of the state absent"
    if not (ROOT / item.module).is_file():
        yield f"no module {item.module}"
    if not has_test(item.test):
        yield f"no test {item.test}"
    if not has_command(item.command):
        yield f"no command {item.command}"
    if item.state == "command" and item.mutation not in mutations:
        yield f"no mutation {item.mutation!r}"
    yield from (f"no mutation {one!r}" for one in item.further if one not in mutations)
    if item.state != "command" and (item.mutations or item.shares):
        yield "a mutation belongs to a row of the state command"


def faults_of_mutation(mutation: Mutation, items: list[Item]) -> Iterator[str]:
    """What is wrong with a mutation, and with the rows that name it."""
    path = ROOT / mutation.file
    if not path.is_file() or path.read_text(encoding="utf-8").count(mutation.old) != 1:
        yield f"{mutation.file} has not exactly one {mutation.old!r}"
    if mutation.old == mutation.new:
        yield "it changes nothing"
    if not items:
        yield "no row names it"
    named = [item for item in items if item.mutation == mutation.name]
    alone = [item.id for item in named if not item.shares]
    if len(alone) > 1:
        yield f"several rows name it: all but one of {' '.join(alone)} say in `shares` why"
    if named and not alone:
        yield "every row that names it has `shares`: its own row has none"


def faults(documents: list[Document]) -> list[str]:
    """Return what is wrong with the table."""
    found = []
    items = [item for document in documents for item in document.item]
    mutations = {one.name: one for document in documents for one in document.mutation}
    names = Counter(one.name for document in documents for one in document.mutation)
    found += [f"two mutations {name}" for name, count in names.items() if count > 1]
    says = Counter(item.says for item in items)
    found += [f"two rows say: {text}" for text, count in says.items() if count > 1]
    for document in documents:
        ids = [item.id for item in document.item]
        if ids != [one for one in document.ids if one in ids]:
            found.append(f"{document.name}: ids are unknown, repeated or not in order")
        if document.complete and ids != document.ids:
            found.append(f"{document.name}: complete, but rows are missing")
    for item in items:
        found += [f"{item.id}: {fault}" for fault in faults_of_item(item, mutations)]
    for mutation in mutations.values():
        named = [item for item in items if mutation.name in item.mutations]
        found += [f"{mutation.name}: {fault}" for fault in faults_of_mutation(mutation, named)]
    return found


def test_the_table_is_sound() -> None:
    assert faults(DOCUMENTS) == []


def test_there_are_248_ids_and_few_are_no_commands() -> None:
    every = {one for document in DOCUMENTS for one in document.ids}
    assert len(every) == sum(count for _, count in COUNTS.values()) == 248
    assert all(ids <= every and len(ids) <= LIMITS[state] for state, ids in LISTED.items())
    assert not frozenset.intersection(*LISTED.values())


@pytest.mark.slow(2)
def test_parameters_of_tests_exist() -> None:
    """Where a row names one parameter of a test, pytest finds it."""
    nodes = sorted({item.test for one in DOCUMENTS for item in one.item if "[" in item.test})
    if not nodes:
        return
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", *nodes],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


GOOD = Item(
    id="K31-02",
    says="The magic byte is the version of the format.",
    state="command",
    module="model/kafkats_model/broker/validate.py",
    test="model/tests/project/test_docs_seeds.py::test_the_table_is_sound",
    command="kafkats replay -o",
    mutation="one",
)
RULE = Mutation(
    name="one", file="tools/seeds_table.py", old='"rejected by the document": 16', new="0"
)


def table(*items: Item, complete: bool = False, mutation: Mutation = RULE) -> list[Document]:
    return [
        Document(name="kip31", document="", complete=complete, item=items, mutation=(mutation,))
    ]


def test_a_sound_row_has_no_fault() -> None:
    assert faults(table(GOOD)) == []
    shared = GOOD.model_copy(update={"id": "K31-03", "says": "B.", "shares": "the same byte"})
    assert faults(table(GOOD, shared)) == []
    further = RULE.model_copy(update={"name": "two", "new": "1"})
    (document,) = table(GOOD.model_copy(update={"further": ("two",)}))
    assert faults([document.model_copy(update={"mutation": (RULE, further)})]) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"id": "K31-53"}, "ids are unknown"),
        ({"id": "K31-37"}, "listed as 'client API'"),
        ({"state": "client API"}, "listed as 'command'"),
        ({"id": "K32-63"}, "listed as 'absent'"),
        ({"state": "absent"}, "has no module, test or command"),
        ({"state": "absent"}, "reason is no sentence"),
        ({"reason": "B."}, "belongs to a row of the state absent"),
        ({"says": "no sentence"}, "no sentence"),
        ({"module": "kafkats/gone.py"}, "no module"),
        ({"test": "model/tests/project/test_docs_seeds.py::test_gone[a]"}, "no test"),
        ({"test": "tests/gone.py::test_gone"}, "no test"),
        ({"command": "kafkats gone"}, "no command"),
        ({"command": "kafkats plan"}, "no command"),
        ({"command": "kafkats replay --gone"}, "no command"),
        ({"command": "scripts/gone"}, "no command"),
        ({"mutation": ""}, "no mutation ''"),
        ({"mutation": "gone"}, "no row names it"),
        ({"further": ("gone",)}, "no mutation 'gone'"),
        ({"shares": "why"}, "its own row has none"),
    ],
)
def test_a_fault_of_a_row_is_found(change: dict[str, str], fault: str) -> None:
    assert any(fault in one for one in faults(table(GOOD.model_copy(update=change))))


def test_faults_of_several_rows_are_found() -> None:
    other = GOOD.model_copy(update={"id": "K31-03"})
    assert {"two rows say:", "one: several rows"} <= {
        " ".join(one.split()[:3]) for one in faults(table(GOOD, other))
    }
    assert any("not in order" in one for one in faults(table(other, GOOD)))
    assert any("rows are missing" in one for one in faults(table(GOOD, complete=True)))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"old": "gone"}, "not exactly one"),
        ({"old": "K31"}, "not exactly one"),
        ({"new": RULE.old}, "changes nothing"),
    ],
)
def test_a_fault_of_a_mutation_is_found(change: dict[str, str], fault: str) -> None:
    changed = RULE.model_copy(update=change)
    assert any(fault in one for one in faults(table(GOOD, mutation=changed)))
