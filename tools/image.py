"""Builds the images of the Dockerfile with buildah, without a daemon, and runs them with podman: as root.

    scripts/image build slim            kafkats-slim:VERSION, of the folder that `scripts/package build/image` writes
    scripts/image build full [BASE]     kafkats:VERSION; on a base of Debian's own packages if no BASE is named
    scripts/image try slim              verifies a golden directory in it, and prints the size
    scripts/image try full              the services of docker-compose.yml by their own commands, and a run to its end

Needs `apt install buildah podman crun mmdebstrap`. tools/compose.py is what `docker compose` would do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from kafkats import __version__
from tools.compose import Containers, network, podman, services
from tools.wheel import GOLDEN, ROOT

PACKAGES: Final = ROOT / "build" / "image"
FULL: Final = f"localhost/kafkats:{__version__}"
SLIM: Final = f"localhost/kafkats-slim:{__version__}"
BASE: Final = "localhost/kafkats-base"
POSTGRES: Final = "localhost/kafkats-postgres"
BUNDLE: Final = Path("/etc/ssl/certs/ca-certificates.crt")
"""Certificates that this machine trusts, those of a proxy among them."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
DATABASE: Final = """
FROM {base}
RUN apt-get update && apt-get install --yes --no-install-recommends postgresql
USER postgres
ENV PATH=/usr/lib/postgresql/15/bin:{path}
"""
START: Final = """
initdb --username="$POSTGRES_USER" --pgdata=/tmp/data --no-sync >/dev/null
echo "host all all 127.0.0.1/32 trust" >>/tmp/data/pg_hba.conf
( until pg_isready --quiet --host 127.0.0.1; do sleep 0.2; done; createdb --host 127.0.0.1 --username "$POSTGRES_USER" "$POSTGRES_DB" ) &
exec postgres -D /tmp/data -c fsync=off -c unix_socket_directories=/tmp
"""
"""Instead of the official image's entry point: it cannot be reached where no registry can."""


def build(target: str, tag: str, *arguments: str) -> None:
    """Build a target of the Dockerfile. `RUN` is a chroot, which works in a container, too."""
    mounted = ("--volume", f"{BUNDLE}:{BUNDLE}:ro", "--build-arg", f"SSL_CERT_FILE={BUNDLE}")
    words = [
        "buildah",
        "build",
        "--isolation=chroot",
        "--network=host",
        "--format=docker",
        *mounted,
    ]
    subprocess.run([*words, f"--target={target}", f"--tag={tag}", *arguments], cwd=ROOT, check=True)


def build_slim() -> None:
    """Build the core. Ends without exactly one folder in PACKAGES."""
    found = [*PACKAGES.glob("kafkats-*.tar.xz")]
    if len(found) != 1:
        sys.exit(
            f"scripts/image: scripts/package {PACKAGES.relative_to(ROOT)} makes what is in this image"
        )
    build("slim", SLIM, "--build-arg", f"PACKAGE={found[0].relative_to(ROOT)}", ".")


def make_base() -> None:
    """Make a base of Debian's packages: Python 3.11, and the user of the official image."""
    with tempfile.TemporaryDirectory(prefix="kafkats-base-") as name:
        archive = Path(name) / "base.tar"
        include = "--include=python3.11,python3.11-venv,ca-certificates,passwd"
        user = '--customize-hook=chroot "$1" useradd --create-home airflow'
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", include, user, "bookworm", archive],
            check=True,
        )
        podman("import", "--quiet", "--change", f"ENV PATH={PATH}", archive, BASE)


def try_slim() -> None:
    """Run the core as a user without a name, on a read-only root without $HOME, network and rights."""
    size = int(podman("image", "inspect", "--format={{.Size}}", SLIM))
    print(f"{SLIM}: {size / 2**20:.0f} MB", flush=True)
    with tempfile.TemporaryDirectory(prefix="kafkats-slim-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with tarfile.open(GOLDEN) as golden:
            golden.extractall(folder / "data", filter="data")
        bare = [
            "--read-only",
            "--read-only-tmpfs=false",
            "--cap-drop=all",
            "--network=none",
            "--user=12345:12345",
        ]
        mount = f"--volume={folder}/data:/var/lib/kafka/data:ro"
        for words in (["verify"], ["verify", "--deep", "--jobs=2"], ["preflight", "--kafka=4.3"]):
            said = podman(
                "run", "--rm", *bare, "--unsetenv=HOME", mount, SLIM, *words, "/var/lib/kafka/data"
            )
            print(f"{' '.join(words)}: {said.strip().splitlines()[-1]}", flush=True)


def try_full() -> None:
    """Start the services of docker-compose.yml, let rebuild_time_indexes repair an index, and stop them."""
    subprocess.run(
        ["buildah", "build", "--isolation=chroot", "--network=host", "--layers", f"--tag={POSTGRES}", "-f", "-"],
        input=DATABASE.format(base=BASE, path=PATH), text=True, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="kafkats-full-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        data = folder / "kafka" / "data"
        with tarfile.open(GOLDEN) as golden:
            golden.extractall(data, filter="data")
        lost = {one: one.read_bytes() for one in (data / "lz4-ct-0").glob("*.timeindex")}
        for index in lost:
            index.unlink()
        subprocess.run(["chown", "-R", "1000:1000", folder / "kafka"], check=True)
        settings = {
            "JWT_SECRET": os.urandom(64).hex(), "KAFKA_MOUNT": str(folder / "kafka"), "KAFKA_LOG_DIR": str(data),
            "OWNER_STOPPED": "true",
        }  # fmt: skip
        found = services((ROOT / "docker-compose.yml").read_text(), settings, folder)
        found["postgres"] |= {"image": POSTGRES, "command": ["sh", "-c", START], "volumes": []}
        with network(FULL) as shared:
            containers = Containers(found, shared)
            containers.start()
            run_of(containers)
        if not lost or any(index.read_bytes() != whole for index, whole in lost.items()):
            sys.exit("scripts/image: the indexes are not what the broker wrote")
        print(f"rebuild_time_indexes: {len(lost)} indexes are what the broker wrote", flush=True)


def run_of(containers: Containers) -> None:
    """Trigger a run that asks nobody, and wait for its end. Ends if it fails."""
    dag, api = "rebuild_time_indexes", "airflow-apiserver"
    containers.until(api, lambda said: dag in said, "airflow", "dags", "list", "--output=plain")
    containers.run(api, "airflow", "dags", "unpause", dag)
    containers.run(
        api, "airflow", "dags", "trigger", dag, "--conf", json.dumps({"need_approval": False})
    )

    def ended(said: str) -> bool:
        (run,) = json.loads(said[said.index("[{") :])
        if run["state"] == "failed":
            sys.exit(f"scripts/image: the run failed: {run}")
        return bool(run["state"] == "success")

    containers.until(api, ended, "airflow", "dags", "list-runs", dag, "--output=json")


def main() -> None:
    match sys.argv[1:]:
        case ["build", "slim"]:
            build_slim()
        case ["build", "full", base]:
            build("full", FULL, "--build-arg", f"BASE={base}", ".")
        case ["build", "full"]:
            make_base()
            build("full", FULL, "--build-arg", f"BASE={BASE}", ".")
        case ["try", "slim"]:
            try_slim()
        case ["try", "full"]:
            try_full()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
