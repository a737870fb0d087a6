"""Which volume is behind a path: told by meta.properties, compared before anything is opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kafkats.errors import Refused
from kafkats.logdir.volume import (
    Volume,
    check_mounted,
    check_volume,
    refuse_copies,
    volume_at,
    volumes_at,
)

MINE = Volume("c", 1, "d")


def root_of(folder: Path, content: str) -> str:
    folder.mkdir()
    (folder / "meta.properties").write_text(content)
    return str(folder)


KRAFT = "version=1\nnode.id=1\ncluster.id=c\ndirectory.id=d\n"
ZOOKEEPER = "version=0\nbroker.id=1\ncluster.id=c\n"


def test_it_is_read_from_meta_properties(tmp_path: Path) -> None:
    kraft, old = root_of(tmp_path / "1", KRAFT), root_of(tmp_path / "2", ZOOKEEPER)
    none = root_of(tmp_path / "3", "what")
    assert volumes_at([kraft, old, kraft, none, str(tmp_path / "4")]) == {
        kraft: MINE,
        old: Volume("c", 1, None),
    }


@pytest.mark.parametrize(
    ("found", "other"),
    [
        (MINE, False),
        (Volume("c", 1, None), False),  # before its first start with 3.7
        (Volume(None, 1, "d"), False),
        (Volume("x", 1, "d"), True),
        (Volume("c", 2, "d"), True),
        (Volume("c", 1, "x"), True),
    ],
)
def test_an_id_that_appears_is_no_other_volume(found: Volume, other: bool) -> None:
    assert MINE.is_other(found) is found.is_other(MINE) is other


def test_another_volume_at_the_same_path_is_refused_and_nothing_is_left_there(
    tmp_path: Path,
) -> None:
    log_dir = root_of(tmp_path / "data", KRAFT.replace("node.id=1", "node.id=2"))
    with pytest.raises(Refused, match=r"node 2.* listed was cluster c, node 1") as refused:
        check_volume(log_dir, {log_dir: MINE})
    assert refused.value.exit_code == 3 and str(refused.value).startswith(log_dir)
    assert os.listdir(log_dir) == ["meta.properties"] and os.listdir(tmp_path) == ["data"]


def test_a_missing_mount_is_not_an_empty_log_directory(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is not mounted on host"):
        check_volume(str(tmp_path), {str(tmp_path): MINE})


def test_without_an_identity_the_path_counts(tmp_path: Path) -> None:
    assert volume_at(tmp_path) is None
    check_volume(str(tmp_path), {})


def test_copies_are_refused_unless_the_policy_names_them(tmp_path: Path) -> None:
    one, copy = root_of(tmp_path / "1", KRAFT), root_of(tmp_path / "2", KRAFT)
    other = root_of(tmp_path / "3", KRAFT.replace("=d", "=e"))
    refuse_copies([one, other, one])
    with pytest.raises(Refused, match=rf"^{copy}: .*{one}.* copy .*: cluster c, node 1") as refused:
        refuse_copies([one, other, copy])
    assert refused.value.exit_code == 3
    with pytest.raises(Refused):
        refuse_copies([one, copy], {copy})
    refuse_copies([one, copy], {one, copy})


def test_a_link_to_a_log_directory_is_no_copy_of_it(tmp_path: Path) -> None:
    one = root_of(tmp_path / "1", KRAFT)
    (tmp_path / "2").symlink_to(one)
    refuse_copies([one, str(tmp_path / "2")])


def test_without_a_directory_id_the_path_counts(tmp_path: Path) -> None:
    """Before 3.7 all log directories of a broker have the same cluster and node."""
    roots = [root_of(tmp_path / str(n), ZOOKEEPER) for n in range(2)]
    refuse_copies([*roots, str(tmp_path / "none")])


@pytest.mark.parametrize("there", [(), ("lost+found",), None])
def test_an_empty_mount_point_is_not_mounted(there: tuple[str, ...] | None, tmp_path: Path) -> None:
    log_dir = tmp_path / "data"
    for name in there or ():
        (log_dir / name).mkdir(parents=True)
    if there == ():
        log_dir.mkdir()
    with pytest.raises(Refused, match="is its disk mounted") as refused:
        check_mounted(str(log_dir))
    assert refused.value.path == str(log_dir)
    (log_dir / "t-0").mkdir(parents=True)
    check_mounted(str(log_dir))
