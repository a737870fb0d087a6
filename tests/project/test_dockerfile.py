"""The image without Docker: what the Dockerfile copies, and no other file of ours, is built, installed and run.

The base image and the packages of requirements.lock are this machine's .venv, but not what is installed of kafkats there.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docker import copied, environment, instructions, sent, stages
from tests.golden import case

ROOT = Path(__file__).parents[2]
STAGES = stages(instructions((ROOT / "Dockerfile").read_text()))
DOCKERFILE = STAGES["full"]
DOCKERIGNORE = (ROOT / ".dockerignore").read_text()
INSTALL = next(words for name, words in DOCKERFILE if name == "RUN" and words.endswith(" ."))
"""The instruction that builds the wheel from the copied files and installs it."""

DAGS = """
import json, sys
from airflow.utils.db import initdb
initdb()
from airflow.dag_processing.dagbag import BundleDagBag
from airflow.configuration import conf
folder = conf.get("core", "dags_folder")
bag = BundleDagBag(dag_folder=folder, bundle_path=folder, bundle_name="dags-folder")
from kafkats_airflow.shipped import JOBS
print("FOUND", json.dumps({
    "dags": sorted(bag.dags), "errors": bag.import_errors, "jobs": sorted(path.stem for path in JOBS.glob("*.py")),
    "files": sorted({getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}),
}))
"""
SPARK = """
import importlib, json, sys
from kafkats_airflow.shipped import JOBS as jobs
from pyspark.sql import SparkSession
sys.path.insert(0, str(jobs))
modules = [importlib.import_module(path.stem) for path in sorted(jobs.glob("*.py"))]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.read.format("kafkats").load(sys.argv[1])
on_worker = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark_kafkats").__file__)
print("FOUND", json.dumps({
    "records": rows.count(), "jobs": [module.__name__ for module in modules], "worker": on_worker.first(),
    "files": sorted({getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}),
}))
spark.stop()
"""


class Image(NamedTuple):
    folder: Path
    """What is / in the image."""
    home: Path
    """/opt/kafkats."""
    environment: dict[str, str]

    def run(self, *command: str) -> str:
        """What the command prints, run in the image's environment and an empty folder."""
        here = self.folder / "empty"
        here.mkdir(exist_ok=True)
        ran = subprocess.run(
            command, cwd=here, env=self.environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def found(self, program: str, *words: str) -> dict:
        """What the Python program says it found; it must have loaded nothing of ours from outside of the image."""
        said = self.run("python", "-c", program, *words)
        result = json.loads(re.findall(r"^FOUND (.*)$", said, re.MULTILINE)[-1])
        strays = [
            file
            for file in result["files"]
            if file.startswith(f"{ROOT}/") and "/.venv/" not in file
        ]
        assert not strays, "imported from the clone, not from the image"
        return result


def packages(home: Path) -> None:
    """`.venv` as after the sync with the lock: a new environment that sees this one's packages, though not its .pth files."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / ".venv")], check=True)
    site = (
        home
        / ".venv"
        / "lib"
        / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        / "site-packages"
    )
    (site / "lock.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    for name in ("uv", "airflow", "spark-submit", "find-spark-home"):
        (home / ".venv" / "bin" / name).symlink_to(Path(sys.executable).parent / name)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("image")
    assert list(copied(DOCKERFILE, ROOT, folder))
    home = folder / "opt" / "kafkats"
    packages(home)
    keep = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    keep |= {
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "AIRFLOW_HOME": str(folder / "airflow"),
    }
    if java := shutil.which("java"):
        keep["PATH"] = f"{Path(java).parent}:{keep['PATH']}"
    built = subprocess.run(
        ["sh", "-euc", INSTALL], cwd=home, env=keep, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return Image(folder, home, environment(DOCKERFILE, folder, keep))


@pytest.mark.slow(4)
def test_the_dags_are_read_from_the_copied_files(image: Image) -> None:
    found = image.found(DAGS)
    assert found["errors"] == {}
    assert found["dags"] == sorted(
        path.stem for path in (ROOT / "plugins/kafkats_airflow/dags").glob("[!_]*.py")
    )
    assert found["jobs"] == sorted(path.stem for path in (ROOT / "spark_jobs").glob("*.py"))


@pytest.mark.slow(19)
def test_spark_reads_the_format_and_every_job_can_be_imported(image: Image, tmp_path: Path) -> None:
    golden = case("matrix-4.3.1-v2")
    golden.unpack("data", tmp_path)
    one = tmp_path / "none-ct-0"
    found = image.found(SPARK, str(one))
    assert found["records"] == sum(record["tp"] == one.name for record in golden.records()) > 0
    assert found["jobs"] == sorted(path.stem for path in (ROOT / "spark_jobs").glob("*.py"))
    assert Path(found["worker"]).is_relative_to(image.home / ".venv")


def test_the_command_is_installed(image: Image) -> None:
    assert "kafkats" in image.run("kafkats", "--version")


def packed_as(path: str) -> str:
    """Where a wheel has a file of the clone."""
    if path.startswith("docs/"):
        return f"kafkats/{path}"
    if path.startswith(("dags/", "spark_jobs/", "deploy/")):
        return f"kafkats_airflow/files/{path}"
    return path.removeprefix("plugins/")


def test_the_wheel_has_every_file_of_the_packages(image: Image, tmp_path: Path) -> None:
    first, again = (wheel(image.home, tmp_path / name) for name in ("first", "again"))
    inside = {name for name in zipfile.ZipFile(first).namelist() if ".dist-info/" not in name}
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "kafkats",
            "pyspark_kafkats",
            "plugins/kafkats_airflow",
            "dags",
            "spark_jobs",
            "deploy/kubernetes/job.yaml",
            ":(glob)docs/*.md",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git clone")
    packed = {packed_as(path) for path in listed.stdout.split()}
    assert inside == packed
    assert first.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("package", ["kafkats", "pyspark_kafkats"])
def test_no_wheel_without_a_package(package: str, tmp_path: Path) -> None:
    for path in copied(DOCKERFILE, ROOT, tmp_path):
        assert path.is_file()
    home = tmp_path / "opt" / "kafkats"
    shutil.rmtree(home / package)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        wheel(home, tmp_path / "dist")
    assert f"lacks {package}: " in failed.value.stderr
    assert not list(tmp_path.rglob("*.whl"))


def wheel(folder: Path, to: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(to),
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    (found,) = to.glob("*.whl")
    return found


def test_compose_builds_the_last_image() -> None:
    """`docker compose build` names no target: it makes the last one."""
    assert [*STAGES] == ["slim", "full"]


def test_the_slim_image_has_no_base_and_runs_nothing_to_be_built() -> None:
    first, *rest = STAGES["slim"]
    assert first == ("FROM", "scratch AS slim")
    assert [one.name for one in rest] == ["ARG", "ADD", "ENTRYPOINT", "CMD"]


@pytest.mark.parametrize(
    ("path", "is_sent"),
    [
        ("kafkats/cli/command.py", True),
        ("plugins/.airflowignore", True),
        ("hatch_build.py", True),
        ("build/image/kafkats-0.2.0-x86_64.tar.xz", True),
        ("build/kafkats-0.2.0-x86_64.tar.xz", False),
        (".env", False),
        (".venv/bin/python", False),
        (".git/config", False),
        (".airflow/airflow.cfg", False),
        ("build/try/kafka/meta.properties", False),
        ("conftest.py", False),
        ("kafkats/__pycache__/plan.cpython-311.pyc", False),
        ("dags/old.pyc", False),
    ],
)
def test_what_is_sent_to_the_build(path: str, is_sent: bool) -> None:
    assert sent(DOCKERIGNORE, path) is is_sent


def test_a_copy_of_what_is_not_sent_fails(tmp_path: Path) -> None:
    (tmp_path / ".dockerignore").write_text("*\n!a\n")
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    given = instructions("FROM x\nWORKDIR /opt\nCOPY a b ./\n")
    with pytest.raises(FileNotFoundError, match="no b in the build context"):
        list(copied(given, tmp_path, tmp_path / "image"))
    assert (tmp_path / "image" / "opt" / "a").read_text() == "a"
