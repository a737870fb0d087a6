"""Full file systems."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.campaign.corpus import Root
from tests.campaign.faults.scenes import Scene


def filled(scene: Scene, roots: dict[str, Root], parent: Path, args: argparse.Namespace, report: object) -> None:
    return None
