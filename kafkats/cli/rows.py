"""Rows of a request under way, as a command shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkats.cli.making import follows, show_plan_rows, together
from kafkats.cli.next_steps import Defects, defects_in
from kafkats.cli.session import session
from kafkats.cli.streams import say, warn
from kafkats.cli.terminal import (
    all_but,
    export_sentences,
    first_of,
    problem_sentences,
    proof_sentences,
    say_sentence,
    show_rows,
    unread_sentences,
)
from kafkats.clock import utc_text
from kafkats.findings import DEFECTS, SEVERITIES, severity_word
from kafkats.flow import Show

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.flow.applying import Applied, Ended
    from kafkats.lookup.exports import Export
    from kafkats.lookup.marks import Mark
    from kafkats.migration.census import Counts
    from kafkats.migration.certificate import Certificate, CertifiedRow
    from kafkats.migration.recheck import Recheck
    from kafkats.plans.plan import AnyPlan
    from kafkats.plans.proof import Proof
    from kafkats.recovery.facts import BrokerStart

_RAN: Final = (
    "outcome",
    "action",
    "partition_dir",
    "files",
    "file",
    "after_bytes",
    "reason",
    "error",
)
_FINDING: Final = ("severity", "kind", "partition_dir", "file", "position", "reason")
_FORMATS: Final = (
    "log_dir",
    "topic",
    "magic",
    "codec",
    "timestamp_type",
    "problem",
    "segments",
    "bytes",
    "share",
    "batches",
    "records",
)
_ZERO_COPY: Final = (
    "log_dir",
    "topic",
    "bytes",
    "fetch_0_1_converted",
    "fetch_2_3_converted",
    "zstd_bytes",
)
_WHERE: Final = ("partition_dir", "base_offset")
_BY_MAGIC: Final = tuple(
    f"magic_{magic}_{what}" for what in ("batches", "bytes") for magic in range(3)
)
_ANSWERS: Final = (
    "partition_dir",
    "target",
    "offset",
    "timestamp",
    "reason",
    "kafka_offset",
    "differs",
    "evidence",
)
_CHANGED: Final = ("what", "log_dir", "partition_dir", "base_offset", "was", "now", "breaks")
_ENDED: Final = {
    "undo": ("outcome", "partition_dir", "files", "error"),
    "purge": ("outcome", "partition_dir", "files", "freed_bytes", "error"),
}


class Rows(Show):
    """Shows rows on the terminal, and keeps what the sentences need: `said` are those that are not
    made from the result.

    `files`: every file. Without `remarks` of the findings only damage and danger are shown.
    """

    def __init__(self, *, files: bool = False, remarks: bool = False) -> None:
        self.as_json = session().as_json
        self.files, self.remarks = files, remarks
        self.planned_in: tuple[AnyPlan, Sequence[str], Path] | None = None
        self.said: list[str] = []
        self.plan: AnyPlan | None = None
        self.defects: Defects | None = None
        """What a verify has found."""
        self.lacking = 0
        """Partitions with missing records."""
        self._unread: list[str] = []
        self.untold = 0

    @property
    def _for_people(self) -> bool:
        """Whether a person reads the rows in a shell."""
        return not self.as_json and session().front.most_rows is None

    def planned(self, plan: AnyPlan, sentences: Sequence[str], folder: Path) -> None:
        show_plan_rows(plan, files=self.files)
        self.planned_in = plan, sentences, folder

    def applied(self, plan: AnyPlan, applied: Applied) -> None:
        every_file = self.as_json or self.files
        for actions in applied.actions:
            shown = [
                row
                for row in actions.to_pylist()
                if self.as_json or (row["outcome"] != "already" and not follows(plan, row))
            ]
            show_rows(together(plan, shown, every_file=every_file), _RAN)
        self.said = proof_sentences(applied.proof) if applied.proof else []
        self.plan = plan

    def ended(self, verb: str, ended: Ended) -> None:
        show_rows(ended.rows, _ENDED[verb])

    def started(self, start: BrokerStart, said: Sequence[str]) -> None:
        from kafkats.recovery.rows import start_row

        if self.as_json:
            show_rows([start_row(one) for one in start.partitions], ())
        self.said = list(said)

    def verified(self, segments: pa.Table) -> None:
        from kafkats.plans.facts import all_findings
        from kafkats.plans.missing import missing_records

        found = all_findings(segments)
        before = self.defects or Defects()
        self.defects = defects_in(segments, found).after(before)
        self.lacking += len(missing_records(segments))
        shown = sorted(
            (f for f in found if self.remarks or self.as_json or f["severity"] in DEFECTS),
            key=lambda f: -SEVERITIES.index(f["severity"]),
        )
        worded = [{**row, "severity": severity_word(row["severity"])} for row in shown]
        show_rows(shown if self.as_json else worded, _FINDING)

    def proof(self, proof: Proof) -> None:
        self.said = proof_sentences(proof)

    def listed(self, segments: pa.Table, rows: Sequence[Mapping[str, Any]], by: str) -> None:
        columns = list(rows[0]) if rows else []
        if by == "partition":
            columns = [name for name in columns if name != "partitions"]
        show_rows(rows, columns)
        self._unread += unread_sentences(segments)
        self.said = first_of(self._unread)

    def formats(self, rows: Sequence[Mapping[str, Any]]) -> None:
        show_rows(rows, _worth_showing(_FORMATS, rows))

    def counted(self, census: Counts) -> None:
        from kafkats.migration.census import ON_4X

        losing = [row for row in census.zero_copy if row["fetch_0_1_converted"]]
        if self._for_people and losing:
            say("")
            say_sentence(
                "bytes that a broker of 0.10 to 3.9 converts, instead of sending them from the"
                " file, for old fetches:"
            )
        show_rows(losing, _worth_showing(_ZERO_COPY, losing))
        if self._for_people and losing:
            say_sentence(ON_4X)
            say("")
        self.said = problem_sentences(census.problems)

    def certified(self, certificate: Certificate) -> None:
        show_rows(certificate.refusals, (*_WHERE, "kind", "reason"))
        outside = certificate.exceptions
        show_rows(outside if self.as_json else _by_magic(outside), (*_WHERE, *_BY_MAGIC))

    def rechecked(self, again: Recheck) -> None:
        rows = [one._asdict() for one in again.differences]
        show_rows(rows, _CHANGED)

    def looked_up(self, found: pa.Table) -> None:
        rows = found.to_pylist()
        unread = [row for row in rows if row["reason"] == "unreadable"]
        self.untold = sum(bool(row["partition_dir"]) for row in unread)
        same = "" if any(row["differs"] for row in rows) else "kafka_offset"
        columns = [name for name in _ANSWERS if name != same]
        show_rows([_timed(row) for row in rows], columns)

    def marks(self, marks: Sequence[Mark]) -> None:
        rows = [mark._asdict() for mark in marks]
        shown = all_but(rows, "broker", "gone", "word")
        columns = ["target" if name == "target_ms" else name for name in shown]
        show_rows([_timed(row) for row in rows], columns)

    def exported(self, made: Export, output: Path | None) -> None:
        if output is None:
            say(made.text.removesuffix("\n"))
        for sentence in export_sentences(made, output):
            warn(sentence)


def _timed(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with its times as text, too: the target may be a word of Kafka's tools."""
    at = row["timestamp"]
    return {
        **row,
        "target": row["word"] or utc_text(row["target_ms"]),
        "timestamp_utc": utc_text(at) if at is not None and at != -1 else "",
    }


def _worth_showing(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Without the columns that say nothing here: one log dir, no problems."""
    silent = {name for name in ("log_dir", "problem") if len({row.get(name) for row in rows}) <= 1}
    return [name for name in columns if name not in silent]


def _by_magic(rows: Sequence[CertifiedRow]) -> list[dict[str, object]]:
    """Return segments with a number in each column: batches and bytes of magic 0, 1 and 2."""
    return [
        dict(row) | dict(zip(_BY_MAGIC, (*row["magic_batches"], *row["magic_bytes"]), strict=True))
        for row in rows
    ]
