"""Write what was seen into the folders of reports and certificates."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkats.inspect.options import ProofOptions
from kafkats.lookup.exports import Export
from kafkats.migration.census import summarize
from kafkats.migration.certificate import Certificate, write_certificate
from kafkats.plans.facts import summary, write_report, write_table
from kafkats.plans.files import make_folder, write_text
from kafkats.plans.proof import Proof
from kafkats.result import Certified, Proved, Ran, Result


def keep_census(table: pa.Table, folder: Path) -> dict[str, Any]:
    """Write census.CENSUS into the folder of a report. Return bytes and batches by magic, and the
    folder. Raises StorageFailed.
    """
    make_folder(folder, "the report")
    write_table(folder / "census.parquet", table)
    return dict(summarize(table)) | {"report": str(folder)}


def keep_certificate(certificate: Certificate, folder: Path | None) -> Certified:
    """Write the certificate, if there is one and a folder for it. Raises StorageFailed."""
    written = folder is not None and certificate.certified
    if folder is not None and written:
        at = datetime.now(tz=UTC).isoformat(timespec="seconds")
        write_certificate(certificate, folder, at=at)
    return Certified(
        folder=str(folder) if written else "",
        certified=certificate.certified,
        statement=certificate.statement,
        digest=certificate.digest,
        exceptions=len(certificate.exceptions),
        refusals=len(certificate.refusals),
        min_magic=certificate.options.min_magic,
        max_magic=certificate.options.max_magic,
    )


def keep_proof(proof: Proof, written: ProofOptions, done: Result) -> None:
    """Note a proof, and the runs that it proved."""
    done.proof = Proved.model_validate(proof.summary())
    done.runs = [] if written.of_plan else [Ran(folder=str(run)) for run in written.of_run]


def keep_export(made: Export, output: Path | None) -> None:
    """Write an export, if there is a file for it. Raises UsageError, StorageFailed."""
    if output is not None:
        make_folder(output.parent, "the export")
        write_text(output, made.text)


def keep_segments(segments: pa.Table, folder: Path | None) -> dict[str, Any]:
    """Return the summary of facts.SEGMENTS; with a folder write both there."""
    seen: dict[str, Any] = {**summary(segments)}
    if folder is None:
        return seen
    write_report(folder, segments, seen)
    return seen | {"report": str(folder)}
