"""Timestamps roll segments early, and the limit together with segment.ms prevents it: a remark of `simulate roll` and `plan roll`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkats.config.settings import TopicSettings
from kafkats.rolling.early_rolls import allowed_ms
from tests.builders.commands import objects, run
from tests.builders.partitions import batch, write_indexes

HOUR = 3_600_000
T = 1_700_000_000_000
AHEAD = (0, 5 * HOUR, 1, 10 * HOUR, 2)
"""Timestamps of messages that all arrived within an hour: two lie hours ahead."""


def written(path: Path, times: tuple[int, ...], mtime: int) -> Path:
    path.mkdir(parents=True)
    log = path / f"{0:020}.log"
    log.write_bytes(b"".join(batch(n, T + time) for n, time in enumerate(times)))
    write_indexes(log)
    os.utime(log, ns=((T + mtime) * 10**6,) * 2)
    return path.parent


def said(capsys: pytest.CaptureFixture[str], root: Path, *settings: str) -> list[str]:
    words = [word for one in ("segment.ms=7200000", *settings) for word in ("--config", one)]
    code, out, _ = run(capsys, "simulate", "roll", root, "--now", T + 10 * HOUR, *words, "--json")
    assert code == 0
    remarks: list[str] = objects(out)[-1]["summary"]["remarks"]
    return remarks


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ((), "without limit"),
        (("message.timestamp.difference.max.ms=3600001",), "by 7200002 (2 h)"),
        (("message.timestamp.after.max.ms=3600000",), "without limit"),
        (
            ("message.timestamp.before.max.ms=7200000", "message.timestamp.after.max.ms=1"),
            "by 7200001 (2 h)",
        ),
    ],
)
def test_a_limit_above_segment_ms_is_said(
    settings: tuple[str, ...], limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = written(tmp_path / "t-0", AHEAD, HOUR)
    (remark,) = said(capsys, root, *settings)
    assert remark.startswith("t: timestamps roll 2 segments before segment.ms, 7200000 (2 h), has")
    assert limit in remark


@pytest.mark.parametrize(
    "settings",
    [
        ("message.timestamp.difference.max.ms=3600000",),
        ("message.timestamp.before.max.ms=7199999", "message.timestamp.after.max.ms=1"),
        ("message.timestamp.type=LogAppendTime",),
    ],
)
def test_a_limit_that_prevents_it_is_not(
    settings: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, written(tmp_path / "t-0", AHEAD, HOUR), *settings) == []


def test_rolls_after_segment_ms_are_not_early(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, written(tmp_path / "t-0", (0, 3 * HOUR, 6 * HOUR), 10 * HOUR)) == []


def test_plan_roll_says_it_with_simulate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = written(tmp_path / "logs" / "t-0", AHEAD, HOUR)
    words = ("--now", T + HOUR, "--config", "segment.ms=7200000", "-o", tmp_path / "plan")
    code, out, err = run(capsys, "plan", "roll", root, "--simulate", *words)
    assert code in (0, 1), err
    assert "timestamps roll 2 segments before segment.ms" in out + err


def test_allowed_difference() -> None:
    def of(**given: object) -> int | None:
        keys = {name.replace("_", "."): value for name, value in given.items()}
        return allowed_ms(TopicSettings.model_validate(keys))

    assert of() is None
    assert of(message_timestamp_difference_max_ms=5) == 10
    assert of(message_timestamp_difference_max_ms=5, message_timestamp_after_max_ms=1) == 6
    assert of(message_timestamp_type="LogAppendTime") == 0


def test_a_table_has_remarks_in_place_of_the_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = written(tmp_path / "t-0", AHEAD, HOUR)
    words = ("--config", "segment.ms=7200000", "--now", T + 10 * HOUR)
    code, out, _ = run(capsys, "simulate", "roll", root, *words)
    columns = "partition dir batches segments simulated rolled by open files simulated open files"
    assert code == 0
    assert out.splitlines()[0].split() == f"{columns} largest bytes".split()
