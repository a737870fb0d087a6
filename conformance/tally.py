"""What was compared with whom, and what differed."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

SHOWN = 10
"""Differences of one check that are printed."""


@dataclass
class Tally:
    """Counts per check, version and case; a check that compared nothing is itself a difference."""

    console: Console
    compared: dict[tuple[str, str], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    differences: list[str] = field(default_factory=list)

    def same(
        self, check: str, version: str, case: str, what: str, ours: object, theirs: object
    ) -> bool:
        """Count one comparison, and remember it when the two differ."""
        self.compared[check, version][case] += 1
        if ours != theirs:
            self.differs(f"{check}, Kafka {version}, {what}: ours {ours}, Kafka's {theirs}")
        return ours == theirs

    def differs(self, text: str) -> None:
        self.differences.append(text)
        check = text.partition(",")[0]
        alike = sum(1 for other in self.differences if other.startswith(check))
        if alike <= SHOWN:
            self._say(f"DIFFERENT  {text}")
        elif alike == SHOWN + 1:
            self._say(f"(more differences in {check!r} are only counted)")

    def add(self, compared: dict[tuple[str, str], Counter[str]], differences: list[str]) -> None:
        """Take over what another tally counted."""
        for key, counter in compared.items():
            self.compared[key] += counter
        for text in differences:
            self.differs(text)

    def _say(self, text: str) -> None:
        self.console.print(text, style="red", markup=False, highlight=False, soft_wrap=True)

    def expect(self, check: str, version: str, at_least: int = 1) -> None:
        """A check that has nothing to compare cannot say no."""
        counted = self.compared[check, version].total()
        if counted < at_least:
            self.differs(
                f"{check}, Kafka {version}: only {counted} compared, {at_least} or more expected"
            )

    def expect_any(self, check: str, at_least: int) -> None:
        """The same over all versions of the check."""
        counted = sum(
            counter.total() for (name, _), counter in self.compared.items() if name == check
        )
        if counted < at_least:
            self.differs(f"{check}: only {counted} compared, {at_least} or more expected")

    def show(self) -> None:
        """Comparisons per case in numbered columns, then what the numbers stand for."""
        counters = list(self.compared.values())
        table = Table(
            title="compared per case",
            title_justify="left",
            title_style="bold",
            box=None,
            pad_edge=False,
        )
        table.add_column("case", no_wrap=True)
        for number, _ in enumerate(counters, 1):
            table.add_column(f"({number})", justify="right")
        for case in sorted(set().union(*counters)):
            table.add_row(
                case, *(f"{counter[case]:,}" if counter[case] else "-" for counter in counters)
            )
        self.console.print(table)
        table = Table(
            title="what was compared",
            title_justify="left",
            title_style="bold",
            box=None,
            pad_edge=False,
        )
        for column in ("", "check", "Kafka", "cases", "compared"):
            table.add_column(column, justify="right" if column in ("cases", "compared") else "left")
        for number, ((check, version), counter) in enumerate(self.compared.items(), 1):
            table.add_row(f"({number})", check, version, str(len(counter)), f"{counter.total():,}")
        self.console.print(table)
