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
"""
