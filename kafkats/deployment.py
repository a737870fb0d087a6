"""A deployment that names approvers: who may approve, and what a request may ask for.

KAFKATS_APPROVERS           such as `alice,bob`: only they approve (kafkats.config.approvers)
KAFKATS_POLICY              the policy file
KAFKATS_FOLDER              the folder of plans, runs and reports
KAFKATS_UNDO_DAYS_FLOOR     the least age in days of a run that is purged, 7 if not given

These come from the process that does the work, never from a request, which a forger could write.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkats.clock import DAY_MS
from kafkats.config.approvers import NAME, Approver, read_approvers
from kafkats.config.option import declared
from kafkats.errors import Refused, UsageError
from kafkats.operations import OPERATIONS
from kafkats.plans.options import Purge
from kafkats.request import VERBS, PolicyContent, Request

if TYPE_CHECKING:
    from kafkats.plans.approval import Approval
    from kafkats.plans.plan import AnyPlan

SET: Final = f" ({NAME} is set)"
FLOOR: Final = "KAFKATS_UNDO_DAYS_FLOOR"


def read_floor(text: str | None) -> int:
    """Return KAFKATS_UNDO_DAYS_FLOOR in days. Raises UsageError."""
    if text is None:
        return 7
    if not re.fullmatch(r"[0-9]{1,4}", text.strip()):
        raise UsageError(f"{FLOOR}: {text[:40]!r} is not a number of days")
    return int(text)


def policy_file() -> str:
    """Return the policy file of this process's deployment."""
    return os.environ.get("KAFKATS_POLICY") or "/etc/kafkats/policy.yaml"


def folder() -> str:
    """Return the folder of this process's deployment."""
    return os.environ.get("KAFKATS_FOLDER") or "/var/lib/kafkats"


class Bounds(NamedTuple):
    """The policy, folder and least age that the requests of a deployment may name."""

    policy: str
    folder: str
    floor_days: int

    @classmethod
    def of_environment(cls) -> Bounds:
        """Return the bounds of this process's deployment. Raises UsageError."""
        return cls(policy_file(), folder(), read_floor(os.environ.get(FLOOR)))

    def check(self, request: Request) -> None:
        """Raise Refused for what no DAG asks for.

        The policy is that of the deployment. A path is a volume of the policy or lies in the
        folder. What is written needs an approval, and a purge an age.
        """
        from kafkats.config.reading import read_policy

        policy = read_policy(Path(self.policy))
        known = {str(one.path) for one in policy.volumes}
        areas = {str(one.work_area) for one in policy.volumes if one.work_area}
        self._check_options(request)
        self._check_needed(request)
        if request.policy not in (None, PolicyContent.of(policy)):
            raise Refused(
                f"{request.verb}: its policy is not this deployment's, which is {self.policy}{SET}"
            )
        for log_dir in request.log_dirs:
            if str(log_dir.path) not in known:
                raise Refused(f"{request.verb}: {log_dir.path} is no volume of the policy{SET}")
        for name, path in _paths(request):
            if name == "place" and path not in areas:
                raise Refused(f"{request.verb}: work_area {path!r} is none of the policy's{SET}")
            if name != "place" and path not in known:
                self.check_inside(path, f"{request.verb}: {name}")

    def check_inside(self, path: str, name: str) -> None:
        """Raise Refused unless the path, with links followed, lies in the folder."""
        root = Path(os.path.realpath(self.folder))
        if (
            not Path(path).is_absolute()
            or ".." in Path(path).parts
            or not Path(os.path.realpath(path)).is_relative_to(root)
        ):
            raise Refused(
                f"{name} {path!r} is not in the folder of this deployment, {self.folder}{SET}"
            )

    @staticmethod
    def options_of(verb: str, operation: str) -> frozenset[str]:
        """Return the fields of options that the DAGs give."""
        known = frozenset((VERBS[verb].by_dags or "").split())
        if verb != "plan":
            return known
        own = (one for model in OPERATIONS[operation].models for one in declared(model))
        return known | {one.name for one in own if not (one.option.by_hand or one.option.hidden)}

    def _check_options(self, request: Request) -> None:
        if VERBS[request.verb].by_dags is None:
            raise Refused(f"{request.verb}: no DAG does that{SET}")
        known = self.options_of(request.verb, request.operation)
        given = [name for fields in request.options.values() for name in fields]
        if unknown := [name for name in given if name not in known]:
            raise Refused(f"{request.verb}: {unknown[0]!r} is no option that a DAG gives{SET}")

    def _check_needed(self, request: Request) -> None:
        if request.verb in {"apply", "undo"} and request.approval is None:
            raise Refused(f"{request.verb}: without the record of an approval{SET}")
        if request.verb in {"plan", "verify"} and request.policy is None:
            raise Refused(f"{request.verb}: without the policy{SET}")
        if request.verb == "purge":
            least = request.of(Purge).older_than
            if least is None or least < self.floor_days * DAY_MS:
                raise Refused(f"purge: of runs younger than {self.floor_days} days{SET}")


def _paths(request: Request) -> Iterator[tuple[str, str]]:
    """Yield each path that a request names besides its log directories, with its name."""
    if request.plan is not None:
        yield "plan", str(request.plan.folder)
    for run in request.runs:
        yield "run", str(run.folder)
    if request.approval is not None:
        yield "approval", str(request.approval.record)
    yield from ((one.name, str(path)) for one, path in request.option_paths())


class Deployment(NamedTuple):
    """The people of this process's deployment who may approve; `guarded`: it names them.

    Requests that another program wrote have to keep to its `bounds`.
    """

    approvers: Sequence[Approver] = ()
    guarded: bool = False
    bounds: Bounds | None = None

    @classmethod
    def of_environment(cls) -> Deployment:
        """Return what KAFKATS_APPROVERS says. Raises UsageError for names that cannot be read."""
        return cls(read_approvers(os.environ.get(NAME)), NAME in os.environ)

    def bounded(self) -> Deployment:
        """Return the same with bounds for requests, if it names approvers. Raises UsageError."""
        return self._replace(bounds=Bounds.of_environment()) if self.guarded else self

    def check(self, request: Request) -> None:
        """Raise Refused for a request that is not within the bounds."""
        if self.bounds is not None:
            self.bounds.check(request)

    def check_approval(self, record: Path | None, digests: Iterable[str]) -> Approval | None:
        """Return the answer in the record. Raises Refused unless it says yes to each digest, and an
        approver said it.

        Without a record everything is allowed, unless the deployment names approvers.
        """
        from kafkats.plans.approval import check_approved

        answer = check_approved(record, digests) if record is not None else None
        allowed = {approver.name for approver in self.approvers}
        if allowed and (answer is None or answer.by not in allowed):
            reason = (
                f"{answer.by or 'nobody'!r} is not an approver"
                if answer
                else "there is no record of an approver's answer"
            )
            raise Refused(f"{reason} ({NAME} is set); clear the run to ask again", path=record)
        return answer

    def check_guards(self, plan: AnyPlan) -> None:
        """Raise Refused for a plan without the policy's guards, where approvers are named."""
        if self.guarded and plan.header["options"].get("over_guard"):
            raise Refused(
                f"this plan goes over the guards of the policy, which nobody may ({NAME} is set)"
            )


OPEN: Final = Deployment()
"""Whoever may start the process may do what its user may."""
