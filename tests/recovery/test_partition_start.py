"""A predicted load is what the broker's own log says, and leaves the files that the broker left."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkats.evidence.claims import Claims, claims_of
from kafkats.execution.local import LocalExecutor
from kafkats.logdir.partition import scan_partition
from kafkats.recovery.facts import PartitionStart
from kafkats.recovery.partition_start import predict
from kafkats.recovery.rules import start_rule
from kafkats.recovery.start import predict_start
from tests.builders.directories import scan_root
from tests.golden import Case, Unpacked, case
from tests.recovery.broker_logs import Said, said_of

_DAMAGED = [
    *(f"clean-start-{v}" for v in ("0.10.2.2", "1.1.1", "2.8.2", "3.9.1", "4.1.0", "4.3.1")),
    *(f"crash-{v}" for v in ("0.9.0.1", "0.10.2.2", "0.11.0.3", "2.4.1", "2.8.2", "2.8.2-v1", "3.9.1", "4.1.0", "4.3.1")),
]  # fmt: skip
_APPENDED = ["adopt-3.9.1-unclean", "adopt-4.1.0", "adopt-4.3.1-unclean"]
_TORN = ["torn-append-2.8.2", "torn-append-4.1.0", "torn-append-4.3.1"]
_ROOTS = ["root-0.10.2.2", "root-2.8.2", "root-3.9.1", "root-4.1.0", "root-4.3.1"]
_KINDS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def _starts(unpacked: Path, of: Case) -> dict[str, PartitionStart]:
    roots = [p for p in (unpacked / "disk-a", unpacked / "disk-b") if p.exists()] or [unpacked]
    found = {}
    for path in roots:
        root = scan_root(path)
        for partition in root.partitions:
            claims = claims_of(partition, root, live=False, tiered=False)
            found[str(partition.path.relative_to(unpacked))] = predict(
                partition, claims, start_rule(of.kafka), log_dir=str(path),
                interval=of.interval(partition.path.name),
            )  # fmt: skip
    return found


def _as_said(start: PartitionStart, of: Case, *, clean: bool) -> Said:
    """Return the prediction as the broker of the case logs it."""
    recovered = start.recovered
    by_why = {
        why: [r.base_offset for r in recovered if r.why == why]
        for why in ("unflushed", "missing-index", "corrupt-index")
    }
    if start_rule(of.kafka).swaps_renamed and not clean:  # 3.0: told only below the recovery point
        point = max(start.recovery_point, 0)
        by_why["missing-index"] = [b for b in by_why["missing-index"] if b < point]
    cut = [
        (r.base_offset, r.next_offset) for r in recovered if r.why == "unflushed" and r.cut_bytes
    ]
    return Said(
        start.log_start_offset, start.log_end_offset, start.segments, by_why["unflushed"],
        by_why["missing-index"], by_why["corrupt-index"], cut, start.snapshot_offset,
    )  # fmt: skip


def _differences(said: Said, predicted: Said) -> list[str]:
    pairs = [
        ("log end", said.log_end, predicted.log_end),
        ("log start", said.log_start, predicted.log_start if said.log_start >= 0 else -1),
        ("unflushed", said.unflushed, predicted.unflushed),
        ("without index", sorted(said.without_index), sorted(predicted.without_index)),
        ("corrupt index", sorted(set(said.corrupt_index)), sorted(predicted.corrupt_index)),
        ("cut", said.cut, predicted.cut),
        ("snapshot", said.snapshot, predicted.snapshot),
    ]
    return [f"{what}: the broker {there}, predicted {here}" for what, there, here in pairs if there != here]  # fmt: skip


def _against_the_log(unpacked: Path, of: Case, start: int, clean: bool) -> int:
    said = said_of(of, start)
    wrong, seen = {}, 0
    for name, one in _starts(unpacked, of).items():
        short = name.rpartition("/")[2]
        if short in said:
            seen += 1
            assert one.outcome == "loads", (name, one.words)
            found = _differences(said[short], _as_said(one, of, clean=clean))
            wrong |= {name: found} if found else {}
    assert wrong == {}
    return seen


@pytest.mark.parametrize("name", [*_DAMAGED, *_APPENDED])
def test_a_load_is_what_the_broker_logged(name: str, golden: Unpacked) -> None:
    of = case(name)
    root = golden(name, "before")
    clean = (root / ".kafka_cleanshutdown").exists()
    assert clean == name.startswith(("clean-start", "adopt-4.1.0"))
    assert _against_the_log(root, of, 2, clean) >= 13


@pytest.mark.parametrize("name", _ROOTS)
def test_whole_roots_load_as_logged(name: str, golden: Unpacked) -> None:
    assert _against_the_log(golden(name, "data"), case(name), 2, clean=True) >= 15


@pytest.mark.parametrize("name", _TORN)
def test_a_torn_tail_beside_a_marker_is_loaded_as_logged(name: str, golden: Unpacked) -> None:
    of = case(name)
    before = golden(name, "before")
    assert _against_the_log(before, of, 2, clean=True) == 2
    starts = _starts(before, of)
    assert [f.kind for f in starts["indexed-0"].findings][:1] == ["end-moved-back"]
    assert (starts["indexed-0"].log_end_offset, starts["indexed-0"].known_end) == (0, 30)
    assert [f.kind for f in starts["not-indexed-0"].findings][:1] == ["torn-tail-marked-clean"]
    if name == "torn-append-2.8.2":  # it did not start again
        words = {one.words for one in _starts(golden(name, "appended"), of).values()}
        refused = next(b["end"] for b in of.info["brokers"] if b["end"].startswith("did not"))
        assert "size 2 smaller than minimum record overhead (14)" in " ".join(words), refused
    else:
        assert _against_the_log(golden(name, "appended"), of, 3, clean=True) == 2


@pytest.mark.parametrize("name", _DAMAGED)
def test_the_files_after_a_start_are_the_predicted_ones(name: str, golden: Unpacked) -> None:
    of = case(name)
    root = golden(name, "before")
    kinds = _KINDS if start_rule(of.kafka).name not in ("1.0", "0.11", "0.10") and of.kafka != "2.4.1" else _KINDS[:4]  # fmt: skip
    said = said_of(of, 2)
    real: dict[str, dict[str, int]] = {}
    for path, (size, _, _) in of.files("after").items():
        directory, _, file = path.rpartition("/")
        real.setdefault(directory, {})[file] = size
    wrong = {}
    for directory, start in _starts(root, of).items():
        if directory not in said or directory.startswith("__"):
            continue  # the broker's own topics went on growing
        expected = {f for f in _names_after(root / directory, start) if f.endswith(kinds)}
        there = {f for f in real[directory] if f[20:21] == "." and f.endswith(kinds)}
        sizes = {f"{r.base_offset:020d}.log": r.cut_to for r in start.recovered if r.base_offset not in start.deleted}  # fmt: skip
        other = {f: size for f, size in sizes.items() if real[directory].get(f) != size}
        if expected != there or other:
            wrong[directory] = (sorted(expected ^ there), other)
    assert wrong == {}


@pytest.mark.parametrize("name", ["crash-0.11.0.3", "clean-start-1.1.1", "crash-2.4.1"])
def test_up_to_2_7_a_snapshot_of_a_lost_segment_stays(name: str, golden: Unpacked) -> None:
    of = case(name)
    start = _starts(golden(name, "before"), of)["lost-middle-segment-0"]
    files = [path.rpartition("/") for path in of.files("after")]
    there = {f for folder, _, f in files if folder == start.partition_dir}
    left = {int(f[:20]) for f in there if f.endswith(".snapshot")}
    bases = {int(f[:20]) for f in there if f.endswith(".log")}
    assert set(start.snapshots) == left
    assert left - bases - {start.log_end_offset}, "one at the base of no segment"


def _names_after(directory: Path, start: PartitionStart) -> set[str]:
    names = {f.name for f in directory.iterdir()} - set(start.removed) | set(start.created)
    names = names - set(start.renamed) | {f.removesuffix(".swap") for f in start.renamed}
    deleted = {f"{base:020d}" for base in start.deleted}
    kept = {f for f in names if not f.endswith(".snapshot") and f[:20] not in deleted}
    return kept | {f"{offset:020d}.snapshot" for offset in start.snapshots}


def test_epochs_after_a_start_are_the_predicted_ones(golden: Unpacked, tmp_path: Path) -> None:
    # 3.9.1 adds no epoch when it becomes leader again.
    of = case("crash-3.9.1")
    after = of.unpack("after", tmp_path)
    starts = _starts(golden("crash-3.9.1", "before"), of)
    for directory, start in starts.items():
        checkpoint = after / directory / "leader-epoch-checkpoint"
        if directory.startswith("__"):
            continue
        lines = checkpoint.read_text().split("\n")[2:-1]
        assert [f"{e} {s}" for e, s in start.epochs] == lines, directory


def test_0_8_stops_at_wrong_indexes_of_closed_segments(golden: Unpacked) -> None:
    of = case("crash-0.8.2.2")
    starts = _starts(golden(of.name, "before"), of)
    stopped = {name for name, one in starts.items() if one.outcome == "stops"}
    assert stopped == {"big-index-old-0", "noise-index-old-0", "odd-index-13-0", "zero-index-old-0"}


def test_workers_predict_the_same(golden: Unpacked) -> None:
    root = golden("crash-4.3.1", "before")
    with LocalExecutor(1) as executor:
        start = predict_start(executor, [root], "4.3")
    alone = _starts(root, case("crash-4.3.1"))
    assert {p.partition_dir for p in start.partitions} == set(alone)
    ends = {p.partition_dir: p.log_end_offset for p in start.partitions}
    assert ends == {name: one.log_end_offset for name, one in alone.items()}


@pytest.mark.parametrize(("version", "words"), [(1, ""), (0x0100, "version 1 in")])
def test_a_broker_reads_one_byte_of_the_version_of_an_aborted_transaction(
    version: int, words: str, golden: Unpacked, tmp_path: Path
) -> None:
    source = golden("clean-start-4.3.1", "before") / "untouched-0"
    directory = tmp_path / "untouched-0"
    shutil.copytree(source, directory)
    log = max(directory.glob("*.log"))
    entry = version.to_bytes(2, "big") + bytes(16) + (2**40).to_bytes(8, "big") + bytes(8)
    log.with_suffix(".txnindex").write_bytes(entry)
    claims = Claims(recovery_point=0, log_start=0, rooted=True, clean=True)
    start = predict(scan_partition(directory), claims, start_rule("4.3"), log_dir=str(tmp_path))
    assert (start.outcome == "loads", words in start.words) == (not words, True)


@pytest.fixture
def beside(golden: Unpacked, tmp_path: Path) -> Path:
    """A log directory of 4.3.1 with one partition that lacks nothing."""
    source, root = golden("clean-start-4.3.1", "before"), tmp_path / "data"
    shutil.copytree(source / "untouched-0", root / "untouched-0")
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        shutil.copy2(source / name, root)
    (root / "__cluster_metadata-0").mkdir()
    return root


def _put_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def test_a_directory_in_the_place_of_the_only_log(beside: Path) -> None:
    """4.3.1 and 2.8.2 said so, and shut down."""
    first, *others = sorted((beside / "untouched-0").glob("*.log"))
    for log in others:
        for file in log.parent.glob(f"{log.stem}.*"):
            file.unlink()
    _put_directory(first)
    for kafka in ("4.3.1", "2.8.2"):
        start = predict_start(LocalExecutor(1), [beside], kafka)
        assert start.partitions[0].outcome == "offline"
        assert start.partitions[0].words == f"{first}: Is a directory"
    assert start.outcome == "stops"


@pytest.mark.parametrize(
    ("kind", "words"),
    [(".log", ""), (".txnindex", ": Is a directory"), (".index", " (Is a directory)"), (".snapshot", "")],
)  # fmt: skip
def test_a_directory_in_the_place_of_another_file(kind: str, words: str, beside: Path) -> None:
    """4.3.1 started, or said so."""
    file = min((beside / "untouched-0").glob(f"*{kind}"))
    _put_directory(file)
    start = predict_start(LocalExecutor(1), [beside], "4.3.1")
    assert start.partitions[0].words == (f"{file}{words}" if words else "")
    assert start.outcome == ("stops" if words else "loads")


def test_a_future_replica_beside_its_own(beside: Path) -> None:
    shutil.copytree(beside / "untouched-0", beside / f"untouched-0.{'a' * 32}-future")
    start = predict_start(LocalExecutor(1), [beside], "4.3.1")
    words = f"Error while renaming dir for untouched-0 in log dir {beside}"
    assert (start.outcome, start.words) == ("stops", (words,))
