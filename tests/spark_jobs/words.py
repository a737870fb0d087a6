"""Words of the jobs' command lines that their tests share."""

from __future__ import annotations

from typing import Any, Final

OF_A_SCHEDULER: Final = {"--reserve-until", "--skip-reserved", "--take-over", "--into", "--go-on"}
"""Jobs alone have these: a scheduler knows other runs and tries."""
UNRESERVED: Final[dict[str, Any]] = {
    "reserve": None,
    "reserve_until": None,
    "skip_reserved": False,
    "take_over": [],
    "holder": "",
    "go_on": False,
}
"""Parsed words of a plan that reserves nothing."""
