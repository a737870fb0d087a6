"""One input of a campaign, from its change to a verdict; and the process that serves many of them.

The parent sends an input as one JSON line and gets one back (see `Verdict`). Standard output and error of the commands
are kept apart from that: they are what is judged.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Generator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from tools.campaign.contradiction import contradictions
from tools.campaign.corpus import Root, corpus, link_tree
from tools.campaign.mutations import Change, make
from tools.campaign.oracle import NOTHING, Content, content, loses
from tools.campaign.verbs import DEEP, VERBS, words_of

SLOW_SECONDS: Final = 20.0
MEMORY_BYTES: Final = 512 * 1024**2
"""Twice the largest batch that is decompressed by default: what an input may add to an idle worker."""
TELLING: Final = ("cannot-be-told", "end-not-flushed", "vanished", "unreadable")
"""Findings of a lower severity that say that records may be missing."""
NOT_JSON: Final = ("dump", "export", "lookup table")


class Ran(NamedTuple):
    """How one command ended. `wrong` is what must not happen, "" when nothing did."""

    verb: str
    words: list[str]
    exit_code: int
    seconds: float
    wrong: str
    output: str


class Verdict(NamedTuple):
    """What became of an input: what was wrong, and whether records were lost and a finding says so."""

    wrong: list[str]
    lossy: bool
    told: bool
    findings: list[list[str]]
    seconds: float
    memory_bytes: int
    exit_codes: dict[str, int]
    contradicted: list[str]


class Judge:
    """Runs inputs in this process. Knows what was readable and found before any change."""

    def __init__(self, base: Path, work: Path) -> None:
        self.roots = corpus(base)
        self.work = work
        self.before: dict[str, tuple[dict[str, Content], set[tuple[str, ...]]]] = {}

    def judge(self, change: Change, verbs: list[str], seed: str) -> Verdict:
        root = self.roots[change.root]
        readable, known = self._untouched(root)
        began, to = time.monotonic(), self.work / "root"
        with _clean(self.work), _Memory() as memory:
            make(change, root, to)
            seen = _tree(to)
            ran = [self._run(DEEP, ["verify", str(to), "--deep", "--json", "--remarks"])]
            for number, verb in enumerate(verbs):
                out = self.work / f"out-{number}"
                out.mkdir()
                ran.append(
                    self._run(verb, words_of(verb, Random(f"{seed}/{number}"), change, to, out))
                )
            wrong = [
                f"{one.verb}: {one.wrong}: kafkats {' '.join(one.words)}"
                for one in ran
                if one.wrong
            ]
            if _tree(to) != seen:
                wrong.append("a command that reads has changed the log directory")
            found = _findings(ran[0].output)
            now = content(to, root)
            contradicted = contradictions(to)
        new = sorted(found - known)
        lost = {name for name, was in readable.items() if loses(was, now.get(name, NOTHING))}
        if memory.added > MEMORY_BYTES:
            wrong.append(f"memory: {memory.added // 1024**2} MiB above an idle worker")
        untold = [name for name in sorted(lost) if not _says_so(name, new, ran[0])]
        contradicted = [text for text in contradicted if text.partition(":")[0] in untold]
        codes = {one.verb: one.exit_code for one in ran}
        return Verdict(
            wrong,
            bool(lost),
            not untold,
            [list(one) for one in new],
            time.monotonic() - began,
            memory.added,
            codes,
            contradicted,
        )

    def warm(self) -> None:
        """Load and compile all code on an untouched directory, so that no input is charged for it."""
        root = next(iter(self.roots.values()))
        for number, verb in enumerate(sorted(VERBS)):
            change = Change(root.name, root.files[0], "removed", [])
            with _clean(self.work):
                link_tree(root.path, self.work / "root")
                (self.work / "out").mkdir()
                words = words_of(
                    verb, Random(str(number)), change, self.work / "root", self.work / "out"
                )
                self._run(verb, words)

    def _untouched(self, root: Root) -> tuple[dict[str, Content], set[tuple[str, ...]]]:
        if root.name not in self.before:
            with _clean(self.work):
                to = self.work / "root"
                link_tree(root.path, to)
                ran = self._run(DEEP, ["verify", str(to), "--deep", "--json", "--remarks"])
            self.before[root.name] = content(root.path, root), _findings(ran.output)
        return self.before[root.name]

    @staticmethod
    def _run(verb: str, words: list[str]) -> Ran:
        from kafkats.cli import main

        out, err, began = io.StringIO(), io.StringIO(), time.monotonic()
        code, wrong = -1, ""
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main(words)
                wrong = "did not exit"
            except SystemExit as e:
                code = e.code if isinstance(e.code, int) else -1
            except BaseException as e:
                where = traceback.extract_tb(e.__traceback__)[-1]
                wrong = f"{type(e).__name__}: {e} ({Path(where.filename).name}:{where.lineno})"
        seconds = time.monotonic() - began
        wrong = wrong or _wrong(verb, words, code, out.getvalue(), err.getvalue(), seconds)
        return Ran(verb, words, code, seconds, wrong, out.getvalue())


def _wrong(verb: str, words: list[str], code: int, out: str, err: str, seconds: float) -> str:
    if code not in (0, 1, 2, 3):
        return f"exit code {code}"
    if "Traceback (most recent call last)" in err:
        return "a traceback on standard error"
    if code in (2, 3) and not err.strip():
        return f"exit code {code} without a word"
    if seconds > SLOW_SECONDS:
        return f"took {seconds:.0f} s"
    if "--json" in words and verb not in NOT_JSON:
        return _bad_json(out)
    return ""


def _bad_json(out: str) -> str:
    for line in out.splitlines():
        try:
            if not isinstance(json.loads(line, parse_constant=_no_constant), dict):
                return f"not a JSON object: {line[:80]}"
        except ValueError:
            return f"not JSON: {line[:80]}"
    return ""


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _findings(output: str) -> set[tuple[str, ...]]:
    """(partition directory, file, kind, severity, reason) of every finding that verify printed."""
    found = set()
    for line in output.splitlines():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, Mapping) and "kind" in row:
                found.add(
                    tuple(
                        str(row.get(key))
                        for key in ("partition_dir", "file", "kind", "severity", "reason")
                    )
                )
    return found


def _says_so(partition: str, new: list[tuple[str, ...]], ran: Ran) -> bool:
    """Whether a finding that was not there before is about this partition, or about the root and names it."""
    if ran.exit_code == 2:
        return True  # verify refused to call it anything
    for where, file, kind, severity, reason in new:
        serious = severity in {"danger", "damage"} or kind in TELLING
        if serious and (partition in (where, file) or partition in reason):
            return True
    return False


def _tree(root: Path) -> dict[str, tuple[int, int, int]]:
    seen = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            stat = os.lstat(os.path.join(folder, name))
            seen[f"{folder}/{name}"] = (
                stat.st_size if name in files else 0,
                stat.st_mtime_ns,
                stat.st_mode,
            )
    return seen


@contextlib.contextmanager
def _clean(work: Path) -> Generator[None]:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        yield
    finally:
        shutil.rmtree(work, ignore_errors=True)


class _Memory:
    """The most anonymous memory that this process had while it was watched, above what it had before."""

    def __enter__(self) -> _Memory:
        self.before, self.most, self.over = rss_anon(), 0, threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()
        self.most = max(self.most, rss_anon())

    @property
    def added(self) -> int:
        return max(0, self.most - self.before)

    def _watch(self) -> None:
        while not self.over.wait(0.02):
            self.most = max(self.most, rss_anon())


def rss_anon() -> int:
    """This process's anonymous memory in bytes, as the kernel counts it."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def serve(base: Path, work: Path) -> None:
    """Judge the inputs that come on standard input, one JSON line each, until it ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    judge = Judge(base, work)
    judge.warm()
    gc.collect()
    gc.freeze()
    answers.write("{}\n")
    answers.flush()
    for line in sys.stdin:
        sent = json.loads(line)
        verdict = judge.judge(Change(*sent["change"]), sent["verbs"], sent["seed"])
        answers.write(json.dumps(verdict._asdict()) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), Path(sys.argv[2]))
