"""Makes a pod's volumes on this machine: folders of claims, and files from ConfigMaps, Secrets and the pod itself."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import requests

from tools.kube.control_plane import Api, Json


class NotYet(Exception):
    """A volume cannot be mounted: the reason and the message of the event."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def folder_of(api: Api, pod: Json, volume: Json, folder: Path, disks: Mapping[str, Path]) -> Path:
    """Return the folder or file behind a volume of a pod. Files that are made lie in `folder`. Raises NotYet.

    `disks` has real folders by the paths that the node has them at.
    """
    namespace = pod["metadata"]["namespace"]
    if claim := volume.get("persistentVolumeClaim"):
        return _host(*_claimed(api, pod, claim["claimName"]), disks)
    if host := volume.get("hostPath"):
        return _host(host["path"], host.get("type", ""), volume["name"], disks)
    folder.mkdir(parents=True, exist_ok=True)
    if "emptyDir" in volume:
        folder.chmod(0o777)
        return folder
    sources = volume["projected"]["sources"] if "projected" in volume else [_source(volume)]
    mode = volume.get("projected", volume.get("configMap", volume.get("secret", {}))).get(
        "defaultMode", 0o644
    )
    for source in sources:
        for path, content in _files(api, namespace, pod, source):
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(mode)
    return folder


def _source(volume: Json) -> Json:
    """Return a configMap, secret or downwardAPI volume as the source of a projected one."""
    if secret := volume.get("secret"):
        return {"secret": {**secret, "name": secret["secretName"]}}
    return volume


def _claimed(api: Api, pod: Json, name: str) -> tuple[str, str, str]:
    """Return the path, the type and the name of the volume of a claim. Raises NotYet."""
    namespace, node = pod["metadata"]["namespace"], pod["spec"]["nodeName"]
    claim = api.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
    if claim.get("status", {}).get("phase") != "Bound":
        raise NotYet("FailedMount", f'persistentvolumeclaim "{name}" not bound')
    volume = api.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
    modes = claim["spec"]["accessModes"]
    if not {"ReadWriteMany", "ReadOnlyMany"} & set(modes):
        for other in api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]:
            elsewhere = other["spec"].get("nodeName") not in (None, node) and _uses(other, name)
            if elsewhere and other["status"].get("phase") not in ("Succeeded", "Failed"):
                who = other["metadata"]["name"]
                raise NotYet(
                    "FailedAttachVolume",
                    f'Multi-Attach error for volume "{volume["metadata"]["name"]}" Volume is already used by pod(s) {who}',
                )
    place = volume["spec"].get("local") or volume["spec"].get("hostPath")
    if place is None:
        raise NotYet(
            "FailedMount", "this stand-in mounts volumes of the kinds local and hostPath alone"
        )
    return place["path"], "Directory", volume["metadata"]["name"]


def _uses(pod: Json, claim: str) -> bool:
    volumes = pod["spec"].get("volumes", [])
    return any(one.get("persistentVolumeClaim", {}).get("claimName") == claim for one in volumes)


def _host(path: str, kind: str, name: str, disks: Mapping[str, Path]) -> Path:
    real = disks.get(path, Path(path))
    if kind == "DirectoryOrCreate":
        real.mkdir(parents=True, exist_ok=True)
    if not real.exists():
        raise NotYet(
            "FailedMount",
            f'MountVolume.SetUp failed for volume "{name}" : path "{path}" does not exist',
        )
    return real


def _files(api: Api, namespace: str, pod: Json, source: Json) -> Iterator[tuple[str, bytes]]:
    """Yield the paths and bytes of one source."""
    for kind, plural in (("configMap", "configmaps"), ("secret", "secrets")):
        if given := source.get(kind):
            values = values_of(api, namespace, plural, given)
            items = given.get("items") or [{"key": key, "path": key} for key in values]
            yield from ((one["path"], values[one["key"]]) for one in items)
    if asked := source.get("serviceAccountToken"):
        account = pod["spec"].get("serviceAccountName", "default")
        request = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "spec": {"expirationSeconds": asked.get("expirationSeconds", 3600)},
        }
        token = api.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", request)
        yield asked["path"], token["status"]["token"].encode()
    for item in source.get("downwardAPI", {}).get("items", []):
        yield item["path"], field_of(pod, item["fieldRef"]["fieldPath"]).encode()


def values_of(api: Api, namespace: str, plural: str, named: Json) -> dict[str, bytes]:
    """Return the values of the ConfigMap or Secret that is named. Raises NotYet where there is none."""
    name = named["name"]
    try:
        found = api.get(f"/api/v1/namespaces/{namespace}/{plural}/{name}")
    except requests.HTTPError as error:
        if error.response is None or error.response.status_code != 404:
            raise
        if named.get("optional"):
            return {}
        raise NotYet("FailedMount", f'{plural[:-1]} "{name}" not found') from None
    decoded = plural == "secrets"
    values = {
        key: base64.b64decode(one) if decoded else one.encode()
        for key, one in found.get("data", {}).items()
    }
    return values | {key: base64.b64decode(one) for key, one in found.get("binaryData", {}).items()}


def field_of(pod: Json, path: str) -> str:
    """Return a field of a pod as an environment variable or file gets it."""
    if path.endswith("]"):  # metadata.labels['name']
        kind, _, name = path.removesuffix("']").partition("['")
        return pod["metadata"].get(kind.removeprefix("metadata."), {}).get(name, "")
    found = pod
    for part in path.split("."):
        found = found.get(part, {})
    if isinstance(found, str):
        return found
    return "\n".join(f'{name}="{value}"' for name, value in found.items())


def own(folder: Path, group: int, policy: str) -> None:
    """Give a volume to a group as fsGroup does. `OnRootMismatch` leaves it where its root has the group already."""
    if policy == "OnRootMismatch" and folder.stat().st_gid == group:
        return
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            os.chown(path, -1, group)
            path.chmod(path.stat().st_mode | (0o2770 if path.is_dir() else 0o660))
