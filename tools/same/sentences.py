"""Steps whose printed sentences count, of the start of a broker, and of reservations. See words.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.same.words import HOUR_MS, Step, Times, planned, step

RECOVER: Final[dict[str, tuple[object, ...]]] = {
    "recover": (),
    "recover kafka": ("--like-kafka",),
    "recover first": ("--generation", "first-offset"),
    "recover files": ("--files",),
}
SAID: Final = ("rebuild", "recover", "migrate 1", "retain before", "roll", "split rolled")
"""Plans that are applied and undone once more for the sentences."""


def starts() -> Iterator[Step]:
    """The start of a broker and its repair, and the formats."""
    yield step("census", "census", "@DATA", "--by", "topic", "--json", "-o", "@OUT/census")
    yield step("census said", "census", "@DATA", "--deep")
    yield step("preflight", "preflight", "@DATA", "--kafka", "4.3", "--json", "-o", "@OUT/start")
    for release in ("4.3", "2.8.2", "0.10.2"):
        yield step(f"preflight said {release}", "preflight", "@DATA", "--kafka", release)
    for name, more in RECOVER.items():
        yield planned(name, *more)


def said(times: Times, plans: Iterator[Step]) -> Iterator[Step]:
    """What people read: the same without --json, and every plan as `show` tells it."""
    yield step("verify said", "verify", "@DATA")
    yield step("inventory said", "inventory", "@DATA", "--by", "topic")
    yield step("certify said", "certify", "@DATA", "--min-magic", 2)
    yield step("certify check said", "certify", "--check", "@OUT/certified")
    yield step("lookup said", "lookup", "@DATA", "--at", times.middle, "--at", "latest")
    limits = ("--config", "cleanup.policy=delete", "--config", f"retention.ms={HOUR_MS}")
    yield step("simulate retain said", "simulate", "retain", "@DATA", "--now", times.now, *limits)
    rolling = ("--config", "segment.ms=1000", "--config", "segment.bytes=20000")
    yield step("simulate roll said", "simulate", "roll", "@DATA", "--now", times.now, *rolling)
    for plan in plans:
        if "-o" not in plan.words:
            continue
        yield step(f"show {plan.name}", "show", plan.words[-1])
        if plan.name.removeprefix("plan ") in SAID:
            words = [word for word in plan.words[:-1] if word != "--json"]
            yield step(f"{plan.name} said", *words, plan.words[-1] + "-said")


def reservations() -> Iterator[Step]:
    """Reserve, be refused, leave out, release; each side in a work area of its own."""
    area = ("--work-area", "@OUT/area")
    plan = ("plan", "rebuild", "@DATA", "--all", *area)
    held = ("--reserve", "--holder", "ops", "--reserve-for", "12h")
    yield step("release plan", *plan, *held, "--json", "-o", "@OUT/held")
    yield step("release show", "show", "@OUT/held")
    other = (*plan, "--reserve", "--holder", "others")
    yield step("release refused", *other, "-o", "@OUT/refused")
    yield step("release skipped", *other, "--skip-reserved", "-o", "@OUT/skipped")
    yield step("release kept", "release", "@DATA", *area, "--holder", "others")
    yield step("release", "release", "@DATA", *area, "--json")
    yield step("release free", "release", "@DATA", *area)
    yield step("release plan said", *other, "-o", "@OUT/others")
    yield step("release said", "release", "@DATA", *area, "--holder", "others")


def wrong_starts() -> Iterator[Step]:
    """Words that are refused."""
    yield step("wrong preflight", "preflight", "@DATA")
    yield step("wrong release", "preflight", "@DATA", "--kafka", "new")
    yield step("wrong recover", "plan", "recover", "@DATA/nowhere", "-o", "@OUT/wrong")
    yield step(
        "wrong copies", "plan", "recover", "@DATA", "--copy-readable", "@DATA", "-o", "@OUT/wrong"
    )
    yield step("wrong holder", "release", "@DATA/nowhere")


def jobs() -> Iterator[Step]:
    """The same by spark_jobs."""

    def job(name: str, script: str, *words: object) -> Step:
        return step(f"job {name}", f"@JOBS/{script}.py", *words, job=True)

    area = ("--work-area", "@OUT/area")
    yield job("recover", "plan", "recover", "@DATA", "-o", "@OUT/recover")
    yield job("preflight", "preflight", "@DATA", "--kafka", "4.3", "-o", "@OUT/start")
    held = ("--reserve", "ops", *area)
    yield job("reserve", "plan", "rebuild", "@DATA", "--all", *held, "-o", "@OUT/held")
    yield job("release", "release", "@DATA", *area)
    yield job("release free", "release", "@DATA", *area)
