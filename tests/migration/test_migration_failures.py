"""The file system says no at some point of a migration: a clear error, nothing lost, no full disk left behind, and a
later apply does it, or undo takes it back.
"""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from tests.crash.migration import (
    SCENES,
    apply,
    bytes_of,
    check_sound,
    check_undone,
    end,
    look,
    make,
    watched,
)
from tests.golden import Unpacked

STRIDE = int(os.environ.get("KAFKATS_KILL_STRIDE", "17"))
DICE = random.Random(4)
FREES = ("unlink", "remove")  # what no full disk refuses


@pytest.mark.slow(1)
@pytest.mark.examples(2)
@pytest.mark.parametrize(
    "number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS], ids=errno.errorcode.get
)
@pytest.mark.parametrize("name", SCENES)
def test_while_applying(golden: Unpacked, tmp_path: Path, name: str, number: int) -> None:
    found: list[str] = []
    undisturbed = make(golden, name, tmp_path / "points")
    with watched(lambda verb, *paths: found.append(verb)):
        assert apply(undisturbed) == {"done"}
    after = bytes_of(look(undisturbed.directory))
    while found[-1].startswith(FREES):
        found.pop()
    for n in range(DICE.randrange(STRIDE), len(found), STRIDE):
        scene = make(golden, name, tmp_path / str(n), after)
        left = [n]

        def fail(verb: str, *paths: object, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0 and not verb.startswith(FREES):
                raise OSError(number, os.strerror(number))

        with watched(fail):
            (said,) = apply(scene)
        assert os.strerror(number) in said and str(tmp_path) in said, (n, found[n], said)
        check_sound(scene)
        if not any((scene.run_folder / name).exists() for name in ("journal", "journal.done")):
            assert not list(scene.run_folder.glob("staging-*/*")), (
                f"{found[n]}: what was staged keeps the disk full"
            )
        if n % 2:
            assert apply(scene) <= {"done", "already"}
            assert bytes_of(look(scene.directory)) == after
        assert end(scene, "undo")["error"] == ""
        check_undone(scene)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=errno.errorcode.get)
def test_while_undoing(golden: Unpacked, tmp_path: Path, number: int) -> None:
    found: list[str] = []
    undisturbed = make(golden, "up", tmp_path / "points")
    apply(undisturbed)
    after = bytes_of(look(undisturbed.directory))
    with watched(lambda verb, *paths: found.append(verb)):
        end(undisturbed, "undo")
    for n in range(DICE.randrange(STRIDE), len(found), STRIDE):
        scene = make(golden, "up", tmp_path / str(n), after)
        assert apply(scene) == {"done"}
        left = [n]

        def fail(verb: str, *paths: object, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise OSError(number, os.strerror(number))

        with watched(fail):
            row = end(scene, "undo")
        assert (row["outcome"], row["exit_code"]) == ("failed", 2)
        assert os.strerror(number) in row["error"] and str(tmp_path) in row["error"]
        check_sound(scene)
        assert end(scene, "undo")["error"] == ""
        check_undone(scene)


def test_the_hooks_are_where_the_effects_are(golden: Unpacked, tmp_path: Path) -> None:
    """Else the tests above would try nothing of the staging."""
    found: set[str] = set()
    with watched(lambda verb, *paths: found.add(verb)):
        apply(make(golden, "up", tmp_path))
    assert {"make", "write", "write the rest of", "close", "rename", "link", "sync_dir"} <= found
