"""What the first task of a run looks at before anything is submitted."""

from __future__ import annotations

from importlib import metadata

import pytest
from kafkats_airflow import checks, settings

from kafkats.errors import UsageError


@pytest.mark.parametrize(
    ("versions", "python", "says"),
    [
        ({"pyspark": "4.3.0", "pyspark-client": "4.2.0"}, "", "pyspark 4.3.0 and pyspark-client"),
        ({"pyspark": "4.3.0", "pyspark-client": "4.2.0"}, "/opt/jobs/bin/python", ""),
        ({"pyspark": "4.2.0", "pyspark-client": "4.2.0"}, "", ""),
        ({"pyspark-client": "4.2.0"}, "", ""),
        ({}, "", ""),
    ],
)
def test_pyspark_and_its_client_of_different_versions(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], python: str, says: str
) -> None:
    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(settings, "JOB_PYTHON", "")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if python:
        monkeypatch.setenv("PYSPARK_PYTHON", python)
    if not says:
        checks.one_pyspark()
        return
    with pytest.raises(UsageError, match=says) as raised:
        checks.one_pyspark()
    assert not raised.value.retryable
