"""Names that others use: what names.json has of them, and what there is now. python -m tests.compat.names > names.json

An option that a script or command takes without showing it in its help (an alias) is to be added to HIDDEN, with a test
of its own that it is taken.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import click

from kafkats import findings
from kafkats.cli import cli, main
from kafkats.config import settings
from tests.compat.replay import replay

ROOT: Final = Path(__file__).parents[2]
NAMES: Final = Path(__file__).with_name("names.json")
PRODUCT: Final = ("kafkats", "pyspark_kafkats", "spark_jobs", "plugins", "dags")
JOBS: Final = (
    "apply", "census", "certify", "export", "inventory", "lookup", "plan rebuild", "plan migrate", "plan retain", "plan roll",
    "purge", "release", "undo", "verify",
)  # fmt: skip
HIDDEN: Final[dict[str, tuple[str, ...]]] = {}
"""script or command -> options that its help does not show."""


def commands(group: click.Group = cli, before: str = "") -> dict[str, list[str]]:
    """Every command, and its options and arguments."""
    found: dict[str, list[str]] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        path = f"{before} {name}".strip()
        if isinstance(command, click.Group):
            found |= commands(command, path)
        else:
            options = {
                word for param in command.params for word in (*param.opts, *param.secondary_opts)
            }
            found[path] = sorted(word for word in options if word.startswith("-"))
    return found


def job(words: str) -> list[str]:
    """The options of a script of spark_jobs, by its help."""
    script, *rest = words.split()
    path = ROOT / "spark_jobs" / f"{script}.py"
    before, out = sys.argv, io.StringIO()
    sys.argv = [str(path), *rest, "--help"]
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv = before
    defined = [
        re.split(r"\s{2,}", line.strip())[0]
        for line in out.getvalue().splitlines()
        if re.match(r" {1,4}-", line)
    ]
    shown = {word for one in defined for word in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", one)}
    return sorted({*shown, *HIDDEN.get(words, ())})


def policy_keys() -> list[str]:
    """Every setting of topics that a policy may name, old names among them."""
    known = {*settings.KEYS.values(), *settings.ALIASES, *settings.STRONGER}
    return sorted(known | settings.OTHER_KEYS)


def environment() -> list[str]:
    """Every variable of ours that the product's code names."""
    files = (path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py"))
    return sorted({
        name for path in files for name in re.findall(r"\bKAFKATS_[A-Z_]+\b", path.read_text())
    })


def json_fields(into: Path) -> dict[str, list[str]]:
    """The fields that commands print with --json, on a small volume: one command's rows and summary together."""
    found = replay("read", into)
    damaged = Path(shutil.copytree(found.data, into / "damaged"))
    for path in damaged.rglob("*.index"):
        path.unlink()
    data, table, ledger = found.data, found.into / "table", found.into / "ledger.jsonl"
    now = ("--now", 1_795_335_828_000)
    deletes = ("--policy", found.into / "policy.yaml", *now)
    at = ("--at", 1_600_000_090_000)
    runs: dict[str, tuple[object, ...]] = {
        "inventory": ("inventory", data, "--by", "segment"),
        "inventory partition": ("inventory", data),
        "inventory format": ("inventory", data, "--by", "format"),
        "verify": ("verify", damaged),
        "certify": ("certify", data, "--max-magic", 1),
        "certify check": ("certify", "--check", found.into / "certificate"),
        "plan rebuild": ("plan", "rebuild", damaged, "-o", into / "a"),
        "plan migrate": (
            "plan",
            "migrate",
            data,
            "--to-magic",
            1,
            "--accept-loss",
            "all",
            "-o",
            into / "b",
        ),
        "plan retain": ("plan", "retain", data, *deletes, "-o", into / "c"),
        "plan roll": ("plan", "roll", data, "--config", "segment.ms=1000", *now, "-o", into / "d"),
        "plan split": (
            "plan",
            "split",
            data,
            "--where",
            "rolled",
            "--segment-bytes",
            2000,
            "-o",
            into / "e",
        ),
        "show": ("show", found.plan),
        "simulate retain": ("simulate", "retain", data, *deletes),
        "simulate roll": ("simulate", "roll", data, "--config", "segment.ms=1000", *now),
        "lookup": ("lookup", data, *at),
        "lookup table": ("lookup", table, *at),
        "layouts": ("layouts", data),
        "latency": ("latency", data),
        "diff": ("diff", table, table),
        "ledger show": ("ledger", "show", ledger),
        "undo": ("undo", found.run),
        "apply": ("apply", into / "d", "--digest", "any", "--owner-stopped"),
        "purge": ("purge", into / "d.run"),
        "release": ("release", data),
    }
    return {name: _fields(*words) for name, words in runs.items()}


def _fields(*words: object) -> list[str]:
    out = io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(SystemExit),
    ):
        main([*map(str, words), "--json"])
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    names = {name for row in rows if "summary" not in row for name in row}
    return sorted(names | {f"summary.{name}" for row in rows for name in row.get("summary", {})})


def dags() -> dict[str, dict[str, list[str]]]:
    """Of every DAG its tasks and params; Airflow must know of its folders by now."""
    from airflow.dag_processing.dagbag import BundleDagBag

    folder = Path(os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    return of_bag(BundleDagBag(dag_folder=folder, bundle_path=folder, bundle_name="dags-folder"))


def of_bag(bag: Any) -> dict[str, dict[str, list[str]]]:
    return {
        name: {"tasks": sorted(dag.task_ids), "params": sorted(dag.params)}
        for name, dag in sorted(bag.dags.items())
    }


def everything() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as into:
        fields = json_fields(Path(into))
    return {
        "commands": commands(),
        "jobs": {words: job(words) for words in JOBS},
        "json": fields,
        "findings": sorted(findings.KINDS),
        "environment": environment(),
        "policy": policy_keys(),
        "dags": dags(),
    }


if __name__ == "__main__":
    print(json.dumps(everything(), indent=1, sort_keys=True))
