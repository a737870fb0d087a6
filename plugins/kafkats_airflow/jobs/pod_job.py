"""The manifest of a Job: a template, the volumes of a connection, and the request that it is for.

The template is deploy/kubernetes/job.yaml, unless the connection names another. What a deployment
decides (image, user, resources) is written there or in the connection's extra, and nothing else of
the connection gets into a manifest.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from kafkats.config.faults import faults
from kafkats.errors import StorageFailed, UsageError, storage
from kafkats_airflow import shipped
from kafkats_airflow.jobs.hosts import silence_of
from kafkats_airflow.jobs.pod_state import NAME

MANAGED: Final = {"app.kubernetes.io/managed-by": NAME}
REQUEST: Final = "kafkats/request"
"""The label with the digest of a request's id."""
_PREFIX: Final = "kafkats_"
_BY_DIGEST: Final = re.compile(r".+@sha256:[0-9a-f]{64}")
_NOBODYS: Final = "registry.example/"

Absolute = Annotated[str, StringConstraints(pattern=r"^/[^\x00]*$")]
Id = Annotated[int, Field(ge=0)]


class Extra(BaseModel):
    """The fields `kafkats_...` of a connection's extra.

    `volumes` maps a path in the pod to a claim, or to a path of `node`. `runs_claim` is the claim
    with the folder of all runs, if pods share it with Airflow. `user` and `group` are the broker's.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    volumes: dict[Absolute, str] = Field(min_length=1)
    node: str = ""
    runs_claim: str = ""
    image: str = ""
    user: Id | None = None
    group: Id | None = None
    template: str = ""
    silence_seconds: float

    @classmethod
    def of(cls, extra: dict[str, Any]) -> Extra:
        """Return the fields. Raises ValueError."""
        own = {
            name.removeprefix(_PREFIX): one
            for name, one in extra.items()
            if name.startswith(_PREFIX)
        }
        try:
            found = cls.model_validate({**own, "silence_seconds": silence_of(extra)})
        except ValidationError as e:
            raise ValueError(f"{_PREFIX}{faults(e)[0]}") from e
        if found.paths and not found.node:
            raise ValueError(
                f"{_PREFIX}volumes has {found.paths[0]!r}, and there is no kafkats_node"
            )
        return found

    @property
    def paths(self) -> list[str]:
        return [one for one in self.volumes.values() if one.startswith("/")]


class Node(NamedTuple):
    """A node on which a Job has to run (`must`), or preferably runs."""

    name: str
    must: bool


def manifest(extra: Extra, digest: str, about: str, folder: Path, node: Node | None) -> Any:
    """Return the Job for a request. `about` is its id, `folder` that of all runs.

    Raises UsageError for a template that cannot be used.
    """
    job = _template(Path(extra.template) if extra.template else shipped.KUBERNETES / "job.yaml")
    pod = job["spec"]["template"]
    spec = pod["spec"]
    for one in (job, pod):
        data = one.setdefault("metadata", {})
        data["labels"] = {**(data.get("labels") or {}), **MANAGED, REQUEST: digest}
        data["annotations"] = {**(data.get("annotations") or {}), f"{NAME}/id": about}
    job["metadata"]["name"] = name_of(digest)
    container = _container(spec)
    if extra.image:
        container["image"] = extra.image
    _check_image(str(container.get("image") or ""))
    container["args"] = ["wait", digest, str(extra.silence_seconds)]
    container["env"] = [
        *(container.get("env") or []),
        # Kubernetes would put another variable, which may be a secret, in the place of $(NAME).
        {"name": "KAFKATS_FOLDER", "value": str(folder).replace("$", "$$")},
    ]
    context = spec.setdefault("securityContext", {})
    given = {"runAsUser": extra.user, "runAsGroup": extra.group, "fsGroup": extra.group}
    context.update({name: one for name, one in given.items() if one is not None})
    _mount(spec, container, str(folder), "runs", _source(extra.runs_claim))
    for number, (path, source) in enumerate(extra.volumes.items()):
        _mount(spec, container, path, f"volume-{number}", _source(source))
    if node is not None:
        spec.setdefault("affinity", {})["nodeAffinity"] = _affinity(node)
    return job


def name_of(digest: str) -> str:
    """Return the name of the Job for a request: there cannot be two of it."""
    return f"{NAME}-{digest}"


def _template(path: Path) -> Any:
    try:
        with storage(path, "reading the template of Jobs"):
            found = yaml.safe_load(path.read_text(encoding="utf-8"))
        if found["kind"] != "Job" or not _container(found["spec"]["template"]["spec"])["command"]:
            raise ValueError("it is no Job, or its container has no command")
    except StorageFailed as e:
        raise UsageError(e.reason, path=path) from e
    except (yaml.YAMLError, ValueError, LookupError, TypeError, StopIteration) as e:
        raise UsageError(
            f"is no template: a Job with a container {NAME!r}, and its command ({e!r})", path=path
        ) from e
    return found


def _container(spec: Any) -> Any:
    return next(one for one in spec["containers"] if one["name"] == NAME)


def _check_image(image: str) -> None:
    if image.startswith(_NOBODYS) or not _BY_DIGEST.fullmatch(image):
        raise UsageError(
            f"the image {image[:200]!r} is not one by its digest: name yours, as"
            " REGISTRY/kafkats@sha256:..., with kafkats_image in the extra of the connection or in"
            " the template"
        )


def _source(named: str) -> dict[str, Any]:
    if not named:
        return {"emptyDir": {"sizeLimit": "4Gi"}}
    if named.startswith("/"):
        return {"hostPath": {"path": named, "type": "Directory"}}
    return {"persistentVolumeClaim": {"claimName": named}}


def _mount(spec: Any, container: Any, path: str, name: str, source: dict[str, Any]) -> None:
    spec["volumes"] = [*(spec.get("volumes") or []), {"name": name, **source}]
    mounted = {"name": name, "mountPath": path}
    container["volumeMounts"] = [*(container.get("volumeMounts") or []), mounted]


def _affinity(node: Node) -> dict[str, Any]:
    field: dict[str, Any] = {"key": "metadata.name", "operator": "In", "values": [node.name]}
    term = {"matchFields": [field]}
    if node.must:
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]
    }
