"""Memory: the anonymous resident set (RssAnon, without mapped file pages) that work on a 1 GiB
segment adds to its process.

Each job runs in its own process, which reads /proc/self/status every 2 ms. The baseline is the
process after everything was imported and a segment of one batch has loaded the kernels.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from bench.harness import MB, MIB, ROOT, Figure, Figures, scratch
from bench.segments import V1_100, V2_SINGLE, write_indexes, write_segment

LIMIT_MB = 64
JOBS = ("verify", "verify --deep", "rebuild")


def figures(*, small: bool = False) -> Figures:
    with scratch() as folder:
        tiny = write_segment(folder / "tiny-0", V1_100, 4096)
        write_indexes(tiny)
        for shape in (V1_100, V2_SINGLE):
            log = write_segment(
                folder / f"magic{shape.magic}-0", shape, (32 if small else 1024) * MIB
            )
            write_indexes(log)
            for job in JOBS:
                command = [sys.executable, "-m", "bench.memory", job, tiny, log]
                said = subprocess.run(
                    [str(c) for c in command],
                    cwd=ROOT,
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                before, most = (int(word) / MB for word in said.stdout.split())
                yield Figure(
                    f"memory of {job}, {log.stat().st_size / 2**30:.2f} GiB of {shape.name}", most - before, "MB", LIMIT_MB,
                    at_least=False, detail=f"{before:,.0f} MB with everything imported, {most:,.0f} MB at most",
                )  # fmt: skip
            log.unlink()


def anonymous() -> int:
    """Return RssAnon of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("this kernel does not tell RssAnon")


def most_while(work: Callable[[], object]) -> int:
    """Return the largest RssAnon seen while `work` runs."""
    seen, over = [anonymous()], threading.Event()

    def look() -> None:
        while not over.wait(0.002):
            seen.append(anonymous())

    thread = threading.Thread(target=look)
    thread.start()
    work()
    seen.append(anonymous())
    over.set()
    thread.join()
    return max(seen)


def job(name: str, log: Path) -> None:
    if name == "rebuild":
        from bench.rebuild import rebuild

        built = log.parent / "built"
        built.mkdir(exist_ok=True)
        rebuild(log, built)
        return
    from kafkats.inspect.verify import VerifyOptions, verify_unit
    from kafkats.plans.units import list_units

    for unit in list_units([log]):
        verify_unit(unit, VerifyOptions(deep=name.endswith("--deep")))


def main() -> None:
    name, tiny, log = sys.argv[1:]
    job(name, Path(tiny))
    before = anonymous()
    print(before, most_while(lambda: job(name, Path(log))))


if __name__ == "__main__":
    main()
