"""overview.json, as it lies in a run's folder: the models that write it and read it again."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from kafkats.logdir.volume import Volume as Identity
from kafkats_airflow.runs.started import Started

NAME: Final = "overview.json"
FORMAT: Final = 1
_WHOLE: Final = 0.95
"""The share of the bytes of logs whose magic must be known to be that of a log directory."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Reclaimable(_Model):
    """Bytes of logs and indexes by what retention does with them. `pinned`: expired, and kept by an
    earlier segment. `vetoed`: a broker would delete them, kafkats does not.
    """

    now_bytes: NonNegativeInt
    day_bytes: NonNegativeInt
    week_bytes: NonNegativeInt
    pinned_bytes: NonNegativeInt
    vetoed_bytes: NonNegativeInt


class Volume(_Model):
    """A log directory at the end of a run. None: the run did not look at it.

    `bytes` are those of segments on this disk, of one replica: logs, indexes, snapshots; of
    preallocated files those that have blocks.
    `magic_bytes` are bytes of logs by magic (0, 1, 2), of the segments that were read whole;
    `log_bytes` those of all logs. `kinds` counts findings: {severity: {kind: count}}. `disk_bytes`
    is the size of its file system, `disk_free_bytes` what of it was free when the run planned.
    `log_dir` is its label (kafkats_airflow.runs.volumes), `name` and `broker` are those of the
    policy, `identity` is that of its meta.properties. `depth` is the least depth to which a segment
    was looked at; earlier versions did not tell. `error`: the run left it out, as it could not be
    read.
    """

    log_dir: str
    broker: str = ""
    name: str = ""
    error: str = ""
    identity: Identity | None = None
    depth: Literal["stat", "tail", "full", "deep"] | None = None
    partitions: NonNegativeInt | None = None
    segments: NonNegativeInt | None = None
    bytes: NonNegativeInt | None = None
    log_bytes: NonNegativeInt | None = None
    kinds: dict[str, dict[str, NonNegativeInt]] | None = None
    magic_bytes: tuple[NonNegativeInt, NonNegativeInt, NonNegativeInt] | None = None
    reclaimable: Reclaimable | None = None
    disk_bytes: NonNegativeInt | None = None
    disk_free_bytes: NonNegativeInt | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether the magic of about all bytes of its logs is known."""
        known = self.magic_bytes
        return known is not None and sum(known) >= _WHOLE * (self.log_bytes or 0)


class Undo(_Model):
    """The undo material of a RUN: bytes per log directory. `until_ms`: a DAG purges it then, None
    if only a person does.
    """

    run: str
    operation: str
    digest: str
    ended_ms: NonNegativeInt
    until_ms: NonNegativeInt | None
    bytes: dict[str, NonNegativeInt]


class Overview(_Model):
    """overview.json. `written_ms` is when the report was written, epoch ms. `topics` are those that
    the run looked at: unless they are all, its figures are not those of whole log directories.
    `why` is the first failure of a run that failed, as `TASK: sentence`; earlier versions did not
    tell.
    """

    format: Literal[1]
    dag_id: str
    run_id: str
    written_ms: NonNegativeInt
    outcome: str
    failed: bool = False
    why: str = ""
    dry_run: bool = False
    topics: str = "*"
    volumes: list[Volume]
    undo: list[Undo] = []
    started: Started = Started()
