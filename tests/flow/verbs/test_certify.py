"""A certificate by request: it is written, checked again, and told apart from a proof."""

from __future__ import annotations

from pathlib import Path

from tests.flow.conftest import Scene


def test_a_certificate_is_written_and_holds_until_a_batch_is_gone(
    scene: Scene, tmp_path: Path
) -> None:
    asked = {"log_dirs": [{"path": scene.root}]}
    options = {"Certify": {"min_magic": 2, "output": tmp_path / "c", "report": tmp_path / "r"}}
    made = scene.ask("certify", **asked, options=options)
    assert (made.error, made.ended) == (None, "fine") and made.certificate is not None
    summary = made.summary()
    assert summary["certified"] and summary["certificate"] == str(tmp_path / "c")
    assert summary["digest"] == summary["certificate_digest"] == made.certificate.digest
    assert summary["log_dirs"] == [str(scene.root)] and summary["report"] == str(tmp_path / "r")
    check = {"Certify": {"check": tmp_path / "c"}}
    holds = scene.ask("certify", options=check)
    assert holds.exit_code == 0 and holds.summary()["unchanged"]
    scene.lost.with_suffix(".log").write_bytes(b"")
    gone = scene.ask("certify", options=check)
    assert gone.exit_code == 1 and gone.summary()["differences"] > 0


def test_a_batch_outside_of_the_bounds(scene: Scene, tmp_path: Path) -> None:
    options = {"Certify": {"max_magic": 1, "output": tmp_path / "c"}}
    result = scene.ask("certify", log_dirs=[{"path": scene.root}], options=options)
    assert result.ended == "findings" and result.certificate is not None
    assert not result.certificate.certified and result.certificate.exceptions > 0
    assert result.certificate.folder == "" and not (tmp_path / "c").exists()


def test_after_a_proof_the_proof_counts(scene: Scene) -> None:
    scene.apply(options={"Apply": {"prove": False}})
    asked = {
        "log_dirs": [{"path": scene.root}],
        "options": {"Certify": {"max_magic": 1}, "ProofOptions": {"of_run": [scene.ran]}},
    }
    fine = scene.ask("certify", **asked)
    assert fine.exit_code == 0 and fine.certificate is not None and not fine.certificate.certified
    assert fine.summary().items() >= {"files": 1, "equal": 1, "runs": [str(scene.ran)]}.items()
    assert fine.summary()["seen"]["segments"] > 0
    scene.lost.write_bytes(b"\0" * 12)
    assert scene.ask("certify", **asked).exit_code == 1


def test_a_certificate_is_told_although_the_ledger_cannot_be_written(
    scene: Scene, tmp_path: Path
) -> None:
    step = {"ledger": tmp_path / "no-ledger", "phase": "phase-1", "broker": "1"}
    options = {"Certify": {"min_magic": 2, "output": tmp_path / "c"}, "Step": step}
    result = scene.ask("certify", log_dirs=[{"path": scene.root}], options=options)
    assert result.error is not None and result.certificate is not None
    assert result.did_something and result.summary()["certificate"] == str(tmp_path / "c")


def test_it_needs_log_directories_or_a_certificate(scene: Scene, tmp_path: Path) -> None:
    both = {"log_dirs": [{"path": scene.root}], "options": {"Certify": {"check": tmp_path}}}
    for fields in ({}, both):
        result = scene.ask("certify", **fields)
        assert result.exit_code == 2 and result.error is not None
        assert "name log directories, or a certificate" in result.error.reason
