"""lookup and export: which offset was it at that time?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from kafkats.cli.generated import taking
from kafkats.cli.options import JOBS, JSON, LOG_DIRS_OR_TABLE, given_policy
from kafkats.cli.performing import perform, request_of
from kafkats.cli.rows import Rows
from kafkats.cli.session import session
from kafkats.cli.streams import warn
from kafkats.config.given import Given
from kafkats.config.options import Settings
from kafkats.config.settings_read import SEARCHES
from kafkats.counts import counted
from kafkats.request import PolicyContent, Request, Verb, models_of

if TYPE_CHECKING:
    from kafkats.execution.executor import Executor
    from kafkats.result import Result

_NAMED: Final = 5


@click.command()
@LOG_DIRS_OR_TABLE
@taking(*models_of("lookup"), Settings, JOBS, JSON)
def lookup(paths: tuple[Path, ...], given: Given, executor: Executor) -> int:
    """Show the offset of every partition at a time.

    The rows also have the reason, and what a broker would answer. With --every it adds an interval
    to a table, and closes earlier cells whose record exists now. A TABLE answers by its cells
    alone. Exits with 1 if a partition could not be searched.

    Brokers refuse to search a topic whose message.format.version is below 0.10. kafkats knows that
    setting only from the policy and its exports.
    """
    rows = Rows()

    def sentences(result: Result) -> list[str]:
        found = result.summary()
        if "table" in found:
            return [*_table_sentences(found), *result.remarks]
        return [_count_sentence(found, rows.untold), *result.remarks]

    request = _request("lookup", paths, given)
    return perform(request, executor, rows, sentences)


@click.command()
@LOG_DIRS_OR_TABLE
@taking(*models_of("export"), Settings, JOBS)
def export(paths: tuple[Path, ...], given: Given, executor: Executor) -> int:
    """Write the offsets at a time, for Spark or a consumer group.

    The formats are options for Spark's Kafka source, a file for kafka-consumer-groups
    --reset-offsets --from-file, and JSON. TABLE is the folder of a lookup table. Exits with 1 if
    --to json leaves partitions without an answer.
    """

    def sentences(result: Result) -> list[str]:
        for remark in result.remarks:
            warn(remark)
        return []

    request = _request("export", paths, given)
    return perform(request, executor, Rows(), sentences)


def _request(verb: Verb, paths: tuple[Path, ...], given: Given) -> Request:
    """Return a request with the policy, if the command line names one. It is not read for a table:
    raises UsageError.
    """
    from kafkats.flow.verbs.lookup import refuse_named
    from kafkats.tables import table_in

    policy, table = None, table_in(paths)
    if given.named & Settings.model_fields.keys():
        if table is not None or given.values.get("every") is not None:
            refuse_named(given.named, table)
        policy = PolicyContent.of(given_policy(given, reads=SEARCHES))
    if verb == "lookup" and session().front.separate:
        given = _of_a_job(given, searches=table is None)
    return request_of(verb, given, paths, policy=policy)


def _of_a_job(given: Given, *, searches: bool) -> Given:
    """Return the options as jobs have always meant them: a margin is for --how safe alone, and what
    a table cannot have yet is no error.
    """
    values, named = dict(given.values), given.named
    if searches and values["how"] != "safe":
        named -= {"margin"}
    if values["every"] is not None:
        values["go_on"], named = True, named | {"go_on"}
    return replace(given, values=values, named=named)


def _count_sentence(found: Mapping[str, Any], untold: int) -> str:
    """Return what was looked up, and what could not be told."""
    counts = f"{counted(found['partitions'], 'partition')}, {counted(found['times'], 'time')}"
    if "untold" in found:
        return f"{counts}: {found['untold']} could not be told"
    return (
        f"{counts}; answers that differ from a broker's: {found['differ']}; could not be told:"
        f" {untold}"
    )


def _table_sentences(found: Mapping[str, Any]) -> list[str]:
    """Return what was added to a table."""
    sentences = [
        f"{counted(found['added'], 'cell')} added, {found['closed']} closed, {found['kept']} kept,"
        f" {found['open']} open, {found['unreadable']} unreadable",
        f"table {found['table']}: {counted(found['files'], 'file')}, {found['bytes']} bytes",
    ]
    if found["above_high_watermark"]:
        sentences.append(
            f"left open, as their records are above the checkpointed high watermark:"
            f" {counted(found['above_high_watermark'], 'cell')}. A later run closes them;"
            " --high-watermark log-end closes"
            " them now"
        )
    sentences += found["other_logs"][:_NAMED]
    if found["other_logs"]:
        more = len(found["other_logs"]) - _NAMED
        sentences.append(
            (f"and {more} more such partitions; " if more > 0 else "")
            + "recreated or truncated: their cells stay open as other-log;"
            " start a table in another folder for them"
        )
    return sentences
