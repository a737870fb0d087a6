"""Jobs that reserve log dirs before they plan, and release them: what a scheduler reads of it."""

from __future__ import annotations

import fcntl
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kafkats.clock import now_ms
from kafkats.errors import Locked, Reserved, UsageError
from kafkats.logdir.reservation import Reservation, read_reservation, reservation_area, reserve
from pyspark_kafkats.execution import SparkExecutor
from tests.builders.directories import another_volume
from tests.builders.locks import other_process
from tests.golden import case, retention_moment, retention_policy
from tests.spark_jobs.words import job

ROOT = Path(__file__).parents[2]
RETENTION = case("retention-4.3.1")
LOST = "none-ct-0/00000000000000000043.timeindex"
OURS, THEIRS = "airflow rebuild_time_indexes manual__1", "airflow apply_retention scheduled__2"
HOUR = 3_600_000


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    """Three log dirs; an index file is missing in the first two."""
    found = [tmp_path / "disk" / name for name in "abc"]
    for number, root in enumerate(found):
        root.mkdir(parents=True)
        case("matrix-4.3.1-v2").unpack("data", root)
        another_volume(root, number)
    for root in found[:2]:
        (root / LOST).unlink()
    return found


def reserved(root: Path) -> Reservation | None:
    return read_reservation(reservation_area(root))


def holders(roots: list[Path]) -> list[str]:
    return ["" if found is None else found.holder for found in map(reserved, roots)]


def by_them(root: Path) -> Reservation:
    at = now_ms()
    return reserve(reservation_area(root), THEIRS, at + HOUR, now_ms=at).reservation


def planned(
    executor: SparkExecutor, *words: object, holder: str = OURS, until: int | None = None
) -> dict[str, Any]:
    reserving = [
        "--reserve",
        holder,
        "--reserve-until",
        now_ms() + HOUR if until is None else until,
    ]
    return job(executor, "plan", *words, *reserving)


def applied(executor: SparkExecutor, plan: dict[str, Any], *words: object) -> dict[str, Any]:
    given = [plan["plan"], "--digest", plan["digest"], "--owner-stopped", *words]
    return job(executor, "apply", *given)


def released(executor: SparkExecutor, *words: object) -> dict[str, Any]:
    return job(executor, "release", *words)


@pytest.mark.slow(1)
def test_a_plan_reserves_what_it_writes_to(
    executor: SparkExecutor, roots: list[Path], tmp_path: Path
) -> None:
    until = now_ms() + 2 * HOUR
    made = planned(executor, "rebuild", *roots, "-o", tmp_path / "plan", until=until)
    assert (made["holder"], made["reserved_until_ms"], made["reserved"]) == (OURS, until, [])
    assert made["reserves"] == [str(root) for root in roots[:2]]
    assert holders(roots) == [OURS, OURS, ""]
    with pytest.raises(Reserved, match=f"^{roots[0]}: reserved by {OURS} until "):
        planned(executor, "rebuild", *roots, "-o", tmp_path / "two", holder=THEIRS)
    assert (
        planned(executor, "rebuild", *roots, "-o", tmp_path / "again")["digest"] == made["digest"]
    ), "the next try"
    assert holders(roots) == [OURS, OURS, ""]

    with pytest.raises(Reserved, match=OURS):
        applied(executor, other_plan(executor, roots, tmp_path), "--holder", THEIRS)
    with pytest.raises(Reserved, match=OURS):
        applied(executor, made, "--holder", THEIRS)
    assert not (tmp_path / "plan.run").exists() and not (roots[0] / LOST).exists()
    done = applied(executor, made, "--holder", OURS)
    assert (done["outcomes"], done["exit_code"], done["remarks"]) == ({"done": 2}, 0, [])
    assert holders(roots) == ["", "", ""]


def other_plan(executor: SparkExecutor, roots: list[Path], tmp_path: Path) -> dict[str, Any]:
    """The same without a reservation: a dry run."""
    words = ["rebuild", *map(str, roots[:1]), "-o", str(tmp_path / "dry")]
    made = job(executor, "plan", *words)
    assert "holder" not in made and "reserves" not in made
    assert len(made["remarks"]) == 1 and f"reserved by {OURS}" in made["remarks"][0]
    return made


def test_others_are_left_out(executor: SparkExecutor, roots: list[Path], tmp_path: Path) -> None:
    theirs = by_them(roots[0])
    made = planned(executor, "rebuild", *roots, "-o", tmp_path / "plan", "--skip-reserved")
    left_out = {"log_dir": str(roots[0]), "holder": THEIRS, "until_ms": theirs.until_ms}
    assert (made["reserved"], made["reserves"]) == ([left_out], [str(roots[1])])
    assert made["log_dirs"] == [str(root) for root in roots[1:]]
    assert made["totals"]["files"] == 1 and "left out" in made["remarks"][0]
    assert holders(roots) == [THEIRS, OURS, ""]
    with pytest.raises(Reserved, match=THEIRS) as refused:
        planned(executor, "rebuild", roots[0], "-o", tmp_path / "none", "--skip-reserved")
    assert refused.value.exit_code == 3 and not (tmp_path / "none").exists()

    made = planned(
        executor,
        "rebuild",
        *roots,
        "-o",
        tmp_path / "more",
        "--take-over",
        "x",
        "--take-over",
        THEIRS,
    )
    assert made["reserved"] == [] and holders(roots) == [OURS, OURS, ""]
    (remark,) = made["remarks"]
    assert THEIRS in remark and remark.endswith("is over and was taken over")


def test_a_plan_that_fails_half_way_releases_all(
    executor: SparkExecutor, roots: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def fails(*_: object, **__: object) -> None:
        seen.extend(holders(roots))
        raise UsageError("fails")

    monkeypatch.setattr("kafkats.rebuild.plan.plan_rebuild", fails)
    planned_before = reserve(reservation_area(roots[0]), OURS, now_ms() + HOUR, now_ms=now_ms())
    assert planned_before.remark == ""
    with pytest.raises(UsageError, match="fails"):
        planned(executor, "rebuild", *roots, "-o", tmp_path / "plan")
    assert (seen, holders(roots)) == ([OURS] * 3, [""] * 3)


def test_a_brokers_lock(executor: SparkExecutor, roots: list[Path], tmp_path: Path) -> None:
    (roots[1] / ".lock").touch()
    with other_process(roots[1] / ".lock", fcntl.LOCK_EX):
        with pytest.raises(Locked, match="stop the broker"):
            planned(executor, "rebuild", *roots, "-o", tmp_path / "plan", "--skip-reserved")
        assert holders(roots) == [""] * 3
        words = ["rebuild", *map(str, roots), "-o", str(tmp_path / "dry")]
        (remark,) = job(executor, "plan", *words)["remarks"]
        assert remark.startswith(f"{roots[1]}: process ") and "until it stops" in remark


def test_beyond_the_guard_is_reserved_too(executor: SparkExecutor, tmp_path: Path) -> None:
    """What a guard keeps today is written to, if somebody approves it."""
    root = tmp_path / "disk" / "data"
    root.mkdir(parents=True)
    RETENTION.unpack("before", root)
    policy = retention_policy(RETENTION)
    for settings in policy["topics"].values():
        settings["kafkats.guard.max.share"] = 0.0
    (tmp_path / "policy.yaml").write_text(json.dumps(policy))
    words = (
        "retain",
        root,
        "--policy",
        tmp_path / "policy.yaml",
        "--now",
        retention_moment(RETENTION),
    )
    made = planned(executor, *words, "-o", tmp_path / "plan", "--beyond-guard", tmp_path / "beyond")
    assert (made["totals"]["files"], made["beyond"]["totals"]["files"] > 0) == (0, True)
    assert made["reserves"] == [str(root)] and holders([root]) == [OURS]
    done = applied(executor, made["beyond"], "--holder", OURS)
    assert done["exit_code"] == 0 and done["outcomes"]["done"] > 0
    assert holders([root]) == [""]


def test_a_rollback_by_undo_keeps_it_until_undo_ends(
    executor: SparkExecutor, tmp_path: Path
) -> None:
    root = tmp_path / "disk" / "data"
    root.mkdir(parents=True)
    case("matrix-2.8.2-v1").unpack("data", root)
    up = planned(executor, "migrate", root, "--to-magic", 2, "-o", tmp_path / "up")
    assert applied(executor, up, "--holder", OURS, "--run", tmp_path / "run")["exit_code"] == 0
    back = planned(
        executor,
        "migrate",
        root,
        "--to-magic",
        1,
        "-o",
        tmp_path / "down",
        "--undo",
        tmp_path / "run",
    )
    assert back["undo"] == [str(tmp_path / "run")] and back["reserves"] == [str(root)]
    assert holders([root]) == [OURS]
    with pytest.raises(Reserved, match=OURS):
        job(executor, "undo", tmp_path / "run", "--holder", THEIRS)
    assert job(executor, "undo", tmp_path / "run", "--holder", OURS)["exit_code"] == 0
    assert holders([root]) == [""]


def test_release(executor: SparkExecutor, roots: list[Path], tmp_path: Path) -> None:
    theirs = by_them(roots[1])
    planned(executor, "rebuild", roots[0], "-o", tmp_path / "plan")
    said = released(executor, *roots, tmp_path / "nowhere", "--holder", OURS)
    assert [one["log_dir"] for one in said["released"]] == [str(roots[0])]
    assert said["kept"] == [
        {"log_dir": str(roots[1]), "holder": THEIRS, "until_ms": theirs.until_ms}
    ]
    assert (said["free"], said["failed"], said["exit_code"]) == (
        [str(roots[2])],
        [str(tmp_path / "nowhere")],
        2,
    )
    assert holders(roots) == ["", THEIRS, ""]
    said = released(executor, *roots)
    assert [one["holder"] for one in said["released"]] == [THEIRS] and said["exit_code"] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--reserve-until", "1"),
        ("--skip-reserved",),
        ("--take-over", THEIRS),
        ("--reserve", OURS, "--reserve-until", "1700000000"),
        ("--reserve", "a\nb"),
        ("--reserve", ""),
    ],
)
def test_unfit_words(
    executor: SparkExecutor, roots: list[Path], tmp_path: Path, words: tuple[str, ...]
) -> None:
    given = ["rebuild", str(roots[0]), "-o", str(tmp_path / "plan"), *words]
    with pytest.raises(UsageError):
        job(executor, "plan", *given)
    assert not (tmp_path / "plan").exists() and reserved(roots[0]) is None


def test_a_ledger_is_told_of_all_log_dirs(
    executor: SparkExecutor, roots: list[Path], tmp_path: Path
) -> None:
    words = ("migrate", roots[0], "--to-magic", 2, "--ledger", tmp_path / "l", "--skip-reserved")
    with pytest.raises(UsageError, match="--skip-reserved"):
        planned(executor, *words, "-o", tmp_path / "plan")


@pytest.mark.slow(3)
def test_submitted(java: dict[str, str], roots: list[Path]) -> None:
    by_them(roots[0])
    script = ROOT / "spark_jobs" / "release.py"
    command = ["spark-submit", "--master", "local[1]", str(script), str(roots[0])]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=java)
    result = json.loads(ran.stdout.splitlines()[-1].removeprefix("KAFKATS_RESULT "))
    assert ran.returncode == 0 and result["released"][0]["holder"] == THEIRS
    assert reserved(roots[0]) is None
