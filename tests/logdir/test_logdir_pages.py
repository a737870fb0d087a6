"""The pages of docs/formats say what the code reads and writes."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from kafkats import paths
from kafkats.logdir.checkpoints import (
    EpochStart,
    encode_epochs,
    encode_offsets,
    read_epochs,
    read_offsets,
)
from kafkats.logdir.partition import scan_partition
from kafkats.logdir.properties import (
    read_clean_shutdown,
    read_meta_properties,
    read_partition_metadata,
)
from kafkats.logdir.root import list_root
from kafkats.logdir.snapshot import ENTRY, HEADER, ProducerEntry, encode_snapshot

PAGES = Path(__file__).parents[2] / "docs" / "formats"


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def blocks(name: str) -> list[str]:
    return re.findall(r"```\n(.*?)```", page(name), re.DOTALL)


@pytest.mark.parametrize(("heading", "layout"), [("## Header", HEADER), ("## Producer", ENTRY)])
def test_producer_snapshot_tables(heading: str, layout: struct.Struct) -> None:
    section = page("producer-snapshot").split(heading + "\n")[1].split("\n## ")[0]
    rows = [
        (int(at), int(size), field)
        for at, size, field in re.findall(r"\| (\d+) \| (\d+) \| (\w+) \|", section)
    ]
    sizes = [struct.calcsize(">" + code) for code in layout.format.lstrip(">")]
    assert [size for _, size, _ in rows] == sizes
    assert [at for at, _, _ in rows] == [sum(sizes[:n]) for n in range(len(sizes))]
    assert f"Size: {layout.size} bytes" in section
    if layout is ENTRY:
        assert tuple(field for _, _, field in rows) == ProducerEntry._fields
    else:
        assert encode_snapshot([]).hex(" ", 1).replace(" ", "") == "".join(
            re.findall(r"`(0001 \w+ \w+)`", section)[0].split()
        )


def test_checkpoint_examples(tmp_path: Path) -> None:
    offsets, epochs = blocks("checkpoints")
    (tmp_path / "offsets").write_text(offsets)
    (tmp_path / "epochs").write_text(epochs)
    assert encode_offsets(read_offsets(tmp_path / "offsets")).decode() == offsets
    assert read_epochs(tmp_path / "epochs") == [EpochStart(0, 0), EpochStart(2, 100)]
    assert encode_epochs(read_epochs(tmp_path / "epochs")).decode() == epochs
    for name in (*paths.OFFSET_CHECKPOINTS, paths.LEADER_EPOCH):
        assert f"`{name}`" in page("checkpoints")


def test_meta_properties_examples(tmp_path: Path) -> None:
    meta, marker = blocks("meta-properties")
    (tmp_path / "meta").write_text(meta)
    (tmp_path / "marker").write_text(marker)
    assert read_meta_properties(tmp_path / "meta").node_id == 1
    assert read_clean_shutdown(tmp_path / "marker") == 8


def test_partition_metadata_example_and_size(tmp_path: Path) -> None:
    (example,) = blocks("partition-metadata")
    (tmp_path / "metadata").write_text(example)
    found = read_partition_metadata(tmp_path / "metadata")
    encoded = example.rstrip("\n").encode()
    assert encoded.decode() == f"version: {found.version}\ntopic_id: {found.topic_id}"
    sizes = [int(size) for size in re.findall(r"\| \d \| (\d+) \|", page("partition-metadata"))]
    assert sizes == [len(line) for line in encoded.splitlines(keepends=True)]
    assert f"Size: {len(encoded)} bytes" in page("partition-metadata")


def test_log_directory_findings(tmp_path: Path) -> None:
    """Each name that the page gives a finding for gets that finding."""
    table = page("log-directory").split("## What does not belong")[1].split("\n## ")[0]
    checked = 0
    for what, kind in re.findall(r"^\| (.*?) \| ([a-z-]+) \|", table, re.MULTILINE):
        for n, name in enumerate(re.findall(r"`([^`]+)`", what)):
            folder = tmp_path / f"case{checked}-{n}-0"
            folder.mkdir()
            if name in {"backup", "lost+found"}:
                (folder / name).mkdir()
                found = list_root(folder).findings
            elif name in {".log", ".swap"}:
                continue
            else:
                (folder / name).touch()
                found = scan_partition(folder).findings
            assert [f.kind for f in found] == [kind], name
            checked += 1
    assert checked >= 11
    for name in (*paths.SEGMENT_KINDS, *paths.TRANSIENT_SUFFIXES):
        assert f"`{name}`" in page("log-directory")
