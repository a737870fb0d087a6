"""Add the pages of `kafkats help` to the wheel, and fail its build if a package is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackagesAreThere(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the pages. Raises FileNotFoundError that names the packages of `[tool.hatch.build.targets.wheel]` that are not there."""
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
        for page in Path(self.root, "docs").glob("*.md"):
            build_data["force_include"][str(page)] = f"kafkats/docs/{page.name}"
