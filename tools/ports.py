"""Ports of loopback for servers that a test or a demo starts."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nothing listens at."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()
