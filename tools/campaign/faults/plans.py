"""Tampered plans: a value changed and the plan sealed again, or a byte of the folder changed, and then applied.

The digest of a plan sealed again is right: it says that somebody approved it, not that a plan of ours is what he
approved. Held: an error of ours or success; nothing outside the volume changes; what it did change in the log
directory, undo takes back to the last byte.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa

from kafkats.plans.plan import ITEMS, Plan, digest_of, read_plan, write_plan
from tools.campaign.corpus import Root
from tools.campaign.faults.scenes import Content, Scene, content
from tools.campaign.faults.trial import Report, Trial, trial

SAMPLE: Final = 25
FULL: Final = 200
_NUMBERS: Final = (0, 1, -1, 2**31 - 1, 2**63 - 1, -(2**63), 12, 4096)
_TEXTS: Final = (
    "",
    "..",
    ".",
    "../../outside",
    "/etc",
    "a\0b",
    "x" * 300,
    "other-0",
    "meta.properties",
    "../kafka",
)
_JSON: Final = (None, True, [], {}, 1.5, -1, "", 2**70, float("inf"))


def tampered(
    scene: Scene, roots: Mapping[str, Root], parent: Path, args: argparse.Namespace, report: Report
) -> None:
    """Try some changed plans of the scene, each on a volume of its own."""
    for number in range(FULL if args.full else SAMPLE):
        rng = Random(f"{args.seed}/plans/{scene.name}/{number}")
        with trial(scene, roots, parent) as one:
            outside = _outside(one)
            what = rng.choice((_item, _item, _item, _header, _row_twice, _bytes))(rng, one)
            report.counts[f"{scene.name}, apply: tampered plans"] += 1
            ended = one.do("apply", apart=True)
            name = f"{scene.name} tampered plan {args.seed}/{number} ({what})"
            fine = ended.code in (0, 1, 2, 3) and "Traceback" not in ended.text
            report.hold(fine, name, ended)
            report.hold(
                _outside(one) == outside, f"{name}: a file outside the log directory changed", ended
            )
            if content(one.log_dir) != one.before:
                back = one.do("undo")
                report.hold(
                    content(one.log_dir) == one.before, f"{name}: undo does not bring back", back
                )


def _outside(one: Trial) -> Content:
    """Files that no apply may touch: a folder beside the volume, and one beside the log directory."""
    for place in (one.folder / "outside", one.volume / "other-0"):
        if not place.exists():
            place.mkdir()
            (place / "00000000000000000000.log").write_bytes(b"a log of somebody else")
            (place / "00000000000000000000.timeindex").write_bytes(b"an index of somebody else")
    return content(one.folder / "outside") | {
        f"other/{k}": v for k, v in content(one.volume / "other-0").items()
    }


def _item(rng: Random, one: Trial) -> str:
    plan = read_plan(one.plan)
    rows = plan.items.to_pylist()
    row = rng.choice(rows)
    name = rng.choice(ITEMS.names)
    old = row[name]
    if isinstance(old, dict):
        inner = rng.choice(sorted(old))
        row[name] = old | {inner: rng.choice(_NUMBERS)}
        if rng.random() < 0.2:
            row[name] = None
    elif isinstance(old, int):
        row[name] = rng.choice((*_NUMBERS, old + 1, old - 1))
    elif isinstance(old, str):
        same = [other[name] for other in rows if other[name] != old]
        row[name] = rng.choice((
            *_TEXTS,
            *same,
            rng.choice(("add", "replace", "remove", "update", "blocked")),
        ))
    else:
        row[name] = {field.name: rng.choice(_NUMBERS) for field in ITEMS.field(name).type}
    _seal(one, plan.header, rows)
    return f"{name}: {old!r} became {row[name]!r}"


def _header(rng: Random, one: Trial) -> str:
    plan = read_plan(one.plan)
    header = json.loads(json.dumps(plan.header))
    part = rng.choice(("options", "totals", ""))
    place = header[part] if part else header
    key = rng.choice(sorted(place))
    place[key] = rng.choice((*_JSON, *_TEXTS, "migrate", "retain", "roll", "split", "rebuild"))
    _seal(one, header, plan.items.to_pylist())
    return f"{part} {key} became {place[key]!r}"


def _row_twice(rng: Random, one: Trial) -> str:
    plan = read_plan(one.plan)
    rows = plan.items.to_pylist()
    chosen = rng.randrange(len(rows))
    if rng.random() < 0.5:
        rows.insert(chosen, dict(rows[chosen]))
        what = "twice"
    else:
        del rows[chosen]
        what = "missing"
    _seal(one, plan.header, rows)
    return f"row {chosen} {what}"


def _bytes(rng: Random, one: Trial) -> str:
    path = one.plan / rng.choice(("plan.json", "items.parquet"))
    data = bytearray(path.read_bytes())
    at = rng.randrange(len(data))
    if rng.random() < 0.3:
        del data[at:]
    else:
        data[at] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return f"{path.name} at byte {at}"


def _seal(one: Trial, header: Mapping[str, Any], rows: list[dict[str, Any]]) -> None:
    items = pa.Table.from_pylist(rows, schema=ITEMS)
    write_plan(Plan(header, items, digest_of(header, items)), one.plan)
