from __future__ import annotations

import os
from pathlib import Path
from socket import AF_UNIX, socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkats.errors import BadInput, CorruptFile, KafkatsError, Vanished
from kafkats.logdir.checkpoints import (
    EpochStart,
    encode_epochs,
    encode_offsets,
    read_epochs,
    read_offsets,
)
from kafkats.logdir.properties import (
    MetaProperties,
    PartitionMetadata,
    read_clean_shutdown,
    read_meta_properties,
    read_partition_metadata,
)
from kafkats.paths import PartitionName
from tests.golden import Unpacked

INT32 = 2**31 - 1
INT64 = 2**63 - 1
TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=20)
NAMES = st.builds(PartitionName, TOPICS, st.integers(0, INT32), st.just(""))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch") / "file"


def written(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


@given(st.dictionaries(NAMES, st.integers(0, INT64), max_size=8))
def test_offsets_come_back(scratch: Path, offsets: dict[PartitionName, int]) -> None:
    assert read_offsets(written(scratch, encode_offsets(offsets))) == offsets


@given(
    st.lists(st.integers(1, 1000), max_size=8),
    st.lists(st.integers(1, 2**40), min_size=8, max_size=8),
)
def test_epochs_come_back(scratch: Path, epochs: list[int], starts: list[int]) -> None:
    entries = [EpochStart(sum(epochs[: n + 1]), sum(starts[: n + 1])) for n in range(len(epochs))]
    assert read_epochs(written(scratch, encode_epochs(entries))) == entries


def test_golden_vector(scratch: Path) -> None:
    assert encode_epochs([EpochStart(0, 0)]) == bytes.fromhex("300a310a3020300a")
    assert encode_offsets({}) == b"0\n0\n"


def test_real_files_come_back_to_the_byte(golden: Unpacked) -> None:
    for name, state in (
        ("root-2.8.2", "running"),
        ("upgrade-0.9-to-2.8", "data"),
        ("compaction-4.3.1", "after"),
    ):
        root = golden(name, state)
        offsets = [p for p in root.rglob("*-offset-checkpoint") if p.stat().st_size]
        epochs = [p for p in root.rglob("leader-epoch-checkpoint") if p.stat().st_size]
        metadata = [p for p in root.rglob("partition.metadata")]
        assert offsets
        assert epochs
        for path in offsets:
            assert encode_offsets(read_offsets(path)) == path.read_bytes()
        for path in epochs:
            assert encode_epochs(read_epochs(path)) == path.read_bytes()
        for path in metadata:
            found = read_partition_metadata(path)
            assert (
                f"version: {found.version}\ntopic_id: {found.topic_id}".encode()
                == path.read_bytes()
            )


@pytest.mark.parametrize("text", ["", "0\n0\n", "0\n0", "0\r\n0\r\n"])
def test_empty(scratch: Path, text: str) -> None:
    assert read_offsets(written(scratch, text)) == {}
    assert read_epochs(scratch) == []


def test_what_javas_reader_takes(scratch: Path) -> None:
    """No newline at the end, CR LF, several blanks."""
    assert read_offsets(written(scratch, "0\r\n2\r\na 1 2\r\nb-c\t 3   4")) == {
        PartitionName("a", 1, ""): 2,
        PartitionName("b-c", 3, ""): 4,
    }


@pytest.mark.parametrize(
    ("text", "line", "position"),
    [
        ("1\n0\n", 1, 0),
        ("x\n0\n", 1, 0),
        ("\n0\n", 1, 0),
        ("0\n", 2, 1),
        ("0\n-1\n", 2, 2),
        ("0\n2\na 0 1\n", 2, 2),
        ("0\n0\na 0 1\n", 2, 2),
        ("0\n1\na 0 1\n\n", 4, 10),
        ("0\n1\na 0\n", 3, 4),
        ("0\n1\n a 0 1\n", 3, 4),
        ("0\n1\na 0 1 2\n", 3, 4),
        ("0\n1\na 0 -1\n", 3, 4),
        ("0\n1\na\0b 0 1\n", 3, 4),
        ("0\n1\na/b 0 1\n", 3, 4),
        ("0\n1\na 2147483648 1\n", 3, 4),
        ("0\n1\na 0 9223372036854775808\n", 3, 4),
        ("0\n1\na 0 ١\n", 3, 4),
        ("0\n2\na 0 1\na 0 1\n", 4, 10),
        (b"0\n1\n\xff 0 1\n", 3, 4),
        (b"\0" * 100, 1, 0),
    ],
)
def test_damaged_offsets(scratch: Path, text: str | bytes, line: int, position: int) -> None:
    with pytest.raises(CorruptFile, match=f"line {line}:") as raised:
        read_offsets(written(scratch, text))
    assert raised.value.position == position
    assert raised.value.path == str(scratch)


@pytest.mark.parametrize(
    "text", ["0\n2\n1 5\n1 6\n", "0\n2\n1 5\n2 4\n", "0\n1\n1\n", "0\n1\na 1\n"]
)
def test_damaged_epochs(scratch: Path, text: str) -> None:
    with pytest.raises(CorruptFile, match="line"):
        read_epochs(written(scratch, text))


def test_two_epochs_may_begin_at_one_offset(scratch: Path) -> None:
    """As in 1.0 and 1.1, after an append that was rejected."""
    read = read_epochs(written(scratch, "0\n2\n1 5\n2 5\n"))
    assert read == [EpochStart(1, 5), EpochStart(2, 5)]


def test_meta_properties(scratch: Path) -> None:
    text = "#\n#Sat Nov 21 05:07:51 UTC 2026\nnode.id=1\ndirectory.id=HU98Ghqhj03n6SvNV1qQVg\nversion=1\ncluster.id=a\\:b\nnew.key = x\n"
    assert read_meta_properties(written(scratch, text)) == MetaProperties(
        1, 1, "a:b", "HU98Ghqhj03n6SvNV1qQVg", {"new.key": "x"}
    )
    assert read_meta_properties(written(scratch, "broker.id=7\nversion=0\n")) == MetaProperties(
        0, 7, None, None, {}
    )
    assert read_meta_properties(written(scratch, "version=0\n")).node_id is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version=2\n",
        "broker.id=1\n",
        "version=1\n",
        "version=0\nbroker.id=x\n",
        "version=0\n=1\n",
        b"\xff=1\n",
    ],
)
def test_damaged_meta_properties(scratch: Path, text: str | bytes) -> None:
    with pytest.raises(CorruptFile):
        read_meta_properties(written(scratch, text))


def test_partition_metadata(scratch: Path) -> None:
    text = "version: 0\ntopic_id: ReDZO1yhTC-U2AUHaQiqug"
    for end in ("", "\n"):
        assert read_partition_metadata(written(scratch, text + end)) == PartitionMetadata(
            0, "ReDZO1yhTC-U2AUHaQiqug"
        )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 0\n",
        "version: 1\ntopic_id: ReDZO1yhTC-U2AUHaQiqug",
        "version: 0\ntopic_id: short",
        "a\nb",
        "a: 0\nb: 0",
    ],
)
def test_damaged_partition_metadata(scratch: Path, text: str) -> None:
    with pytest.raises(CorruptFile):
        read_partition_metadata(written(scratch, text))


def test_clean_shutdown(scratch: Path) -> None:
    assert read_clean_shutdown(written(scratch, "")) is None
    assert read_clean_shutdown(written(scratch, '{"version":0,"brokerEpoch":8}')) == 8
    for text in ("yes", "[]", '{"version":0}', '{"brokerEpoch":"8"}', "[" * 100_000, b"\xff\xfe"):
        with pytest.raises(CorruptFile):
            read_clean_shutdown(written(scratch, text))


READERS = (
    read_offsets,
    read_epochs,
    read_meta_properties,
    read_partition_metadata,
    read_clean_shutdown,
)
REAL = (
    b"0\n2\norders 0 1250\norders 1 17\n",
    b"0\n2\n0 0\n2 100\n",
    b"#\n#Sat\nnode.id=1\nversion=1\ncluster.id=S2Fma2F0c0dvbGRlbjAwMQ\n",
    b"version: 0\ntopic_id: ReDZO1yhTC-U2AUHaQiqug",
    b'{"version":0,"brokerEpoch":8}',
)


@given(st.sampled_from(REAL), st.data())
def test_any_mutation_is_read_or_refused_by_our_errors(
    scratch: Path, real: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(real)))
    cut = data.draw(st.integers(at, len(real)))
    written(scratch, real[:at] + data.draw(st.binary(max_size=8)) + real[cut:])
    for read in READERS:
        try:
            read(scratch)
        except BadInput as e:
            assert e.path == str(scratch)
            assert e.position is not None
            assert e.position <= scratch.stat().st_size


def test_what_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)  # a socket's path is at most 107 bytes
    with socket(AF_UNIX) as of:
        of.bind("socket")
    (tmp_path / "folder").mkdir()
    corrupt = ((name, CorruptFile) for name in ("pipe", "socket", "folder"))
    for name, kind in (("gone", Vanished), *corrupt):
        for read in READERS:
            with pytest.raises(kind) as raised:
                read(tmp_path / name)
            assert isinstance(raised.value, KafkatsError)
