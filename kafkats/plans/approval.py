"""The record of an approval: the digests of the plans that somebody approved.

The task that asks writes the record beside the plans (`approval.json`). The task that applies a
plan reads it and refuses every digest that is not in it. So a plan that nobody saw is not applied,
whatever happens to the tasks in between.

    {"format": 1, "option": "Approve", "digests": ["<64 hex digits>", ...], "by": "Ada",
     "why": "...", "answered_ms": ...}

`digests` are those that may be applied, none after a rejection. `by` is "" where no approval was
needed; `why` then gives the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, TypeAdapter

from kafkats.errors import CorruptPlan, Refused, exists
from kafkats.logdir.strict_json import Json
from kafkats.plans.files import make_folder, read_json, typed, write_json

FORMAT: Final = 1


@dataclass(frozen=True)
class Approval:
    """An answer. `answered_ms` is epoch milliseconds."""

    option: str
    digests: tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")], ...]
    by: str = ""
    why: str = ""
    answered_ms: int = 0


def write_approval(path: Path, approval: Approval, **more: Json) -> None:
    """Write the record atomically. `more` are further fields for readers.

    Raises StorageFailed, UsageError.
    """
    make_folder(path.parent, "the record of an approval")
    write_json(path, {**more, "format": FORMAT, **asdict(approval)})


def read_approval(path: Path) -> Approval | None:
    """Return the record, None when there is none. Raises CorruptPlan, StorageFailed."""
    if not exists(path, "looking for an approval"):
        return None
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise CorruptPlan(f"not a record of an approval of format {FORMAT}", path=path)
    return typed(content, TypeAdapter(Approval), path)


def check_approved(path: Path, digests: Iterable[str]) -> Approval | None:
    """Return the record. Raises Refused unless it approves each of `digests` (full digests)."""
    try:
        approval = read_approval(path)
    except CorruptPlan as e:
        raise Refused(
            f"the record of the approval cannot be read ({e.reason}): ask again", path=path
        ) from e
    for digest in digests:
        if approval is None:
            raise Refused(
                f"plan {digest[:16]} was not approved: there is no record of an answer",
                path=path,
            )
        if digest not in approval.digests:
            named = ", ".join(one[:16] for one in approval.digests) or "no plan"
            raise Refused(
                f"the answer {approval.option!r} lets {named} be applied, not plan {digest[:16]}",
                path=path,
            )
    return approval
