"""Check the approval that a run needs before it writes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kafkats.cli.generated import options
from kafkats.cli.session import session
from kafkats.errors import Refused
from kafkats.plans.options import Approval

if TYPE_CHECKING:
    from kafkats.plans.plan import Plan

APPROVAL = options(Approval)


def check_approval(record: Path | None, digests: Iterable[str]) -> None:
    """Raise Refused unless the record says yes to each digest.

    For a scheduler it must be the yes of an approver, where the deployment names them. Without a
    record everything is allowed, unless it names them. Raises UsageError for names that cannot be
    read.
    """
    from kafkats.config.approvers import NAME, read_approvers
    from kafkats.plans.approval import check_approved, read_approval

    approvers = read_approvers(os.environ.get(NAME)) if session().scheduled else ()
    if record is not None:
        check_approved(record, digests)
    if not approvers:
        return
    answer = read_approval(record) if record else None
    if answer is None or answer.by not in {approver.name for approver in approvers}:
        reason = (
            f"{answer.by or 'nobody'!r} is not an approver"
            if answer
            else "there is no record of an approver's answer"
        )
        raise Refused(f"{reason} ({NAME} is set); clear the run to ask again", path=record)


def check_guards(plan: Plan) -> None:
    """Raise Refused for a plan without the policy's guards, if a scheduler runs for approvers."""
    from kafkats.config.approvers import NAME

    if session().scheduled and NAME in os.environ and plan.header["options"].get("over_guard"):
        raise Refused(
            f"this plan goes over the guards of the policy, which nobody may ({NAME} is set)"
        )
