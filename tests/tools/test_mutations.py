"""scripts/mutations: a mutation whose tests fail is found, another is told; the tree stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.mutations import chosen, outcomes
from tools.seeds_table import Document, Item, Mutation

RULE = "def limit() -> int:\n    return 10\n\n\ndef unit() -> int:\n    return 1\n"
TESTS = """\
import pytest
from rule import limit


@pytest.mark.parametrize("n", [10, 11])
def test_limit(n):
    assert n >= limit()
    assert limit() == 10


def test_of_nothing():
    assert limit()
"""


def item(number: int, test: str, mutation: str) -> Item:
    return Item(
        id=f"K31-{number:02}",
        says="It is 10.",
        state="command",
        module="rule.py",
        test=f"test_rule.py::{test}",
        command="kafkats replay",
        mutation=mutation,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / ".git").mkdir(parents=True)
    (tree / "rule.py").write_text(RULE)
    (tree / "test_rule.py").write_text(TESTS)
    return tree


@pytest.mark.slow(9)
def test_a_mutation_is_found_if_every_test_of_it_fails(tree: Path) -> None:
    mutations = [
        Mutation(name="limit", file="rule.py", old="return 10", new="return 12"),
        Mutation(name="half", file="rule.py", old="return 10", new="return 11"),
        Mutation(name="unit", file="rule.py", old="return 1\n", new="return 2\n"),
        Mutation(name="gone", file="rule.py", old="return 3", new="return 2"),
        Mutation(name="alone", file="rule.py", old="return 10", new="return 2"),
        Mutation(name="broken", file="rule.py", old="return 10", new="return ("),
    ]
    items = (
        item(1, "test_limit", "limit"),
        item(2, "test_limit[10]", "half"),
        item(3, "test_of_nothing", "half"),
        item(4, "test_limit", "unit"),
        item(5, "test_limit", "gone"),
        item(6, "test_limit", "broken"),
    )
    documents = [Document(name="kip31", document="", item=items, mutation=tuple(mutations))]
    found = {one.name: one.fault for one in outcomes(tree, documents, mutations)}
    assert found == {
        "limit": "",
        "half": "these tests do not fail: test_rule.py::test_of_nothing",
        "unit": "these tests do not fail: test_rule.py::test_limit",
        "gone": "rule.py has not exactly one such text",
        "alone": "no row names it",
        "broken": "these tests do not fail: test_rule.py::test_limit",
    }
    assert (tree / "rule.py").read_text() == RULE
    assert [path.name for path in tree.parent.iterdir()] == ["tree"]


def test_a_sample_is_spread(tree: Path) -> None:
    mutations = [Mutation(name=str(n), file="", old="", new="") for n in range(10)]
    assert [one.name for one in chosen(mutations, [], 3)] == ["0", "3", "6"]
    assert [one.name for one in chosen(mutations, ["4", "2"], None)] == ["2", "4"]
    assert len(chosen(mutations, [], 99)) == 10
    with pytest.raises(SystemExit, match="no mutation 77"):
        chosen(mutations, ["77"], None)
