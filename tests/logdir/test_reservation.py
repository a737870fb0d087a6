"""One reservation per log dir: who gets it, who does not, what a crash leaves of it."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from kafkats.errors import (
    CorruptFile,
    KafkatsError,
    Locked,
    ReadOnly,
    Refused,
    Reserved,
    StorageFailed,
    UsageError,
)
from kafkats.logdir import reservation, workarea
from kafkats.logdir.disk import DISK, Disk
from kafkats.logdir.reservation import (
    Entered,
    extend,
    read_reservation,
    release,
    reservation_area,
    reserve,
    writing,
)
from kafkats.logdir.workarea import WorkArea, work_area
from tests.crash import memory
from tests.crash.real import fork
from tests.crash.watched import WatchedDisk

pytestmark = pytest.mark.forks

NOW = 1_700_000_000_000
HOUR = 3_600_000
TURNS = 40 if os.environ.get("KAFKATS_FULL") else 15


@pytest.fixture
def area(tmp_path: Path) -> WorkArea:
    return an_area(tmp_path)


def an_area(base: Path) -> WorkArea:
    root = base / "kafka-logs"
    root.mkdir(parents=True)
    root.chmod(0o750)
    return work_area(root)


def ours(
    area: WorkArea, holder: str = "us", until: int = NOW + HOUR, now: int = NOW, disk: Disk = DISK
) -> Entered:
    return reserve(area, holder, until, now_ms=now, disk=disk)


# Who gets it


def test_one_holder(area: WorkArea) -> None:
    assert read_reservation(area) is None
    assert not area.path.exists(), "asking has made something"
    entered = ours(area)
    assert entered.remark == ""
    assert read_reservation(area) == entered.reservation
    assert entered.reservation[:4] == (str(area.root), "us", NOW, NOW + HOUR)
    with pytest.raises(Reserved) as refused:
        ours(area, "them")
    assert refused.value.exit_code == 3 and not refused.value.retryable
    said = str(refused.value).splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"{area.root}: reserved by us until 2023-11-14 23:13:20 UTC")
    assert said[0].endswith(f"kafkats release {area.root}")
    assert read_reservation(area) == entered.reservation, "the refused one has changed it"


def test_the_same_holder_enters_again_and_extends(area: WorkArea) -> None:
    first = ours(area)
    longer = ours(area, until=NOW + 3 * HOUR, now=NOW + 1)
    assert longer.reservation[:4] == (str(area.root), "us", NOW, NOW + 3 * HOUR)
    assert longer.reservation.token != first.reservation.token
    assert ours(area, until=NOW + HOUR).reservation.until_ms == NOW + 3 * HOUR, "it was shortened"


def test_an_expired_one_is_taken_over(area: WorkArea) -> None:
    ours(area, "the one before")
    with pytest.raises(Reserved):
        ours(area, until=NOW + 2 * HOUR, now=NOW + HOUR - 1)
    entered = ours(area, until=NOW + 2 * HOUR, now=NOW + HOUR)
    assert entered.remark == (
        f"{area.root}: the reservation of the one before until 2023-11-14 23:13:20 UTC had expired and was taken over"
    )
    found = read_reservation(area)
    assert found is not None and (found.holder, found.made_ms) == ("us", NOW + HOUR)


def test_one_whose_run_is_over_is_taken_over(area: WorkArea) -> None:
    ours(area, "them")
    with pytest.raises(Reserved):
        reserve(area, "us", NOW + HOUR, now_ms=NOW, take_over=("others",))
    remark = reserve(area, "us", NOW + HOUR, now_ms=NOW, take_over=("others", "them")).remark
    assert "them" in remark and remark.endswith("is over and was taken over")


def test_one_whose_run_is_over_is_released_unless_a_process_still_writes(area: WorkArea) -> None:
    ours(area, "them")
    assert release(area, holder="us", over=("others",)) is None
    with writing(area), pytest.raises(Refused, match="a process still writes for it"):
        release(area, holder="us", over=("them",))
    assert read_reservation(area) is not None
    released = release(area, holder="us", over=("them",))
    assert released is not None and released.holder == "them"
    assert read_reservation(area) is None


def test_a_known_holder_or_token_enters_and_the_holder_stays(area: WorkArea) -> None:
    planned = ours(area, "the plan")
    applied = reserve(area, "us", NOW + 2 * HOUR, now_ms=NOW, known=("the plan",)).reservation
    assert (applied.holder, applied.until_ms) == ("the plan", NOW + 2 * HOUR)
    with pytest.raises(Reserved):
        reserve(area, "us", NOW + HOUR, now_ms=NOW, known=(planned.reservation.token,))
    assert (
        reserve(area, "us", NOW + HOUR, now_ms=NOW, known=(applied.token,)).reservation.holder
        == "the plan"
    )


# Giving it back


def test_release(area: WorkArea) -> None:
    assert release(area) is None
    assert not area.path.exists()
    entered = ours(area)
    assert release(area, holder="them") is None
    assert release(area, holder="us") == entered.reservation
    assert read_reservation(area) is None
    assert release(area) is None
    ours(area, "them")
    broken = release(area)
    assert broken is not None and broken.holder == "them"
    ours(area)


class _Unreadable(Disk):
    """A disk that fails when it is asked for a directory."""

    def is_dir(self, path: Path) -> bool:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))


def test_a_disk_that_fails_before_the_area_is_found(area: WorkArea) -> None:
    token = reserve(area, "a", HOUR, now_ms=0).reservation.token
    with pytest.raises(StorageFailed, match="releasing the log directory"):
        release(area, token=token, disk=_Unreadable())
    with pytest.raises(StorageFailed, match="extending the reservation"):
        extend(area, token, 2 * HOUR, disk=_Unreadable())


def test_an_earlier_attempt_does_not_release_the_later_ones(area: WorkArea) -> None:
    zombie, living = ours(area), ours(area)
    assert release(area, token=zombie.reservation.token) is None
    assert not extend(area, zombie.reservation.token, NOW + 9 * HOUR)
    assert read_reservation(area) == living.reservation
    assert extend(area, living.reservation.token, NOW + 2 * HOUR)
    assert extend(area, living.reservation.token, NOW)
    assert read_reservation(area) == living.reservation._replace(until_ms=NOW + 2 * HOUR)
    assert release(area, token=living.reservation.token) is not None
    assert not extend(area, living.reservation.token, NOW + 9 * HOUR)
    assert read_reservation(area) is None, "what was broken is made again"


# Many at once


def in_processes(count: int, act: Callable[[int], str]) -> list[str]:
    """`act` in so many processes at once, what each of them says."""
    gate, opener = os.pipe()
    answers, answer = os.pipe()

    def run(number: int) -> None:
        os.close(opener)
        os.read(gate, 1)  # all start when the parent closes its end
        os.write(answer, (act(number) + "\n").encode())

    children = [fork(lambda n=number: run(n)) for number in range(count)]  # type: ignore[misc]
    for end in (opener, answer, gate):
        os.close(end)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * count
    said = os.read(answers, 65536).decode().splitlines()
    os.close(answers)
    return said


@pytest.mark.examples(1)
@pytest.mark.parametrize("before", ["nothing", "expired", "released"])
def test_of_many_processes_exactly_one_gets_it(tmp_path: Path, before: str) -> None:
    winners = set()
    for turn in range(TURNS):
        area = an_area(tmp_path / str(turn))
        if before != "nothing":
            ours(area, "the one before", NOW + 1)
        if before == "released":
            release(area)

        def attempt(number: int, area: WorkArea = area) -> str:
            try:
                ours(area, f"planner {number}", now=NOW + 1)
            except Reserved:
                return ""
            return f"planner {number}"

        said = in_processes(4, attempt)
        assert len(said) == 4
        (winner,) = (one for one in said if one)
        found = read_reservation(area)
        assert found is not None and found.holder == winner
        winners.add(winner)
    assert len(winners) > 1, "no race: always the same one was first"


def test_without_the_lock_two_would_get_it(area: WorkArea) -> None:
    """What the tests around this one would see: somebody else comes between the look and the rename."""
    got = []

    class Unlocked(WatchedDisk):
        @contextmanager
        def lock(self, path: Path) -> Generator[None]:
            path.touch()
            yield

    def meanwhile(verb: str, *_: Path) -> None:
        if verb == "unlink":
            got.append(ours(area, "them", disk=Unlocked()))

    got.append(ours(area, "us", disk=Unlocked(meanwhile)))
    assert [one.reservation.holder for one in got] == ["them", "us"]


def test_reserving_and_releasing_all_at_once(area: WorkArea) -> None:
    """Whoever has it finds itself written down until it gives it back."""
    counter = area.root.parent / "counter"
    counter.write_text("0")

    def live(number: int) -> str:
        done = 0
        while done < 25:
            try:
                entered = ours(area, f"planner {number}")
            except Reserved:
                continue
            before = int(counter.read_text())
            time.sleep(0.0005)
            assert read_reservation(area) == entered.reservation
            counter.write_text(str(before + 1))
            assert release(area, token=entered.reservation.token) == entered.reservation
            done += 1
        return "done"

    assert in_processes(3, live) == ["done"] * 3
    assert counter.read_text() == "75", "two had it at the same time"


def test_a_lock_that_is_never_given_back(area: WorkArea, monkeypatch: pytest.MonkeyPatch) -> None:
    ours(area)
    monkeypatch.setattr(reservation, "_WAIT_SECONDS", 0.05)
    with (
        DISK.lock(area.path / "reservation.lock"),
        pytest.raises(Locked, match="too long") as waited,
    ):
        ours(area)
    assert waited.value.retryable


# Crashes


def effects_of(act: Callable[[Disk], object]) -> int:
    count = 0

    def seen(*_: object) -> None:
        nonlocal count
        count += 1

    act(WatchedDisk(seen))
    return count


def killed_at(n: int, act: Callable[[Disk], object]) -> None:
    left = [n]

    def count_down(*_: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    _, status = os.waitpid(fork(lambda: act(WatchedDisk(count_down))), 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, (
        f"was not killed at {n}"
    )


def before_and_act(what: str, area: WorkArea, disk: Disk) -> Callable[[Disk], object]:
    """Get ready for one of ACTS, and what it is then."""
    if what == "take over":
        ours(area, "them", NOW + 1, disk=disk)
    elif what != "reserve":
        token = ours(area, disk=disk).reservation.token
        if what == "release":
            return lambda disk: release(area, disk=disk)
        if what == "extend":
            return lambda disk: extend(area, token, NOW + 3 * HOUR, disk=disk)
    return lambda disk: ours(area, until=NOW + 3 * HOUR, now=NOW + 2, disk=disk)


ACTS = ("reserve", "enter again", "take over", "extend", "release")


def whose(area: WorkArea, disk: Disk) -> tuple[str, int] | None:
    found = read_reservation(area, disk=disk)
    return found and (found.holder, found.until_ms)


@pytest.mark.parametrize("what", ACTS)
def test_kill_at_every_effect(tmp_path: Path, what: str) -> None:
    area = an_area(tmp_path / "first")
    act = before_and_act(what, area, DISK)
    old = whose(area, DISK)
    points = effects_of(act)
    new = whose(area, DISK)
    assert old != new and points > 1
    states = set()
    for n in range(points):
        area = an_area(tmp_path / str(n))
        act = before_and_act(what, area, DISK)
        killed_at(n, act)
        now = whose(area, DISK)
        assert now in (old, new), n
        states.add(now)
        act(DISK)
        assert whose(area, DISK) == new, "called again it does not do it"
        release(area)
        ours(area, "them", disk=DISK)
    assert states == {old, new} or what == "release"


@pytest.mark.parametrize("what", ACTS)
def test_power_failure_at_every_effect(what: str) -> None:
    disk, area = memory.make("indexes")
    act = before_and_act(what, area, disk)
    disk.sync_all()
    old = whose(area, disk)
    seen: set[object] = set()
    chance = random.Random(1)
    *under_way, done = memory.moments(disk, act)
    new = whose(area, done)
    states = 0
    for killed in under_way:
        for crashed in (killed, *killed.after_crash(chance, seen)):
            assert whose(area, crashed) in (old, new)
            act(crashed)
            assert whose(area, crashed) == new
            states += 1
    assert states > 3
    for crashed in done.after_crash(chance, set()):
        assert whose(area, crashed) == new, "it was reported, and is lost"


# Whose files, and where


def test_files_belong_to_the_log_dirs_owner(area: WorkArea) -> None:
    ours(area)
    for path in (area.path.parent, area.path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert sorted(os.listdir(area.path)) == ["reservation", "reservation.lock"]
    for path in area.path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o640, path


@pytest.mark.root("becomes another user")
def test_the_owner_can_release_what_root_has_reserved() -> None:
    with TemporaryDirectory() as base:
        os.chmod(base, 0o755)
        os.chown(base, 1234, 1234)
        area = an_area(Path(base))
        os.chown(area.root, 1234, 1234)
        area = work_area(area.root)
        ours(area)

        def as_owner() -> None:
            os.setresgid(1234, 1234, 1234)
            os.setresuid(1234, 1234, 1234)
            assert release(area) is not None
            ours(area)

        assert os.waitpid(fork(as_owner), 0)[1] == 0
        with pytest.raises(Reserved):
            ours(area, "root")

        def as_another() -> None:
            os.setresuid(4321, 4321, 4321)
            with pytest.raises(KafkatsError, match="ermi"):
                ours(reservation_area(area.root))

        assert os.waitpid(fork(as_another), 0)[1] == 0


@pytest.mark.root("becomes another user")
def test_where_another_owner_keeps_the_area_to_itself() -> None:
    with TemporaryDirectory() as base:
        place = Path(base) / "place"
        for path, uid in ((Path(base), 0), (Path(base) / ".kafkats", 4321), (place, 1234)):
            path.mkdir(exist_ok=True)
            os.chown(path, uid, uid)
            path.chmod(0o700 if uid == 4321 else 0o755)
        root = an_area(Path(base)).root
        os.chown(root, 1234, 1234)

        def as_owner() -> None:
            os.setresgid(1234, 1234, 1234)
            os.setresuid(1234, 1234, 1234)
            with pytest.raises(ReadOnly):
                reservation_area(root)
            ours(reservation_area(root, place))
            with pytest.raises(Reserved):
                ours(reservation_area(root, place), "them")

        assert os.waitpid(fork(as_owner), 0)[1] == 0


def test_a_mount_is_reserved_in_its_parent(
    area: WorkArea, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        workarea, "_mount", lambda path: "inner" if path.is_relative_to(area.root) else "outer"
    )
    assert reservation_area(area.root) == area._replace(linked=False)
    place = tmp_path / "place"
    place.mkdir()
    ours(reservation_area(area.root, place))
    with pytest.raises(Reserved, match=f"kafkats release {area.root}$"):
        ours(reservation_area(area.root, place), "them")


def test_whoever_names_a_place_meets_whoever_names_none(area: WorkArea, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    ours(area)
    with pytest.raises(Reserved):
        ours(reservation_area(area.root, place), "them")


def test_by_the_real_directory_of_a_link(area: WorkArea, tmp_path: Path) -> None:
    ours(area)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link").symlink_to(area.root)
    with pytest.raises(Reserved):
        ours(reservation_area(tmp_path / "elsewhere" / "link"), "them")


# Bad words, bad files


@pytest.mark.parametrize("holder", ["", "  ", "a\nb", "a\0b", "\x1b[31m", "\udcff", "x" * 5001])
def test_holders_that_are_none(area: WorkArea, holder: str) -> None:
    with pytest.raises(UsageError, match="printable"):
        ours(area, holder)
    assert not area.path.exists()


@pytest.mark.parametrize("until", [NOW, NOW - 1, NOW // 1000, NOW * 1000, 0, -1])
def test_times_that_are_none(area: WorkArea, until: int) -> None:
    with pytest.raises(UsageError, match="epoch milliseconds"):
        ours(area, until=until)
    assert not area.path.exists()


@pytest.mark.parametrize("year", [1900, 9999, 12000])
def test_a_clock_that_is_wrong_by_centuries(area: WorkArea, year: int) -> None:
    """Such a reservation could be neither read nor printed."""
    now = (year - 1970) * 31_556_952_000
    with pytest.raises(UsageError, match=f"now is {now}"):
        reserve(area, "somebody", now + 366 * 86_400_000, now_ms=now)
    assert not area.path.exists()


GOOD = {
    "version": 1,
    "log_dir": "/x",
    "holder": "us",
    "made_ms": 1,
    "until_ms": NOW * 2,
    "token": "t",
}
BAD = {
    "empty": b"",
    "zeros": bytes(100),
    "cut": json.dumps(GOOD).encode()[:-3],
    "not UTF-8": b"\xff\xfe",
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "another version": json.dumps(GOOD | {"version": 2}).encode(),
    "no version": json.dumps({**GOOD, "version": None}).encode(),
    "a field too many": json.dumps(GOOD | {"more": 1}).encode(),
    "a field too few": json.dumps({k: v for k, v in GOOD.items() if k != "token"}).encode(),
    "a text for a time": json.dumps(GOOD | {"until_ms": "tomorrow"}).encode(),
    "a fraction": json.dumps(GOOD | {"until_ms": 1.5}).encode(),
    "true": json.dumps(GOOD | {"made_ms": True}).encode(),
    "no time at all": json.dumps(GOOD | {"until_ms": 10**30}).encode(),
    "infinity": json.dumps(GOOD | {"until_ms": float("inf")}).encode(),
    "a NUL": json.dumps(GOOD | {"log_dir": "/x\0"}).encode(),
    "before the epoch": json.dumps(GOOD | {"until_ms": -1}).encode(),
    "a holder that clears the screen": json.dumps(GOOD | {"holder": "\x1b[2J"}).encode(),
    "a number for a holder": json.dumps(GOOD | {"holder": 7}).encode(),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_read(area: WorkArea, name: str) -> None:
    ours(area)
    path = area.path / "reservation"
    path.write_bytes(BAD[name])
    acts: list[Callable[[], object]] = [
        lambda: read_reservation(area),
        lambda: ours(area),
        lambda: release(area, holder="us"),
        lambda: extend(area, "t", NOW + HOUR),
    ]
    for act in acts:
        with pytest.raises(CorruptFile) as corrupt:
            act()
        assert corrupt.value.path == str(path)
        assert f"kafkats release {area.root}" in str(corrupt.value)
        assert path.read_bytes() == BAD[name], "damage was taken for nothing"
    assert release(area) is not None
    ours(area, "them")


@pytest.mark.parametrize("what", ["directory", "link", "fifo"])
def test_something_else_in_its_place(area: WorkArea, what: str) -> None:
    ours(area)
    path = area.path / "reservation"
    path.unlink()
    {
        "directory": path.mkdir,
        "link": lambda: path.symlink_to("/etc/passwd"),
        "fifo": lambda: os.mkfifo(path),
    }[what]()
    for act in (lambda: read_reservation(area), lambda: ours(area)):
        with pytest.raises(CorruptFile, match="not a regular file"):
            act()
    if what == "directory":
        with pytest.raises(KafkatsError):
            release(area)
    else:
        assert release(area) is not None
        ours(area)


def test_what_a_killed_writer_leaves_beside_is_no_reservation(area: WorkArea) -> None:
    ours(area)
    os.rename(area.path / "reservation", area.path / "reservation.new")
    assert read_reservation(area) is None
    ours(area, "them")
    assert not (area.path / "reservation.new").exists()


def test_numbers_as_json_has_them(area: WorkArea) -> None:
    """The file is for people, too."""
    entered = ours(area, "airflow apply_retention manual__2026-11-22T04:00:00+00:00")
    content = json.loads((area.path / "reservation").read_text())
    assert content == {"version": 1, **entered.reservation._asdict()}


def test_not_reserved_where_there_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(KafkatsError):
        reservation_area(tmp_path / "nowhere")
