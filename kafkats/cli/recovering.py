"""recover: run before a broker's start, alone or as the process that becomes the broker.

After a clean stop it reads names and small files only, and imports nothing that reads logs: it
ends within half a second. Otherwise, and where --hold names a finding of the logs, there is work
(`kafkats.flow.verbs.recover`). A child process looks, another one works, and the start goes on
whatever becomes of them.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import click
from pydantic import ValidationError

from kafkats.cli.generated import UnseenPath, taking
from kafkats.cli.streams import ready_streams, shown, warn
from kafkats.clock import now_ms, utc_text
from kafkats.config.faults import faults
from kafkats.config.given import Given
from kafkats.config.option import declared
from kafkats.config.options import BatchLimit, Processes, Settings, Vouched, WorkArea
from kafkats.errors import KafkatsError, StorageFailed, UsageError
from kafkats.logdir.outputs import refuse_output
from kafkats.recovery.before import Before, look_before
from kafkats.recovery.holding import Held, Owner, hold_words, not_named, of_kinds
from kafkats.recovery.kept_runs import kept_runs
from kafkats.recovery.noted import note
from kafkats.recovery.options import BeforeStart, ServerProperties
from kafkats.recovery.rules import start_rule
from kafkats.recovery.server_properties import (
    BrokerConfig,
    installed_release,
    known_release,
    read_server_properties,
)
from kafkats.releases import NEWEST, release_of

if TYPE_CHECKING:
    from kafkats.request import Request

_Found: TypeAlias = dict[str, Any]
"""`findings`, and the fields of the last line of the log."""

HOLD: Final = 3
_COMMAND: Final = "kafkats.command"
_GRACE_SECONDS: Final = 0.5
"""Before the end of its time a child that has not ended is killed."""
_LEAST_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = (10.0, 60.0)
"""The look at the directories takes milliseconds. On a disk that does not answer it is given up
after the time that is left, between these: it alone says whether a disk is missing."""
_MODELS: Final = (BeforeStart, ServerProperties, Vouched, WorkArea, BatchLimit, Settings, Processes)
_UNSEEN: Final = {
    one.name: {"type": UnseenPath()}
    for model in _MODELS
    for one in declared(model)
    if one.kind.base is Path
}
"""Paths are looked at by a child only. A disk that does not answer would hold the parent."""


class Wrapping(click.Command):
    """A command whose words behind `--` are another command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words of the other command. Raises click.UsageError without any."""
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_COMMAND] = args[:at], args[at + 1 :]
            if not ctx.meta[_COMMAND]:
                raise click.UsageError("name the command that starts the broker after --", ctx)
        return super().parse_args(ctx, args)


class Words(NamedTuple):
    """The command line: log directories, options, and the command that starts the broker."""

    log_dirs: tuple[Path, ...]
    given: Given
    command: tuple[str, ...]
    began: float

    @property
    def asked(self) -> BeforeStart:
        return self.given.of(BeforeStart)

    @property
    def seconds_left(self) -> float:
        return self.began + self.asked.within / 1000 - time.monotonic()


def tell(event: str, fields: Mapping[str, Any]) -> None:
    """Write one line of the log: a JSON object on standard error."""
    named = {"time": utc_text(now_ms()), "level": "info", "event": event} | dict(fields)
    warn(json.dumps(named, default=str))


@click.command(cls=Wrapping)
@click.argument("log_dirs", metavar="[LOG_DIR...]", nargs=-1, type=UnseenPath())
@taking(*_MODELS, **_UNSEEN)
@click.pass_context
def recover(context: click.Context, log_dirs: tuple[Path, ...], given: Given) -> int:
    """Recover logs before a broker's start, or hold it back.

    It recovers the logs that it recovers quicker than the broker. Name all log.dirs of the broker,
    or its --server-properties. With -- COMMAND at the end its process becomes that command. It
    never asks, and loses nothing that the broker's own recovery keeps. Exit code 3: a finding that
    --hold names, do not start the broker. 2: the command line is wrong. 0: start it, also if this
    command itself fails. It writes JSON lines to standard error.
    """
    command = tuple(context.meta.get(_COMMAND, ()))
    words = Words(log_dirs, given, command, time.monotonic())
    try:
        words.asked  # noqa: B018  # checks the values
    except ValidationError as e:
        raise UsageError(f"--{faults(e)[0]}") from e
    if not log_dirs and words.given.of(ServerProperties).server_properties is None:
        raise UsageError("name the log directories, or --server-properties")
    try:
        code = _guarded(words)
    except UsageError:
        raise
    except Exception as e:  # whatever it is, the broker starts
        _tell_failure(e)
        code = 0
    if code == 0 and command:
        return _become(command)
    return code


def _tell_failure(e: Exception, **more: str) -> None:
    tell("failed", {"level": "error", "error": shown(str(e)), "kind": type(e).__name__, **more})


def _become(command: Sequence[str]) -> int:
    from kafkats.cli.startup import environment
    from kafkats.cli.supervising import become

    tell("starting", {"command": list(command)})
    code = become(command, environment())
    tell("not-started", {"level": "error", "command": list(command), "code": code})
    return code


def _guarded(words: Words) -> int:
    """Look, recover, and return the exit code. Raises UsageError for mistyped words."""
    least, most = _LOOK_SECONDS
    seconds = min(max(words.seconds_left, least), most)
    looked = _in_a_child(lambda: _looked(words), seconds)
    if not looked:
        return 0
    if "mistyped" in looked:
        raise UsageError(looked["mistyped"])
    if "findings" in looked:
        return _told(looked)
    seconds = max(words.seconds_left, _LEAST_SECONDS + _GRACE_SECONDS)
    until = time.monotonic() + seconds - _GRACE_SECONDS
    return _told(_in_a_child(lambda: _worked(words, looked, until), seconds))


def _looked(words: Words) -> _Found:
    """Read the broker's configuration, and look at the log directories.

    Return the findings. If there is work to do, return what it needs. `mistyped` says why the
    command line is wrong. Nothing is found without a configuration.
    """
    config = _config(words)
    if config is None:
        return {}
    if not config.named:
        taken = [*map(str, config.log_dirs)]
        tell("log-dirs-not-set", {"level": "warning", "taken": taken})
    asked, place = words.asked, words.given.of(WorkArea).place
    owner = Owner(asked.cluster_id or None, _first(asked.node_id, config.node_id))
    kafka = _release(words)
    try:
        start_rule(kafka or NEWEST)
        record = _outputs(asked.record, place, config.directories)
    except UsageError as e:
        return {"mistyped": str(e)}
    before = look_before(config.directories, kafka, owner, place=place, record=record)
    for failure in before.failures:
        tell("unread-directory", {"level": "error", "error": failure})
    found = {one.log_dir for one in before.held}
    for root in before.roots:
        if root.state in ("absent", "empty") and root.log_dir not in found:
            tell("nothing-there", {"level": "warning", "log_dir": root.log_dir, "is": root.state})
    for log_dir, one in not_named(before.roots, before.noted, before.named):
        fields = {"log_dir": log_dir, "partitions": one.partitions, "record": one.record}
        tell("not-named", {"level": "warning", **fields})
    hold = hold_words(asked.hold)
    if held := of_kinds(before.held, hold):
        return _found(before, held, before.held)
    # what already stops the broker holds the start without a look at the logs
    asks = not {"will-not-start", "loses-records"}.isdisjoint(hold) and not before.stopping
    if before.live or before.unclean or before.busy or asks or _due(before, place):
        return {
            "log_dirs": config.directories,
            "release": kafka,
            "node_id": owner.node,
            "threads": _first(asked.threads, config.threads),
            "record": record,
        }
    for failure in note(before.roots, before.noted, place, record):
        tell("not-noted", {"level": "warning", "error": failure})
    stopping = [Held("will-not-start", "", word) for word in before.stopping]
    findings = [*before.held, *stopping]
    return _found(before, of_kinds(findings, hold), findings)


def _outputs(record: Path | None, place: Path | None, log_dirs: Sequence[Path]) -> Path | None:
    """Return the folder of the record, None if it cannot be read.

    Raises UsageError for an output in a log directory.
    """
    if place is not None:
        with suppress(StorageFailed):  # the work area itself is made later, and tells it
            refuse_output("--work-area", place, log_dirs)
    if record is not None:
        try:
            refuse_output("--record", record, log_dirs)
        except StorageFailed as e:
            tell("not-noted", {"level": "warning", "error": str(e)})
            return None
    return record


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _config(words: Words) -> BrokerConfig | None:
    """Return the broker's directories and numbers, None if its configuration cannot be read."""
    file = words.given.of(ServerProperties).server_properties
    if file is None:
        return BrokerConfig(words.log_dirs)
    try:
        return read_server_properties(file, words.command, words.log_dirs)
    except KafkatsError as e:
        tell("unread-configuration", {"level": "error", "error": str(e)})
        return BrokerConfig(words.log_dirs) if words.log_dirs else None


def _release(words: Words) -> str:
    """Return the given release, else that of the installation, "" if it is not found."""
    given = words.asked.release
    file = words.given.of(ServerProperties).server_properties
    home = os.environ.get("KAFKA_HOME")
    scripts = [word for word in words.command[:1] if "/" in word]
    found = ""
    with suppress(KafkatsError):
        found = installed_release(Path(one) for one in (*scripts, home, file) if one)
    release = known_release(found)
    if given and release and release_of(given) != release_of(release):
        tell("release-differs", {"level": "warning", "given": given, "found": found})
    if given:
        return given
    if not release:
        about = {"found": found, "taken": NEWEST, "remedy": "name it with --kafka"}
        tell("release-not-found", {"level": "warning", **about})
    return release


def _due(before: Before, place: Path | None) -> bool:
    """Return whether old bytes of an earlier recovery may be purged now."""
    named = [root.log_dir for root in before.roots]
    now = now_ms()
    return any(one.is_due(now, clean=before.clean) for one in kept_runs(named, place))


def _found(before: Before, holding: Sequence[Held], found: Sequence[Held]) -> _Found:
    """Return the findings, and the fields of the last line of the log."""
    return {
        "findings": [one._asdict() | {"holds": one in holding} for one in found],
        "clean": before.clean,
        "partitions": sum(root.partitions for root in before.roots),
        "log_dirs": [root.log_dir for root in before.roots],
    }


def _told(found: _Found | None) -> int:
    """Write the lines of the findings and the last one, `start` or `hold`. Return the exit code."""
    if found is None:
        return 0
    findings = found.pop("findings")
    for one in findings:
        tell("finding", {"level": "error" if one["holds"] else "warning", **one})
    hold = any(one["holds"] for one in findings)
    level = "error" if hold else "warning" if found.get("failed") else "info"
    tell("hold" if hold else "start", {"level": level, **found})
    return HOLD if hold else 0


def _in_a_child(work: Callable[[], _Found], seconds: float) -> _Found | None:
    """Return what `work` finds in a child process. None if that does not end well, or in time."""
    from kafkats.cli.supervising import in_a_child

    def written() -> bytes:
        try:
            return json.dumps(work(), default=str).encode()
        except Exception as e:
            at = traceback.extract_tb(e.__traceback__)[-1]
            where = f"{Path(at.filename).name}:{at.lineno}"
            _tell_failure(e, where=where)
            os._exit(1)

    child = in_a_child(written, seconds)
    if child.failure:
        tell("failed", {"level": "error", "error": child.failure})
        return None
    found: _Found = json.loads(child.output)
    return found


def _worked(words: Words, looked: _Found, until: float) -> _Found:
    """Carry out the request up to a moment (time.monotonic). Return what it found.

    Raises KafkatsError.
    """
    from kafkats import flow
    from kafkats.execution.local import LocalExecutor

    import_module("kafkats.flow.verbs.recover")  # takes seconds after a restart of the machine

    class Told(flow.Show):
        def happened(self, event: str, fields: Mapping[str, Any]) -> None:
            tell(event, fields)

    with LocalExecutor(words.given.of(Processes).jobs) as executor:
        request = _request(words, looked, until)
        result = flow.run(request, executor, show=Told())
    if result.error is not None:
        raise result.error.as_error()
    assert result.found is not None
    found = dict(result.found)
    del found["start"]  # the line's event
    return found | {"log_dirs": looked["log_dirs"]}


def _request(words: Words, looked: _Found, until: float) -> Request:
    from kafkats.cli.options import given_policy
    from kafkats.request import LogDirectory, PolicyContent, Request, models_of

    policy = None
    try:
        policy = PolicyContent.of(given_policy(words.given))
    except KafkatsError as e:
        tell("unread-policy", {"level": "error", "error": str(e)})
    within = max(round((until - time.monotonic()) * 1000), 0)
    values: dict[str, object] = dict(words.given.values) | looked | {"within": within}
    options = {
        model.__name__: {name: values[name] for name in model.model_fields}
        for model in models_of("recover")
    }
    log_dirs = [LogDirectory(path=path) for path in looked["log_dirs"]]
    return Request(
        verb="recover", made_ms=now_ms(), options=options, log_dirs=log_dirs, policy=policy
    )


def main(words: Sequence[str]) -> int:
    """Run `kafkats recover` alone, without the other commands. Returns its exit code."""
    ready_streams()
    try:
        code = recover.main(args=list(words), prog_name="kafkats recover", standalone_mode=False)
    except click.exceptions.Abort:
        return 130
    except click.ClickException as e:
        warn(f"kafkats: {shown(e.format_message())}")
        return 2
    except UsageError as e:
        warn(f"kafkats: {e}")
        return 2
    except Exception as e:
        _tell_failure(e)
        command = words[words.index("--") + 1 :] if "--" in words else ()
        return _become(command) if command else 0
    return code if isinstance(code, int) else 0
