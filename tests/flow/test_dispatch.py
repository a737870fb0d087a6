"""What every request goes through: the volume must be the one that was asked for, approvers are the process's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkats.config.approvers import Approver
from kafkats.errors import Refused
from kafkats.execution.local import LocalExecutor
from kafkats.flow import Deployment, run
from kafkats.flow.verbs import release
from kafkats.plans.approval import Approval, write_approval
from kafkats.request import VERBS, Folder, LogDirectory, Request
from tests.flow.conftest import Scene


def asked(scene: Scene, record: Path | None = None) -> Request:
    fields = {"approval": {"record": record}} if record else {}
    plan = Folder(folder=scene.plan, digest=scene.digest)
    return Request.model_validate({"verb": "apply", "made_ms": 0, "plan": plan, **fields})


def test_the_result_names_the_volume_and_a_request_for_it_is_done(scene: Scene) -> None:
    [seen] = scene.apply().log_dirs
    assert seen.identity is not None and (seen.identity.cluster or seen.identity.node is not None)
    assert scene.ask("release", log_dirs=[seen.model_dump()]).ended == "fine"


def test_another_volume_at_the_path_is_refused(scene: Scene) -> None:
    [seen] = scene.apply().log_dirs
    assert seen.identity is not None
    other = seen.model_copy(
        update={"identity": seen.identity.model_copy(update={"cluster": "x", "node": 99})}
    )
    result = scene.ask("release", log_dirs=[other.model_dump()])
    assert result.error is not None and result.error.family == "Refused"
    assert (result.exit_code, result.released) == (3, [])
    assert "is another volume" in result.error.reason


def test_the_process_says_who_must_approve(scene: Scene, tmp_path: Path) -> None:
    deployment = Deployment((Approver("1", "ada"),), guarded=True)
    record = tmp_path / "approval.json"
    refused = run(asked(scene), LocalExecutor(1), deployment=deployment)
    assert refused.exit_code == 3 and not scene.lost.exists()
    for by, code in (("mallory", 3), ("ada", 0)):
        write_approval(record, Approval("Approve", (scene.digest,), by, "", 1))
        result = run(asked(scene, record), LocalExecutor(1), deployment=deployment)
        assert (result.exit_code, scene.lost.exists()) == (code, code == 0), by


@pytest.mark.parametrize(
    ("verb", "fields", "said"),
    [
        ("undo", {}, "undo needs runs"),
        ("purge", {"runs": []}, "purge needs runs"),
        ("release", {}, "release needs log_dirs"),
        ("plan", {"operation": "rebuild"}, "plan needs log_dirs"),
        ("apply", {}, "apply needs a plan"),
        ("purge", {"runs": [{"folder": "/r"}], "approval": {"record": "/a"}}, "approval"),
        ("undo", {"runs": [{"folder": "/r"}], "plan": {"folder": "/p"}}, "plan"),
        ("release", {"log_dirs": [{"path": "/none"}], "runs": [{"folder": "/r"}]}, "runs"),
        (
            "apply",
            {"plan": {"folder": "/p", "digest": "any"}, "policy": {"defaults": {}}},
            "policy",
        ),
    ],
)
def test_a_request_without_its_subject_or_with_another_verbs_part_is_refused(
    verb: str, fields: dict[str, Any], said: str
) -> None:
    request = Request.model_validate({"verb": verb, "made_ms": 0, **fields})
    result = run(request, LocalExecutor(1))
    assert result.error is not None and (result.error.kind, result.exit_code) == ("UsageError", 2)
    assert said in result.error.reason


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "certify"])
def test_every_verb_needs_its_subject(verb: str) -> None:
    operation = {"operation": "rebuild"} if verb == "plan" else {}
    request = Request.model_validate({"verb": verb, "made_ms": 0, **operation})
    result = run(request, LocalExecutor(1))
    assert result.ended == "failed" and result.error is not None
    assert result.error.kind == "UsageError" and f"{verb} needs " in result.error.reason


def test_memory_that_ran_out_is_an_error_and_a_bug_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    request = Request(verb="release", made_ms=0, log_dirs=(LogDirectory(path=Path("/none")),))
    ended = run(request, LocalExecutor(1))
    assert ended.began_ms <= ended.ended_ms and ended.host

    def fails_with(error: Exception) -> None:
        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(release, "release_all", fail)

    fails_with(MemoryError())
    result = run(request, LocalExecutor(1))
    assert result.error is not None and "memory ran out" in result.error.reason
    fails_with(Refused("held", path="/none"))
    assert run(request, LocalExecutor(1)).exit_code == 3
    fails_with(KeyError("a bug"))
    with pytest.raises(KeyError):
        run(request, LocalExecutor(1))
