"""docs/json.md has every field that commands print with --json, with its type."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import pytest

from kafkats import paths
from kafkats.cli import cli
from kafkats.operations import OPERATIONS
from tests.builders.commands import run
from tests.golden import case

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import json_page

PAGES: Final = {one.command: one for one in json_page.PAGES}
COUNTS: Final = [
    "depths",
    "kinds",
    "losses",
    "not_repaired",
    "outcomes",
    "problems",
    "settings_from",
    "severities",
    "vetoes",
    "clients",
]
"""Objects whose keys are words, not fields."""
SAME: Final = {"seen": "verify", "census": "census"}
"""Objects with the fields of another command's summary."""
KINDS: Final = {
    "number": (int, float),
    "text": str,
    "list": list,
    "object": dict,
    "yes or no": bool,
}
T: Final = "2026-01-01T00:00:00Z"


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_the_page_has_every_command_with_json() -> None:
    named = {
        name
        for name, command in commands(cli)
        if any("--json" in one.opts for one in command.params)
    }
    assert named == set(PAGES) - {"lookup --every"}
    assert {f"plan {name}" for name in OPERATIONS} <= named


def flat(value: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the fields of an object, and those of the objects in it."""
    for name, inner in value.items():
        yield f"{before}{name}", inner
        if name in COUNTS or name in SAME or name == "totals":
            continue
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, dict):
                yield from flat(one, f"{before}{name}.")


def check(known: Mapping[str, str], printed: Mapping[str, Any], what: str) -> None:
    for name, value in flat(printed):
        assert name in known, f"docs/json.md lacks {name} of {what}"
        kinds = KINDS[known[name]]
        assert value is None or isinstance(value, kinds), (what, name, value)
        assert not (isinstance(value, bool) and kinds is not bool), (what, name)
        if name in SAME and isinstance(value, dict):
            check(json_page.fields_of(PAGES[SAME[name]].summary), value, f"{name} of {what}")
        if name == "totals":
            check(known, value, f"totals of {what}")


class Scene:
    """A directory with a lost index, one that was killed, and what commands made of them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.root, self.killed = folder / "disk" / "data", folder / "killed" / "data"
        for root in (self.root, self.killed):
            root.mkdir(parents=True)
            case("matrix-4.3.1-v2").unpack("data", root)
        (self.root / "none-ct-0/00000000000000000043.timeindex").unlink()
        (self.killed / paths.CLEAN_SHUTDOWN).unlink()
        log = max((self.killed / "none-ct-0").glob("*.log"))
        os.truncate(log, log.stat().st_size - 5)
        self.policy = folder / "policy.yaml"
        self.policy.write_text(
            "topics:\n  '*': {retention.ms: 1000, cleanup.policy: delete}\n"
            "guard: {max.share: 0.001}\n"
        )
        self.groups = folder / "groups.txt"
        self.groups.write_text(
            "GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n"
            "g none-ct 0 5 160 155 - - -\n"
        )

    def check(self, command: str, *words: object, like: str = "") -> None:
        code, out, err = run(
            self.capsys, *command.removesuffix(" --every").split(), *words, "--json"
        )
        assert code in (0, 1), (command, err)
        *rows, last = map(json.loads, out.splitlines())
        page = PAGES[like or command]
        for row in rows:
            check(json_page.fields_of(page.row), row, f"a row of {command}")
        check(json_page.fields_of(page.summary), last["summary"], f"the summary of {command}")


@pytest.fixture
def scene(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Scene:
    return Scene(tmp_path, capsys)


def test_what_only_reads(scene: Scene) -> None:
    root, folder = scene.root, scene.folder
    scene.check("verify", root, "--remarks")
    scene.check("verify", root, "--depth", "tail")
    for by in ("segment", "partition", "topic"):
        scene.check("inventory", root, "--by", by)
    scene.check("preflight", scene.killed, "--kafka", "4.3", "-o", folder / "starts")
    scene.check("latency", root)
    scene.check("lag", root, "--committed", scene.groups)
    scene.check("lookup", root, "--at", "2020-09-13T12:27:30Z")
    words = ("--from", "2020-09-13T12:27:00Z", "--until", "2020-09-13T12:29:00Z")
    scene.check("lookup --every", root, "--every", "1m", *words, "-o", folder / "table")
    scene.check("lookup", folder / "table", "--at", "2020-09-13T12:28:00Z")
    scene.check("diff", folder / "table", folder / "table")
    scene.check("diff", folder / "table", folder / "table", "--by", "time")
    scene.check("simulate retain", root, "--policy", scene.policy, "--now", T)
    scene.check("simulate roll", root, "--now", T, "--config", "segment.ms=1000")


def test_formats(scene: Scene) -> None:
    root, folder = scene.root, scene.folder
    scene.check("inventory", root, "--by", "format", like="census")
    scene.check("census", root, "--by", "segment", "-o", folder / "census")
    scene.check("certify", root, "--min-magic", 2, "-o", folder / "cert")
    scene.check("certify", root, "--max-magic", 1)
    next((root / "gzip-ct-0").glob("*.log")).unlink()
    scene.check("certify", "--check", folder / "cert")
    ledger, words = folder / "ledger", ("--from-magic", 1, "--to-magic", 2, "--broker", "b1")
    assert run(scene.capsys, "ledger", "begin", ledger, *words)[0] == 0
    scene.check("ledger show", ledger)


def test_plans_and_what_is_done_with_them(scene: Scene) -> None:
    root, folder = scene.root, scene.folder
    scene.check("plan rebuild", root, "-o", folder / "p", "--reserve")
    scene.check(
        "plan roll",
        root,
        scene.killed,
        "--now",
        T,
        "-o",
        folder / "r",
        "--reserve",
        "--skip-reserved",
    )
    scene.check("show", folder / "p")
    for _ in range(2):
        scene.check("apply", folder / "p", "--digest", "any")
    scene.check("verify", root, "--of-run", folder / "p.run")
    scene.check("undo", folder / "p.run")
    scene.check("plan rebuild", root, "--depth", "full", "-o", folder / "q", "--reserve")
    scene.check("release", root)
    scene.check("apply", folder / "q", "--digest", "any")
    scene.check("purge", folder / "q.run", "--older-than", "7d")
    scene.check("purge", folder / "q.run")
    scene.check("plan recover", scene.killed, "-o", folder / "recover")
    scene.check("apply", folder / "recover", "--digest", "any")
    words = ("--policy", scene.policy, "--now", T, "--beyond-guard", folder / "beyond")
    scene.check("plan retain", root, *words, "-o", folder / "retain")
    scene.check(
        "plan split", root, "--where", "rolled", "--segment-bytes", "2KiB", "-o", folder / "s"
    )


@pytest.mark.slow(9)
def test_migrations(scene: Scene) -> None:
    words = ("--to-magic", 1, "--accept-loss", "all")
    scene.check("plan migrate", scene.root, *words, "-o", scene.folder / "migrate")
    scene.check("apply", scene.folder / "migrate", "--digest", "any")
