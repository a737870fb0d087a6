"""The policy: which volumes there are, the settings of their topics, and what may be deleted.

    volumes:
      - broker: "1"                    # names the broker in reports
        path: /var/lib/kafka/data      # one of its log.dirs
        connection: spark_default      # the Airflow connection whose Spark workers see that path
        owner_stopped: false           # true states that no broker runs on it, where a lock cannot prove that
    defaults:                          # what the brokers have
      log.retention.hours: 168
    topics:                            # first match wins
      "orders-*":
        cleanup.policy: delete
        retention.ms: 86400000
    guard: {max.share: 0.5}            # of everything, in one plan
    exports: [topics.txt]              # kafka-configs --bootstrap-server … --entity-type topics --describe --all

Keys are Kafka's own, by the topic's or the broker's name; ours begin with `kafkats.`. docs/policy.md has all of them.
What is not given is inferred from the files where that can be done (the index settings), and reported as inferred.
Nothing is deleted of a topic unless its cleanup.policy and a retention limit are given for it: `Policy.why_kept`.
"""

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
