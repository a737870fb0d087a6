"""The policy: the volumes, the settings of their topics, and what may be deleted.

    volumes:
      - broker: "1"                    # names the broker in reports
        path: /var/lib/kafka/data      # one of its log.dirs
        connection: spark_default      # the Airflow connection whose Spark workers see that path
        owner_stopped: false           # true: no broker runs on it, where a lock cannot prove that
        work_area: /var/lib/work       # for undo material, if the log directory is a mount
    defaults:                          # the brokers' settings
      log.retention.hours: 168
    topics:                            # the first match wins
      "orders-*":
        cleanup.policy: delete
        retention.ms: 86400000
    guard: {max.share: 0.5}            # the share of all bytes that one plan may delete
    exports: [topics.txt]              # kafka-configs --bootstrap-server … --entity-type topics
                                       # --describe --all

Keys are Kafka's own, by the topic's or the broker's name. Our own keys begin with `kafkats.`.
docs/policy.md lists all of them. Missing index settings are inferred from the files, and reported
as inferred. Segments of a topic without a given cleanup.policy, or without a given retention limit,
are kept: `Policy.why_kept`.

The names below are imported at their first use: most commands need no policy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafkats.config.policy import Guard, Policy, PolicyFile, Volume
    from kafkats.config.reading import read_policy, with_export_file, with_settings
    from kafkats.config.settings import TopicSettings
    from kafkats.config.values import magic_of, parse_duration, parse_size, parse_time

__all__ = [
    "Guard",
    "Policy",
    "PolicyFile",
    "TopicSettings",
    "Volume",
    "magic_of",
    "parse_duration",
    "parse_size",
    "parse_time",
    "read_policy",
    "with_export_file",
    "with_settings",
]
_MODULES: Final = ("values", "settings", "policy", "reading")  # ruff: ignore[non-empty-init-module]
"""The modules that have them, each of which imports those before it."""


def __getattr__(name: str) -> object:
    """Import one of `__all__`."""
    if name in __all__:
        for module in _MODULES:
            found = import_module(f"{__name__}.{module}")
            if hasattr(found, name):
                return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
