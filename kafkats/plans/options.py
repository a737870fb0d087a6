"""The options of plans, runs and reservations (see kafkats.config.option)."""

from __future__ import annotations

from pathlib import Path

from kafkats.config.option import Duration, Option, Options, Time
from kafkats.errors import UsageError
from kafkats.text import Flag


class PlanFolder(Options):
    """Options for the folders of a plan and of its report."""

    output: Path | None = Option(
        "The plan's folder",
        "-o --output",
        "PLAN",
        writes=True,
    ).default(None)
    into: Path | None = Option(
        "Instead of -o: write the plan into plan-DIGEST in this folder",
        "--into",
        "FOLDER",
        writes=True,
    ).default(None)
    report: Path | None = Option(
        "Also write a row per segment into this folder", "--report", "FOLDER", writes=True
    ).default(None)
    go_on: bool = Option("Exit with 0 although the plan has blocked rows", "--go-on").default(False)

    def named(self) -> Path:
        """Return the folder for the plan. Raises UsageError unless it is one of the two."""
        folder = self.output or self.into
        if folder is None or (self.output and self.into):
            raise UsageError(
                "name the plan's folder with -o, or with ", Flag("--into"), " a folder for it"
            )
        return folder


class Reserve(Options):
    """Options that reserve the log directories of a plan."""

    reserve: bool = Option(
        "Reserve LOG_DIR until the plan is applied or the reservation ends: nobody else can"
        " plan with --reserve or apply there",
        "--reserve",
    ).default(False)
    holder: str | None = Option(
        "Reserve LOG_DIR in the name of WHO; give the same name to apply --holder",
        "--holder",
        "WHO",
        unset="the plan's folder",
    ).default(None)
    reserve_for: Duration | None = Option(
        "How long the reservation lasts", "--reserve-for", unset="24h"
    ).default(None)
    reserve_until: int | None = Option(
        "When the reservation ends, instead of --reserve-for", "--reserve-until", "EPOCH_MS"
    ).default(None)
    skip_reserved: bool = Option(
        "Leave out what others have reserved, instead of refusing", "--skip-reserved"
    ).default(False)
    take_over: tuple[str, ...] = Option(
        "Ignore the reservation of WHO, whose run is over", "--take-over", "WHO"
    ).default(())


class Holder(Options):
    """The holder of the reservation that a run uses."""

    holder: str = Option(
        "Use the reservation that WHO made",
        "--holder",
        "WHO",
        unset="that of the plan or run",
    ).default("")


class Release(Options):
    """Options of `release`."""

    holder: str | None = Option(
        "Break only reservations of WHO", "--holder", "WHO", unset="of any holder"
    ).default(None)


class Approval(Options):
    """The record of who approved."""

    approval: Path | None = Option(
        "The approver's recorded answer; refuse a plan or run whose digest it does not approve",
        "--approval",
        "FILE",
    ).default(None)


class Apply(Options):
    """Options of `apply`."""

    digest: str | None = Option(
        "The digest that was approved; 8 digits are enough. any: skip the check, for"
        " throw-away copies",
        "--digest",
        "DIGEST",
    ).default(None)
    run_folder: Path | None = Option(
        "The run's folder", "--run", "RUN", unset="PLAN.run", writes=True
    ).default(None)
    prove: bool | None = Option(
        "Read every written file again at the end",
        "--prove/--no-proof",
        unset="--prove, but in a Spark job --no-proof",
    ).default(None)


class Purge(Options):
    """Options of `purge`."""

    abandon: bool = Option(
        "Also purge an interrupted run: its files stay as they are now", "--abandon"
    ).default(False)
    older_than: Duration | None = Option(
        "Purge only runs that ended at least this long ago", "--older-than", unset="all of them"
    ).default(None)
    now: Time | None = Option(
        "With --older-than: the current time", "--now", unset="the clock's"
    ).default(None)


class User(Options):
    """The option that names the user."""

    by: str = Option(
        "The person whom the ledger of a migration names",
        "--by",
        "WHO",
        unset="the user who runs this",
    ).default("")
