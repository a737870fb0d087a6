"""Runs two commits on the same golden directories and compares them. See scripts/same."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from rich.console import Console
from rich.table import Table

from tests import golden, spark
from tools.same import compare, words

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ("kafkats", "model", "pyspark_kafkats", "spark_jobs", "plugins", "dags")
JOB_CASE: Final = ("retention-4.3.1", "before")
"""What the jobs run on: a Spark application takes seconds, and its answers are the command's."""
_SHOWN: Final = 5
_WIDTH: Final = 400


class Ended(NamedTuple):
    code: int
    out: str
    err: str


class Side:
    """One commit: its product folders, and a process in which its commands run."""

    def __init__(self, name: str, tree: Path, into: Path) -> None:
        self.name, self.tree, self.out = name, tree, into / name
        self.out.mkdir(parents=True)
        self._process: subprocess.Popen[str] | None = None

    def ask(self, kind: str, given: Iterable[str], data: Path) -> None:
        """Begin one request; `answer` waits for its end."""
        named = [word.replace("@DATA", str(data)).replace("@OUT", str(self.out)) for word in given]
        named = [word.replace("@JOBS", str(self.tree / "spark_jobs")) for word in named]
        request = {
            "kind": kind,
            "words": named,
            "out": str(self.out / ".out"),
            "err": str(self.out / ".err"),
        }
        stdin = self._running().stdin
        assert stdin is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()

    def answer(self) -> Ended:
        process = self._running()
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            self._process = None
            raise SystemExit(
                f"{self.name}: its process ended: {(self.out / '.err').read_text()[-2000:]}"
            )
        texts = [(self.out / name).read_text(errors="replace") for name in (".out", ".err")]
        return Ended(json.loads(line)["code"], *texts)

    def do(self, step: words.Step, data: Path) -> Ended:
        self.ask("job" if step.job else "command", step.words, data)
        return self.answer()

    def clear(self) -> None:
        for path in self.out.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def end(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            names = ("", "model", "spark_jobs", "plugins")
            paths = [self.tree / name for name in names if (self.tree / name).is_dir()]
            env = os.environ | spark.JAVA | {
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
                "PYTHONSAFEPATH": "1",
                "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
                "AIRFLOW_HOME": str(self.out.parent / f"{self.name}.airflow"),
                "AIRFLOW__CORE__DAGS_FOLDER": str(self.tree / "dags"),
                "AIRFLOW__CORE__PLUGINS_FOLDER": str(self.tree / "plugins"),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "USER": "ops",
            }  # fmt: skip
            worker = Path(__file__).with_name("worker.py")
            self._process = subprocess.Popen(
                [sys.executable, worker],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return self._process


class Comparison:
    """Both sides, what was compared, and what differed."""

    def __init__(self, before: Side, after: Side, into: Path, steps: str = "*") -> None:
        self.before, self.after, self.into = before, after, into
        self._steps = steps.split(",")
        self.compared: Counter[str] = Counter()
        self.same_digests: Counter[bool] = Counter()
        self.found: defaultdict[str, list[str]] = defaultdict(list)
        self.wanted: Counter[str] = Counter()
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
                self.found[step].append(line)

    def both(self, state: str, step: words.Step, data: Path, *, codes_only: bool = False) -> Ended:
        """Run a step on both sides at the same time, and compare code, output and folders. Returns BEFORE's end."""
        for side in self.sides:
            side.ask("job" if step.job else "command", step.words, data)
        one, other = (side.answer() for side in self.sides)
        self.note(state, step.name, self._ends(one, other, codes_only=codes_only))
        if not codes_only:
            folders = [word for word in step.words if word.startswith("@OUT/")]
            for word in folders:
                self.note(state, f"{step.name} files", self._folders(word.removeprefix("@OUT/")))
        return one

    def _ends(
        self, one: Ended, other: Ended, *, codes_only: bool = False, identity: bool = True
    ) -> Iterator[str]:
        if one.code != other.code:
            yield f"exit code: {one.code} != {other.code} ({other.err.strip()[-200:]!r})"
        for side, ended in zip(self.sides, (one, other), strict=True):
            if ended.code not in (0, 1, 2, 3):
                yield f"{side.name} crashed: {ended.err.strip()[-300:]!r}"
        if not codes_only:
            texts = [
                compare.printed(ended.out, side.out)
                for side, ended in zip(self.sides, (one, other), strict=True)
            ]
            yield from compare.differences(*texts, "printed", identity=identity)

    def _folders(self, name: str, *, identity: bool = True) -> Iterator[str]:
        one, other = (side.out / name for side in self.sides)
        if one.exists() != other.exists():
            yield f"written: {one.exists()} != {other.exists()}"
        elif one.is_dir():
            contents = [compare.folder(side.out / name, side.out) for side in self.sides]
            yield from compare.differences(*contents, "file", identity=identity)
            if all("plan.json" in content for content in contents):
                digests = {content["plan.json"]["digest"] for content in contents}
                self.same_digests[len(digests) == 1] += 1
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
        if (row.get(name) or 0) > 0
    )
    ends = ends or [0]
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
    policies = policies_of(case, found.into)
    for step in (*words.reads(data, times), *words.plans(times, case, *policies)):
        if found.wanted_step(step.name):
            found.both(name, step, data)
    for step in words.wrong():
        if found.wanted_step(step.name):
            found.both(name, step, data, codes_only=True)
    found.trees(name, "reads change nothing", untouched, compare.tree(data, found.began_ns))
    if state == case.states[0]:
        steps = {
            step.name.removeprefix("plan "): step for step in words.plans(times, case, *policies)
        }
        for operation in (
            one for one in words.WRITES if one in steps and found.wanted_step(f"{one}:")
        ):
            writes(found, case, state, steps[operation], damaged=operation == "rebuild")


def policies_of(case: golden.Case, into: Path) -> tuple[Path, Path]:
    """A file with the limits of the case's topics, and one in which every topic is to be deleted from."""
    limits, deletes = into / "policy.yaml", into / "deletes.yaml"
    limits.write_text(
        yaml.safe_dump(golden.retention_policy(case) if case.kind == "retention" else {})
    )
    deletes.write_text(yaml.safe_dump({"topics": {"*": {"cleanup.policy": "delete"}}}))
    return limits, deletes


def damage(data: Path) -> None:
    """Lose every third time index, cut every other offset index."""
    for n, path in enumerate(sorted(data.rglob("*.timeindex"))):
        if n % 3 == 0:
            path.unlink()
    for n, path in enumerate(sorted(data.rglob("*.index"))):
        if n % 2 == 0:
            os.truncate(path, path.stat().st_size // 2)


def writes(
    found: Comparison, case: golden.Case, state: str, plan: words.Step, *, damaged: bool
) -> None:
    """Plan, apply, apply again, undo, purge: by BEFORE; by AFTER; and by AFTER what BEFORE planned or applied."""
    name, data = f"{case.name}/{state}", unpacked(found.into / "volume", case, state)
    if damaged:
        damage(data)
    operation = plan.name.removeprefix("plan ")
    before, after = found.sides

    def do(side: Side, verb: str, given: words.Step) -> tuple[Ended, dict[str, Any]]:
        return side.do(given, data), compare.tree(data, found.began_ns)

    def verbs(at: str) -> Iterator[tuple[str, words.Step]]:
        apply = words.step(
            "", "apply", at, "--digest", "any", "--owner-stopped", "--by", "ops", "--json"
        )
        yield "apply", apply
        yield "apply again", apply
        yield "verify", words.step("", "verify", "@DATA", "--json")
        yield "undo", words.step("", "undo", at + ".run", "--by", "ops", "--json")
        yield "purge", words.step("", "purge", at + ".run", "--json")

    def plan_into(side: Side, at: Path) -> bool:
        for folder in (at, at.with_name(f"{at.name}.run")):
            shutil.rmtree(folder, ignore_errors=True)
        given = (*plan.words[: plan.words.index("-o")], "-o", str(at))
        ended = side.do(words.Step("", given), data)
        return (
            ended.code in (0, 1)
            and json.loads((at / "plan.json").read_text())["totals"]["files"] > 0
        )

    original = compare.tree(data, found.began_ns)
    first = before.out / "written"
    if not plan_into(before, first):
        return
    ended = {verb: do(before, verb, given) for verb, given in verbs(str(first))}
    found.trees(name, f"{operation}: undo brings it back", original, ended["undo"][1])
    # AFTER does BEFORE's plan. Each has its own folder: a run that was undone is not applied again.
    for planner, label in ((before, "by a plan of BEFORE"), (after, "by its own plan")):
        at = after.out / f"written-{planner.name}"
        if not plan_into(planner, at):
            found.note(name, f"{operation}: {label}", ["no plan"])
            continue
        for verb, given in verbs(str(at)):
            end, tree = do(after, verb, given)
            one, before_tree = ended[verb]
            before_end = one._replace(out=one.out.replace(str(first), "RUN"), err=one.err)
            end = end._replace(out=end.out.replace(str(at), "RUN"))
            found.note(
                name, f"{operation}: {verb} {label}", found._ends(before_end, end, identity=False)
            )
            found.trees(name, f"{operation}: tree after {verb} {label}", before_tree, tree)
    # AFTER undoes BEFORE's run.
    last = before.out / "undone"
    if plan_into(before, last):
        steps = dict(verbs(str(last)))
        before.do(steps["apply"], data)
        end, tree = do(after, "undo", steps["undo"])
        found.note(
            name, f"{operation}: undo of a run of BEFORE", [] if end.code == 0 else [f"{end}"]
        )
        found.trees(name, f"{operation}: tree after undo of a run of BEFORE", original, tree)


def jobs(found: Comparison, case: golden.Case, state: str) -> None:
    """The jobs on one golden directory, in one Spark of each side."""
    name, data = f"{case.name}/{state}", unpacked(found.into / "volume", case, state)
    for side in found.sides:
        side.clear()
    times = times_of(found.before, data)
    for step in words.jobs("@JOBS", times, policies_of(case, found.into)[1]):
        found.both(name, step, data, codes_only="wrong" in step.name)
        print(f"{step.name}: {len(found.found[step.name])} differences", file=sys.stderr)
    results: dict[str, list[tuple[Ended, dict[str, Any]]]] = defaultdict(list)
    for side in found.sides:
        data = unpacked(found.into / "volume", case, state)
        damage(data)
        side.do(words.step("", "plan", "rebuild", "@DATA", "-o", "@OUT/written"), data)
        for step in words.job_writes("@JOBS"):
            results[step.name].append((side.do(step, data), compare.tree(data, found.began_ns)))
    for step_name, ((one, one_tree), (other, other_tree)) in results.items():
        found.note(name, step_name, found._ends(one, other, identity=False))
        found.trees(name, f"{step_name}: tree", one_tree, other_tree)


def dags(found: Comparison) -> None:
    """Ids, tasks, edges and params of every DAG."""
    for side in found.sides:
        side.ask("dags", [str(side.tree / "dags")], found.into)
    one, other = (side.answer() for side in found.sides)
    found.note("dags", "dags", found._ends(one, other, codes_only=True))
    if one.code == other.code == 0:
        ids = (compare.last_row(ended.out) for ended in (one, other))
        found.note("dags", "dags ids, tasks, edges, params", compare.differences(*ids, "dags"))


def report(found: Comparison, seconds: float) -> int:
    console = Console()
    table = Table("step", "compared", "differences")
    groups: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for step, count in found.compared.items():
        groups[_group(step)] += count
        wrong[_group(step)] += len(found.found[step])
    for group, count in groups.items():
        table.add_row(group, str(count), str(wrong[group]))
    console.print(table)
    lines = [line for lines in found.found.values() for line in lines]
    for some in found.found.values():
        for line in some[:_SHOWN]:
            print(line if len(line) < _WIDTH else f"{line[:_WIDTH]}...")
        if len(some) > _SHOWN:
            print(f"and {len(some) - _SHOWN} more of this step")
    for why, count in found.wanted.items():
        print(f"{count} differences are wanted: {why}")
    print(
        f"{sum(found.compared.values())} comparisons, {len(lines)} differences;"
        f" {found.same_digests[True]} of {found.same_digests.total()} plans have the same digest; {seconds:.0f} s"
    )
    return int(bool(lines))


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
        found = Comparison(*sides, into, args.steps)
        parts = args.parts.split(",")
        every, first = args.sample
        chosen = [(c, s) for c, s in golden.states() if fnmatchcase(f"{c.name}/{s}", args.only)]
        chosen = chosen[first::every]
        for n, (case, state) in enumerate(chosen if "commands" in parts else ()):
            commands(found, case, state)
            differ = sum(map(len, found.found.values()))
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
