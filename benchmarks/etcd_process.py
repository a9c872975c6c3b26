"""A real etcd with its usual settings, in a folder of its own."""

import contextlib
import http.client
import shutil
import socket
import time
from collections.abc import Generator
from pathlib import Path

from processes import Failed, running

_START_S = 20.0


@contextlib.contextmanager
def etcd(folder: Path) -> Generator[str]:
    """Run one until the block ends, and yield its HOST:PORT."""
    client, peer, health = _free_ports(3)
    peer_url = f"http://127.0.0.1:{peer}"
    command = [
        shutil.which("etcd") or "etcd",
        "--name=only",
        f"--data-dir={folder / 'data'}",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=only={peer_url}",
        f"--listen-metrics-urls=http://127.0.0.1:{health}",
        "--log-level=error",
    ]
    with running(command) as process:
        deadline = time.monotonic() + _START_S
        while not _is_healthy(health):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"etcd does not start within {_START_S:.0f} s")
            time.sleep(0.05)
        yield f"127.0.0.1:{client}"


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", "/health")
        return b'"true"' in connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(listener.getsockname()[1]) for listener in held]
    for listener in held:
        listener.close()
    return ports
