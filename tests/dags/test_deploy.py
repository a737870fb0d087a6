"""Alert rules and dashboard of deploy/, against what kafkats exposes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kafkats_airflow.metrics.families import METRICS, registry
from prometheus_client import exposition

from tests.ui.folders import DAY_MS, change, ended, volume, write

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus-rules.yml"
NOW_MS = 1_790_000_000_000
BROKEN = {"danger": {"bad-offset": 1}, "damage": {"bad-crc": 3}}
needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not here: scripts/promtool gets it"
)


def promtool(*words: str | Path, fails: bool = False) -> str:
    """Return what it says. A test of rules that expects no alert fails for each that fires."""
    ran = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0 or (fails and "got:" in said), said
    return said


def folder_in_trouble(folder: Path) -> None:
    """Two brokers with one path, one of them in danger; a failed run; old undo; a corrupt report."""
    labels = [f"/data (broker {n})" for n in (1, 2)]
    sound, bad = (volume(label, broker=label[-2]) for label in labels)
    long_ago = NOW_MS - 40 * DAY_MS
    ended(folder, long_ago, volume("/old", broker="3"), dag="apply_retention", run="old")
    run = folder / "rebuild_time_indexes" / "writes"
    undo = change(run, "ab" * 32, {labels[0]: 5}, None) | {"ended_ms": long_ago}
    ended(folder, NOW_MS, sound, bad | {"kinds": BROKEN}, run="writes", undo=[undo])
    ended(folder, NOW_MS, dag="roll_segments", run="failed", failed=True)
    ends = volume("/ends", broker="4", depth="tail")
    ended(folder, NOW_MS, ends, run="ends")
    write(folder / "end_run" / "corrupt" / "overview.json", "{")


def folder_without_trouble(folder: Path) -> None:
    ended(folder, NOW_MS, volume("/data", broker="1"), dag="apply_retention")


def series_of(folder: Path) -> list[dict[str, str]]:
    """What a scraper gets, as promtool names it."""
    lines = exposition.generate_latest(registry(lambda: {"": folder})).decode().splitlines()
    found = []
    for line in lines:
        if not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found.append({"series": name, "values": f"{float(value)!r}"})
    return found


def alerts_in(series: list[dict[str, str]], tmp_path: Path) -> dict[str, list[dict[str, str]]]:
    """Return the labels of the alerts that fire a day after the metrics were taken, by alert."""
    names = [rule["alert"] for rule in rules()]
    shifted = [one | {"values": f"{_at_zero(one)!r}+0x200"} for one in series]
    asked = [{"eval_time": "25h", "alertname": name} for name in names]
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "15m",
        "tests": [{"interval": "15m", "input_series": shifted, "alert_rule_test": asked}],
    }
    path = tmp_path / "test.yml"
    path.write_text(yaml.safe_dump(test))
    said = promtool("test", "rules", path, fails=True)
    found: dict[str, list[dict[str, str]]] = {name: [] for name in names}
    for name, got in re.findall(
        r"alertname: (\w+), .*?got:(.*?)(?=alertname: |\Z)", said, re.DOTALL
    ):
        found[name] = [
            dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
            for labels in re.findall(r"Labels:\s*(\{.*?\})\s*\n\s*Annotations", got, re.DOTALL)
        ]
    return found


def _at_zero(one: dict[str, str]) -> float:
    """Return a sample of a time as if the metrics were taken when promtool's clock begins."""
    value = float(one["values"])
    return value - NOW_MS / 1000 if "_timestamp_seconds" in one["series"] else value


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    for panel in json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def test_every_metric_and_label_is_one_that_kafkats_exposes() -> None:
    known = {one.name: {*one.labels} for one in METRICS}
    for expression in expressions():
        names = set(re.findall(r"\bkafkats_\w+", expression))
        assert names and names <= known.keys(), expression
        labels = set().union(*(known[name] for name in names))
        assert set(re.findall(r"(\w+)\s*(?:=~|!=|=)\"", expression)) <= labels, expression
    page = (DEPLOY.parent / "docs" / "operating.md").read_text()
    assert "deploy/prometheus-rules.yml" in page and "deploy/grafana-dashboard.json" in page


def test_volumes_count_once_although_the_old_series_remain() -> None:
    of_volume = [one.name for one in METRICS if "broker" in one.labels]
    for expression in expressions():
        if any(f"{name}{{" in expression or expression.endswith(name) for name in of_volume):
            assert 'broker!=""' in expression or 'broker=~"$broker"' in expression, expression
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    [broker] = [one for one in dashboard["templating"]["list"] if one["name"] == "broker"]
    assert broker["allValue"] == ".+", "no series without a broker"
    grids = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(set(grids)) == len(grids)


@needs_promtool
def test_the_rules_are_well_formed() -> None:
    assert "SUCCESS" in promtool("check", "rules", RULES)


@needs_promtool
@pytest.mark.slow(10)
def test_each_alert_fires_for_what_it_is_about(tmp_path: Path) -> None:
    """On the metrics of a folder of runs; on those of another, without trouble, none does."""
    (folder := tmp_path / "runs").mkdir()
    folder_in_trouble(folder)
    found = alerts_in(series_of(folder), tmp_path)
    where = {
        name: sorted((one.get("volume", ""), one.get("broker", "")) for one in labels)
        for name, labels in found.items()
    }
    assert where == {
        "KafkatsDanger": [("/data", "2")],
        "KafkatsDamage": [("/data", "2")],
        "KafkatsRunFailed": [("", "")],
        "KafkatsNoReport": [("", "")],
        "KafkatsVolumeOverdue": [("/old", "3")],
        "KafkatsNotReadWhole": [("/ends", "4"), ("/old", "3")],
        "KafkatsUndoKept": [("/data", "1")],
        "KafkatsReportsUnreadable": [("", "")],
        "KafkatsNoMetrics": [],
    }
    assert found["KafkatsDanger"][0]["kind"] == "bad-offset"
    assert found["KafkatsRunFailed"][0]["dag"] == "roll_segments"
    (well := tmp_path / "well").mkdir()
    folder_without_trouble(well)
    assert not any(alerts_in(series_of(well), tmp_path).values())
    assert alerts_in([], tmp_path)["KafkatsNoMetrics"]
