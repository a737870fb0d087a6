"""The commands that reserve, write and release, on directories of real brokers."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkats.cli import cli, main
from kafkats.clock import now_ms
from kafkats.errors import DiskFull, Holder, KafkatsError, Locked, Reserved, UsageError
from kafkats.flow import applying
from kafkats.logdir import workarea
from kafkats.logdir.reservation import (
    Reservation,
    read_reservation,
    release,
    reservation_area,
    reserve,
)
from kafkats.plans.run import Run
from kafkats.reserving.plans import Wish, planning
from kafkats.reserving.runs import changing
from tests.builders.commands import run, run_mixed
from tests.builders.directories import another_volume
from tests.builders.locks import other_process
from tests.crash.commands import small_disk
from tests.crash.real import fork
from tests.golden import case, retention_moment, retention_policy, tree

LOST = "none-ct-0/00000000000000000043.timeindex"
HOUR = 3_600_000


@pytest.fixture
def roots(tmp_path: Path) -> list[Path]:
    """Two log dirs of a stopped broker; an index file is missing in the first."""
    found = []
    for name in ("a", "b"):
        root = tmp_path / "disk" / name
        root.mkdir(parents=True)
        case("matrix-4.3.1-v2").unpack("data", root)
        found.append(root)
    another_volume(found[1])
    (found[0] / LOST).unlink()
    return found


@pytest.fixture
def root(roots: list[Path]) -> Path:
    return roots[0]


def summary(text: str) -> dict[str, Any]:
    return dict(json.loads(text.splitlines()[-1])["summary"])


def reserved(root: Path) -> Reservation | None:
    return read_reservation(reservation_area(root))


def by_somebody(
    root: Path, holder: str = "airflow apply_retention manual__1", *, place: Path | None = None
) -> Reservation:
    at = now_ms()
    return reserve(reservation_area(root, place), holder, at + HOUR, now_ms=at).reservation


def run_of(*roots: Path, operation: str = "rebuild") -> Run:
    return Run(
        operation,
        f"{operation}-0123456789abcdef",
        "0" * 64,
        {str(root): ["none-ct-0"] for root in roots},
    )


# plan


def test_a_second_planner_is_told_whose_it_is(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(root)
    code, text = run_mixed(
        capsys, "plan", "rebuild", root, "-o", tmp_path / "one", "--reserve", "--json"
    )
    assert code == 0
    said = summary(text)
    mine = reserved(root)
    assert mine is not None and mine.holder.endswith(f" plan {tmp_path / 'one'}")
    assert mine.until_ms - mine.made_ms == pytest.approx(24 * HOUR, abs=60_000)
    wanted = {
        "holder": mine.holder,
        "reserved_until_ms": mine.until_ms,
        "reserves": [str(root)],
        "reserved": [],
    }
    assert {name: said[name] for name in wanted} == wanted
    for named in (root, root / "none-ct-0", root / "none-ct-0" / "00000000000000000000.log"):
        code, text = run_mixed(
            capsys, "plan", "rebuild", named, "-o", tmp_path / "two", "--reserve"
        )
        first = text.splitlines()[0]
        assert code == 3 and len(text.splitlines()) == 1
        assert first.startswith(f"kafkats: {root}: reserved by {mine.holder} until ")
        assert first.endswith(f"kafkats release {root}")
        assert not (tmp_path / "two").exists()
    assert reserved(root) == mine
    assert (
        run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "one", "--reserve")[0] == 0
    ), "a plan made anew"
    assert tree(root) == before


@pytest.mark.slow(1)
def test_of_many_commands_at_once_one_plans(root: Path, tmp_path: Path) -> None:
    for turn in range(5):
        gate, opener = os.pipe()

        def plan(number: int, turn: int = turn, gate: int = gate, opener: int = opener) -> None:
            os.close(opener)
            os.read(gate, 1)  # all start when the parent closes its end
            try:
                main([
                    "plan",
                    "rebuild",
                    str(root),
                    "-o",
                    str(tmp_path / f"plan-{turn}-{number}"),
                    "--reserve",
                ])
            except SystemExit as end:
                os._exit(int(end.code or 0))

        children = [fork(lambda n=number: plan(n)) for number in range(3)]  # type: ignore[misc]
        os.close(opener)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        os.close(gate)
        assert sorted(codes) == [0, 3, 3]
        winner = codes.index(0)
        mine = reserved(root)
        assert mine is not None and mine.holder.endswith(
            f" plan {tmp_path / f'plan-{turn}-{winner}'}"
        )
        assert [path.name for path in tmp_path.glob(f"plan-{turn}-*")] == [f"plan-{turn}-{winner}"]
        release(reservation_area(root))


def test_a_reservation_is_no_part_of_the_digest(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command's plan and the job's are the same, whoever waits for an answer."""
    reserving = run_mixed(
        capsys, "plan", "rebuild", root, "-o", tmp_path / "one", "--reserve", "--json"
    )[1]
    looking = run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "two", "--json")[1]
    assert summary(reserving)["digest"] == summary(looking)["digest"]


def test_a_partition_reserves_all_of_its_log_dir(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--reserve", "--reserve-for", "2h")
    assert (
        run_mixed(capsys, "plan", "rebuild", root / "none-ct-0", "-o", tmp_path / "one", *words)[0]
        == 0
    )
    mine = reserved(root)
    assert mine is not None and mine.until_ms - mine.made_ms == pytest.approx(2 * HOUR, abs=60_000)
    assert (
        run_mixed(capsys, "plan", "rebuild", root / "zstd-lat-0", "-o", tmp_path / "two", *words)[0]
        == 3
    )


def test_what_a_plan_does_not_write_to_is_released(
    roots: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run_mixed(
        capsys, "plan", "rebuild", *roots, "-o", tmp_path / "plan", "--reserve", "--json"
    )
    assert (code, summary(text)["reserves"]) == (0, [str(roots[0])])
    assert reserved(roots[0]) and not reserved(roots[1])
    assert json.loads((tmp_path / "plan" / "reservation.json").read_text())["tokens"].keys() == {
        str(roots[0])
    }
    code, text = run_mixed(
        capsys, "plan", "rebuild", roots[1], "-o", tmp_path / "empty", "--reserve"
    )
    assert code == 0 and "reserved" not in text
    assert not reserved(roots[1]) and not (tmp_path / "empty" / "reservation.json").exists()


def test_a_plan_that_fails_releases(
    roots: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, _ = run_mixed(capsys, "plan", "rebuild", *roots, "-o", roots[1] / "plan", "--reserve")
    assert code == 2
    assert not any(map(reserved, roots))
    by_somebody(roots[1])
    assert (
        run_mixed(capsys, "plan", "rebuild", *roots, "-o", tmp_path / "plan", "--reserve")[0] == 3
    )
    assert not reserved(roots[0]), "half of them stay reserved"

    def fails(*_: object) -> None:
        assert reserved(roots[0]), "it looks before it has reserved"
        raise KeyboardInterrupt

    monkeypatch.setattr("kafkats.rebuild.plan.plan_rebuild", fails)
    with pytest.raises((SystemExit, KeyboardInterrupt)):
        main(["plan", "rebuild", str(roots[0]), "-o", str(tmp_path / "plan"), "--reserve"])
    assert not reserved(roots[0])


def test_a_brokers_lock(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / ".lock").touch()
    with other_process(root / ".lock", fcntl.LOCK_EX) as pid:
        code, text = run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "one", "--reserve")
        assert code == 3
        assert (
            text.startswith(f"kafkats: {root}: process {pid} ")
            and "stop the broker" in text.splitlines()[0]
        )
        assert not reserved(root) and not (tmp_path / "one").exists()
        code, text = run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "one")
        assert code == 0 and f"\n{root}: process {pid} " in text
        remarks = summary(
            run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "one", "--json")[1]
        )["remarks"]
        assert len(remarks) == 1 and "until it stops" in remarks[0]
    assert (
        summary(run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "one", "--json")[1])[
            "remarks"
        ]
        == []
    )


def test_without_reserving_a_reservation_is_a_remark(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = by_somebody(root)
    code, text = run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "plan", "--json")
    (remark,) = summary(text)["remarks"]
    assert code == 0 and remark.startswith(f"{root}: reserved by {theirs.holder} until ")
    assert reserved(root) == theirs


def test_an_expired_one_is_taken_over_with_a_remark(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reserve(reservation_area(root), "the night before", 2, now_ms=1)
    code, text = run_mixed(
        capsys, "plan", "rebuild", root, "-o", tmp_path / "plan", "--reserve", "--json"
    )
    (remark,) = summary(text)["remarks"]
    assert (
        code == 0
        and "the night before" in remark
        and remark.endswith("had expired and was taken over")
    )


def test_a_mount_is_reserved_beside_it(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        workarea, "_mount", lambda path: "inner" if path.is_relative_to(root) else "outer"
    )
    plan = ("plan", "rebuild", root, "-o", tmp_path / "plan")
    assert run_mixed(capsys, *plan, "--reserve")[0] == 0
    code, text = run_mixed(capsys, *plan[:-1], tmp_path / "two", "--reserve")
    assert code == 3 and f"kafkats release {root}" in text
    code, text = run_mixed(capsys, "release", root)
    assert code == 0 and "released" in text
    code, text = run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")
    assert code == 0 and (root / LOST).exists()


@pytest.mark.root("mounts a file system")
def test_a_real_mount(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A disk of JBOD, or a volume claim: no option is needed, and nothing is copied to undo it."""
    with small_disk(tmp_path / "mounted", "16m", 4000, 0) as root:
        case("matrix-4.3.1-v2").unpack("data", root)
        lost = root / LOST
        before = lost.read_bytes()
        lost.unlink()
        plan = ("plan", "rebuild", root, "-o", tmp_path / "plan", "--reserve")
        assert run_mixed(capsys, *plan)[0] == 0
        code, text = run_mixed(capsys, *plan[:-2], tmp_path / "two", "--reserve")
        assert code == 3 and "reserved by" in text
        apply = ("apply", tmp_path / "plan", "--digest", "any", "--owner-stopped")
        assert run_mixed(capsys, *apply)[0] == 0 and lost.read_bytes() == before
        assert all(path.is_file() for path in root.glob("*/*"))
        by_somebody(root)
        assert run_mixed(capsys, "undo", tmp_path / "plan.run")[0] == 3 and lost.exists()
        assert run_mixed(capsys, "release", root)[0] == 0
        assert run_mixed(capsys, "undo", tmp_path / "plan.run")[0] == 0 and not lost.exists()


def test_half_of_the_words(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = run_mixed(
        capsys, "plan", "rebuild", root, "-o", tmp_path / "plan", "--reserve-for", "2h"
    )
    assert code == 2 and "--reserve" in text and not (tmp_path / "plan").exists()
    code, text = run_mixed(
        capsys, "plan", "rebuild", root, "-o", tmp_path / "plan", "--reserve", "--reserve-for", "0s"
    )
    assert code == 2


def test_every_plan_can_reserve() -> None:
    plans: dict[str, Any] = cli.commands["plan"].commands  # type: ignore[attr-defined]
    assert plans.keys() == {"rebuild", "recover", "migrate", "retain", "roll", "split"}
    for name, command in plans.items():
        words = {option for parameter in command.params for option in parameter.opts}
        assert {"--reserve", "--reserve-for", "--work-area"} <= words, name


@pytest.mark.slow(1)
@pytest.mark.parametrize(
    "words",
    [
        ("migrate", "--to-magic", "1", "--accept-loss", "all"),
        ("retain",),
        ("roll", "--config", "segment.ms=1"),
        ("split", "--where", "rolled", "--segment-bytes", "500"),
    ],
)
def test_the_other_plans_reserve_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    root = tmp_path / "disk" / "data"
    root.mkdir(parents=True)
    retention = case("retention-4.3.1")
    if words[0] == "retain":
        retention.unpack("before", root)
        policy = tmp_path / "policy.yaml"
        policy.write_text(json.dumps(retention_policy(retention)))
        words = (*words, "--policy", str(policy), "--now", str(retention_moment(retention)))
    else:
        case("matrix-4.3.1-v2").unpack("data", root)
    plan = ("plan", words[0], root, *words[1:], "--reserve", "-o")
    code, text = run_mixed(capsys, *plan, tmp_path / "one", "--json")
    assert code == int(summary(text)["blocked"] > 0), text
    assert summary(text)["files"] > 0, "a plan that writes nothing shows nothing"
    mine = reserved(root)
    assert mine is not None and mine.holder.endswith(f" plan {tmp_path / 'one'}")
    assert run_mixed(capsys, *plan, tmp_path / "two")[0] == 3
    assert (
        run_mixed(capsys, "apply", tmp_path / "one", "--digest", "any", "--owner-stopped")[0] == 0
    )
    assert not reserved(root)


# What a scheduler's planner says


def test_reserved_ones_are_left_out(roots: list[Path]) -> None:
    theirs = by_somebody(roots[0])
    wish = Wish("airflow rebuild_time_indexes manual__2", now_ms() + HOUR, skip=True)
    named = [str(roots[0] / "none-ct-0"), str(roots[1])]
    with planning(named, wish) as ours:
        assert ours.log_dirs == [str(roots[1])]
        ours.keep(map(str, roots))
    assert [one.held for one in ours.skipped] == [
        Holder(str(roots[0]), theirs.holder, theirs.until_ms)
    ]
    assert list(ours.entered) == [str(roots[1])]
    assert len(ours.remarks) == 1 and "left out" in ours.remarks[0]
    assert reserved(roots[0]) == theirs
    with (
        pytest.raises(Reserved, match=r"airflow .*manual__"),
        planning(named, replace(wish, holder="a third one")),
    ):
        pytest.fail("all of them are reserved")


def test_a_refusal_has_all_holders_as_fields(roots: list[Path]) -> None:
    """A run id may read like the sentence, so no program reads that."""
    until = now_ms() + HOUR
    named = ["airflow roll_segments redo until 2025-01-01 00:00:00 UTC", "ada@host plan"]
    for root, holder in zip(roots, named, strict=True):
        reserve(reservation_area(root), holder, until, now_ms=now_ms())
    with pytest.raises(Reserved) as raised, planning(roots, Wish("me", until)):
        pass
    assert raised.value.holders == tuple(
        Holder(str(root), holder, until) for root, holder in zip(roots, named, strict=True)
    )
    assert str(raised.value).startswith(f"{roots[0]}: reserved by {named[0]} until ")


def test_whose_run_is_over_is_taken_over(roots: list[Path]) -> None:
    theirs = by_somebody(roots[0])
    wish = Wish(
        "airflow rebuild_time_indexes manual__2", now_ms() + HOUR, take_over=(theirs.holder,)
    )
    with planning(map(str, roots), wish) as ours:
        assert ours.log_dirs == list(map(str, roots))
        ours.keep([str(roots[0])])
    assert "is over and was taken over" in ours.remarks[0]
    mine = reserved(roots[0])
    assert mine is not None and mine.holder == wish.holder and not reserved(roots[1])


def test_whose_run_is_over_keeps_it_while_a_process_still_writes(
    roots: list[Path], tmp_path: Path
) -> None:
    theirs = by_somebody(roots[0])

    def write() -> None:
        with changing(run_of(roots[0]), tmp_path / "run", holder=theirs.holder):
            (tmp_path / "writes").touch()
            signal.pause()

    wish = Wish("us", now_ms() + HOUR, take_over=(theirs.holder,))
    pid = fork(write)
    try:
        assert wait_for((tmp_path / "writes").exists)
        still = pytest.raises(Reserved, match="and a process still writes for it")
        with still, planning([str(roots[0])], wish):
            pass
        with planning(map(str, roots), replace(wish, skip=True)) as ours:
            assert ours.log_dirs == [str(roots[1])]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert (found := reserved(roots[0])) is not None and found.holder == theirs.holder
    with planning([str(roots[0])], wish) as ours:
        assert "is over and was taken over" in ours.remarks[0]


def test_one_that_comes_between_the_look_and_the_reservation(
    roots: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first look finds nothing; when it reserves the second log dir, somebody has it."""
    from kafkats.reserving import plans

    def meanwhile(root: str) -> Any:
        if reserved(roots[1]) is None:
            by_somebody(roots[1])
        return state(root)

    state = plans.lock_state
    monkeypatch.setattr(plans, "lock_state", meanwhile)
    wish = Wish("us", now_ms() + HOUR)
    with pytest.raises(Reserved), planning(map(str, roots), wish):
        pytest.fail("one of them is reserved")
    assert not reserved(roots[0])
    with planning(map(str, roots), replace(wish, skip=True)) as ours:
        assert ours.log_dirs == [str(roots[0])]


def test_a_broker_on_one_that_is_left_out_anyway(roots: list[Path]) -> None:
    by_somebody(roots[0])
    (roots[0] / ".lock").touch()
    wish = Wish("us", now_ms() + HOUR, skip=True)
    with other_process(roots[0] / ".lock", fcntl.LOCK_EX):
        with planning(map(str, roots), wish) as ours:
            assert ours.log_dirs == [str(roots[1])]
        release(reservation_area(roots[0]))
        with pytest.raises(Locked), planning(map(str, roots), wish):
            pytest.fail("a broker runs there")
    assert not any(map(reserved, roots))


def test_an_earlier_try_releases_nothing_of_a_later_one(root: Path) -> None:
    wish = Wish("airflow apply_retention manual__1", now_ms() + HOUR)
    with planning([root], wish) as zombie:
        with planning([root], wish) as living:
            living.keep([str(root)])
        assert zombie.entered
    mine = reserved(root)
    assert mine is not None and mine == living.entered[str(root)].reservation


# apply and undo


def test_apply_enters_what_its_plan_has_reserved_and_releases_it(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "other")
    run_mixed(capsys, "plan", "rebuild", root / "none-ct-0", "-o", tmp_path / "plan", "--reserve")
    mine = reserved(root)
    assert mine is not None
    before = tree(root)
    code, text = run_mixed(capsys, "apply", tmp_path / "other", "--digest", "any")
    assert code == 3 and f"reserved by {mine.holder} until " in text.splitlines()[0]
    assert tree(root) == before and not (tmp_path / "other.run").exists()

    seen: list[Reservation | None] = []
    real = applying.apply_partition
    monkeypatch.setattr(
        applying, "apply_partition", lambda *a, **k: (seen.append(reserved(root)), real(*a, **k))[1]
    )
    assert run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0
    assert seen[0] is not None and (seen[0].holder, seen[0].token != mine.token) == (
        mine.holder,
        True,
    )
    assert (root / LOST).exists() and reserved(root) is None


def test_apply_reserves_what_nobody_has(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "plan")

    def fails(*_: object) -> None:
        mine = reserved(root)
        assert mine is not None and "@" in mine.holder and " run rebuild-" in mine.holder
        code, _ = run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "two", "--reserve")
        assert code == 3
        raise UsageError("fails")

    with monkeypatch.context() as patched:
        patched.setattr(applying, "apply_partition", fails)
        code, text = run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")
        assert code == 2, text
    assert reserved(root) is None, "a failure does not release it"
    reserve(reservation_area(root), "the night before", 2, now_ms=1)
    code, text = run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any", "--json")
    assert code == 0 and "the night before" in summary(text)["remarks"][0]


def test_apply_by_its_holder(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "plan")
    theirs = by_somebody(root)
    words = ("apply", tmp_path / "plan", "--digest", "any")
    assert run_mixed(capsys, *words)[0] == 3
    assert run_mixed(capsys, *words, "--holder", "airflow apply_retention manual__2")[0] == 3
    assert run_mixed(capsys, *words, "--holder", theirs.holder)[0] == 0
    assert reserved(root) is None


@pytest.mark.parametrize("again", ["apply", "undo"])
@pytest.mark.parametrize("planned", ["reserved", "not reserved"])
def test_a_killed_apply_keeps_it_for_its_own_run(
    root: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    planned: str,
    again: str,
) -> None:
    before = tree(root)
    words = ("--reserve",) if planned == "reserved" else ()
    run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "plan", *words)
    with monkeypatch.context() as patched:
        patched.setattr(
            applying, "apply_partition", lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        )
        child = fork(lambda: main(["apply", str(tmp_path / "plan"), "--digest", "any"]))
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    left = reserved(root)
    assert left is not None and left.until_ms > now_ms() + 23 * HOUR
    monkeypatch.setattr("kafkats.reserving.record.this_user", lambda: "another")
    assert run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "two", "--reserve")[0] == 3
    if again == "apply":
        assert run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0
        assert (root / LOST).exists()
    else:
        assert run_mixed(capsys, "undo", tmp_path / "plan.run")[0] == 0
        assert tree(root) == before or not (root / LOST).exists()
    assert reserved(root) is None


def test_undo_waits_for_a_plan_that_was_made_from_its_files(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "plan")
    assert run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0
    theirs, before = by_somebody(root), tree(root)
    code, text = run_mixed(capsys, "undo", tmp_path / "plan.run")
    assert code == 3 and f"reserved by {theirs.holder} until " in text.splitlines()[0]
    assert tree(root) == before and reserved(root) == theirs
    assert run_mixed(capsys, "undo", tmp_path / "plan.run", "--holder", theirs.holder)[0] == 0
    assert not (root / LOST).exists() and reserved(root) is None


def test_purge_changes_no_live_file_and_does_not_wait(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "plan")
    run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")
    theirs = by_somebody(root)
    assert run_mixed(capsys, "purge", tmp_path / "plan.run")[0] == 0
    assert reserved(root) == theirs


def test_undo_goes_on_where_nothing_can_be_reserved(roots: list[Path], tmp_path: Path) -> None:
    """Of two volumes one is gone, or has no place any more: the other one comes back all the same."""
    gone = tmp_path / "disk" / "gone"
    with changing(run_of(roots[0], gone), tmp_path / "run", going_back=True) as held:
        assert list(held.entered) == [str(roots[0])]
    with pytest.raises(KafkatsError), changing(run_of(roots[0], gone), tmp_path / "run"):
        pytest.fail("an apply begins with half of its log dirs")
    assert not reserved(roots[0])


def test_undo_on_a_full_disk_releases_what_a_killed_apply_has_left(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = by_somebody(root, "us")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("kafkats.logdir.disk.Disk.write", full)
    with pytest.raises(DiskFull), changing(run_of(root), tmp_path / "run", holder="us"):
        pytest.fail("an apply begins without a reservation")
    with changing(run_of(root), tmp_path / "run", holder="us", going_back=True) as held:
        assert held.entered[str(root)].reservation == left == reserved(root)
    assert reserved(root) is None


def test_a_run_that_takes_long_renews(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafkats.reserving.runs.RENEW_SECONDS", 0.01)
    with changing(run_of(root), tmp_path / "run") as held:
        first = held.entered[str(root)].reservation
        assert wait_for(
            lambda: (now := reserved(root)) is not None and now.until_ms > first.until_ms
        )
        assert threading.active_count() > 1
        release(reservation_area(root))
        by_somebody(root)
        time.sleep(0.05)
        theirs = reserved(root)
    assert reserved(root) == theirs, "a broken reservation was renewed, or another's released"


def wait_for(true: Any) -> bool:
    deadline = time.monotonic() + 30
    while not (found := true()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(found)


# release, and what cannot be read


def test_release_says_whose_it_was(
    roots: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = by_somebody(roots[0])
    code, text = run_mixed(capsys, "release", *roots, "--holder", "somebody else")
    assert code == 0
    assert text.startswith(f"{roots[0]}: not released: it is reserved by {theirs.holder} until ")
    assert f"{roots[1]}: is not reserved\n" in text
    assert reserved(roots[0]) == theirs
    code, text = run_mixed(capsys, "release", roots[0] / "none-ct-0")
    assert code == 0 and text.startswith(
        f"{roots[0]}: released; it was reserved by {theirs.holder} until "
    )
    assert reserved(roots[0]) is None
    theirs = by_somebody(roots[0])
    code, text = run_mixed(capsys, "release", tmp_path / "nowhere", roots[0], "--json")
    rows = [json.loads(line) for line in text.splitlines()]
    assert code == 2 and [row.get("outcome") for row in rows] == ["failed", "released", None]
    assert rows[1]["holder"] == theirs.holder and rows[1]["until_ms"] == theirs.until_ms
    assert reserved(roots[0]) is None, "one that fails keeps the others from being released"


def test_release_says_an_error_as_every_other_command_does(
    roots: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "release", tmp_path / "nowhere", roots[0])
    assert (code, err) == (2, f"kafkats: {tmp_path}/nowhere: does not exist\n")
    assert out == f"{roots[0]}: is not reserved\n"


def test_a_damaged_reservation(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "plan")
    by_somebody(root)
    path = reservation_area(root).path / "reservation"
    path.write_bytes(b"\0" * 20)
    for words in (
        ("plan", "rebuild", root, "-o", tmp_path / "two", "--reserve"),
        ("apply", tmp_path / "plan", "--digest", "any"),
    ):
        code, text = run_mixed(capsys, *words)
        assert code == 2 and len(text.splitlines()) == 1
        assert str(path) in text and f"kafkats release {root}" in text
    assert not (root / LOST).exists()
    code, text = run_mixed(capsys, "release", root)
    assert code == 0 and "could not be read" in text
    assert run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 0


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"holder": 1, "until_ms": 2, "tokens": {}}', '{"tokens": 3}']
)
def test_a_damaged_record_beside_a_plan(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    run_mixed(capsys, "plan", "rebuild", root, "-o", tmp_path / "plan", "--reserve")
    path = tmp_path / "plan" / "reservation.json"
    path.write_text(content)
    code, text = run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")
    assert code == 2 and str(path) in text and "Traceback" not in text
    path.unlink()
    assert run_mixed(capsys, "apply", tmp_path / "plan", "--digest", "any")[0] == 3, (
        "nothing tells whose it is"
    )
