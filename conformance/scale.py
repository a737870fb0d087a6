"""Two Spark workers that see different volumes, against what Kafka had written.

    scripts/conformance scale           every operation, the faults, and one DAG
    scripts/conformance scale --full    all DAGs

Two brokers' log directories have lost their time indexes. The driver sees both. At the path of the other's volume each worker
sees a copy with another identity, which nobody may open. Needs root, for namespaces.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psutil
import pyarrow as pa
import yaml

from conformance.soak import settings
from conformance.soaked import until
from conformance.tally import Tally
from kafkats.plans.parts import PlanInParts, open_plan
from kafkats.plans.plan import ITEMS
from kafkats.plans.run import read_run
from tests.golden import Case, case
from tools.spark_cluster import ROOT, SparkCluster, Worker, environment

CASES: Final = {"a": "matrix-4.3.1-v2", "b": "matrix-3.9.1-v2"}
COPIES: Final = 20
"""How often a volume has each of its partitions: so many that a fault meets an apply at work."""
SAME: Final = "a job on workers with different volumes tells what the command tells"
WRITTEN: Final = "every file is as Kafka had written it"
KEPT: Final = "nothing was changed on another volume"
ENDED: Final = "the job ends as documented"
BACK: Final = "undo restores the files as they were"
_RESULT: Final = re.compile(r"^KAFKATS_RESULT (.*)$", re.MULTILINE)
_OWN: Final = ("ui", "rates", "seconds", "report", "plan", "run")
"""Fields of a result that differ from run to run."""
_FAULT_S: Final = 300


class Site:
    """Two volumes, as the driver sees them, and the copies of them that the wrong worker sees."""

    def __init__(self, work: Path, copies: int) -> None:
        self.work = work
        self.roots = {name: work / "kafka" / name / "data" for name in CASES}
        self.expected: dict[str, dict[str, str]] = {}
        self.removed = 0
        for name, root in self.roots.items():
            root.mkdir(parents=True)
            case(CASES[name]).unpack("data", root)
            (root / ".lock").touch()
            self.expected[name] = multiply(root, case(CASES[name]), copies)
            self.removed += _damage(root)
            shutil.copytree(root.parent, self.other(name))
            meta = self.other(name) / "data" / "meta.properties"
            meta.write_text(re.sub(r"(?m)^cluster\.id=.*$", "cluster.id=another", meta.read_text()))
        self.damaged = {name: files(root) for name, root in self.roots.items()}
        self._others = {name: files(self.other(name)) for name in CASES}

    def other(self, name: str) -> Path:
        return self.work / "elsewhere" / name

    def words(self) -> list[Path]:
        return list(self.roots.values())

    def start(self, cluster: SparkCluster, name: str, *, also: str = "", **more: Any) -> Worker:
        """Start the host of a volume; `also` is another one that it sees."""
        mounts = [
            (self.other(one), self.roots[one].parent) for one in CASES if one not in (name, also)
        ]
        return cluster.start(f"host-{name}", *mounts, **more)

    def compare(self, case: str, tally: Tally) -> None:
        """Compare both volumes with Kafka's own files, and the others with what they were."""
        for name, root in self.roots.items():
            version = CASES[name].split("-")[1]
            found = {k: v for k, v in files(root).items() if k != ".lock"}
            tally.same(WRITTEN, version, case, name, _wrong(found, self.expected[name]), [])
            tally.same(
                KEPT, version, case, name, _wrong(files(self.other(name)), self._others[name]), []
            )

    def compare_damaged(self, case: str, tally: Tally) -> None:
        """Compare both volumes with what they were before."""
        for name, root in self.roots.items():
            version = CASES[name].split("-")[1]
            tally.same(BACK, version, case, name, _wrong(files(root), self.damaged[name]), [])

    def began(self, name: str) -> bool:
        """Return whether an apply has begun to change partitions of a volume."""
        area = self.roots[name].parent / ".kafkats" / "data"
        return len(list(area.glob("*/runs/*/journal*"))) > 5


def multiply(root: Path, one: Case, copies: int) -> dict[str, str]:
    """Copy each partition under other numbers. Return the sha256 of each file."""
    recorded = {k: sha for k, (_, _, sha) in one.files("data").items() if sha and k != ".lock"}
    found = dict(recorded)
    for path, sha in recorded.items():
        partition, _, file = path.rpartition("/")
        if not partition or partition.startswith("__"):
            continue
        for number in range(1, copies):
            name = f"{partition.rpartition('-')[0]}-{number}"
            (root / name).mkdir(exist_ok=True)
            shutil.copy2(root / path, root / name / file)
            found[f"{name}/{file}"] = sha
    return found


def _damage(root: Path) -> int:
    """Remove the time index of each segment but the last of a partition. Return how many."""
    removed = 0
    for partition in sorted(root.iterdir()):
        for path in sorted(partition.glob("*.timeindex"))[:-1] if partition.is_dir() else ():
            path.unlink()
            removed += 1
    return removed


def files(root: Path) -> dict[str, str]:
    """Return the sha256 of each file below a folder."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def _wrong(found: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    """Return the first files that differ, are missing, or were not there."""
    return sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))[:5]


def conform(tally: Tally, work: Path) -> None:
    if os.getuid():
        tally.differs("scale: makes hosts in namespaces: run it as root")
        return
    for step in STEPS:
        began = time.monotonic()
        at = work / step.__name__
        step(at, tally)
        shutil.rmtree(at, ignore_errors=True)
        tally.console.print(f"  {step.__name__.strip('_')}: {time.monotonic() - began:.0f} s")


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the result line of a job. Raises RuntimeError if there is none."""
    if (found := _RESULT.search(done.stdout)) is None:
        raise RuntimeError(f"no result:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return dict(json.loads(found[1]))


def command(*words: object) -> dict[str, Any]:
    """Run a command on this machine alone, and return its summary."""
    done = subprocess.run(
        [sys.executable, "-m", "kafkats", *map(str, words), "--json"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return dict(json.loads(done.stdout.splitlines()[-1])["summary"])


READING: Final = (
    ("inventory",),
    ("census",),
    ("verify",),
    ("lookup", "--at", "latest"),
    ("preflight", "--kafka", "4.3"),
)
PLANNED: Final[dict[str, tuple[str, ...]]] = {
    "rebuild": (),
    "recover": (),
    "roll": ("--now", "2030-01-01T00:00:00Z"),
    "retain": ("--now", "2030-01-01T00:00:00Z", "--config", "retention.ms=1"),
}


def together(
    cluster: SparkCluster, *commands: Sequence[object], part: int | None = None
) -> list[dict[str, Any]]:
    """Return the result of each command, as a job of one application on the cluster. Its plans are in parts of `part` segments."""
    given = "--conf spark.executor.memory=512m --conf spark.ui.enabled=false pyspark-shell"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "conformance.scale_jobs",
            cluster.url,
            *([str(part)] if part else []),
        ],
        input=json.dumps([list(map(str, words)) for words in commands]),
        cwd=ROOT,
        env={**environment(), "PYSPARK_SUBMIT_ARGS": given},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _operations(work: Path, tally: Tally) -> None:
    """Everything that reads or plans, then apply, proof, undo, apply again, purge."""
    site = Site(work, 4)
    with SparkCluster(work / "spark") as cluster:
        for name in CASES:
            site.start(cluster, name)
        reading = [(verb, *site.words(), *words) for verb, *words in READING]
        planning = [
            ("plan", operation, *site.words(), *words, "-o", work / operation)
            for operation, words in PLANNED.items()
        ]
        for words, ours in zip(
            [*reading, *planning], together(cluster, *reading, *planning), strict=True
        ):
            theirs = command(
                *(f"{w}-too" if w == words[-1] and "-o" in words else w for w in words)
            )
            both = ({*ours} & {*theirs}) - {*_OWN}
            case = " ".join(map(str, words[:2] if "-o" in words else words[:1]))
            for field in sorted(both):
                tally.same(SAME, "-", case, f"{case}: {field}", ours[field], theirs[field])
        plan, run, second = work / "rebuild", work / "rebuild.run", work / "again.run"
        digest = json.loads((plan / "plan.json").read_text())["digest"]
        _end(cluster, tally, ("apply", plan, "--digest", digest, "--run", run))
        site.compare("apply", tally)
        _end(cluster, tally, ("verify", *site.words(), "--of-run", run), ("undo", run))
        site.compare_damaged("undo", tally)
        again = work / "again"
        _end(
            cluster,
            tally,
            ("plan", "rebuild", *site.words(), "-o", again),
            ("apply", again, "--digest", "any", "--run", second),
            ("purge", second),
        )
        site.compare("purge", tally)


PART: Final = 30
"""Segments of a part of a plan: a volume has several such parts."""


def _in_parts(work: Path, tally: Tally) -> None:
    """A plan in parts: apply, proof, undo. Its rows are those of the same plan in one table."""
    site = Site(work, 4)
    with SparkCluster(work / "spark") as cluster:
        for name in CASES:
            site.start(cluster, name)
        plan, whole, run = work / "plan", work / "whole", work / "run"
        planning = [("plan", "rebuild", *site.words(), "-o", folder) for folder in (plan, whole)]
        [planned] = together(cluster, planning[0], part=PART)
        command(*planning[1])
        parts = open_plan(plan)
        assert isinstance(parts, PlanInParts)
        several = len({part.log_dir for part in parts.parts}) == 2 and len(parts.parts) > 4
        tally.same(ENDED, "-", "in parts", f"{len(parts.parts)} parts", several, True)
        rows = [pa.concat_tables(open_plan(one).tables(ITEMS.names)) for one in (plan, whole)]
        tally.same(SAME, "-", "in parts", "rows of the plan", rows[0].equals(rows[1]), True)
        apply = ("apply", plan, "--digest", planned["digest"], "--run", run)
        _end(cluster, tally, apply, part=PART)
        site.compare("in parts", tally)
        proof = ("verify", *site.words(), "--of-run", run)
        _end(cluster, tally, proof, ("undo", run), part=PART)
        site.compare_damaged("in parts", tally)


def _end(
    cluster: SparkCluster, tally: Tally, *commands: Sequence[object], part: int | None = None
) -> None:
    """Run jobs of one application, and compare that all end well."""
    for words, told in zip(commands, together(cluster, *commands, part=part), strict=True):
        case = str(words[0])
        tally.same(ENDED, "-", case, f"{case}: {told}", told["exit_code"], 0)


def _plan(cluster: SparkCluster, site: Site, folder: Path, *names: str) -> tuple[object, ...]:
    """Plan a rebuild of these volumes, or of both. Return the words of its apply."""
    roots = [site.roots[name] for name in names or CASES]
    [told] = together(cluster, ("plan", "rebuild", *roots, "-o", folder))
    return folder, "--digest", told["digest"]


def _ends(
    cluster: SparkCluster, tally: Tally, code: int, job: str, *words: object, **more: Any
) -> dict[str, Any]:
    """Submit a job, compare how it ends, and return its result."""
    done = cluster.submit(job, *words, **more)
    told = result(done)
    tally.same(ENDED, "-", job, f"{job}: {told.get('error', told)}", done.returncode, code)
    return told


def _no_worker(work: Path, tally: Tally) -> None:
    """No worker sees volume b: exit code 3 with path, hosts and both identities."""
    site = Site(work, 1)
    with SparkCluster(work / "spark") as cluster:
        for _ in CASES:
            site.start(cluster, "a")
        told = _ends(cluster, tally, 3, "plan", "rebuild", *site.words(), "-o", work / "plan")
        meta = (site.roots["b"] / "meta.properties").read_text()
        listed = re.search(r"(?m)^cluster\.id=(.*)$", meta)
        assert listed is not None
        words = (f"{site.roots['b']}: ", "host host-a", "cluster another", f"cluster {listed[1]}")
        for word in words:
            tally.same(ENDED, "-", "no worker", word, word in told.get("error", ""), True)
        tally.same(ENDED, "-", "no worker", "plan", (work / "plan" / "plan.json").exists(), False)
        tally.same(
            KEPT, "-", "no worker", "both",
            [_wrong(files(root), site.damaged[name]) for name, root in site.roots.items()], [[], []],
        )  # fmt: skip


def _killed_worker(work: Path, tally: Tally) -> None:
    """Kill a host in mid-apply: its volume is out of reach, exit code 3. A later repeat finishes."""
    site = Site(work, COPIES)
    with SparkCluster(work / "spark") as cluster:
        one = site.start(cluster, "a")
        site.start(cluster, "b")
        plan = _plan(cluster, site, work / "plan")
        job = cluster.begin(work / "apply.log", "apply", *plan, "--run", work / "run")
        until(
            lambda: site.began("a") or job.poll() is not None,
            _FAULT_S,
            "no apply of volume a",
            pause=0.02,
        )
        one.kill()
        code = job.wait(_FAULT_S)
        told = (work / "apply.log").read_text(errors="replace")
        tally.same(ENDED, "-", "killed worker", told[-1500:], code, 3)
        tally.same(ENDED, "-", "killed worker", "host", "host host-b" in told, True)
        site.start(cluster, "a")
        _end(cluster, tally, ("apply", *plan, "--run", work / "run"))
        site.compare("killed worker", tally)


def _killed_driver(work: Path, tally: Tally) -> None:
    """Kill the driver in mid-apply: a repeat finishes."""
    site = Site(work, COPIES)
    with SparkCluster(work / "spark") as cluster:
        for name in CASES:
            site.start(cluster, name)
        plan = _plan(cluster, site, work / "plan")
        job = cluster.begin(work / "apply.log", "apply", *plan, "--run", work / "run")
        until(lambda: site.began("a") or site.began("b"), _FAULT_S, "no apply", pause=0.02)
        for one in [*psutil.Process(job.pid).children(recursive=True), job]:
            one.kill()
        job.wait()
        _end(cluster, tally, ("apply", *plan, "--run", work / "run"))
        site.compare("killed driver", tally)


SPECULATES: Final = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "100ms",
}


def _twice(work: Path, tally: Tally) -> None:
    """Both workers see both volumes, and one stands still: Spark starts its tasks twice. Later the slow ones go on."""
    site = Site(work, COPIES)
    with SparkCluster(work / "spark") as cluster:
        slow = site.start(cluster, "a", also="b")
        site.start(cluster, "b", also="a")
        plan = _plan(cluster, site, work / "plan")
        log = work / "apply.log"
        job = cluster.begin(log, "apply", *plan, "--run", work / "run", conf=SPECULATES)
        until(lambda: site.began("a") or job.poll() is not None, _FAULT_S, "no apply", pause=0.02)
        slow.pause()
        time.sleep(15)
        slow.resume()
        code = job.wait(_FAULT_S)
        told = log.read_text(errors="replace")
        tally.same(ENDED, "-", "speculation", told[-1500:], code, 0)
        site.compare("speculation", tally)
        _end(cluster, tally, ("undo", work / "run"))
        site.compare_damaged("speculation", tally)


def _version(work: Path, tally: Tally) -> None:
    """A worker has another kafkats: exit code 2 with both versions. Nothing is written."""
    site = Site(work, 1)
    other = work / "other"
    for name in ("kafkats", "pyspark_kafkats"):
        shutil.copytree(ROOT / name, other / name, ignore=shutil.ignore_patterns("__pycache__"))
    module = other / "kafkats" / "__init__.py"
    module.write_text(re.sub(r'__version__ = ".*"', '__version__ = "0.0.1"', module.read_text()))
    (other / "pyspark_kafkats" / "execution.py").write_text(
        ""
    )  # as one that has none of its functions
    with SparkCluster(work / "spark") as cluster:
        site.start(cluster, "a")
        plan = _plan(cluster, site, work / "plan", "a")
        cluster.workers[0].kill()
        site.start(cluster, "a", environment={"PYTHONPATH": str(other)})
        told = _ends(cluster, tally, 2, "apply", *plan, "--run", work / "run")
        for word in ("host host-a", "kafkats 0.0.1", "the driver has"):
            tally.same(
                ENDED, "-", "version", told.get("error"), word in told.get("error", ""), True
            )
        tally.same(KEPT, "-", "version", "a", _wrong(files(site.roots["a"]), site.damaged["a"]), [])


DAGS: Final[dict[str, dict[str, Any]]] = {
    "rebuild_time_indexes": {"need_approval": False},
    "recover_log_dirs": {"need_approval": False},
    "apply_retention": {"dry_run": True},
    "roll_segments": {"dry_run": True},
    "migrate_message_format": {"phase": "census"},
    "build_lookup_tables": {"from": "2024-01-01T00:00:00Z", "to": "2024-01-01T01:00:00Z"},
    "export_offsets": {"time": "2024-01-01T00:00:00Z", "format": "json", "missing": "all"},
    "clean_reports": {"dry_run": True},
}
"""The DAGs and their params, in the order in which they run; `end_run` undoes the first one at last."""


def _dags(work: Path, tally: Tally) -> None:
    """DAG runs on the cluster end well; the rebuild mends both volumes, and end_run undoes it."""
    site = Site(work, 1)
    policy, reports = work / "policy.yaml", work / "reports"
    volumes = [
        {"broker": name, "path": str(root), "owner_stopped": True}
        for name, root in site.roots.items()
    ]
    policy.write_text(yaml.safe_dump({"volumes": volumes}))
    with SparkCluster(work / "spark") as cluster:
        for name in CASES:
            site.start(cluster, name)
        airflow = _airflow(work, cluster)
        tally.same(ENDED, "-", "airflow db migrate", "code", airflow("db", "migrate"), 0)
        for dag, params in DAGS.items():
            conf = {"policy": str(policy), "folder": str(reports), **params}
            conf = {k: v for k, v in conf.items() if dag != "clean_reports" or k != "policy"}
            code = airflow("dags", "test", dag, "--conf", json.dumps(conf))
            tally.same(ENDED, "-", dag, f"see {work}/airflow.log", code, 0)
            if dag == "rebuild_time_indexes":
                site.compare(dag, tally)
                if not settings.full:
                    return
        [overview] = reports.glob("rebuild_time_indexes/*/overview.json")
        [ran] = json.loads(overview.with_name("report.json").read_text())["runs"]
        conf = {
            "policy": str(policy),
            "folder": str(reports),
            "need_approval": False,
            "verb": "undo",
            "of_dag": "rebuild_time_indexes",
            "of_run": json.loads(overview.read_text())["run_id"],
            "digest": read_run(Path(ran)).digest,
        }
        code = airflow("dags", "test", "end_run", "--conf", json.dumps(conf))
        tally.same(ENDED, "-", "end_run", f"see {work}/airflow.log", code, 0)
        site.compare_damaged("end_run", tally)


STEPS: Final = (
    _operations,
    _in_parts,
    _no_worker,
    _killed_worker,
    _killed_driver,
    _twice,
    _version,
    _dags,
)


def _airflow(work: Path, cluster: SparkCluster) -> Callable[..., int]:
    """Return a function that runs `airflow` with the cluster as its connection."""
    home = work / "airflow"
    home.mkdir()
    host, _, port = cluster.url.rpartition(":")
    own = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
        "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",  # on a busy machine 30 s are too few
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({
            "conn_type": "spark", "host": host, "port": int(port),
        }),
    }  # fmt: skip

    def run(*words: str) -> int:
        with (work / "airflow.log").open("ab") as log:
            return subprocess.run(
                ["airflow", *words],
                env=environment() | own,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode

    return run
