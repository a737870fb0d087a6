"""Asks a server whether it would accept manifests, with strict validation of their fields: it takes no name that it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import requests
import yaml

from tools.kube.control_plane import Api, Json


def documents(folder: Path) -> Iterator[tuple[str, Json]]:
    """Yield the manifests below a folder, each with its file and its number there. Other YAML is none."""
    for file in sorted([*folder.rglob("*.yaml"), *folder.rglob("*.yml")]):
        for number, one in enumerate(yaml.safe_load_all(file.read_text()), 1):
            if isinstance(one, dict) and {"apiVersion", "kind"} <= one.keys():
                yield f"{file.relative_to(folder)} {number} {one['kind']}", one


def refusal(api: Api, manifest: Json) -> str:
    """Return why the server does not accept a manifest, or nothing. It changes nothing but the namespace that is named."""
    try:
        path = _path(api, manifest)
        api.post(path, manifest, dryRun="All", fieldValidation="Strict")
    except requests.HTTPError as error:
        return str(error)
    return ""


def _path(api: Api, manifest: Json) -> str:
    """Return where objects of this kind are made."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    group = f"/apis/{version}" if "/" in version else f"/api/{version}"
    known = {one["kind"]: one for one in api.get(group)["resources"] if "/" not in one["name"]}
    if kind not in known:
        raise requests.HTTPError(f"{version} has no {kind}")
    if not known[kind]["namespaced"]:
        return f"{group}/{known[kind]['name']}"
    namespace = manifest["metadata"].get("namespace", "default")
    try:
        api.get(f"/api/v1/namespaces/{namespace}")
    except requests.HTTPError:
        api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    return f"{group}/namespaces/{namespace}/{known[kind]['name']}"
