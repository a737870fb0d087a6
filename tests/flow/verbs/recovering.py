"""A recovery before a broker's start, and the events that it shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafkats.execution.local import LocalExecutor
from kafkats.flow import Show, run
from kafkats.request import Request
from kafkats.result import Result


class Events(Show):
    """Keeps the lines of the log."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def happened(self, event: str, fields: Mapping[str, Any]) -> None:
        self.told.append({"event": event, **fields})

    def names(self) -> list[str]:
        return [one["event"] for one in self.told]


def recover(
    *log_dirs: Path,
    show: Show | None = None,
    made_ms: int = 1_800_000_000_000,
    place: Path | None = None,
    **asked: Any,
) -> Result:
    request = Request.model_validate({
        "verb": "recover",
        "made_ms": made_ms,
        "log_dirs": [{"path": path} for path in log_dirs],
        "options": {
            "BeforeStart": {"release": "4.3", **asked},
            "WorkArea": {"place": place and str(place)},
        },
    })
    result = run(request, LocalExecutor(1), show=show or Events())
    assert result.found is not None, result.error
    return result
