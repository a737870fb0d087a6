"""Plans that are applied, proved, undone and purged: by each commit, and by one what the other planned or applied."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.same import compare, words
from tools.same.side import Ended, Side

if TYPE_CHECKING:
    from tools.same.run import Comparison

_BY = ("--by", "ops")
TORN = 7
"""Bytes that are cut from the end of a log, as an unclean stop may leave it."""


def damage(data: Path) -> None:
    """Lose every third time index, cut every other offset index."""
    for n, path in enumerate(sorted(data.rglob("*.timeindex"))):
        if n % 3 == 0:
            path.unlink()
    for n, path in enumerate(sorted(data.rglob("*.index"))):
        if n % 2 == 0:
            os.truncate(path, path.stat().st_size // 2)


def tear(data: Path) -> None:
    """Stop uncleanly: no mark of a clean stop, damaged indexes, and every other partition's last log is torn."""
    damage(data)
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    last = {path.parent: path for path in sorted(data.rglob("*.log")) if path.stat().st_size > TORN}
    for path in list(last.values())[::2]:
        os.truncate(path, path.stat().st_size - TORN)


SPOILED = {"rebuild": damage, "recover": tear}
"""An operation -> how a sound log directory gets something for it to mend."""


class Writes:
    """One plan on one golden directory. `said`: the sentences of the commands, else their rows of JSON."""

    def __init__(
        self, found: Comparison, name: str, data: Path, plan: words.Step, *, said: bool = False
    ) -> None:
        self.found, self.name, self.data, self.plan, self.said = found, name, data, plan, said
        self.operation = plan.name.removeprefix("plan ") + (" said" if said else "")
        self.json = () if said else ("--json",)

    def run(self) -> None:
        before, after = self.found.sides
        original = self._tree()
        if not self._planned(before, before.out):
            return
        ended = dict(self._verbs(before))
        self._trees("undo brings it back", original, ended["undo"][1])
        ways = ((after, "by its own plan"), (before, "by a plan of BEFORE"))
        for planner, label in ways[:1] if self.said else ways:
            if not self._planned(planner, after.out):
                self._note(label, ["no plan"])
                continue
            for verb, (end, tree) in self._verbs(after):
                one, one_tree = ended[verb]
                self._note(f"{verb} {label}", self.found.ends(one, end, identity=False))
                self._trees(f"tree after {verb} {label}", one_tree, tree)
        if not self.said:
            self._undone(original)

    def _undone(self, original: dict[str, Any]) -> None:
        """AFTER undoes BEFORE's run."""
        before, after = self.found.sides
        if not self._planned(before, before.out):
            return
        steps = dict(self._steps(before.out / "written"))
        before.do(steps["apply"], self.data)
        end = after.do(steps["undo"], self.data)
        self._note("undo of a run of BEFORE", [] if end.code == 0 else [f"{end}"])
        self._trees("tree after undo of a run of BEFORE", original, self._tree())

    def _steps(self, at: Path) -> Iterator[tuple[str, words.Step]]:
        given = ("--digest", "any", "--owner-stopped", *_BY, *self.json)
        yield "apply", words.step("", "apply", at, *given)
        yield "apply again", words.step("", "apply", at, *given)
        yield "verify", words.step("", "verify", "@DATA", *self.json)
        yield "undo", words.step("", "undo", f"{at}.run", *_BY, *self.json)
        yield "purge", words.step("", "purge", f"{at}.run", *self.json)

    def _verbs(self, side: Side) -> Iterator[tuple[str, tuple[Ended, dict[str, Any]]]]:
        for verb, step in self._steps(side.out / "written"):
            yield verb, (side.do(step, self.data), self._tree())

    def _planned(self, planner: Side, into: Path) -> bool:
        """Whether the planner's plan has something to do; it lies at `written` in that folder: plans are named alike."""
        at = into / "written"
        for folder in (at, at.with_name(f"{at.name}.run")):
            shutil.rmtree(folder, ignore_errors=True)
        given = (*self.plan.words[: self.plan.words.index("-o")], "-o", str(at))
        if planner.do(words.Step("", given), self.data).code not in (0, 1):
            return False
        return bool(json.loads((at / "plan.json").read_text())["totals"]["files"])

    def _tree(self) -> dict[str, Any]:
        return compare.tree(self.data, self.found.began_ns)

    def _note(self, step: str, differences: Iterator[str] | list[str]) -> None:
        self.found.note(self.name, f"{self.operation}: {step}", differences)

    def _trees(self, step: str, one: dict[str, Any], other: dict[str, Any]) -> None:
        self.found.trees(self.name, f"{self.operation}: {step}", one, other)
