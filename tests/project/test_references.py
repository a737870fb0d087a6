"""No code that only tests run: every function, class and method of the product is used by the product."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project.references import unreferenced

LIBRARY = "called by programs of others: docs/lookup-tables.md"
BY_NAME = "called by name, by the framework that loads it"
MODEL = "the encoding side of a format, which kafkats-model and the tests use"
ALLOWED = {
    "kafkats.cli.registered.AllCommands.format_commands": BY_NAME,
    "kafkats.detached.working.main": "the program of a process that kafkats-host starts",
    "kafkats.formats.control.encode_end_marker": MODEL,
    "kafkats.formats.message_set.wrapped": "a wrapper as it is stored, which kafkats-model takes apart",
    "kafkats.kernels.jit.Compiled._numba_type_": "read by numba",
    "kafkats.tables.store.verify": LIBRARY,
    "kafkats_airflow.airflow_versions.Question.validate_params_input": BY_NAME,
    "kafkats_airflow.bundle.KafkatsDagBundle": BY_NAME,
    "kafkats_airflow.kafkats_plugin.KafkatsPlugin": BY_NAME,
    "kafkats_airflow.provider.get_provider_info": BY_NAME,
    "kafkats_airflow.links.PlanLink.get_link": BY_NAME,
    "kafkats_airflow.reading.volumes.Row.changed_after": "called by a template",
    "kafkats_airflow.links.ResultsLink.get_link": BY_NAME,
    "kafkats_airflow.jobs.spark_job.SparkUiLink.get_link": BY_NAME,
    "kafkats_airflow.jobs.waiting.HostTrigger.serialize": BY_NAME,
    "pyspark_kafkats.source.DefaultSource": BY_NAME,
}
"""name -> why it is there though nothing of the product refers to it."""


@pytest.mark.slow(5)
def test_the_product_uses_what_it_has() -> None:
    found = set(unreferenced())
    assert found - ALLOWED.keys() == set(), (
        "delete these with their tests, or make the product use them"
    )
    assert ALLOWED.keys() - found == set(), "these are used, or gone: take them out of the list"


@pytest.mark.parametrize(
    ("one", "other", "dead"),
    [
        ("def used(): pass\ndef dead(): dead()\n", "from kafkats.one import used\nused()\n", ["kafkats.one.dead"]),
        # Another function of the same name is no reference; a re-export alone is none either.
        ("def look(): pass\n", "def look(): pass\nlook()\n", ["kafkats.one.look"]),
        ("def look(): pass\n", "from kafkats.one import look\n__all__ = ['look']\n", ["kafkats.one.look"]),
        ("def look(): pass\n", "from kafkats import one\none.look()\n", []),
        ("def look(): pass\n", "from kafkats import one\nTABLE = [one]\nTABLE[0].look()\n", []),
        ("def look(): pass\n", "from kafkats import one\ndef f(one): one.look()\nf(1)\n", ["kafkats.one.look"]),
        ("class A:\n  def used(self): pass\n  def dead(self): pass\n", "from kafkats.one import A\nA().used()\n", ["kafkats.one.A.dead"]),
    ],
)  # fmt: skip
def test_what_counts_as_a_reference(tmp_path: Path, one: str, other: str, dead: list[str]) -> None:
    (tmp_path / "kafkats").mkdir()
    (tmp_path / "kafkats" / "__init__.py").touch()
    (tmp_path / "kafkats" / "one.py").write_text(one)
    (tmp_path / "kafkats" / "other.py").write_text(other)
    assert unreferenced(tmp_path) == dead
