"""Logs of a dialect are refused by all that would read them as what shipped, without its readers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkats import paths
from kafkats.compression.checksums import crc32
from kafkats.errors import Refused
from kafkats.formats import v1
from kafkats.formats.model import Record, TimestampType
from kafkats.plans import dialect_hook
from kafkats.plans.dialects import are_enriched, read_as
from kafkats.plans.units import list_units
from tests.builders.commands import run

Capture = pytest.CaptureFixture[str]
COMMANDS = (
    ("verify",),
    ("inventory",),
    ("census",),
    ("plan", "rebuild", "-o", "PLAN"),
    ("plan", "migrate", "--to-magic", "2", "-o", "PLAN"),
    ("lookup", "--at", "2024-01-01T00:00:00Z"),
    ("preflight", "--kafka", "4.3"),
)
SHIPPED = v1.encode_batch([Record(0, 1_700_000_000_000, TimestampType.CREATE_TIME, b"a", b"b")])


def enriched_message(tags: bytes = b"\x00" + bytes(6) + b"\x10\x00") -> bytes:
    """Magic 1, no type, no time in seconds, one tag (0: a time of 8 bytes), key and value."""
    body = (
        struct.pack(">bBii", 1, 0, -1, len(tags)) + tags + struct.pack(">i1si1s", 1, b"a", 1, b"b")
    )
    return struct.pack(">qiI", 0, 4 + len(body), crc32(body)) + body


def directory(root: Path, log: bytes, *, time_index: bool) -> Path:
    """A log directory with one partition of one segment."""
    partition = root / "t-0"
    partition.mkdir(parents=True)
    (partition / paths.segment_file(0, paths.LOG)).write_bytes(log)
    for kind in (paths.OFFSET_INDEX, *([paths.TIME_INDEX] if time_index else [])):
        (partition / paths.segment_file(0, kind)).write_bytes(b"")
    return root


@pytest.fixture
def enriched(tmp_path: Path) -> Path:
    return directory(tmp_path / "enriched", enriched_message(), time_index=False)


@pytest.fixture
def kip228(tmp_path: Path) -> Path:
    root = directory(tmp_path / "kip228", SHIPPED, time_index=True)
    (root / paths.DIALECT).write_text("kip228\n")
    return root


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other distribution is installed."""
    monkeypatch.setattr(dialect_hook, "_loaded", lambda _group, _name: None)


@pytest.mark.parametrize("dialect", ["enriched", "kip228"])
def test_commands_refuse_it(
    dialect: str, tmp_path: Path, capsys: Capture, request: pytest.FixtureRequest
) -> None:
    root: Path = request.getfixturevalue(dialect)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for words in COMMANDS:
        asked = [str(tmp_path / "plan") if word == "PLAN" else word for word in words]
        code, _, err = run(capsys, *asked, root)
        assert code == 3, (words, err)
        assert f"has logs of the dialect {dialect}, which never shipped: with kafkats-model" in err
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "plan").exists()


def test_a_time_index_says_that_it_is_what_shipped(tmp_path: Path) -> None:
    root = directory(tmp_path / "one", enriched_message(), time_index=True)
    assert list(read_as(list_units([root])))
    root = directory(tmp_path / "two", enriched_message(), time_index=False)
    with pytest.raises(Refused, match="enriched"):
        list(read_as(list_units([root])))


def test_which_messages_prove_the_dialect() -> None:
    message = enriched_message()
    assert are_enriched(message)
    assert not are_enriched(SHIPPED)
    assert not are_enriched(message[:12] + bytes(4) + message[16:]), "its checksum"
    assert not are_enriched(message[:-1])
    assert not are_enriched(b"")


def test_who_names_a_dialect_needs_its_readers(
    enriched: Path, kip228: Path, tmp_path: Path, capsys: Capture
) -> None:
    log = enriched / "t-0" / paths.segment_file(0, paths.LOG)
    for words in (
        ("dump", "--dialect", "enriched", log),
        (
            "plan",
            "migrate",
            "--dialect",
            "enriched",
            "--to-magic",
            1,
            enriched,
            "-o",
            tmp_path / "p",
        ),
    ):
        code, _, err = run(capsys, *words)
        assert code == 2
        assert "dialect enriched: install kafkats-model, also on the workers" in err
    code, _, err = run(capsys, "lookup", "--dialect", "kip228", "--at", 0, kip228)
    assert code == 2 and "dialect kip228: install kafkats-model" in err


@pytest.mark.parametrize("suffix", paths.PROPOSED_INDEXES)
def test_an_index_that_never_shipped_is_no_index_of_kafka(
    suffix: str, tmp_path: Path, capsys: Capture
) -> None:
    """Its entries have another size than those of `.index`."""
    path = tmp_path / f"{0:020}.append-time.minute{suffix}"
    path.write_bytes(bytes(48))
    code, out, err = run(capsys, "dump", path)
    assert (code, out) == (2, "")
    assert f"*{suffix} never was Kafka's: install kafkats-model" in err


def test_the_migration_of_a_stored_plan_is_refused() -> None:
    with pytest.raises(Refused, match="install kafkats-model"):
        dialect_hook.migration_of("enriched")


@pytest.mark.parametrize(
    "words",
    [("dump",), ("lookup",), ("plan", "migrate"), ("plan", "rebuild"), ("apply",), ("verify",)],
)
def test_no_help_names_a_format_that_never_shipped(words: tuple[str, ...], capsys: Capture) -> None:
    code, out, _ = run(capsys, *words, "--help")
    assert code == 0
    for name in ("enriched", "kip228", "dialect", "never shipped", "--to "):
        assert name not in out
