"""Tampered plans: a value of a plan changed, sealed again with the right digest, and applied."""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random

from tests.campaign.corpus import Root
from tests.campaign.faults.scenes import Scene


def tampered(scene: Scene, roots: dict[str, Root], parent: Path, args: argparse.Namespace, report: object) -> None:
    return None
