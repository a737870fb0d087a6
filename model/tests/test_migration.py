"""`plan migrate --to enriched` and back: refused where a broker would read it, applied, proved, undone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkats.formats import dispatch, v2
from kafkats.formats.control import ControlType, encode_end_marker
from kafkats.formats.model import Record, TimestampType
from kafkats.plans import dialect_hook
from kafkats_model.formats import enriched
from model.tests.builders.enriched import LOG, Dump, dump, of_kind, offsets
from tests.builders.commands import run
from tests.golden import Unpacked

__all__ = ["dump"]

FOR_NO_BROKER = "--not-for-a-broker"


def replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: str, version: int) -> Path:
    """A log directory with uncompressed and compressed sets in two segments, and a small index."""
    records = [
        {"timestamp": "2024-01-01T00:00:00Z", "key": key, "value": f"v{key}"} for key in ("a", None)
    ]
    here: dict[str, Any] = {"broker": "1", "partition": "t-0"}
    sets = [
        {"do": "produce", **here, "version": version, "codec": codec, "records": records}
        for codec in ("none", "gzip")
    ]
    steps = [
        {"do": "broker", "broker": "1", "kafka": kafka},
        {"do": "create", **here, "config": {"index.interval.bytes": 50}},
        *sets,
        {"do": "roll", **here},
        *sets,
    ]
    script = tmp_path / f"{kafka}.jsonl"
    script.write_text("".join(json.dumps(one) + "\n" for one in steps))
    code, _, err = run(capsys, "replay", script, "-o", tmp_path / kafka)
    assert code == 0, err
    return tmp_path / kafka / "broker-1"


@pytest.fixture
def old(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A copy of magic 0."""
    return replayed(tmp_path, capsys, "0.8.2", 0)


def contents(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (root / "t-0").iterdir() if path.is_file()}


def migrate(
    capsys: pytest.CaptureFixture[str], root: Path, plan: Path, *words: object
) -> tuple[int, str]:
    code, out, err = run(
        capsys, "plan", "migrate", root, "-o", plan, "--config", "index.interval.bytes=50", *words
    )
    return code, out + err


def applied(capsys: pytest.CaptureFixture[str], plan: Path) -> str:
    code, out, err = run(capsys, "apply", plan, "--digest", "any")
    assert code == 0, out + err
    return out + err


def test_refused_without_the_word(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(old)
    code, said = migrate(capsys, old, tmp_path / "plan", "--to", "enriched")
    assert code == 3
    assert "every broker would misread logs of the dialect enriched" in said
    assert FOR_NO_BROKER in said
    assert not (tmp_path / "plan").exists()
    assert contents(old) == before


def test_refused_in_a_brokers_directory(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the plan, and by an apply of a plan from before."""
    plan, before = tmp_path / "plan", contents(old)
    assert migrate(capsys, old, plan, "--to", "enriched", FOR_NO_BROKER)[0] == 0
    (old / "meta.properties").write_text("version=0\nbroker.id=1\n")
    code, said = migrate(capsys, old, tmp_path / "later", "--to", "enriched", FOR_NO_BROKER)
    assert code == 3
    assert "a broker owns this log directory" in said
    code, out, err = run(capsys, "apply", plan, "--digest", "any")
    assert code == 3
    assert "a broker owns this log directory" in out + err
    assert contents(old) == before


def test_there_and_undone(
    old: Path, tmp_path: Path, dump: Dump, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, before = tmp_path / "plan", contents(old)
    code, said = migrate(capsys, old, plan, "--to", "enriched", FOR_NO_BROKER)
    assert code == 0
    assert "no broker can read them: the dialect enriched" in said
    applied(capsys, plan)
    rows = [row for log in sorted((old / "t-0").glob("*.log")) for row in dump(log)]
    assert offsets(rows) == list(range(8))
    assert [row["key"] for row in of_kind(rows, "record")] == ["a", None] * 4
    assert [row["type"] for row in of_kind(rows, "batch")] == ["normal", "normal", "gzip"] * 2
    wrappers = [row for row in of_kind(rows, "batch") if row["type"] == "gzip"]
    assert [(row["base_offset"], row["tags"]["messages"]) for row in wrappers] == [(2, 2), (6, 2)]
    index = dump((old / "t-0" / LOG).with_suffix(".index"))
    positions = [row["position"] for row in of_kind(rows, "batch")]
    assert [(row["offset"], row["position"]) for row in index] == [(3, positions[2])]
    code, out, err = run(capsys, "undo", f"{plan}.run")
    assert code == 0, out + err
    assert contents(old) == before


def test_and_back_to_magic_0_without_loss(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was uncompressed has the same bytes again; indexes are a broker's."""
    before, logs = contents(old), sorted((old / "t-0").glob("*.log"))
    records = [read(log) for log in logs]
    assert migrate(capsys, old, tmp_path / "to", "--to", "enriched", FOR_NO_BROKER)[0] == 0
    applied(capsys, tmp_path / "to")
    code, _, err = run(capsys, "verify", old)
    assert code == 3 and "has logs of the dialect enriched" in err
    assert run(capsys, "verify", old, "--of-plan", tmp_path / "to")[0] == 0
    code, said = migrate(capsys, old, tmp_path / "back", "--dialect", "enriched", "--to-magic", 0)
    assert code == 0, said
    assert "LOST" not in said
    applied(capsys, tmp_path / "back")
    after = contents(old)
    assert [read(log) for log in logs] == records
    assert after[LOG][:60] == before[LOG][:60]  # two messages
    assert after.keys() == before.keys()
    code, out, err = run(capsys, "verify", old, "--config", "index.interval.bytes=50")
    assert code == 0, out + err


def read(log: Path) -> list[Record]:
    data = log.read_bytes()
    return [one for batch in dispatch.batches(data) for one in dispatch.records(data, batch)]


def test_what_a_broker_wrote_goes_there_and_back(
    golden: Unpacked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Logs of Kafka 0.8.2.2 with all codecs: the same records, the same bytes where uncompressed."""
    root = tmp_path / "root"
    shutil.copytree(golden("matrix-0.8.2.2-v0", "data"), root)
    (root / ".kafka_cleanshutdown").touch()
    logs = {log: log.read_bytes() for log in root.glob("*/*.log")}
    records = [read(log) for log in logs]
    assert migrate(capsys, root, tmp_path / "to", "--to", "enriched", FOR_NO_BROKER)[0] == 0
    applied(capsys, tmp_path / "to")
    assert not [log for log, data in logs.items() if data and log.read_bytes() == data]
    back = ("--dialect", "enriched", "--to-magic", 0)
    assert migrate(capsys, root, tmp_path / "back", *back)[0] == 0
    applied(capsys, tmp_path / "back")
    assert [read(log) for log in logs] == records
    same = {log.parent.name for log, data in logs.items() if data and log.read_bytes() == data}
    assert "none-ct-0" in same


def test_losses_are_told(tmp_path: Path, dump: Dump, capsys: pytest.CaptureFixture[str]) -> None:
    """Its times are the broker's, and it has neither epochs nor headers."""
    new = replayed(tmp_path, capsys, "2.8.2", 3)
    to = ("--to", "enriched", FOR_NO_BROKER)
    code, said = migrate(capsys, new, tmp_path / "plan", *to)
    assert code == 3
    assert "would lose timestamps (8), leader-epochs (4)" in said
    code, said = migrate(
        capsys, new, tmp_path / "plan", *to, "--accept-loss", "timestamps,leader-epochs"
    )
    assert code == 0, said
    applied(capsys, tmp_path / "plan")
    assert not [name for name in contents(new) if name.endswith(".timeindex")]
    rows = of_kind(dump(new / "t-0" / LOG), "record")
    assert {(row["timestamp"], row["timestamp_type"]) for row in rows} == {
        (1_704_067_200_000, "LOG_APPEND_TIME")
    }


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name the format to convert to"),
        (("--to", "enriched", "--to-magic", 1), "name the format to convert to"),
        (("--to", "enriched", "--dialect", "enriched", FOR_NO_BROKER), "one side of a migration"),
        (("--to", "enriched", FOR_NO_BROKER, "--compression-type", "zstd"), "zstd needs magic 2"),
        (("--to", "unheard"), "enriched"),
        (("--dialect", "kip228", "--to-magic", 0), "logs of this dialect are not converted"),
        (("--dialect", "enriched", "--to-magic", 0, "--only-newer"), "none in a rollback"),
    ],
)
def test_options_that_do_not_go_together(
    words: tuple[object, ...],
    why: str,
    old: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, said = migrate(capsys, old, tmp_path / "plan", *words)
    assert code == 2
    assert why in said


def test_a_log_has_one_dialect(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If one segment cannot be converted, the others of the partition stay as they are."""
    log = max((old / "t-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[20] ^= 1
    log.write_bytes(data)
    code, said = migrate(capsys, old, tmp_path / "plan", "--to", "enriched", FOR_NO_BROKER)
    assert code == 1
    assert "segment 4 of this partition" in said
    before = contents(old)
    run(capsys, "apply", tmp_path / "plan", "--digest", "any")
    assert contents(old) == before


def test_a_log_that_is_none_of_the_dialect(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = migrate(capsys, old, tmp_path / "plan", "--dialect", "enriched", "--to-magic", 1)
    assert code == 1
    assert "cannot be converted at byte 0: magic 0 of an enriched message" in said


def test_what_was_changed_after_the_apply_is_not_proved(
    old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan"
    assert migrate(capsys, old, plan, "--to", "enriched", FOR_NO_BROKER)[0] == 0
    applied(capsys, plan)
    code, out, err = run(capsys, "verify", old, "--of-plan", plan)
    assert code == 0, out + err
    index = (old / "t-0" / LOG).with_suffix(".index")
    index.write_bytes(index.read_bytes()[:-1] + b"x")
    code, out, err = run(capsys, "verify", old, "--of-plan", plan)
    assert code == 1
    assert "is not the index of its log" in out + err


def test_markers_become_control_messages(
    tmp_path: Path, dump: Dump, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    (root / "t-0").mkdir(parents=True)
    (root / ".kafka_cleanshutdown").touch()
    parts = []
    for number, kind in enumerate((ControlType.COMMIT, ControlType.ABORT)):
        key, value = encode_end_marker(kind, 0)
        one = Record(2 * number, 5, TimestampType.CREATE_TIME, b"k", b"v")
        marker = Record(2 * number + 1, 5, TimestampType.CREATE_TIME, key, value)
        fields = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
        parts.append(v2.encode_batch([one], **fields, base_sequence=number))  # type: ignore[arg-type]
        parts.append(v2.encode_batch([marker], **fields, control=True))  # type: ignore[arg-type]
    (root / "t-0" / LOG).write_bytes(b"".join(parts))
    to = ("--to", "enriched", FOR_NO_BROKER, "--accept-loss")
    code, said = migrate(capsys, root, tmp_path / "plan", *to, "timestamps")
    assert code == 3
    assert "would lose transactions (2), aborted-visible (1), idempotence (2)" in said
    code, said = migrate(capsys, root, tmp_path / "plan", *to, "all")
    assert code == 0, said
    applied(capsys, tmp_path / "plan")
    assert [row["type"] for row in of_kind(dump(root / "t-0" / LOG), "batch")] == [
        "normal",
        "commit-transaction",
        "normal",
        "abort-transaction",
    ]
    back = ("--dialect", "enriched", "--to-magic", 2, "--accept-loss", "control")
    code, said = migrate(capsys, root, tmp_path / "back", *back)
    assert code == 1
    assert "the log end offset would fall" in said


def test_unknown_tags_and_control_messages_are_losses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    (root / "t-0").mkdir(parents=True)
    (root / ".kafka_cleanshutdown").touch()
    tags = enriched.Tags(unknown=b"\x07x")
    kind = enriched.MessageType
    (root / "t-0" / LOG).write_bytes(
        enriched.encode_message(0, kind.NORMAL, b"a", b"1", tags)
        + enriched.encode_message(1, kind.LEADER_EPOCH, None, None, enriched.Tags())
        + enriched.encode_batch([Record(2, 5, TimestampType.LOG_APPEND_TIME, b"b", b"2")])
    )
    back = ("--dialect", "enriched", "--to-magic")
    code, said = migrate(capsys, root, tmp_path / "plan", *back, 0)
    assert code == 3
    assert "would lose headers (1), timestamps (1), control (1)" in said
    code, said = migrate(capsys, root, tmp_path / "plan", *back, 1, "--accept-loss", "all")
    assert code == 0, said
    applied(capsys, tmp_path / "plan")
    records = read(root / "t-0" / LOG)
    assert [(r.offset, r.timestamp, r.key) for r in records] == [(0, -1, b"a"), (2, 5, b"b")]


def test_without_this_distribution_a_run_is_undone(
    old: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a plan is shown; to apply and to prove it is refused."""
    before = contents(old)
    for name in ("applied", "planned"):
        root = old if name == "applied" else shutil.copytree(old, tmp_path / "copy")
        code, said = migrate(capsys, root, tmp_path / name, "--to", "enriched", FOR_NO_BROKER)
        assert code == 0, said
    applied(capsys, tmp_path / "applied")
    assert contents(old) != before
    monkeypatch.setattr(dialect_hook, "_loaded", lambda _group, _name: None)
    assert run(capsys, "show", tmp_path / "planned")[0] == 0
    code, out, err = run(capsys, "apply", tmp_path / "planned", "--digest", "any")
    assert code == 3 and "install kafkats-model" in out + err
    assert contents(tmp_path / "copy") == before
    code, _, err = run(capsys, "verify", old, "--of-run", tmp_path / "applied.run")
    assert code == 3 and "install kafkats-model" in err, err
    assert run(capsys, "undo", tmp_path / "applied.run")[0] == 0
    assert contents(old) == before
