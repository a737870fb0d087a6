"""Folders of runs as the tasks write them, with what a test says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
HOSTILE: Final = '<script>document.title="owned"</script>"\'><img src=x onerror=alert(1)>'
"""As a topic, a path, a reason: it is shown, and never runs."""


def write(path: Path, content: Any) -> None:
    """Write a file as the product does, by a rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name[:100]}.new")
    new.write_text(content if isinstance(content, str) else json.dumps(content))
    new.replace(path)


def volume(log_dir: str, **more: Any) -> dict[str, Any]:
    return {
        "log_dir": log_dir,
        "partitions": 3,
        "segments": 12,
        "bytes": 4096,
        "log_bytes": 4000,
        "kinds": {},
        "depth": "full",
    } | more


def reclaimable(now_bytes: int = 1024, pinned_bytes: int = 0) -> dict[str, int]:
    return {
        "now_bytes": now_bytes,
        "day_bytes": now_bytes,
        "week_bytes": 2 * now_bytes,
        "pinned_bytes": pinned_bytes,
        "vetoed_bytes": 0,
    }


def ended(
    folder: Path,
    at_ms: int,
    *volumes: dict[str, Any],
    dag: str = "rebuild_time_indexes",
    run: str = "",
    **more: Any,
) -> Path:
    """A run that has its report."""
    made = folder / dag / (run or f"scheduled__{at_ms}")
    overview = {
        "format": 1,
        "dag_id": dag,
        "run_id": made.name,
        "written_ms": at_ms,
        "outcome": "rebuilt and proved",
        "volumes": list(volumes),
    } | more
    write(
        made / "report.json",
        {"outcome": overview["outcome"], "volumes": [one["log_dir"] for one in volumes]},
    )
    write(made / "overview.json", overview)
    return made


def live(run: Path, at_ms: int, **more: Any) -> None:
    """What the operator writes of a job."""
    content = {
        "format": 1,
        "dag_id": run.parent.name,
        "run_id": run.name,
        "task": "plan",
        "map_index": 0,
        "about": "spark_default",
        "job": "plan",
        "state": "running",
        "began_ms": at_ms - 60_000,
        "written_ms": at_ms,
        "stage": "looking",
        "units": 10,
        "of_units": 40,
        "bytes": 1024**3,
        "of_bytes": 4 * 1024**3,
        "seconds": 60.0,
        "bytes_per_second": 17_895_697,
        "seconds_left": 180,
        "failed_tasks": 0,
    } | more
    write(run / f"progress-{content['task']}-{content['map_index']}.json", content)


def change(
    run: Path, digest: str, undo_bytes: dict[str, int], until_ms: int | None
) -> dict[str, Any]:
    """A RUN that was applied and proved; the row of it in an overview's `undo`."""
    folder = run / "spark_default" / f"run-{digest[:16]}"
    write(
        folder / "run.json",
        {
            "operation": "rebuild",
            "run_id": f"rebuild-{digest[:16]}",
            "digest": digest,
            "format": 1,
            "directories": {},
        },
    )
    write(folder / "report.json", {"exit_code": 0, "outcomes": {"done": 4}})
    write(folder / "proof.json", {"files": 4, "undone": 0})
    return {
        "run": f"/as/seen/by/workers/{run.parent.name}/{run.name}/spark_default/{folder.name}",
        "operation": "rebuild",
        "digest": digest,
        "ended_ms": 1,
        "until_ms": until_ms,
        "bytes": undo_bytes,
    }
