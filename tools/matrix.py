"""kafkats from its wheel in environments with other versions of Airflow, Spark, pandas and Python: `scripts/matrix`.

An environment is a file of constraints/: what PyPI had on the day of an Airflow release. In each, all DAGs are parsed,
and a real Airflow serves their forms and the pages, submits a rebuild, is answered through its REST, and proves it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.browser.standalone import ROOT, Failed, Standalone
from tests.browser.volumes import CASES, DAMAGED, Volumes
from tests.golden import case
from tests.spark import QUICK_START
from tools.wheel import build, kernels_in, run

DAG_FILE: Final = "from kafkats_airflow.dags import kafkats_dags\nkafkats_dags()\n"
PARSE: Final = """
from airflow.utils.db import initdb
initdb()
import os
from importlib.metadata import version
from kafkats_airflow.airflow_versions import bag_of
from kafkats_airflow.dag_set import NAMES
folder = os.environ["AIRFLOW__CORE__DAGS_FOLDER"]
bag = bag_of(folder, folder)
assert not bag.import_errors, bag.import_errors
assert {*bag.dags} == {*NAMES}, {*bag.dags}
names = ("apache-airflow-providers-apache-spark", "apache-airflow-providers-standard", "pyspark", "pandas", "numpy", "pyarrow")
print(len(NAMES), "DAGs;", ", ".join(f"{name.removeprefix('apache-airflow-providers-')} {version(name)}" for name in names))
"""
VOLUMES: Final = "/kafkats/volumes"
DAG: Final = "rebuild_time_indexes"


class Environment(NamedTuple):
    """`constraints` is AIRFLOW-PYTHON, the name of a file of constraints/; `instead` replaces some of its lines."""

    constraints: str
    instead: tuple[str, ...] = ()

    @property
    def python(self) -> str:
        return self.constraints.rpartition("-")[2]

    def lines(self) -> str:
        """Return the text of the constraints file: for a package of `instead`, only the constraint there."""
        replaced = {one.partition("<")[0] for one in self.instead}
        text = (ROOT / "constraints" / f"{self.constraints}.txt").read_text()
        kept = [line for line in text.splitlines() if line.partition("==")[0] not in replaced]
        return "\n".join([*kept, *self.instead]) + "\n"


ENVIRONMENTS: Final = {
    "oldest": Environment("3.1.0-3.11"),
    "3.1": Environment("3.1.8-3.12"),
    "3.2": Environment("3.2.2-3.13"),
    "newest": Environment("3.3.2-3.11"),
    "newest-python": Environment("3.3.2-3.14"),
    "pandas-2": Environment("3.3.2-3.11", ("pandas<3",)),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/matrix")
    parser.add_argument("names", nargs="*", choices=[[], *ENVIRONMENTS], help="all by default")
    parser.add_argument("--parse", action="store_true", help="parse the DAGs, and start no Airflow")
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    given = parser.parse_args()
    place = Path(os.environ.get("KAFKATS_MATRIX") or tempfile.mkdtemp(prefix="kafkats-matrix-"))
    place.mkdir(parents=True, exist_ok=True)
    built = Path(tempfile.mkdtemp(prefix="wheel-", dir=place))
    kernels = Path("compiled") if given.parse else kernels_in(built / "kernels")
    wheel = build(ROOT, built, kernels)
    wrong = 0
    for name in given.names or ENVIRONMENTS:
        began = time.monotonic()
        try:
            for line in tried(name, place / name, wheel, parse=given.parse):
                print(f"{name}: {line}", flush=True)
        except (Failed, SystemExit, AssertionError) as e:
            print(f"{name}: FAILED: {e}", flush=True)
            wrong += 1
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
        if not given.keep:
            shutil.rmtree(place / name, ignore_errors=True)
    shutil.rmtree(built)
    return min(wrong, 1)


def tried(name: str, home: Path, wheel: Path, *, parse: bool) -> Iterator[str]:
    """Try kafkats in an environment, and yield a line per finding. Raises Failed, SystemExit, AssertionError."""
    environment = ENVIRONMENTS[name]
    python = installed(environment, home, wheel)
    (dags := home / "dags").mkdir(exist_ok=True)
    (dags / "kafkats.py").write_text(DAG_FILE)
    told = {"AIRFLOW__CORE__DAGS_FOLDER": str(dags), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    said = run(python, "-c", PARSE, AIRFLOW_HOME=str(home / "parsed"), **told)
    yield f"Airflow {environment.constraints.replace('-', ', Python ')}: {said}"
    if parse:
        return
    for old in ("airflow", "data"):
        shutil.rmtree(home / old, ignore_errors=True)
    volumes = Volumes(home / "data")
    more = told | volumes.environment | {"PYTHONPATH": "", "JDK_JAVA_OPTIONS": QUICK_START}
    more |= {"AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "no-plugins")}
    airflow = Standalone(home / "airflow", more, python=str(python))
    try:
        airflow.start()
        yield from forms(airflow)
        yield from a_rebuild(airflow, volumes)
    finally:
        airflow.stop()


def installed(environment: Environment, home: Path, wheel: Path) -> Path:
    """A virtual environment with kafkats[worker]; its Python."""
    home.mkdir(exist_ok=True)
    constraints = home / "constraints.txt"
    constraints.write_text(environment.lines())
    uv = Path(sys.executable).parent / "uv"
    python = home / "venv" / "bin" / "python"
    run(uv, "venv", "--quiet", "--allow-existing", "--python", environment.python, home / "venv")
    asked = f"kafkats[worker]=={wheel.name.split('-')[1]}"
    words = ("--quiet", "--python", python, "--constraint", constraints)
    words += ("--find-links", wheel.parent)
    run(uv, "pip", "install", "--reinstall-package", "kafkats", *words, asked)
    return python


def forms(airflow: Standalone) -> Iterator[str]:
    """The form of each DAG, and the page of log directories."""
    counts = {}
    for dag in sorted(airflow.dags()):
        params = airflow.params(dag)
        bad = [name for name, one in params.items() if not one["schema"].get("title")]
        assert params and not bad, f"{dag}: the form has no title for {bad}"
        counts[dag] = len(params)
    yield f"{len(counts)} forms with {sum(counts.values())} fields"
    listed = airflow.page(VOLUMES)
    assert "broker-rebuild" in listed, listed[:2000]
    yield f"the page {VOLUMES} lists the volumes"


def a_rebuild(airflow: Standalone, volumes: Volumes) -> Iterator[str]:
    """A run that asks, is answered, rebuilds and proves."""
    run_id = airflow.trigger(DAG, {"policy": str(volumes.policy("rebuild"))})
    asked = airflow.asked(DAG, run_id)
    yield f"{DAG} asks: {asked['subject']}"
    plan = airflow.page(f"/kafkats/plan?dag_id={DAG}&run_id={run_id.replace('+', '%2B')}")
    assert "Waits for a person" in plan, plan[:2000]
    airflow.answer(DAG, run_id, "Approve")
    state = airflow.wait(DAG, run_id)
    outcome = (airflow.result(DAG, run_id) or {}).get("outcome", "")
    assert state == "success" and outcome.startswith("rebuilt and proved"), (state, outcome)
    golden = case(CASES["rebuild"][0])
    for path in DAMAGED:
        assert (volumes.roots["rebuild"] / path).is_file(), path
    yield f"answered: {outcome}; {len(DAMAGED)} files of {golden.name} are back"


if __name__ == "__main__":
    sys.exit(main())
