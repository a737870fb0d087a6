"""Builds packages of the core, without a daemon: a folder with a Python of its own, and a Debian package of that folder.

    scripts/package FOLDER          writes kafkats-VERSION-MACHINE.tar.xz and kafkats_VERSION_ARCHITECTURE.deb there
    scripts/package --try FOLDER    tries these two in bare roots (tools/bare.py)

The folder runs at any path, in a system without Python, with musl only, by any user, without $HOME, on a read-only disk: it
has the dynamic loader and all libraries, and its bytecode does not depend on times of files. The Debian package has it in
/opt/kafkats, with a man page and completions for bash, zsh and fish. Needs a C compiler with a static C library.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools import bare
from tools.wheel import GOLDEN, ROOT, build, kernels_in, pins

VERSION: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
_STDLIB: Final = (
    "test", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "distutils", "site-packages", "__pycache__", "config-*",
    "unittest", "pydoc_data", "_tkinter*", "_sqlite3*", "_curses*", "readline*", "_dbm*", "_gdbm*", "*.a", "_test*", "_xxtest*",
)  # fmt: skip
"""Of the standard library, what kafkats does not import."""
_PACKAGES: Final = (
    "__pycache__", "tests", "*.pyx", "*.pxi", "*.pxd", "*.pyi", "*.h", "pyspark_kafkats", "kafkats_airflow", "f2py", "bin",
    "libarrow_flight*", "_flight*", "libarrow_s3*", "_substrait*", "libarrow_python_flight*", "_pyarrow_cpp_tests*", "_s3fs*", "_gcsfs*", "_azurefs*",
    "libarrow_gcs*", "libarrow_azure*", "_orc*", "libgandiva*", "libarrow_python.so", "libarrow_python.so.*.*.*",
)  # fmt: skip
"""Of the installed packages, what kafkats does not load."""
FOLDER: Final = "kafkats"
"""The folder in the archive."""
PROGRAMS: Final = {"kafkats": "kafkats", "kafkats-host": "kafkats.detached", "python": ""}
"""The programs of a package, with the module that each runs; "" for whatever it is given."""
_SITE: Final = """import os, sys
home = os.environ.pop("KAFKATS_HOME", None)
if home:  # worker processes begin with the loader, too
    sys.executable = os.path.join(home, "python")
"""
_CONTROL: Final = """Package: kafkats
Version: {version}
Architecture: {architecture}
Maintainer: kafkats
Installed-Size: {kilobytes}
Section: admin
Priority: optional
Description: repairs and maintains the log directories of Kafka brokers
 Verifies and rebuilds indexes, says what a broker's start will do, answers
 which offset it was at a time. It brings its own Python in /opt/kafkats.
"""
_COMPLETIONS: Final = {
    "bash": "usr/share/bash-completion/completions/kafkats",
    "zsh": "usr/share/zsh/vendor-completions/_kafkats",
    "fish": "usr/share/fish/vendor_completions.d/kafkats.fish",
}


def run(*words: object, **environment: str) -> str:
    """Run a program and return its output. Raises CalledProcessError."""
    command = [str(word) for word in words]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout  # fmt: skip


def make_folder(wheel: Path, home: Path) -> None:
    """Write the folder: Python, packages, libraries, and the program `kafkats`."""
    python, library = home / "bin" / f"python{VERSION}", home / "lib" / f"python{VERSION}"
    packages = library / "site-packages"
    ignored = shutil.ignore_patterns(*_STDLIB)
    shutil.copytree(sysconfig.get_path("stdlib"), library, symlinks=True, ignore=ignored)
    python.parent.mkdir()
    shutil.copy2(Path(sys.executable).resolve(), python)
    constraints = wheel.parent / "constraints.txt"
    constraints.write_text(pins((ROOT / "requirements.lock").read_text()))
    uv = Path(sys.executable).parent / "uv"
    with tempfile.TemporaryDirectory() as name:
        installed = Path(name) / "installed"  # of mode 0755, as the copy: every user reads it
        run(
            uv, "pip", "install", "--quiet", "--no-cache", "--python", sys.executable, "--target", installed, "--constraint", constraints,
            "--link-mode=copy", wheel,
        )  # fmt: skip
        shutil.copytree(installed, packages, ignore=shutil.ignore_patterns(*_PACKAGES))
    (packages / "sitecustomize.py").write_text(_SITE)
    loader = _add_libraries(home)
    for program, module in PROGRAMS.items():
        macros = [f'-DPYTHON="{python.name}"', f'-DLOADER="{loader}"']
        macros += [f'-DMODULE="{module}"'] if module else []
        run(
            "cc", "-O2", "-s", "-static", "-D_GNU_SOURCE", *macros, "-o", home / program,
            ROOT / "tools" / "start.c",
        )  # fmt: skip
    run(
        home / "python", "-m", "compileall", "-q", "-s", home, "--invalidation-mode", "unchecked-hash",
        library,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        with tarfile.open(GOLDEN) as golden:
            golden.extractall(name, filter="data")
        run(home / "python", ROOT / "tools" / "read_ahead.py", home, name)


def _add_libraries(home: Path) -> str:
    """Copy what the programs and libraries in `home` need of this system; return the loader's name."""
    needed = {path for one in _binaries(home) for path in _needed(one)}
    for path in sorted(needed):
        if not path.is_relative_to(home):
            shutil.copy2(path.resolve(), home / "lib" / path.name)
    (loader,) = (path.name for path in needed if path.name.startswith("ld-"))
    for one in _binaries(home):
        if not one.parent.name.endswith(
            ".libs"
        ):  # patched by auditwheel: strip misplaces their parts
            subprocess.run(["strip", "--strip-unneeded", one], check=True)
    return loader


def _binaries(home: Path) -> Iterator[Path]:
    for path in home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def _needed(binary: Path) -> Iterator[Path]:
    done = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False)
    for found in re.findall(r"(/\S+) \(0x", done.stdout):
        yield Path(found)


def make_deb(home: Path, version: str, target: Path) -> None:
    """Write the Debian package of the folder."""
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        top.chmod(0o755)
        shutil.copytree(home, top / "opt" / "kafkats", symlinks=True)
        (top / "usr" / "bin").mkdir(parents=True)
        for program in ("kafkats", "kafkats-host"):
            (top / "usr" / "bin" / program).symlink_to(f"/opt/kafkats/{program}")
        for shell, place in _COMPLETIONS.items():
            path = top / place
            path.parent.mkdir(parents=True)
            path.write_text(run(home / "kafkats", _KAFKATS_COMPLETE=f"{shell}_source"))
        manual = top / "usr" / "share" / "man" / "man1" / "kafkats.1"
        manual.parent.mkdir(parents=True)
        manual.write_text(_manual(run(home / "kafkats", "--help"), version))
        size = sum(path.lstat().st_size for path in top.rglob("*")) // 1024
        architecture = run("dpkg", "--print-architecture").strip()
        (top / "DEBIAN").mkdir()
        (top / "DEBIAN" / "control").write_text(
            _CONTROL.format(version=version, architecture=architecture, kilobytes=size)
        )
        run("dpkg-deb", "--root-owner-group", "-Zxz", "-z3", "--build", top, target)


def _manual(usage: str, version: str) -> str:
    """Return the man page: the help of the program."""
    text = usage.replace("\\", "\\e").replace("-", "\\-").replace("\n.", "\n\\&.")
    return (
        f'.TH KAFKATS 1 "" "kafkats {version}"\n.SH NAME\n'
        "kafkats \\- repairs and maintains the log directories of Kafka brokers\n"
        f".SH USAGE\n.nf\n{text}.fi\n.SH MORE\n"
        "\\fBkafkats\\fR COMMAND \\fB\\-\\-help\\fR, \\fBkafkats help\\fR\n"
    )


def main() -> None:
    if sys.argv[1:2] == ["--try"] and len(sys.argv) == 3:
        bare.main(Path(sys.argv[2]))
        return
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    os.umask(0o022)
    target = Path(sys.argv[1]).resolve()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kafkats-package-") as name:
        scratch = Path(name)
        wheel = build(ROOT, scratch, kernels_in(scratch))
        version = wheel.name.split("-")[1]
        home = scratch / "kafkats"
        make_folder(wheel, home)
        archive = target / f"kafkats-{version}-{platform.machine()}.tar.xz"
        with tarfile.open(archive, "w:xz", preset=3) as file:
            file.add(home, FOLDER, filter=_ours)
        architecture = run("dpkg", "--print-architecture").strip()
        make_deb(home, version, target / f"kafkats_{version}_{architecture}.deb")
    for path in sorted(target.glob("kafkats[-_]*")):
        print(path, f"{path.stat().st_size / 2**20:.0f} MB")


def _ours(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


if __name__ == "__main__":
    main()
