"""Look up the offsets at given times for many partitions, with the reason and a broker's answer.

The answer is `exact` (the default), `safe`, or a broker's own (`kafka`), as requested. The row also
has the broker's answer and, if that differs from the exact one, why. A partition that cannot be
searched gives rows with the reason `unreadable`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkats import paths, search
from kafkats.config.policy import Policy
from kafkats.config.values import magic_of, parse_time
from kafkats.counts import counted
from kafkats.errors import KafkatsError, UsageError
from kafkats.generations import DEFAULT_SEARCH_RULE, INDEX_INTERVAL_BYTES, SEARCH_RULES
from kafkats.logdir.location import locate
from kafkats.logdir.steady import steady
from kafkats.logdir.volume import refuse_copies
from kafkats.lookup.options import HIGH_WATERMARKS, HOW
from kafkats.plans.columns import batch_of
from kafkats.plans.dialect_hook import dialect as dialect_of
from kafkats.plans.dialects import read_as
from kafkats.plans.facts import DIRECTORY
from kafkats.plans.rows import grouped
from kafkats.plans.units import Unit, list_units, unseen
from kafkats.search import PartitionUnit
from kafkats.text import Flag, Text

LOOKUP: Final = pa.schema([
    *DIRECTORY,
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("target_ms", pa.int64()),
    ("offset", pa.int64()),        # -1: none
    ("timestamp", pa.int64()),     # of the record, ms; -1: none
    ("leader_epoch", pa.int32()),
    ("reason", pa.string()),       # search.REASONS
    ("segment", pa.int64()),       # base offset of the segment that decided; -1: none
    ("evidence", pa.string()),     # what decided, as text
    ("depth", pa.string()),        # of the exact search: tail, full, deep
    ("kafka_offset", pa.int64()),  # the answer of a broker of `rule`
    ("kafka_reason", pa.string()),
    ("rule", pa.string()),         # generations.SEARCH_RULES
    # why the broker's answer is not the exact one (search.compare), "" if it is
    # no-such-word: this generation takes the word's number for a time
    # last-of-batch: up to 3.7, -3 gives the last offset of the batch with the maximum
    ("differs", pa.string()),
    # latest, earliest, ..., "" for an instant; target_ms is then its number in Kafka
    ("word", pa.string()),
    # offsets from the checkpointed high watermark on; 0 without one
    ("above_high_watermark", pa.int64()),
])  # fmt: skip
"""One row per partition and time."""

_NAMED: Final = 5
_WORDS: Final = {word.text: word for word in search.Word}
"""Words by their names in Kafka's own tools."""


def target_of(text: str, option: str) -> search.Target:
    """Return the word of this name, else the instant: a number is epoch ms, also -1.

    Raises UsageError, which names the `option`.
    """
    if text in _WORDS:
        return _WORDS[text]
    try:
        return parse_time(text)
    except ValueError as e:
        raise UsageError(f"{option}: {e}, or one of {', '.join(_WORDS)}") from None


@dataclass(frozen=True)
class LookupOptions:
    """Options of a search.

    `margin_ms` is how late records may have come, for `safe`. `now_ms` is the clock for rule 0.8.
    The policy gives the topics' message.format.version (below 0.10 brokers refuse to search by
    time) and index.interval.bytes. With a dialect every record is read, at any depth.
    """

    how: str = "exact"
    rule: str = DEFAULT_SEARCH_RULE.name
    depth: str = "tail"
    margin_ms: int = 0
    now_ms: int = 2**63 - 1
    policy: Policy = field(default_factory=Policy.model_construct)
    dialect: str | None = None

    def __post_init__(self) -> None:
        if self.dialect and dialect_of(self.dialect).find_exact is None:
            raise UsageError(f"no search in logs of the dialect {self.dialect!r}")
        if self.dialect and self.how != "exact":
            raise UsageError(f"the dialect {self.dialect} has the exact answers only")
        for value, allowed, what in (
            (self.how, HOW, "way to look up"),
            (self.rule, SEARCH_RULES, "search rule"),
            (self.depth, search.DEPTHS, "depth to search at"),
        ):
            if value not in allowed:
                raise UsageError(f"no {what} {value!r}; there are {', '.join(allowed)}")
        if self.margin_ms < 0:
            raise UsageError(f"a margin of {self.margin_ms} ms: it must not be negative")


def lookup_partitions(
    log_dirs: Iterable[str | Path],
    *,
    topics: str = "*",
    high_watermark: str = "checkpoint",
    dialect: str | None = None,
    named: Collection[str] = (),
) -> Iterator[PartitionUnit]:
    """Yield the partitions that brokers serve from these roots, directories or segments.

    `high_watermark` is one of HIGH_WATERMARKS, `dialect` that of the logs. `named` is that of
    `volume.refuse_copies`. Raises UsageError, Refused for logs of another dialect and for copies,
    and as `units.list_units`.
    """
    if high_watermark not in HIGH_WATERMARKS:
        raise UsageError(
            f"no high watermark {high_watermark!r}; there are {', '.join(HIGH_WATERMARKS)}"
        )
    refuse_copies((str(place.root) for place in map(locate, log_dirs) if place.root), named)
    for unit in _listed(read_as(list_units(log_dirs, topics=topics), dialect)):
        yield unit if high_watermark == "checkpoint" else replace(unit, high_watermark=None)


def _listed(units: Iterable[Unit]) -> Iterator[PartitionUnit]:
    for _, group in groupby(units, key=lambda unit: (unit.log_dir, unit.partition_dir)):
        about = next(group)
        segments = (unit for unit in chain([about], group) if unit.base_offset >= 0)
        yield from _partition(about, next(segments, about))


def _partition(about: Unit, facts: Unit) -> Iterator[PartitionUnit]:
    """Yield the partition of a directory that brokers serve. `facts` is its first segment."""
    name = paths.parse_partition(about.partition_dir)
    if name is not None and name.state:
        return  # a copy in progress: another directory is served
    hidden = "; ".join(f"{finding.file}: {finding.reason}" for finding in unseen(about))
    if not about.partition_dir and not hidden:
        return
    yield PartitionUnit(
        about.log_dir,
        about.partition_dir,
        max(facts.log_start_offset, 0),
        facts.high_watermark if facts.high_watermark >= 0 else None,
        facts.clean,
        facts.live,
        hidden,
    )


def partition_count(units: Iterable[PartitionUnit]) -> int:
    """Return how many of the units are partitions."""
    return sum(bool(unit.partition_dir) for unit in units)


def unread_sentences(units: Iterable[PartitionUnit]) -> list[str]:
    """Return a sentence for each log directory with files that cannot be read, and why."""
    return [f"not read: {unit.log_dir}: {unit.hidden}" for unit in units if not unit.partition_dir]


def limits(partitions: Iterable[PartitionUnit]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the current log start and log end by topic and partition, for `marks.read_marks`.

    -1 for an unreadable end. Of several replicas the highest values count: a lagging replica still
    has what the others deleted.
    """
    limits_of: dict[tuple[str, int], tuple[int, int]] = {}
    for unit in partitions:
        name = paths.parse_partition(unit.partition_dir)
        if name is not None:
            start, end = _limits(unit)
            key = name.topic, name.partition
            most = limits_of.get(key, (-1, -1))
            limits_of[key] = max(start, most[0]), max(end, most[1])
    return limits_of


def _limits(unit: PartitionUnit) -> tuple[int, int]:
    start = unit.log_start_offset
    with (
        suppress(KafkatsError),
        search.Partition(unit.path, log_start_offset=start, live=unit.live) as partition,
    ):
        start = partition.log_start_offset
        return start, partition.log_end_offset
    return start, -1


def lookup_unit(
    unit: PartitionUnit, targets: Sequence[search.Target], options: LookupOptions | None = None
) -> pa.RecordBatch:
    """Return rows of LOOKUP for one partition: one per target (instant in ms, or word), in order.

    An unreadable partition gives rows, not an error. A partition that a running broker deleted
    meanwhile has no rows.
    """
    options = options or LookupOptions()
    answers = steady(
        unit.path,
        lambda: _answers(unit, targets, options),
        lambda answers: any("unreadable" in (a.chosen.reason, a.kafka.reason) for a in answers),
        live=unit.live,
        any_change=True,
    )
    rows = [_row(unit, answer, options) for answer in answers or []]
    return batch_of(rows, LOOKUP)


def above_high_watermark(rows: pa.Table) -> dict[str, int]:
    """Return, by partition directory, how many offsets lie above the checkpointed high watermark.

    Only partitions with such offsets are included. `rows` are of LOOKUP.
    """
    rows = rows.filter(pc.greater(rows["above_high_watermark"], 0))
    counts = grouped(
        rows, ["log_dir", "partition_dir"], [("above_high_watermark", "max")]
    ).to_pylist()
    twice = len({row["partition_dir"] for row in counts}) < len(counts)
    return {
        str(Path(row["log_dir"], row["partition_dir"])) if twice else row["partition_dir"]: row[
            "above_high_watermark_max"
        ]
        for row in counts
    }


def above_sentences(above: Mapping[str, int]) -> list[str]:
    """Return the sentence about these counts of `above_high_watermark`."""
    if not above:
        return []
    most = sorted(above, key=lambda name: (-above[name], name))[:_NAMED]
    more = ", ..." if len(above) > _NAMED else ""
    counts = ", ".join(f"{name} {above[name]}" for name in most) + more
    return [
        Text(
            f"above the checkpointed high watermark: {counted(sum(above.values()), 'offset')}"
            f" ({counts}). Brokers write it every 5 s, so it is old after a kill. ",
            Flag("--high-watermark"),
            " log-end counts every record",
        )
    ]


class _Answers(NamedTuple):
    """The requested answer (`options.how`) for one target, and the broker's."""

    chosen: search.Answer
    kafka: search.Answer
    differs: str = ""
    above_high_watermark: int = 0


def _answers(
    unit: PartitionUnit, targets: Sequence[search.Target], options: LookupOptions
) -> list[_Answers]:
    if unit.hidden:
        return _all_unreadable(targets, unit.hidden)
    name = paths.partition_name(unit.partition_dir)
    settings = options.policy.settings(name.topic)
    interval, version = settings.index_interval_bytes, settings.message_format_version
    try:
        partition = search.open_unit(
            unit,
            searchable=version is None or magic_of(version) > 0,
            index_interval_bytes=INDEX_INTERVAL_BYTES if interval is None else interval,
        )
    except KafkatsError as e:
        return _all_unreadable(targets, str(e))
    with partition:
        above = _above_high_watermark(partition)
        return [
            _answer(partition, target, options)._replace(above_high_watermark=above)
            for target in targets
        ]


def _all_unreadable(targets: Sequence[search.Target], why: str) -> list[_Answers]:
    answers = [_unreadable(target, why) for target in targets]
    return [_Answers(answer, answer) for answer in answers]


def _above_high_watermark(partition: search.Partition) -> int:
    if partition.high_watermark is None:
        return 0
    try:
        return max(partition.log_end_offset - partition.high_watermark, 0)
    except KafkatsError:  # each answer contains the error
        return 0


def _answer(partition: search.Partition, target: search.Target, options: LookupOptions) -> _Answers:
    kafka = _try(
        target, lambda: search.find(partition, target, options.rule, now_ms=options.now_ms)
    )
    exact = _try(target, lambda: _exact(partition, target, options))
    if "unreadable" in (kafka.reason, exact.reason):
        differs = "" if kafka.reason == exact.reason else "unreadable"
    else:
        rule = SEARCH_RULES[options.rule]
        differs = search.compare(partition, kafka, exact)
        if differs and isinstance(target, search.Word) and target.value not in rule.specials:
            differs = "no-such-word"
        elif (
            differs
            and target == search.Word.MAX_TIMESTAMP
            and kafka.timestamp == exact.timestamp
            and not rule.record_of_maximum
        ):
            differs = "last-of-batch"
    answer = kafka if options.how == "kafka" else exact
    if options.how == "safe" and isinstance(target, int):
        margin, depth = options.margin_ms, options.depth
        answer = _try(target, partial(search.find_safe, partition, target, margin, depth=depth))
    return _Answers(answer, kafka, differs)


def _exact(
    partition: search.Partition, target: search.Target, options: LookupOptions
) -> search.Answer:
    if options.dialect and (find := dialect_of(options.dialect).find_exact):
        return find(partition, target)
    return search.find_exact(partition, target, depth=options.depth)


def _try(target: search.Target, find: Callable[[], search.Answer]) -> search.Answer:
    try:
        return find()
    except UsageError:
        raise
    except KafkatsError as e:
        return _unreadable(target, str(e))


def _unreadable(target: search.Target, text: str) -> search.Answer:
    return search.Answer(target, reason="unreadable", evidence=text)


def _row(unit: PartitionUnit, answers: _Answers, options: LookupOptions) -> dict[str, str | int]:
    """Return a row of LOOKUP."""
    name = paths.partition_name(unit.partition_dir)
    target = answers.chosen.target_ms
    return {
        **answers.chosen._asdict(),
        "log_dir": unit.log_dir,
        "partition_dir": unit.partition_dir,
        "topic": name.topic,
        "partition": name.partition,
        "target_ms": target.value if isinstance(target, search.Word) else target,
        "word": target.text if isinstance(target, search.Word) else "",
        "depth": options.depth,
        "kafka_offset": answers.kafka.offset,
        "kafka_reason": answers.kafka.reason,
        "rule": options.rule,
        "differs": answers.differs,
        "above_high_watermark": answers.above_high_watermark,
    }
