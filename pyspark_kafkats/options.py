"""Parse the options of a read. Names are Spark's where its Kafka source has the same option."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from pyspark.sql.types import StructType

from kafkats.errors import UsageError
from kafkats.logdir.strict_json import Json
from kafkats.records.plan import EARLIEST, LATEST, PIECE_BYTES, Offsets, ReadOptions
from kafkats.segment.arrow import COLUMNS, spark_types

OPTIONS: Final = (
    "path",
    "paths",
    "topics",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "columns",
    "includeHeaders",
    "includeControl",
    "isolationLevel",
    "onCorruption",
    "skippedReport",
    "maxPartitionBytes",
)
SPARKS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
OURS: Final = ("timestampMs", "segment", "leaderEpoch", "producerId", "producerEpoch", "sequence")
"""Columns of a read without the option `columns`, in addition to SPARKS."""


class Wanted(NamedTuple):
    """The parsed options of one read."""

    paths: tuple[str, ...]
    options: ReadOptions
    columns: tuple[str, ...]
    control: bool
    skip: bool
    report: str
    """Folder for the report of skipped bytes, or ""."""


def read_options(given: Mapping[str, str]) -> Wanted:
    """Parse the options of one read. Raises UsageError for an unknown option or value."""
    words = _named(given)
    control = _flag(words, "includeControl", default=False)
    begin, end = (
        _parsed(words, name, "parse_time") for name in ("startingTimestamp", "endingTimestamp")
    )
    if begin is not None and end is not None and end < begin:
        raise UsageError("endingTimestamp lies before startingTimestamp")
    skip = _word(words, "onCorruption", {"fail": False, "skip": True})
    if "skippedReport" in words and not skip:
        raise UsageError("skippedReport is of use with onCorruption=skip only")
    return Wanted(
        _paths(words),
        ReadOptions(
            topics=tuple(glob.strip() for glob in words["topics"].split(","))
            if "topics" in words
            else (),
            starting_offsets=_offsets(words, "startingOffsets", EARLIEST),
            ending_offsets=_offsets(words, "endingOffsets", LATEST),
            starting_timestamp=begin,
            ending_timestamp=end,
            committed=_word(
                words, "isolationLevel", {"read_uncommitted": False, "read_committed": True}
            ),
            fail_on_data_loss=_flag(words, "failOnDataLoss", default=True),
            piece_bytes=_bytes(words, "maxPartitionBytes"),
        ),
        _columns(words, control=control),
        control,
        skip,
        words.get("skippedReport", ""),
    )


def check_schema(schema: StructType) -> None:
    """Raise UsageError unless every field of `schema` is one of our columns with its type."""
    types = spark_types()
    for field in schema.fields:
        if field.name not in types:
            raise UsageError(f"there is no column {field.name}; there are {', '.join(types)}")
        if (found := field.dataType.simpleString()) != types[field.name]:
            raise UsageError(f"column {field.name} is {types[field.name]}, not {found}")


def _named(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options under the spelling of OPTIONS; Spark's option names ignore case."""
    names = {name.lower(): name for name in OPTIONS}
    unknown = sorted(name for name in given if name.lower() not in names)
    if unknown:
        raise UsageError(f"there is no option {', '.join(unknown)}; there are {', '.join(OPTIONS)}")
    return {names[name.lower()]: value for name, value in given.items()}


def _paths(words: Mapping[str, str]) -> tuple[str, ...]:
    paths = [words["path"]] if words.get("path") else []
    if "paths" in words:  # Spark passes a list given to load() this way
        listed = _json(words, "paths")
        if not isinstance(listed, list) or not all(isinstance(path, str) for path in listed):
            raise UsageError("paths is not a JSON list of strings")
        paths += map(str, listed)
    if not paths:
        raise UsageError(
            "which log directory? load(PATH) takes log.dirs roots, partition directories and"
            " segments"
        )
    return tuple(path.removeprefix("file://") for path in paths)


def _columns(words: Mapping[str, str], *, control: bool) -> tuple[str, ...]:
    headers = _flag(words, "includeHeaders", default=False)
    if "columns" not in words:
        return (
            *SPARKS,
            *(("headers",) if headers else ()),
            *OURS,
            *(("control",) if control else ()),
        )
    names = [name.strip() for name in words["columns"].split(",")]
    if names == ["*"]:
        names = list(COLUMNS.names)
    known = {name.lower(): name for name in COLUMNS.names}
    unknown = [name for name in names if name.lower() not in known]
    if unknown:
        raise UsageError(
            f"there is no column {', '.join(unknown)}; there are {', '.join(COLUMNS.names)}"
        )
    chosen = dict.fromkeys(known[name.lower()] for name in names)
    return tuple(chosen | dict.fromkeys(("headers",) if headers else ()))


def _offsets(words: Mapping[str, str], name: str, default: int) -> Offsets:
    """Parse `earliest`, `latest`, or {"topic": {"0": 23, "1": -2}}: -2 is earliest, -1 latest."""
    word = words.get(name)
    if word is None or word.strip().lower() in ("earliest", "latest"):
        chosen = {None: default, "earliest": EARLIEST, "latest": LATEST}[
            word and word.strip().lower()
        ]
        if chosen not in (default, LATEST):
            raise UsageError(f"{name} cannot be earliest: nothing would be read")
        return chosen
    content = _json(words, name)
    try:
        offsets = {
            (topic, int(partition)): _offset(offset)
            for topic, of in _object(content).items()
            for partition, offset in _object(of).items()
        }
    except (TypeError, ValueError) as e:
        wanted = 'earliest, latest or JSON like {"topic": {"0": 23, "1": -2}}'
        raise UsageError(f"{name} is not {wanted}: {words[name][:200]}") from e
    return offsets


def _object(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise TypeError(value)
    return value


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST or value >= 2**63:
        raise ValueError(value)
    return value


def _json(words: Mapping[str, str], name: str) -> Json:
    try:
        content: Json = json.loads(words[name])
    except (ValueError, RecursionError) as e:
        raise UsageError(f"{name} is not JSON: {words[name][:200]}") from e
    return content


def _parsed(words: Mapping[str, str], name: str, parser: str) -> int | None:
    """Return the number that a function of kafkats.config reads, None if it is not given."""
    if name not in words:
        return None
    from kafkats.config import values  # it imports pydantic, which takes 0.15 s for every plan

    try:
        number: int = getattr(values, parser)(words[name].strip())
    except ValueError as e:
        raise UsageError(f"{name}: {e}") from e
    return number


def _bytes(words: Mapping[str, str], name: str) -> int:
    size = _parsed(words, name, "parse_size")
    if size is not None and size < 1:
        raise UsageError(f"{name}: {size} is no size")
    return PIECE_BYTES if size is None else size


def _flag(words: Mapping[str, str], name: str, *, default: bool) -> bool:
    return _word(words, name, {"true": True, "false": False}) if name in words else default


def _word(words: Mapping[str, str], name: str, meanings: Mapping[str, bool]) -> bool:
    word = words.get(name, next(iter(meanings))).strip().lower()
    if word not in meanings:
        raise UsageError(f"{name} is {' or '.join(meanings)}, not {words[name]}")
    return meanings[word]
