"""The next commands, after what a verify found and after what a run did."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kafkats.findings import DEFECTS
from kafkats.operations import OPERATIONS
from kafkats.text import MAKE_A_NEW_PLAN

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.plans.plan import Plan
    from kafkats.plans.rows import LocatedFinding

_LACKING: Final = ("missing-records", "gap-not-flushed")
"""Kinds of partitions in which records are missing: no plan changes them unasked."""
_EVIDENCE: Final = (*_LACKING, "end-not-flushed")
"""Kinds of partitions whose indexes are not rebuilt before somebody has seen what is missing."""


def after_verify(
    segments: pa.Table,
    findings: Sequence[LocatedFinding],
    named: Sequence[Path],
    rebuild: Sequence[str],
) -> list[str]:
    """Return the next steps for facts.SEGMENTS and their findings; none without a defect.

    `named` are the paths that were verified, `rebuild` the options with which a plan of a rebuild
    looks at them in the same way. Segments that the next start recovers need a recovery: it cuts
    their logs, and rebuilds their indexes.
    """
    kinds = [one["kind"] for one in findings if one["severity"] in DEFECTS]
    paths = list(map(str, named))
    if "unknown-magic" in kinds:
        return [f"next: {_plan('recover', *paths, '--mend-magic')}"]
    recovering = _recovering(segments, _with(findings, _LACKING))
    cut = [one["log_dir"] for one in findings if one["kind"] == "torn-tail-marked-clean"]
    roots = [_as_named(root, named) for root in dict.fromkeys([*recovering, *cut])]
    steps = [_plan("recover", *roots)] if roots else []
    if _to_rebuild(segments, _with(findings, _EVIDENCE)):
        steps.append(_plan("rebuild", *paths, *rebuild))
    left = dict.fromkeys(kind for kind in kinds if kind not in _LACKING)
    if not steps and left:
        steps.append(f"kafkats help findings, which says what to do about {', '.join(left)}")
    return [
        *(
            f"{root} was not stopped cleanly: its next start recovers such logs"
            for root in recovering
        ),
        *(f"{'then' if n else 'next'}: {step}" for n, step in enumerate(steps)),
    ]


def _plan(operation: str, *words: str) -> str:
    return f"kafkats plan {operation} {shlex.join(words)} -o PLAN"


def _as_named(root: str, named: Sequence[Path]) -> str:
    return next((str(path) for path in named if str(path.absolute()) == root), root)


def _with(findings: Sequence[LocatedFinding], kinds: Sequence[str]) -> set[tuple[str, str]]:
    """Return the partitions that have a finding of one of these kinds."""
    return {(one["log_dir"], one["partition_dir"]) for one in findings if one["kind"] in kinds}


def _recovering(segments: pa.Table, but: set[tuple[str, str]]) -> list[str]:
    """Return the log directories with defects in segments that their next start recovers."""
    import pyarrow.compute as pc

    from kafkats.plans.facts import damaged

    rows = damaged(segments).filter(pc.field("recovery"))
    return list(dict.fromkeys(root for root, name in _places(rows) if (root, name) not in but))


def _to_rebuild(segments: pa.Table, but: set[tuple[str, str]]) -> bool:
    """Return whether a rebuild would write something that no recovery rebuilds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    bad = pa.array(["missing", "defective"])
    wrong = pc.or_(pc.is_in(segments["offset_index"], bad), pc.is_in(segments["time_index"], bad))
    nothing = [pc.equal(pc.fill_null(segments[why], ""), "") for why in ("blocked", "stop")]
    can = pc.and_(*nothing)  # a corrupt log's indexes are not rebuilt unasked
    later = pc.fill_null(segments["recovery"], False)
    rows = segments.filter(pc.and_(pc.and_(wrong, can), pc.invert(later)))
    return any(place not in but for place in _places(rows))


def _places(rows: pa.Table) -> Iterator[tuple[str, str]]:
    return zip(rows["log_dir"].to_pylist(), rows["partition_dir"].to_pylist(), strict=True)


def after_run(made: Plan, run: Path, plan: Path, summary: Mapping[str, Any]) -> list[str]:
    """Return the steps after an apply of a plan, in the order in which they make sense.

    `summary` is that of the apply. An error that asks for a new plan is not mended by the same one.
    """
    wrote = summary["outcomes"].keys() & {"done", "already"}
    undo = f"kafkats undo {shlex.quote(str(run))} takes it back"
    if errors := summary["errors"]:
        again = f"kafkats apply {shlex.quote(str(plan))} --digest {made.digest[:12]}"
        new = any(MAKE_A_NEW_PLAN in error for error in errors)
        first = (
            f"{MAKE_A_NEW_PLAN} for what was refused" if new else f"mend the cause, then {again}"
        )
        return [f"next: {first}", *([f"or: {undo}"] if wrote else [])]
    if not wrote:
        return []
    if summary.get("proof", {}).get("not_equal"):
        return [f"next: {undo}; do not purge it"]
    purge = f"kafkats purge {shlex.quote(str(run))} frees the old bytes"
    operation = OPERATIONS.get(made.operation)
    if operation is None or not operation.recovers:
        return [f"next: {undo}; {purge}"]
    log_dirs = shlex.join(dict.fromkeys(made.items["log_dir"].to_pylist()))
    blocked = "next: restore the blocked partitions from a replica, or copy their directories"
    return [
        *[blocked] * bool(made.blocked),
        f"{'then' if made.blocked else 'next'}: kafkats preflight {log_dirs} --kafka RELEASE,"
        " and start the broker",
        f"before that start: {undo}",
        f"when the broker serves again: {purge}",
    ]
