"""Tries the packages where nothing is installed: `scripts/package --try FOLDER`, by root, with mmdebstrap.

    Debian 12, 13   the .deb, by dpkg in a root without Python and without a network
    musl            the folder in a root with busybox and musl's loader alone: the official Kafka image is such a system

The program is run by a user whom the root does not know, without $HOME and on a read-only disk, on a log directory that
has lost two indexes, and on one that is sound. The time of the first finding is printed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.wheel import GOLDEN

USER: Final = "12345:12345"
SUITES: Final = {"bookworm": "Debian 12", "trixie": "Debian 13"}
SEEN: Final = "24 segments in 10 partitions, 148.0 KiB: 0 danger, 2 damage"


def run(*words: object, code: int = 0) -> str:
    """Run a program, and return what it printed. Ends with its output when it does not exit with `code`."""
    done = subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != code:
        sys.exit(
            f"tools.bare: exit code {done.returncode}, not {code}: {' '.join(map(str, words))[:300]}\n"
            f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.stdout


def inside(root: Path, *command: str, code: int = 0) -> str:
    """Run a command in a root that is read-only, as an unknown user, without a network and with an empty environment."""
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'
    chroot = ("chroot", f"--userspec={USER}", "--groups=", root)
    return run(
        "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "unshare", "--mount", "--net", "--pid", "--fork",
        "sh", "-euc", script, "sh", root, *chroot, *command, code=code,
    )  # fmt: skip


def logs_in(root: Path) -> None:
    """Unpack the golden directory into /logs, and once more into /damaged, where a partition has lost its time indexes."""
    for name in ("logs", "damaged"):
        with tarfile.open(GOLDEN) as golden:
            golden.extractall(root / name, filter="data")
    for index in (root / "damaged" / "lz4-ct-0").glob("*.timeindex"):
        index.unlink()


def works(root: Path, program: str) -> str:
    """Run the commands of a core on /logs and /damaged, and return the time that the first one took."""
    began = time.monotonic()
    damaged = inside(root, program, "verify", "/damaged", code=1)
    took = time.monotonic() - began
    assert SEEN in damaged, damaged
    sound = inside(root, program, "verify", "--deep", "--jobs", "2", "/logs")
    assert "0 danger, 0 damage" in sound, sound
    inside(root, program, "preflight", "/logs", "--kafka", "4.3")
    log = next((root / "logs").glob("*/*.timeindex")).relative_to(root)
    inside(root, program, "dump", f"/{log}")
    inside(root, program, "lookup", "/logs", "--at", "latest")
    assert "tutorial" in inside(root, program, "help")
    answer = inside(root, f"{program}-host", code=2)
    assert "is no message" in json.loads(answer)["error"]["reason"], answer
    return f"first finding after {took:.2f} s"


def debian(suite: str, deb: Path, root: Path) -> str:
    """Install the package into a root of Debian, and try it."""
    run("mmdebstrap", "--quiet", "--variant=minbase", suite, root)
    assert not [*root.glob("usr/bin/python*")], "the root has a Python"
    logs_in(root)
    shutil.copy(deb, root / "tmp" / deb.name)
    run("unshare", "--net", "chroot", root, "dpkg", "--install", f"/tmp/{deb.name}")
    for one in (
        "man/man1/kafkats.1",
        "bash-completion/completions/kafkats",
        "zsh/vendor-completions/_kafkats",
        "fish/vendor_completions.d/kafkats.fish",
    ):
        assert (root / "usr" / "share" / one).stat().st_size, one
    result = works(root, "kafkats")
    run("unshare", "--net", "chroot", root, "dpkg", "--purge", "kafkats")
    left = [*root.glob("opt/*"), *root.glob("usr/bin/kafkats")]
    assert not left, left
    return result


def musl(archive: Path, root: Path) -> str:
    """Unpack the folder into a root with musl alone, and try it."""
    with tempfile.TemporaryDirectory(prefix="kafkats-musl-") as name:
        run("sh", "-euc", 'cd "$1" && apt-get download -qq musl busybox-static', "sh", name)
        for package in Path(name).glob("*.deb"):
            run("dpkg-deb", "--extract", package, root)
    for shell in [*root.glob("usr/bin/busybox"), *root.glob("bin/busybox")][:1]:
        (root / "bin").mkdir(exist_ok=True)
        (root / "bin" / "sh").symlink_to("/" + str(shell.relative_to(root)))
    assert not [*root.rglob("libc.so.6")], "the root has a glibc"
    logs_in(root)
    home = root / "srv" / "anywhere"
    with tarfile.open(archive) as file:
        file.extractall(home, filter="tar")
    return works(root, "/srv/anywhere/kafkats/kafkats")


def main(folder: Path, names: Sequence[str] = ()) -> None:
    """Try the packages in a folder, in all roots or in those of these names. Ends with the first that fails."""
    if os.getuid() != 0:
        sys.exit("tools.bare: roots are made and entered by root")
    (deb,), (archive,) = folder.glob("kafkats_*.deb"), folder.glob("kafkats-*.tar.xz")
    for suite in (*SUITES, "musl"):
        if names and suite not in names:
            continue
        with tempfile.TemporaryDirectory(prefix=f"kafkats-{suite}-") as name:
            root = Path(name) / "root"
            root.mkdir(mode=0o755)
            Path(name).chmod(0o755)
            said = musl(archive, root) if suite == "musl" else debian(suite, deb, root)
        print(f"{SUITES.get(suite, 'musl alone')}: {said}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
