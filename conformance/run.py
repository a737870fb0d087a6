"""scripts/conformance [rebuild] [migrate] [retain] [lookup] [preflight] [losses] [recover] [guard] [seeds] [clients] [formats] [soak] [clusters] [scale] [kubernetes] [--full]: kafkats against real Kafka.

The subject are the golden directories, of `seeds` random message sets (200 for each version, with --full 10 000) and compacted partitions (30, 2000), of `losses` 40 partitions with random damages for each version (with --full 1000, of numbers that nobody chose), of `recover` a killed broker, of `soak` a broker at work: 20 s of each version, with --full 300 s; of `preflight` real starts on damaged directories, with --full 300 partitions of four versions, or of the versions that are named (4.1.0), with --refusals only those that are meant to be refused. `recover --full` kills four versions, too; `guard` kills brokers under load 4 times with a recovery before each restart, with --full 200 times; `formats` a broker of 4.3.1 on unconverted directories; `clusters` kills a broker of three, one seed of two versions, with --full two seeds; `scale` works on two Spark workers with different volumes, with --full in all DAGs; `kubernetes` plays deploy/kubernetes, and compiles Kubernetes first. Without a word all of them but `formats`, `clusters`, `scale` and `kubernetes`. Prints what was compared per case and version; ends with 1 when anything differs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from rich.console import Console

from conformance import (
    clients,
    clusters,
    guarded,
    lookup,
    migrate,
    pods,
    power_losses,
    preflight,
    rebuild,
    recovered,
    retain,
    scale,
    seeds,
    soak,
    stored_formats,
)
from conformance.started import RELEASES
from conformance.tally import Tally

OPERATIONS: dict[str, Callable[[Tally, Path], None]] = {
    "rebuild": rebuild.conform,
    "migrate": migrate.conform,
    "retain": retain.conform,
    "lookup": lookup.conform,
    "preflight": preflight.conform,
    "losses": power_losses.conform,
    "recover": recovered.conform,
    "guard": guarded.conform,
    "seeds": seeds.conform,
    "clients": clients.conform,
    "formats": stored_formats.conform,
    "soak": soak.conform,
    "clusters": clusters.conform,
    "scale": scale.conform,
    "kubernetes": pods.conform,
}
_ALONE: Final = ("recover", "guard", "clusters", "scale", "kubernetes")
_LONG: Final = ("clusters", "formats", "scale", "kubernetes")
"""Run by name or with --full only."""
LONGEST_FIRST = [
    "retain", "migrate", "soak", "rebuild", "seeds", "preflight", "lookup", "clients",
    "losses", "formats",
]  # fmt: skip
ROOM = 2 << 30


def _conforms(operation: str, console: Console) -> bool:
    tally = Tally(console)
    began = time.monotonic()
    work = Path(tempfile.mkdtemp(prefix="kafkats-conformance-", dir=_in_memory()))
    try:
        OPERATIONS[operation](tally, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    tally.show()
    verdict = f"{len(tally.differences)} DIFFERENCES" if tally.differences else "no difference"
    console.print(
        f"{operation}: {verdict}, {time.monotonic() - began:.0f} s",
        style="bold red" if tally.differences else "bold green",
    )
    return not tally.differences


def _in_memory() -> str | None:
    """Return a folder in memory if there is room: thousands of small files are written four times as fast."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > ROOM else None


def _side_by_side(operations: list[str], words: list[str]) -> list[bool]:
    """Run each operation in a process of its own, three at a time: they wait for brokers and virtual machines.

    What one prints is shown when it has ended. `recover`, `guard`, `clusters` and `scale` run alone at the end: they kill
    processes at a moment of their work, and a busy machine would choose that moment.
    """

    def run(operation: str) -> bool:
        command = [sys.executable, "-m", "conformance.run", operation, *words]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(ended.stdout, end="", flush=True)
        return ended.returncode == 0

    together = [operation for operation in LONGEST_FIRST if operation in operations]
    with ThreadPoolExecutor(3) as pool:
        held = list(pool.map(run, together))
    return held + [run(operation) for operation in operations if operation in _ALONE]


def _unnamed(words: list[str]) -> list[str]:
    """Return the operations of a command line that names none."""
    if "--full" in words:
        return list(OPERATIONS)
    return ["soak"] if words else [name for name in OPERATIONS if name not in _LONG]


def main() -> int:
    words = sys.argv[1:]
    soak.settings.full = "--full" in words
    versions = tuple(word for word in words if word in {r.version for r in RELEASES})
    soak.settings.versions = versions
    soak.settings.refusals = "--refusals" in words
    wanted = [word for word in words if word not in ("--full", "--refusals", *versions)] or (
        _unnamed(words)
    )
    if not set(wanted) <= OPERATIONS.keys():
        print(__doc__, file=sys.stderr)
        return 2
    if len(wanted) > 1:
        options = [word for word in words if word not in OPERATIONS]
        return 0 if all(_side_by_side(wanted, options)) else 1
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
    return 0 if _conforms(wanted[0], console) else 1


if __name__ == "__main__":
    sys.exit(main())
