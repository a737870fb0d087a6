"""Write bench/README.md: a section per family of figures with docstring, machine and date."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench.harness import ROOT, Figure, Table
from bench.java import KAFKA, java_command

PAGE = ROOT / "bench" / "README.md"

_HEAD = """# Figures with goals

For those who ask how fast kafkats is, compared with Kafka, aiokafka and the limits of the machine.

| command | what it does |
| --- | --- |
| `scripts/bench` | measures everything, prints each figure with its goal and PASS or FAIL, and renews this page; exits with 1 if a figure fails |
| `scripts/bench rebuild many` | measures only these families, and renews their sections |
| `scripts/bench --small` | tries the programs on small inputs, and keeps this page |
| `python -m bench.kernels BEFORE [AFTER]` | compares the kernels of two commits, path by path; its last table is below, under *kernels* |

* Contestants take turns within one run (A B A B). A ratio is the median over the rounds.
* Compare ratios of one run. Absolute numbers depend on the machine and on its other work.
* Data is warm in the page cache. Programs use one thread, unless the section says otherwise.
* Java needs a JDK of 17 or newer. Kafka's jars are fetched once.
* Segments are generated, always the same ones (`segments.py`).
"""


def write_section(
    name: str, about: str, shown: Sequence[Figure | Table], load: float, order: Sequence[str]
) -> None:
    """Replace the section of family `name` and keep the others.

    `load` is the load average before.
    """
    sections = _read_sections()
    figures = [one for one in shown if isinstance(one, Figure)]
    parts = [
        _text(about),
        "",
        _figures(figures),
        "",
        *(table.markdown + "\n" for table in shown if isinstance(table, Table)),
    ]
    sections[name] = "\n".join([*parts, f"Measured on {_machine(load)}."])
    known = [
        f"## {family}\n\n{sections[family].strip()}\n" for family in order if family in sections
    ]
    PAGE.write_text("\n".join([_HEAD, *known]), encoding="utf-8")


def _read_sections() -> dict[str, str]:
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    _, *parts = re.split(r"^## (\w+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _figures(figures: Sequence[Figure]) -> str:
    head = "| figure | measured | goal | | from |\n| --- | --- | --- | --- | --- |"
    return "\n".join([
        head,
        *(
            f"| {f.name} | {f.value_text} | {f.goal_text} | {f.verdict} | {f.detail} |"
            for f in figures
        ),
    ])


def _text(docstring: str) -> str:
    """Return the docstring as Markdown: lines of `word    explanation` become a list."""
    lines = []
    for line in docstring.strip().splitlines():
        word, _, text = line.partition("  ")
        if text and not line.startswith(" "):
            line = f"* **{word}**: {text.strip()}"
        lines.append(line.strip() if line.startswith(" ") else line)
    return "\n".join(lines)


def _machine(load: float) -> str:
    model = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), platform.machine())  # fmt: skip
    kernel = platform.release().partition("-")[0]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(
        f"{name} {version(name)}"
        for name in ("numpy", "numba", "pyarrow", "isal", "aiokafka", "pyspark")
    )
    java = subprocess.run(
        [java_command("")[0], "-version"], capture_output=True, text=True, check=True
    ).stderr.split('"')[1]
    return (
        f"{datetime.now(UTC):%Y-%m-%d}: {model}, {os.cpu_count()} cores, {memory:.0f} GB, Linux {kernel},"
        f" Python {platform.python_version()}, {packages}, Java {java}, Kafka {KAFKA}; load average before {load:.1f}"
    )
