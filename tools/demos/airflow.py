"""The demo of the DAGs as people use them: a whole Airflow on real brokers' directories, its forms filled in a browser.

Called by scripts/demo, which sets the environment. `airflow standalone` runs; a Chromium opens each DAG's form, takes a picture of it
and clicks Trigger. Then what people do: two DAGs at the same minute, a run that is cleared half-way, templates in place of names, and
a question that somebody marks as answered. Shown is how each of them ends, and that no byte changed without a yes to it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from playwright.sync_api import Page
from rich.table import Table

from tests.browser import attack
from tests.browser.forms import CHROMIUM, Form, chromium, signed_in
from tests.browser.standalone import Standalone, standalone
from tests.browser.volumes import CASES, DAMAGED, Volumes
from tests.golden import case, retention_moment
from tools.demo_stage import HOME, begin, console

PICTURES = HOME / "pictures"
AT = datetime(2020, 9, 13, 12, 28, tzinfo=UTC)
"""In the records of the retention directory."""
INTERVALS = {
    "apply_retention": datetime(2026, 11, 1, 2, 0, tzinfo=UTC),
    "build_lookup_tables": datetime(2026, 11, 2, 1, 0, tzinfo=UTC),
}
"""A day and an hour that end at the same minute: as every night at 02:00."""
UNTOUCHED = {
    "apply_retention": ("report", "dry run"),
    "build_lookup_tables": ("report", "built"),
    "export_offsets": ("write", "exported"),
    "migrate_message_format": ("report", "census"),
    "rebuild_time_indexes": ("report", "rebuilt and proved"),
    "roll_segments": ("report", "dry run"),
}
"""Per DAG the task whose result is the run's report, and how that begins, when nothing was changed in the form."""
AS_OF = datetime.fromtimestamp(
    retention_moment(case(CASES["retention"][0])) / 1000, UTC
).isoformat()
REFUSED = ("time-all-0", "size-0")
"""Partitions that change between the plan and the apply."""


class Scene(NamedTuple):
    """The Airflow, browser page and volumes of the demo."""

    airflow: Standalone
    page: Page
    volumes: Volumes


def main() -> int:
    if not os.access(CHROMIUM, os.X_OK):
        console.print(
            f"[red]there is no Chromium at {CHROMIUM}[/]: scripts/chromium gets it, KAFKATS_CHROMIUM names another"
        )
        return 1
    began = last = time.monotonic()
    times = Table("step", "seconds")
    begin()
    PICTURES.mkdir()
    volumes = Volumes(HOME)
    wrong: list[str] = []
    console.rule("[bold]1 airflow standalone, and a browser that signs in")
    with (
        standalone(HOME / "standalone", volumes.environment | attack.PLANTED) as airflow,
        chromium() as browser,
        signed_in(browser, airflow) as page,
    ):
        console.print(f"  {airflow.url}, {len(airflow.dags())} DAGs")
        scene = Scene(airflow, page, volumes)
        times.add_row("airflow standalone", f"{time.monotonic() - last:.0f}")
        for number, (title, part) in enumerate(PARTS.items(), 2):
            last = time.monotonic()
            console.rule(f"[bold]{number} {title}")
            for line in part(scene):
                console.print(f"  [red]{line}[/]", soft_wrap=True)
                wrong.append(line)
            times.add_row(title, f"{time.monotonic() - last:.0f}")
    console.print(times)
    console.print(
        f"pictures {PICTURES}\nlog      {HOME}/standalone/standalone.log\n{time.monotonic() - began:.0f} s in all"
    )
    console.print(
        f"[bold red]the demo FAILED, {len(wrong)} times[/]"
        if wrong
        else "[bold green]all of it ended as it should[/]"
    )
    return 1 if wrong else 0


def six_forms(scene: Scene) -> Iterator[str]:
    """Each form, untouched but for the time of the export and what it does without an answer."""
    airflow, page, volumes = scene
    ran: dict[str, str] = {}
    for dag in UNTOUCHED:
        form = Form(page, airflow, dag)
        if dag == "export_offsets":
            form.pick(form.said("time"), AT)
            form.choose("missing", "all")
            form.box("volumes").fill("broker-retention")
        form.picture(PICTURES / f"form-{dag}.png")
        ran[dag] = str(form.send()["dag_run_id"])
        console.print(f"  {dag}: triggered as {ran[dag]}")
    in_the_browser(scene, "rebuild_time_indexes", ran["rebuild_time_indexes"], "Approve")
    for dag, run in ran.items():
        yield from ended(airflow, dag, run)
    golden = case(CASES["rebuild"][0])
    for path in DAMAGED:
        if (volumes.roots["rebuild"] / path).read_bytes() != original(golden, path):
            yield f"{path} is not as the broker had written it"


def same_minute(scene: Scene) -> Iterator[str]:
    """A backfill of the same minute by two DAGs: the same run id, and a folder for each."""
    airflow, page, _ = scene
    ran: dict[str, str] = {}
    for dag, begins in INTERVALS.items():
        known = set(airflow.runs(dag))
        form = Form(page, airflow, dag)
        form.to_backfill()
        form.pick("From", begins)
        form.pick("To", begins.replace(minute=1))
        form.picture(PICTURES / f"backfill-{dag}.png")
        form.send_backfill()
        ran[dag] = airflow.until(
            lambda dag=dag, known=known: next(iter(set(airflow.runs(dag)) - known), ""),
            "made no run",
            120,
        )
    if len(set(ran.values())) != 1:
        yield f"the run ids differ: {ran}"
    for dag, run in ran.items():
        yield from ended(airflow, dag, run)
    folders = {dag: (airflow.result(dag, run) or {}).get("report") for dag, run in ran.items()}
    console.print(f"  both are {ran['apply_retention']}: {folders}", soft_wrap=True)
    if len(set(folders.values())) != 2 or not all(folders.values()):
        yield f"the reports are not in folders of their own: {folders}"
        return
    keys = {
        dag: set(json.loads(Path(folder, "report.json").read_text()))
        for dag, folder in folders.items()
    }
    if "as_of" not in keys["apply_retention"] or "tables" not in keys["build_lookup_tables"]:
        yield f"a report is not that of its DAG: {keys}"


def cleared(scene: Scene) -> Iterator[str]:
    """Two partitions change while the question is open: the others are deleted, the run fails; cleared, it deletes those, too."""
    airflow, page, volumes = scene
    root = volumes.roots["cleared"] = volumes.unpack("retention", "cleared")
    kept = {"topics": {"time-some": {"kafkats.guard.max.share": 0.01}}}
    policy = volumes.policy("cleared", **merged(volumes, kept))
    dag = "apply_retention"
    run = airflow.trigger(dag, {"policy": str(policy), "as_of": AS_OF, "dry_run": False})
    airflow.asked(dag, run)
    for partition in REFUSED:
        for path in (root / partition).glob("*.*"):
            os.utime(path, ns=(1_600_000_000_000_000_000, 1_600_000_000_000_000_000))
    before = names(root)
    airflow.answer(dag, run, "Keep to the guard")
    if airflow.wait(dag, run) != "failed":
        yield "a run whose files had changed since the plan did not fail"
    moved = before - names(root)
    console.print(
        f"  first try: {len(moved)} files moved, the run failed as {', '.join(REFUSED)} had changed"
    )
    page.goto(f"{airflow.url}/dags/{dag}/runs/{quote(run)}/tasks/report")
    page.wait_for_timeout(5000)
    page.screenshot(path=PICTURES / "failed-report.png")
    page.goto("about:blank")
    if not moved or any(path.startswith(REFUSED) for path in moved):
        yield f"the first try moved {sorted(moved)[:3]}"
    airflow.clear(dag, run)
    airflow.asked(dag, run)
    airflow.answer(dag, run, "Keep to the guard")
    yield from ended(airflow, dag, run, "deleted and proved")
    said = report_of(airflow, dag, run)
    gone = len(before - names(root))
    console.print(
        f"  second try: {gone} files in all, {len(said['runs'])} RUNs, {said['files_proved']} files proved"
    )
    if len(said["runs"]) != 2 or said["files_proved"] < gone or gone <= len(moved):
        yield f"the report does not tell of both tries: {said['runs']}, {said['files_proved']} proved of {gone}"


def attacked(scene: Scene) -> Iterator[str]:
    """A template for each name in a form, in the run's id and in its note."""
    airflow, page, volumes = scene
    place = HOME / "attacked"
    place.mkdir()
    dag = "roll_segments"
    form = Form(page, airflow, dag)
    form.box("topics").fill(attack.ASKS)
    form.box("folder").fill(f"{place}/{attack.ASKS}")
    form.advanced(f"form {attack.ASKS}", attack.ASKS)
    form.picture(PICTURES / "attack.png")
    run = str(form.send()["dag_run_id"])
    yield from ended(airflow, dag, run, "")
    if not any(
        attack.ASKS in json.loads(line) for line in airflow.submitted.read_text().splitlines()
    ):
        yield "the template did not reach the job"
    leaks = attack.leaks(airflow, volumes.folder, place)
    console.print(
        f"  {attack.ASKS!r}: handed to the job as it is, {len(leaks)} values in logs, files, arguments, database"
    )
    yield from leaks


def marked(scene: Scene) -> Iterator[str]:
    """Somebody marks the open question as a success: nothing is written."""
    airflow, page, volumes = scene
    root = volumes.roots["marked"] = volumes.unpack("rebuild", "marked")
    dag = "rebuild_time_indexes"
    run = airflow.trigger(dag, {"policy": str(volumes.policy("marked"))})
    airflow.asked(dag, run)
    before = names(root)
    airflow.mark_success(dag, run, "approve")
    if airflow.wait(dag, run) != "failed":
        yield "a run without an answer did not fail"
    page.goto(f"{airflow.url}/dags/{dag}/runs/{quote(run)}/tasks/apply/mapped/0")
    page.wait_for_timeout(5000)
    page.screenshot(path=PICTURES / "failed-apply.png")
    page.goto("about:blank")
    if names(root) != before:
        yield f"files were written without a yes: {sorted(names(root) - before)[:3]}"
    console.print(f"  {outcome(airflow, dag, run)}")


PARTS: dict[str, Callable[[Scene], Iterator[str]]] = {
    "six forms, triggered in the browser": six_forms,
    "two DAGs at the same minute": same_minute,
    "a run that is cleared half-way": cleared,
    "an attack by template": attacked,
    "an approval that is marked as a success": marked,
}


def in_the_browser(scene: Scene, dag: str, run: str, option: str) -> None:
    """Read what is asked, on Airflow's own page, and answer it."""
    airflow, page, _ = scene
    airflow.asked(dag, run)
    page.goto(f"{airflow.url}/dags/{dag}/runs/{quote(run)}/tasks/approve/required_actions")
    button = page.get_by_role("button", name=option, exact=True)
    button.wait_for()
    page.screenshot(path=PICTURES / f"question-{dag}.png")
    button.click()
    airflow.answers[dag, run, "approve"] = option
    page.wait_for_timeout(2000)
    page.goto("about:blank")
    console.print(f"  {dag}: {option}, in the browser")


def ended(airflow: Standalone, dag: str, run: str, wanted: str | None = None) -> Iterator[str]:
    """Wait for a run; what is not as it should be with its end."""
    state = airflow.wait(dag, run, timeout=1500)
    said = outcome(airflow, dag, run)
    console.print(f"  {dag}: {state}, {said}")
    expected = UNTOUCHED[dag][1] if wanted is None else wanted
    if state != "success" or not said.startswith(expected):
        yield f"{dag} {run}: {state}, {said!r}, not {expected!r}"


def outcome(airflow: Standalone, dag: str, run: str) -> str:
    """Return the outcome that the run's own report says."""
    said = airflow.result(dag, run, UNTOUCHED[dag][0])
    return str(said.get("outcome", "")) if isinstance(said, dict) else "no report"


def report_of(airflow: Standalone, dag: str, run: str) -> dict[str, Any]:
    return dict(json.loads(Path(airflow.result(dag, run)["report"], "report.json").read_text()))


def merged(volumes: Volumes, more: dict[str, Any]) -> dict[str, Any]:
    """The policy of the retention directory, with more keys of some topics."""
    import yaml

    topics = yaml.safe_load(volumes.policy("retention").read_text())["topics"]
    return {"topics": topics | {name: topics[name] | keys for name, keys in more["topics"].items()}}


def names(root: Path) -> set[str]:
    """The files of a log directory, without what kafkats keeps there."""
    found = (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return {path for path in found if not path.startswith(".kafkats")}


def original(golden: Any, path: str) -> bytes:
    """A file of a case as the broker had left it."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        return (golden.unpack("data", Path(place)) / path).read_bytes()


if __name__ == "__main__":
    sys.exit(main())
