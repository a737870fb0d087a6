"""docs/policy.md and docs/policy.schema.json: made from the models, and true of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kafkats.config.policy import Policy, PolicyFile
from kafkats.config.reading import read_policy
from kafkats.config.settings import ALIASES, KEYS, OTHER_KEYS, STRONGER, TopicSettings

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs" / "policy.schema.json"
PAGE = (ROOT / "docs" / "policy.md").read_text()
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
NAMES = [*KEYS.values(), *ALIASES, *STRONGER]


def test_page_and_schema_are_what_the_models_say() -> None:
    subprocess.run([sys.executable, str(ROOT / "tools" / "policy_page.py"), "--check"], check=True)


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(VALIDATOR.schema)
    assert set(VALIDATOR.schema["properties"]) == set(PolicyFile.model_fields)
    assert set(VALIDATOR.schema["$defs"]["TopicSettings"]["properties"]) == set(NAMES)
    assert not OTHER_KEYS & set(NAMES)


def test_the_page_names_every_key_of_the_file() -> None:
    for name in [*NAMES, *PolicyFile.model_fields]:
        assert f"`{name}`" in PAGE, name


def test_the_examples_are_valid(tmp_path: Path) -> None:
    assert EXAMPLES
    for number, text in enumerate(EXAMPLES):
        path = tmp_path / f"{number}.yaml"
        path.write_text(text)
        read_policy(path)
    program = Path(sys.executable).parent / "check-jsonschema"
    files = sorted(str(path) for path in tmp_path.iterdir())
    subprocess.run(
        [str(program), "--schemafile", str(SCHEMA), *files], check=True, capture_output=True
    )


def test_the_example_does_what_its_comments_say(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(EXAMPLES[0])
    found = read_policy(tmp_path / "policy.yaml")
    assert found.why_kept("orders-eu") == ""
    assert found.limits("orders-eu") == (86_400_000, 107_374_182_400)
    assert (found.why_kept("clicks-web"), found.limits("clicks-web")) == ("", (604_800_000, -1))
    assert found.settings("payments-1").kafkats_legal_hold
    assert "counts where a glob under topics names it" in found.why_kept("other")
    assert found.guard.max_bytes == 2 * 2**40


@pytest.mark.parametrize(
    "text",
    [
        "volume: []",
        "defaults: {retention.ms: 7d}",
        "defaults: {retention.ms: -2}",
        "defaults: {log.retention.ms: 0}",
        "defaults: {log.roll.hours: 0}",
        "defaults: {cleanup.policy: remove}",
        "defaults: {kafkats.keep.segments: 0}",
        "defaults: {min.insync.replicas: 2}",
        "topics: {a b: {}}",
        "volumes: [{broker: a}]",
        "guard: {max.share: 2}",
        "exported: {}",
    ],
)
def test_the_schema_refuses_what_is_wrong(text: str) -> None:
    assert not VALIDATOR.is_valid(yaml.safe_load(text))


VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 20)
    | st.integers()
    | st.floats(allow_nan=False).filter(lambda number: number % 1 != 0)  # in JSON 1.0 is an integer
    | st.sampled_from(["delete", "compact", "delete,compact", "", "CreateTime", "mtime", "none", "1GiB", "5 MB", "0.10.2", "2.8", "x", "lz4"])
    | st.lists(st.sampled_from(["delete", "compact", "x"]), max_size=2)
)  # fmt: skip


@given(given_=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=2))
def test_what_the_schema_takes_is_taken(given_: dict[str, Any]) -> None:
    if VALIDATOR.is_valid({"topics": {"a": given_}}):
        assert Policy.model_validate({"topics": {"a": given_}}).topics[
            "a"
        ] == TopicSettings.model_validate(given_)
