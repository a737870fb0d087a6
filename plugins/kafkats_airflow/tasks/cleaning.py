"""The tasks of clean_reports: choose the folders of old runs, and remove them.

choice.json     the folders that `choose` found, each with the digest of what was in it
report.json     what was removed, and why the other folders are kept
"""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TypedDict

from airflow.sdk import Context

from kafkats.counts import counted, size_text
from kafkats.errors import Changed, CorruptPlan, KafkatsError
from kafkats.logdir.strict_json import Json
from kafkats_airflow import checks
from kafkats_airflow.failing import failed, in_our_words
from kafkats_airflow.forms.values import params_of
from kafkats_airflow.reports import overview
from kafkats_airflow.reports.common import part_of
from kafkats_airflow.reports.failed import with_report
from kafkats_airflow.runs.folders import folder_of, is_active
from kafkats_airflow.tasks import removal
from kafkats_airflow.tasks.cleaning_rules import (
    Kept,
    Needed,
    RunFolder,
    folders_in,
    needed_in,
    run_folder,
    why_kept,
)

DAY_NS = 86_400_000_000_000


class KeptFolder(TypedDict):
    """A folder that is kept: `why` is one of a few words, `what` says it exactly."""

    folder: str
    why: str
    what: str


class Chosen(TypedDict):
    """A folder that may be removed."""

    folder: str
    bytes: int
    digest: str


class Choice(TypedDict):
    """The result of the task `choose`."""

    folders: int
    bytes: int
    kept: dict[str, int]


class CleanReport(TypedDict):
    """report.json. A dry run names in `may_be_removed` what it would have removed."""

    outcome: str
    removed: list[str]
    removed_bytes: int
    may_be_removed: list[str]
    may_be_removed_bytes: int
    kept: dict[str, int]
    kept_folders: list[KeptFolder]
    failures: list[str]
    remarks: list[str]
    report: str


class CleanSummary(TypedDict):
    """The result of the task `remove`."""

    outcome: str
    removed: int
    removed_bytes: int
    kept: dict[str, int]
    report: str


@in_our_words
@with_report
def choose(context: Context) -> Choice:
    """Look at every folder of a run, and write choice.json. Changes nothing else."""
    from kafkats.plans.files import make_folder, write_json

    root, folder = Path(params_of(context)["folder"]), folder_of(context)
    checks.writable(root)
    chosen, kept = _sorted(context, root)
    make_folder(folder, "the choice")
    write_json(folder / "choice.json", {"folders": chosen, "kept": kept})
    return {
        "folders": len(chosen),
        "bytes": sum(one["bytes"] for one in chosen),
        "kept": _counted(kept),
    }


@in_our_words
@with_report
def remove(context: Context) -> CleanSummary:
    """Remove the chosen folders that may still be removed, and write the report.

    A dry run removes nothing. Fails at its end if a folder could not be removed.
    """
    from kafkats.plans.files import read_json

    params, folder = params_of(context), folder_of(context)
    root = Path(params["folder"])
    before = _chosen_before(read_json(folder / "choice.json"))
    remarks, gone, failures = [], list[Chosen](), list[str]()
    if not params["dry_run"]:
        remarks = _resume(root)
    now, kept = _sorted(context, root)
    still = [one for one in now if before.get(one["folder"]) == one["digest"]]
    for one in [] if params["dry_run"] else still:
        try:
            removal.remove(Path(one["folder"]), one["digest"])
            gone.append(one)
        except Changed as e:
            kept.append({"folder": one["folder"], "why": "recent", "what": e.reason})
        except KafkatsError as e:
            failures.append(str(e))
    chosen = still if params["dry_run"] else gone
    content: CleanReport = {
        "outcome": _outcome(chosen, dry_run=params["dry_run"], failures=len(failures)),
        "removed": [one["folder"] for one in gone],
        "removed_bytes": sum(one["bytes"] for one in gone),
        "may_be_removed": [one["folder"] for one in still] if params["dry_run"] else [],
        "may_be_removed_bytes": sum(one["bytes"] for one in still) if params["dry_run"] else 0,
        "kept": _counted(kept),
        "kept_folders": kept,
        "failures": failures,
        "remarks": remarks,
        "report": str(folder),
    }
    overview.write(context, content, failed=bool(failures))
    if failures:
        raise failed(f"{content['outcome']}: {failures[0]}; see {folder}", retryable=True)
    return {**part_of(CleanSummary, content), "removed": len(gone)}


def _outcome(chosen: list[Chosen], *, dry_run: bool, failures: int) -> str:
    folders = counted(len(chosen), "folder")
    size = size_text(sum(one["bytes"] for one in chosen))
    if dry_run:
        may = f"{folders} may be removed, {size}" if chosen else "nothing to remove"
        return f"dry run: {may}"
    left = f", {failures} could not be removed" if failures else ""
    return f"{folders} removed, {size}{left}" if chosen or failures else "nothing to remove"


def _sorted(context: Context, root: Path) -> tuple[list[Chosen], list[KeptFolder]]:
    """Return the folders that may be removed, and the others with the reason."""
    runs, kept = list[RunFolder](), list[KeptFolder]()
    for path in folders_in(root):
        found = run_folder(path, root)
        if isinstance(found, RunFolder):
            runs.append(found)
        elif found.why != "no report" or _is_begun(path):
            kept.append(_told(path, found))
    now_ns = time.time_ns()
    needed = needed_in(
        root,
        runs,
        before_ns=now_ns - params_of(context)["keep_days"] * DAY_NS,
        now_ms=now_ns // 1_000_000,
        active=partial(is_active, context),
    )
    chosen = list[Chosen]()
    for run in runs:
        reason, tree = _why(run, needed)
        if reason is not None:
            kept.append(_told(run.path, reason))
        elif tree is not None:
            chosen.append({"folder": str(run.path), "bytes": tree.bytes, "digest": tree.digest})
    return chosen, kept


def _why(run: RunFolder, needed: Needed) -> tuple[Kept | None, removal.Tree | None]:
    try:
        return why_kept(run, needed)
    except KafkatsError as e:
        return Kept("unreadable", str(e)), None


def _is_begun(path: Path) -> bool:
    """Return whether a folder without a report is that of a DAG run all the same."""
    return (path / "question.json").exists() or any(path.glob("*/plan-*/plan.json"))


def _told(path: Path, kept: Kept) -> KeptFolder:
    return {"folder": str(path), "why": kept.why, "what": kept.what}


def _counted(kept: list[KeptFolder]) -> dict[str, int]:
    return dict(sorted(Counter(one["why"] for one in kept).items()))


def _chosen_before(content: dict[str, Json]) -> dict[str, str]:
    """Return the digests in choice.json, by folder. Raises CorruptPlan."""
    folders = content.get("folders")
    found: dict[str, str] = {}
    for one in folders if isinstance(folders, list) else [None]:
        path, digest = (one.get("folder"), one.get("digest")) if isinstance(one, dict) else (0, 0)
        if not isinstance(path, str) or not isinstance(digest, str):
            raise CorruptPlan("choice.json is not what `choose` writes; clear the run")
        found[path] = digest
    return found


def _resume(root: Path) -> list[str]:
    """End the removals that a kill has interrupted; returns remarks."""
    remarks = []
    for above in sorted({root, *(path.parent for path in folders_in(root))}):
        try:
            remarks += [f"{path} has its name back" for path in removal.resume(above)]
        except KafkatsError as e:
            remarks.append(str(e))
    return remarks
