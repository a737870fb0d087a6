"""The options of a rebuild of indexes (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from kafkats.config.option import RARE, Choice, Option, Options
from kafkats.config.options import IndexRule
from kafkats.generations import DEFAULT_RULE


class Rebuild(Options):
    """Options of `plan rebuild`."""

    all: bool = Option(
        "Also rewrite sound indexes that differ from a rebuild",
        "--all",
        by_hand=True,
    ).default(False)
    valid_prefix: bool = Option(
        "Where the log is corrupt, rebuild for the part before the corruption",
        "--valid-prefix",
        by_hand=True,
    ).default(False)
    only_after_unclean_stop: bool = Option(
        "Skip volumes whose broker was stopped cleanly",
        "--only-after-unclean-stop",
        section=RARE,
    ).default(False)
    not_for_a_broker: bool = Option(
        "Allow --generation kip33, which would mislead a broker",
        "--not-for-a-broker",
        by_hand=True,
    ).default(False)
    rule: IndexRule = DEFAULT_RULE.name
    depth: Annotated[str, Choice(("tail", "full"))] = Option(
        "tail: read the indexes and the end of each log, and whole segments only where these"
        " raise doubts, and above the recovery point after an unclean stop;"
        " full: read everything",
        "--depth",
        initial="full",
    ).default("tail")
    from_report: Path | None = Option(
        "Use what a full verify --report wrote into this folder, and read whole only"
        " segments that changed since",
        "--from",
        "REPORT",
        by_hand=True,
    ).default(None)
