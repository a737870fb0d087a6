"""Compiles Kubernetes' API server, controllers and scheduler, as one program, from the Go modules of a release. Says where it is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

RELEASE: Final = "1.33.13"
MODULE: Final = "k8s.io/kubernetes"
_GO_MOD: Final = f"module kafkats/kubernetes\n\ngo 1.24.0\n\nrequire {MODULE} v{RELEASE}\n"


class Missing(Exception):
    """Says which program is missing and how to get it."""


def program() -> Path:
    """Return the path of the compiled program. It may not be there yet."""
    cache = os.environ.get("KAFKATS_KUBERNETES") or Path.home() / ".cache/kafkats/kubernetes"
    return Path(cache) / RELEASE / "kubernetes"


def check() -> None:
    """Raise Missing unless a control plane can be run here."""
    if not program().exists():
        raise Missing("Kubernetes is not compiled yet: scripts/kubernetes build, once")
    if shutil.which("etcd") is None:
        raise Missing("etcd is missing: apt install etcd-server")


def build() -> Path:
    """Compile the program unless it is there, and return its path. Raises Missing without Go, and CalledProcessError."""
    made = program()
    if made.exists():
        return made
    if shutil.which("go") is None:
        raise Missing("Go 1.24 or newer is missing: see https://go.dev/dl")
    source = made.parent / "source"
    source.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(__file__).with_name("main.go"), source)
    (source / "go.mod").write_text(_GO_MOD)
    own = json.loads(_go(source, "mod", "download", "-json", f"{MODULE}@v{RELEASE}"))["GoMod"]
    # Kubernetes names its parts by folders of its own repository; as modules they have its release with a 0.
    parts = [
        one["Old"]["Path"]
        for one in json.loads(_go(source, "mod", "edit", "-json", own))["Replace"]
    ]
    version = "v0." + RELEASE.partition(".")[2]
    _go(source, "mod", "edit", *(f"-replace={part}={part}@{version}" for part in parts))
    _go(source, "mod", "tidy")
    _go(source, "build", "-trimpath", "-ldflags=-s -w", "-o", str(source / "made"), ".")
    (source / "made").rename(made)
    return made


def _go(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["go", *words], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
