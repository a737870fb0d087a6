"""partition.metadata as brokers read it: outcomes and words as 2.8.2, 3.6.2, 3.9.1 and 4.3.1 had them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkats import paths
from kafkats.recovery.rules import start_rule
from kafkats.recovery.topic_id import read_topic_id

ID = "cTgsDqA2Toqwdh3Nb7RKmg"
NULL = "{} is empty or cut off, without a topic id: java.lang.NullPointerException"
SHORT = (
    "Input string `xx` decoded as 1 bytes, which is not equal to the expected 16 bytes of a"
    " base64-encoded UUID"
)


@pytest.mark.parametrize(
    ("text", "old", "middle", "new"),
    [
        (f"version: 0\ntopic_id: {ID}", ("loads", ""), ("loads", ""), ("loads", "")),
        ("", ("stops", NULL), ("stops", NULL), ("stops", NULL)),
        ("version: 0\n", ("stops", NULL), ("stops", NULL), ("stops", NULL)),
        ("version: 0\ntopic_id: xx", ("stops", SHORT), ("stops", SHORT), ("stops", SHORT)),
        (
            f"version: 0\ntopic_id: {ID}+++",
            *(("stops", f"Input string with prefix `{ID}++` is too long to be decoded as a base64 UUID"),)
            * 3,
        ),
        (
            f"version: 0\ntopic_id: {ID[:-1]}+",
            *(("stops", "java.lang.IllegalArgumentException"),) * 3,
        ),
        (
            "hello\n",
            ("stops", "Malformed line in checkpoint file ({}): 'hello'"),
            ("offline", "Malformed line in checkpoint file ({}): 'hello'"),
            ("offline", "Malformed line in checkpoint file [{}]: hello"),
        ),
        (
            f"version: 9\ntopic_id: {ID}",
            ("stops", "Unrecognized version of partition metadata file ({}): 9"),
            ("offline", "Unrecognized version of partition metadata file ({}): 9"),
            ("loads", ""),
        ),
        (
            f"version: 0\ntopic_id: {'A' * 22}",
            ("stops", "Invalid topic ID in partition metadata file ({})"),
            ("offline", "Invalid topic ID in partition metadata file ({})"),
            ("offline", "Invalid topic ID in partition metadata file ({})"),
        ),
    ],
)  # fmt: skip
def test_a_damaged_file_ends_the_load_as_it_did(
    text: str,
    old: tuple[str, str],
    middle: tuple[str, str],
    new: tuple[str, str],
    tmp_path: Path,
) -> None:
    file = tmp_path / paths.PARTITION_METADATA
    file.write_text(text)
    releases = {"2.8.2": old, "3.6.2": middle, "3.7.0": new, "3.9.1": new, "4.3.1": new}
    for kafka, (outcome, words) in releases.items():
        found = read_topic_id(tmp_path, start_rule(kafka))
        assert (found.outcome, found.words) == (outcome, words.format(file)), kafka
        assert found.value == (ID if outcome == "loads" else "")


@pytest.mark.parametrize("kafka", ["2.7", "1.1"])
def test_brokers_before_2_8_do_not_read_it(kafka: str, tmp_path: Path) -> None:
    (tmp_path / paths.PARTITION_METADATA).write_text("")
    assert read_topic_id(tmp_path, start_rule(kafka)) == ("", "loads", "")


def test_no_file_is_no_topic_id(tmp_path: Path) -> None:
    assert read_topic_id(tmp_path, start_rule("4.3")) == ("", "loads", "")
