"""The wheels in empty environments: `kafkats` verifies, `kafkats[spark]` reads segments and runs a job, `kafkats[airflow]` reads the DAGs.

`kafkats` alone knows no command and no dialect of kafkats-model; with the second wheel it plays a script, reads its logs,
and undoes a migration to a dialect after the second wheel is gone.

The versions of other packages are those of requirements.lock.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
GOLDEN: Final = ROOT / "tests" / "real-logs" / "matrix-4.3.1-v2" / "data.tar.xz"
COUNT: Final = """
import sys
from kafkats_airflow import shipped
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.read.format("kafkats").load(sys.argv[1]).count()
spark.stop()
assert rows, "no records"
print(rows, "records;", shipped.JOBS)
"""
DAG_FILE: Final = """
from kafkats_airflow.dags import kafkats_dags
kafkats_dags()
kafkats_dags("rebuild_time_indexes", prefix="west_", params={"policy": "/etc/kafkats/west.yaml"})
"""
"""Of somebody who has an Airflow: one set of DAGs, and one DAG for another policy."""
BUNDLES: Final = """[
    {"name": "dags-folder", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}},
    {"name": "kafkats", "classpath": "kafkats_airflow.bundle.KafkatsDagBundle", "kwargs": {}}
]"""
DAGS: Final = """
from airflow.utils.db import initdb
initdb()
from airflow.dag_processing.bundles.manager import DagBundlesManager
from airflow.dag_processing.dagbag import BundleDagBag
from airflow import plugins_manager
from airflow.providers_manager import ProvidersManager
from importlib.util import find_spec

found = {}
for bundle in DagBundlesManager().get_all_dag_bundles():
    bag = BundleDagBag(dag_folder=bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
    assert not bag.import_errors, bag.import_errors
    found[bundle.name] = {*bag.dags}
assert found["dags-folder"] == found["kafkats"] | {"west_rebuild_time_indexes"}, found
plugins, errors = plugins_manager._get_plugins()
assert not errors and [one.name for one in plugins].count("kafkats") == 1, errors
assert "kafkats" in ProvidersManager().providers
assert not (there := [name for name in ("numba", "pandas", "pyspark") if find_spec(name)]), there
print(len(found["kafkats"]), "DAGs, and the plugin, without Spark, pandas and numba")
"""


SCRIPT: Final = """\
{"do": "broker", "broker": "1", "kafka": "0.10.2"}
{"do": "create", "broker": "1", "partition": "t-0"}
{"do": "produce", "broker": "1", "partition": "t-0", "version": 2, "records": [{"timestamp": "2024-01-01T00:00:00Z", "key": "a", "value": "b"}]}
"""


def run(*words: object, cwd: Path = Path("/"), code: int = 0, **environment: str) -> str:
    """The last line that a command prints. Ends with its errors when it does not exit with `code`."""
    ours = ("AIRFLOW_", "KAFKATS_", "VIRTUAL_ENV", "PYTHONPATH")
    keep = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    command = [str(word) for word in words]
    ended = subprocess.run(
        command, env=keep | environment, cwd=cwd, capture_output=True, text=True, check=False
    )
    if ended.returncode != code:
        sys.exit(
            f"scripts/wheel: FAILED: {' '.join(command[:4])}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
        )
    printed = (ended.stdout if code == 0 else ended.stderr).strip()
    return printed.splitlines()[-1] if printed else ""


def pins(lock: str) -> str:
    """The lock without its hashes: a constraints file for an installation of a few of its packages."""
    return "\n".join(re.findall(r"^(\S+==[^\\\n]*?) *\\?$", lock, re.MULTILINE)) + "\n"


def kernels_in(folder: Path) -> Path:
    """Compile the library of kernels into a folder; its path."""
    return Path(run(sys.executable, "-m", "tools.kernels_library", folder, cwd=ROOT))


def build(source: Path, folder: Path, kernels: Path) -> Path:
    """The wheel of one distribution, from the files of this clone, with the library of kernels: nothing is compiled later."""
    words = ["-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    run(sys.executable, *words, cwd=source, KAFKATS_KERNELS=str(kernels))
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, extra: str, home: Path, constraints: Path) -> Path:
    """A new environment with the wheel in it; its folder of programs."""
    uv = Path(sys.executable).parent / "uv"
    run(sys.executable, "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    run(
        uv,
        "pip",
        "install",
        "--quiet",
        "--python",
        python,
        "--constraint",
        constraints,
        f"kafkats{extra} @ {wheel.as_uri()}",
    )
    return home / "bin"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="kafkats-wheel-") as name:
        folder = Path(name)
        logs = folder / "logs"
        with tarfile.open(GOLDEN) as golden:
            golden.extractall(logs, filter="data")
        constraints = folder / "constraints.txt"
        constraints.write_text(pins((ROOT / "requirements.lock").read_text()))
        kernels = kernels_in(folder)
        wheel, model = (
            build(ROOT / name, folder / f"dist{name}", kernels) for name in ("", "model")
        )
        with ThreadPoolExecutor(2) as pool:
            tried = partial(try_out, wheel, folder=folder, logs=logs, constraints=constraints)
            beside = pool.submit(
                try_model, wheel, model, folder=folder, logs=logs, constraints=constraints
            )
            for result in pool.map(tried, ("[airflow]", "[spark]", "")):
                print(result, flush=True)
            print(beside.result(), flush=True)


def try_out(wheel: Path, extra: str, *, folder: Path, logs: Path, constraints: Path) -> str:
    """Install the wheel with `extra` into an environment of its own, and run what that is for."""
    began = time.monotonic()
    bin_ = install(wheel, extra, folder / f"with{extra.strip('[]') or '-nothing'}", constraints)
    results = [run(bin_ / "kafkats", "verify", "--deep", logs)]
    assert run(bin_ / "kafkats", "help", "tutorial"), "the wheel has no pages"
    if extra == "[spark]":
        python = {"PYSPARK_PYTHON": str(bin_ / "python")}
        said, _, jobs = run(bin_ / "python", "-c", COUNT, logs, **python).partition("; ")
        results.append(said)
        submit = (bin_ / "spark-submit", "--master", "local[1]", f"{jobs}/verify.py", logs)
        run(*submit, **python)
    if extra == "[airflow]":
        (dags := folder / "airflow" / "dags").mkdir(parents=True)
        (dags / "ours.py").write_text(DAG_FILE)
        told = {"AIRFLOW_HOME": str(dags.parent), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
        told["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"] = BUNDLES
        results.append(run(bin_ / "python", "-c", DAGS, **told))
    return f"kafkats{extra}: {'; '.join(results)} ({time.monotonic() - began:.0f} s)"


def try_model(wheel: Path, model: Path, *, folder: Path, logs: Path, constraints: Path) -> str:
    """Install both wheels, use the second, and uninstall it: what it wrote can be undone."""
    began = time.monotonic()
    bin_ = install(wheel, "", folder / "with-model", constraints)
    kafkats, uv = bin_ / "kafkats", Path(sys.executable).parent / "uv"
    script, out, plan = folder / "script.jsonl", folder / "replayed", folder / "to-enriched"
    script.write_text(SCRIPT)
    refused = run(kafkats, "replay", script, "-o", out, code=2)
    assert "replay is a command of kafkats-model" in refused, refused
    python = ("--python", bin_ / "python")
    run(uv, "pip", "install", "--quiet", *python, "--constraint", constraints, model)
    root, log = out / "broker-1", out / "broker-1/t-0" / f"{0:020}.log"
    results = [run(kafkats, "replay", script, "-o", out), run(kafkats, "layouts", logs)]
    before = log.read_bytes()
    run(
        kafkats,
        "plan",
        "migrate",
        root,
        "--to",
        "enriched",
        "--not-for-a-broker",
        "--accept-loss",
        "timestamps",
        "-o",
        plan,
    )
    run(kafkats, "apply", plan, "--digest", "any")
    assert '"type": "normal"' in run(kafkats, "dump", "--dialect", "enriched", log)
    run(uv, "pip", "uninstall", "--quiet", *python, "kafkats-model")
    refused = run(kafkats, "dump", "--dialect", "enriched", log, code=2)
    assert "install kafkats-model" in refused, refused
    assert "has logs of the dialect enriched" in run(kafkats, "verify", root, code=3)
    run(kafkats, "undo", f"{plan}.run")
    assert log.read_bytes() == before
    return f"kafkats with kafkats-model: {'; '.join(results)} ({time.monotonic() - began:.0f} s)"


if __name__ == "__main__":
    main()
