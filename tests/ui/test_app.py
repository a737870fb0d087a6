"""The app as the api-server has it: with neither Spark nor pandas, and without a compiler of kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden import Unpacked
from tests.ui import golden_runs
from tests.ui.harness import ROOT

PAGES = """
import sys
from pathlib import Path

absent = {"numba", "llvmlite", "pandas", "pyspark"}


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
from starlette.testclient import TestClient
from tests.ui.harness import every_route, pages

shown = 0
with pages(Path(sys.argv[1])) as app:
    client = TestClient(app, headers={"Authorization": "Bearer admin"})
    for route in every_route():
        for run in sys.argv[2:]:
            answer = client.get(f"/kafkats{route}?{run}", follow_redirects=False)
            assert answer.status_code in {200, 307, 404, 409, 422}, (route, run, answer.text)
            shown += answer.status_code == 200
print(shown, *sorted(absent & sys.modules.keys()))
"""


@pytest.mark.slow(30)
def test_no_page_needs_numba_pandas_or_spark(
    folder: Path, golden: Unpacked, tmp_path: Path
) -> None:
    golden_runs.write_health(folder, golden)
    golden_runs.write_retention(folder, golden)
    written = golden_runs.write_plotted(folder, golden, tmp_path / "place")
    queries = [address.partition("?")[2] for address in written.values()]
    runs = [*queries, golden_runs.REBUILT, golden_runs.RETAINED]
    command = [sys.executable, "-c", PAGES, str(folder), *runs]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    shown, *loaded = ended.stdout.splitlines()[-1].split()
    assert int(shown) > 40 and not loaded
