"""The description of an operation: all that commands, jobs, forms and pages know about it.

A room has one `Operation` in `kafkats/<room>/operation.py`, and `kafkats/operations.py` lists them.
These modules import numpy, pyarrow and the logs' readers only inside functions, because every
command imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.config.given import Given
    from kafkats.config.option import Options
    from kafkats.config.policy import Policy
    from kafkats.execution.executor import Executor
    from kafkats.logdir.lease import Lease
    from kafkats.logdir.strict_json import Json
    from kafkats.plans.deciding import Decided, Settling
    from kafkats.plans.depths import Looked
    from kafkats.plans.plan import Plan
    from kafkats.plans.proof import Proof
    from kafkats.plans.rows import Header, Item, PartitionKey
    from kafkats.plans.run import PartitionWork, Staged
    from kafkats.plans.units import Unit


class Stages(Protocol):
    """The stages that read log directories."""

    @property
    def executor(self) -> Executor:
        """The executor of an operation's other stages."""

    def verify(
        self, units: Sequence[Unit], *, rule: str | None = None, policy: Policy | None = None
    ) -> pa.Table:
        """Read everything: facts.SEGMENTS of depth full.

        `rule` is the generation whose indexes are compared, `policy` has the index settings.
        Without them they are those of a proof, if this is one, else the defaults.
        """

    def look(
        self,
        units: Sequence[Unit],
        *,
        rule: str,
        policy: Policy,
        depth: str,
        report: Path | None = None,
    ) -> Looked:
        """Look to `depth`: full; or tail, and read whole only the segments in doubt.

        `report` is the folder of a report by `verify`. It tells of segments that have not changed
        since, and the others are read whole. Raises UsageError, CorruptPlan, StorageFailed for a
        report that cannot be read.
        """

    def ends(self, units: Iterable[Unit]) -> pa.Table:
        """Read the ends of logs and indexes: facts.SEGMENTS of depth tail."""


class Planned(NamedTuple):
    """A plan; what was seen for it (facts.SEGMENTS); and the tables that are written beside it, by
    name.

    `remarks` are about settings that the files contradict, `more` are further fields of the
    summary, and `sentences` are for people. They are no part of the plan. `beyond` is the same plan
    without the policy's guards. `notes` is what `Parts.join` needs of it.
    """

    plan: Plan
    segments: pa.Table
    beside: Mapping[str, pa.Table]
    remarks: Sequence[str] = ()
    more: Mapping[str, object] = {}
    beyond: Planned | None = None
    sentences: Sequence[str] = ()
    notes: Mapping[str, Json] = {}


class Joined(NamedTuple):
    """The notes of all parts of a plan: fields of Planned that are not in the plan itself."""

    remarks: Sequence[str] = ()
    more: Mapping[str, object] = {}
    sentences: Sequence[str] = ()


class Parts(NamedTuple):
    """The functions by which an operation decides one group of whole partitions after another.

    `allowed` returns whether it may with these options: then a decision looks at nothing but its
    partition, and the totals of the groups add up. `by_ends` returns whether only the ends of most
    segments are read, so that a task decides a group; otherwise the segments of a group are spread
    over tasks. `join` makes one of the notes of all groups, in their order.

    `prepare` replaces Operation.prepare where a decision on some partitions leaves out what needs
    all. `settle` adds that: it returns the groups of the plan, and those of Planned.beyond. Tables
    of the names `held` are for `settle`, and are not written beside the plan.
    """

    allowed: Callable[[Given], bool]
    by_ends: Callable[[Given], bool]
    join: Callable[[Given, Sequence[Mapping[str, Json]]], Joined]
    prepare: Callable[[Given, Policy], Decide] | None = None
    settle: Callable[[Settling], tuple[Sequence[Decided], Sequence[Decided]]] | None = None
    held: Collection[str] = ()


Decide: TypeAlias = "Callable[[Stages, Sequence[Unit]], Planned]"
"""Looks at units and decides. Raises as the operation's planning."""


class Writer(Protocol):
    """The module that writes the files of a plan."""

    def check_item(self, item: Item) -> None:
        """Raise CorruptPlan for an item that the operation does not plan."""

    def stage_partition(self, work: PartitionWork, lease: Lease) -> Staged:
        """Build the new files of one partition directory and return the changes."""


class Proving(NamedTuple):
    """The request for a proof: a plan in a folder, whose files were written.

    `units` may be read once. They are listed then, for the proofs that need them. In the partitions
    of `later` another run has written since.
    """

    stages: Stages
    plan: Plan
    folder: Path
    units: Iterable[Unit]
    later: Collection[PartitionKey] = ()


def always(settings: frozenset[str]) -> Callable[[Given], frozenset[str]]:
    """Return a function that returns the same topic settings for any options."""
    return lambda _: settings


def _nothing(_: Header) -> list[str]:
    return []


def _no_flaw(_: Header) -> str:
    return ""


@dataclass(frozen=True)
class Operation:
    """An operation that plans and writes."""

    name: str
    sentence: str
    """The help of the command that plans."""
    models: tuple[type[Options], ...]
    """The options of that command, beside those of every plan."""
    reads: Callable[[Given], frozenset[str]]
    """The topic settings that it reads with these options. Others that are given lead to a remark.
    """
    prepare: Callable[[Given, Policy], Decide]
    """Check the options before anything is read, and return the function that decides.

    Raises UsageError, Refused, StorageFailed.
    """
    writer: str
    """The module that writes the files of its plans: a Writer."""
    done: str
    """The word for files that are written and proved, such as rebuilt."""
    verb: str = ""
    """The verb of that word, if it is not the name."""
    proof: str = "kafkats.plans.proof"
    """The module whose `prove` reads every file again that a plan wrote."""
    follows: tuple[str, ...] = ()
    """Suffixes of the files that change together with the .log of their segment. A table of the
    plan leaves these files out.
    """
    sentences: Callable[[Header], Iterable[str]] = _nothing
    """The plan in sentences, beside those of every plan."""
    remarks: Callable[[Header], Sequence[str]] = _nothing
    """Remarks about the plan's options."""
    totals: tuple[str, ...] = ()
    """The totals that its plans have, beside those of every plan."""
    flaw: Callable[[Header], str] = _no_flaw
    """Return what else is wrong with a header whose totals have the right types, "" if nothing."""
    parts: Parts | None = None
    """How it decides in parts; None if a decision needs all log directories at once."""
    by_topic: bool = False
    """Whether the settings of the topics decide what is planned: then topics that the policy does
    not name lead to remarks.
    """
    proved_by_settings: bool = False
    """Whether the proof compares indexes with the rule and the settings that the plan's rows name.
    """
    proves_log_end: bool = False
    """Whether the proof is about the end of the log, which a later run changes."""
    flushes: bool = False
    """Whether its apply mostly waits until the disk has flushed (execution.Work.flushes)."""
    recovers: bool = False
    """Whether it does what a broker does when it starts.

    Its plans cut logs in place, and tables have one row per partition, as nobody approves single
    files. Blocked rows leave the work undone: the command `apply` then ends with 1, too. A broker
    starts after the apply: only until then can the run be undone. An undo is refused as a whole if
    one directory has changed since the run, and begins with the log directories' own files.
    """

    @property
    def nothing(self) -> str:
        """The words for a run that has nothing to do."""
        return f"nothing to {self.verb or self.name}"

    def leaves_out(self, file: str) -> bool:
        """Return whether a table of the plan leaves a file out."""
        return bool(self.follows) and file.endswith(self.follows)

    def writes(self) -> Writer:
        """Return the module that writes the files of its plans."""
        return cast("Writer", import_module(self.writer))

    def prove(self, request: Proving) -> Proof:
        """Read every file again that the plan wrote. Raises CorruptFile, CorruptPlan,
        StorageFailed.
        """
        proof: Proof = import_module(self.proof).prove(request)
        return proof
