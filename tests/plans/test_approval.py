"""The record of an answer: only a yes to this very digest lets a plan be applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkats.errors import Refused
from kafkats.plans.approval import Approval, check_approved, read_approval, write_approval

ONE, OTHER = "1" * 64, "2" * 64


def test_a_yes_is_to_the_digests_in_it(tmp_path: Path) -> None:
    path = tmp_path / "run" / "approval.json"
    write_approval(
        path, given := Approval("Approve", (ONE,), "Ada", "answered by Ada", 7), run_id="r"
    )
    assert read_approval(path) == given
    check_approved(path, [ONE])
    for digests in ([OTHER], [ONE, OTHER], [ONE[:16]], [""]):
        with pytest.raises(Refused, match="lets 1111111111111111 be applied, not plan") as refused:
            check_approved(path, digests)
        assert refused.value.exit_code == 3


def test_without_an_answer_and_after_a_no_nothing_is_applied(tmp_path: Path) -> None:
    path = tmp_path / "approval.json"
    with pytest.raises(Refused, match="there is no record of an answer"):
        check_approved(path, [ONE])
    write_approval(path, Approval("Reject", (), "Ada", "answered by Ada", 7))
    with pytest.raises(Refused, match="the answer 'Reject' lets no plan be applied"):
        check_approved(path, [ONE])


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"format": 2, "digests": [ONE]},
        {"format": 1, "digests": ONE},
        {"format": 1, "digests": ["any"]},
    ],
)
def test_a_record_that_is_none_is_no_yes(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "approval.json"
    path.write_text(json.dumps(content))
    with pytest.raises(Refused, match="cannot be read") as refused:
        check_approved(path, [ONE])
    assert refused.value.exit_code == 3
    path.write_bytes(b"{")
    with pytest.raises(Refused):
        check_approved(path, [ONE])
