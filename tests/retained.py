"""The golden directory with expired segments, and a retention's params for it."""

from __future__ import annotations

import datetime as dt
from typing import Any

from tests.golden import case, retention_moment

GOLDEN = case("retention-4.3.1")
AS_OF = dt.datetime.fromtimestamp(retention_moment(GOLDEN) / 1000, dt.UTC).isoformat()
RETAIN: dict[str, Any] = {
    "volumes": [], "topics": "*", "generation": "3.0", "as_of": AS_OF, "before": None, "free": "",
    "inside_segments": False, "last_segment": False, "need_approval": False, "undo_days": 7, "dry_run": False,
}  # fmt: skip
