"""The page of a plan: its rows, what has changed since, and the question that its buttons answer."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafkats_airflow.ui.reading.plan_rows import find, table_of

from kafkats import paths
from kafkats.cli import main
from kafkats.plans.plan import ITEMS, make_plan, read_plan, write_plan
from kafkats.plans.rows import Totals
from tests.calls import calls
from tests.golden import case
from tests.ui.folders import HOSTILE, ended, volume, write

DAG, RUN = "rebuild_time_indexes", "manual__1"
ASK = {"dag_id": DAG, "run_id": RUN}
DAMAGED = (
    "none-ct-0/00000000000000000043.timeindex",
    "zstd-lat-0/00000000000000000000.timeindex",
)
ANSWERED = {"option": "Approve", "by": "Ada", "why": "", "answered_ms": 1}
TOTALS: Totals = {
    "files": 0, "segments": 0, "partitions": 0, "read_bytes": 0, "write_bytes": 0, "blocked": 0,
    "segments_seen": 0,
}  # fmt: skip


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log directory that lost two time indexes."""
    (found := tmp_path / "broker" / "data").mkdir(parents=True)
    case("matrix-4.3.1-v2").unpack("data", found)
    for name in DAMAGED:
        (found / name).unlink()
    return found


@pytest.fixture
def planned(root: Path, folder: Path) -> Path:
    """The folder of a plan of that, as the job of a DAG run makes it."""
    into = folder / DAG / RUN / "spark_default"
    with pytest.raises(SystemExit):
        main(["plan", "rebuild", str(root), "--into", str(into), "--json"])
    [made] = into.glob("plan-*")
    return made


def question(made: Path, **more: Any) -> dict[str, Any]:
    """question.json as the task that asks writes it."""
    header = json.loads((made / "plan.json").read_text())
    digest = header["digest"]
    content = {
        "options": {"Approve": [digest], "Reject": []},
        "plans": [
            {"plan": str(made), "digest": digest, "totals": header["totals"], "log_dirs": []}
        ],
        "digest": digest,
        "default": "Reject",
        "assigned": [],
        "told": [],
        "task_id": "approve",
        "asked_ms": now_ms() - 1000,
        "until_ms": now_ms() + 3_600_000,
        "dag_id": DAG,
        "run_id": RUN,
    } | more
    write(made.parents[1] / "question.json", content)
    return content


def many(folder: Path, count: int, reason: str = "is missing") -> Path:
    """A plan with so many rows."""
    row = {
        "log_dir": "/not/here", "directory_ctime_ns": 1, "next_base_offset": -1,
        "action": "add", "reason": reason, "before": None, "log": None, "log_valid_bytes": 0,
        "after_bytes": 24, "after_sha256": "", "rule": "last-offset", "index_interval_bytes": 4096,
        "segment_index_bytes": 1, "settings_from": "default",
    }  # fmt: skip
    names = ITEMS.names
    columns = {
        name: pa.array([row[name]] * count, ITEMS.field(name).type) for name in names if name in row
    }
    columns["partition_dir"] = pa.array([f"topic-{n // 100}" for n in range(count)])
    columns["base_offset"] = pa.array(range(count), pa.int64())
    columns["file"] = pa.array([f"{n:020d}.timeindex" for n in range(count)])
    items = pa.table([columns[name] for name in names], schema=ITEMS)
    plan = make_plan("rebuild", {}, {**TOTALS, "files": count}, items)
    made = folder / DAG / RUN / "spark_default" / f"plan-{plan.digest[:16]}"
    write_plan(plan, made)
    return made


def page(client: Any, **query: Any) -> str:
    answer = client.get("/kafkats/plan", params=ASK | query)
    assert answer.status_code == 200, answer.text[:500]
    return str(answer.text)


def test_each_row_says_why_and_the_question_says_who_and_until_when(
    client: Any, planned: Path
) -> None:
    asked = question(planned, assigned=[{"id": "7", "name": "Ada"}])
    text = page(client)
    for item in read_plan(planned).items.to_pylist():
        assert item["file"] in text and item["reason"] in text
    assert "Rebuild 2 files in 2 partitions: " in text
    assert f'data-digest="{asked["digest"]}"' in text
    assert "Ada" in text and "<q>Reject</q> counts" in text
    assert "2 directories compared with the disk: none changed" in text
    assert 'class="primary" data-option="Approve" data-confirm' in text
    assert 'class="quiet" data-option="Reject">Reject: nothing is written</button>' in text
    assert '<h2 id="question-head">The question</h2>' in text, "its button says what is asked"


def test_beside_approve_stand_the_broker_the_danger_and_the_undo(
    client: Any, planned: Path, folder: Path
) -> None:
    """The danger is that which Volumes knows of: a deeper look's, too. Others see only their runs."""
    plan = question(planned)["plans"][0] | {"log_dirs": ["/data"], "operation": "rebuild"}
    asked = question(planned, plans=[plan], undo_days=7)
    text = page(client)
    assert "The brokers of these log directories must be stopped" in text
    assert "not known on <code>/data</code>: no run that is seen from here" in text
    assert "for 7 days after it ends" in text and "UTC, if it is approved now)" in text
    ended(folder, now_ms(), volume("/data", kinds={"danger": {"bad-offset": 2}}), run="looked")
    text = page(client)
    assert "open: 2 findings" in text and "on <code>/data</code>: bad-offset. Keep these" in text
    ended(folder, now_ms(), volume("/data"), run="looked")
    assert "none is known on <code>/data</code>" in page(client)
    question(planned, plans=[plan | {"danger": {"missing-records": 3}}])
    text = page(client)
    assert "found when it was planned" in text and "missing-records 3" in text
    assert "until a person purges: the old files are kept beside" in text
    question(planned, plans=[plan | {"operation": "purge"}])
    text = page(client)
    assert "must be stopped" not in text and "no: a RUN ends once" in text
    write(planned.parents[1] / "approval.json", ANSWERED | {"digests": [asked["digest"]]})
    assert 'id="danger"' not in page(client), "nobody is asked any more"


@pytest.mark.parametrize(
    ("dangers", "said"),
    [
        ([{}], "none was found when it was planned"),
        ([None], "not known: no look"),
        ([None, {}], "not known: no look"),
        ([None, {"bad-offset": 2}], "not known of every plan: no look"),
        ([], "not known: no look"),
    ],
)
def test_danger_of_which_nothing_tells_is_not_known(
    client: Any, planned: Path, dangers: list[dict[str, int] | None], said: str
) -> None:
    """An undo, an earlier version, a look that cannot be read. No volume of it is seen from here."""
    [plan] = question(planned)["plans"]
    plans = [plan | {"plan": f"/at/{n}/plan", "danger": one} for n, one in enumerate(dangers)]
    question(planned, plans=plans)
    text = page(client)
    assert said in text
    assert ("none was found" in text) == (dangers == [{}])
    assert ("bad-offset 2" in text) == ({"bad-offset": 2} in dangers)


def test_pages_of_a_run_belong_to_runs(client: Any, planned: Path) -> None:
    question(planned)
    for path in ("run", "plan", "dag"):
        text = client.get(f"/kafkats/{path}", params=ASK).text
        assert '<a href="runs" aria-current="page">Runs</a>' in text, path
        assert '<a href="audit">Audit</a>' in text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda at: (at / "00000000000000000000.extra").write_bytes(b""), "Stale: 1 directory"),
        (lambda at: (at / "00000000000000000043.timeindex").write_bytes(b"x"), "exists since"),
    ],
)
def test_a_volume_that_changed_since_is_said(
    client: Any, planned: Path, root: Path, change: Any, says: str
) -> None:
    question(planned)
    change(root / "none-ct-0")
    assert says in page(client)


def test_an_updated_file_has_the_size_that_it_has_now(root: Path, folder: Path) -> None:
    """A plan does not note files that all partitions change: they were there before it."""
    made = many(folder, 2)
    plan = read_plan(made)
    rows = plan.items.to_pylist()
    names = (f"{paths.RECOVERY_POINT}", "no-such-checkpoint")
    for row, name in zip(rows, names, strict=True):
        row |= {"log_dir": str(root), "partition_dir": ".", "file": name, "action": "update"}
    items = pa.Table.from_pylist(rows, schema=ITEMS)
    write_plan(make_plan("rebuild", {}, plan.header["totals"], items), made)
    table = table_of(made)
    assert isinstance(table, pa.Table)
    size = (root / paths.RECOVERY_POINT).stat().st_size
    assert [(row.before, row.now) for row in find(table).rows] == [(size, ""), (None, "")]
    assert [row.before for row in find(table, live=False).rows] == [-1, -1], "it was applied"
    root.rename(root.with_name("elsewhere"))
    assert [row.before for row in find(table).rows] == [-1, -1], "not seen from here"


def test_a_volume_that_is_not_seen_from_here_is_said(
    client: Any, planned: Path, root: Path
) -> None:
    question(planned)
    root.rename(root.with_name("elsewhere"))
    text = page(client)
    assert "the api-server does not see" in text and str(root) in text
    assert "exists since" not in text and "gone since" not in text


def test_a_reason_names_params_in_place_of_options(client: Any, folder: Path) -> None:
    many(folder, 1, "the log is corrupt: plan with --like-kafka")
    text = page(client)
    assert "the log is corrupt: plan with param like_kafka" in text
    assert "--like-kafka" not in text


def test_a_large_plan_comes_a_page_at_a_time(client: Any, folder: Path) -> None:
    made = many(folder, 100_000)
    question(made)
    first = page(client)
    assert first.count("<tr data-action=") == 100 and len(first) < 120_000
    assert "Rows 1 to 100 of 100\u202f000" in first
    last = page(client, start=99_900)
    assert f"{99_999:020d}.timeindex" in last and 'rel="next"' not in last
    found = page(client, find="TOPIC-77 7705.timeindex", action="add")
    assert "Rows 1 to 2 of 2 that match; the plan has 100\u202f000" in found
    assert "No row" in page(client, action="remove")


def test_a_search_in_a_plan_calls_as_little_for_many_rows_as_for_few(
    folder: Path,
) -> None:
    """Columns are searched, not rows one by one."""
    spent = []
    for rows in (1000, 50_000):
        table = table_of(many(folder, rows))
        spent.append(calls(lambda table=table: find(table, words="topic-9")))
    assert spent[1] < 3 * spent[0]


def test_names_of_hostile_directories_are_shown_and_do_nothing(client: Any, folder: Path) -> None:
    question(many(folder, 3, HOSTILE), assigned=[{"id": "1", "name": HOSTILE}], told=[HOSTILE])
    text = page(client, find="<script>")
    assert "<script>document" not in text and "<img" not in text
    assert "&lt;script&gt;document" in text


def test_what_cannot_be_read_is_shown_as_such(client: Any, planned: Path, tmp_path: Path) -> None:
    question(planned)
    (planned / "items.parquet").write_bytes(b"PAR1 half")
    assert "not a readable table" in page(client)
    (planned / "items.parquet").unlink()
    assert "it is missing" in page(client)
    question(planned, plans=[{"plan": str(tmp_path), "digest": "d" * 64, "totals": {"files": 1}}])
    text = page(client)
    assert "undone or purged" in text, "no folder of another run is read"
    write(planned.parents[1] / "question.json", '{"options": 7')
    assert "half-written or corrupt" in page(client)


def test_a_migration_says_which_phase_it_is(client: Any, planned: Path) -> None:
    question(planned, started={"phase": "canary"})
    assert "<dt>Phase</dt><dd>canary</dd>" in page(client)
    assert "<dt>Phase</dt><dd>canary</dd>" in client.get("/kafkats/run", params=ASK).text


def test_a_run_that_airflow_says_is_over_asks_nobody(
    client: Any, planned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marked or deleted while it asked: Airflow would not know where to put an answer."""
    from kafkats_airflow.ui import dags

    asked = question(planned)
    query = ASK | {"digest": asked["digest"]}
    assert client.get("/kafkats/data/question", params=query).status_code == 200
    monkeypatch.setattr(dags, "over", lambda asked: frozenset(asked) & {(DAG, RUN)})
    assert client.get("/kafkats/data/question", params=query).status_code == 409
    assert 'data-standing="closed"' in page(client) and "data-option=" not in page(client)
    assert "A plan waits for an answer" not in client.get("/kafkats/volumes").text
    assert "while it asked" in client.get("/kafkats/run", params=ASK).text
    runs = client.get("/kafkats/runs").text
    assert "while it asked" in runs and "See the plan and answer" not in runs


def test_a_question_of_an_earlier_version_has_no_buttons(client: Any, planned: Path) -> None:
    asked = question(planned)
    old = {name: asked[name] for name in ("options", "plans", "asked_ms", "until_ms", "run_id")}
    write(planned.parents[1] / "question.json", old)
    text = page(client)
    assert "An earlier version asked" in text and "data-option" not in text


def test_only_the_question_that_was_shown_can_be_answered(client: Any, planned: Path) -> None:
    def asked(digest: str) -> tuple[int, str]:
        answer = client.get("/kafkats/data/question", params=ASK | {"digest": digest})
        return answer.status_code, str(answer.json().get("detail", ""))

    folder = planned.parents[1]
    assert asked("a" * 64)[0] == 409
    shown = question(planned)["digest"]
    assert asked(shown) == (200, "")
    status, detail = asked("a" * 64)
    assert status == 409 and "was cleared since" in detail and "Nothing was answered" in detail
    answer = {"option": "Approve", "digests": [shown], "by": "Ada", "why": "", "answered_ms": 1}
    write(folder / "approval.json", answer)
    assert asked(shown) == (409, "Already answered: Approve, by Ada.")
    os.unlink(folder / "approval.json")
    question(planned, until_ms=now_ms() - 1)
    assert asked(shown) == (409, "The time for an answer is over.")


def test_a_run_that_can_be_ended_has_buttons_with_its_numbers(
    client: Any, planned: Path, root: Path
) -> None:
    """The digest of the page is the one that end_run wants."""
    from kafkats_airflow.tasks import end_run

    run = planned.with_name("run-1")
    words = ["apply", str(planned), "--digest", read_plan(planned).digest, "--run", str(run)]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--owner-stopped", "--json"])
    assert ended.value.code == 0
    folder = planned.parents[1]
    digest = end_run.digest_of(end_run.open_runs(folder))
    text = str(client.get("/kafkats/run", params=ASK).text)
    assert f'data-digest="{digest}"' in text
    assert f"Undo 2 files of run {digest[:8]}" in text
    assert "Free the old files now: this run can then no longer be undone" in text, (
        "no report tells how many bytes"
    )
    with pytest.raises(SystemExit):
        main(["undo", str(run)])
    assert 'data-verb="undo"' not in client.get("/kafkats/run", params=ASK).text


def test_a_question_about_guards_gives_the_numbers_of_each_answer(
    client: Any, planned: Path
) -> None:
    """More than the guards let, what they let, and nothing."""
    within, beyond = "a" * 64, "b" * 64
    plans = [
        {
            "plan": str(planned),
            "digest": digest,
            "totals": TOTALS | {"files": n, "partitions": 5, "freed_bytes": n << 30},
            "operation": "retain",
            "on_disk": 99 << 30,
        }
        for digest, n in ((within, 2), (beyond, 41))
    ]
    options = {
        "Delete over the guard": [beyond],
        "Keep to the guard": [within],
        "Delete nothing": [],
    }
    question(planned, options=options, plans=plans, digest="c" * 64, default="Delete nothing")
    text = page(client)
    assert ">Delete over the guard: Delete 41 files in 5 partitions, 41.0 GiB of 99.0 GiB" in text
    assert ">Keep to the guard: Delete 2 files in 5 partitions, 2.0 GiB of 99.0 GiB" in text
    assert 'data-option="Delete nothing">Delete nothing: nothing is written</button>' in text


def test_a_question_about_runs_to_undo_counts_their_files(client: Any, planned: Path) -> None:
    """The digests of its options are those of the RUNs."""
    plans = [{"plan": "/elsewhere/run-1", "digest": "c" * 64, "totals": TOTALS | {"files": 5}}]
    options = {"Approve": ["a" * 64, "b" * 64], "Reject": []}
    question(planned, options=options, plans=plans, digest="c" * 64)
    assert "Approve: Change 5 files</button>" in page(client), "an earlier version"
    plans[0]["operation"] = "purge"
    question(planned, options=options, plans=plans, digest="c" * 64)
    assert "Approve: Delete the old files that an undo would put back (5 files)" in page(client)


def test_the_plan_of_a_dry_run_says_how_much_is_on_the_disks(client: Any, planned: Path) -> None:
    """A dry run asks nothing: its report names the plan."""
    header = json.loads((planned / "plan.json").read_text())
    named = {"plan": str(planned), "digest": header["digest"], "totals": header["totals"]}
    report = planned.parents[1] / "report.json"
    write(report, {"outcome": "dry run", "plans": [named]})
    assert "these volumes hold" not in page(client), "a report of an earlier version does not tell"
    write(report, {"outcome": "dry run", "plans": [named | {"on_disk": 5 * 1024**3}]})
    assert "to write; these volumes hold 5.0 GiB." in page(client)
