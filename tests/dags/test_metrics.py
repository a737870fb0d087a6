"""The metrics: what they say of a folder of runs, who gets them, and how long that takes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafkats_airflow import settings
from kafkats_airflow.metrics import endpoint, families, text_file
from kafkats_airflow.metrics.families import METRICS, registry
from kafkats_airflow.runs.folders import file_name
from prometheus_client import exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
from starlette.testclient import TestClient

from kafkats import clock
from tests.calls import calls
from tests.ui.folders import DAY_MS, HOSTILE, change, ended, reclaimable, volume, write

ROOT = Path(__file__).parents[2]
AT_MS = 1_790_000_000_000
TOKEN = "q7-not-a-token-of-airflow"
Samples = dict[tuple[str, tuple[str, ...]], float]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (made := tmp_path / "runs").mkdir()
    return made


def samples(folder: Path, **more: bool) -> Samples:
    """Value of each sample by name and label values, as a scraper of OpenMetrics reads them.

    Without the series of earlier versions, and without the word for a broker that nobody names.
    """
    encode, _ = exposition.choose_encoder("application/openmetrics-text; version=1.0.0")
    text = encode(registry(lambda: {"": folder}, **more)).decode()
    assert text.endswith("# EOF\n")
    labels = {one.name: one.labels for one in METRICS}
    return {
        (
            one.name,
            tuple(one.labels[key] for key in known if one.labels[key] != families.UNKNOWN),
        ): one.value
        for family in parse(text)
        for one in family.samples
        if one.labels.keys() == set(known := labels[one.name])
    }


def test_the_newest_figures_of_each_kind(folder: Path) -> None:
    """Retention knows what is reclaimable, the census formats, the rebuild defects."""
    ended(folder, AT_MS - 3000, volume("/a", magic_bytes=[1000, 2000, 1000]), dag="migrate")
    ended(
        folder,
        AT_MS - 2000,
        volume("/a", reclaimable=reclaimable(5, 7)),
        dag="apply_retention",
        dry_run=True,
    )
    kinds = {"damage": {"missing-index": 2}, "danger": {"bad-offset": 1}, "remark": {"stray": 9}}
    ended(folder, AT_MS - 1000, volume("/a", kinds=kinds), volume("/b"))
    old = ended(folder, AT_MS - 9000, volume("/a", reclaimable=reclaimable(1)), run="old")
    undo = change(old, "ab" * 32, {"/a": 64}, None)
    ended(folder, AT_MS - 9000, volume("/a"), run="old", undo=[undo | {"ended_ms": AT_MS - 9000}])
    found = samples(folder)
    assert {key: value for key, value in found.items() if key[1][:1] == ("/a",)} == {
        ("kafkats_volume_timestamp_seconds", ("/a",)): (AT_MS - 1000) / 1000,
        ("kafkats_volume_bytes", ("/a",)): 4096,
        ("kafkats_volume_partitions", ("/a",)): 3,
        ("kafkats_volume_segments", ("/a",)): 12,
        ("kafkats_defects", ("/a", "damage", "missing-index")): 2,
        ("kafkats_defects", ("/a", "danger", "bad-offset")): 1,
        ("kafkats_look_timestamp_seconds", ("/a", "full")): (AT_MS - 1000) / 1000,
        ("kafkats_reclaimable_bytes", ("/a",)): 5,
        ("kafkats_pinned_bytes", ("/a",)): 7,
        ("kafkats_old_magic_ratio", ("/a",)): 0.75,
        ("kafkats_undo_runs", ("/a",)): 1,
        ("kafkats_undo_bytes", ("/a",)): 64,
        ("kafkats_undo_oldest_timestamp_seconds", ("/a",)): (AT_MS - 9000) / 1000,
    }
    assert found["kafkats_undo_runs", ("/b",)] == 0, "0 is shown as 0"
    assert found["kafkats_folder_readable", ()] == 1
    assert found["kafkats_reports", ("read",)] == 4
    newest = found["kafkats_report_timestamp_seconds", ("rebuild_time_indexes",)]
    assert newest == (AT_MS - 1000) / 1000


@pytest.mark.parametrize("dag", ["größe", "d" * 101, "a b"])
def test_a_dag_of_any_id(folder: Path, dag: str) -> None:
    """The name of its folder is not its id."""
    kinds = {"damage": {"missing-index": 2}}
    at = file_name(dag)
    found = volume("/a", kinds=kinds, reclaimable=reclaimable(5))
    run = ended(folder, AT_MS, found, dag=at, run="r", dag_id=dag)
    part = {"log_dir": "/a", "partition_dir": "t-0", "bytes": 9, "now_bytes": 5, "pinned_bytes": 0}
    write(run / "board.json", {"partitions": [part]})
    told = samples(folder, by_partition=True)
    assert told["kafkats_defects", ("/a", "damage", "missing-index")] == 2
    assert told["kafkats_report_timestamp_seconds", (dag,)] == AT_MS / 1000
    assert told["kafkats_partition_bytes", ("/a", "t-0")] == 9


@pytest.mark.parametrize("ends", ["purge.json", "undone.json"])
def test_an_undo_that_is_over(folder: Path, ends: str) -> None:
    run = ended(folder, AT_MS, run="one")
    undo = change(run, "ab" * 32, {"/a": 64}, None)
    ended(folder, AT_MS, volume("/a"), run="one", undo=[undo])
    assert samples(folder)["kafkats_undo_bytes", ("/a",)] == 64
    write(run / "spark_default" / f"run-{'ab' * 8}" / ends, {})
    found = samples(folder)
    assert (found["kafkats_undo_runs", ("/a",)], found["kafkats_undo_bytes", ("/a",)]) == (0, 0)
    assert ("kafkats_undo_oldest_timestamp_seconds", ("/a",)) not in found


@pytest.mark.parametrize(
    ("runs", "outcome"),
    [
        ([{"failed": True}, {}], "success"),
        ([{"dry_run": True}], "dry_run"),
        ([{"failed": True, "dry_run": True}], "failed"),
        ([{"failed": True}, {"outcome": "rejected"}], "rejected"),
        ([{"failed": True}, {"dry_run": True}], "failed"),
        ([{"failed": True, "dry_run": True}, {"dry_run": True}], "dry_run"),
        ([{"failed": True}, {}, {"dry_run": True}], "dry_run"),
    ],
)
def test_the_last_outcome(folder: Path, runs: list[dict[str, Any]], outcome: str) -> None:
    """As on the page of runs: a dry run does not end the failure of a run that was to write."""
    for n, more in enumerate(runs):
        ended(folder, AT_MS + n, **more)
    found = {
        labels[1]: value
        for (name, labels), value in samples(folder).items()
        if name == "kafkats_last_outcome"
    }
    assert found == {one: float(one == outcome) for one in families.OUTCOMES}


def test_a_run_over_some_topics_says_nothing_of_the_volume(folder: Path) -> None:
    ended(folder, AT_MS - 1, volume("/a", bytes=4096))
    ended(folder, AT_MS, volume("/a", bytes=1), topics="orders-*")
    found = samples(folder)
    assert found["kafkats_volume_bytes", ("/a",)] == 4096
    assert found["kafkats_volume_timestamp_seconds", ("/a",)] == (AT_MS - 1) / 1000


def test_a_share_needs_bytes_that_were_read(folder: Path) -> None:
    """A rebuild reads some segments whole: that is no census."""
    ended(folder, AT_MS, volume("/a", log_bytes=4000, magic_bytes=[10, 0, 100]))
    assert ("kafkats_old_magic_ratio", ("/a",)) not in samples(folder)
    ended(folder, AT_MS - 1, volume("/a", log_bytes=0, magic_bytes=[0, 0, 0]))
    assert samples(folder)["kafkats_old_magic_ratio", ("/a",)] == 0


def test_a_shallower_look_does_not_clear_defects(folder: Path) -> None:
    inside = {"danger": {"bad-offset": 1}, "damage": {"bad-crc": 3, "missing-index": 2}}
    ended(folder, AT_MS - 2, volume("/a", kinds=inside, depth="full"))
    ended(folder, AT_MS - 1, volume("/a", depth="tail"), dag="apply_retention")
    found = samples(folder)
    assert found["kafkats_defects", ("/a", "damage", "bad-crc")] == 3
    assert found["kafkats_defects", ("/a", "danger", "bad-offset")] == 1
    assert ("kafkats_defects", ("/a", "damage", "missing-index")) not in found
    looks = {key[1]: at for key, at in found.items() if key[0] == "kafkats_look_timestamp_seconds"}
    assert looks == {("/a", "full"): (AT_MS - 2) / 1000, ("/a", "tail"): (AT_MS - 1) / 1000}
    ended(folder, AT_MS, volume("/a", depth="deep"))
    assert not [name for name, _ in samples(folder) if name == "kafkats_defects"]


def test_brokers_with_one_path_have_their_own_series(folder: Path) -> None:
    """And for one release the series without a broker: that of the volume in most trouble."""
    one = volume("/data (broker 1)", broker="1", bytes=1)
    two = volume("/data (broker 2)", broker="2", bytes=2, kinds={"danger": {"bad-offset": 1}})
    ended(folder, AT_MS, one, two)
    ended(folder, AT_MS, volume("/other", identity=["c", 7, "d"], bytes=3), run="other")
    found = samples(folder)
    assert found["kafkats_volume_bytes", ("/data", "1")] == 1
    assert found["kafkats_volume_bytes", ("/data", "2")] == 2
    assert found["kafkats_volume_bytes", ("/other", "7")] == 3
    text = exposition.generate_latest(registry(lambda: {"": folder})).decode()
    old = [line for line in text.splitlines() if line.startswith("kafkats_volume_bytes{volume=")]
    assert old == [
        'kafkats_volume_bytes{volume="/data"} 2.0',
        'kafkats_volume_bytes{volume="/other"} 3.0',
    ]
    series = [line.rpartition(" ")[0] for line in text.splitlines() if line[0] != "#"]
    assert len(series) == len(set(series))


def test_partitions_only_when_switched_on(folder: Path) -> None:
    run = ended(folder, AT_MS, volume("/a", reclaimable=reclaimable(5)), dag="apply_retention")
    row = {"log_dir": "/a", "partition_dir": "orders-0", "bytes": 9, "now_bytes": 5}
    write(run / "board.json", {"partitions": [row | {"pinned_bytes": 3}]})
    assert not [name for name, _ in samples(folder) if name.startswith("kafkats_partition")]
    found = samples(folder, by_partition=True)
    assert found["kafkats_partition_bytes", ("/a", "orders-0")] == 9
    assert found["kafkats_partition_reclaimable_bytes", ("/a", "orders-0")] == 5
    assert found["kafkats_partition_pinned_bytes", ("/a", "orders-0")] == 3
    write(run / "board.json", '{"partitions": [{}]}')
    assert ("kafkats_partition_bytes", ("/a", "orders-0")) not in samples(folder, by_partition=True)


def test_corrupt_half_written_and_older_reports(folder: Path) -> None:
    ended(folder, AT_MS, volume("/a"))
    for number, content in enumerate(["", "{", "[]", '{"format": 2}', "\0", "9" * 5000]):
        write(ended(folder, AT_MS, run=f"bad-{number}") / "overview.json", content)
    (ended(folder, AT_MS, run="older") / "overview.json").unlink()
    (folder / "rebuild_time_indexes" / "running").mkdir()
    (folder / "ledger.jsonl").write_text("")
    found = samples(folder)
    assert [found["kafkats_reports", (state,)] for state in ("read", "older", "unreadable")] == [
        1,
        1,
        6,
    ]
    assert found["kafkats_volume_bytes", ("/a",)] == 4096


def test_a_folder_that_cannot_be_seen(tmp_path: Path) -> None:
    found = samples(tmp_path / "gone")
    assert found["kafkats_folder_readable", ()] == 0
    assert set(found) == {
        ("kafkats_folder_readable", ()),
        *(("kafkats_reports", (state,)) for state in ("read", "older", "unreadable")),
    }


def test_names_from_a_hostile_disk(folder: Path) -> None:
    names = [HOSTILE, 'a"b\\c\nd 1\n# EOF', "\udcff", "", "é\u2028"]
    ended(folder, AT_MS, *(volume(name) for name in names))
    found = {labels[0] for name, labels in samples(folder) if name == "kafkats_volume_bytes"}
    assert found == {HOSTILE, 'a"b\\c\nd 1\n# EOF', "\\udcff", "", "é\u2028"}


def test_a_change_is_seen_at_once(folder: Path) -> None:
    ours = registry(lambda: {"": folder})

    def size() -> float | None:
        return ours.get_sample_value("kafkats_volume_bytes", {"volume": "/a"})

    assert size() is None
    ended(folder, AT_MS, volume("/a"), run="one")
    assert size() == 4096
    ended(folder, AT_MS + 1, volume("/a", bytes=8), run="two")
    assert size() == 8


def test_the_page_lists_every_metric() -> None:
    """Name, type, labels and meaning, as a scraper gets them."""
    page = (ROOT / "docs" / "operating.md").read_text()
    rows = re.findall(r"^\| `(kafkats_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", page, re.MULTILINE)
    labels = {one.name: ", ".join(f"`{name}`" for name in one.labels) for one in METRICS}
    assert rows == [(one.name, "gauge", labels[one.name], one.text) for one in METRICS]


def test_types_and_names_are_those_of_open_metrics(folder: Path) -> None:
    ended(folder, AT_MS, volume("/a"))
    encode, _ = exposition.choose_encoder("application/openmetrics-text")
    text = encode(registry(lambda: {"": folder}, by_partition=True)).decode()
    found = {family.name: (family.type, family.documentation) for family in parse(text)}
    assert found == {one.name: ("gauge", one.text) for one in METRICS}


@pytest.mark.slow(1)
def test_work_grows_as_the_runs_do_and_is_done_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of 8 DAGs on 10 log directories, with their RUNs: what was read once is not read again."""
    tomorrow_ms = clock.now_ms() + DAY_MS
    monkeypatch.setattr(clock, "now_ms", lambda: tomorrow_ms)  # the folders have settled
    few, many = 40, 400
    runs_of(folder, range(few))
    first = calls(lambda: exposition.generate_latest(registry(lambda: {"": folder})))
    runs_of(folder, range(few, many))
    ours = registry(lambda: {"": folder})
    cold = calls(lambda: exposition.generate_latest(ours))
    assert cold < 2 * many / few * first
    assert calls(lambda: exposition.generate_latest(ours)) < cold / 3


def runs_of(folder: Path, numbers: range) -> None:
    for number in numbers:
        dag, at = f"dag_{number % 8}", AT_MS + number
        kinds = {"damage": {"missing-index": number}}
        seen = [volume(f"/broker-{n}/data", kinds=kinds) for n in range(10)]
        run = ended(folder, at, dag=dag, run=f"run-{number}")
        undo = change(run, f"{number:064x}", {"/broker-1/data": 64}, None)
        write(run / "spark_default" / f"run-{number:064x}"[:20] / "purge.json", {})
        ended(folder, at, *seen, dag=dag, run=f"run-{number}", undo=[undo])


class Client(TestClient):
    """Asks the app as Airflow mounts it."""

    def metrics(self, token: str | bytes | None = None, path: str = "/metrics", **more: Any) -> Any:
        headers = {} if token is None else {"Authorization": token}
        return self.request(
            more.pop("method", "GET"), endpoint.PREFIX + path, headers=headers | more
        )


@pytest.fixture
def client(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    ended(folder, AT_MS, volume("/a"))
    monkeypatch.setattr(settings, "FOLDER", str(folder))
    monkeypatch.setattr(settings, "METRICS_TOKEN", TOKEN)
    monkeypatch.setattr(settings, "METRICS_TOKEN_FILE", "")
    yield Client(
        Starlette(
            routes=[Mount(endpoint.PREFIX, endpoint.Metrics(lambda: {"": Path(settings.FOLDER)}))]
        )
    )


def test_with_the_token(client: Client) -> None:
    said = client.metrics(f"Bearer {TOKEN}", accept="application/openmetrics-text; version=1.0.0")
    assert said.status_code == 200
    assert said.headers["content-type"].startswith("application/openmetrics-text")
    assert said.headers["cache-control"] == "no-store"
    assert 'kafkats_volume_bytes{volume="/a"} 4096.0' in said.text
    assert client.metrics(f"bearer  {TOKEN}").headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Bearer é".encode(),
    ],
)
def test_without_it(client: Client, given: str | bytes | None) -> None:
    said = client.metrics(given)
    assert said.status_code == 401
    assert said.headers["www-authenticate"] == 'Bearer realm="kafkats metrics"'
    assert "kafkats_" not in said.text


@pytest.mark.parametrize("given", [None, "Bearer ", f"Bearer {TOKEN}"])
@pytest.mark.parametrize("path", ["/metrics", "/", "", "/docs", "/openapi.json"])
def test_no_token_set_is_no_endpoint(
    client: Client, monkeypatch: pytest.MonkeyPatch, given: str | None, path: str
) -> None:
    monkeypatch.setattr(settings, "METRICS_TOKEN", "  ")
    assert client.metrics(given, path).status_code == 404


@pytest.mark.parametrize("path", ["/", "/docs", "/metrics/..", "/metrics/x", "/metricsx"])
def test_there_is_nothing_else(client: Client, path: str) -> None:
    assert client.metrics(f"Bearer {TOKEN}", path).status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_it_only_reads(client: Client, method: str) -> None:
    assert client.metrics(f"Bearer {TOKEN}", method=method).status_code == 405
    assert client.metrics(method=method).status_code == 401


def test_a_token_in_a_file(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read at each request: a new token needs no restart. Without the file nobody gets in."""
    monkeypatch.setattr(settings, "METRICS_TOKEN_FILE", str(tmp_path / "token"))
    assert client.metrics(f"Bearer {TOKEN}").status_code == 404
    (tmp_path / "token").write_text("first\n")
    assert client.metrics("Bearer first").status_code == 200
    (tmp_path / "token").write_text("second\n")
    assert client.metrics("Bearer first").status_code == 401
    assert client.metrics("Bearer second").status_code == 200
    for content in (b"", b"\n", b"x" * 5000):
        (tmp_path / "token").write_bytes(content)
        assert client.metrics("Bearer ").status_code == 404


def test_what_is_no_file_holds_no_token(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe would hold the thread of the request for ever."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero", f"{tmp_path}/a\0b"):
        monkeypatch.setattr(settings, "METRICS_TOKEN_FILE", str(path))
        assert client.metrics("Bearer ").status_code == 404


@pytest.mark.slow(2)
def test_it_is_registered_and_loads_little() -> None:
    """Every component of Airflow loads plugins."""
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from airflow.plugins_manager import _get_plugins\n"
        "plugins, errors = _get_plugins()\n"
        "ours = [one for one in plugins if one.name == 'kafkats']\n"
        "print(len(ours), errors, {'dag_set', 'volumes', 'kafkats_plugin'} & {*sys.modules})\n"
        "print([one['url_prefix'] for one in ours[0].fastapi_apps])\n"
        "print(sorted({'prometheus_client', 'pyarrow', 'kafkats_airflow.metrics.families'}"
        " & {*sys.modules}))\n"
    )
    paths = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines()[-3:] == [
        "1 {} set()",  # once, and no file under its bare name
        "['/kafkats', '/kafkats-metrics']",
        "[]",
    ]


@pytest.fixture
def file(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "collected" / "kafkats.prom"
    path.parent.mkdir()
    ended(folder, AT_MS, volume("/a"))
    monkeypatch.setattr(settings, "FOLDER", str(folder))
    monkeypatch.setattr(settings, "METRICS_FILE", str(path))
    return path


def test_the_text_file(file: Path, folder: Path) -> None:
    text_file.refresh(folder)
    lines = file.read_text().splitlines()
    assert 'kafkats_volume_bytes{volume="/a"} 4096.0' in lines
    values = [line for line in lines if not line.startswith("#")]
    # a collector skips a file whose samples have timestamps
    assert all(re.fullmatch(r"kafkats_\w+(\{.*\})? \S+", line) for line in values)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert os.listdir(file.parent) == [file.name]


def test_the_text_file_is_replaced_in_one_step(
    file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure leaves the old file, and fails no run."""
    text_file.refresh(folder)
    before = file.read_text()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    ended(folder, AT_MS + 1, volume("/b"))
    monkeypatch.setattr(os, "rename", full)
    monkeypatch.setattr(os, "replace", full)
    text_file.refresh(folder)
    assert file.read_text() == before


def test_another_set_has_a_file_of_its_own(file: Path, tmp_path: Path) -> None:
    ended(tmp_path / "west", AT_MS, volume("/b"))
    text_file.refresh(tmp_path / "west", "west")
    assert os.listdir(file.parent) == ["kafkats-west.prom"]
    text = (file.parent / "kafkats-west.prom").read_text()
    assert 'kafkats_volume_bytes{set="west",volume="/b"} 4096.0' in text


def test_runs_elsewhere_do_not_write_it(file: Path, tmp_path: Path) -> None:
    text_file.refresh(tmp_path)
    assert not file.exists()


def test_by_hand(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert text_file.main() == 0
    assert "kafkats_volume_bytes" in file.read_text()
    monkeypatch.setattr(settings, "METRICS_FILE", str(file.parent / "none" / "x.prom"))
    assert text_file.main() == 2
    monkeypatch.setattr(settings, "METRICS_FILE", "")
    assert text_file.main() == 2
