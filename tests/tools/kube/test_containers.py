"""A container of the stand-in for a kubelet sees its own root, volumes, processes and name, and nothing of it is left outside."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.contained import contain
from tools.kube.containers import Container


def lines(container: Container) -> list[str]:
    end = time.monotonic() + 60
    while container.exit_code() is None and time.monotonic() < end:
        time.sleep(0.02)
    return [line.split(" ", 3)[3] for line in container.log.read_text().splitlines()]


@pytest.mark.root("runs a container in namespaces")
def test_a_container_has_a_name_a_user_a_volume_and_a_root_of_its_own(tmp_path: Path) -> None:
    script = "hostname; id -u; id -G; echo $$; ls /proc | grep -c '^1$'; echo of it >/data/of/kafka/file; echo 1 >/own; exit 3"
    container = contain(tmp_path, "sh", "-c", script)
    assert lines(container) == ["broker-0", "0", "0 2000", "1", "1"]
    assert container.exit_code() == 3
    assert (tmp_path / "volume/file").read_text() == "of it\n"
    assert not Path("/own").exists()
    assert not any(str(tmp_path) in line for line in Path("/proc/mounts").read_text().splitlines())


@pytest.mark.root("runs a container in namespaces")
def test_kafkats_runs_as_another_user_on_a_read_only_root(tmp_path: Path) -> None:
    script = "touch /own || kafkats --version"
    container = contain(tmp_path, "sh", "-c", script, user=1000, read_only_root=True)
    told = lines(container)
    assert "Read-only file system" in told[0]
    assert told[1].startswith("kafkats, version")


@pytest.mark.root("runs a container in namespaces")
def test_a_program_started_in_a_container_is_in_its_root_as_its_user(tmp_path: Path) -> None:
    container = contain(tmp_path, "cat", user=1000, stdin=True)
    script = "id -u; hostname; cat; touch /data/of/kafka/file"
    said, _ = container.execute(["sh", "-c", script], stdin=True).communicate(b"from outside")
    assert said == b"1000\nbroker-0\nfrom outside"
    assert (tmp_path / "volume/file").stat().st_uid == 1000
    container.kill("OOMKilled")
    assert container.exit_code() == 128 + signal.SIGKILL
    assert container.reason == "OOMKilled"
