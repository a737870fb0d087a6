"""Write what was seen into the folders of reports."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkats.errors import UsageError, exists, is_file
from kafkats.flow.viewing import Viewed, tables_of
from kafkats.inspect.options import ProofOptions
from kafkats.plans.facts import (
    SEGMENTS,
    Summary,
    Summed,
    sum_of_summaries,
    table_writer,
    write_segments,
)
from kafkats.plans.files import make_folder, write_json
from kafkats.plans.proof import Proof
from kafkats.plans.run import PURGED, UNDONE, read_run, run_folder_of
from kafkats.result import Proved, Ran, Result

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetWriter


def refuse_to_replace(plan: Path, digest: str) -> None:
    """Check that a plan with `digest` replaces no other one whose run can still be undone.

    Raises UsageError, CorruptPlan, StorageFailed.
    """
    run = run_folder_of(plan)
    if not is_file(run / "run.json", "looking for the run") or read_run(run).digest == digest:
        return
    if not any(exists(run / name, "looking for the run's end") for name in (UNDONE, PURGED)):
        raise UsageError(
            f"is the run of the plan that is here: name another place than {plan} with -o",
            path=run,
        )


def keep_proof(proof: Proof, written: ProofOptions, done: Result) -> None:
    """Note a proof, and the runs that it proved."""
    done.proof = Proved.model_validate(proof.summary())
    done.runs = [] if written.of_plan else [Ran(folder=str(run)) for run in written.of_run]


def keep_views(views: Sequence[Viewed], folder: Path | None) -> dict[str, Any]:
    """Do as `keep_segments`, with facts.SEGMENTS of groups that were looked at."""
    seen: dict[str, Any] = {**sum_of_summaries([view.totals["seen"] for view in views])}
    if folder is None:
        return seen
    write_segments(folder, tables_of(views, "segments"), seen)
    return seen | {"report": str(folder)}


class Read:
    """Segments that are kept in pieces of facts.SEGMENTS."""

    def __init__(self, report: Path | None, writer: ParquetWriter | None) -> None:
        self._report, self._writer, self._sums = report, writer, Summed()

    def keep(self, segments: pa.Table) -> None:
        """Keep a piece. Raises StorageFailed."""
        self._sums.add(segments)
        if self._writer is not None:
            self._writer.write_table(segments)

    @property
    def found(self) -> dict[str, Any]:
        """The summary, and with a folder its path, as `keep_segments` returns them."""
        report = {} if self._report is None else {"report": str(self._report)}
        return {**self.seen, **report}

    @property
    def seen(self) -> Summary:
        """The summary of the segments."""
        return self._sums.summary


@contextmanager
def kept_in(folder: Path | None) -> Generator[Read]:
    """Yield what keeps segments in the folder of a report, if there is one.

    Raises StorageFailed.
    """
    if folder is None:
        yield Read(None, None)
        return
    make_folder(folder, "the report")
    with table_writer(folder / "segments.parquet", SEGMENTS) as writer:
        yield (read := Read(folder, writer))
    write_json(folder / "report.json", read.seen)


def keep_segments(segments: pa.Table, folder: Path | None) -> dict[str, Any]:
    """Return the summary of facts.SEGMENTS; with a folder write both there."""
    with kept_in(folder) as read:
        read.keep(segments)
    return read.found
