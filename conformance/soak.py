"""Every verb that reads, in a loop beside a real broker at work: no alarm. Then kill -9: what is found then is really so.

    scripts/conformance soak           20 s of each broker
    scripts/conformance soak --full    300 s

What is found after the kill is held against what the broker itself makes of the directory at its next start.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from conformance.killed import compare_recovered
from conformance.soaked import Broker, Writers
from conformance.tally import Tally
from kafkats import paths
from kafkats.cli.command import cli
from kafkats.errors import KafkatsError

VERSIONS: Final = ("4.3.1", "2.8.2")
SECONDS: Final = {False: 20, True: 300}
"""Of each version; with --full True."""
QUIET: Final = "beside a running broker no verb reports damage or danger, and none ends with 1"
CERTIFIED: Final = "certify succeeds while a broker writes, cleans and deletes"
LEAST_RUNS: Final = 3
_ALARMS: Final = ("damage", "danger")


@dataclass
class Soaked:
    """The counts of the loop."""

    runs: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    slowest: dict[str, float] = field(default_factory=dict)


class _Settings:
    full = False
    versions: tuple[str, ...] = ()
    """The Kafka versions to which `preflight` is restricted, all without one."""
    refusals = False
    """Whether `preflight` compares only the starts that are meant to be refused."""


settings = _Settings()


def conform(tally: Tally, work: Path) -> None:
    for version in VERSIONS:
        broker = Broker(version, work / version)
        try:
            broker.start()
            _soak(broker, tally, SECONDS[settings.full])
        finally:
            broker.close()
            shutil.rmtree(broker.work, ignore_errors=True)


def _soak(broker: Broker, tally: Tally, seconds: int) -> None:
    writers = Writers(broker)
    try:
        writers.wait_until_all_topics_are_there()
        began, names = time.monotonic(), set[str]()
        soaked = Soaked()
        for number, verb in enumerate(itertools.cycle(verbs(broker.root, broker.work / "made"))):
            whole_rounds = number % len(VERBS) == 0 and number >= LEAST_RUNS * len(VERBS)
            if whole_rounds and time.monotonic() - began >= seconds:
                break
            _run(verb, broker.version, soaked, tally)
            names |= _names(broker.root)
        tally.same(
            QUIET, broker.version, "soak", "the producers are still at work", writers.alive, True
        )
        took = time.monotonic() - began
        broker.kill()
    finally:
        written = writers.end()
    _print(broker, soaked, took, names, written, tally)
    for name in VERBS:
        tally.same(
            QUIET, broker.version, name, "runs enough", soaked.runs[name] >= LEAST_RUNS, True
        )
    compare_recovered(broker, tally)


VERBS: Final[dict[str, tuple[str, ...]]] = {
    "verify": ("verify", "ROOT", "--json"),
    "verify --deep": ("verify", "ROOT", "--deep", "--json"),
    "inventory": ("inventory", "ROOT", "--by", "segment", "--json"),
    "inventory --by format": ("inventory", "ROOT", "--by", "format", "--json"),
    "certify": ("certify", "ROOT", "--min-magic", "2", "-o", "MADE/certificate", "--json"),
    "lookup": ("lookup", "ROOT", "--at", "earliest", "--at", "latest", "--at", "max-timestamp", "--at", "NOW", "--json"),
    "lookup --depth deep": ("lookup", "ROOT", "--at", "NOW", "--depth", "deep", "--json"),
    "lookup --every": ("lookup", "ROOT", "--every", "1s", "--from", "BEFORE", "--until", "NOW", "-o", "MADE/table", "--json"),
    "simulate retain": ("simulate", "retain", "ROOT", "--json"),
    "simulate roll": ("simulate", "roll", "ROOT", "--json"),
    "layouts": ("layouts", "ROOT", "--json"),
    "latency": ("latency", "ROOT", "--json"),
    "plan rebuild": ("plan", "rebuild", "ROOT", "-o", "MADE/rebuild", "--json"),
    "plan migrate": ("plan", "migrate", "ROOT", "--to-magic", "2", "-o", "MADE/migrate", "--json"),
    "plan retain": ("plan", "retain", "ROOT", "-o", "MADE/retain", "--json"),
    "plan roll": ("plan", "roll", "ROOT", "-o", "MADE/roll", "--json"),
    "export": ("export", "ROOT", "--at", "NOW", "--to", "json", "--missing", "leave"),
}  # fmt: skip
"""ROOT is the broker's directory, MADE a new folder, NOW some seconds ago, BEFORE a minute before that."""


def verbs(root: Path, made: Path) -> list[str]:
    _PLACES.update(root=root, made=made)
    return list(VERBS)


_PLACES: dict[str, Path] = {}


def _words(name: str) -> list[str]:
    now_ms = time.time_ns() // 1_000_000 // 1000 * 1000 - 3000
    said = {"ROOT": str(_PLACES["root"]), "NOW": str(now_ms), "BEFORE": str(now_ms - 60_000)}
    shutil.rmtree(_PLACES["made"], ignore_errors=True)
    return [said.get(word, word).replace("MADE", str(_PLACES["made"])) for word in VERBS[name]]


def _run(name: str, version: str, soaked: Soaked, tally: Tally) -> None:
    out, err = io.StringIO(), io.StringIO()
    began = time.monotonic()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: object = cli.main(args=_words(name), prog_name="kafkats", standalone_mode=False)
        except KafkatsError as e:
            code = f"{e.exit_code}: {e}"
    soaked.slowest[name] = max(soaked.slowest.get(name, 0), time.monotonic() - began)
    soaked.runs[name] += 1
    rows = list(_rows(out.getvalue())) if "--json" in VERBS[name] else []
    for row in rows:
        if "severity" in row and "kind" in row:
            soaked.findings[row["kind"]] += 1
    alarms = [row for row in rows if row.get("severity") in _ALARMS or row.get("worst") in _ALARMS]
    tally.same(QUIET, version, name, f"{name}, run {soaked.runs[name]}: alarms", alarms[:3], [])
    said = "" if code in (None, 0) else f"{_last(out)} {_last(err)}"
    blocked = [row["reason"] for row in rows if row.get("action") == "blocked"]
    other = [reason for reason in blocked if not _BESIDE_A_BROKER(reason)]
    tally.same(QUIET, version, name, f"{name}, run {soaked.runs[name]}: blocked for", other[:3], [])
    expected = 1 if blocked else 0
    tally.same(
        QUIET,
        version,
        name,
        f"{name}, run {soaked.runs[name]}: its exit code{said}",
        code or 0,
        expected,
    )
    if name == "certify":
        done = [row["summary"]["certified"] for row in rows if "summary" in row]
        tally.same(CERTIFIED, version, name, f"run {soaked.runs[name]}", done, [True])


_BESIDE_A_BROKER: Final = re.compile(
    r"no clean-shutdown marker|No such file|gone when it was read|disappeared while the plan was made"
    r"|has begun to replace segments here"
).search
"""Why a plan rightly blocks rows, and so ends with 1, while a broker writes and deletes."""


def _last(out: io.StringIO) -> str:
    return out.getvalue()[-1500:]


def _rows(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def _names(root: Path) -> set[str]:
    """Every log that was ever seen, with its inode: what the broker rolled, deleted and replaced can be told from it."""
    found = set()
    for directory in root.iterdir():
        with contextlib.suppress(OSError):
            for log in os.scandir(directory):
                if log.name.endswith(paths.LOG):
                    found.add(f"{directory.name}/{log.name}:{log.inode()}")
    return found


def _print(
    broker: Broker, soaked: Soaked, took: float, names: set[str], written: str, tally: Tally
) -> None:
    paths_seen = Counter(name.rpartition(":")[0] for name in names)
    replaced = sum(count > 1 for count in paths_seen.values())
    left = len(_names(broker.root))
    say = tally.console.print
    say(
        f"soak, Kafka {broker.version}: {soaked.runs.total()} runs of {len(soaked.runs)} verbs in {took:.0f} s; written: {written}"
    )
    say(
        f"  {len(paths_seen)} logs seen, {replaced} of them replaced by the cleaner or made anew, {len(paths_seen) - left} deleted"
    )
    say(
        "  findings: "
        + (", ".join(f"{kind} {count}" for kind, count in soaked.findings.most_common()) or "none")
    )
    say(
        "  runs, slowest: "
        + ", ".join(f"{name} {soaked.runs[name]}, {s:.1f} s" for name, s in soaked.slowest.items())
    )
    tally.same(
        QUIET, broker.version, "soak", "the broker replaces logs meanwhile", replaced > 0, True
    )
    tally.same(
        QUIET,
        broker.version,
        "soak",
        "the broker deletes logs meanwhile",
        len(paths_seen) > left,
        True,
    )
