"""A release by request: of any holder, or of one."""

from __future__ import annotations

from kafkats.clock import now_ms
from kafkats.logdir.reservation import reservation_area, reserve
from tests.flow.conftest import Scene


def test_only_what_the_holder_has(scene: Scene) -> None:
    until = now_ms() + 3_600_000
    reserve(reservation_area(scene.root), "ada@host plan", until, now_ms=now_ms())
    log_dirs = [{"path": scene.root}, {"path": "/none"}]
    kept = scene.ask("release", log_dirs=log_dirs, reservation={"holder": "bob"})
    assert [one.outcome for one in kept.released] == ["kept", "failed"]
    assert kept.exit_code == 2 and kept.error is None
    result = scene.ask("release", log_dirs=log_dirs[:1])
    assert result.summary() == {
        "released": [{"log_dir": str(scene.root), "holder": "ada@host plan", "until_ms": until}],
        "kept": [],
        "free": [],
        "failed": [],
        "exit_code": 0,
    }
    assert [one.outcome for one in scene.ask("release", log_dirs=log_dirs[:1]).released] == ["free"]
