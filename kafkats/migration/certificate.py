"""A certificate: a statement about the message formats on a volume, with a digest of what was seen.

A certificate is a folder: `certificate.json` (statement, options, totals, digest) and
`segments.parquet` (one row per segment). The digest covers the header and the rows, as a plan's
does (`plan.digest_of`), and not the time of writing. Each row has the segment's fingerprint, so
other batches give another digest even if size and mtime are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, TypedDict, TypeGuard

import pyarrow as pa

from kafkats import __version__
from kafkats.errors import CorruptPlan, UsageError
from kafkats.logdir.strict_json import Json
from kafkats.plans.columns import schema_of
from kafkats.plans.facts import write_table
from kafkats.plans.files import write_json
from kafkats.plans.plan import FORMAT, digest_of, make_sealed, read_sealed
from kafkats.plans.rows import ByMagic, KeyRow, LocatedFinding
from kafkats.text import Flag

MAGICS: Final = range(3)


class CertifiedRow(KeyRow, total=False):
    """One segment of a certificate."""

    next_offset: int  # the statement covers offsets below this one
    active: bool
    live: bool  # a broker held the directory and wrote to this segment
    log_bytes: int
    mtime_ns: int
    inode: int
    bytes: int  # up to the end of the last batch
    batches: int
    magic_bytes: ByMagic
    magic_batches: ByMagic
    # 16 hex digits over offset, size, checksum and magic of every batch
    fingerprint: str


ROWS: Final = schema_of(CertifiedRow)


class Totals(TypedDict):
    """The totals of a certificate; those by magic are lists of three."""

    segments: int
    partitions: int
    bytes: int
    batches: int
    magic_bytes: list[int]
    magic_batches: list[int]
    live_segments: int


class Header(TypedDict):
    """`certificate.json` without digest and time."""

    format: int
    kafkats: str
    statement: str
    options: dict[str, Any]  # CertifyOptions
    totals: Totals


@dataclass(frozen=True)
class CertifyOptions:
    """The scope of a certificate: `log_dirs` as list_units takes them, and one or both bounds.

    Raises UsageError without a bound, or for a bound that is no magic.
    """

    log_dirs: tuple[str, ...]
    topics: str = "*"
    min_magic: int | None = None
    max_magic: int | None = None
    deep: bool = False

    def __post_init__(self) -> None:
        bounds = [magic for magic in (self.min_magic, self.max_magic) if magic is not None]
        if not bounds or any(magic not in MAGICS for magic in bounds):
            raise UsageError(
                "a certificate needs ",
                Flag("--min-magic"),
                " or ",
                Flag("--max-magic"),
                ": 0, 1 or 2",
            )

    @property
    def claim(self) -> str:
        """The claim about magics, without counts of what was seen."""
        below = [] if self.min_magic is None else [f"nothing below magic {self.min_magic}"]
        above = [] if self.max_magic is None else [f"nothing above magic {self.max_magic}"]
        return ", ".join(below + above)

    def allows(self, magic: int) -> bool:
        """Return whether this magic lies within the bounds."""
        return (
            (self.min_magic or 0)
            <= magic
            <= (MAGICS[-1] if self.max_magic is None else self.max_magic)
        )

    def breaks(self, magic_batches: Sequence[int]) -> int:
        """Return how many of these batches per magic lie outside the bounds."""
        return sum(count for magic, count in enumerate(magic_batches) if not self.allows(magic))


@dataclass(frozen=True)
class Certificate:
    """A statement about segments.

    `header` has statement, options and totals. `segments` is a table of ROWS, sorted. `digest`
    covers both. The statement is certified only without `exceptions` (segments with batches outside
    the bounds) and without `refusals` (findings: unreadable or corrupt files).
    """

    header: Header
    segments: pa.Table
    digest: str
    exceptions: tuple[CertifiedRow, ...] = ()
    refusals: tuple[LocatedFinding, ...] = ()

    @property
    def certified(self) -> bool:
        return not self.exceptions and not self.refusals

    @property
    def statement(self) -> str:
        return self.header["statement"]

    @property
    def options(self) -> CertifyOptions:
        log_dirs, *others = (self.header["options"][one.name] for one in fields(CertifyOptions))
        return CertifyOptions(tuple(log_dirs), *others)


def seal(
    statement: str, options: CertifyOptions, totals: Totals, segments: pa.Table
) -> Certificate:
    """Return the certificate, with its digest, for a statement about `segments` (ROWS, sorted)."""
    log_dirs = [str(Path(log_dir).absolute()) for log_dir in options.log_dirs]
    header: Header = {
        "format": FORMAT,
        "kafkats": __version__,
        "statement": statement,
        "options": asdict(options) | {"log_dirs": log_dirs},
        "totals": totals,
    }
    return Certificate(header, segments, digest_of(header, segments))


def write_certificate(certificate: Certificate, folder: Path, *, at: str) -> None:
    """Write the certificate's folder. The digest does not cover `at` (ISO 8601).

    Raises UsageError for an uncertified statement, and when `folder` is no certificate or lies in a
    log directory; StorageFailed.
    """
    if not certificate.certified:
        raise UsageError(certificate.statement, path=folder)
    make_sealed(folder, "certificate")
    write_table(folder / "segments.parquet", certificate.segments)
    write_json(
        folder / "certificate.json",
        {**certificate.header, "digest": certificate.digest, "at": at},
    )


def read_certificate(folder: Path) -> Certificate:
    """Read a certificate's folder and check its digest.

    Raises CorruptPlan when it is incomplete, of another format, or was edited; StorageFailed.
    """
    header, segments, digest = read_sealed(folder, "certificate", ("segments", ROWS), ("at",))
    if not _is_header(header):
        raise CorruptPlan("no options in it", path=folder)
    certificate = Certificate(header, segments, digest)
    try:
        options = certificate.options
    except (KeyError, TypeError, ValueError, UsageError) as e:
        raise CorruptPlan(f"no options in it: {e}", path=folder) from e
    texts = (header.get("statement"), options.topics, *options.log_dirs)
    listed = isinstance(header["options"]["log_dirs"], list)
    if not listed or not all(isinstance(text, str) for text in texts):
        raise CorruptPlan("its statement, topics or log directories are no texts", path=folder)
    if any(segments[name].null_count for name in ROWS.names):
        raise CorruptPlan("a segment has an empty column", path=folder)
    if any(options.breaks(counts) for counts in segments["magic_batches"].to_pylist()):
        raise CorruptPlan("its segments contradict its statement", path=folder)
    return certificate


def _is_header(content: Mapping[str, Json]) -> TypeGuard[Header]:
    return isinstance(content.get("options"), dict)
