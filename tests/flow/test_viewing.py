"""A large listing that is looked at in groups shows and reports what a look at all segments at once does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkats.cli.next_steps import defects_in
from kafkats.execution.local import LocalExecutor
from kafkats.flow import Show, parting, run, viewing
from kafkats.migration.census import Counts
from kafkats.plans.facts import all_findings, telling
from kafkats.request import Request
from kafkats.result import Result
from tests.golden import case


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Log directories with the same topics, with defects in both."""
    found = []
    for name, kind in (("a", "timeindex"), ("b", "index")):
        root = tmp_path_factory.mktemp(name) / "data"
        root.mkdir()
        case("matrix-4.3.1-v2").unpack("data", root)
        if name == "b":
            (root / "meta.properties").unlink()
        for path in sorted(root.glob(f"*/*.{kind}"))[:3]:
            path.unlink()
        log = max(root.glob("*/*.log"), key=lambda one: one.stat().st_size)
        log.write_bytes(log.read_bytes()[:-3] + b"abc")
        found.append(root)
    return found


class Shown(Show):
    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.calls = 0

    def verified(self, segments: pa.Table) -> None:
        self.calls += 1
        self.rows += [*telling(segments).to_pylist()]

    def listed(self, segments: pa.Table, rows: Sequence[Any], by: str) -> None:
        self.calls += 1
        self.rows += [*rows, *all_findings(segments)]

    def formats(self, rows: Sequence[Any]) -> None:
        self.calls += 1
        self.rows += rows

    def counted(self, census: Counts) -> None:
        self.rows += [*census.zero_copy, *census.problems]


def ask(verb: str, roots: list[Path], report: Path | None, **options: Any) -> tuple[Result, Shown]:
    shown = Shown()
    if report is not None:
        options = options | {"Report": {"report": report}}
    asked = {
        "verb": verb,
        "made_ms": 2_000_000_000_000,
        "log_dirs": [{"path": root} for root in roots],
        "options": options,
    }
    with LocalExecutor(1) as executor:
        result = run(Request.model_validate(asked), executor, show=shown)
    assert result.error is None, result.error
    return result, shown


def in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parting, "LARGE", 10)
    monkeypatch.setattr(parting, "PART_SEGMENTS", 5)


def told(result: Result, report: Path | None) -> dict[str, Any]:
    changing = ("seconds", "finished_ms", "began_ms", "ended_ms", "report")
    summary = {n: v for n, v in result.summary().items() if n not in changing}
    if summary.get("census"):
        assert summary["census"].pop("report", "") == (str(report) if report else "")
    return summary


LOOKS: list[tuple[str, dict[str, Any], str]] = [
    ("verify", {"VerifyDepth": {"depth": "tail"}}, "segments"),
    ("verify", {}, "segments"),
    ("inventory", {"Inventory": {"by": "segment"}}, "segments"),
    ("inventory", {"Inventory": {"by": "topic"}}, "segments"),
    ("inventory", {"Inventory": {"by": "format"}}, ""),
    ("census", {"Census": {"by": "topic"}}, "census"),
    ("census", {"Census": {"by": "segment"}}, "census"),
    ("census", {"Census": {"by": "format"}}, "census"),
]


@pytest.mark.slow(8)
@pytest.mark.parametrize(("verb", "options", "table"), LOOKS)
@pytest.mark.parametrize("reported", [pytest.param(False, marks=pytest.mark.full(8)), True])
def test_groups_tell_the_same(
    roots: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    options: dict[str, Any],
    table: str,
    reported: bool,
) -> None:
    reports = [tmp_path / name if reported and table else None for name in ("whole", "groups")]
    whole, at_once = ask(verb, roots, reports[0], **options)
    in_groups(monkeypatch)
    groups, shown = ask(verb, roots, reports[1], **options)
    key = partial(sorted, key=repr)
    assert key(shown.rows) == key(at_once.rows) and at_once.rows
    by_topic = verb != "verify" and "segment" not in str(options)
    assert at_once.calls == 1 and (shown.calls > 5 or by_topic)
    assert told(groups, reports[1]) == told(whole, reports[0])
    assert groups.exit_code == whole.exit_code and groups.log_dirs == whole.log_dirs
    if reports[0] and reports[1]:
        assert sorted(p.name for p in reports[1].iterdir()) == sorted(
            p.name for p in reports[0].iterdir()
        )
        one, other = (pq.read_table(report / f"{table}.parquet") for report in reports if report)
        assert other.equals(one)


def test_a_certificate_of_groups_is_that_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "data"
    root.mkdir()
    case("matrix-4.3.1-v2").unpack("data", root)
    made = []
    for name in ("whole", "groups"):
        asked = {"min_magic": 2, "output": tmp_path / name, "report": tmp_path / f"{name}-report"}
        result, _ = ask("certify", [root], None, Certify=asked)
        assert result.certificate is not None and result.certificate.certified
        census = {**(result.census or {}), "report": ""}
        made.append((result.certificate.digest, census))
        in_groups(monkeypatch)
    assert made[0] == made[1]
    for file in ("{}/segments.parquet", "{}-report/census.parquet"):
        one, other = (pq.read_table(tmp_path / file.format(name)) for name in ("whole", "groups"))
        assert one.num_rows and other.equals(one)


def test_the_next_steps_of_groups_are_those_of_all(
    roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask("verify", roots, tmp_path / "whole")
    segments = pq.read_table(tmp_path / "whole" / "segments.parquet")
    every = defects_in(segments, all_findings(segments))
    parts = [
        segments.filter(pa.array([name == one for name in segments["partition_dir"].to_pylist()]))
        for one in sorted(set(segments["partition_dir"].to_pylist()))
    ]
    joined = None
    for part in map(telling, parts):
        found = defects_in(part, all_findings(part))
        joined = found if joined is None else found.after(joined)
    assert joined is not None and every.rebuilds and joined.rebuilds
    assert [set(field) for field in joined[:3]] == [set(field) for field in every[:3]]


def test_a_killed_look_leaves_nothing_that_stays(
    roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_groups(monkeypatch)
    left = tmp_path / "report" / "deciding-0123456789ab"
    left.mkdir(parents=True)
    (left / "driver").touch()
    ask("inventory", roots[:1], tmp_path / "report")
    assert sorted(p.name for p in (tmp_path / "report").iterdir()) == [
        "report.json",
        "segments.parquet",
    ]
    assert viewing._NOWHERE.exists() is False
