"""docker-compose.yml and .env.example: what is passed on, what is mounted, and that every service says whether it is well."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafkats.config.reading import read_policy
from tests.docker import health_check
from tools.ports import free_ports

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {
    name: service for name, service in SERVICES.items() if service["image"].startswith("kafkats:")
}
LASTING = {name: service for name, service in SERVICES.items() if service["restart"] != "no"}
EXAMPLE = (ROOT / ".env.example").read_text()
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
PASSED_ON = {name for name, value in COMPOSE["x-kafkats"]["environment"].items() if value is None}
"""Variables of the containers that compose takes from .env, and leaves out when they are not there."""


def test_every_lasting_service_has_a_health_check() -> None:
    assert set(SERVICES) - set(LASTING) == {"airflow-init"}
    for name, service in LASTING.items():
        check = service["healthcheck"]
        assert check["test"][0] in {"CMD", "CMD-SHELL"}, name
        assert {"interval", "retries"} <= set(check), name


def test_who_waits_for_whom() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            ends = other not in LASTING
            assert how["condition"] == (
                "service_completed_successfully" if ends else "service_healthy"
            ), (name, other)


def test_every_variable_is_in_the_example_with_its_default() -> None:
    used = {name: default if kind == "-" else "" for name, kind, default in VARIABLE.findall(TEXT)}
    used = {
        name: "" if default == "unused" or default.startswith("/mnt/unused") else default
        for name, default in used.items()
    }
    used["KAFKATS_POLICY_FOLDER"] = ""  # not set: the policy of the compose file itself
    example = dict(re.findall(r"^#?([A-Z][A-Z0-9_]*)=(.*)$", EXAMPLE, re.MULTILINE))
    assert example == used | dict.fromkeys(PASSED_ON, "")


def test_only_what_has_no_default_must_be_set() -> None:
    assert [name for name, kind, _ in VARIABLE.findall(TEXT) if kind != "-"] == ["JWT_SECRET"]


def test_every_setting_of_ours_reaches_the_containers() -> None:
    settings = ROOT / "plugins" / "kafkats_airflow" / "settings.py"
    read = set(re.findall(r"\bKAFKATS_[A-Z_]+\b", settings.read_text()))
    for folder in ("kafkats", "pyspark_kafkats", "spark_jobs", "plugins", "dags"):
        for path in (ROOT / folder).rglob("*.py"):
            read |= set(
                re.findall(r"""environ(?:ment)?(?:\.get\(|\[)["'](KAFKATS_\w+)""", path.read_text())
            )
    read -= {"KAFKATS_SPARK_JOBS", "KAFKATS_JOB_PYTHON", "KAFKATS_KERNELS"}  # the image's own
    assert {
        "KAFKATS_POLICY",
        "KAFKATS_FOLDER",
        "KAFKATS_RETENTION",
        "KAFKATS_POOL",
        "KAFKATS_TIMEOUTS",
    } <= read
    for name, service in OURS.items():
        assert read <= set(service["environment"]), name


def test_log_directories_are_mounted_at_the_path_they_have_outside() -> None:
    for mount in COMPOSE["x-kafkats"]["volumes"]:
        found = VARIABLE.findall(mount)
        if found:
            assert len(found) == 2
            assert {name for name, _, _ in found} == {found[0][0]}
            source, target = (default for _, _, default in found)
            assert source == target or (source == "unused" and target.startswith("/mnt/unused-"))
    assert "unused" in COMPOSE["volumes"]


def test_a_policy_of_ones_own_is_not_hidden_by_the_inline_one() -> None:
    """Wherever the own folder lies on the host, /etc/kafkats say: the inline policy is mounted where nobody keeps files."""
    (inline,) = COMPOSE["x-kafkats"]["configs"]
    assert Path(inline["target"]).is_relative_to("/opt/kafkats")
    given = COMPOSE["x-kafkats"]["environment"]["KAFKATS_POLICY"]
    assert (
        given == "${KAFKATS_POLICY_FOLDER:-" + str(Path(inline["target"]).parent) + "}/policy.yaml"
    )


def test_the_inline_policy_is_a_policy(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(VARIABLE.sub(lambda match: match[3], COMPOSE["configs"]["policy"]["content"]))
    (volume,) = read_policy(path).volumes
    assert (str(volume.path), volume.owner_stopped) == ("/var/lib/kafka/data", False)
    assert (
        "2.23.1" in TEXT and "2.23.1" in (ROOT / "docs" / "airflow.md").read_text()
    )  # what an inline `content` needs


@pytest.mark.slow(6)
def test_the_first_service_makes_the_database_and_the_pool(tmp_path: Path) -> None:
    *shell, script = SERVICES["airflow-init"]["command"]
    assert shell == ["bash", "-euc"]
    script = VARIABLE.sub(lambda match: match[3], script).replace("$$", "$")
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/airflow.db",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "KAFKATS_POOL": "of ours",
    }
    subprocess.run([*shell, script], env=environment, check=True, capture_output=True)
    with sqlite3.connect(tmp_path / "airflow.db") as database:
        assert dict(
            database.execute("SELECT pool, slots FROM slot_pool WHERE pool = 'of ours'")
        ) == {"of ours": 2}


@pytest.mark.slow(1)
def test_postgres_is_well_when_it_answers() -> None:
    """Against a Postgres of this machine on loopback, made as the image makes its own, and against none."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    if not programs or not shutil.which("pg_isready"):
        pytest.skip("Postgres is not installed: apt install postgresql")
    (port,) = free_ports(1)
    environment = os.environ | {"PGPORT": str(port)}
    folder = Path(tempfile.mkdtemp(prefix="kafkats-postgres-"))
    options: dict[str, Any] = {"cwd": folder, "check": True, "capture_output": True}
    if os.getuid() == 0:  # it refuses to run as root
        shutil.chown(folder, "nobody")
        options["user"] = "nobody"
    control = [str(programs[-1]), "--pgdata", str(folder / "data"), "--wait"]
    settings = f"-p {environment['PGPORT']} -k {folder} -c fsync=off"
    try:
        subprocess.run([*control, "initdb", "--options=--username=airflow --no-sync"], **options)
        assert health_check(SERVICES["postgres"], {}, environment)[0] != 0
        subprocess.run(
            [*control, "--log", str(folder / "log"), f"--options={settings}", "start"], **options
        )
        try:
            assert health_check(SERVICES["postgres"], {}, environment)[0] == 0
        finally:
            subprocess.run([*control, "--mode=immediate", "stop"], **options)
    finally:
        shutil.rmtree(folder)
