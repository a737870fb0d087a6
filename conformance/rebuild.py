"""Rebuilt indexes: every golden segment against the recovery of four Kafkas, every damaged directory repaired and loaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from conformance import recovery, repair, selftest
from conformance.dump_log import dump_log
from conformance.judge import Judge
from conformance.stage import stage
from conformance.tally import Tally
from tests.golden import Case, Unpacked, cases

DUMPED = "kafka-dump-log finds nothing"
QUIRKS = "kafka-dump-log complains of Kafka's own rebuild alike"


def conform(tally: Tally, work: Path) -> None:
    golden = Unpacked(work)
    with stage(
        tally.console, "unpacking the golden states", sum(len(one.states) for one in cases())
    ) as advance:
        segments = []
        for one in cases():
            for state in one.states:
                segments += golden.segments_in(one, state)
                advance()
        asked = recovery.subjects(segments)
    tally.console.print(
        f"{len(segments):,} segments in {len(cases())} cases, {len(asked):,} of them distinct"
    )
    everything = [*asked, *map(recovery.densest, asked), *map(recovery.tightest, asked[::10])]
    with stage(
        tally.console,
        "asking four Kafkas to recover each",
        len(everything) * len(recovery.VERSIONS),
    ) as advance:
        recovered = recovery.compare_all(everything, tally, work, advance)
    selftest.test_recovery(asked, tally, work)
    roots = list(damaged_roots())
    repairs = []
    with stage(tally.console, "damaging and repairing", len(roots)) as advance:
        for case, state, rule, damage in roots:
            prepared = repair.prepare(case, state, rule, work, damage=damage)
            repair.repair(prepared, tally)
            repair.compare_written(prepared, recovered, tally)
            repairs.append(prepared)
            advance()
    with (
        stage(tally.console, "loading, searching and dumping", 2 * len(repairs)) as advance,
        Judge("4.3.1", temporary=work, log=work / "judge-load.log") as newest,
        Judge("2.8.2", temporary=work, log=work / "judge-load-old.log") as old,
    ):
        for judge in (newest, old):
            for repaired in repairs:
                advance()
                if judge is newest or repaired.is_for_2_8():
                    repair.load(repaired, judge, tally)
                    repair.ask_times(repaired, judge, tally)
        selftest.test_repaired(_subject(repairs), recovered, newest, tally)
        dump_written(repairs, tally, work, newest)
    selftest.test_dump_log(_subject(repairs), tally)
    for check in (repair.WRITTEN, repair.LOADED, repair.TIMES, DUMPED):
        tally.expect_any(check, 1000)


def damaged_roots() -> Iterator[tuple[Case, str, str, bool]]:
    """(case, state, rule, whether we damage it): all last states by us, crashed and stopped ones as they were left."""
    for one in cases():
        own = "first-offset" if one.first_offset_rule() else "last-offset"
        for rule in dict.fromkeys((own, "last-offset")):
            yield one, one.states[-1], rule, True
        if one.kind in ("crash", "clean-start"):
            yield one, "before", own, False


def dump_written(repairs: list[repair.Repair], tally: Tally, work: Path, ask: Judge) -> None:
    """One JVM over every file that a repair by the tool's own rule has written.

    The tool also complains of files that Kafka itself rebuilds: it takes an empty batch, which the cleaner keeps for its
    producer, for one without a timestamp. So a complaint is a difference unless Kafka's own file earns the same words.
    """
    files = {path: one for one in repairs if one.rule == "last-offset" for path in _dumpable(one)}
    said = dump_log(list(files), work)
    for path, words in said.complaints.items():
        theirs = _of_recovered(path, files[path], ask, work) if path in files else []
        where = files[path].name if path in files else "-"
        tally.same(QUIRKS, "4.3.1", where, f"what it says of {path}", words, theirs)
    for path, one in files.items():
        entry = 8 if path.suffix == ".index" else 12
        told = max(said.entries.get(path, -1), 0)
        tally.same(
            DUMPED,
            "4.3.1",
            one.name,
            f"entries printed of {path}",
            told,
            path.stat().st_size // entry,
        )


def _of_recovered(path: Path, one: repair.Repair, ask: Judge, work: Path) -> list[str]:
    """The tool's words about what LogSegment.recover makes of the same log."""
    item = next(item for item, written in one.written() if written == path)
    folder = work / "recovered-to-dump"
    settings = (
        "--index-interval",
        item["index_interval_bytes"],
        "--segment-index-bytes",
        item["segment_index_bytes"],
    )
    ask("recover", path.with_suffix(".log"), "--out", folder, *settings)
    words = dump_log([folder / path.name], work).complaints.get(folder / path.name, [])
    shutil.rmtree(folder)
    return words


def _dumpable(one: repair.Repair) -> Iterator[Path]:
    """Return the written files of partitions with sound logs. For a .timeindex the tool wants an .index too, which an empty log can do without."""
    sound = set(one.partitions())
    return (
        path
        for _, path in one.written()
        if path.parent in sound and path.with_suffix(".index").exists()
    )


def _subject(repairs: list[repair.Repair]) -> repair.Repair:
    """One that has all: recorded answers and files of both kinds."""
    return next(one for one in repairs if one.name == "matrix-4.3.1-v2")
