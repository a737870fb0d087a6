"""Retention by another retention.ms, from facts that were read before; nothing is read again.

basis.json      the options and the policy with which a report's decision was made
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from kafkats.config.faults import faults
from kafkats.config.policy import Policy
from kafkats.config.settings import TopicSettings
from kafkats.config.values import LONG_MAX
from kafkats.errors import BadInput, UsageError
from kafkats.paths import parse_partition
from kafkats.plans.rows import keys_of
from kafkats.retention.implausible_timestamps import SUSPECT
from kafkats.retention.plan import RetainOptions, plan_retain

NAME: Final = "basis.json"


def basis_of(
    policy: Policy, options: Mapping[str, object], topics: Collection[str]
) -> dict[str, object]:
    """Return the content of basis.json for these topics. `options` are those of the plan.

    The lines of the policy are a list: their order counts, and JSON objects are written sorted.
    """
    kept = {topic: one for topic, one in policy.exported.items() if topic in topics}
    dumped = policy.model_copy(update={"exported": kept}).model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"volumes", "exports", "topics"}
    )
    lines = [[glob, _dumped(settings)] for glob, settings in policy.topics.items()]
    return {"options": dict(options), "policy": dumped, "lines": lines}


def read_basis(content: Mapping[str, object]) -> tuple[Policy, RetainOptions]:
    """Return the policy and the options in basis.json. Raises BadInput."""
    try:
        lines, dumped, given = content["lines"], content["policy"], content["options"]
        if not (isinstance(lines, list) and isinstance(dumped, dict) and isinstance(given, dict)):
            raise TypeError("its lines are no list, or its policy or options no object")
        policy = Policy.model_validate(dumped | {"topics": dict(lines)})
        known = {field.name for field in fields(RetainOptions)}
        options = {name: value for name, value in given.items() if name in known}
        options["accept_loss"] = tuple(options.get("accept_loss", ()))
        return policy, RetainOptions(**options)
    except ValidationError as e:
        raise BadInput(f"the basis of the decision cannot be read: {faults(e)[0]}") from e
    except (KeyError, TypeError, ValueError) as e:
        raise BadInput(f"the basis of the decision cannot be read: {e}") from e


def what_if(
    segments: pa.Table,
    verdicts: pa.Table,
    policy: Policy,
    options: RetainOptions,
    topic: str,
    retention_ms: int,
) -> pa.Table:
    """Return the verdicts (plan.RETENTION) on the segments of `topic` with that retention.ms.

    `segments` (facts.SEGMENTS) and `verdicts` are those of a decision with this policy and these
    options. The rule is that of every plan; the line `topic: {retention.ms: N}` stands first in the
    policy. Guards of a whole run see only this topic. Raises UsageError.
    """
    named = parse_partition(f"{topic}-0")
    if named is None or named.topic != topic:
        raise UsageError(f"{topic!r} is no name of a topic")
    if not -1 <= retention_ms <= LONG_MAX:
        raise UsageError(f"retention.ms={retention_ms} is not -1, or 0 to {LONG_MAX}")
    if options.before_ms is not None:
        raise UsageError("the run deleted what is older than a moment, and no retention.ms")
    mine = segments.filter(pc.equal(segments["topic"], topic))
    changed = with_limit(policy, topic, retention_ms)
    # implausible times are replaced already: to judge them again would read time indexes
    line = changed.topics[topic].model_copy(update={"kafkats_implausible_timestamps": "report"})
    plain = changed.model_copy(update={"topics": changed.topics | {topic: line}})
    return plan_retain(_as_counted(mine, verdicts), plain, options)[1]


def with_limit(policy: Policy, topic: str, retention_ms: int) -> Policy:
    """Return the policy with a line for `topic` in front, the topic's own settings otherwise."""
    glob = policy.glob(topic)
    own = policy.topics[glob] if glob is not None else type(policy.defaults)()
    line = own.model_copy(update={"retention_ms": retention_ms})
    others = {name: settings for name, settings in policy.topics.items() if name != topic}
    given = {name: getattr(policy, name) for name in type(policy).model_fields}
    return Policy.model_construct(**given | {"topics": {topic: line, **others}})


def policy_line(policy: Policy, topic: str) -> str:
    """Return the settings of the topic's own line as YAML, to be put first under `topics`."""
    return f"{json.dumps(topic)}: {json.dumps(_dumped(policy.topics[topic]))}"


def _dumped(settings: TopicSettings) -> dict[str, object]:
    return settings.model_dump(mode="json", by_alias=True, exclude_none=True)


def _as_counted(segments: pa.Table, verdicts: pa.Table) -> pa.Table:
    """Return the facts with the times that the policy has put in place of implausible ones."""
    suspect = verdicts.filter(pc.is_in(verdicts["unit"], pa.array(SUSPECT)))
    counted = dict(zip(keys_of(suspect), suspect["counted_from"].to_pylist(), strict=True))
    if not counted:
        return segments
    times = [
        counted.get(key, known)
        for key, known in zip(keys_of(segments), segments["max_timestamp"].to_pylist(), strict=True)
    ]
    at = segments.schema.get_field_index("max_timestamp")
    return segments.set_column(at, "max_timestamp", pa.array(times, pa.int64()))
