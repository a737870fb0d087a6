"""The sentences of a proof: for apply, verify and certify."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkats.counts import counted

if TYPE_CHECKING:
    from kafkats.plans.proof import Proof

_SHOWN: Final = 200


def proof_sentences(proof: Proof) -> list[str]:
    """Return a line for each wrong file, and the number of those that are as planned."""
    sentences = [f"not as it should be: {reason}" for reason in proof.reasons[:_SHOWN]]
    return [*sentences, f"proved: {proof.equal} of {counted(proof.files, 'file')} as planned"]
