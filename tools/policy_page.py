"""Makes docs/policy.schema.json and the tables of docs/policy.md from the models of kafkats/config. With --check only compares.

python tools/policy_page.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final

from pages import write_or_compare

from kafkats.config.policy import PolicyFile
from kafkats.config.settings import ALIASES, STRONGER, TopicSettings
from kafkats.config.settings_read import NOWHERE

DOCS = Path(__file__).parents[1] / "docs"
SCHEMA = DOCS / "policy.schema.json"
PAGE = DOCS / "policy.md"
BEGIN, END = "<!-- begin: made by tools/policy_page.py -->\n", "<!-- end -->\n"

DEFAULTS: Final = {
    "cleanup.policy": "delete; retention needs it given",
    "retention.ms": "604800000 (7 days); retention needs it given",
    "retention.bytes": "-1; retention needs it given",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000 (7 days)",
    "segment.jitter.ms": "0",
    "segment.index.bytes": "10485760; kafkats infers it from the files",
    "index.interval.bytes": "4096; kafkats infers it from the files",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "9223372036854775807 to 3.9, 3600000 from 4.0",
    "message.timestamp.difference.max.ms": "9223372036854775807",
    "file.delete.delay.ms": "60000",
    "delete.retention.ms": "86400000",
    "max.compaction.lag.ms": "9223372036854775807",
    "remote.storage.enable": "false",
    "message.format.version": "the broker's release; always magic 2 from 3.0 on",
    "compression.type": "producer",
    "kafkats.legal.hold": "false",
    "kafkats.guard.max.share": "none",
    "kafkats.guard.max.bytes": "none",
    "kafkats.implausible.timestamps": "report",
    "kafkats.keep.segments": "1",
}
"""What holds where a key is not given, in words: Kafka's own defaults (LogConfig, 0.10.2 to 4.3), and ours."""


def schema() -> str:
    """The JSON Schema of a policy file."""
    made = PolicyFile.model_json_schema(by_alias=True)
    kinds = {"policy file": made, **made.pop("$defs")}
    for name, kind in kinds.items():
        kind["title"] = name
        kind["properties"] = {key: _plain(value) for key, value in kind["properties"].items()}
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **kinds.pop("policy file"),
        "$defs": kinds,
    }
    return json.dumps(head, indent=1) + "\n"


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that pydantic makes of names, and without defaults that say nothing."""
    empty = field.get("default") in (None, [], {}, "") or isinstance(field.get("default"), dict)
    return {
        key: value
        for key, value in field.items()
        if key != "title" and not (key == "default" and empty)
    }


def tables() -> str:
    """Every key, its default, its other names."""
    rows = {name: field for name, field in TopicSettings.model_fields.items()}
    kafka = [row(name) for name in rows if not name.startswith("kafkats_")]
    ours = [row(name) for name in rows if name.startswith("kafkats_")]
    return "\n".join([
        "| Kafka's topic key | default | other names, strongest first | what it does |", "|---|---|---|---|", *kafka, "",
        "| key of kafkats | default | what it does |", "|---|---|---|", *ours, "",
    ])  # fmt: skip


def row(name: str) -> str:
    field = TopicSettings.model_fields[name]
    stronger = [f"`{n}`" for n, alias in STRONGER.items() if alias.key == field.alias]
    weaker = [f"`{n}`" for n, alias in reversed(ALIASES.items()) if alias.key == field.alias]
    cells = [f"`{field.alias}`", DEFAULTS[str(field.alias)]]
    if not name.startswith("kafkats_"):
        cells.append(", ".join([*(f"{n} (before the key itself)" for n in stronger), *weaker]))
    unread = " *Accepted, but read by no operation.*" if field.alias in NOWHERE else ""
    earlier = f" Earlier name: {', '.join(weaker)}." if weaker and len(cells) == 2 else ""
    return f"| {' | '.join([*cells, f'{field.description}{earlier}{unread}'])} |"


def page(text: str) -> str:
    """Return the page with its tables regenerated from the models."""
    return re.sub(
        f"{BEGIN}.*?{END}", lambda _: f"{BEGIN}\n{tables()}\n{END}", text, flags=re.DOTALL
    )


def main() -> int:
    return write_or_compare(
        {SCHEMA: schema(), PAGE: page(PAGE.read_text(encoding="utf-8"))},
        "docs/{stale} are not what kafkats/config says: run tools/policy_page.py",
    )


if __name__ == "__main__":
    sys.exit(main())
