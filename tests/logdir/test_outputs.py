"""Outputs in log directories are refused before any work, for every option that names one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkats import paths
from kafkats.config.option import Declared, Options, declared
from kafkats.errors import UsageError
from kafkats.execution.executor import Executor
from kafkats.flow import run
from kafkats.logdir.location import log_dir_above
from kafkats.logdir.outputs import refuse_inside, refuse_output
from kafkats.lookup.options import Failover
from kafkats.operations import OPERATIONS
from kafkats.request import VERBS, Request, models_of
from kafkats.tables.store import MANIFEST
from tests.builders.commands import run as command
from tests.golden import case

READ = [
    "at",
    "check",
    "clients",
    "committed",
    "describe",
    "export",
    "from_report",
    "logs",
    "of_plan",
    "of_run",
    "certified",
    "runs",
    "policy_file",
]
"""Fields of paths that are read: nothing is written there."""


OUTPUT = "-o --output"


class NoWork(Executor):
    """Fails the test if any work is done."""

    def run(self, stage: str, work: Any) -> Any:
        raise AssertionError(f"{stage} was run")


def options_of(verb: str, operation: str) -> Iterator[tuple[type[Options], Declared]]:
    for model in models_of(verb, operation):
        yield from ((model, one) for one in declared(model) if one.kind.base is Path)


def requests() -> Iterator[Any]:
    """Yield each option of a path that is written, with the verb and the operation."""
    for verb in VERBS:
        for operation in OPERATIONS if verb == "plan" else ("",):
            for model, one in options_of(verb, operation):
                if one.name not in READ:
                    yield pytest.param(
                        verb, operation, model, one, id=f"{verb}-{operation}-{one.name}"
                    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "disk" / "data"
    root.mkdir(parents=True)
    case("matrix-4.3.1-v2").unpack("data", root)
    return root


@pytest.mark.parametrize(("verb", "operation", "model", "one"), [*requests()])
def test_no_request_writes_into_a_log_directory(
    root: Path, verb: str, operation: str, model: type[Options], one: Declared
) -> None:
    needs = {"log_dirs": [{"path": root}]} if VERBS[verb].needs == "log_dirs" else {}
    needs |= {"runs": [{"folder": "/r"}]} if VERBS[verb].needs == "runs" else {}
    needs |= {"plan": {"folder": "/p", "digest": "any"}} if VERBS[verb].needs == "plan" else {}
    extra = {"Export": {"at": "0", "to": "json"}, "Preflight": {"kafka": "4.3"}}
    inside: object = [root / "a"] if one.kind.many else root / "a" / "b"
    options = {model.__name__: {**extra.get(model.__name__, {}), one.name: inside}}
    fields = {"operation": operation} if operation else {}
    request = Request.model_validate({
        "verb": verb,
        "made_ms": 0,
        **fields,
        **needs,
        "options": options,
    })
    result = run(request, NoWork())
    assert result.error is not None and (result.exit_code, result.error.kind) == (2, "UsageError")
    assert f"lies in the log directory {root}" in result.error.reason
    assert f"with {one.option.flags.split()[0]}" in result.error.reason
    assert not (root / "a").exists()


def test_an_option_of_a_path_is_read_or_written() -> None:
    for verb in VERBS:
        for operation in OPERATIONS if verb == "plan" else ("",):
            for _, one in options_of(verb, operation):
                assert one.option.writes == (one.name not in READ), one
    written = [one.option.writes for one in declared(Failover) if one.name == "output"]
    assert written == [True]


def test_commands_that_make_no_request_refuse_it_too(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("failover", "/none", "/none", "--committed", "/none", "--margin", "1m")
    code, _, err = command(capsys, *words, "-o", root / "groups.csv")
    assert (code, f"lies in the log directory {root}" in err) == (2, True)


@pytest.mark.parametrize("verb", ["census", "inventory", "preflight", "verify"])
def test_no_report_is_written_among_the_files_of_a_table(
    root: Path, tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table"
    table.mkdir()
    (table / MANIFEST).touch()
    more = ("--kafka", "4.3") if verb == "preflight" else ()
    code, _, err = command(capsys, verb, root, "--report", table, *more)
    assert (code, "holds a lookup table: name another folder" in err) == (2, True)
    assert [path.name for path in table.iterdir()] == [MANIFEST]


@pytest.mark.parametrize(
    "sign", [paths.META_PROPERTIES, paths.RECOVERY_POINT, paths.CLEAN_SHUTDOWN]
)
def test_a_directory_with_a_roots_file_is_a_log_directory(tmp_path: Path, sign: str) -> None:
    (tmp_path / sign).touch()
    (tmp_path / "other").mkdir()
    assert log_dir_above(tmp_path / "a" / "b") == log_dir_above(tmp_path) == tmp_path


def test_partitions_make_a_log_directory_of_a_directory_with_nothing_else(tmp_path: Path) -> None:
    root = tmp_path / "disk"
    partition = root / "orders-0"
    partition.mkdir(parents=True)
    assert log_dir_above(root / "plan", by_partitions=True) is None
    (partition / "00000000000000000000.log").touch()
    (root / paths.LOCK).touch()
    assert log_dir_above(root / "plan", by_partitions=True) == root
    assert log_dir_above(root / "plan") is None
    (root / "notes.txt").touch()
    assert log_dir_above(root / "plan", by_partitions=True) is None
    assert log_dir_above(partition / "plan", by_partitions=True) == partition


def test_a_named_path_of_logs_counts_with_whatever_else_is_in_it(tmp_path: Path) -> None:
    partition = tmp_path / "disk" / "orders-0"
    partition.mkdir(parents=True)
    log = partition / "00000000000000000000.log"
    log.touch()
    (tmp_path / "disk" / "notes.txt").touch()
    output = tmp_path / "disk" / "plan"
    refuse_output(OUTPUT, output, [partition, log])
    with pytest.raises(UsageError, match="lies in the log directory"):
        refuse_output(OUTPUT, output, [tmp_path / "disk"])
    with pytest.raises(UsageError, match="lies in the log directory"):
        refuse_output(OUTPUT, partition / "plan", [log])


def test_links_are_followed_and_a_table_is_no_log_directory(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    with pytest.raises(UsageError, match="lies in the log directory"):
        refuse_inside(tmp_path / "link" / "plan")
    table = tmp_path / "table"
    table.mkdir()
    (table / "manifest.json").touch()
    refuse_output(OUTPUT, table / "answers.csv", [table])
