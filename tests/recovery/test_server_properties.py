"""A broker's server.properties, and the release of its installation."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats.errors import UsageError
from kafkats.recovery.server_properties import (
    BrokerConfig,
    installed_release,
    known_release,
    overrides,
    read_server_properties,
    release_of_jar,
)

KRAFT = """
# a comment
process.roles=broker,controller
node.id = 3
broker.id=9
log.dirs=/data/a, /data/b
log.dir=/ignored
metadata.log.dir : /meta
num.recovery.threads.per.data.dir=8
listeners=PLAINTEXT://:9092,\\
  CONTROLLER://:9093
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "server.properties"
    path.write_text(text)
    return path


def test_kraft(tmp_path: Path) -> None:
    config = read_server_properties(written(tmp_path, KRAFT))
    assert config == BrokerConfig((Path("/data/a"), Path("/data/b")), Path("/meta"), 3, 8)
    assert config.directories == (Path("/data/a"), Path("/data/b"), Path("/meta"))


def test_bytes_are_read_as_java_reads_them(tmp_path: Path) -> None:
    """Bytes of UTF-8 may look like a space or the end of a line of ISO 8859-1: A0, 85."""
    path = tmp_path / "server.properties"
    path.write_bytes("log.dirs=/citt\u00e0 , /b\u00c5\r\nnode.id=3\r".encode())
    config = read_server_properties(path)
    names = tuple(str(one).encode("latin-1") for one in config.log_dirs)
    assert names == ("/citt\u00e0".encode(), "/b\u00c5".encode())
    assert config.node_id == 3


def test_the_metadata_log_lies_in_one_of_the_log_directories(tmp_path: Path) -> None:
    config = read_server_properties(
        written(tmp_path, KRAFT.replace("metadata.log.dir : /meta", "metadata.log.dir=/data/b"))
    )
    assert config.directories == (Path("/data/a"), Path("/data/b"))


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("", BrokerConfig((Path("/tmp/kafka-logs"),), named=False)),
        ("log.dir=/one\nbroker.id=0", BrokerConfig((Path("/one"),), node_id=0)),
        ("log.dirs=/a\nbroker.id=-1\nmetadata.log.dir=/m", BrokerConfig((Path("/a"),))),
        ("log.dirs=/a\\\n  ,/b\n! no\nnum.recovery.threads.per.data.dir=x", BrokerConfig((Path("/a"), Path("/b")))),
        ("log.dirs=/with\\\\slash", BrokerConfig((Path("/with\\slash"),))),
        ("log.dirs=/data\\ 1\r\n#node.id=8\r\n  node.id \t: 7 \r\n", BrokerConfig((Path("/data 1"),), node_id=7)),
        ("log.dirs=/ignored\nlog.dirs\nlog.dir\\u003d=x\nlog.dir /a\\\n\n/b", BrokerConfig((Path("/a"),))),
        ("log\\.dirs=/a,/b,,/a , ", BrokerConfig((Path("/a"), Path("/b"), Path("/a")))),
    ],
)  # fmt: skip
def test_what_is_not_given(tmp_path: Path, text: str, config: BrokerConfig) -> None:
    assert read_server_properties(written(tmp_path, text)) == config


def test_values_that_only_the_broker_resolves(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="which only the broker resolves"):
        read_server_properties(written(tmp_path, "log.dirs=${env:DIRS}"))
    with pytest.raises(UsageError, match="no such file"):
        read_server_properties(tmp_path / "none")


def test_named_directories_need_no_value_that_only_the_broker_resolves(tmp_path: Path) -> None:
    text = KRAFT.replace("/data/a, /data/b", "${env:DIRS}").replace("/meta", "${env:META}")
    named = (Path("/named"),)
    config = read_server_properties(written(tmp_path, text), log_dirs=named)
    assert config == BrokerConfig(named, None, 3, 8)
    config = read_server_properties(written(tmp_path, KRAFT), log_dirs=named)
    assert config == BrokerConfig(named, Path("/meta"), 3, 8)
    roles = "log.dirs=/a\nmetadata.log.dir=${env:META}"
    assert read_server_properties(written(tmp_path, roles)) == BrokerConfig((Path("/a"),))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], {}),
        (["s.sh", "s.properties", "--override", "broker.id=2"], {"broker.id": "2"}),
        (["s.sh", "--override=a=b=c", "--override", " log.dirs = /with space , /b "], {"a": "b=c", "log.dirs": "/with space , /b"}),
        (["--override", "a=1", "--override=a=2", "--overrides", "a=3", "a=4"], {"a": "2"}),
        (["sh", "-c", "exec s.sh --override 'a=1 2' --override=broker.id=${HOSTNAME##*-}"], {"a": "1 2", "broker.id": "${HOSTNAME##*-}"}),
        (["sh", "-c", "echo ' --override a=1"], {}),
    ],
)  # fmt: skip
def test_what_a_start_command_overrides(words: list[str], found: dict[str, str]) -> None:
    assert overrides(words) == found


def test_overrides_count_before_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "log.dirs=/a\nbroker.id=0\n")
    words = ["s.sh", str(path), "--override", "broker.id=2", "--override=log.dirs=/b,/c"]
    config = read_server_properties(path, words)
    assert config == BrokerConfig((Path("/b"), Path("/c")), node_id=2)
    shell = ["sh", "-c", f"s.sh {path} --override broker.id=${{HOSTNAME##*-}}"]
    assert read_server_properties(path, shell) == BrokerConfig((Path("/a"),))


@pytest.mark.parametrize(
    ("jar", "release"),
    [
        ("kafka_2.13-4.3.1.jar", "4.3.1"),
        ("kafka_2.12-2.8.2.jar", "2.8.2"),
        ("kafka-server-4.3.1.jar", "4.3.1"),
        ("kafka_2.13-7.6.0-ccs.jar", "3.6"),
        ("kafka_2.13-6.2.1-ce.jar", "2.8"),
        ("kafka_2.13-3.9.0.redhat-00003.jar", "3.9.0"),
        ("kafka_2.13-4.3.1-sources.jar", "4.3.1"),
        ("kafka-clients-4.3.1.jar", ""),
        ("kafka-raft-4.3.1.jar", ""),
        ("notes.txt", ""),
    ],
)
def test_the_release_of_a_jar(jar: str, release: str) -> None:
    assert release_of_jar(jar) == release


def test_the_release_of_an_installation(tmp_path: Path) -> None:
    for folder in ("libs", "bin", "config/kraft"):
        (tmp_path / "kafka" / folder).mkdir(parents=True)
    (tmp_path / "kafka/libs/kafka_2.13-3.9.1.jar").touch()
    (tmp_path / "opt").symlink_to(tmp_path / "kafka")
    for place in ("kafka", "kafka/bin/kafka-server-start.sh", "opt/config/kraft/server.properties"):
        assert installed_release([tmp_path / place]) == "3.9.1"
    assert installed_release([tmp_path / "elsewhere"]) == ""


@pytest.mark.parametrize(
    ("release", "known"),
    [("3.9.1", "3.9.1"), ("4.3", "4.3"), ("9.1.0", "4.3"), ("", ""), ("1.5.0", ""), ("x", "")],
)
def test_a_later_release_is_taken_for_the_newest_known(release: str, known: str) -> None:
    assert known_release(release) == known
