"""Finish, give up or purge what earlier recoveries before a start have left."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from kafkats.errors import KafkatsError
from kafkats.execution.executor import Executor
from kafkats.flow.applying import apply, purge
from kafkats.flow.ending import phases
from kafkats.plans.plan import read_plan
from kafkats.plans.run import run_of
from kafkats.recovery.kept_runs import KeptRun, kept_runs
from kafkats.text import Command

HOLDER: Final = "kafkats recover, before a start"
"""Who reserves: all of them, so that one that was killed keeps no other waiting. A lock does."""
_UNFINISHED: Final = ("intent", "undo")


def purge_due(
    executor: Executor,
    log_dirs: Iterable[str],
    place: Path | None,
    now_ms: int,
    tell: Callable[..., None],
    *,
    clean: bool,
) -> None:
    """Free the old bytes of recoveries that nobody needs any more.

    `clean`: the broker has stopped cleanly since. A recovery that cannot be purged is kept, also
    where only one of its log directories cannot be read.
    """
    for kept in kept_runs(log_dirs, place):
        if not kept.is_due(now_ms, clean=clean):
            continue
        try:
            if (kept.run / "run.json").exists() and not _purged(executor, kept, tell):
                continue
            shutil.rmtree(kept.folder)
        except (KafkatsError, OSError) as e:
            tell("not-purged", level="warning", folder=str(kept.folder), error=str(e))
        else:
            tell("purged", folder=str(kept.folder))


def _purged(executor: Executor, kept: KeptRun, tell: Callable[..., None]) -> bool:
    """Purge a recovery, finished or not. Return whether that was possible everywhere, else tell."""
    ended = purge(executor, kept.run, abandon=True)
    if ended.exit_code:
        tell("not-purged", level="warning", folder=str(kept.folder), error="; ".join(ended.errors))
    return not ended.exit_code


def finish(
    executor: Executor,
    log_dirs: Iterable[str],
    place: Path | None,
    tell: Callable[..., None],
    *,
    owner_stopped: bool,
) -> None:
    """Finish the recoveries that were killed. Where a broker has started since, they are ended:
    it has recovered these logs itself.

    One that a person has to purge is not ended. It keeps others from working on its partitions, so
    it is told how to end it.
    """
    for kept in kept_runs(log_dirs, place):
        with suppress(KafkatsError):
            if not any(phases(kept.run)[phase] for phase in _UNFINISHED):
                continue
            tell("finishing", folder=str(kept.folder))
            try:
                error = _finished(executor, kept, place, owner_stopped=owner_stopped)
                ends = not kept.keep
            except KafkatsError as e:  # not about its partitions: the next start tries again
                error, ends = str(e), False
            if error and ends:
                _purged(executor, kept, tell)
            elif error:
                tell("not-finished", level="warning", error=error, **_way_out(kept))


def _way_out(kept: KeptRun) -> dict[str, str]:
    """Return the fields that name a recovery, and how a person ends one that has to be kept."""
    if not kept.keep:
        return {"folder": str(kept.folder)}
    command = Command("purge", (str(kept.run), "--abandon"))
    return {"folder": str(kept.folder), "keep": kept.keep, "command": str(command)}


def _finished(executor: Executor, kept: KeptRun, place: Path | None, *, owner_stopped: bool) -> str:
    """Apply the plan of a recovery again. Return why it is not finished, "" if it is."""
    plan = read_plan(kept.plan)
    summaries: list[dict[str, Any]] = []
    apply(
        executor,
        plan,
        kept.plan,
        run_of(plan, place=place, owner_stopped=owner_stopped),
        kept.run,
        holder=HOLDER,
        by="recover",
        prove=False,
        show=lambda applied: summaries.append(applied.summary),
    )
    return "; ".join(error for summary in summaries for error in summary["errors"])
