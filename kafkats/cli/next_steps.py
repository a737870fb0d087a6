"""The next commands, after what a verify found and after what a run did."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkats.errors import Changed
from kafkats.findings import DEFECTS
from kafkats.operations import OPERATIONS

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkats.plans.plan import AnyPlan
    from kafkats.plans.rows import LocatedFinding

_LACKING: Final = ("missing-records", "gap-not-flushed")
"""Kinds of partitions in which records are missing: no plan changes them unasked."""
_EVIDENCE: Final = (*_LACKING, "end-not-flushed")
"""Kinds of partitions whose indexes are not rebuilt before somebody has seen what is missing."""
_SHOWN: Final = 3


class Defects(NamedTuple):
    """The defects of partitions, as far as next steps depend on them.

    Each list has the order in which they were found. `recovering` are log directories with defects
    in segments that their next start recovers, `cut` those with a torn tail that no start recovers.
    `unclean` are those with any log that their next start recovers. `corrupt` are partition
    directories with a corrupt log that no recovery reads. `rebuilds`: a rebuild would write
    something that no recovery rebuilds.
    """

    kinds: tuple[str, ...] = ()
    recovering: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    corrupt: tuple[str, ...] = ()
    rebuilds: bool = False
    unclean: tuple[str, ...] = ()

    def after(self, before: Defects) -> Defects:
        """Return these, and before them those of other partitions."""
        return Defects(
            tuple(dict.fromkeys((*before.kinds, *self.kinds))),
            tuple(dict.fromkeys((*before.recovering, *self.recovering))),
            tuple(dict.fromkeys((*before.cut, *self.cut))),
            tuple(dict.fromkeys((*before.corrupt, *self.corrupt))),
            before.rebuilds or self.rebuilds,
            tuple(dict.fromkeys((*before.unclean, *self.unclean))),
        )


def defects_in(segments: pa.Table, findings: Sequence[LocatedFinding]) -> Defects:
    """Return the defects in facts.SEGMENTS of whole partitions, and their findings."""
    from kafkats.plans.facts import damaged, unflushed

    kinds = dict.fromkeys(one["kind"] for one in findings if one["severity"] in DEFECTS)
    lacking = _with(findings, _LACKING)
    cut = (one["log_dir"] for one in findings if one["kind"] == "torn-tail-marked-clean")
    return Defects(
        tuple(kinds),
        tuple(_recovering(damaged(segments), lacking)),
        tuple(dict.fromkeys(cut)),
        tuple(_corrupt(segments, _with(findings, ("torn-tail-marked-clean",)))),
        _to_rebuild(segments, _with(findings, _EVIDENCE)),
        tuple(_recovering(segments.filter(unflushed(segments)), lacking)),
    )


def after_verify(defects: Defects, named: Sequence[Path], rebuild: Sequence[str]) -> list[str]:
    """Return the next steps after a verify; none without a defect and after a clean stop.

    `named` are the paths that were verified, `rebuild` the options with which a plan of a rebuild
    looks at them in the same way. Segments that the next start recovers need a recovery: it cuts
    their logs, and rebuilds their indexes.
    """
    kinds, recovering, cut, corrupt, rebuilds, unclean = defects
    paths = list(map(str, named))
    if "unknown-magic" in kinds:
        return [f"next: {_plan('recover', *paths, '--mend-magic')}"]
    mends = bool(recovering or cut or rebuilds)
    roots = [_as_named(root, named) for root in dict.fromkeys([*recovering, *cut, *unclean])]
    steps = [_plan("recover", *roots)] if roots else []
    if rebuilds:
        steps.append(_plan("rebuild", *paths, *rebuild))
    left = [kind for kind in kinds if kind not in _LACKING]
    if not mends and left:
        steps.append(f"kafkats help findings, which says what to do about {', '.join(left)}")
    return [
        *(
            f"{root} was not stopped cleanly: its next start recovers logs"
            for root in dict.fromkeys([*recovering, *unclean])
        ),
        *_left_corrupt(corrupt if mends else ()),
        *(f"{'then' if n else 'next'}: {step}" for n, step in enumerate(steps)),
    ]


def _left_corrupt(partitions: Sequence[str]) -> Iterator[str]:
    """Yield which partitions the steps do not mend: no recovery reads where they are corrupt."""
    if partitions:
        rest = len(partitions) - _SHOWN
        more = f" and {rest} more" if rest > 0 else ""
        yield (
            f"corrupt where no recovery reads: {', '.join(partitions[:_SHOWN])}{more}; no plan"
            " mends that, take the partition from a replica"
        )


def _plan(operation: str, *words: str) -> str:
    return f"kafkats plan {operation} {shlex.join(words)} -o PLAN"


def _as_named(root: str, named: Sequence[Path]) -> str:
    return next((str(path) for path in named if str(path.absolute()) == root), root)


def _with(findings: Sequence[LocatedFinding], kinds: Sequence[str]) -> set[tuple[str, str]]:
    """Return the partitions that have a finding of one of these kinds."""
    return {(one["log_dir"], one["partition_dir"]) for one in findings if one["kind"] in kinds}


def _recovering(segments: pa.Table, but: set[tuple[str, str]]) -> list[str]:
    """Return the log directories with segments that their next start recovers."""
    import pyarrow.compute as pc

    rows = segments.filter(pc.field("recovery"))
    return list(dict.fromkeys(root for root, name in _places(rows) if (root, name) not in but))


def _corrupt(segments: pa.Table, but: set[tuple[str, str]]) -> list[str]:
    """Return the partition directories with a corrupt log that no recovery reads."""
    import pyarrow.compute as pc

    from kafkats.plans.facts import damaged

    bad = damaged(segments)
    later, stopped = pc.fill_null(bad["recovery"], False), pc.fill_null(bad["stop"], "")
    rows = bad.filter(pc.and_(pc.invert(later), pc.not_equal(stopped, "")))
    places = (place for place in _places(rows) if place not in but)
    return list(dict.fromkeys("/".join(place) for place in places))


def _to_rebuild(segments: pa.Table, but: set[tuple[str, str]]) -> bool:
    """Return whether a rebuild would write something that no recovery rebuilds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from kafkats.plans.facts import REBUILT

    bad = pa.array(REBUILT)
    wrong = pc.or_(pc.is_in(segments["offset_index"], bad), pc.is_in(segments["time_index"], bad))
    nothing = [pc.equal(pc.fill_null(segments[why], ""), "") for why in ("blocked", "stop")]
    can = pc.and_(*nothing)  # a corrupt log's indexes are not rebuilt unasked
    later = pc.fill_null(segments["recovery"], False)
    rows = segments.filter(pc.and_(pc.and_(wrong, can), pc.invert(later)))
    return any(place not in but for place in _places(rows))


def _places(rows: pa.Table) -> Iterator[tuple[str, str]]:
    return zip(rows["log_dir"].to_pylist(), rows["partition_dir"].to_pylist(), strict=True)


def after_run(made: AnyPlan, run: Path, plan: Path, summary: Mapping[str, Any]) -> list[str]:
    """Return the steps after an apply of a plan, in the order in which they make sense.

    `summary` is that of the apply. Of what has changed since, the same plan is refused again.
    """
    from kafkats.plans.run import WROTE

    wrote = summary["outcomes"].keys() & set(WROTE)
    undo = f"kafkats undo {shlex.quote(str(run))} takes it back"
    if summary["errors"]:
        again = f"kafkats apply {shlex.quote(str(plan))} --digest {made.digest[:12]}"
        new = Changed.__name__ in summary["error_kinds"]
        first = "make a new plan for what was refused" if new else f"mend the cause, then {again}"
        return [f"next: {first}", *([f"or: {undo}"] if wrote else [])]
    if not wrote:
        return []
    if summary.get("proof", {}).get("not_equal"):
        return [f"next: {undo}; do not purge it"]
    purge = f"kafkats purge {shlex.quote(str(run))} frees the old bytes"
    operation = OPERATIONS.get(made.operation)
    if operation is None or not operation.recovers:
        return [f"next: {undo}; {purge}"]
    log_dirs = shlex.join(made.log_dirs())
    blocked = "next: restore the blocked partitions from a replica, or copy their directories"
    return [
        *[blocked] * bool(made.blocked),
        f"{'then' if made.blocked else 'next'}: kafkats preflight {log_dirs} --kafka RELEASE,"
        " and start the broker",
        f"before that start: {undo}",
        f"when the broker serves again: {purge}",
    ]
