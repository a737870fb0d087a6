"""Make a request of a command's words, and say its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kafkats import flow
from kafkats.cli.session import session
from kafkats.cli.terminal import say_summary
from kafkats.config.given import Given
from kafkats.request import MODELS, Request, Verb

if TYPE_CHECKING:
    from kafkats.execution import Executor
    from kafkats.result import Result


def request_of(verb: Verb, given: Given, **fields: Any) -> Request:
    """Return a request with the options that the command line names, and further `fields`."""
    named = {
        model.__name__: {
            name: given.values[name] for name in model.model_fields if name in given.named
        }
        for model in MODELS[verb]
    }
    options = {name: values for name, values in named.items() if values}
    return Request(verb=verb, made_ms=given.now_ms, options=options, **fields)


def perform(
    request: Request,
    executor: Executor,
    show: flow.Show,
    sentences: Callable[[Result], Sequence[str]],
    *,
    as_json: bool,
    code_of: Callable[[Result], int] = lambda result: result.exit_code,
) -> int:
    """Do what a request says, say the result, and return its exit code.

    Raises the error that ended the work, after what was done before it is said.
    """
    result = flow.run(request, executor, show=show, deployment=session().deployment)
    code = code_of(result)
    if result.did_something:
        summary = result.summary()
        summary |= {"exit_code": code} if "exit_code" in summary else {}
        say_summary(summary, as_json, sentences(result))
    if result.error is not None:
        raise result.error.as_error()
    return code
