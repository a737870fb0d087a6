"""The options' words without Spark: what they mean, which are refused, and that the page has them all."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.types import IntegerType, LongType, StructType

from kafkats.errors import UsageError
from kafkats.records.plan import EARLIEST, LATEST, ReadOptions
from kafkats.segment.arrow import COLUMNS
from pyspark_kafkats.options import OPTIONS, OURS, SPARKS, check_schema, read_options

PAGE = Path(__file__).parents[2] / "docs" / "spark-source.md"


def test_without_a_word() -> None:
    found = read_options({"path": "/data"})
    assert found == (("/data",), ReadOptions(), (*SPARKS, *OURS), False, False, "")


def test_every_word() -> None:
    words = {
        "path": "file:///data", "paths": '["/other"]', "topics": "a*, b", "startingoffsets": '{"a": {"0": 23, "1": -2}}',
        "ENDINGOFFSETS": "Latest", "startingTimestamp": "2020-09-13T12:26:40Z", "endingTimestamp": "1600000000001",
        "failOnDataLoss": "false", "columns": "Offset, key,offset", "includeHeaders": "TRUE", "includeControl": "true",
        "isolationLevel": "read_committed", "onCorruption": "skip", "skippedReport": "/reports", "maxPartitionBytes": "1MiB",
    }  # fmt: skip
    assert {name.lower() for name in words} == {name.lower() for name in OPTIONS}
    found = read_options(words)
    assert found.paths == ("/data", "/other")
    assert found.columns == ("offset", "key", "headers")
    assert (found.control, found.skip, found.report) == (True, True, "/reports")
    assert found.options == ReadOptions(
        ("a*", "b"), {("a", 0): 23, ("a", 1): EARLIEST}, LATEST, 1_600_000_000_000, 1_600_000_000_001,
        committed=True, fail_on_data_loss=False, piece_bytes=1 << 20,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"topic": "a"}, "there is no option topic; there are path"),
        ({"path": ""}, "which log directory"),
        ({"paths": '"a"'}, "paths is not a JSON list"),
        ({"columns": "key,offsets"}, "there is no column offsets"),
        (
            {"isolationLevel": "committed"},
            "isolationLevel is read_uncommitted or read_committed, not committed",
        ),
        ({"onCorruption": "ignore"}, "onCorruption is fail or skip, not ignore"),
        ({"includeHeaders": "yes"}, "includeHeaders is true or false, not yes"),
        ({"startingOffsets": "23"}, "startingOffsets is not earliest, latest or JSON like"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "startingOffsets is not earliest"),
        ({"startingOffsets": '{"a": {"0": true}}'}, "startingOffsets is not earliest"),
        ({"startingOffsets": '{"a": 5}'}, "startingOffsets is not earliest"),
        ({"startingOffsets": '{"a"'}, "startingOffsets is not JSON"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be earliest"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp: 'yesterday' is not a time"),
        (
            {"endingTimestamp": str(2**63)},
            "endingTimestamp: 9223372036854775808 is no time that a record can have",
        ),
        (
            {"startingTimestamp": "-5", "endingTimestamp": "-6"},
            "endingTimestamp lies before startingTimestamp",
        ),
        (
            {"startingTimestamp": "5"},
            "startingTimestamp: 5 is ambiguous: as seconds it is 1970-01-01T00:00:05Z",
        ),
        ({"maxPartitionBytes": "0"}, "maxPartitionBytes"),
        ({"maxPartitionBytes": "much"}, "maxPartitionBytes: "),
        ({"skippedReport": "/reports"}, "skippedReport is of use with onCorruption=skip only"),
    ],
    ids=str,
)
def test_wrong_words(words: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_options({"path": "/data"} | words)


def test_schemas() -> None:
    check_schema(StructType().add("offset", LongType()).add("partition", IntegerType()))
    with pytest.raises(UsageError, match="there is no column offsets"):
        check_schema(StructType().add("offsets", LongType()))
    with pytest.raises(UsageError, match="column offset is bigint, not int"):
        check_schema(StructType().add("offset", IntegerType()))


def test_the_page_has_every_option_and_column() -> None:
    page = PAGE.read_text()
    told = {
        cell
        for line in page.splitlines()
        if line.startswith("| `")
        for cell in line.split("|")[1].replace("`", "").split(", ")
    }
    assert {name.strip() for name in told} == {*OPTIONS, *COLUMNS.names} - {"paths"}
