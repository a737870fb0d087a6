"""What ten generations of brokers left, scanned: no false alarm, and everything found that was put there by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkats import paths
from kafkats.findings import Finding
from kafkats.logdir.location import locate
from kafkats.logdir.root import LogDir
from kafkats.logdir.smallfiles import check_small_files, list_small_files
from tests.builders.directories import scan_root
from tests.golden import Case, Unpacked, case, partitions, states, tree

DAMAGED_STATES = ("before",)
"""States of crash, clean-start and torn-append cases that were damaged by hand."""
EXPECTED = {
    "orphan-index": {"orphan"},
    "lost-middle-segment": {"orphan"},  # its .txnindex stays behind
    "cleaned-left": {"transient"},
    "deleted-left": {"transient"},
    "swap-complete": {"transient"},
    "swap-log-only": {"transient"},
    "swap-and-cleaned": {"transient"},
    "tmp-left": {"stray"},
    "bad-snapshot": {"unreadable"},
}


def roots(unpacked: Path) -> list[Path]:
    disks = sorted(unpacked.glob("disk-*"))
    return disks or [unpacked]


def findings(root: LogDir) -> Iterator[tuple[str, Finding]]:
    """(partition's label or nothing, finding) of everything in a root."""
    for f in root.findings:
        yield "", f
    for p in root.partitions:
        for f in (*p.findings, *check_small_files(p.path, list_small_files(p.path))):
            yield str(p.name), f


def by_hand(one: Case, state: str, label: str, f: Finding) -> bool:
    """Damaged by hand; after the restart only what that broker does not know, and so left where it was."""
    # 2.8.2 wrote an empty snapshot over the first bytes of the damaged one, and did not cut the rest off.
    if one.kafka == "2.8.2" and label == "bad-snapshot-0" and f.file.endswith(paths.SNAPSHOT):
        return True
    unknown_to_the_broker = f.file.endswith(".log.tmp") or (
        one.kafka in {"0.8.2.2", "0.9.0.1"} and f.file.endswith(paths.TIME_INDEX)
    )
    return label in one.info.get("damage", {}) and (
        state in DAMAGED_STATES or unknown_to_the_broker
    )


@pytest.mark.examples(by="kind")
@pytest.mark.parametrize(("one", "state"), states(), ids=lambda v: str(v))
def test_every_alarm_was_put_there_by_hand(one: Case, state: str, golden: Unpacked) -> None:
    unpacked = golden(one, state)
    before = tree(unpacked)
    for folder in roots(unpacked):
        root = scan_root(folder)
        for label, f in findings(root):
            assert f.severity == "state" or by_hand(one, state, label, f), (label, f)
    assert tree(unpacked) == before


@pytest.mark.parametrize(("one", "state"), states(), ids=lambda v: str(v))
def test_every_segment_and_every_small_file_is_seen(
    one: Case, state: str, golden: Unpacked
) -> None:
    unpacked = golden(one, state)
    for folder in roots(unpacked):
        root = scan_root(folder)
        seen = {p.path / s.log.name for p in root.partitions for s in p.segments}
        there = {
            log
            for p in partitions(folder)
            for log in p.glob("*.log")
            if p.name != paths.CLUSTER_METADATA
        }
        assert seen == there
        assert set(root.checkpoints) == {
            n for n in paths.OFFSET_CHECKPOINTS if (folder / n).exists()
        }
        assert (root.meta is not None) == (folder / paths.META_PROPERTIES).exists()
        assert root.clean_shutdown == (folder / paths.CLEAN_SHUTDOWN).exists()
        for p in root.partitions:
            for s in p.segments:
                for facts in s.files.values():
                    st = (p.path / facts.name).stat()
                    assert (facts.size, facts.mtime_ns, facts.inode) == (
                        st.st_size,
                        st.st_mtime_ns,
                        st.st_ino,
                    )


@pytest.mark.parametrize(
    "one", [c for c, s in states("crash", "clean-start") if s == "before"], ids=str
)
def test_damage_to_names_is_found(one: Case, golden: Unpacked) -> None:
    root = scan_root(golden(one, "before"))
    kinds: dict[str, set[str]] = {}
    for label, f in findings(root):
        kinds.setdefault(label, set()).add(f.kind)
    checked = 0
    for label, entry in one.info["damage"].items():
        said = entry["damage"]
        if label.rsplit("-", 1)[0] not in EXPECTED or said.startswith((
            "no such file",
            "none in this version",
        )):
            continue
        expected = EXPECTED[label.rsplit("-", 1)[0]]
        checked += 1
        if expected == {"orphan"} and label.startswith("lost-middle"):
            assert kinds.get(label, set()) <= expected
        else:
            assert kinds.get(label) == expected, (label, said)
    assert checked >= 3


REFUSED_NAMES = {
    "stray-directory": ("backup/", ""),
    "lost-and-found": ("lost+found/", ""),
    "backup-log": ("backup.log", "partition"),
    "bad-snapshot-name": ("old.snapshot", "partition"),
    "bad-index-name": ("zz.index", "partition"),
    "bad-cleaned-name": ("xx.log.cleaned", "partition"),
    "bad-deleted-name": ("zz.log.deleted", "partition"),
    "subdirectory": ("sub/", "partition"),
}


@pytest.mark.parametrize("name", REFUSED_NAMES)
def test_names_that_stopped_real_brokers_are_told_from_those_that_did_not(
    name: str, tmp_path: Path
) -> None:
    unknown, where = REFUSED_NAMES[name]
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / paths.segment_file(0, paths.LOG)).touch()
    target = (folder if where else tmp_path) / unknown
    target.mkdir() if unknown.endswith("/") else target.touch()
    root = scan_root(tmp_path)
    (found,) = root.findings or root.partitions[0].findings
    tried = {v: case(f"clean-start-{v}").info for v in ("2.8.2", "3.9.1", "4.1.0", "4.3.1")}
    for version, info in tried.items():
        alone = info.get("alone") or info["refused_tried_alone"]
        assert alone[name]["started"] == (found.kind != "stops-the-broker"), version


def test_real_paths_are_located(golden: Unpacked) -> None:
    folder = golden("root-4.3.1", "data") / "disk-a"
    assert locate(folder).kind == "root"
    for p in scan_root(folder).partitions:
        place = locate(p.path)
        assert (place.kind, place.root) == ("partition", folder)
        segment = locate(p.path / p.segments[0].log.name)
        assert (segment.kind, segment.base_offset, segment.root) == (
            "segment",
            p.segments[0].base_offset,
            folder,
        )
