"""docker-compose.yml as `scripts/image try full` reads it: the settings are in it, and nothing is left to replace."""

from __future__ import annotations

from pathlib import Path

from tools.compose import services

ROOT = Path(__file__).parents[2]
SETTINGS = {"JWT_SECRET": "secret", "KAFKA_MOUNT": "/srv/kafka", "KAFKA_LOG_DIR": "/srv/kafka/data"}


def test_services_have_the_settings_and_files_of_ours(tmp_path: Path) -> None:
    found = services((ROOT / "docker-compose.yml").read_text(), SETTINGS, tmp_path)
    api = found["airflow-apiserver"]
    assert api["command"] == ["airflow", "api-server"]
    assert api["environment"]["AIRFLOW__API_AUTH__JWT_SECRET"] == "secret"
    assert api["environment"]["KAFKATS_POOL"] == "kafkats"  # the default of the file
    assert "/srv/kafka:/srv/kafka" in api["volumes"]
    assert f"{tmp_path}/policy:/opt/kafkats/policy/policy.yaml:ro" in api["volumes"]
    assert "path: /srv/kafka/data\n" in (tmp_path / "policy").read_text()
    assert '"$KAFKATS_POOL" 2 ' in found["airflow-init"]["command"][-1]
    assert "${" not in str(found)


def test_each_service_finds_the_others_on_this_machine(tmp_path: Path) -> None:
    found = services((ROOT / "docker-compose.yml").read_text(), SETTINGS, tmp_path)
    address, *names = (tmp_path / "hosts").read_text().split()
    assert (address, {*names}) == ("127.0.0.1", {"localhost", *found})
    assert all(f"{tmp_path}/hosts:/etc/hosts:ro" in one["volumes"] for one in found.values())
