"""The campaign itself: what it changes is changed, what is lost is seen, and a worker that dies is an outcome."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tools.campaign.classes import CLASSES, class_of
from tools.campaign.contradiction import contradictions
from tools.campaign.corpus import Root, corpus
from tools.campaign.draw import Deck, Input
from tools.campaign.mutations import Change, make
from tools.campaign.oracle import NOTHING, content, loses
from tools.campaign.verbs import VERBS
from tools.campaign.work import Judge
from tools.campaign.workers import Worker


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("campaign")


@pytest.fixture(scope="module")
def roots(base: Path) -> dict[str, Root]:
    return corpus(base)


@pytest.fixture(scope="module")
def deck(roots: dict[str, Root]) -> Deck:
    return Deck(roots)


def of(roots: dict[str, Root], case: str, partition: str) -> Root:
    return next(
        root
        for name, root in roots.items()
        if name.startswith(case) and partition in root.partitions
    )


@pytest.mark.slow(10)
def test_an_input_is_the_same_each_time(deck: Deck) -> None:
    for number in range(0, 300, 7):
        assert deck.input("s", number) == deck.input("s", number)
    assert deck.input("s", 5) != deck.input("t", 5)


@pytest.mark.slow(8)
def test_every_cell_has_every_verb_in_turn(deck: Deck) -> None:
    for cell in (0, 17):
        seen = [verb for turn in range(len(VERBS) // 2) for verb in deck.verbs("s", cell, turn)]
        assert sorted(seen) == sorted(VERBS)


@pytest.mark.full(20)
def test_every_cell_has_an_input(deck: Deck) -> None:
    """Also those whose files are one to a log directory: another log directory's comes in their place."""
    for number, cell in enumerate(deck.cells):
        one = deck.input("s", number)
        assert one and (one.change.kind, one.change.mutation) == cell


@pytest.mark.full(15)
def test_a_number_of_a_text_file_is_changed_in_its_place(
    deck: Deck, roots: dict[str, Root], tmp_path: Path
) -> None:
    cell = deck.cells.index(("meta.properties", "field"))
    one = deck.input("s", cell)
    assert one
    make(one.change, roots[one.change.root], tmp_path / "x")
    before = (roots[one.change.root].path / one.change.file).read_text().splitlines()
    now = (tmp_path / "x" / one.change.file).read_text().splitlines()
    assert len(now) == len(before) and sum(a != b for a, b in zip(now, before, strict=True)) == 1


def test_a_change_changes_nothing_else(deck: Deck, roots: dict[str, Root], tmp_path: Path) -> None:
    for number in range(len(deck.cells)):
        one = deck.input("x", number)
        if one is None:
            continue
        root, to = roots[one.change.root], tmp_path / str(number)
        before = {name: (root.path / name).read_bytes() for name in root.files}
        make(one.change, root, to)
        assert {name: (root.path / name).read_bytes() for name in root.files} == before, one
        touched = one.change.file, *map(str, one.change.args)
        for name in root.files:
            if not name.startswith(touched):
                assert (to / name).read_bytes() == before[name], one


def test_what_is_lost_is_seen(roots: dict[str, Root], tmp_path: Path) -> None:
    root = of(roots, "matrix-4.3.1-v2:data", "none-ct-0")
    before = content(root.path, root)["none-ct-0"]
    assert before.everything and before != NOTHING
    log = max(
        name for name in root.files if name.startswith("none-ct-0/") and name.endswith(".log")
    )
    for number, mutation in enumerate(("removed", "emptied")):
        make(Change(root.name, log, mutation, []), root, tmp_path / str(number))
        now = content(tmp_path / str(number), root)["none-ct-0"]
        assert loses(before, now) and not loses(before, before)
        assert contradictions(tmp_path / str(number))
    assert not contradictions(root.path)


def test_an_index_of_aborted_transactions_hides_records(
    roots: dict[str, Root], tmp_path: Path
) -> None:
    root = of(roots, "transactions-4.3.1:data", "txn-0")
    index = next(
        n
        for n in root.files
        if n.startswith("txn-0/") and n.endswith(".txnindex") and (root.path / n).stat().st_size
    )
    make(Change(root.name, index, "emptied", []), root, tmp_path / "x")
    assert loses(content(root.path, root)["txn-0"], content(tmp_path / "x", root)["txn-0"])


def test_at_most_eight_classes(deck: Deck, roots: dict[str, Root]) -> None:
    assert len(CLASSES) <= 8
    root = of(roots, "matrix-4.3.1-v2:data", "none-ct-0")
    assert class_of(Change(root.name, "none-ct-0", "removed", []), root) == "end"
    log = "none-ct-0/00000000000000000000.log"
    assert (
        class_of(Change(root.name, log, "bits", [[7, 1]]), root) == "sealed change"
    )  # the offset of the first batch
    assert class_of(Change(root.name, log, "bits", [[8, 1]]), root) is None  # its length
    assert class_of(Change(root.name, log, "bits", [[7, 1], [40, 1]]), root) is None
    assert class_of(Change(root.name, log, "zeros", [0, 8, 0]), root) == "sealed change"


@pytest.mark.full(20)
def test_a_loss_that_a_file_shows_is_told(
    base: Path, roots: dict[str, Root], tmp_path: Path
) -> None:
    root = of(roots, "matrix-4.3.1-v2:data", "none-ct-0")
    judge = Judge(base, tmp_path / "work")
    for mutation in ("removed", "emptied", "files emptied", "special file"):
        verdict = judge.judge(Change(root.name, "none-ct-0", mutation, []), ["inventory"], "s")
        assert verdict.lossy and verdict.told and not verdict.wrong, (mutation, verdict)


@pytest.mark.slow(7)
def test_a_worker_that_dies_is_an_outcome(
    base: Path, roots: dict[str, Root], deck: Deck, tmp_path: Path
) -> None:
    worker = Worker(base, tmp_path / "worker")
    try:
        one = next(one for n in range(50) if (one := deck.input("d", n)))
        assert worker.process
        os.kill(worker.process.pid, signal.SIGSTOP)
        worker.give(Input(one.change, one.verbs, one.seed))
        os.kill(worker.process.pid, signal.SIGKILL)
        verdict = None
        while verdict is None:
            verdict = worker.answer(0.1)
        assert verdict["wrong"] == ["the process died: SIGKILL"]
        worker.give(one)
        verdict = None
        while verdict is None:
            verdict = worker.answer(0.1)
        assert verdict["wrong"] == []
    finally:
        worker.stop()
