"""Real brokers' directories for a whole Airflow, a set of its own for each DAG that writes, so that none waits for another."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from tests.golden import case, retention_policy

DAMAGED: Final = (
    "none-ct-0/00000000000000000043.timeindex",
    "zstd-lat-0/00000000000000000000.timeindex",
)
"""Files of `rebuild` that are taken away: there is something to ask about."""
CASES: Final = {
    "rebuild": ("matrix-4.3.1-v2", "data"),
    "retention": ("retention-4.3.1", "before"),
    "formats": ("matrix-0.10.2.2-v1", "data"),
}


class Volumes:
    """`place`/NAME/data for each of CASES; `policy(NAME)` names that one, `policy()` all of them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.roots = {name: self.unpack(name) for name in CASES}
        self.folder = place / "runs"
        self.environment = {
            "KAFKATS_POLICY": str(self.policy()),
            "KAFKATS_FOLDER": str(self.folder),
        }

    def unpack(self, name: str, into: str = "") -> Path:
        """A copy of the case, in a folder of its own."""
        folder, state = CASES[name]
        root = self.place / (into or name) / "data"
        root.mkdir(parents=True)
        case(folder).unpack(state, root)
        if name == "rebuild":
            for path in DAMAGED:
                (root / path).unlink()
        return root

    def policy(self, *names: str, **more: Any) -> Path:
        """A policy file of these volumes; their brokers are stopped."""
        volumes = [
            {"broker": f"broker-{name}", "path": str(self.roots[name]), "owner_stopped": True}
            for name in names or self.roots
        ]
        path = self.place / f"policy-{'-'.join(names) or 'all'}.yaml"
        path.write_text(
            yaml.safe_dump({"volumes": volumes} | retention_policy(case("retention-4.3.1")) | more)
        )
        return path
