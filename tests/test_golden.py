"""The golden directories are what their case files say, and unpacking keeps what matters."""

from __future__ import annotations

import hashlib

import pytest

from tests.golden import Unpacked, case, cases, states, topic_of


def test_there_are_cases_of_every_kind() -> None:
    kinds = {one.kind for one in cases()}
    assert {
        "matrix",
        "content",
        "timestamps",
        "transactions",
        "rolling",
        "upgrade",
        "crash",
        "clean-start",
    } <= kinds
    assert {"torn-append", "retention", "compaction", "adopt", "root", "follower"} <= kinds
    assert len(cases()) == 92


@pytest.mark.examples(by="kind")
@pytest.mark.parametrize(("one", "state"), states(), ids=str)
def test_unpacked_files_are_the_listed_ones(one, state, golden: Unpacked) -> None:
    root = golden(one, state)
    found = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_file():
            stat = path.stat()
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = (stat.st_size, stat.st_mtime_ns // 1_000_000, sha256)
        elif not any(path.iterdir()):
            found[f"{name}/"] = (0, 0, None)
    assert found == one.files(state)


def test_topic_of_a_directory_name() -> None:
    assert topic_of("a.b-c-12") == "a.b-c"
    assert topic_of("a.b-c-12.0123456789abcdef-delete") == "a.b-c"


def test_settings_come_from_the_topic() -> None:
    one = case("crash-4.3.1")
    assert (one.interval("untouched-0"), one.index_bytes("untouched-0")) == (100, 2048)
    assert one.interval("__cluster_metadata-0") == 4096
