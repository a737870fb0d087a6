"""The types of what jobs return and what tasks pass on, as JSON in XComs and in report.json.

A job's result is the summary that its command prints with --json. A result has only the keys that
its command gives; the required ones are those that every such result has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Required, TypeAlias, TypedDict, final

if TYPE_CHECKING:
    from kafkats.plans.rows import Totals


Rates: TypeAlias = dict[str, dict[str, Any]]
"""The last progress of each stage (kafkats.progress)."""


class Reserved(TypedDict):
    """A log directory that another holder has reserved; `until_ms` is epoch milliseconds."""

    log_dir: str
    holder: str
    until_ms: int


class Folder(TypedDict):
    """A report that a job kept in a folder."""

    report: str


class Unreachable(TypedDict):
    """A volume that a job left out, since it could not be read or reserved. `log_dir` is its label
    (kafkats_airflow.runs.volumes).
    """

    log_dir: str
    broker: str
    error: str


class JobResult(TypedDict, total=False):
    """The result of any job."""

    rates: Rates
    unreachable: list[Unreachable]
    report: str
    reserved: list[Reserved]
    files: int
    partitions: int
    unreadable: int


class FormatResult(JobResult, total=False):
    """The result of a job that counted formats, or certified them."""

    log_dirs: list[str]
    census: Folder
    seen: Folder
    certificate: str
    certificate_digest: str
    statement: str
    min_magic: int | None
    max_magic: int | None


class PlanName(TypedDict):
    """A plan: its folder, its digest, the log directories."""

    plan: str
    digest: str
    log_dirs: list[str]


class Beyond(TypedDict):
    """The plan without the guards of the policy."""

    plan: str
    digest: str
    totals: Totals


class PlanResult(FormatResult, total=False):
    """The result of the job `plan`. `undo` are the RUNs to undo instead of applying a plan."""

    plan: Required[str]
    digest: Required[str]
    totals: Required[Totals]
    undo: list[str]
    beyond: Beyond
    over_guard: int
    now_ms: int
    before_ms: int | None
    reserves: bool
    reservation_remarks: list[str]


class PurgeResult(JobResult, total=False):
    """The result of the job `purge`."""

    runs: Required[list[str]]
    freed_bytes: Required[int]


class LookupResult(JobResult, total=False):
    """The result of the job `lookup` for an export. `cells_step_ms`: it kept cells to draw."""

    cells_step_ms: int


class TableResult(JobResult, total=False):
    """The result of the job `lookup` that wrote a table."""

    table: Required[str]
    from_ms: Required[int]
    to_ms: Required[int]
    added: Required[int]
    closed: Required[int]
    open: Required[int]
    above_high_watermark: Required[int]
    other_logs: Required[list[str]]
    pictures: list[str]


class Asked(TypedDict, total=False):
    """The fields of a request (kafkats.request) that a task hands to the task of its job.

    `options` are by model, `runs` the folders of RUNs.
    """

    operation: str
    log_dirs: list[str]
    options: dict[str, dict[str, Any]]
    runs: list[str]


@final
class Arguments(TypedDict, total=False):
    """Arguments of KafkatsJobOperator and its subclasses; `application_args` are of an earlier
    version.
    """

    conn_id: Required[str]
    request: Asked
    plan: PlanName
    job: str
    about: str
    application_args: list[str]


class Work(TypedDict):
    """The work that is left for one application.

    `plan` is to be applied, None for nothing. `proof` are options of the job that proves; words, if
    an earlier version made them.
    """

    conn_id: str
    folder: str
    log_dirs: list[str]
    plan: PlanResult | None
    proof: dict[str, dict[str, Any]] | list[str]


@final
class PhaseApplication(TypedDict):
    """One application of a migration's phase.

    `idle`: its conversion is over. `look` are the arguments of its first job.
    """

    broker: str
    log_dirs: list[str]
    folder: str
    idle: bool
    look: Arguments


class PhaseWork(TypedDict):
    """Arguments of the jobs `convert` and `certify` after `look`; None: the job is skipped."""

    broker: str
    folder: str
    plan: PlanResult
    convert: Arguments | None
    certify: Arguments | None


class Parity(TypedDict):
    """Logs of a RUN whose records were compared, with the digests before and after."""

    broker: str
    run: str
    logs: int
    records: int
    before: str
    after: str


class User(TypedDict, total=False):
    """A person, as Airflow names who answered."""

    id: str
    name: str


class Answer(TypedDict, total=False):
    """The answer to a question, in Airflow's event and in the XCom of the task that asked."""

    chosen_options: Required[list[str]]
    params_input: dict[str, str]
    responded_by_user: User | None
    error: str
