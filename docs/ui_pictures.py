"""Makes the pictures of docs/ui.md: the pages over golden directories, in Chromium.

python docs/ui_pictures.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.browser.forms import chromium
from tests.golden import Unpacked
from tests.ui.folders import DAY_MS, HOUR_MS, change, ended, live, reclaimable, volume, write
from tests.ui.golden_runs import REBUILT, RETAINED, write_health, write_retention
from tests.ui.harness import served
from tests.ui.looking import looking

ROOT = Path(__file__).parents[1]
GIB = 1024**3
DIGEST = "3f9c2a71d0b84e65" * 4
RUN = "dag_id=rebuild_time_indexes&run_id=scheduled__2026-11-22"
PICTURES = {
    "volumes": "volumes",
    "runs": "runs",
    "run": f"run?{RUN}",
    "index-health": f"health?{REBUILT}",
    "retention": f"retention?{RETAINED}",
}


def write_runs(folder: Path, now_ms: int) -> None:
    """Write runs of some days: one that asks, one that runs, one with undo material."""
    run = folder / "rebuild_time_indexes" / "scheduled__2026-11-22"
    undo = change(run, DIGEST, {"/kafka/disk-1": 3 * GIB}, now_ms + 6 * DAY_MS)
    plan = {
        "plan": "/var/lib/kafkats/plan",
        "digest": DIGEST,
        "totals": {"files": 4, "partitions": 3, "read_bytes": 9 * GIB, "write_bytes": GIB // 90},
    }
    asked = {"options": {"Approve": [DIGEST]}, "plans": [plan], "asked_ms": now_ms - 9 * HOUR_MS}
    write(run / "question.json", asked | {"until_ms": now_ms + 15 * HOUR_MS})
    answer = {"option": "Approve", "digests": [DIGEST], "by": "Ada", "why": "answered by Ada"}
    write(run / "approval.json", answer | {"answered_ms": now_ms - 8 * HOUR_MS})
    sound = {"partitions": 412, "segments": 9_120, "log_bytes": 880 * GIB, "bytes": 889 * GIB}
    damage = {"damage": {"missing-index": 2, "not-in-log": 1}}
    ended(
        folder,
        now_ms - 7 * HOUR_MS,
        volume("/kafka/disk-0", **sound, kinds=damage),
        volume("/kafka/disk-1", **sound, magic_bytes=[0, 22 * GIB, 858 * GIB]),
        run=run.name,
        undo=[undo],
    )
    write(
        run / "report.json",
        {"outcome": "rebuilt and proved", "volumes": ["/kafka/disk-0"], "plans": [plan]},
    )
    deleted = [
        volume(f"/kafka/disk-{n}", **sound, reclaimable=reclaimable((31 + 9 * n) * GIB, n * GIB))
        for n in range(2)
    ]
    ended(folder, now_ms - 8 * HOUR_MS, *deleted, dag="apply_retention", outcome="dry run")
    ended(folder, now_ms - 40 * HOUR_MS, volume("/kafka/disk-2", **sound), dag="roll_segments")
    live(folder / "migrate_message_format" / "manual__phase-2", now_ms, about="broker 2")
    question = folder / "apply_retention" / "manual__clean-up" / "question.json"
    write(question, asked | {"until_ms": now_ms + 15 * HOUR_MS})


def main() -> None:
    """Write docs/ui/*.png, each page light and dark."""
    into = ROOT / "docs" / "ui"
    into.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place, chromium() as browser:
        folder = Path(place, "runs")
        policy = Path(place, "policy.yaml")
        volumes = [f"{{broker: '{n}', path: /kafka/disk-{n}}}" for n in range(4)]
        write(policy, f"volumes: [{', '.join(volumes)}]")
        unpacked = Path(place, "golden")
        unpacked.mkdir()
        golden = Unpacked(unpacked)
        write_health(folder, golden)
        write_retention(folder, golden)
        now_ms = time.time_ns() // 1_000_000
        write_runs(folder, now_ms)
        ended(folder, now_ms - DAY_MS, run="manual__health", outcome="dry run")
        done = {"dag": "apply_retention", "run": "manual__retention", "outcome": "dry run"}
        ended(folder, now_ms - DAY_MS, **done)
        with served(folder, policy) as site:
            for theme in ("light", "dark"):
                for name, path in PICTURES.items():
                    with looking(browser, theme) as seen:
                        seen.open(f"{site}/{path}")
                        seen.picture(into / f"{name}-{theme}.png")


if __name__ == "__main__":
    main()
