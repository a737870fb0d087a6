"""A host that an SSH connection of Airflow reaches, and the messages to its kafkats-host.

The provider's hook makes the connection: user, key or password, port, proxy and host keys are those
of the connection. A key that is not known is refused, unless the connection says
`no_host_key_check`. The only words that reach a shell are those of the connection's
`kafkats_host`, each quoted.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Final

from kafkats.errors import KafkatsError, UsageError
from kafkats_airflow.jobs.hosts import PIECE, Host, Program, Unreached, silence_of
from kafkats_airflow.jobs.providers import hook_class

if TYPE_CHECKING:
    import paramiko

COMMAND: Final = "kafkats-host"
_SAID_BYTES: Final = 4096
_NO_STATUS: Final = -1
"""Paramiko's exit status of a command whose end it has not seen, or that a signal has killed."""


class SshHost(Host):
    """A host of an SSH connection. Raises UsageError for one that cannot be understood."""

    def __init__(self, conn_id: str) -> None:
        self.conn_id = conn_id
        # A line for each connection, and a traceback for a lost one: we name that in a sentence.
        logging.getLogger("paramiko").setLevel(logging.CRITICAL)
        try:
            self._hook = hook_class("ssh")(ssh_conn_id=conn_id)
            extra = self._hook.get_connection(conn_id).extra_dejson
            self._hook.no_host_key_check = _is_true(extra.get("no_host_key_check"))
            self.silence_seconds = silence_of(extra)
            self.command = shlex.join(shlex.split(str(extra.get("kafkats_host") or COMMAND)))
        except KafkatsError:
            raise
        except Exception as e:  # whatever the provider says of an extra, and Airflow of a host
            raise UsageError(f"the connection {conn_id!r}: {e}") from e

    @property
    def name(self) -> str:
        return f"{self._hook.remote_host} (connection {self.conn_id!r})"

    @property
    def remedy(self) -> str:
        return (
            f"{self.command!r} has to start the same version of kafkats there: install it, and"
            " name its program with kafkats_host in the extra of the connection"
        )

    @contextmanager
    def started(self, message: IO[bytes], size: int, seconds: float) -> Generator[Program]:
        """Start the program over a connection of its own."""
        with self._connected() as client:
            with self._in_our_words():
                stdin, stdout, stderr = client.exec_command(  # quoted words
                    self.command, timeout=seconds
                )
                with suppress(OSError):  # a command that ends at once reads nothing
                    while piece := message.read(PIECE):
                        stdin.write(piece)
                    stdin.channel.shutdown_write()

            def said() -> str:
                words: bytes = stderr.read(_SAID_BYTES)
                if stdout.channel.recv_exit_status() == _NO_STATUS:
                    raise Unreached(f"{self.name}: the connection was lost")
                return words.decode(errors="replace")

            with self._in_our_words():
                yield Program(stdout, said)

    @contextmanager
    def _connected(self) -> Generator[paramiko.SSHClient]:
        # The hook keeps a proxy command, which ends with the connection: this one needs another.
        vars(self._hook).pop("host_proxy", None)
        with self._in_our_words():
            client = self._hook.get_conn()
        try:
            yield client
        finally:
            client.close()

    @contextmanager
    def _in_our_words(self) -> Generator[None]:
        import paramiko

        try:
            yield
        except paramiko.BadHostKeyException as e:
            raise UsageError(
                f"{self.name}: its host key differs from the known one: find out why before"
                " you replace that; nothing was sent"
            ) from e
        except paramiko.AuthenticationException as e:
            raise UsageError(f"{self.name}: refuses the login of this worker: {e}") from e
        except paramiko.SSHException as e:
            if "known_hosts" in str(e):
                raise UsageError(
                    f"{self.name}: its host key is not known: add it to ~/.ssh/known_hosts of the"
                    " workers' user, or as host_key to the extra of the connection; nothing was"
                    " sent"
                ) from e
            raise Unreached(f"{self.name}: {e or 'the connection was lost'}") from e
        except FileNotFoundError as e:
            raise UsageError(f"{self.name}: {e}") from e
        except (OSError, EOFError) as e:
            raise Unreached(f"{self.name}: {e or 'no answer in time'}") from e


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"
