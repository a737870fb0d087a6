"""`kafkats recover` before a broker's start: exit codes, log lines, and the process that it becomes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kafkats import paths
from kafkats.cli import recovering
from kafkats.cli.generated import DeclaredOption
from kafkats.errors import StorageFailed
from kafkats.logdir import outputs
from kafkats.logdir.location import log_dir_above
from kafkats.logdir.properties import read_meta_properties
from tests.golden import Unpacked
from tests.recovery.crashed import some_of

SECONDS = 120


@pytest.fixture
def killed(golden: Unpacked, tmp_path: Path) -> Path:
    return some_of(
        golden, "crash-4.3.1", ["few-bytes-0", "untouched-0"], tmp_path / "disk" / "data"
    )


@pytest.fixture
def clean(killed: Path) -> Path:
    (killed / paths.CLEAN_SHUTDOWN).touch()
    return killed


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def recover(capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[dict[str, Any]]]:
    """Run the command in this process: its exit code, and the lines of its log."""
    code = recovering.main([*map(str, words)])
    return code, lines(capfd.readouterr().err)


def process(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kafkats", "recover", *map(str, words)],
        capture_output=True, text=True, check=False, timeout=SECONDS, **more,
    )  # fmt: skip


def test_after_a_clean_stop_nothing_that_reads_logs_is_imported(clean: Path) -> None:
    program = (
        "import sys; from kafkats.cli import recovering; code = recovering.main(sys.argv[1:]);"
        "heavy = ('numpy', 'numba', 'pyarrow', 'kafkats.flow', 'kafkats.request');"
        "print(code, [m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, clean, "--kafka", "4.3"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "0 []\n"
    [start] = lines(done.stderr)
    assert (start["event"], start["clean"], start["partitions"]) == ("start", True, 2)


def test_a_killed_broker_s_logs_are_recovered_and_the_broker_starts(killed: Path) -> None:
    done = process(killed, "--kafka", "4.3", "--", "sh", "-c", "echo $0 $KAFKA_OPTS; exit 7", "broker",
                   env={**os.environ, "KAFKA_OPTS": "-Dx"})  # fmt: skip
    assert (done.returncode, done.stdout) == (7, "broker -Dx\n"), done.stderr
    told = lines(done.stderr)
    assert [one["event"] for one in told][-2:] == ["start", "starting"]
    assert told[-2]["recovered"] == 2
    assert {"time", "level", "event"} <= told[0].keys()


def test_the_command_gets_the_environment_as_it_was(clean: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = process(
        clean,
        "--kafka",
        "4.3",
        "--",
        sys.executable,
        "-c",
        "import os; print(sorted(os.environ))",
        env=environment,
    )
    assert "PYDANTIC" not in done.stdout and "OPENBLAS" not in done.stdout


def test_a_command_that_is_not_there(clean: Path) -> None:
    done = process(clean, "--kafka", "4.3", "--", "/no/such/broker")
    assert (done.returncode, lines(done.stderr)[-1]["event"]) == (127, "not-started")


@pytest.mark.parametrize(
    "words",
    [
        ["--hold", "losses"],
        ["--within", "soon"],
        ["--kafka", "99.x"],
        ["--no-such-option"],
        ["--recovery-threads", "0"],
        ["--"],
    ],
)
def test_mistyped_words_end_with_2(
    clean: Path, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert recovering.main([str(clean), *words]) == 2
    assert capfd.readouterr().err.startswith("kafkats: ")


def test_no_log_directory_is_a_mistyped_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert recovering.main([]) == 2


def test_a_finding_holds_the_start_and_the_command(clean: Path) -> None:
    done = process(clean, "--kafka", "4.3", "--node-id", 99, "--", "echo", "started")
    assert (done.returncode, done.stdout) == (3, "")
    finding, hold = lines(done.stderr)
    assert (finding["kind"], finding["holds"], finding["level"]) == ("other-broker", True, "error")
    assert (hold["event"], hold["level"]) == ("hold", "error")
    done = process(
        clean, "--kafka", "4.3", "--node-id", 99, "--hold", "none", "--", "echo", "started"
    )
    assert (done.returncode, done.stdout) == (0, "started\n")


def test_a_log_directory_that_the_command_no_longer_names_is_told(
    clean: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A disk may be taken out of log.dirs: the broker starts, and one line names the disk."""
    shutil.copytree(clean, other := tmp_path / "other" / "data")
    words = ("--kafka", "4.3", "--record", tmp_path / "record")
    assert recover(capfd, clean, other, *words)[0] == 0
    code, told = recover(capfd, clean, *words)
    assert (code, told[0]["event"], told[0]["log_dir"]) == (0, "not-named", str(other))
    assert told[0]["partitions"] == 2
    assert [one["event"] for one in recover(capfd, clean, *words)[1]] == ["start"]


def test_a_log_directory_that_is_named_twice_is_named(
    clean: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (link := tmp_path / "link").symlink_to(clean)
    words = ("--kafka", "4.3", "--record", tmp_path / "record")
    recover(capfd, clean, *words)
    for named in ([link, clean], [link]):
        assert [one["event"] for one in recover(capfd, *named, *words)[1]] == ["start"]


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_lost_log_directory_is_told_once(
    clean: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], is_empty: bool
) -> None:
    words = ("--kafka", "4.3", "--record", tmp_path / "record")
    recover(capfd, clean, *words)
    shutil.rmtree(clean)
    if is_empty:
        clean.mkdir()
    code, told = recover(capfd, clean, *words)
    assert (code, [one["event"] for one in told]) == (3, ["finding", "hold"])


def test_server_properties_name_the_directories_and_the_node(
    clean: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    properties = tmp_path / "kafka" / "config" / "server.properties"
    properties.parent.mkdir(parents=True)
    (tmp_path / "kafka" / "libs").mkdir()
    (tmp_path / "kafka" / "libs" / "kafka_2.13-4.3.1.jar").touch()
    properties.write_text(f"log.dirs={clean}\nnode.id=99\nprocess.roles=broker\n")
    code, told = recover(capfd, "--server-properties", properties)
    assert (code, [one["event"] for one in told]) == (3, ["finding", "hold"])


@pytest.mark.parametrize(
    "words",
    [
        ["--server-properties", "config/server.properties"],
        ["--server-properties", "config/server.properties", "--", "bin/start"],
        ["LOG_DIR", "--", "bin/start"],
    ],
)
def test_an_installation_is_found_beside_relative_paths(
    clean: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "server.properties").write_text(f"log.dirs={clean}\n")
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka_2.13-4.1.2.jar").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recovering, "_become", lambda _: 0)
    words = [word.replace("LOG_DIR", str(clean)) for word in words]
    assert [one["event"] for one in recover(capfd, *words)[1]] == ["start"]
    told = recover(capfd, "--kafka", "3.9", *words)[1]
    assert [one["event"] for one in told] == ["release-differs", "start"]
    assert (told[0]["level"], told[0]["given"], told[0]["found"]) == ("warning", "3.9", "4.1.2")
    assert [one["event"] for one in recover(capfd, "--kafka", "4.1", *words)[1]] == ["start"]


def test_a_start_command_overrides_the_node_and_the_directories(
    clean: Path, tmp_path: Path
) -> None:
    """A StatefulSet has one server.properties for all pods."""
    node = read_meta_properties(clean / paths.META_PROPERTIES).node_id
    (properties := tmp_path / "server.properties").write_text("log.dirs=/none\nbroker.id=99\n")
    words = ["--kafka", "4.3", "--server-properties", properties, "--", "echo", "started"]
    override = ["--override", f"log.dirs={clean}"]
    held = process(*words, *override)
    assert (held.returncode, held.stdout) == (3, "")
    done = process(*words, *override, f"--override=broker.id={node}")
    assert (done.returncode, done.stdout.split()[0]) == (0, "started")
    assert lines(done.stderr)[-2]["partitions"] == 2


def test_the_node_of_a_configuration_counts_beside_named_directories(
    clean: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (properties := tmp_path / "server.properties").write_text("log.dirs=${env:DIRS}\nnode.id=99\n")
    code, told = recover(capfd, clean, "--kafka", "4.3", "--server-properties", properties)
    assert (code, [one["event"] for one in told]) == (3, ["finding", "hold"])


@pytest.mark.parametrize("text", [None, "log.dirs=${env:DIRS}"])
def test_an_unreadable_configuration_lets_the_broker_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], text: str | None
) -> None:
    properties = tmp_path / "server.properties"
    if text:
        properties.write_text(text)
    code, told = recover(capfd, "--server-properties", properties)
    assert (code, told[0]["event"], told[0]["level"]) == (0, "unread-configuration", "error")


def test_a_configuration_that_does_not_come_lets_the_broker_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer keeps the pipe open, as a mount that hangs would."""
    monkeypatch.setattr(recovering, "_LOOK_SECONDS", (0.5, 0.5))
    os.mkfifo(pipe := tmp_path / "server.properties")
    writer = os.open(pipe, os.O_RDWR)
    try:
        code, told = recover(capfd, "--server-properties", pipe)
    finally:
        os.close(writer)
    assert (code, [one["error"] for one in told]) == (0, ["the time was up"])


def test_an_unreadable_policy_lets_the_broker_start(
    killed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (policy := tmp_path / "policy.yaml").write_text("topics: [")
    code, told = recover(capfd, killed, "--kafka", "4.3", "--policy", policy)
    assert (code, told[0]["event"], told[-1]["recovered"]) == (0, "unread-policy", 2)


def test_a_missing_work_area_lets_the_broker_start(
    killed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, told = recover(capfd, killed, "--kafka", "4.3", "--work-area", tmp_path / "none")
    assert (code, [one["event"] for one in told][:2]) == (0, ["left-to-the-broker", "not-noted"])
    assert (told[0]["level"], told[-1]["recovered"], told[-1]["left"]) == ("error", 0, 2)
    assert (told[-1]["event"], told[-1]["level"], told[-1]["failed"]) == ("start", "warning", True)


def test_a_user_who_may_not_write_beside_the_log_directory_is_told_of_an_option(
    killed: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    access, above = os.access, killed.parent
    monkeypatch.setattr(
        os, "access", lambda path, *_, **__: path != above and access(path, os.W_OK)
    )
    code, told = recover(capfd, killed, "--kafka", "4.3")
    assert (code, told[0]["kind"], told[0]["level"]) == (0, "NotPermitted", "error")
    assert "--work-area" in told[0]["error"] and told[-1]["left"] == 2
    (tmp_path / "state").mkdir()
    code, told = recover(capfd, killed, "--kafka", "4.3", "--work-area", tmp_path / "state")
    assert (code, told[-1]["recovered"], told[-1]["left"]) == (0, 2, 0)


def test_a_failed_disk_keeps_no_other_from_being_recovered(
    killed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "none")
    code, told = recover(capfd, tmp_path / "link", killed, "--kafka", "4.3")
    assert (code, told[0]["event"], told[-1]["recovered"]) == (0, "unread-directory", 2)


def test_no_path_is_looked_at_while_words_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that does not answer would hold the process that becomes the broker."""
    words = [str(tmp_path)]
    for parameter in recovering.recover.params:
        if isinstance(parameter, DeclaredOption) and parameter.declared.kind.base is Path:
            words += [parameter.opts[0], str(tmp_path / parameter.opts[0])]
    assert "--server-properties" in words and "--record" in words

    def hang(path: object, **_: object) -> None:
        raise AssertionError(path)

    with monkeypatch.context() as patched:
        for name in ("access", "lstat", "scandir", "stat"):
            patched.setattr(os, name, hang)
        context = recovering.recover.make_context("recover", words)
    assert context.params["record"] == tmp_path / "--record"


def test_paths_that_this_user_may_not_read_let_the_broker_start(
    killed: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def access(path: object, mode: int, **_: object) -> bool:
        return mode != os.R_OK

    monkeypatch.setattr(os, "access", access)
    other = killed.parent / "other"
    other.mkdir()
    code, told = recover(capfd, other, killed, "--kafka", "4.3", "--record", other.parent / "none")
    assert (code, told[-1]["recovered"]) == (0, 2)


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
def test_a_record_on_a_failed_disk_keeps_no_log_from_being_recovered(
    killed: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_clean: bool,
) -> None:
    def failing(path: Path, **more: bool) -> Path | None:
        if path == tmp_path / "record":
            raise StorageFailed("input/output error", path=path)
        return log_dir_above(path, **more)

    if is_clean:
        (killed / paths.CLEAN_SHUTDOWN).touch()
    monkeypatch.setattr(outputs, "log_dir_above", failing)
    code, told = recover(capfd, killed, "--kafka", "4.3", "--record", tmp_path / "record")
    assert (code, told[0]["event"], told[-1]["event"]) == (0, "not-noted", "start")
    assert [one["event"] for one in told].count("not-noted") == 1
    assert told[-1].get("recovered", 2) == 2


@pytest.mark.parametrize("option", ["--record", "--work-area"])
def test_an_output_in_a_log_directory_is_a_mistyped_command(
    killed: Path, capfd: pytest.CaptureFixture[str], option: str
) -> None:
    assert recovering.main([str(killed), "--kafka", "4.3", option, str(killed / "a")]) == 2
    told = capfd.readouterr().err
    assert told.startswith("kafkats: ") and f"with {option}" in told
    assert not (killed / "a").exists()


def test_an_error_of_ours_in_the_words_lets_the_broker_start(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def become(command: list[str]) -> int:
        started.extend(command)
        return 0

    monkeypatch.setattr(recovering, "_become", become)
    monkeypatch.setattr(recovering.recover, "parse_args", lambda *_: 1 / 0)
    code, told = recover(capfd, "/data", "--", "kafka-server-start.sh", "--", "x")
    assert (code, told[0]["kind"]) == (0, "ZeroDivisionError")
    assert started == ["kafka-server-start.sh", "--", "x"]
    assert recover(capfd, "/data")[0] == 0


def test_the_time_runs_while_the_work_is_imported(killed: Path) -> None:
    """Imports that take 100 s by the clock of the child leave 200 of 300 s."""
    program = f"""
import sys, time
from kafkats import flow
from kafkats.cli import recovering
from kafkats.cli.generated import DeclaredOption
from kafkats.errors import StorageFailed
from kafkats.logdir import outputs
from kafkats.logdir.location import log_dir_above
from kafkats.logdir.properties import read_meta_properties
real = time.monotonic
class Late:
    def find_spec(name, path, target=None):
        if name == "kafkats.flow.verbs.recover":
            time.monotonic = lambda: real() + 100
def run(request, *_, **__):
    time.monotonic = real
    print(request.options["BeforeStart"]["within"], flush=True)
    raise ZeroDivisionError
sys.meta_path.insert(0, Late)
flow.run = run
sys.exit(recovering.main([{str(killed)!r}, "--kafka", "4.3", "--within", "5m"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, text=True, check=True, timeout=SECONDS,
    )  # fmt: skip
    assert 0 <= int(done.stdout) <= 200_000


def test_a_log_directory_that_another_process_changes_is_not_clean(
    killed: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = (
        "import sys; from kafkats.logdir.lock import hold_shared\n"
        "with hold_shared(sys.argv[1], False): print(flush=True), sys.stdin.read()"
    )
    words = [sys.executable, "-c", program, str(killed)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline()
        code, told = recover(capfd, killed, "--kafka", "4.3")
        other.communicate()
    assert (code, told[0]["event"], told[-1]["clean"]) == (0, "kafkats-works", False)


def test_a_log_directory_that_goes_offline_holds_no_start_with_others(
    clean: Path, golden: Unpacked, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = some_of(golden, "crash-4.3.1", [], tmp_path / "other" / "data")
    (other / paths.RECOVERY_POINT).write_text("garbage")
    words = ["--kafka", "2.8.2", "--hold", "will-not-start"]
    code, told = recover(capfd, clean, other, *words)
    assert (code, [one["event"] for one in told]) == (0, ["unread-directory", "predicted", "start"])
    (clean / paths.RECOVERY_POINT).write_text("garbage")
    assert recover(capfd, clean, other, *words)[0] == 3


def test_a_start_that_is_to_be_predicted_is_also_after_a_clean_stop(
    clean: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--kafka", "4.3", "--hold", "will-not-start"]
    assert recover(capfd, clean, *words)[0] == 0
    (clean / "untouched-0" / "not-a-number.log").write_bytes(b"x")
    assert recover(capfd, clean, "--kafka", "4.3")[0] == 0
    code, told = recover(capfd, clean, *words)
    assert (code, [one["event"] for one in told]) == (3, ["predicted", "finding", "hold"])
    assert "not-a-number" in told[1]["reason"]


def test_losses_that_are_to_hold_are_looked_for_after_a_clean_stop(
    clean: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = max((clean / "untouched-0").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-50])
    assert recover(capfd, clean, "--kafka", "4.3")[0] == 0
    code, told = recover(capfd, clean, "--kafka", "4.3", "--hold", "default,loses-records")
    assert (code, told[-2]["kind"], told[-1]["event"]) == (3, "loses-records", "hold")


def test_a_new_broker_starts_though_nothing_is_there_to_predict(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["--kafka", "4.3", "--hold", "default,will-not-start"]
    code, told = recover(capfd, tmp_path / "new" / "data", *words)
    assert (code, told[-1]["event"]) == (0, "start")


def test_a_crash_of_ours_lets_the_broker_start(
    killed: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovering, "look_before", lambda *_, **__: 1 / 0)
    code, told = recover(capfd, killed, "--kafka", "4.3")
    assert (code, [one["event"] for one in told]) == (0, ["failed", "failed"])
    assert told[0]["kind"] == "ZeroDivisionError"


def test_a_disk_that_does_not_answer_lets_the_broker_start(
    clean: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovering, "_LOOK_SECONDS", (0.5, 0.5))
    monkeypatch.setattr(recovering, "look_before", lambda *_, **__: time.sleep(SECONDS))
    code, told = recover(capfd, clean, "--kafka", "4.3")
    assert (code, [one["error"] for one in told]) == (0, ["the time was up"])


def test_a_record_that_is_no_file_is_replaced(
    clean: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nobody writes into the pipe: a read of it would never end."""
    (tmp_path / "records").mkdir()
    os.mkfifo(tmp_path / "records" / "recover.json")
    code, told = recover(capfd, clean, "--kafka", "4.3", "--record", tmp_path / "records")
    assert (code, [one["event"] for one in told]) == (0, ["start"])
    assert (tmp_path / "records" / "recover.json").is_file()


def test_a_work_area_that_is_a_file_lets_the_broker_start(
    clean: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (clean.parent / ".kafkats").touch()
    code, told = recover(capfd, clean, "--kafka", "4.3")
    assert (code, [one["event"] for one in told]) == (0, ["not-noted", "start"])


def test_a_crash_of_the_child_is_a_line_of_the_log(
    killed: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovering, "_worked", lambda *_: 1 / 0)
    code, told = recover(capfd, killed, "--kafka", "4.3")
    assert (code, [one["event"] for one in told]) == (0, ["failed", "failed"])
    assert (told[0]["kind"], told[1]["error"]) == ("ZeroDivisionError", "its process ended with 1")


@pytest.mark.parametrize(
    "end",
    [lambda: os.kill(os.getpid(), signal.SIGKILL), lambda: os._exit(5)],
    ids=["killed", "ended"],
)
def test_a_killed_child_lets_the_broker_start(
    killed: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, end: Any
) -> None:
    monkeypatch.setattr(recovering, "_worked", lambda *_: end())
    code, told = recover(capfd, killed, "--kafka", "4.3")
    assert (code, told[-1]["event"]) == (0, "failed")


def test_a_child_that_hangs_is_ended_in_time(
    killed: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovering, "_worked", lambda *_: time.sleep(SECONDS))
    code, told = recover(capfd, killed, "--kafka", "4.3", "--within", "1s")
    assert (code, told[-1]["error"]) == (0, "the time was up")


def test_4_0_holds_on_the_partitions_of_a_cluster_with_zookeeper(
    golden: Unpacked, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(golden("matrix-2.8.2-v1", "data"), root := tmp_path / "data")
    code, told = recover(capfd, root, "--kafka", "4.0")
    assert (code, [one["event"] for one in told]) == (3, ["finding", "hold"])
    assert told[0]["kind"] == "sets-aside" and "8 partitions" in told[0]["reason"]
    assert recover(capfd, root, "--kafka", "3.9")[0] == 0
    code, told = recover(capfd, root)
    assert (code, told[0]["event"]) == (0, "release-not-found")


@pytest.mark.parametrize("state", ["migrating", "migrated", "without partitions"])
def test_4_0_starts_where_it_keeps_the_partitions(
    golden: Unpacked, tmp_path: Path, capfd: pytest.CaptureFixture[str], state: str
) -> None:
    shutil.copytree(golden("matrix-2.8.2-v1", "data"), root := tmp_path / "data")
    if state == "migrating":
        (root / paths.CLUSTER_METADATA).mkdir()
    if state == "migrated":
        meta = root / paths.META_PROPERTIES
        text = meta.read_text().replace("version=0", "version=1").replace("broker.id", "node.id")
        meta.write_text(text)
    if state == "without partitions":
        for path in root.glob("*-*/"):
            shutil.rmtree(path)
        for name in paths.OFFSET_CHECKPOINTS:
            (root / name).write_text("0\n0\n")
    assert recover(capfd, root, "--kafka", "4.3")[0] == 0


def test_a_release_that_is_not_found_is_told(
    clean: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, told = recover(capfd, clean)
    assert (code, told[0]["event"], told[-1]["event"]) == (0, "release-not-found", "start")


def test_a_new_broker_starts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    code, told = recover(capfd, tmp_path / "none", tmp_path / "empty", "--kafka", "4.3")
    assert (code, told[-1]["event"], told[-1]["clean"]) == (0, "start", False)
    missing = [(one["level"], one["is"]) for one in told if one["event"] == "nothing-there"]
    assert missing == [("warning", "absent"), ("warning", "empty")]
    assert not (tmp_path / "none").exists()


def test_log_directories_that_nobody_names_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (properties := tmp_path / "server.properties").write_text("node.id=99\n")
    _, told = recover(capfd, "--kafka", "4.3", "--server-properties", properties)
    assert told[0]["event"] == "log-dirs-not-set"
    assert told[0]["taken"] == ["/tmp/kafka-logs"]
