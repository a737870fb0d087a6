"""No word of a param, a run id or a file name is a template, and none acts as Markdown in what a person is asked.

tests/browser shows the same of a whole Airflow; here are the places where Airflow renders.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow.approvals import questions
from kafkats_airflow.jobs.spark_job import KafkatsJobOperator
from markdown_it import MarkdownIt

from kafkats.request import Request

ASKS = "x{{ 7*7 }}y{{ conn.planted.password }}"
DAGS = [
    "apply_retention", "build_lookup_tables", "end_run", "export_offsets",
    "migrate_message_format", "rebuild_time_indexes", "recover_log_dirs", "roll_segments",
]  # fmt: skip
LABELS = {None, "{{ task.about }}"}
"""Our template for the names of mapped tasks: what it gives is not rendered again."""
EVIL = [
    "a|b", "`", "``a`", "a`b``c", "<script>alert(1)</script>", "[x](javascript:alert(1))", "![x](http://evil/)", "*a*",
    "\n\n# head\n", "https://evil.example", "\u202egpj.exe", "&lt;b&gt;", "\\`", " ", "", "~~a~~", ASKS,
]  # fmt: skip


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from strings(one)


@pytest.mark.parametrize("name", DAGS)
def test_airflow_renders_nothing_of_a_dag(bag: Any, name: str) -> None:
    """Tasks of functions render their arguments: those are results of other tasks, which Airflow hands on as they are."""
    tasks = bag.dags[name].tasks
    assert tasks
    for task in tasks:
        assert task.map_index_template in LABELS
        for field in task.template_fields:
            assert field in {"op_args", "op_kwargs", "templates_dict"}, (
                f"{task.task_id}: {field} would be rendered"
            )
            assert not list(strings(getattr(task, field))), (
                f"{task.task_id}: {field} would be rendered"
            )


@pytest.mark.slow(1)
def test_a_param_reaches_the_job_as_it_is(
    bag: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    given: list[Request] = []

    def execute(self: KafkatsJobOperator, context: Any) -> None:
        given.append(self.asked(context))
        raise AirflowFailException("enough")

    monkeypatch.setenv(
        "AIRFLOW_CONN_PLANTED", '{"conn_type": "generic", "password": "planted secret"}'
    )
    monkeypatch.setattr(KafkatsJobOperator, "execute", execute)
    policy = tmp_path / "policy.yaml"
    policy.write_text("volumes: [{broker: '1', path: /volumes/one}]\n")
    conf = {"policy": str(policy), "folder": f"{tmp_path}/{ASKS}", "topics": ASKS, "volumes": []}
    assert str(bag.dags["rebuild_time_indexes"].test(run_conf=conf).state) == "failed"
    request = given[0]
    assert request.options["Topics"]["topics"] == ASKS
    assert request.options["PlanFolder"]["into"].startswith(f"{tmp_path}/{ASKS}/")
    assert "planted secret" not in str(request)


@pytest.mark.parametrize("text", EVIL)
def test_a_name_in_a_question_is_shown_and_does_nothing(text: str) -> None:
    """As CommonMark and the tables of GitHub read it."""
    page = MarkdownIt("commonmark").enable("table")
    tokens = page.parse(
        questions.table(["a", "b"], [[questions.code(text), questions.code("next")]])
    )
    cells = [token for token in tokens if token.type == "inline"][2:]
    shown = questions.plain(text).replace("|", "\\x7c")
    assert [[(one.type, one.content) for one in cell.children] for cell in cells] == [
        [("code_inline", shown if shown.strip() else f" {shown} ")],
        [("code_inline", "next")],
    ]


def test_the_headline_is_one_line_of_what_is_there() -> None:
    run = f"manual\n\u202e{ASKS}"
    assert questions.asked("Rebuild?", {"run_id": run}) == f"Rebuild? Run manual\\n\\u202e{ASKS}"


@pytest.mark.parametrize("name", DAGS)
def test_what_may_be_left_out_is_empty_and_allowed_so(bag: Any, name: str) -> None:
    """The form takes an empty param of plain type string for a missing one, and starts nothing without a word."""
    for key in bag.dags[name].params:
        param = bag.dags[name].params.get_param(key)
        types = param.schema["type"]
        assert "null" in types or (param.value != "" and types != "array"), key


@pytest.mark.parametrize(
    ("given", "words"), [(None, []), ([], []), ([""], []), (["1", " 2 ", "", " "], ["1", "2"])]
)
def test_lines_of_a_form_without_a_word_are_nothing(
    tmp_path: Path, given: list[str] | None, words: list[str]
) -> None:
    from kafkats_airflow.runs.volumes import groups_of, listed

    assert listed(given) == words
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "volumes: [{broker: '1', path: /one}, {broker: '2', path: /two}, {broker: '3', path: /three}]\n"
    )
    [group] = groups_of({"policy": str(policy), "volumes": given})
    assert group.log_dirs == ["/one", "/two", *([] if words else ["/three"])]


def test_empty_and_none_are_the_same(tmp_path: Path) -> None:
    from kafkats_airflow.jobs.applications import options_of
    from kafkats_airflow.runs import steps
    from kafkats_airflow.tasks import lookup

    base = {"folder": str(tmp_path), "time": "2026-01-01T00:00:00Z", "until": None, "before": None}
    base |= {"inside_segments": True, "last_segment": False}
    for empty in ("", None):
        params = base | dict.fromkeys(("free", "ledger", "attested_by", "margin", "tables"), empty)
        assert "free_bytes" not in options_of("retain", params)["Retain"]
        assert steps.ledger_of(params) == tmp_path / "ledger.jsonl"
        moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
        assert lookup._times(params) == [int(moment.timestamp() * 1000)]
