"""What every request goes through: the volume must be the one that was asked for, approvers are the process's."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkats.clock import now_ms
from kafkats.config.approvers import Approver
from kafkats.errors import Refused
from kafkats.execution.local import LocalExecutor
from kafkats.flow import Deployment, run
from kafkats.flow.verbs import release
from kafkats.migration.phases import append_step
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


def _gone(path: Path, _: pytest.MonkeyPatch) -> None:
    shutil.rmtree(path)


def _unmounted(path: Path, _: pytest.MonkeyPatch) -> None:
    shutil.rmtree(path)
    path.mkdir()


def _not_readable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _broken(path, monkeypatch, errno.EACCES)


def _broken(path: Path, monkeypatch: pytest.MonkeyPatch, number: int = errno.EIO) -> None:
    listing = Path.iterdir

    def refused(self: Path) -> Iterator[Path]:
        if self == path:
            raise OSError(number, os.strerror(number), str(path))
        return listing(self)

    monkeypatch.setattr(Path, "iterdir", refused)


_REBUILD = {"operation": "rebuild"}
_AT = {"Times": {"times": ["2020-09-13T12:27:00Z"]}, "Lookup": {"go_on": True}}


@pytest.mark.parametrize(
    ("verb", "fields", "dies"),
    [
        *(("plan", _REBUILD, dies) for dies in (_gone, _unmounted, _not_readable)),
        *(("plan", {"operation": one}, _broken) for one in ("rebuild", "retain", "roll")),
        ("plan", {"operation": "recover"}, _broken),
        ("plan", {"operation": "migrate", "options": {"Migrate": {"to_magic": 2}}}, _broken),
        ("census", {}, _broken),
        ("inventory", {}, _broken),
        ("lookup", {"options": _AT}, _broken),
        ("preflight", {"options": {"Preflight": {"kafka": "4.3", "go_on": True}}}, _broken),
    ],
)
def test_a_dead_disk_is_left_out_and_named(
    scene: Scene,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    fields: dict[str, Any],
    dies: Callable[[Path, pytest.MonkeyPatch], None],
) -> None:
    dead = tmp_path / "dead" / "data"
    shutil.copytree(scene.root, dead)
    dies(dead, monkeypatch)
    if verb == "plan":
        options = {"PlanFolder": {"output": tmp_path / "made", "go_on": True}}
        holder = {"reservation": {"holder": "airflow a b", "until_ms": now_ms() + 60_000}}
        fields = fields | holder | {"options": options | fields.get("options", {})}
    log_dirs = [{"path": str(dead)}, {"path": str(scene.root)}]
    refused = scene.ask(verb, log_dirs=log_dirs, **fields)
    assert refused.error is not None and refused.error.path == str(dead)
    alone = scene.ask(verb, log_dirs=log_dirs[1:], **fields)
    if verb == "plan":
        shutil.rmtree(tmp_path / "made")
    result = scene.ask(verb, log_dirs=log_dirs, unreachable_is_fine=True, **fields)
    assert (result.error, result.found) == (None, alone.found)
    assert [one.log_dir for one in result.unreachable] == [str(dead)]
    assert str(dead) in result.unreachable[0].error
    assert result.told()["unreachable"] == [one.model_dump() for one in result.unreachable]
    if alone.plan is not None:
        assert result.plan is not None and result.plan.digest == alone.plan.digest
        assert [str(one.path) for one in result.log_dirs] == [str(scene.root)]
        shutil.rmtree(tmp_path / "made")
    nothing = scene.ask(verb, log_dirs=log_dirs[:1], unreachable_is_fine=True, **fields)
    assert (nothing.error, len(nothing.unreachable)) == (None, 1)


def test_a_step_of_a_ledger_leaves_out_the_whole_broker(scene: Scene, tmp_path: Path) -> None:
    dead, ledger = tmp_path / "dead", tmp_path / "ledger"
    step = {"ledger": str(ledger), "phase": "phase-1", "broker": "1"}
    options = {"PlanFolder": {"output": tmp_path / "p", "go_on": True}, "Step": step}
    options |= {"Migrate": {"to_magic": 1}}
    details = {"from_magic": 1, "to_magic": 2, "brokers": ["1"]}
    append_step(ledger, "begin", by="ada", now_ms=1, details=details)
    details = {"text": "runs 0.10.2"}
    append_step(ledger, "attest", by="ada", now_ms=1, broker="1", phase="phase-1", details=details)
    result = scene.ask(
        "plan",
        operation="migrate",
        options=options,
        log_dirs=[{"path": str(dead)}, {"path": str(scene.root)}],
        unreachable_is_fine=True,
    )
    assert (result.error, result.log_dirs) == (None, [])
    assert [one.log_dir for one in result.unreachable] == [str(dead)]
    assert result.plan is not None and result.plan.totals["files"] == 0
