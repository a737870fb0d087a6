"""A table of any size is built, closed and read in bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.partitions import T0, grown

MOST_MIB = 256
"""Above a process that has built a small table."""
PROGRAM = """
import contextlib, io, json, sys, threading
from pathlib import Path
from kafkats import tables
from kafkats.cli import main
from kafkats.lookup.partitions import lookup_partitions

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024

logs, folder, begin, cells = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
units = list(lookup_partitions([logs]))
tables.build(folder / "small", units, begin, begin + 60_000, step_ms=1000)
idle, most, over = anonymous(), [0.0], threading.Event()

def watch():
    while not over.wait(0.01):
        most[0] = max(most[0], anonymous() - idle)

threading.Thread(target=watch, daemon=True).start()
end = begin + cells // len(units) * 1000
peaks, done = {}, {}
for name, span in {"build": (begin, end), "close": (begin + 7_200_000, begin + 10_800_000)}.items():
    done[name] = tables.build(folder / "large", units, *span, step_ms=1000)._asdict()
    peaks[name], most[0] = most[0], 0.0
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["lookup", str(folder / "large"), "--at", str(begin + 3_600_000), "--json"])
peaks["lookup"] = most[0]
print(json.dumps({"peaks": peaks, "done": done}))
"""


@pytest.mark.slow(5)
def test_a_table_of_millions_of_cells_takes_little_memory(tmp_path: Path) -> None:
    some = [grown(tmp_path / "logs", f"t-{number}") for number in range(4)]
    for one in some:
        for day in range(6):
            one.append(*(T0 + day * 86_400_000 + hour * 3_600_000 for hour in range(20)), roll=True)
    words = [sys.executable, "-c", PROGRAM, tmp_path / "logs", tmp_path, T0, 4_000_000]
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["done"]["build"]["added"] == 4_000_000
    assert said["done"]["close"]["kept"] == 4 * 3600
    assert max(said["peaks"].values()) < MOST_MIB, said
