"""Makes the pictures of docs/ui.md: the pages over golden directories, in Chromium.

python -m docs.ui_pictures [NAME ...]      # all pictures, or those with these names
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from tests.browser.forms import chromium
from tests.ui.golden_runs import REBUILT, RETAINED, ROLLED, write_rolling
from tests.ui.harness import served
from tests.ui.looking import looking
from tests.ui.story import Story, pages_of

ROOT = Path(__file__).parents[1]
PLACE = Path(tempfile.gettempdir(), "kafka")
"""The log directories: pictures show this path. It must not exist."""
COLOURS = 256
PICTURES = {
    "index-health": f"health?{REBUILT}",
    "retention": f"retention?{RETAINED}",
    "rolling": f"run-rolling?{ROLLED}",
}
"""Name of a picture -> page, besides those of the story."""


def main(names: list[str]) -> None:
    """Write docs/ui/*.png, each page light and dark."""
    into = ROOT / "docs" / "ui"
    into.mkdir(exist_ok=True)
    PLACE.mkdir()
    try:
        with tempfile.TemporaryDirectory() as scratch, chromium() as browser:
            folder, policy = Path(scratch, "runs"), Path(scratch, "policy.yaml")
            story = Story(folder, PLACE, time.time_ns() // 1_000_000)
            story.write(policy)
            write_rolling(folder, Path(scratch, "rolled"))
            with served(folder, policy) as site:
                for theme in ("light", "dark"):
                    for name, path in (pages_of(story) | PICTURES).items():
                        if not names or name in names:
                            with looking(browser, theme) as seen:
                                seen.open(f"{site}/{path}")
                                seen.picture(into / f"{name}-{theme}.png")
                            shrink(into / f"{name}-{theme}.png")
    finally:
        shutil.rmtree(PLACE)


def shrink(path: Path) -> None:
    """Give a picture a palette of its most frequent colours: the repository stays small."""
    with Image.open(path) as picture:
        full = picture.convert("RGB")
    known = sorted(full.getcolors(full.width * full.height) or [], reverse=True)
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in known[:COLOURS] for part in colour])
    full.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
