"""Make a request of a command's words, and say its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafkats import flow
from kafkats.cli.options import tell_unidentified
from kafkats.cli.rows import Rows
from kafkats.cli.session import Session, session
from kafkats.cli.streams import ready_streams, warn
from kafkats.cli.terminal import say_summary
from kafkats.config.given import Given
from kafkats.config.options import Topics
from kafkats.errors import KafkatsError, UsageError
from kafkats.plans.files import check_place
from kafkats.request import LogDirectory, Request, Verb, models_of, read_request
from kafkats.result import Rate, Result, write_result

if TYPE_CHECKING:
    from kafkats.config.policy import Policy
    from kafkats.execution.executor import Executor


def request_of(verb: Verb, given: Given, paths: Iterable[Path] = (), **fields: Any) -> Request:
    """Return a request about the log directories at `paths`, whatever volumes are there, with the
    options that the command line names, and further `fields`.
    """
    named = {
        model.__name__: {
            name: given.values[name] for name in model.model_fields if name in given.named
        }
        for model in models_of(verb, fields.get("operation", ""))
    }
    options = {name: values for name, values in named.items() if values}
    fields = {**session().front.fields, **fields}
    log_dirs = [LogDirectory(path=path) for path in paths]
    return Request(verb=verb, made_ms=given.now_ms, options=options, log_dirs=log_dirs, **fields)


def perform(
    request: Request,
    executor: Executor,
    show: flow.Show,
    sentences: Callable[[Result], Sequence[str]],
    *,
    policy: Policy | None = None,
    code_of: Callable[[Result], int] = lambda result: result.exit_code,
) -> int:
    """Do what a request says, say the result, and return its exit code. `policy` names brokers.

    Raises the error that ended the work, after what was done before it is said.
    """
    result = flow.run(request, executor, show=show, deployment=session().front.deployment())
    code = code_of(result)
    if Topics in models_of(request.verb, request.operation):
        tell_unidentified([str(one.path) for one in result.log_dirs], policy)
    if result.did_something:
        summary = result.summary()
        summary |= {"exit_code": code} if "exit_code" in summary else {}
        say_summary(summary, sentences(result))
    if result.error is not None:
        raise result.error.as_error()
    return code


class Files(NamedTuple):
    """The files of a job: its request, which it reads, and the result that it writes. `rates` are
    the last progress of each stage so far.
    """

    request: Path
    result: Path
    rates: Mapping[str, Mapping[str, Any]]


def run_request(
    files: Files, session: Session, verb: str = "", begun: Callable[[Request], None] | None = None
) -> int:
    """Do what the request in a file says, write its result, and return the exit code. `session`
    then has the summary, and the error if there is one.

    With a `verb` a request for another one is refused. `begun` is called with the request. Nothing
    is done where the result could not be written, and nothing that the deployment does not allow.
    """
    ready_streams()
    try:
        check_place(files.result, "the result")
        result = _result_of(files.request, session, verb, begun)
        result.rates = {stage: Rate.model_validate(rate) for stage, rate in files.rates.items()}
        if result.did_something:
            session.summary.update(result.summary())
        if result.error is not None:
            session.error = result.error.as_error()
            warn(f"kafkats: {session.error}")
        write_result(files.result, result)
    except KafkatsError as e:
        session.error = session.error or e
        warn(f"kafkats: {e}")
        return session.error.exit_code
    return result.exit_code


def _result_of(
    asked: Path, session: Session, verb: str, begun: Callable[[Request], None] | None
) -> Result:
    """Return what came of the request in a file; of no request that it is none."""
    assert session.executor is not None
    try:
        request = read_request(asked)
        if verb not in ("", request.verb):
            raise UsageError(f"is a request to {request.verb}, not to {verb}", path=asked)
        if begun:
            begun(request)
        deployment = session.front.deployment().bounded()
        with click.Context(click.Command("request"), obj=session):
            return flow.run(request, session.executor, show=Rows(), deployment=deployment)
    except KafkatsError as e:
        result = Result(verb=verb)
        result.fail(e)
        return result
