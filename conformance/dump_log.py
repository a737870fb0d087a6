"""What kafka-dump-log has to say about index files. It exits 0 on mismatches, so its words are what counts."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from conformance.judge import JUDGE

MAIN = "org.apache.kafka.tools.DumpLogSegments"
HEADING = re.compile(r"^Dumping (\S.*)$")
ENTRY = re.compile(r"^(?:offset: -?\d+ position: \d+|timestamp: -?\d+ offset: -?\d+)$")


ABOUT = re.compile(r"^(\S.* in) :(/.*)$")


class Said(NamedTuple):
    """The tool's entries per file (stdout), and its complaints per file (stderr, or stdout that is no entry).

    What it does not say of a certain file stands under the working folder.
    """

    entries: dict[Path, int]
    complaints: dict[Path, list[str]]


def dump_log(files: Sequence[Path], work: Path, *, version: str = "4.3.1") -> Said:
    """Run DumpLogSegments of that Kafka (4.3 or later) over index files below `work`, each with its `.log` beside it.

    One JVM for all. The tool writes where it reads (an index is cut to whole entries), so give it copies.
    """
    jars = subprocess.run(
        [str(JUDGE), "--kafka", version, "jars"], check=True, capture_output=True, text=True
    )
    listed = ",".join(os.path.relpath(file, work) for file in files)
    # A list of thousands of files is too long for a command line; the launcher reads its words from a file.
    arguments = work / "dump-log.arguments"
    words = [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Xmx512m",
        "-cp",
        f'"{jars.stdout.strip()}/*"',
        MAIN,
    ]
    arguments.write_text("\n".join([*words, "--files", listed]) + "\n")
    done = subprocess.run(
        [_java(), f"@{arguments}"], cwd=work, capture_output=True, text=True, check=False
    )
    said = parse(done.stdout, done.stderr, work)
    general = said.complaints.setdefault(work, [])
    if done.returncode:
        general.append(f"ended with {done.returncode} at {list(said.entries)[-1:]}")
    elif missing := {Path(os.path.normpath(file)) for file in files} - set(said.entries):
        general.append(f"said nothing about {sorted(missing)[:3]} and {len(missing)} files in all")
    if not general:
        del said.complaints[work]
    return said


def parse(stdout: str, stderr: str, work: Path) -> Said:
    """Split what the tool printed; whatever is not known to be harmless is a complaint."""
    entries: dict[Path, int] = {}
    complaints: dict[Path, list[str]] = {}
    file = work
    for line in filter(str.strip, stderr.splitlines()):
        if about := ABOUT.match(line):
            file = Path(os.path.normpath(about.group(2)))
            line = about.group(1)
        complaints.setdefault(file, []).append(line)
    file = work
    for line in stdout.splitlines():
        if heading := HEADING.match(line):
            file = Path(os.path.normpath(work / heading.group(1)))
            entries[file] = 0
        elif ENTRY.match(line):
            entries[file] += 1
        elif line and not line.endswith(" is empty."):
            complaints.setdefault(file, []).append(line)
    return Said(entries, complaints)


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"
