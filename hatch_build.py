"""Add the pages of `kafkats help` to the wheel, and fail its build if they or a package are missing.

With KAFKATS_KERNELS=PATH, a library of `python -m tools.kernels_library`, the wheel is one of this platform.
"""

from __future__ import annotations

import os
import platform
import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PackagesAreThere(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the pages and the library. Raises FileNotFoundError that names the packages of `[tool.hatch.build.targets.wheel]`
        or the pages that are not there, and ValueError for a library of other sources.
        """
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
        pages = list(Path(self.root, "docs").glob("*.md"))
        if not pages:
            raise FileNotFoundError(f"{self.root} lacks docs/*.md, the pages of `kafkats help`")
        for page in pages:
            build_data["force_include"][str(page)] = f"kafkats/docs/{page.name}"
        library = os.environ.get("KAFKATS_KERNELS")
        if library and library != "compiled" and version != "editable":
            self._add(Path(library), build_data)

    def _add(self, library: Path, build_data: dict[str, Any]) -> None:
        kernels = Path(self.root, "kafkats", "kernels")
        digest = runpy.run_path(str(kernels / "digest.py"))["source_digest"](kernels)
        if library.name != f"kernels-{digest}.so" or not library.is_file():
            raise ValueError(f"{library} has no kernels of this source: kernels-{digest}.so")
        build_data["force_include"][str(library)] = f"kafkats/kernels/{library.name}"
        build_data["pure_python"] = False
        # It needs `memcpy` of the C library, and nothing of this Python.
        build_data["tag"] = f"py3-none-manylinux_2_17_{platform.machine()}"
