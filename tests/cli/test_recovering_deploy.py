"""The files of deploy/ that put `kafkats recover` before a start: words, times, and what they do with exit codes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkats.cli.recovering import recover
from kafkats.config.values import parse_duration
from tests.golden import Unpacked
from tests.recovery.crashed import some_of
from tools.package import FOLDER

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "systemd" / "kafka.service.d" / "kafkats.conf"
PROGRAM = "/opt/kafkats/kafkats"


def start_line() -> str:
    [line] = re.findall(r"^ExecStartPre=/bin/sh -c '(.*)'$", UNIT.read_text(), re.MULTILINE)
    return line.replace("$$", "$")


def containers() -> dict[str, list[str]]:
    """The wrapped commands, by file."""
    pod = yaml.safe_load((DEPLOY / "kubernetes" / "statefulset.yaml").read_text())
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    strimzi = (DEPLOY / "kubernetes" / "strimzi.Dockerfile").read_text()
    [line] = re.findall(r"'exec (.*)'", strimzi.replace("$node", "1"))
    return {
        "systemd": start_line().partition(";")[0].split(),
        "kubernetes": pod["spec"]["template"]["spec"]["containers"][0]["command"],
        "compose": compose["services"]["kafka"]["entrypoint"],
        "strimzi": line.split(),
    }


@pytest.mark.parametrize("name", ["systemd", "kubernetes", "compose", "strimzi"])
def test_the_words_are_those_of_the_command(name: str) -> None:
    program, command, *words = containers()[name]
    assert (program, command) == (PROGRAM, "recover")
    context = recover.make_context("recover", words)
    assert context.params["within"] == parse_duration("4m" if name == "strimzi" else "5m")
    assert bool(context.meta) == (name != "systemd")


def test_what_waits_for_the_broker_waits_longer_than_the_recovery() -> None:
    within = parse_duration("5m") / 1000
    [minutes] = re.findall(r"^TimeoutStartSec=(\d+)min$", UNIT.read_text(), re.MULTILINE)
    assert int(minutes) * 60 > within
    pod: Any = yaml.safe_load((DEPLOY / "kubernetes" / "statefulset.yaml").read_text())
    probe = pod["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > 10 * within, "and as a broker alone"


def test_strimzis_operator_waits_longer_than_the_recovery() -> None:
    [minutes] = re.findall(
        r"--within (\d+)m ", (DEPLOY / "kubernetes/strimzi.Dockerfile").read_text()
    )
    assert int(minutes) * 60 < 300, "its STRIMZI_OPERATION_TIMEOUT_MS"


def test_the_unit_writes_nothing_beside_a_log_directory() -> None:
    """Its user mostly may not, as in /var/lib."""
    [state] = re.findall(r"^StateDirectory=(\w+)$", UNIT.read_text(), re.MULTILINE)
    for text in (UNIT.read_text(), (DEPLOY.parent / "README.md").read_text()):
        assert f"StateDirectory={state}" in text and f"--work-area /var/lib/{state}" in text


IMAGE_VOLUME = "/var/lib/kafka/data"
"""The VOLUME of cp-kafka and apache/kafka. Docker and containerd put a volume of their own there if
nothing is mounted at this very path, and remove it with the container."""


def test_records_and_work_area_are_on_the_volume_that_outlives_the_container() -> None:
    pod: Any = yaml.safe_load((DEPLOY / "kubernetes" / "statefulset.yaml").read_text())
    [broker] = pod["spec"]["template"]["spec"]["containers"]
    compose: Any = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    service = compose["services"]["kafka"]
    for name, mounts, environment in (
        (
            "kubernetes",
            {mount["name"]: mount["mountPath"] for mount in broker["volumeMounts"]},
            {one["name"]: one["value"] for one in broker["env"]},
        ),
        (
            "compose",
            dict(one.split(":")[:2] for one in service["volumes"]),
            service["environment"],
        ),
    ):
        log_dir = containers()[name][2]
        assert mounts["data"] == IMAGE_VOLUME == str(Path(log_dir).parent), name
        assert environment["KAFKA_LOG_DIRS"] == log_dir, name


def test_the_images_find_the_folder_of_the_archive(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "kafkats").touch(0o755)
    (tmp_path / "tool").mkdir()
    image = (DEPLOY / "kubernetes" / "Dockerfile").read_text()
    [line] = re.findall(r'^CMD \["sh", "-c", "(.*)"\]$', image, re.MULTILINE)
    line = line.replace("/opt/kafkats", f"{tmp_path}/tool").replace(
        " /kafkats", f" {tmp_path}/kafkats"
    )
    subprocess.run(["sh", "-c", line], check=True)
    assert os.access(tmp_path / "tool" / "kafkats", os.X_OK)
    strimzi = (DEPLOY / "kubernetes" / "strimzi.Dockerfile").read_text()
    [place] = re.findall(r"^ADD kafkats-\*\.tar\.xz (.*)/$", strimzi, re.MULTILINE)
    assert f"{place}/{FOLDER}/kafkats" == PROGRAM


def test_strimzis_wrapper_names_the_log_directory_of_each_volume(tmp_path: Path) -> None:
    """Also one that is gone, which a glob of log directories would leave out."""
    for volume in ("data-0/kafka-log12", "data-1"):
        (tmp_path / volume).mkdir(parents=True)
    strimzi = (DEPLOY / "kubernetes" / "strimzi.Dockerfile").read_text()
    script = "\n".join(re.findall(r"^ {8}'(.*)' \\$", strimzi, re.MULTILINE))
    script = script.replace("/var/lib/kafka", str(tmp_path)).replace(PROGRAM, "echo")
    environment = os.environ | {"HOSTNAME": "my-cluster-pool-12"}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    named = f"{tmp_path}/data-0/kafka-log12 {tmp_path}/data-1/kafka-log12 --node-id 12"
    assert named in done.stdout


def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    (tmp_path / "kafka.service").write_text("[Service]\nUser=root\nExecStart=/bin/true\n")
    shutil.copytree(UNIT.parent, tmp_path / UNIT.parent.name)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "kafka.service"],
        env={"SYSTEMD_UNIT_PATH": f"{tmp_path}:"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, str(tmp_path) in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize(
    ("program", "node", "code"),
    [
        pytest.param(f"{sys.executable} -m kafkats", 1, 0, id="start"),
        pytest.param(f"{sys.executable} -m kafkats", 99, 1, id="hold"),
        pytest.param("/no/such/program", 1, 0, id="the tool is gone"),
        pytest.param("sh -c 'kill -9 $$' &&", 1, 0, id="killed"),
        pytest.param("sh -c 'exit 2' &&", 1, 0, id="mistyped"),
    ],
)
def test_only_a_finding_keeps_the_unit_down(
    golden: Unpacked, tmp_path: Path, program: str, node: int, code: int
) -> None:
    root = some_of(golden, "crash-4.3.1", ["few-bytes-0"], tmp_path / "disk" / "data")
    (root / ".kafka_cleanshutdown").touch()
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={root}\nnode.id={node}\n")
    line = (
        start_line()
        .replace(PROGRAM, program)
        .replace("/opt/kafka/config/server.properties", str(properties))
    )
    (state := tmp_path / "state").mkdir()
    line = line.replace("/var/lib/kafkats", str(state))
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
