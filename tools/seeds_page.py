"""Makes model/docs/seeds.md from model/docs/seeds/*.toml. With --check only compares.

python tools/seeds_page.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from pages import write_or_compare
from seeds_table import LISTED, Document, Item, read_documents

PAGE = Path(__file__).parents[1] / "model" / "docs" / "seeds.md"
HEAD = """\
# The documents' behaviours

For developers: what five documents say of message formats, timestamps and indexes, and where it is
in kafkats. They are
[KIP-31](https://cwiki.apache.org/confluence/display/KAFKA/KIP-31+-+Move+to+relative+offsets+in+compressed+message+sets),
[KIP-32](https://cwiki.apache.org/confluence/display/KAFKA/KIP-32+-+Add+timestamps+to+Kafka+message),
[KIP-33](https://cwiki.apache.org/confluence/display/KAFKA/KIP-33+-+Add+a+time+based+log+index),
[KIP-228](https://cwiki.apache.org/confluence/display/KAFKA/KIP-228+Negative+record+timestamp+support)
and the proposal "Enriched Message Metadata". A row is one behaviour, rule, scenario or estimate. This page is made by
`tools/seeds_page.py` from `model/docs/seeds/`: change a file there, then run `scripts/lint --fix`.

A row of the state *command* has a test. The test runs the command and compares its answer with the
value that the document states. It fails when the rule is inverted: `scripts/mutations` inverts each
rule in a copy of the tree, and runs the tests of its rows.

Three other states have few rows:

{listed}

*client API*: Kafka's client does it. A real client shows it against a real broker, in
`scripts/conformance`. *rejected by the document*: the document describes it and decides against it.
It is compared with what was chosen, and not shipped. [seeds-estimates.md](seeds-estimates.md) has
these comparisons, and the documents' numbers beside computed and measured ones. *absent*: nothing
here does it; the row says why.
"""


def page() -> str:
    """Return the whole page."""
    listed = "\n".join(f"* *{state}*: {', '.join(sorted(ids))}" for state, ids in LISTED.items())
    return "\n".join([HEAD.format(listed=listed), *map(section, read_documents())])


def section(document: Document) -> str:
    """Return one document: its rows, and which are missing."""
    missing = sorted(set(document.ids) - {item.id for item in document.item})
    lines = [f"## {document.document}", ""]
    if document.item:
        lines += [
            "| id | behaviour | state | module | test | command |",
            "|---|---|---|---|---|---|",
        ]
        lines += [row(item) for item in document.item] + [""]
    if missing:
        lines += [f"Not yet in the table: {', '.join(missing)}.", ""]
    return "\n".join(lines)


def row(item: Item) -> str:
    named = (f"`{text}`" if text else "" for text in (item.module, item.test, item.command))
    says = f"{item.says} {item.reason}".strip()
    cells = [item.id, says, item.state, *named]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main() -> int:
    return write_or_compare(
        {PAGE: page()},
        "model/docs/seeds.md is not what model/docs/seeds/ says: run scripts/lint --fix",
    )


if __name__ == "__main__":
    sys.exit(main())
