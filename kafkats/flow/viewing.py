"""Look at a large listing in groups of partitions: tasks look, and no process holds all rows.

A task lists and looks at one group, and hands over aggregates and tables. The tables are files
beside the report, if the task sees its folder. Where whole segments are read, those of one group
are spread over the tasks instead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from kafkats.config.options import Topics
from kafkats.config.policy import Policy
from kafkats.execution.executor import Executor
from kafkats.execution.local import LocalExecutor
from kafkats.flow.dispatch import Work, seen
from kafkats.flow.parting import large_groups, size_of
from kafkats.plans.deciding import DECIDED, Handed, hand, handed_in, scratch_in
from kafkats.plans.dialects import read_as
from kafkats.plans.directories import Directories
from kafkats.plans.files import make_folder
from kafkats.plans.listed import check_listed
from kafkats.plans.units import Unit

_NOWHERE: Final = Path("/nonexistent")


class View(NamedTuple):
    """Aggregates of a group, and its tables by name. Sums of the aggregates are those of all."""

    totals: Mapping[str, Any]
    tables: Mapping[str, pa.Table]


Look: TypeAlias = Callable[[Executor, Sequence[Unit]], View]
"""Looks at the units of a group."""


@dataclass(frozen=True, kw_only=True)
class Viewed(Handed):
    """A group that was looked at."""

    totals: Mapping[str, Any]


def groups_of(work: Work, policy: Policy | None = None) -> list[Directories]:
    """Return the groups of the request's log directories, none for a listing that is not large.

    Raises as `large_groups`.
    """
    request = work.request
    paths, topics = [str(one.path) for one in request.log_dirs], request.of(Topics).topics
    groups = large_groups(paths, topics, policy or Policy.model_construct())
    if groups:
        work.done.log_dirs = seen(sorted({group.log_dir for group in groups}))
    return groups


@contextmanager
def viewed(
    executor: Executor,
    groups: Sequence[Directories],
    look: Look,
    report: Path | None,
    *,
    by_ends: bool,
    dialect: str | None = None,
) -> Generator[list[Viewed]]:
    """Look at all groups, in their order. Their tables can be read in the body.

    `report` is the folder of a report, None without one. The logs are read as `dialect`, None for
    what shipped. Raises as `look` and `read_as`; StorageFailed.
    """
    with _scratch(report) as scratch:
        see = partial(_seen, look=look, dialect=dialect, scratch=scratch)
        if by_ends:
            do = partial(_view, see=see)
            rows = executor.map("look", groups, do, DECIDED, size=size_of, least=lambda _: 1)
        else:
            each = (see(group, executor) for group in groups)
            rows = pa.Table.from_batches(each, DECIDED)
        yield [Viewed(**fields) for fields in handed_in(rows, scratch)]


@contextmanager
def _scratch(report: Path | None) -> Generator[Path]:
    if report is None:  # there is no folder that all see: tables are handed over themselves
        yield _NOWHERE
        return
    make_folder(report, "the report")
    with scratch_in(report.absolute()) as scratch:
        yield scratch


def _view(group: Directories, *, see: Callable[..., pa.RecordBatch]) -> pa.RecordBatch:
    """Return the row of a group, all of it in this thread. Raises Refused for other logs than the
    listed ones.
    """
    check_listed(group.samples)
    return see(group, LocalExecutor(1))


def _seen(
    group: Directories, executor: Executor, *, look: Look, dialect: str | None, scratch: Path
) -> pa.RecordBatch:
    view = look(executor, list(read_as(group.units(), dialect)))
    return hand(group.number, {"totals": view.totals}, view.tables, scratch)


def tables_of(groups: Sequence[Viewed], name: str) -> Iterator[pa.Table]:
    """Yield a table of each group. Raises CorruptPlan, StorageFailed."""
    for one in groups:
        yield one.table(name)
