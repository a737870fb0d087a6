"""A broker's `server.properties`, and the release of the installation beside it.

    log.dirs, log.dir       the log directories; /tmp/kafka-logs without both
    metadata.log.dir        KRaft's metadata log, if it has a directory of its own
    node.id, broker.id      the broker's number; with both node.id counts
    num.recovery.threads.per.data.dir
                            threads that recover each log directory; 2 from 4.0 on, 1 before

The start command may override each of them. Source: KafkaConfig, ServerLogConfigs. A value of a
configuration provider, such as `${env:DIRS}`, is known to the broker only.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from kafkats.errors import UsageError, storage
from kafkats.logdir.properties import TRIMMED, parse_properties
from kafkats.logdir.text import read_given
from kafkats.releases import KNOWN, release_of

THREADS: Final = "num.recovery.threads.per.data.dir"
_DEFAULT_DIR: Final = "/tmp/kafka-logs"  # noqa: S108  # Kafka's own default
_OVERRIDE: Final = "--override"
_JAR: Final = re.compile(r"kafka(?:_2\.\d+|-server)-(?P<release>\d+\.\d+\.\d+)(?P<rest>[^/]*)\.jar")
_CONFLUENT: Final = re.compile(r"-(ccs|ce)\b")
_FOLDERS: Final = ("libs", "share/java/kafka", "../share/java/kafka")
"""The folders of jars below an installation: of Kafka, and of Confluent's packages."""
_ABOVE: Final = 3
"""Folders between a server.properties, or a start script, and its installation."""


class BrokerConfig(NamedTuple):
    """The properties of a broker that its start depends on. None: not given, or made later."""

    log_dirs: tuple[Path, ...]
    metadata_log_dir: Path | None = None
    node_id: int | None = None
    threads: int | None = None
    named: bool = True
    """Whether somebody names the log directories: it is not Kafka's default."""

    @property
    def directories(self) -> tuple[Path, ...]:
        """Return the log directories, and that of the metadata log, each once."""
        extra = () if self.metadata_log_dir is None else (self.metadata_log_dir,)
        return tuple(dict.fromkeys((*self.log_dirs, *extra)))


def read_server_properties(
    path: Path, command: Sequence[str] = (), log_dirs: tuple[Path, ...] = ()
) -> BrokerConfig:
    """Read a broker's configuration, as `broker_config`. The start command may override it.

    Raises UsageError for a file that is not there and for values that only the broker can resolve,
    StorageFailed.
    """
    values = parse_properties(read_given(path, "file")) | overrides(command)
    return broker_config(values, path, log_dirs)


def broker_config(
    values: Mapping[str, str], path: Path, log_dirs: tuple[Path, ...] = ()
) -> BrokerConfig:
    """Return a configuration from its keys and values. `path` is named in errors.

    `log_dirs`, if a person names them, count in place of log.dirs. Raises UsageError.
    """
    given = values.get("log.dirs") or values.get("log.dir")
    named = given or _DEFAULT_DIR
    metadata = (values.get("metadata.log.dir") if values.get("process.roles") else None) or ""
    for key, value in (("log.dirs", named), ("metadata.log.dir", metadata)):
        if "${" in value and not log_dirs:
            raise UsageError(f"{key} is {value!r}, which only the broker resolves", path=path)
    trimmed = (one.strip(TRIMMED) for one in named.split(","))
    return BrokerConfig(
        log_dirs or tuple(Path(one).absolute() for one in trimmed if one),
        Path(metadata).absolute() if metadata and "${" not in metadata else None,
        _node(values),
        _number(values, THREADS, least=1),
        named=bool(log_dirs or given),
    )


def overrides(command: Sequence[str]) -> dict[str, str]:
    """Return the properties that a start command gives with --override, also in a shell's text.

    Of equal keys the last one counts. Source: kafka.Kafka.getPropsFromArgs.
    """
    words = [part for word in command for part in _parts(word)]
    found: dict[str, str] = {}
    for word, following in pairwise((*words, "")):
        option, _, text = word.partition("=")
        if option == _OVERRIDE:
            key, _, value = (text or following).partition("=")
            found[key.strip(TRIMMED)] = value.strip(TRIMMED)
    return found


def _parts(word: str) -> list[str]:
    """Return the words of a shell's text with overrides, else the word itself."""
    if _OVERRIDE in word and not word.startswith(_OVERRIDE):
        with suppress(ValueError):  # a quotation that does not end
            return shlex.split(word)
    return [word]


def _node(values: Mapping[str, str]) -> int | None:
    node = _number(values, "node.id", least=0)
    return _number(values, "broker.id", least=0) if node is None else node


def _number(values: Mapping[str, str], key: str, *, least: int) -> int | None:
    """Return the number of a key, None without one. A broker.id of -1 is made by ZooKeeper."""
    text = values.get(key, "")
    if not re.fullmatch(r"[0-9]{1,9}", text):
        return None
    return int(text) if int(text) >= least else None


def installed_release(places: Iterable[Path]) -> str:
    """Return the release of the first installation near `places`, "" if none is found.

    `places` are a server.properties, a start script, or an installation. Raises StorageFailed.
    """
    for place in places:
        for above in _above(place):
            for folder in _FOLDERS:
                found = _release_in(above / folder)
                if found:
                    return found
    return ""


def _above(place: Path) -> Iterator[Path]:
    real = Path(os.path.realpath(place))
    yield real
    yield from list(real.parents)[:_ABOVE]


def _release_in(folder: Path) -> str:
    with storage(folder, "looking for Kafka's jars"):
        names = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
    return next((found for name in names if (found := release_of_jar(name))), "")


def release_of_jar(name: str) -> str:
    """Return the release of Kafka that a jar's name says, "" for another jar.

    Confluent's 7.6.0-ccs has Kafka 3.6, their 8.0 has 4.0: only minor numbers are the same.
    """
    m = _JAR.fullmatch(name)
    if m is None:
        return ""
    if not _CONFLUENT.search(m["rest"]):
        return m["release"]
    major, minor = (int(part) for part in m["release"].split(".")[:2])
    kafka = {5: (2, 0), 6: (2, 6), 7: (3, 0), 8: (4, 0)}.get(major)
    return f"{kafka[0]}.{kafka[1] + minor}" if kafka else ""


def known_release(release: str) -> str:
    """Return a release that kafkats knows: itself, or the newest known one for a later one.

    "" for anything else.
    """
    short = release_of(release)
    if not short:
        return ""
    if short in KNOWN:
        return release
    numbers = [tuple(map(int, one.split("."))) for one in (short, KNOWN[-1])]
    return KNOWN[-1] if numbers[0] > numbers[1] else ""
