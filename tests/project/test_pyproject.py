"""The project around the code: lock, licence, compose file, set-up's words."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"


def test_the_lock_is_hashed_and_names_no_host() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    for block in re.split(r"\n(?=\S)", lock.strip()):
        assert re.match(r"[a-z0-9][a-z0-9._\[\]-]*==\S+", block), block
        assert "--hash=sha256:" in block, block


def test_pyspark_and_its_client_are_pinned_alike() -> None:
    pins = dict(
        re.findall(
            r"^(pyspark(?:-client)?)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE
        )
    )
    assert pins["pyspark"] == pins["pyspark-client"]


def test_the_licence_is_whole_and_in_both_wheels() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert (ROOT / "model/LICENSE").read_text() == text
    for folder in (ROOT, ROOT / "model"):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        assert project["license-files"] == ["LICENSE"]


def test_the_compose_file_is_valid() -> None:
    command = [
        str(Path(sys.executable).parent / "check-jsonschema"),
        "--builtin-schema",
        "vendor.compose-spec",
        str(COMPOSE),
    ]
    subprocess.run(command, check=True, capture_output=True)


def test_one_image_for_airflow_and_spark() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    ours = {name: service for name, service in services.items() if name != "postgres"}
    assert {
        "airflow-apiserver",
        "airflow-scheduler",
        "airflow-triggerer",
        "airflow-dag-processor",
        "airflow-init",
        "spark-master",
        "spark-worker",
    } == set(ours)
    assert len({service["image"] for service in ours.values()}) == 1
    assert len({tuple(service["volumes"]) for service in ours.values()}) == 1, (
        "log directories at the same path everywhere"
    )
    assert (
        len({service["environment"]["AIRFLOW__API_AUTH__JWT_SECRET"] for service in ours.values()})
        == 1
    )


def test_the_image_is_of_the_locked_versions() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    lock = (ROOT / "requirements.lock").read_text()
    airflow = re.search(r"^apache-airflow==(\S+)", lock, re.MULTILINE)
    uv = re.search(r"^UV_VERSION=(\S+)", (ROOT / "scripts" / "setup").read_text(), re.MULTILINE)
    assert airflow and f"ARG BASE=apache/airflow:{airflow[1]}-python3.11\n" in dockerfile
    assert uv and f"uv=={uv[1]}" in dockerfile
    for source in re.findall(r"^COPY --chown=\S+ (.+) \S+$", dockerfile, re.MULTILINE):
        assert all((ROOT / name).exists() for name in source.split())


@pytest.mark.parametrize(
    "name",
    ["setup", "test", "lint", "demo", "bench", "conformance", "constraints", "matrix", "release"],
)
def test_scripts_can_be_run(name: str) -> None:
    script = ROOT / "scripts" / name
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.fixture
def bare_machine(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A copy of the project without .venv, and a PATH with the usual small programs but neither Python nor Java."""
    project = tmp_path / "project"
    (project / "scripts").mkdir(parents=True)
    for name in (
        "scripts/setup",
        "scripts/env.sh",
        "requirements.lock",
        "pyproject.toml",
        "model/pyproject.toml",
    ):
        (project / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, project / name)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "cat", "cksum", "dirname", "env", "head", "rm", "sed"):
        (programs / name).symlink_to(str(shutil.which(name)))
    return project, {"PATH": str(programs), "HOME": str(tmp_path)}


def set_up(project: Path, environment: dict[str, str]) -> tuple[int, str]:
    ran = subprocess.run(
        [str(project / "scripts" / "setup")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stderr


def java(folder: Path, version: str) -> None:
    """A program that says it is that Java."""
    script = folder / "java"
    script.write_text(
        f'#!/usr/bin/env bash\necho \'openjdk version "{version}"\' >&2\necho "    java.home = /some/jdk" >&2\n'
    )
    script.chmod(0o755)


def test_set_up_says_that_java_is_missing(bare_machine: tuple[Path, dict[str, str]]) -> None:
    code, said = set_up(*bare_machine)
    assert code == 1
    assert said.startswith("scripts/setup: Java 17 or newer is missing")
    assert "apt install openjdk-17-jre-headless" in said


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_an_old_java_will_not_do(bare_machine: tuple[Path, dict[str, str]], version: str) -> None:
    java(Path(bare_machine[1]["PATH"]), version)
    code, said = set_up(*bare_machine)
    assert (code, said.partition("\n")[0][:45]) == (
        1,
        "scripts/setup: Java 17 or newer is missing: S",
    )


@pytest.mark.parametrize("version", ["17", "21.0.2", "25.0.1"])
def test_set_up_says_that_python_is_missing(
    bare_machine: tuple[Path, dict[str, str]], version: str
) -> None:
    java(Path(bare_machine[1]["PATH"]), version)
    code, said = set_up(*bare_machine)
    assert code == 1
    assert said.startswith("scripts/setup: Python 3.11, 3.12 or 3.13 is missing")
    assert "python3.11-venv" in said


def test_committed_text_names_no_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git clone")
    texts = [
        ROOT / name
        for name in listed.stdout.split("\0")
        if name.endswith((".py", ".md", ".toml", ".yml", ".lock"))
        or name.startswith(("scripts/", ".ci/"))
    ]
    words = ["/work" + "/", "index" + "-url"]
    for path in texts:
        if path.is_file() and "real-logs" not in path.parts:
            text = path.read_text(errors="replace")
            assert not [word for word in words if word in text], path
