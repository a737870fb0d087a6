#!/usr/bin/env bash
# Writes where a consumer group must begin to read all records from a time on.
#   replay-from.sh TIME GROUP FILE LOG_DIR...|TABLE     such as: replay-from.sh 2026-01-31T10:00:00Z billing offsets.csv /var/lib/kafka/data
# Then stop the group's consumers, and:
#   kafka-consumer-groups.sh --bootstrap-server HOST:9092 --reset-offsets --from-file FILE --execute
set -euo pipefail
time=$1 group=$2 file=$3
shift 3
# 10 minutes earlier, as records may come late; partitions without a record since then begin at their end.
kafkats export "$@" --at "$time" --margin 10m --missing none --to group-csv --group "$group" -o "$file"
