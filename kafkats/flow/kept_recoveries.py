"""Finish, give up or purge what earlier recoveries before a start have left."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from kafkats.errors import KafkatsError
from kafkats.execution.executor import Executor
from kafkats.flow.applying import apply, purge
from kafkats.flow.ending import phases
from kafkats.plans.plan import read_plan
from kafkats.plans.run import run_of
from kafkats.recovery.kept_runs import KeptRun, kept_runs

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
) -> int:
    """Free the old bytes of recoveries that nobody needs any more. Return the bytes.

    `clean`: the broker has stopped cleanly since. A recovery that cannot be purged is kept.
    """
    freed = 0
    for kept in kept_runs(log_dirs, place):
        if not kept.is_due(now_ms, clean=clean):
            continue
        try:
            if (kept.run / "run.json").exists():
                freed += purge(executor, kept.run, abandon=True).freed_bytes
            shutil.rmtree(kept.folder)
        except (KafkatsError, OSError) as e:
            tell("not-purged", level="warning", folder=str(kept.folder), error=str(e))
        else:
            tell("purged", folder=str(kept.folder))
    return freed


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
    """
    for kept in kept_runs(log_dirs, place):
        with suppress(KafkatsError):
            if not any(phases(kept.run)[phase] for phase in _UNFINISHED):
                continue
            tell("finishing", folder=str(kept.folder))
            done = _finished(executor, kept, place, owner_stopped=owner_stopped)
            if not done and not kept.keep:
                purge(executor, kept.run, abandon=True)


def _finished(
    executor: Executor, kept: KeptRun, place: Path | None, *, owner_stopped: bool
) -> bool:
    plan = read_plan(kept.plan)
    codes: list[int] = []
    apply(
        executor,
        plan,
        kept.plan,
        run_of(plan, place=place, owner_stopped=owner_stopped),
        kept.run,
        holder=HOLDER,
        by="recover",
        prove=False,
        show=lambda applied: codes.append(int(applied.summary["exit_code"])),
    )
    return codes == [0]
