"""The two options by which a person keeps a run from writing, with the same words in all forms."""

from __future__ import annotations

from typing import Final

from kafkats.config.option import Option

DRY_RUN: Final = "dry_run"
NEED_APPROVAL: Final = "need_approval"
DRY_RUN_SAID: Final = "Only plan and report: nothing is written or deleted"
NEED_APPROVAL_SAID: Final = (
    "Ask a person before anything is written or deleted; no answer in time is a no"
)


def dry_run(more: str = "") -> Option:
    """Return `dry_run`. `more` is a sentence on its default."""
    return Option(DRY_RUN_SAID + more, title="Dry run")


def need_approval(more: str = "") -> Option:
    """Return `need_approval`. `more` is a sentence on what is special in this form."""
    return Option(NEED_APPROVAL_SAID + more, title="Ask for approval")


def by_default(*, dry: bool, asks: bool) -> str:
    """Return what a run with the defaults of a form does."""
    if dry:
        return "The default of this form: nothing is written"
    if asks:
        return "The default of this form: nothing is written without a person's yes"
    return "The default of this form: the plan is written WITHOUT a question"
