"""Makes the pictures of docs/ui.md: the pages over golden directories, in Chromium.

python -m tools.ui_pictures [NAME ...]      # all pictures, or those with these names
"""

from __future__ import annotations

import signal
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

from tests.browser.forms import chromium
from tests.golden import Unpacked
from tests.ui.golden_runs import REBUILT, RETAINED, write_plotted
from tests.ui.harness import served
from tests.ui.looking import looking
from tests.ui.story import Story, pages_of

ROOT = Path(__file__).parents[1]
COLOURS = 256
TALL = 1060
"""The height of pages with plots, in pixels: their legends and the first rows are seen."""
PICTURES = {"index-health": f"health?{REBUILT}", "retention": f"run-retention?{RETAINED}"}
"""Name of a picture -> page, besides those of the story and of `write_plotted`."""
SHOWN = "/kafka"
"""The pictures show this in the place of the temporary folder."""
RENAME = """([folder, shown]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(folder, shown);
}"""


def main(names: list[str]) -> None:
    """Write docs/ui/*.png, each page light and dark."""
    into = ROOT / "docs" / "ui"
    into.mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder is removed then, too
    with tempfile.TemporaryDirectory(prefix="kafka-") as scratch, chromium() as browser:
        place, folder, policy = Path(scratch), Path(scratch, "runs"), Path(scratch, "policy.yaml")
        story = Story(folder, place, time.time_ns() // 1_000_000)
        story.write(policy)
        with served(folder, policy) as site:
            make(browser, site, place, pages_of(story), into, names)
            # Volumes and Runs are about the story only
            plotted = write_plotted(folder, Unpacked(place), place)
            make(browser, site, place, PICTURES | plotted, into, names, TALL)


def make(
    browser: Browser,
    site: str,
    place: Path,
    pages: dict[str, str],
    into: Path,
    names: list[str],
    high: int = 800,
) -> None:
    """Make the pictures of these pages ({name: address}) that are asked for."""
    for name, path in pages.items():
        for theme in ("light", "dark") if not names or name in names else ():
            picture = into / f"{name}-{theme}.png"
            with looking(browser, theme) as seen:
                seen.open(f"{site}/{path}")
                seen.page.evaluate(RENAME, [str(place), SHOWN])
                seen.picture(picture, high)
            shrink(picture)


def shrink(path: Path) -> None:
    """Reduce a picture to its most frequent colours, which keeps the repository small.

    Marks of states are few pixels: a strong colour counts for more than a shade of grey.
    """
    with Image.open(path) as picture:
        full = picture.convert("RGB")
    counted = full.getcolors(full.width * full.height) or []
    known = sorted(counted, key=lambda one: one[0] * (1 + max(one[1]) - min(one[1])), reverse=True)
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in known[:COLOURS] for part in colour])
    full.quantize(palette=palette, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
