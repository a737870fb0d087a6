"""A host that a connection reaches, and the messages to its kafkats-host.

By SSH it is a machine (kafkats_airflow.jobs.ssh_host), in Kubernetes a pod
(kafkats_airflow.jobs.pod_host).
"""

from __future__ import annotations

import math
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from kafkats import __version__
from kafkats.detached import parcels
from kafkats.detached.messages import Answer, Ask, read_message, write_message
from kafkats.errors import CorruptFile, KafkatsError, UsageError

ANSWERS_SECONDS: Final = 600.0
"""How long a host may say nothing: it reads the files of a run before it answers."""
LOOKS_SECONDS: Final = 30.0
"""The same for a message that reads no files: a look, a cancel."""
PAUSES: Final = (1.0, 2.0, 4.0)
"""Seconds between tries to reach a host; the provider itself tries three times to connect."""
PIECE: Final = 1 << 16
"""Bytes that are sent at once."""
SILENCE: Final = "kafkats_silence_seconds"
_SILENCE_SECONDS: Final = 600
_READ_NO_FILES: Final = frozenset({"look", "cancel"})
_HOSTS: Final = {"ssh": ("ssh_host", "SshHost"), "kubernetes": ("pod_host", "PodHost")}
KINDS: Final = frozenset(_HOSTS)
"""The types of connections that reach hosts."""

Unpack = Callable[[IO[bytes], Answer], None]
"""Take the files behind an answer."""
Sent = tuple[Path, Sequence[str]]
"""A folder, and files of it to send behind a message."""


class Unreached(KafkatsError):
    """The host cannot be reached, or the connection was lost. Its work continues."""

    retryable = True


class Program(NamedTuple):
    """kafkats-host under way. `said` returns its last words when it has ended, and raises Unreached
    if the connection was lost before.
    """

    answers: IO[bytes]
    said: Callable[[], str]


class Host(ABC):
    """A host of a connection. Without a question for `silence_seconds` its work stops."""

    silence_seconds: float

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in sentences."""

    @property
    @abstractmethod
    def remedy(self) -> str:
        """The advice for a host on which no kafkats-host answers."""

    @abstractmethod
    def started(
        self, message: IO[bytes], size: int, seconds: float
    ) -> AbstractContextManager[Program]:
        """Start kafkats-host, and send it a message. It may say nothing for so many seconds.

        Raises Unreached, UsageError.
        """

    def asked(self, ask: Ask, sent: Sent | None = None, unpack: Unpack | None = None) -> Answer:
        """Ask, again after a lost connection: a host answers a message twice as once. Raises as
        `ask`.
        """
        for seconds in PAUSES:
            with suppress(Unreached):
                return self.ask(ask, sent, unpack)
            time.sleep(seconds)
        return self.ask(ask, sent, unpack)

    def ask(self, ask: Ask, sent: Sent | None = None, unpack: Unpack | None = None) -> Answer:
        """Return the answer to a message.

        Raises Unreached, UsageError if the host is not to be trusted or has no kafkats that
        answers, and the error that the host returns.
        """
        with tempfile.TemporaryFile() as message:
            write_message(message, ask)
            if sent is not None:
                parcels.pack(message, *sent)
            size = message.tell()
            message.seek(0)
            seconds = LOOKS_SECONDS if ask.do in _READ_NO_FILES else ANSWERS_SECONDS
            with self.started(message, size, seconds) as program:
                answer = self._read(program, unpack)
        if answer.error is not None:
            error = answer.error.as_error()
            other = f", with kafkats {answer.kafkats}" if answer.kafkats != __version__ else ""
            error.reason = type(error.reason)(f"{self.name}{other}: ", error.reason)
            raise error
        return answer

    def _read(self, program: Program, unpack: Unpack | None) -> Answer:
        try:
            answer = read_message(program.answers, Answer)
        except UsageError as e:
            said = program.said().strip()
            last = said.splitlines()[-1] if said else str(e)
            raise UsageError(
                f"{self.name}: gives no answer that this version understands: {last[:300]};"
                f" {self.remedy}"
            ) from e
        if unpack is not None and answer.error is None and answer.files:
            try:
                unpack(program.answers, answer)
            except CorruptFile as e:  # the host keeps its files until it is told to forget them
                raise Unreached(f"{self.name}: {e}") from e
        return answer


def host_at(kind: str, conn_id: str) -> Host:
    """Return the host of a connection of this type.

    Raises UsageError for a connection that cannot be understood, and without the provider.
    """
    module, name = _HOSTS[kind]
    host: Host = getattr(import_module(f"{__package__}.{module}"), name)(conn_id)
    return host


def silence_of(extra: dict[str, Any]) -> float:
    """Return the `silence_seconds` of a connection's extra. Raises ValueError for what is none."""
    value = extra.get(SILENCE, _SILENCE_SECONDS)
    seconds = float(str(value))
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{SILENCE} is {value!r}, and not a number from 0 on")
    return seconds
