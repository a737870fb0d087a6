"""The pages of docs/formats on indexes, and the rows of tables of fields."""

from __future__ import annotations

import re
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "formats"


ROW = re.compile(r"^\| (\d+) \| `(\w+)` \| (\d+) \| int(\d+) \|", re.MULTILINE)
