"""What scripts/same runs: steps of words, the same for both commits.

`@DATA` is the log directory, `@OUT` a folder of the side's own. A step's name begins with the group it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.golden import Case, is_segment

HOUR_MS: Final = 3_600_000


class Step(NamedTuple):
    """One run of the command, or of a job when the first word is a script of spark_jobs."""

    name: str
    words: tuple[str, ...]
    job: bool = False


class Times(NamedTuple):
    """Epoch ms of the records in a log directory; `now` is the moment to decide for."""

    begin: int
    middle: int
    end: int

    @property
    def now(self) -> int:
        return self.end + HOUR_MS


def step(name: str, *words: object, job: bool = False) -> Step:
    return Step(name, tuple(map(str, words)), job)


def reads(root: Path, times: Times) -> Iterator[Step]:
    """Everything that changes nothing, and tables and exports."""
    at = ("--at", times.begin, "--at", times.middle, "--at", times.end)
    words = ("--at", "latest", "--at", "earliest", "--at", "max-timestamp")
    for by in ("segment", "partition", "topic", "format"):
        yield step(f"inventory {by}", "inventory", "@DATA", "--by", by, "--json")
    yield step("verify", "verify", "@DATA", "--json", "-o", "@OUT/verified")
    yield step("verify deep", "verify", "@DATA", "--deep", "--json", "-o", "@OUT/verified-deep")
    yield step("verify first", "verify", "@DATA", "--generation", "first-offset", "--json")
    yield step(
        "verify interval", "verify", "@DATA", "--config", "index.interval.bytes=100", "--json"
    )
    yield step("certify 2", "certify", "@DATA", "--min-magic", 2, "--json", "-o", "@OUT/certified")
    yield step(
        "certify 1",
        "certify",
        "@DATA",
        "--max-magic",
        1,
        "--deep",
        "--json",
        "-o",
        "@OUT/certified-1",
    )
    yield step("certify check", "certify", "--check", "@OUT/certified", "--json")
    limits = (
        "--now",
        times.now,
        "--config",
        "cleanup.policy=delete",
        "--config",
        f"retention.ms={HOUR_MS}",
    )
    yield step("simulate retain", "simulate", "retain", "@DATA", *limits, "--json")
    rolling = ("--now", times.now, "--config", "segment.ms=1000", "--config", "segment.bytes=20000")
    yield step("simulate roll", "simulate", "roll", "@DATA", *rolling, "--json")
    yield step("lookup", "lookup", "@DATA", *at, *words, "--json")
    yield step("lookup safe", "lookup", "@DATA", *at, "--how", "safe", "--margin", "1s", "--json")
    yield step(
        "lookup kafka",
        "lookup",
        "@DATA",
        *at,
        "--how",
        "kafka",
        "--high-watermark",
        "log-end",
        "--json",
    )
    yield step("lookup deep", "lookup", "@DATA", *at, "--depth", "deep", "--json")
    step_ms = max((times.end - times.begin) // 20 // 1000 * 1000, 1000)
    begin = times.begin // step_ms * step_ms
    span = ("--from", begin, "--until", begin + 25 * step_ms, "--every", f"{step_ms}ms")
    yield step(
        "table",
        "lookup",
        "@DATA",
        *span,
        "-o",
        "@OUT/table",
        "--high-watermark",
        "log-end",
        "--json",
    )
    yield step(
        "table again",
        "lookup",
        "@DATA",
        *span,
        "-o",
        "@OUT/table",
        "--high-watermark",
        "log-end",
        "--json",
    )
    yield step("table lookup", "lookup", "@OUT/table", *at, "--json")
    yield step("table logs", "lookup", "@OUT/table", *at, "--logs", "@DATA", "--json")
    yield step("table diff", "diff", "@OUT/table", "@OUT/table", "--json")
    yield step(
        "table diff times",
        "diff",
        "@OUT/table",
        "@OUT/table",
        "--by",
        "time",
        "--margin",
        "2s",
        "--json",
    )
    for to in ("spark-offsets", "spark-by-timestamp", "group-csv", "json"):
        one = ("--at", times.middle, "--to", to, "--missing", "all")
        yield step(
            f"export {to}",
            "export",
            "@DATA",
            *one,
            *(() if to == "group-csv" else ("--until", times.end)),
        )
        yield step(f"export {to} table", "export", "@OUT/table", *one, "-o", "@OUT/export-" + to)
    yield step("export fail", "export", "@DATA", "--at", times.now, "--to", "spark-offsets")
    yield step("layouts", "layouts", "@DATA", "--json", "--every", f"{step_ms}ms")
    for path in _one_of_each_kind(root):
        yield step(
            f"dump {path.suffix or path.name}",
            "dump",
            path,
            *(("--deep",) if is_segment(path) else ()),
        )


def _one_of_each_kind(root: Path) -> list[Path]:
    """The largest file of each suffix; files without one by their names."""
    largest: dict[str, Path] = {}
    for path in sorted(root.rglob("*")):
        kind = path.suffix or path.name
        if path.is_file() and path.stat().st_size >= largest.get(kind, path).stat().st_size:
            largest[kind] = path
    return sorted(largest.values())


def plans(times: Times, case: Case, policy: Path, deletes: Path) -> Iterator[Step]:
    """A few sets of options for every operation that plans; the plan's folder is `@OUT/` and the step's name.

    `policy` has the topics' own limits, and counts in cases of retention only; `deletes` has cleanup.policy=delete for all.
    """
    everything: dict[str, tuple[object, ...]] = {
        "rebuild": (),
        "rebuild all": ("--all",),
        "rebuild first": ("--all", "--generation", "first-offset"),
        "rebuild prefix": ("--valid-prefix", "--accept-loss", "offsets"),
        "migrate 2": ("--to-magic", 2),
        "migrate 2 zstd": (
            "--to-magic",
            2,
            "--compression-type",
            "zstd",
            "--accept-loss",
            "offsets",
        ),
        "migrate 1": ("--to-magic", 1, "--accept-loss", "all"),
        "migrate 0": ("--to-magic", 0),
        "retain ms": _retain(times, deletes, "--config", f"retention.ms={HOUR_MS // 2}"),
        "retain bytes": _retain(
            times, deletes, "--config", "retention.bytes=20000", "--config", "retention.ms=-1"
        ),
        "retain before": _retain(
            times, deletes, "--before", times.middle, "--over-guard", "--accept-loss", "offsets"
        ),
        "retain inside": _retain(times, deletes, "--before", times.middle, "--inside-segments"),
        "retain last": _retain(
            times, deletes, "--before", times.now, "--last-segment", "--generation", "4.0"
        ),
        "retain free": _retain(times, deletes, "--before", times.now, "--free", "1KiB"),
        "roll": ("--now", times.now, "--config", "segment.ms=1000"),
        "roll bytes": ("--now", times.now, "--config", f"segment.ms={HOUR_MS * 10**6}"),
        "split rolled": ("--where", "rolled", "--segment-bytes", 3000, "--latest", times.now),
        "split ms": ("--where", "rolled", "--segment-ms", 1000, "--latest", times.now),
        "split mixed": ("--where", "mixed", "--earliest", times.begin + 1, "--latest", times.now),
        "split expired": ("--where", "expired", "--before", times.middle, "--latest", times.now),
    }
    if case.kind == "retention":
        everything["retain policy"] = ("--now", moment(case, times), "--policy", policy)
    for name, more in everything.items():
        yield planned(name, *more)
    yield step("show", "show", "@OUT/rebuild-all", "--json")


def planned(name: str, *more: object) -> Step:
    words = (
        "plan",
        name.split()[0],
        "@DATA",
        *more,
        "--json",
        "-o",
        "@OUT/" + name.replace(" ", "-"),
    )
    return step(f"plan {name}", *words)


def moment(case: Case, times: Times) -> int:
    from tests.golden import retention_moment

    return retention_moment(case) if case.kind == "retention" else times.now


def _retain(times: Times, policy: Path, *more: object) -> tuple[object, ...]:
    return "--now", times.now, "--policy", policy, *more


WRITES: Final = (
    "rebuild",
    "recover",
    "rebuild first",
    "migrate 2 zstd",
    "migrate 1",
    "retain before",
    "retain inside",
    "retain last",
    "retain policy",
    "roll",
    "split rolled",
)
"""Plans that are applied, undone and purged, where they have something to do."""


def wrong() -> Iterator[Step]:
    """Words that are refused, and input that is not there."""
    yield step("wrong verb", "straighten", "@DATA")
    yield step("wrong magic", "plan", "migrate", "@DATA", "--to-magic", 3, "-o", "@OUT/wrong")
    yield step("wrong split", "plan", "split", "@DATA", "--where", "rolled", "-o", "@OUT/wrong")
    yield step("wrong topic", "verify", "@DATA", "--topics", "no-such-topic")
    yield step("wrong key", "verify", "@DATA", "--config", "no.such.key=1")
    yield step("wrong place", "verify", "@DATA/nowhere")
    yield step("wrong time", "lookup", "@DATA", "--at", "yesterday")
    yield step("wrong step", "lookup", "@DATA", "--every", "1m")
    yield step(
        "wrong digest", "apply", "@OUT/rebuild-all", "--digest", "00000000", "--owner-stopped"
    )
    yield step("no digest", "apply", "@OUT/rebuild-all")
    yield step("no plan", "show", "@DATA")
    yield step("no run", "undo", "@OUT/rebuild-all")


def jobs(scripts: str, times: Times, deletes: Path) -> Iterator[Step]:
    """The same by spark_jobs; `scripts` is the place of a side's scripts."""

    def job(name: str, script: str, *words: object) -> Step:
        return step(f"job {name}", f"{scripts}/{script}.py", *words, job=True)

    yield job("inventory", "inventory", "@DATA", "-o", "@OUT/inventory")
    yield job("verify", "verify", "@DATA", "--deep", "-o", "@OUT/verified")
    yield job("census", "census", "@DATA", "-o", "@OUT/census")
    yield job("certify", "certify", "@DATA", "--min-magic", 2, "-o", "@OUT/certified")
    yield job(
        "rebuild",
        "plan",
        "rebuild",
        "@DATA",
        "--all",
        "-o",
        "@OUT/rebuild",
        "--report",
        "@OUT/seen",
    )
    yield job(
        "migrate",
        "plan",
        "migrate",
        "@DATA",
        "--to-magic",
        2,
        "--compression-type",
        "zstd",
        "-o",
        "@OUT/migrate",
    )
    yield job(
        "retain",
        "plan",
        "retain",
        "@DATA",
        *_retain(times, deletes, "--before", times.middle),
        "-o",
        "@OUT/retain",
    )
    yield job(
        "roll",
        "plan",
        "roll",
        "@DATA",
        "--now",
        times.now,
        "--config",
        "segment.ms=1000",
        "-o",
        "@OUT/roll",
    )
    yield job(
        "lookup",
        "lookup",
        "@DATA",
        "--at",
        times.middle,
        "--at",
        times.end,
        "--now",
        times.now,
        "--report",
        "@OUT/found",
    )
    span = ("--from", times.begin // 1000 * 1000, "--until", times.begin // 1000 * 1000 + 60_000)
    yield job("table", "lookup", "@DATA", "--every", "1s", *span, "-o", "@OUT/table")
    yield job(
        "export",
        "export",
        "@DATA",
        "--at",
        times.middle,
        "--to",
        "group-csv",
        "--missing",
        "all",
        "-o",
        "@OUT/export",
    )
    yield job("wrong words", "plan", "rebuild", "@DATA", "--no-such-word")
    yield job("wrong magic", "plan", "migrate", "@DATA", "--to-magic", 3, "-o", "@OUT/wrong")


def job_writes(scripts: str) -> Iterator[Step]:
    """Apply a plan that lies in `@OUT`, prove it, undo it."""

    def job(name: str, script: str, *words: object) -> Step:
        return step(f"job {name}", f"{scripts}/{script}.py", *words, job=True)

    yield job("apply", "apply", "@OUT/written", "--digest", "any", "--owner-stopped", "--by", "ops")
    yield job(
        "prove",
        "verify",
        "@DATA",
        "--of-plan",
        "@OUT/written",
        "--of-run",
        "@OUT/written.run",
        "-o",
        "@OUT/proof",
    )
    yield job(
        "apply again", "apply", "@OUT/written", "--digest", "any", "--owner-stopped", "--by", "ops"
    )
    yield job("undo", "undo", "@OUT/written.run", "--by", "ops")
    yield job("purge", "purge", "@OUT/written.run")
