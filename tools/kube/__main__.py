"""scripts/kubernetes build|serve [NODES]|manifests [FOLDER]"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.kube import programs
from tools.kube.control_plane import ControlPlane
from tools.kube.lab import Lab
from tools.kube.manifests import documents, refusal

DEPLOY: Final = Path(__file__).parents[2] / "deploy"


def serve(count: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="kafkats-kubernetes-") as folder,
        Lab(Path(folder), count) as lab,
    ):
        print(f"ready: kubeconfig {lab.plane.kubeconfig}, nodes {', '.join(lab.nodes)}", flush=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("ending")


def validate(folder: Path) -> int:
    """Print the server's answer to each manifest. Return the number of manifests that it refuses."""
    refused = 0
    with (
        tempfile.TemporaryDirectory(prefix="kafkats-kubernetes-") as work,
        ControlPlane(Path(work)) as plane,
    ):
        for name, manifest in documents(folder):
            why = refusal(plane.api, manifest)
            print(f"{name}: {why or 'accepted'}")
            refused += bool(why)
    return refused


def main(words: list[str]) -> int:
    try:
        match words:
            case ["build"]:
                print(programs.build())
            case ["serve", *count]:
                serve(int(count[0]) if count else 1)
            case ["manifests", *folder]:
                return 1 if validate(Path(folder[0]) if folder else DEPLOY) else 0
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except programs.Missing as error:
        print(f"scripts/kubernetes: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
