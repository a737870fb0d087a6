"""Migrations to and from a dialect, in copies that no broker reads: what is checked and proved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths
from kafkats.config.given import Given
from kafkats.config.options import Dialect
from kafkats.errors import Refused, UsageError
from kafkats.generations import INDEX_INTERVAL_BYTES
from kafkats.hashes import algorithm_of, hash_file
from kafkats.migration.options import Back, Step, ToDialect
from kafkats.plans.facts import SEGMENTS
from kafkats.plans.operation import Proving
from kafkats.plans.proof import Proof, writes_of, wrong_files
from kafkats.plans.rows import Item, SegmentRow, segment_rows
from kafkats.segment.reader import open_source
from kafkats_model.index.enriched_index import build_dialect


def check(given: Given) -> None:
    """Check the options that name the dialect, read or written.

    Raises UsageError for options that do not go together, Refused for a dialect where a broker may
    read it.
    """
    asked, source = given.of(ToDialect), given.of(Dialect).dialect
    step, back = given.of(Step), given.of(Back)
    if asked.to and source:
        raise UsageError("--to and --dialect: one side of a migration is a format that shipped")
    if step.ledger or back.only_newer or back.runs:
        raise UsageError("a dialect has no part in a cluster's migration, and none in a rollback")
    if asked.to and not asked.not_for_a_broker:
        raise Refused(
            f"every broker would misread logs of the dialect {asked.to};"
            " if none ever reads these files, in a copy: --not-for-a-broker"
        )


def trusted(segments: pa.Table) -> pa.Table:
    """Return the facts (facts.SEGMENTS) of logs of a dialect, without what was misread in them.

    What `verify` says of their content holds for the format that shipped with the same magic. The
    identities of the files hold. The conversion checks the content.
    """
    rows = segments.filter(pc.greater_equal(segments["base_offset"], 0))
    return pa.Table.from_pylist([_trusted(row) for row in segment_rows(rows)], schema=SEGMENTS)


def _trusted(row: SegmentRow) -> SegmentRow:
    log = row["log"]
    if log is None or row["valid_bytes"] is None:
        return row
    kept = row | {"findings": [], "stop": "", "blocked": "", "valid_bytes": log["size"]}
    if row["settings_from"] == "inferred":  # from an index of the dialect
        kept |= {"settings_from": "default", "index_interval_bytes": INDEX_INTERVAL_BYTES}
    return kept


def prove_dialect(request: Proving) -> Proof:
    """Prove logs of a dialect: each has the planned bytes, an index is that of its log, and removed
    files are gone.

    Raises StorageFailed.
    """
    writes = writes_of(request.plan)
    wrong = wrong_files(request, writes, _reasons)
    reasons = [f"{path}: {why}" for path, why in wrong.items()]
    return Proof(
        SEGMENTS.empty_table(), len(writes), len(writes) - len(wrong), list(wrong), reasons
    )


def _reasons(path: Path, item: Item) -> Iterator[str]:
    if item["action"] == "remove":
        yield from ["is still there"] if path.exists() else []
    elif not path.exists():
        yield "is missing"
    elif item["after_sha256"]:
        with path.open("rb", buffering=0) as file:
            if hash_file(file, algorithm_of(item["after_sha256"], path)) != item["after_sha256"]:
                yield "has other bytes than the plan says"
    else:
        interval = item["index_interval_bytes"]
        with open_source(path.with_suffix(paths.LOG)) as log:
            if path.read_bytes() != build_dialect(
                log, item["base_offset"], index_interval_bytes=interval
            ):
                yield "is not the index of its log"
