"""Predict what a broker does with its log directories when it starts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from kafkats.config.options import Report
from kafkats.flow.dispatch import Work, seen
from kafkats.logdir.text import read_given
from kafkats.recovery.facts import Outcome
from kafkats.recovery.meta_properties import Expected
from kafkats.recovery.options import Preflight
from kafkats.recovery.rows import write_starts
from kafkats.recovery.sentences import loses, sentences, summary
from kafkats.recovery.start import predict_start
from kafkats.recovery.strays import read_cluster
from kafkats.result import Starts

_STARTS: Final[Mapping[Outcome, Starts]] = {
    "loads": "yes",
    "offline": "yes",
    "stops": "no",
    "unknown": "unknown",
}


def perform(work: Work) -> None:
    """Predict the start of the broker on all the request's log directories. Ends with findings if
    it does not start or loses something, unless that is no reason to fail.

    Raises UsageError, StorageFailed, and as `read_cluster` and `predict_start`.
    """
    request, done, asked = work.request, work.done, work.request.of(Preflight)
    if not request.log_dirs:
        return  # none can be read: that is no start without log directories
    paths, file, cluster = [str(one.path) for one in request.log_dirs], asked.describe, None
    if file is not None:
        cluster = read_cluster(read_given(file, "file").decode(errors="replace"), str(file))
    expected, began = Expected(asked.cluster_id, asked.node_id), time.monotonic()
    start = predict_start(work.executor, paths, asked.kafka, expected=expected, cluster=cluster)
    said = list(sentences(start, asked.recovery_rate, time.monotonic() - began))
    done.log_dirs, done.start, done.found = seen(paths), _STARTS[start.outcome], summary(start)
    if (report := request.of(Report).report) is not None:
        write_starts(report, start.partitions, done.found | {"said": said})
        done.reports["report"] = str(report)
    done.end_with(int(loses(start) and not asked.go_on))
    work.show.started(start, said)
