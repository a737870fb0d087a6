"""A container of the stand-in node, and the whole lab, for tests."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.privileges import refuse_without
from tools.kube import programs
from tools.kube.containers import Container, Mount, Process, this_machine
from tools.kube.lab import Lab


def contain(
    folder: Path, *words: str, user: int = 0, stdin: bool = False, **more: bool
) -> Container:
    if os.getuid():
        refuse_without("runs containers in namespaces")
    (folder / "volume").mkdir(mode=0o777)
    (folder / "volume").chmod(0o777)
    image = this_machine(folder / "image")
    process = Process(words, image.environment, user=user, group=user, groups=(2000,))
    mounts = [Mount(folder / "volume", "/data/of/kafka")]
    return Container(folder / "pod", "broker-0", image, process, mounts, stdin=stdin, **more)


@contextmanager
def lab_or_skip(folder: Path, nodes: int) -> Generator[Lab]:
    """Yield a lab. The test is skipped where Kubernetes is not compiled."""
    if os.getuid():
        refuse_without("runs containers in namespaces")
    try:
        programs.check()
    except programs.Missing as error:
        pytest.skip(str(error))
    with Lab(folder, nodes=nodes) as lab:
        yield lab
