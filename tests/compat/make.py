"""Makes the fixtures of tests/compat: python -m tests.compat.make FOLDER. Run it once per format, and commit what it wrote.

Each `STATE.tar.xz` is a folder that kafkats left: `volume/data` (a log dir of two partitions that a 2.8.2 broker wrote),
`volume/.kafkats` (its work area), `plan`, `plan.run`, and `identity.json`: which file had which inode and ctime. A plan
names these, so `replay.py` puts the new ones in their place. States of an operation:

planned      a plan, not yet applied; the rebuild's has reserved its log dir
applying     apply was killed among its swaps
applied      the undo window is open
undoing      undo was killed among its swaps
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from kafkats.cli import main as kafkats
from kafkats.logdir.disk import DISK
from kafkats.plans.approval import Approval, write_approval
from tests.crash.real import fork
from tests.crash.watched import WatchedDisk
from tests.golden import case, forget_others

NOW: Final = 1_795_335_828_000
PARTITIONS: Final = ("time-all-0", "first-segments-v0-0")
STATES: Final = ("planned", "applying", "applied", "undoing")
OPERATIONS: Final[dict[str, tuple[str, ...]]] = {
    "rebuild": ("--reserve", "--reserve-for", "300d"),
    "migrate": ("--to-magic", "2", "--compression-type", "zstd", "--accept-loss", "all"),
    "retain": ("--now", str(NOW), "--before", str(NOW), "--policy", "@POLICY", "--over-guard"),
    "roll": ("--now", str(NOW), "--config", "segment.ms=1000"),
    "split": ("--where", "rolled", "--segment-bytes", "2000", "--latest", str(NOW)),
}
POLICY: Final = """\
volumes:
  - {broker: "1", path: /var/lib/kafka/data, connection: spark_default}
defaults:
  retention.ms: 604800000
topics:
  "time-*":
    cleanup.policy: delete
    retention.ms: 3600000
    segment.ms: 1000
  first-segments-v0:
    cleanup.policy: delete
    retention.bytes: 4000
  "*":
    cleanup.policy: delete
"""


def run(*words: object, code: int = 0) -> None:
    try:
        kafkats([*map(str, words)])
    except SystemExit as e:
        assert e.code == code, (words, e.code)


def volume(into: Path, operation: str) -> Path:
    data = into / "volume" / "data"
    data.mkdir(parents=True)
    case("retention-2.8.2-v1" if operation == "read" else "retention-2.8.2").unpack("before", data)
    for path in data.iterdir():
        if path.is_dir() and path.name not in PARTITIONS:
            shutil.rmtree(path)
    forget_others(data)
    if operation == "rebuild":
        for name in ("034.timeindex", "068.index", "102.timeindex", "102.index"):
            (data / PARTITIONS[0] / f"00000000000000000{name}").unlink()
        os.truncate(data / PARTITIONS[0] / "00000000000000000000.timeindex", 0)
    return data


def killed(act: Callable[[], object], data: Path) -> None:
    """Do `act` in a process that is killed before its second change of a name in a partition directory."""

    def child() -> None:
        left = [1]

        def before_effect(verb: str, *paths: Path) -> None:
            if verb in ("rename", "unlink") and any(path.parent.parent == data for path in paths):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        DISK.before_effect = before_effect  # type: ignore[attr-defined]
        DISK.__class__ = WatchedDisk
        act()

    _, status = os.waitpid(fork(child), 0)
    assert os.WIFSIGNALED(status), "nothing was killed"


def contents(data: Path) -> dict[str, Any]:
    """Bytes and mode of every file; its mtime, which only an old file has."""
    found = {}
    for path in sorted(data.rglob("*")):
        if path.is_file():
            st = path.stat()
            found[str(path.relative_to(data))] = [
                hashlib.sha256(path.read_bytes()).hexdigest(),
                st.st_mode,
                st.st_mtime_ns,
            ]
    return found


def identity(into: Path) -> dict[str, Any]:
    """Inode and ctime by path, of files and folders."""
    return {
        str(p.relative_to(into)): [p.lstat().st_ino, p.lstat().st_ctime_ns]
        for p in sorted(into.rglob("*"))
    }


def keep(into: Path, archive: Path, more: dict[str, Any]) -> None:
    (into / "identity.json").write_text(
        json.dumps({"root": str(into), "files": identity(into)} | more)
    )
    tar = [
        "tar",
        "--format=posix",
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "-cJf",
        str(archive),
    ]
    subprocess.run([*tar, "-C", str(into), *sorted(os.listdir(into))], check=True)


def operations(folder: Path, work: Path) -> Iterator[str]:
    for operation, options in OPERATIONS.items():
        for state in STATES:
            into = work / f"{operation}-{state}"
            data = volume(into, operation)
            (into / "policy.yaml").write_text(POLICY)
            words = [word.replace("@POLICY", str(into / "policy.yaml")) for word in options]
            before = contents(data)
            run("plan", operation, data, *words, "-o", into / "plan")
            assert json.loads((into / "plan" / "plan.json").read_text())["totals"]["files"] > 2
            apply = ("apply", into / "plan", "--digest", "any", "--owner-stopped", "--by", "ops")
            if state == "applying":
                killed(lambda apply=apply: run(*apply), data)  # type: ignore[misc]
            elif state != "planned":
                run(*apply)
            if state == "undoing":
                killed(lambda into=into: run("undo", into / "plan.run", "--by", "ops"), data)  # type: ignore[misc]
            keep(
                into,
                folder / f"{operation}-{state}.tar.xz",
                {"before": before, "now": contents(data)},
            )
            yield f"{operation}-{state}"


def others(folder: Path, work: Path) -> None:
    """What is read only: a lookup table, an export, a certificate, a report, a ledger, an approval."""
    into = work / "read"
    data = volume(into, "read")
    (into / "policy.yaml").write_text(POLICY)
    run("verify", data, "--json", "-o", into / "report")
    run("certify", data, "--max-magic", 1, "-o", into / "certificate")
    table = ("--from", 1_600_000_000_000, "--until", 1_600_000_180_000, "--every", "10s")
    run("lookup", data, *table, "-o", into / "table", "--high-watermark", "log-end")
    run(
        "export",
        into / "table",
        "--at",
        1_600_000_090_000,
        "--to",
        "group-csv",
        "--missing",
        "all",
        "-o",
        into / "export.csv",
    )
    ledger = into / "ledger.jsonl"
    run(
        "ledger",
        "begin",
        ledger,
        "--from-magic",
        1,
        "--to-magic",
        2,
        "--broker",
        "1",
        "--broker",
        "2",
        "--by",
        "ops",
    )
    for broker in ("1", "2"):
        run(
            "ledger",
            "attest",
            ledger,
            "--broker",
            broker,
            "--text",
            "2.8.2 runs everywhere",
            "--by",
            "ops",
        )
        step = ("--ledger", ledger, "--phase", "phase-1", "--broker", broker, "--by", "ops")
        run("certify", data, "--max-magic", 1, *step)
    step = ("--ledger", ledger, "--phase", "canary", "--broker", "1")
    run(
        "plan", "migrate", data, "--to-magic", 2, "--accept-loss", "all", *step, "-o", into / "plan"
    )
    run("apply", into / "plan", "--digest", "any", "--owner-stopped", "--by", "ops")
    run("verify", data, *step, "--by", "ops")
    digest = json.loads((into / "plan" / "plan.json").read_text())["digest"]
    write_approval(
        into / "approval.json",
        Approval("Approve", (digest,), "Ada", "answered by Ada", NOW),
        run_id="manual",
    )
    keep(into, folder / "read.tar.xz", {})


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kafkats-compat-") as work:
        for name in operations(folder, Path(work)):
            print(name)
        others(folder, Path(work))


if __name__ == "__main__":
    main()
