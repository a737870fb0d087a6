"""A module's tests lie where the module lies: kafkats/retention/plan.py is tested by tests/retention/test_plan*.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
TESTED: Final = {
    "conformance": ("conformance",),
    "dags": (
        "dags",
        *(
            f"plugins/kafkats_airflow{part}"
            for part in (
                "",
                "/approvals",
                "/dags",
                "/forms",
                "/jobs",
                "/reports",
                "/runs",
                "/tasks",
            )
        ),
    ),
    "model/project": ("model", ".", "model/tests/project"),
    "project": (".", "tests/project"),
    "pyspark_kafkats": ("pyspark_kafkats",),
    "spark_jobs": ("spark_jobs",),
    "tools": ("tools",),
    "tools/kube": ("tools/kube",),
    "ui": tuple(
        f"plugins/kafkats_airflow/{part}" for part in ("reading", "ui", "ui/reading", "ui/routes")
    ),
}
"""Folder of tests -> the folders with what it tests. Any other `X` tests `kafkats/X`, or what tests
share in `tests/X`. `model/X` stands for the folder `model/tests/X`, which tests `model/kafkats_model/X`.
"""
EXCEPTIONS: Final = {
    "browser/test_airflow.py": "all DAGs, in a whole Airflow",
    "browser/test_hosts.py": "work on a host that a person ends, in a whole Airflow",
    "dags/test_names.py": "all DAGs, against tests/compat/names.json",
    "dags/test_policy.py": "what every DAG keeps to",
    "dags/test_deploy.py": "the files of deploy/, against the metrics of the plugin",
    "project/test_composition.py": "what commands and jobs have in common",
    "project/test_layout.py": "this file",
    "ui/test_addresses.py": "all pages, behind a path",
    "ui/test_hostile.py": "all pages, with hostile folders",
    "ui/test_week.py": "several pages and the metrics, after each run of a week",
}
SHARED_BY_TESTS: Final = {
    "dags/test_migrate_message_format_tries.py": "the pretended jobs of that DAG's tests",
    "retention/test_columns.py": "the rule by columns is held to the table of the rule by rows",
}
"""Tests that import from another test's module. What others need is in tests/builders or a module beside the tests."""


def names(folder: Path) -> set[str]:
    """What a test in the mirror of `folder` may be named after: its modules, itself, and any file or folder of the project's
    top.
    """
    found = {path.stem.lower().replace("-", "_") for path in folder.iterdir()}
    return (found if folder == ROOT else found - {"__init__", "conftest"}) | {folder.name}


def places(test: str) -> list[Path]:
    """The folders with what `test`, a path in tests/ (in model/tests/: model/...), may test."""
    folder = str(Path(test).parent)
    product = (
        f"model/kafkats_model/{folder.removeprefix('model').lstrip('/')}"
        if folder.startswith("model")
        else f"kafkats/{folder}"
    )
    listed = TESTED.get(folder, (product, str(path_of(folder))))
    return [path for path in (ROOT / name for name in listed) if path.is_dir()]


def is_mirrored(test: str) -> bool:
    """Whether `test` is named after a module there: `test_plan.py` and `test_plan_judged.py` after plan."""
    subject = Path(test).stem.removeprefix("test_")
    return any(
        subject == name or subject.startswith(f"{name}_")
        for place in places(test)
        for name in names(place)
        if not name.startswith("test_")
    )


def path_of(test: str) -> Path:
    """Return the path of a file or folder of tests."""
    of_model = test.split("/")[0] == "model"
    return (
        ROOT / "model/tests" / test.removeprefix("model").lstrip("/")
        if of_model
        else ROOT / "tests" / test
    )


def every_test() -> list[str]:
    found = [str(path.relative_to(ROOT / "tests")) for path in (ROOT / "tests").rglob("test_*.py")]
    of_model = ROOT / "model" / "tests"
    return found + [f"model/{path.relative_to(of_model)}" for path in of_model.rglob("test_*.py")]


def test_every_test_lies_where_its_module_lies() -> None:
    strays = sorted(
        test for test in every_test() if not is_mirrored(test) and test not in EXCEPTIONS
    )
    assert not strays, "no module of this name there: rename the test after one, or move it"


def test_exceptions_are_few_and_needed() -> None:
    everything = every_test()
    assert set(EXCEPTIONS) <= set(everything)
    assert not [test for test in EXCEPTIONS if is_mirrored(test)]
    assert len(EXCEPTIONS) <= 0.05 * len(everything)


def test_what_tests_share_lies_in_no_test() -> None:
    of_a_test = re.compile(r"^(from|import) (model\.)?tests\.(\w+\.)*test_", re.MULTILINE)
    found = {test for test in every_test() if of_a_test.search(path_of(test).read_text())}
    assert found == set(SHARED_BY_TESTS)


@pytest.mark.parametrize(
    ("test", "mirrored"),
    [
        ("retention/test_plan.py", True),
        ("retention/test_plan_whatever.py", True),
        ("retention/test_planning.py", False),
        ("test_plan.py", False),
        ("test_errors.py", True),
        ("operations/test_plan.py", False),
        ("dags/test_settings.py", True),
        ("project/test_docs_sessions.py", True),
        ("project/test_plan.py", False),
        ("model/broker/test_producers.py", True),
        ("model/broker/test_columns.py", False),
        ("model/test_layouts.py", True),
    ],
)
def test_what_counts_as_mirrored(test: str, mirrored: bool) -> None:
    assert is_mirrored(test) is mirrored
