"""The options of a rebuild of indexes (see kafkats.config.option)."""

from __future__ import annotations

from typing import Annotated

from kafkats.config.option import Option, Options
from kafkats.config.options import IndexRule
from kafkats.generations import DEFAULT_RULE


class Rebuild(Options):
    """Options of `plan rebuild`."""

    all: Annotated[
        bool, Option("Also rewrite sound indexes that differ from a rebuild", "--all")
    ] = False
    valid_prefix: Annotated[
        bool,
        Option(
            "Where the log is corrupt, rebuild for the part before the corruption", "--valid-prefix"
        ),
    ] = False
    only_after_unclean_stop: Annotated[
        bool, Option("Skip volumes whose broker was stopped cleanly", "--only-after-unclean-stop")
    ] = False
    not_for_a_broker: Annotated[
        bool,
        Option("Allow --generation kip33, which would mislead a broker", "--not-for-a-broker"),
    ] = False
    rule: IndexRule = DEFAULT_RULE.name
