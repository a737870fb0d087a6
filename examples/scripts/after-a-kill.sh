#!/usr/bin/env bash
# A broker was killed: predict its start, recover its log directories, and predict again. The broker must not run.
#   after-a-kill.sh RELEASE PLAN LOG_DIR...      such as: after-a-kill.sh 4.3 /var/tmp/plan /var/lib/kafka/data
# Ends with 0 when the broker can start and loses nothing, 1 when something is left for you to decide.
set -uo pipefail
release=$1 plan=$2
shift 2

kafkats preflight "$@" --kafka "$release"
[ $? -le 1 ] || exit                    # 2 wrong input, 3 refused: its line says why

kafkats plan recover "$@" -o "$plan"
[ $? -le 1 ] || exit                    # 1: blocked rows, which apply leaves alone

if [ -t 0 ]; then
    kafkats apply "$plan"               # shows the plan and asks
else
    digest=$(kafkats show "$plan" --json | sed -n 's/.*"digest": "\([0-9a-f]*\)".*/\1/p' | head -n 1)
    kafkats apply "$plan" --digest "$digest"
fi
[ $? -le 1 ] || exit

kafkats preflight "$@" --kafka "$release"
