"""The documents' matrix as data: model/docs/seeds/*.jsonl, played by `kafkats replay`."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.builders.commands import objects, run
from tests.golden import Unpacked, case

SCRIPTS = Path(__file__).parents[2] / "docs" / "seeds"
IN_PLACE, CONVERTED, RECOMPRESSED, STORED = "in place", "converted", "recompressed", "as stored"
PRODUCED = {
    # (produce version, compressed): the outcome on a disk with format 0, 1, 2
    (1, False): (IN_PLACE, CONVERTED, CONVERTED),
    (1, True): (RECOMPRESSED, CONVERTED, CONVERTED),
    (2, False): (CONVERTED, IN_PLACE, CONVERTED),
    (2, True): (CONVERTED, IN_PLACE, CONVERTED),
}
FETCHED = {
    # fetch version: the outcome on a disk with format 0, 1, 2
    1: (STORED, CONVERTED, CONVERTED),
    2: (STORED, STORED, CONVERTED),
    4: (STORED, STORED, STORED),
}


def played(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> list[dict[str, object]]:
    words = ("replay", SCRIPTS / f"{name}.jsonl", "-o", tmp_path / name, "--json")
    code, out, err = run(capsys, *words)
    assert code == 0, err
    return objects(out)[:-1]


def test_every_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Version by format by codec by timestamp type: how it is appended and fetched, its format, the response's timestamp."""
    cells: Counter[str] = Counter()
    for row in played("matrix", tmp_path, capsys):
        if row["do"] not in ("produce", "fetch"):
            continue
        disk, kind, codec, _ = str(row["partition"]).split(".")
        version, magic = row["version"], int(disk[1])
        assert isinstance(version, int)
        cells[str(row["do"])] += 1
        if row["do"] == "produce":
            assert row["outcome"] == PRODUCED[version, codec != "none"][magic], row
            assert row["formats"] == f"{magic} {codec}", row
            assert (row["timestamp"] != -1) == (kind == "lat" and version == 2), row
        else:
            assert row["outcome"] == FETCHED[version][magic], row
            sent = min(magic, {1: 0, 2: 1, 4: 2}[version])
            assert row["formats"] == f"{sent} {codec}", row
    assert cells == {"produce": 2 * 3 * 4 * 2, "fetch": 3 * 2 * 3 * 4 * 2}
    code, out, err = run(capsys, "verify", tmp_path / "matrix" / "broker-1", "--deep")
    assert code == 0, out + err


@pytest.mark.parametrize(
    ("name", "rejected"),
    [
        ("phases", {"UNSUPPORTED_VERSION": 1}),
        ("canary", {}),
        ("threshold", {"TimestampExceededThresholdException": 4}),
    ],
)
def test_a_scenario(
    name: str, rejected: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = played(name, tmp_path, capsys)
    errors = Counter(str(row["error"]).partition(":")[0] for row in rows if "error" in row)
    assert errors == rejected and len(rows) > 15


def test_the_table_fits_into_100_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("phases", "canary", "threshold"):
        _, out, _ = run(capsys, "replay", SCRIPTS / f"{name}.jsonl", "-o", tmp_path / name)
        table = [
            line.rstrip()
            for line in out.splitlines()
            if not line.startswith("line ") or "do" in line.split()
        ]
        assert max(map(len, table[:-1])) <= 100


def test_a_record_is_sent_so_many_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script"
    steps = [
        {"do": "broker", "broker": "1", "kafka": "kip"},
        {"do": "create", "broker": "1", "partition": "t-0"},
        {"do": "produce", "broker": "1", "partition": "t-0", "version": 2, "records": [{"key": "a", "count": 3}, {"key": "b"}]},
    ]  # fmt: skip
    script.write_text("\n".join(map(json.dumps, steps)))
    _, out, _ = run(capsys, "replay", script, "-o", tmp_path / "out", "--json")
    assert objects(out)[2]["last_offset"] == 3
    script.write_text(script.read_text().replace('"count": 3', '"count": 0'))
    code, _, err = run(capsys, "replay", script, "-o", tmp_path / "none")
    assert code == 2 and "line 3" in err


ASKED = re.compile(r"(?P<partition>.+) fetch v(?P<version>\d+) from (?P<offset>\d+)")


@pytest.mark.parametrize("kafka", ["2.8.2", "3.9.1"])
def test_fetches_that_a_real_broker_answered(
    kafka: str, golden: Unpacked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Old versions, from the begin and the middle of its partitions: it read as many bytes, and refused zstd."""
    one = case(f"matrix-{kafka}-v2")
    root, told = golden(one, "data"), one.info["fetch"]
    steps: list[dict[str, object]] = [{"do": "broker", "broker": "1", "kafka": kafka}]
    asked = {text: match for text in told["answers"] if (match := ASKED.fullmatch(text))}
    for name in sorted({match["partition"] for match in asked.values()}):
        steps.append({"do": "create", "broker": "1", "partition": name, "from": str(root / name)})
    steps += [
        {"do": "fetch", "broker": "1", "partition": m["partition"], "version": int(m["version"]), "offset": int(m["offset"]), "bytes": told["max_bytes"]}
        for m in asked.values()
    ]  # fmt: skip
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join(map(json.dumps, steps)))
    code, out, err = run(capsys, "replay", script, "-o", tmp_path / "out", "--json")
    assert code == 0, err
    rows = [row for row in objects(out) if row.get("do") == "fetch"]
    assert len(rows) == len(asked) == 40
    for row, text in zip(rows, asked, strict=True):
        answer = told["answers"][text]
        assert (row["outcome"] == "rejected") == (answer["error_code"] != 0), (text, row, answer)
        if row["outcome"] != "rejected":
            assert row["stored_bytes"] == answer["size"], (text, row, answer)
            assert row["outcome"] == "converted" and row["formats"][0] == str(answer["magic"])
