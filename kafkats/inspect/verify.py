"""Verify: find and classify every defect of every segment, and compute a rebuild of its indexes.

`verify_unit` checks one unit in any process that sees the files. It takes no lock and never writes,
so it works beside a running broker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from kafkats import paths
from kafkats.config.policy import Policy
from kafkats.config.settings import TopicSettings
from kafkats.errors import KafkatsError, Vanished, storage
from kafkats.evidence.judging import directory_evidence, segment_evidence, told_at
from kafkats.evidence.looking import epochs_of
from kafkats.evidence.replay import replay_findings
from kafkats.findings import KINDS, Finding, failure
from kafkats.generations import RULES, Rule
from kafkats.index import txn_index
from kafkats.index.build import Built
from kafkats.index.check import SegmentCheck, check_segment
from kafkats.index.infer import DEFAULT, INFERRED, infer_interval
from kafkats.index.structure import examine_offset_index
from kafkats.inspect.torn_tails import MARKED_CLEAN, is_marked_clean
from kafkats.logdir.partition import scan_partition
from kafkats.logdir.smallfiles import SmallFiles, check_small_files, list_small_files
from kafkats.plans.columns import batch_of
from kafkats.plans.facts import SEGMENTS, with_facts
from kafkats.plans.rows import SegmentRow
from kafkats.plans.settling import settled_row
from kafkats.plans.units import Unit, unit_columns
from kafkats.segment.facts import SegmentFacts
from kafkats.segment.reader import open_source

_ASKED_NEIGHBOURS: Final = 4
_INDEXES: Final = paths.INDEX_KINDS[:2]


@dataclass(frozen=True)
class VerifyOptions:
    """`rule` is the generation to compare with. The policy gives the topics' index settings."""

    rule: str = "last-offset"
    deep: bool = False
    policy: Policy = field(default_factory=Policy.model_construct)
    held: bool = False
    """Whether a lock keeps brokers out meanwhile."""
    _of_topics: dict[str, TopicSettings] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def settings(self, partition_dir: str) -> TopicSettings:
        """Return the settings of a partition's topic. They are found once, not for each segment."""
        topic = paths.partition_name(partition_dir).topic
        known = self._of_topics.get(topic)
        if known is None:
            known = self._of_topics[topic] = self.policy.settings(topic)
        return known


def verify_unit(unit: Unit, options: VerifyOptions) -> pa.RecordBatch:
    """Check one unit. Return its row of facts.SEGMENTS, none for a directory without findings.

    An unreadable file becomes a finding, not an error.
    """
    return batch_of(verified_rows(unit, options), SEGMENTS)


def verified_rows(unit: Unit, options: VerifyOptions) -> list[SegmentRow]:
    """Check one unit, as `verify_unit`. Return its row."""
    of_segment, of_directory = (
        partial(_segment, options=options),
        partial(_directory, options=options),
    )
    return settled_row(unit, of_segment, of_directory)


def _directory(unit: Unit, options: VerifyOptions) -> list[Finding]:
    return told_at((*unit.findings, *_small_files(unit, deep=options.deep)), deep=options.deep)


def _small_files(unit: Unit, *, deep: bool) -> tuple[Finding, ...]:
    """Return findings about epochs, metadata, snapshots and aborted transactions."""
    if not unit.partition_dir or any(f.kind in ("vanished", "unreadable") for f in unit.findings):
        return ()
    directory = unit.directory
    try:
        listed = unit.claims.small_files if unit.claims else None
        files = list_small_files(directory) if listed is None else listed
        evidence = directory_evidence(directory, unit.claims) if unit.claims else ()
        replayed = (
            replay_findings(scan_partition(directory), unit.claims, epochs_of(directory))
            if deep and unit.claims
            else ()
        )
        found = (*check_small_files(directory, files), *_transactions(directory, files))
        return (*found, *evidence, *replayed)
    except KafkatsError as e:
        return (failure(unit.partition_dir, e),)


def _transactions(directory: Path, files: SmallFiles) -> Iterator[Finding]:
    for name in files.transactions:
        yield from txn_index.check(directory / name, int(name[:20]))


def _segment(unit: Unit, options: VerifyOptions) -> tuple[SegmentRow, list[Finding]]:
    """Return the row of facts.SEGMENTS without findings, and the findings."""
    settings = options.settings(unit.partition_dir)
    log = unit.log.name
    row = unit_columns(unit, options.rule)
    try:
        check = _check(unit, settings, options)
        links = _links(unit.log)
    except Vanished as e:
        findings = [failure(log, e)]
    except KafkatsError as e:
        findings = [failure(Path(e.path).name if e.path else log, e)]
    else:
        row = _with_check(row, check)
        if links:  # a rebuild would replace the link and leave its target
            row["blocked"] = f"the {' and '.join(links)} is a symbolic link"
        evidence = evidence_of(unit, check.facts, check.findings, settings)
        findings = told_at(
            (*_in_context(unit, check, RULES[options.rule]), *evidence), deep=options.deep
        )
    return row, findings


def _links(log: Path) -> list[str]:
    """Return the kinds of indexes that are symbolic links. Raises StorageFailed."""
    with storage(log.parent, "looking for symbolic links"):
        return [kind for kind in _INDEXES if log.with_suffix(kind).is_symlink()]


def evidence_of(
    unit: Unit, facts: SegmentFacts, found: Iterable[Finding], settings: TopicSettings
) -> Iterator[Finding]:
    """Yield what other files state against the segment (see `evidence.judging`)."""
    if unit.claims is None:
        return iter(())
    tiered = unit.claims.tiered or bool(settings.remote_storage_enable)
    claims = unit.claims if tiered == unit.claims.tiered else unit.claims._replace(tiered=tiered)
    compacted = "compact" in (settings.cleanup_policy or ())
    return segment_evidence(
        unit.directory,
        claims,
        facts,
        found,
        next_base_offset=unit.next_base_offset,
        compacted=compacted,
    )


def _check(unit: Unit, settings: TopicSettings, options: VerifyOptions) -> SegmentCheck:
    def check(interval: int | None) -> SegmentCheck:
        return check_segment(
            unit.log,
            rule=RULES[options.rule],
            index_interval_bytes=interval,
            segment_index_bytes=settings.segment_index_bytes,
            deep=options.deep,
            active=unit.active,
            live=unit.live or not unit.clean,
            held=options.held,
            next_base_offset=None if unit.active else unit.next_base_offset,
        )

    checked = check(settings.index_interval_bytes)
    if checked.interval_from != DEFAULT or not (
        checked.built.offset_index or checked.facts.batches > 1
    ):
        return checked
    # This segment's index does not show the interval. Its neighbours have the same topic setting.
    with storage(unit.directory, "looking at it"):
        mtime_ns = unit.directory.stat().st_mtime_ns
    beside = interval_of_partition(unit.directory, mtime_ns)
    if beside in (None, checked.index_interval_bytes):
        return checked
    return replace(check(beside), interval_from=INFERRED)


@lru_cache(maxsize=64)
def interval_of_partition(directory: Path, mtime_ns: int) -> int | None:
    """Return index.interval.bytes, inferred from the fullest offset indexes there, or None.

    `mtime_ns` is the directory's: a cached answer is valid only as long as its files are the same.
    """
    # By name, too: the order of a listing differs by file system, and changes with an undo.
    indexes = sorted(
        directory.glob(f"*{paths.OFFSET_INDEX}"), key=lambda index: (-_size(index), index.name)
    )
    for index in indexes[:_ASKED_NEIGHBOURS]:
        log = index.with_suffix(paths.LOG)
        name = paths.parse_segment_file(log.name)
        if name is None or not _size(log):
            continue
        with suppress(KafkatsError), open_source(log) as source:
            interval, origin = infer_interval(
                None, examine_offset_index(index), source, name.base_offset
            )
            if origin == INFERRED:
                return interval
    return None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _why(built: Built) -> str:
    """Return why no index can be built, "" when it can."""
    if not built.blocked:
        return ""
    reason = built.blocked_reason or KINDS[built.blocked][1]
    return f"{built.blocked}: {reason}; recovery itself would fail or empty the segment"


def _with_check(row: SegmentRow, check: SegmentCheck) -> SegmentRow:
    built = check.built
    return {
        **with_facts(row, check.facts),
        "offset_index": check.offset_index,
        "time_index": check.time_index,
        "index_interval_bytes": check.index_interval_bytes,
        "segment_index_bytes": check.segment_index_bytes,
        "settings_from": check.interval_from,
        "blocked": _why(built),
        "rebuilt_index_bytes": len(built.offset_index),
        "rebuilt_index_sha256": hashlib.sha256(built.offset_index).hexdigest(),
        "rebuilt_timeindex_bytes": len(built.time_index),
        "rebuilt_timeindex_sha256": hashlib.sha256(built.time_index).hexdigest(),
    }


def _in_context(unit: Unit, check: SegmentCheck, rule: Rule) -> Iterator[Finding]:
    """Yield the segment's own findings, adjusted to its place in the directory."""
    expected = unit.time_index_expected or any(check.facts.magics[1:]) or rule.mtime_entry
    for finding in check.findings:
        if (
            finding.kind == "missing-index"
            and finding.file.endswith(paths.TIME_INDEX)
            and not expected
        ):
            continue
        if finding.kind == "moving-tail" and not unit.live:
            # No broker is writing: a killed broker left this, and its recovery will cut it.
            yield finding._replace(kind=str(check.facts.stop))
        elif is_marked_clean(unit, finding, check.facts):
            yield finding._replace(
                kind=MARKED_CLEAN,
                reason=f"{finding.reason}; the broker's next start does not cut it: it can set"
                f" the log end back to {unit.base_offset} and give out offsets again, or append"
                " behind it, where no reader finds the records; kafkats plan recover cuts it, and"
                f" removes {paths.CLEAN_SHUTDOWN} if it is not true: do not remove it yourself",
            )
        else:
            yield finding
    yield from overlap_of(unit, check.facts)


def overlap_of(unit: Unit, facts: SegmentFacts) -> Iterator[Finding]:
    """Yield the finding for a segment that ends above the next one's base offset."""
    if not unit.active and facts.last_offset >= unit.next_base_offset:
        yield Finding(
            "overlap",
            unit.log.name,
            "ends above the next segment's base offset",
            expected=f"below {unit.next_base_offset}",
            found=str(facts.last_offset),
        )
