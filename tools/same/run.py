"""Runs two commits on the same golden directories and compares them. See scripts/same."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import yaml
from rich.console import Console
from rich.table import Table

from tests import golden
from tools.same import compare, sentences, words
from tools.same.side import Ended, Side
from tools.same.written import SPOILED, Writes

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ("kafkats", "model", "pyspark_kafkats", "spark_jobs", "plugins", "dags")
JOB_CASE: Final = ("retention-4.3.1", "before")
"""What the jobs run on: a Spark application takes seconds, and its answers are the command's."""
_SECONDS: Final = 10**11
"""A bare number up to here may be seconds, and is refused as a time."""
_WIDTH: Final = 600
_KIND: Final = 150


class Comparison:
    """Both sides, what was compared, and what differed."""

    def __init__(self, before: Side, after: Side, into: Path, steps: str = "*") -> None:
        self.before, self.after, self.into = before, after, into
        self._steps = steps.split(",")
        self.compared: Counter[str] = Counter()
        self.same_digests: Counter[bool] = Counter()
        self.found: Counter[str] = Counter()
        self.wanted: Counter[str] = Counter()
        self.alike: Counter[str] = Counter()
        self.began_ns = time.time_ns()

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.before, self.after

    def wanted_step(self, name: str) -> bool:
        return any(fnmatchcase(name, glob) for glob in self._steps)

    def note(self, state: str, step: str, differences: Iterable[str]) -> None:
        self.compared[step] += 1
        for difference in differences:
            line = f"{state}: {step}: {difference}"
            if why := compare.allowed(line):
                self.wanted[why] += 1
            else:
                self.found[step] += 1
                self._show(line)

    def _show(self, line: str) -> None:
        """Print the first difference of each kind at once: a whole run takes hours."""
        kind = _alike(line)
        self.alike[kind] += 1
        if self.alike[kind] == 1:
            print(line if len(line) < _WIDTH else line[:_WIDTH] + "...", flush=True)

    def both(self, state: str, step: words.Step, data: Path, *, files: bool = True) -> None:
        """Run a step on both sides at the same time, and compare code, output and folders."""
        for side in self.sides:
            side.ask("job" if step.job else "command", step.words, data)
        one, other = (side.answer() for side in self.sides)
        self.note(state, step.name, self.ends(one, other, logs=not step.job))
        if files:
            folders = [word for word in step.words if word.startswith("@OUT/")]
            for word in folders:
                self.note(state, f"{step.name} files", self._folders(word.removeprefix("@OUT/")))

    def in_turn(self, state: str, steps: Sequence[words.Step], data: Path) -> None:
        """Run all steps on BEFORE, then all on AFTER: a reservation of one would keep out the other."""
        one, other = ([side.do(step, data) for step in steps] for side in self.sides)
        for step, left, right in zip(steps, one, other, strict=True):
            self.note(state, step.name, self.ends(left, right))

    def ends(
        self, one: Ended, other: Ended, *, logs: bool = True, identity: bool = True
    ) -> Iterator[str]:
        """Compare exit codes and what was printed; `logs`: on the standard error, too."""
        if one.code != other.code:
            yield f"exit code: {one.code} != {other.code} ({other.err.strip()[-200:]!r})"
        both = list(zip(self.sides, (one, other), strict=True))
        for side, ended in both:
            if ended.code not in (0, 1, 2, 3):
                yield f"{side.name} crashed: {ended.err.strip()[-300:]!r}"
        rows = [compare.printed(ended.out, side.out) for side, ended in both]
        yield from compare.differences(rows[0], rows[1], where="printed", identity=identity)
        if logs:
            said = [compare.printed(ended.err, side.out) for side, ended in both]
            yield from compare.differences(said[0], said[1], where="error", identity=identity)

    def _folders(self, name: str, *, identity: bool = True) -> Iterator[str]:
        one, other = (side.out / name for side in self.sides)
        if one.exists() != other.exists():
            yield f"written: {one.exists()} != {other.exists()}"
        elif one.is_dir():
            contents = [compare.folder(side.out / name, side.out) for side in self.sides]
            found = list(
                compare.differences(contents[0], contents[1], where="file", identity=identity)
            )
            yield from found
            if all("plan.json" in content for content in contents):
                one_plan, other_plan = (content["plan.json"] for content in contents)
                self.same_digests[one_plan["digest"] == other_plan["digest"]] += 1
                yield from compare.plans(one_plan, other_plan, found)
        elif one.is_file() and one.read_bytes() != other.read_bytes():
            yield "file: bytes differ"

    def trees(self, state: str, step: str, one: dict[str, Any], other: dict[str, Any]) -> None:
        self.note(state, step, compare.differences(one, other, "tree"))


def unpacked(into: Path, case: golden.Case, state: str) -> Path:
    """A log directory of a stopped broker, at the same path for everything that is compared."""
    shutil.rmtree(into, ignore_errors=True)
    data = into / "data"
    data.mkdir(parents=True)
    case.unpack(state, data)
    (data / ".lock").touch()  # as every broker leaves it; else the first apply makes it
    for directory in data.iterdir():
        os.utime(directory)  # or a process would take it for the one that it saw here before
    return data


def times_of(side: Side, data: Path) -> words.Times:
    rows = compare.printed(
        side.do(words.step("", "inventory", "@DATA", "--json"), data).out, side.out
    )
    ends = sorted(
        row[name]
        for row in rows
        for name in ("first_timestamp", "max_timestamp")
        if (row.get(name) or 0) > _SECONDS
    )
    ends = ends or [1_600_000_000_000]
    return words.Times(
        ends[0], ends[len(ends) // 2], ends[-1] if ends[-1] < 2**41 else ends[len(ends) // 2]
    )


def commands(found: Comparison, case: golden.Case, state: str) -> None:
    """Everything that the command does with one golden directory."""
    name, data = f"{case.name}/{state}", unpacked(found.into / "volume", case, state)
    for side in found.sides:
        side.clear()
    times = times_of(found.before, data)
    untouched = compare.tree(data, found.began_ns)
    plans = [*words.plans(times, case, *policies_of(case, found.into)), *sentences.starts()]
    said = sentences.said(times, iter(plans))
    for step in (*words.reads(data, times), *plans, *said):
        if found.wanted_step(step.name):
            found.both(name, step, data)
    for step in (*words.wrong(), *sentences.wrong_starts()):
        if found.wanted_step(step.name):
            found.both(name, step, data, files=False)
    reserving = [step for step in sentences.reservations() if found.wanted_step(step.name)]
    found.in_turn(name, reserving, data)
    found.trees(name, "reads change nothing", untouched, compare.tree(data, found.began_ns))
    if state != case.states[0]:
        return
    steps = {step.name.removeprefix("plan "): step for step in plans}
    ways = [(one, False) for one in words.WRITES] + [(one, True) for one in sentences.SAID]
    for operation, aloud in ways:
        ending = " said:" if aloud else ":"
        if operation in steps and found.wanted_step(operation + ending):
            data = unpacked(found.into / "volume", case, state)
            if spoil := SPOILED.get(operation):
                spoil(data)
            Writes(found, name, data, steps[operation], said=aloud).run()


def policies_of(case: golden.Case, into: Path) -> tuple[Path, Path]:
    """A file with the limits of the case's topics, and one in which every topic is to be deleted from."""
    limits, deletes = into / "policy.yaml", into / "deletes.yaml"
    limits.write_text(
        yaml.safe_dump(golden.retention_policy(case) if case.kind == "retention" else {})
    )
    deletes.write_text(yaml.safe_dump({"topics": {"*": {"cleanup.policy": "delete"}}}))
    return limits, deletes


def jobs(found: Comparison, case: golden.Case, state: str) -> None:
    """The jobs on one golden directory, in one Spark of each side."""
    name, data = f"{case.name}/{state}", unpacked(found.into / "volume", case, state)
    for side in found.sides:
        side.clear()
    times = times_of(found.before, data)
    steps = words.jobs("@JOBS", times, policies_of(case, found.into)[1])
    for step in (*steps, *sentences.jobs()):
        if not found.wanted_step(step.name):
            continue
        found.both(name, step, data, files="wrong" not in step.name)
        print(f"{step.name}: {found.found[step.name]} differences", file=sys.stderr)
    for operation, spoil in SPOILED.items():
        if found.wanted_step(f"job {operation}:"):
            job_writes(found, name, operation, spoil)


def job_writes(found: Comparison, name: str, operation: str, spoil: Callable[[Path], None]) -> None:
    results: dict[str, list[tuple[Ended, dict[str, Any]]]] = defaultdict(list)
    for side in found.sides:
        data = unpacked(found.into / "volume", golden.case(JOB_CASE[0]), JOB_CASE[1])
        spoil(data)
        for folder in ("written", "written.run", "proof"):
            shutil.rmtree(side.out / folder, ignore_errors=True)
        side.do(words.step("", "plan", operation, "@DATA", "-o", "@OUT/written"), data)
        for step in words.job_writes("@JOBS"):
            results[step.name].append((side.do(step, data), compare.tree(data, found.began_ns)))
    for step_name, ((one, one_tree), (other, other_tree)) in results.items():
        step_name = step_name.replace("job", f"job {operation}:", 1)
        found.note(name, step_name, found.ends(one, other, logs=False, identity=False))
        found.trees(name, f"{step_name}: tree", one_tree, other_tree)


def dags(found: Comparison) -> None:
    """Ids, tasks, edges and params of every DAG."""
    for side in found.sides:
        side.ask("dags", [str(side.tree / "dags")], found.into)
    one, other = (side.answer() for side in found.sides)
    if one.code or other.code:
        found.note("dags", "dags", [f"exit codes: {one.code}, {other.code}: {other.err[-300:]!r}"])
    else:
        ids = [compare.last_row(ended.out) for ended in (one, other)]
        differing = compare.differences(ids[0], ids[1], where="dags")
        found.note("dags", "dags ids, tasks, edges, params", differing)


def report(found: Comparison, seconds: float) -> int:
    console = Console()
    table = Table("step", "compared", "differences")
    groups: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for step, count in found.compared.items():
        groups[_group(step)] += count
        wrong[_group(step)] += found.found[step]
    for group, count in groups.items():
        table.add_row(group, str(count), str(wrong[group]))
    console.print(table)
    for kind, count in found.alike.items():
        print(f"{count:6} x {kind}")
    for why, count in found.wanted.items():
        print(f"{count} differences are wanted: {why}")
    print(
        f"{sum(found.compared.values())} comparisons, {found.found.total()} differences;"
        f" {found.same_digests[True]} of {found.same_digests.total()} plans have the same digest; {seconds:.0f} s"
    )
    return int(bool(found.found))


def _alike(line: str) -> str:
    """The same for differences of one kind: by their texts, without numbers, state and step."""
    return re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", line.split(": ", 2)[-1])[:_KIND]


def _group(step: str) -> str:
    verb, *of_it = step.split(":")
    return (
        f"{verb.split()[0]}, written"
        if of_it
        else " ".join(verb.split()[:2])
        if "plan" in verb
        else verb.split()[0]
    )


def checkout(commit: str, into: Path) -> Path:
    """The product folders of a commit, or of the work tree for an empty name; a folder stands for itself."""
    if not commit:
        return ROOT
    if Path(commit).is_dir():
        return Path(commit).absolute()
    sha = subprocess.run(
        ["git", "rev-parse", "--short=12", f"{commit}^{{commit}}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    tree = into / sha
    if not tree.exists():
        making = into / f"{sha}.making"
        making.mkdir(parents=True)
        archive = subprocess.run(
            ["git", "archive", sha, *_there(sha)], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", str(making)], input=archive.stdout, check=True)
        making.rename(tree)
    return tree


def _there(sha: str) -> list[str]:
    """Return the folders of PRODUCT that a commit has: older ones have no model/."""
    words = ["git", "ls-tree", "--name-only", sha]
    listed = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in PRODUCT if name in listed.splitlines()]


def _part(text: str) -> tuple[int, int]:
    """Parse N or N/K: every N-th, from the K-th (0 by default)."""
    every, _, first = text.partition("/")
    return int(every), int(first or 0)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/same", description=__doc__)
    parser.add_argument(
        "before", metavar="BEFORE", help="a commit, or a folder with its product folders"
    )
    parser.add_argument(
        "after", metavar="AFTER", nargs="?", default="", help="likewise; the work tree if not given"
    )
    parser.add_argument("--only", default="*", metavar="GLOB", help="only these states: CASE/STATE")
    parser.add_argument(
        "--sample",
        type=_part,
        default=(1, 0),
        metavar="N[/K]",
        help="every N-th state only, from the K-th",
    )
    parser.add_argument(
        "--steps",
        default="*",
        metavar="GLOB,...",
        help="only these, such as `plan *`; `roll:` applies",
    )
    parser.add_argument(
        "--parts",
        default="commands,jobs,dags",
        help="what to run, with commas between; `parked` alone: approvals across the change",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FOLDER",
        help="where the commits' trees stay for the next time",
    )
    args = parser.parse_args(argv)
    if args.parts == "parked":
        from tools.same.parked import approvals_across

        return approvals_across(args.before)
    began = time.monotonic()
    with ExitStack() as stack:
        into = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kafkats-same-")))
        trees = (args.keep or into / "trees").absolute()
        sides = [
            Side(name, checkout(commit, trees), into / "sides")
            for name, commit in (("before", args.before), ("after", args.after))
        ]
        for side in sides:
            stack.callback(side.end)
        found = Comparison(sides[0], sides[1], into, args.steps)
        parts = args.parts.split(",")
        every, first = args.sample
        chosen = [(c, s) for c, s in golden.states() if fnmatchcase(f"{c.name}/{s}", args.only)]
        chosen = chosen[first::every]
        for n, (case, state) in enumerate(chosen if "commands" in parts else ()):
            commands(found, case, state)
            differ = found.found.total()
            print(
                f"{n + 1}/{len(chosen)} {case.name}/{state}: {differ} differences so far",
                file=sys.stderr,
            )
        if "jobs" in parts:
            jobs(found, golden.case(JOB_CASE[0]), JOB_CASE[1])
        if "dags" in parts:
            dags(found)
        return report(found, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
