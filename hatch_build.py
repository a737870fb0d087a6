"""Fails the wheel's build when a package is missing: hatchling itself leaves it out without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackagesAreThere(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises FileNotFoundError that names the packages of `[tool.hatch.build.targets.wheel]` that are not there."""
        missing = [
            name
            for name in self.build_config.packages
            if not Path(self.root, name, "__init__.py").is_file()
        ]
        if missing:
            raise FileNotFoundError(
                f"{self.root} lacks {' and '.join(missing)}: the wheel would be built without; "
                "copy them beside pyproject.toml"
            )
