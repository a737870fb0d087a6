"""What forms suggest from the deployment's policy; no policy breaks the import of a DAG, or holds it up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kafkats_airflow.dag_set import NAMES
from kafkats_airflow.forms import suggestions as module
from kafkats_airflow.forms.boxes import boxes
from kafkats_airflow.forms.catalogue import FORMS
from kafkats_airflow.forms.params import with_known
from kafkats_airflow.forms.suggestions import Suggestions, suggested, suggestions

from tests.browser.volumes import Volumes
from tests.calls import calls

ROOT = Path(__file__).parents[2]
POLICY = """
# volumes of production
volumes:
  - broker: "1"
    path: /kafka/one   # the first
    connection: spark_default
  - {broker: 2, path: /flow/style}
  - path: '/kafka/with space'
defaults:
  retention.ms: 7d
topics:
  orders-*:
    retention.ms: 1d
    cleanup.policy: delete
  "payments":
    retention.ms: 2d
  __consumer_offsets: {cleanup.policy: compact}
guard:
  max.share: 0.5
"""


def test_volumes_and_topics() -> None:
    assert suggested(POLICY) == Suggestions(
        ("1", "/kafka/one", "2", "/flow/style", "/kafka/with space"),
        ("orders-*", "payments", "__consumer_offsets"),
    )


def test_of_a_policy_in_flow_style() -> None:
    readme = '- {broker: "1", path: /var/lib/kafka/data, connection: spark_default}'
    assert suggested(f"volumes:\n{readme}").volumes == ("1", "/var/lib/kafka/data")
    inline = """volumes: [{'path': '/a b', "broker": 2}, {path: "/c"}]
topics: {orders: {retention.ms: 1d, x: y}, "*": {cleanup.policy: delete}, 'other-*': {}}"""
    assert suggested(inline) == Suggestions(("/a b", "2", "/c"), ("orders", "*", "other-*"))


def test_of_a_policy_that_a_program_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 60)  # the machine may be busy
    volumes = Volumes(tmp_path)
    found = suggestions(str(volumes.policy()))
    assert {"broker-rebuild", str(volumes.roots["rebuild"])} <= {*found.volumes}
    assert "time-all" in found.topics


def test_few_short_and_printable() -> None:
    topics = [f"topic-{n}" for n in range(1000)]
    text = "topics:\n" + "".join(f"  {one}:\n    a: b\n" for one in ["x" * 500, *topics, *topics])
    assert suggested(text).topics == tuple(topics[: module.MOST])
    assert suggested("topics:\n  a\x1b[31m:\n  b\u202e:\n").topics == ()


@pytest.mark.parametrize("text", ["", "[", "topics", "topics:", "volumes:\n-", "\0", "a: &a [*a]"])
def test_texts_without_any(text: str) -> None:
    assert suggested(text) == Suggestions()


def missing(path: Path) -> None:
    pass


def folder(path: Path) -> None:
    path.mkdir()


def huge(path: Path) -> None:
    path.write_text("topics:\n" + "  a:\n    retention.ms: 1d\n" * 100_000)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def hangs(path: Path) -> None:
    os.mkfifo(path)


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 100)


def nested(path: Path) -> None:
    """A parser of YAML takes minutes for this."""
    path.write_text("topics: " + "[" * 200_000)


BAD: list[Callable[[Path], None]] = [missing, folder, huge, endless, hangs, binary, nested]


@pytest.mark.parametrize("make", BAD)
def test_a_policy_that_cannot_be_used(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """No parser of YAML is asked, and no more than LARGEST_BYTES are read: /dev/zero has no end."""
    make(tmp_path / "policy.yaml")
    assert suggestions(str(tmp_path / "policy.yaml")) == Suggestions()


def test_work_grows_as_the_text_does() -> None:
    few, many = (
        calls(lambda text=text: suggested(text))
        for text in ("topics:\n" + "  a: [\n" * n for n in (1000, 10_000))
    )
    assert many < 20 * few


IMPORTED = """
import json, sys
from kafkats_airflow.dags import kafkats_dags
from kafkats_airflow.forms import suggestions
suggestions.SECONDS = float(sys.argv[1])
found = kafkats_dags()
shown = {name: len(dag.params) for name, dag in found.items()}
topics = found["apply_retention"].params.get_param("topics").schema
volumes = found["apply_retention"].params.get_param("volumes")
print(json.dumps([shown, topics.get("examples"), volumes.schema.get("examples"), volumes.description]))
"""


@pytest.mark.slow(3)
@pytest.mark.examples(1)
@pytest.mark.parametrize("make", [hangs, nested, lambda path: path.write_text(POLICY)])
def test_every_dag_is_imported(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "policy.yaml")
    paths = os.pathsep.join([str(ROOT / "plugins"), str(ROOT)])
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTED, "1" if make is hangs else "60"],
        env=os.environ | {"PYTHONPATH": paths, "KAFKATS_POLICY": str(tmp_path / "policy.yaml")},
        capture_output=True,
        text=True,
        check=True,
    )
    shown, topics, volumes, description = json.loads(ran.stdout.splitlines()[-1])
    assert sorted(shown) == sorted(NAMES) and all(shown.values())
    assert volumes is None, "a list with examples takes nothing else"
    if (tmp_path / "policy.yaml").is_fifo() or "[[" in (tmp_path / "policy.yaml").read_text():
        assert topics == ["*", "orders-*", "orders-*,payments"], "those of the option itself"
        assert "Known" not in description
    else:
        assert topics == ["*", "orders-*", "payments", "__consumer_offsets"]
        assert description.endswith(
            "Empty: all. Known: 1, /kafka/one, 2, /flow/style, /kafka/with space"
        )


@pytest.mark.parametrize("name", FORMS)
def test_what_is_legal_stays_legal(name: str) -> None:
    """Suggestions change no schema: any glob may be written."""
    known = Suggestions(("/a",), ("orders-*",))
    for param, box in boxes(FORMS[name]).items():
        now = with_known(param, box, known)
        assert (now.schema, now.default) == (box.schema, box.default)
        assert "examples" not in now.labels or "array" not in now.schema["type"]
