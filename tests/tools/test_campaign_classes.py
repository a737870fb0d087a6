"""A class that excuses a loss which some file shows is caught: shown with a verify that is blind, and a class that excuses everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats.inspect import verify
from tools.campaign import classes
from tools.campaign.classes import Class, class_of
from tools.campaign.corpus import Root, corpus
from tools.campaign.mutations import Change
from tools.campaign.tally import wrong_of
from tools.campaign.work import Judge, Verdict

LAST, FIRST = "last segment removed", "first segment removed"


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Root]:
    return corpus(tmp_path_factory.mktemp("campaign"))


@pytest.fixture
def judge(roots: dict[str, Root], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """Its verify looks at no evidence."""
    monkeypatch.setattr(verify, "segment_evidence", lambda *_, **__: iter(()))
    monkeypatch.setattr(verify, "replay_findings", lambda *_: ())
    return Judge(next(iter(roots.values())).path.parents[1], tmp_path / "work")


def silent(judge: Judge, change: Change) -> Verdict:
    verdict = judge.judge(change, ["inventory"], "s")
    assert verdict.lossy and not verdict.told and not verdict.wrong
    return verdict


def change_of(
    roots: dict[str, Root], case: str, partition: str, mutation: str
) -> tuple[Change, Root]:
    root = next(
        root
        for name, root in roots.items()
        if name.startswith(case) and partition in root.partitions
    )
    bases = sorted(
        Path(file).stem
        for file in root.files
        if file.startswith(f"{partition}/") and file.endswith(".log")
    )
    assert len(bases) > 1
    return Change(root.name, partition, mutation, [bases[0 if mutation == FIRST else -1]]), root


@pytest.mark.slow(8)
@pytest.mark.parametrize(
    "planted", [False, True], ids=["its own class", "a class that excuses everything"]
)
def test_a_loss_that_a_checkpoint_shows_is_no_class(
    judge: Judge, roots: dict[str, Root], monkeypatch: pytest.MonkeyPatch, planted: bool
) -> None:
    if planted:
        monkeypatch.setattr(classes, "CLASSES", (Class("anything", "no reason", lambda *_: True),))
    change, root = change_of(roots, "matrix-4.3.1-v2:data", "none-ct-0", LAST)
    known_class = class_of(change, root)
    assert known_class == ("anything" if planted else "end")
    verdict = silent(judge, change)._asdict()
    [wrong] = wrong_of(verdict, known_class)
    assert wrong.startswith("silent loss, and a file shows it: none-ct-0: ")
    assert wrong_of(verdict | {"contradicted": []}, known_class) == [], "nothing else catches it"


@pytest.mark.full(40)
def test_a_loss_that_nothing_shows_is_of_its_class_only(
    judge: Judge, roots: dict[str, Root]
) -> None:
    change, root = change_of(roots, "matrix-0.10.2.2-v1:data", "none-ct-0", FIRST)
    verdict = silent(judge, change)._asdict()
    assert verdict["contradicted"] == []
    assert wrong_of(verdict, class_of(change, root)) == []
    assert wrong_of(verdict, None) == [
        "silent loss: readable records are gone or changed, and no finding says so"
    ]
