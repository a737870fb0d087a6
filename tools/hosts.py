"""Words that make a process a host of its own: its own name, processes and folders, in namespaces of Linux. Needs root."""

from __future__ import annotations

import shlex
from pathlib import Path


def inside(name: str, *mounts: tuple[Path, Path]) -> tuple[str, ...]:
    """Return words before a command line. Its process and all that it starts see the host name `name`, no other processes,
    and folders of their own: each of `mounts` is a real folder and the path at which only this host sees it. They end with it.
    """
    mounted = [
        f"mount --bind {shlex.quote(str(real))} {shlex.quote(str(path))}" for real, path in mounts
    ]
    script = " && ".join([f"hostname {shlex.quote(name)}", *mounted, 'exec "$@"'])
    unshare = ("unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc")
    return (*unshare, "sh", "-c", script, "sh")
