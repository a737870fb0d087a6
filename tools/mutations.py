"""Apply each mutation in a copy of the tree, and run its tests. See scripts/mutations.

A mutation is found by tests that fail: one that ends with an error, as in a fixture, counts as passed.

The copy consists of hard links. The mutated file is a file of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tools.seeds_table import Document, Mutation, read_documents

ROOT: Final = Path(__file__).parents[1]
LEFT_OUT: Final = frozenset({".git", ".airflow", ".kafkats", ".hypothesis", "build", "dist"})
FAILED: Final = 1
"""pytest: tests were run, and some failed."""
NOT_RUN: Final = 3
LIBRARIES: Final = ("click", "hypothesis", "numba", "numpy", "pyarrow", "rich", "yaml")
"""What most tests need; imported once."""


class Outcome(NamedTuple):
    """The result of one mutation; `fault` is "" if each of its tests failed."""

    name: str
    fault: str
    output: str


def copy_tree(tree: Path, into: Path) -> None:
    """Link every file of `tree` into the folder `into`. The environment `.venv` is a symbolic link."""
    for folder, names, files in os.walk(tree):
        here = into / Path(folder).relative_to(tree)
        here.mkdir(exist_ok=True)
        names[:] = [name for name in names if name not in LEFT_OUT | {".venv"}]
        for name in files:
            if name != ".git":
                os.link(Path(folder, name), here / name)
    if (tree / ".venv").exists():
        (into / ".venv").symlink_to(tree / ".venv")


def tests_of(mutation: Mutation, documents: list[Document]) -> list[str]:
    """Return the tests of the rows that name the mutation."""
    items = [item for document in documents for item in document.item]
    return sorted({item.test for item in items if mutation.name in item.mutations})


def run_tests(tree: Path, tests: list[str]) -> tuple[list[str], str]:
    """Run the tests in `tree`; return those that did not fail, and the output.

    They run in a copy of this process, which has imported the libraries but nothing of a tree.
    """
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if not child:
            _become_pytest(tree, tests, output.fileno())
        _, status = os.waitpid(child, 0)
        output.seek(0)
        said = output.read()
    failed = {
        line.split(" ", 1)[1].split(" - ")[0]
        for line in said.splitlines()
        if line.startswith("FAILED ")
    }
    if os.waitstatus_to_exitcode(status) != FAILED:
        return tests, said
    return [test for test in tests if not any(_belongs(one, test) for one in failed)], said


def _become_pytest(tree: Path, tests: list[str], output: int) -> None:
    """Run pytest in `tree` and end the process.

    No bytecode is written: it is told from an older one by seconds and size alone.
    """
    code = NOT_RUN
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.stdout = sys.stderr = os.fdopen(1, "w", closefd=False)
        os.chdir(tree)
        os.environ |= {
            "PYTHONPATH": f"{tree}:{tree / 'model'}:{tree / 'plugins'}",
            "KAFKATS_STEADY": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        sys.dont_write_bytecode = True
        left_out = {ROOT, ROOT / "model", ROOT / "plugins"}
        sys.path[:] = [
            str(tree),
            str(tree / "model"),
            str(tree / "plugins"),
            *(path for path in sys.path if Path(path) not in left_out),
        ]
        sys.argv = ["pytest"]
        code = int(pytest.main(["-q", "-rA", "--no-header", "--tb=no", *tests]))
        sys.stdout.flush()
    finally:
        os._exit(code)


def _belongs(node: str, test: str) -> bool:
    """Whether the node id `node` is `test`, or one of its parameters."""
    return node == test or node.startswith((f"{test}[", f"{test}::"))


def try_mutation(tree: Path, mutation: Mutation, tests: list[str]) -> Outcome:
    """Apply the mutation in the copy, run its tests, and undo it."""
    path = tree / mutation.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        return Outcome(mutation.name, f"{mutation.file} has not exactly one such text", "")
    if not tests:
        return Outcome(mutation.name, "no row names it", "")
    kept = path.with_name(f"{path.name}.kept")
    path.rename(kept)
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        passed, output = run_tests(tree, tests)
    finally:
        kept.replace(path)
    return Outcome(
        mutation.name, f"these tests do not fail: {' '.join(passed)}" if passed else "", output
    )


def chosen(mutations: list[Mutation], names: list[str], sample: int | None) -> list[Mutation]:
    """Return the mutations of these names, or all; of them `sample`, spread evenly."""
    unknown = set(names) - {one.name for one in mutations}
    if unknown:
        raise SystemExit(f"scripts/mutations: no mutation {' '.join(sorted(unknown))}")
    found = [one for one in mutations if not names or one.name in names]
    if sample is None or sample >= len(found):
        return found
    return [found[n * len(found) // sample] for n in range(sample)]


def outcomes(tree: Path, documents: list[Document], mutations: list[Mutation]) -> Iterator[Outcome]:
    """Yield the outcome of each mutation, as many at a time as there are cores.

    Each process has a copy of `tree` beside it.
    """
    processes = min(os.cpu_count() or 1, len(mutations)) or 1
    with tempfile.TemporaryDirectory(prefix=f".{tree.name}-mutated-", dir=tree.parent) as folder:
        copies = [Path(folder, f"tree-{n}") for n in range(processes)]
        for copy in copies:
            copy_tree(tree, copy)
        context = multiprocessing.get_context("fork")
        free = context.SimpleQueue()
        for copy in copies:
            free.put(copy)
        with context.Pool(processes, _take, (free,)) as pool:
            given = [(mutation, tests_of(mutation, documents)) for mutation in mutations]
            yield from pool.imap(_try, given)


_copy: list[Path] = []
"""The copy of the tree that belongs to this process."""


def _take(free: SimpleQueue[Path]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _copy.append(free.get())


def _try(given: tuple[Mutation, list[str]]) -> Outcome:
    return try_mutation(_copy[0], *given)


def main(words: list[str] | None = None) -> int:
    """Try the mutations that the command line names; return 1 if one is not found."""
    parser = argparse.ArgumentParser(prog="scripts/mutations")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--sample", type=int, metavar="N")
    given = parser.parse_args(words)
    documents = read_documents()
    mutations = [one for document in documents for one in document.mutation]
    wanted = chosen(mutations, given.names, given.sample)
    count = 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # removes the copy
    for library in LIBRARIES:
        import_module(library)
    for outcome in outcomes(ROOT, documents, wanted):
        count += not outcome.fault
        print(
            f"{'NOT FOUND' if outcome.fault else 'found':9}  {outcome.name}",
            outcome.fault,
            flush=True,
        )
        if outcome.fault:
            print(outcome.output[-2000:])
    print(f"{count} of {len(wanted)} mutations are found")
    return count != len(wanted)


if __name__ == "__main__":
    sys.exit(main())
