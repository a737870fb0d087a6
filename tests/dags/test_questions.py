"""The text of questions: what it leaves out where there is nothing to say."""

from __future__ import annotations

from typing import Any

import pytest
from kafkats_airflow.approvals import questions


def plan(**totals: int) -> Any:
    counts = dict.fromkeys(
        ("files", "partitions", "write_bytes", "blocked", "segments", "freed_bytes"), 0
    )
    recovered = {"cut_bytes": 0, "dropped_segments": 0}
    return {
        "log_dirs": ["/a"],
        "digest": "d" * 64,
        "plan": "/p",
        "totals": counts | recovered | totals,
    }


@pytest.mark.parametrize(
    ("totals", "said", "not_said"),
    [
        ({}, "| `/a` |", "cut off"),
        ({"cut_bytes": 5}, "5 B behind the last good batches are cut off.", "NOT"),
        ({"blocked": 1}, "NOT recovered: 1 partition, left as they are", "0 B that"),
        ({"markers_removed": 1}, "1 clean-shutdown marker removed", "NOT"),
        ({"dropped_segments": 2}, "LOST, as by Kafka's recovery: 2 segments", "0 B that"),
    ],
)
def test_a_recovery_says_what_it_loses_and_leaves(
    totals: dict[str, int], said: str, not_said: str
) -> None:
    text = questions.of_recover({}, [plan(**totals)])
    assert said in text
    assert not_said not in text


def test_nothing_over_the_guards_is_none() -> None:
    one = plan(segments=3, freed_bytes=2048)
    text = questions.of_guards([one], [one], answers_itself=False)
    assert "| 3, 2.0 KiB | none |" in text


@pytest.mark.parametrize(
    ("verb", "files", "said"),
    [
        ("undo", 2, "is put back (2 files)."),
        ("undo", 0, "is put back."),
        ("purge", 1, "are deleted (1 file); no undo after that."),
        ("purge", 0, "are deleted; no undo after that."),
    ],
)
def test_the_end_of_a_run_counts_its_files(verb: str, files: int, said: str) -> None:
    context: Any = {"params": {"verb": verb, "of_run": "r", "of_dag": "d"}}
    assert questions.of_ending(context, [plan(files=files)]).endswith(said)


def test_no_sentence_sends_to_a_command_line() -> None:
    for text in (
        questions.of_plans({}, [plan()]),
        questions.of_guards([plan()], [plan()], answers_itself=True),
    ):
        assert "kafkats show" not in text


def test_a_row_of_the_log_directory_itself_names_it() -> None:
    item: Any = {
        "log_dir": "/a",
        "partition_dir": ".",
        "file": "recovery-point-offset-checkpoint",
        "action": "update",
        "reason": "or plan with --like-kafka",
        "before": None,
        "after_bytes": -1,
    }
    row = questions._row(item)
    assert row[0] == "`/a`", "a dot names nothing"
    assert row[3] == "`or plan with param like_kafka`"
    assert questions._row(item | {"partition_dir": "t-0"})[0] == "`t-0`"
