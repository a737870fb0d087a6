#!/usr/bin/env bash
# Looks for damage in the log directories of a broker, which may run. For cron or a systemd timer.
#   check-every-night.sh REPORT LOG_DIR...
# Ends with 1 when there is danger or damage; REPORT is then a folder with every finding.
set -uo pipefail
report=$1
shift
kafkats verify "$@" --depth full --report "$report" --json >"$report.json"
code=$?
if [ $code -eq 1 ]; then
    echo "kafkats found damage; each finding is in $report.json:" >&2
    tail -n 1 "$report.json" >&2
fi
exit $code
