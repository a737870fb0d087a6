"""kafkats-host [BYTES]: reads one message from standard input, and answers on standard output.

A worker runs it over SSH, and the key of that worker may be bound to it (`command=` in
authorized_keys). A worker that runs it in a pod says how many BYTES it sends: an API server does
not pass on the end of an input. `kafkats-host wait` is a pod's main process
(kafkats.detached.keeping).

It reads and writes files in the folder of this deployment (KAFKATS_FOLDER) alone; which log
directories a request changes is checked as for every request (kafkats.deployment). A request that
this version does not understand is refused before anything is written.
"""

from __future__ import annotations

import io
import os
import socket
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from kafkats import __version__, clock, deployment
from kafkats.detached import files, keeping, parcels
from kafkats.detached.jobs import Job, Sent, alike_of
from kafkats.detached.messages import Answer, Ask, State, read_message, write_message
from kafkats.errors import KafkatsError, Refused, UsageError
from kafkats.request import made_of
from kafkats.result import Failure


class Served(NamedTuple):
    """An answer, and the files to send behind it."""

    answer: Answer
    folder: Path | None = None


def serve(asked: IO[bytes], told: IO[bytes]) -> int:
    """Answer one message. Returns the exit code."""
    served = Served(_answer())
    try:
        ask = read_message(asked, Ask)
        served = _served(ask, asked)
    except KafkatsError as e:
        served = Served(_answer(error=Failure.of(e)))
    write_message(told, served.answer)
    if served.folder is not None:
        parcels.pack(told, served.folder, served.answer.files)
    told.flush()
    return 0 if served.answer.error is None else 2


def _served(ask: Ask, parcel: IO[bytes]) -> Served:
    folder = _folder(ask)
    job = Job.of(folder, ask.id)
    match ask.do:
        case "begin" | "start":
            return Served(_started(ask, folder, job, parcel))
        case "collect":
            return _collected(folder, job)
        case "cancel":
            with job.only():
                job.end()
        case "forget":
            with job.only():
                _forget(ask, folder, job)
        case _:
            if job.state() != "none":
                job.touch()
    return Served(_state(job))


def _folder(ask: Ask) -> Path:
    """Return the folder of all runs. Raises Refused unless it is this deployment's."""
    own = Path(deployment.folder())
    if ask.folder != own:
        parcels.check_inside(own, ask.folder)
    for path in ask.paths:
        parcels.check_inside(ask.folder, path)
    return ask.folder


def _started(ask: Ask, folder: Path, job: Job, parcel: IO[bytes]) -> Answer:
    """Start the work, unless it runs or has ended; for `begin` without its files, if some are
    missing here.

    Work for another request of the same id, as of an earlier plan, is ended first.
    """
    request = made_of(ask.request)
    if request.id != ask.id:
        raise UsageError(f"the request has the id {request.id[:80]!r}, the message {ask.id[:80]!r}")
    sent = Sent(silence_seconds=ask.silence_seconds, alike=alike_of(request))
    coming = files.received(folder, parcel) if ask.do == "start" else nullcontext(parcel)
    with coming as came, job.only():
        files.remove_old(folder, clock.now_ms())
        if _goes_on(job, sent.alike):
            job.touch()
            return _state(job)
        job.end()
        if _is_shared(ask, folder):
            job.start(request, sent)
            return _state(job)
        with files.held(folder):
            missing = files.missing(folder, job, ask)
            if missing and ask.do == "begin":
                return _answer(wants=tuple(missing))
            if missing:
                files.take(folder, job, ask, missing, came)
            job.start(request, sent.model_copy(update={"paths": ask.paths, "files": ask.files}))
        return _state(job)


def _goes_on(job: Job, alike: str) -> bool:
    """Return whether the work runs, or has ended and can be collected. A new try does failed work
    again.
    """
    state = job.state()
    sent = job.sent() if state in {"running", "ended"} else None
    if sent is None or sent.alike != alike:
        return False
    return state == "running" or not (job.document(job.result) or {}).get("error")


def _collected(folder: Path, job: Job) -> Served:
    """Return the result, with the files that the work has changed. Raises Refused while it runs."""
    answer = _state(job)
    if answer.state == "running":
        raise Refused("still runs", path=job.folder)
    sent = job.sent()
    here = parcels.listed(folder, sent.paths) if sent else {}
    before = sent.files if sent else {}
    changed = {name: digest for name, digest in here.items() if before.get(name) != digest}
    gone = tuple(name for name in before if name not in here)
    result = job.document(job.result)
    more = {"files": changed, "gone": gone, "result": result}
    return Served(answer.model_copy(update=more), folder if changed else None)


def _forget(ask: Ask, folder: Path, job: Job) -> None:
    """Remove what the worker has by now. A folder that both share keeps its files."""
    if job.state() == "running":
        raise Refused("still runs", path=job.folder)
    with files.held(folder):
        if (sent := job.sent()) is not None and not _is_shared(ask, folder):
            files.remove(folder, job, sent)
        job.forget()


def _is_shared(ask: Ask, folder: Path) -> bool:
    plain = Path(ask.mark).name == ask.mark != ".."
    return bool(ask.mark) and plain and (folder / ask.mark).exists()


def _state(job: Job) -> Answer:
    state: State = job.state()
    progress = job.document(job.progress) if state != "none" else None
    return _answer(state=state, progress=progress, told=job.told())


def _answer(**fields: object) -> Answer:
    made = {"kafkats": __version__, "host": socket.gethostname()} | fields
    return Answer.model_validate(made)


class Bounded(io.RawIOBase):
    """A reader of the next `left` bytes of a stream. It leaves the following ones unread."""

    def __init__(self, stream: IO[bytes], left: int) -> None:
        self._stream, self._left = stream, left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(min(len(buffer), self._left))
        self._left -= len(piece)
        buffer[: len(piece)] = piece
        return len(piece)


_USAGE: Final = (
    "kafkats-host [BYTES]: answers one request on its standard input. Airflow calls it over ssh,"
    " or in a pod; for work by hand there is kafkats."
)


def main() -> int:
    """Answer the message on standard input. Whatever is printed meanwhile is not an answer."""
    words = sys.argv[1:]
    if words[:1] in (["--help"], ["-h"]):
        print(_USAGE)
        return 0
    if words[:1] == ["wait"]:
        try:
            return keeping.main(words[1:])
        except KafkatsError as e:
            print(f"kafkats-host: {e}", file=sys.stderr)
            return 2
    if words and (len(words) > 1 or not words[0].isdecimal()):
        print(f"kafkats-host: not a number of bytes: {' '.join(words)}", file=sys.stderr)
        return 2
    told = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asked: IO[bytes] = sys.stdin.buffer
    if words:
        asked = io.BufferedReader(Bounded(asked, int(words[0])))
    return serve(asked, told)
