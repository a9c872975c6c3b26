"""A real etcd, which tests can kill and start again with its data at the same address."""

import contextlib
import http.client
import os
import signal
import subprocess
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Self

from programs import Restartable, free_port
from waiting import eventually

from tools import find_tool

_START_S = 60.0


class EtcdServer(Restartable):
    """One server; `with EtcdServer(folder) as etcd:` starts and stops it.

    Its heartbeat is fast, so that it becomes leader within a fraction of a second and grants leases
    of one second; it ends an expired lease up to half a second later.

    Args:
        folder: The folder for its data and log.
        flags: More flags of etcd, such as those for TLS.
        scheme: `https` with TLS.

    Attributes:
        endpoint: HOST:PORT for clients.
    """

    def __init__(self, folder: Path, flags: Sequence[str] = (), scheme: str = "http") -> None:
        client, peer, self._health_port = (free_port() for _ in range(3))
        self.endpoint = f"127.0.0.1:{client}"
        self.flags = tuple(flags)
        self._folder = folder
        self._client_url = f"{scheme}://{self.endpoint}"
        self._peer_url = f"http://127.0.0.1:{peer}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, also after it was killed, and wait until it answers."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Start it without waiting: a member answers only together with others."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log)  # noqa: S603 - our own arguments

    def wait(self) -> None:
        """Wait until it answers."""
        if self._process is None:
            raise AssertionError("etcd does not run")
        deadline = time.monotonic() + _START_S
        while not self._is_healthy():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((self._folder / "etcd.log").read_text(encoding="utf-8"))
            time.sleep(0.02)

    def pause(self) -> None:
        """Stop its process: connections stay open without answers, and leases go on."""
        os.kill(self._pid(), signal.SIGSTOP)
        # A thread may still answer until it has stopped.
        tasks = Path(f"/proc/{self._pid()}/task")
        eventually(lambda: all(map(_is_stopped, tasks.iterdir())), "all threads have stopped")

    def resume(self) -> None:
        os.kill(self._pid(), signal.SIGCONT)

    def _pid(self) -> int:
        if self._process is None:
            raise AssertionError("etcd does not run")
        return self._process.pid

    def _command(self) -> list[str]:
        return [
            find_tool("etcd"),
            "--name=only",
            f"--data-dir={self._folder / 'data'}",
            f"--listen-client-urls={self._client_url}",
            f"--advertise-client-urls={self._client_url}",
            f"--listen-peer-urls={self._peer_url}",
            f"--initial-advertise-peer-urls={self._peer_url}",
            f"--initial-cluster=only={self._peer_url}",
            f"--listen-metrics-urls=http://127.0.0.1:{self._health_port}",
            "--heartbeat-interval=10",
            "--election-timeout=100",
            "--log-level=error",
            *self.flags,
        ]

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._health_port, timeout=2)
        try:
            connection.request("GET", "/health")
            return b'"true"' in connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def etcd_cluster(folder: Path, count: int, *, heartbeat_ms: int = 50) -> list[EtcdServer]:
    """Return the members of a cluster, not started; an election takes ten heartbeats."""
    peers = [f"http://127.0.0.1:{free_port()}" for _ in range(count)]
    cluster = ",".join(f"m{number}={url}" for number, url in enumerate(peers))
    # The last of repeated flags counts.
    return [
        EtcdServer(
            folder / f"m{number}",
            [
                f"--name=m{number}",
                f"--initial-cluster={cluster}",
                f"--listen-peer-urls={url}",
                f"--initial-advertise-peer-urls={url}",
                f"--heartbeat-interval={heartbeat_ms}",
                f"--election-timeout={10 * heartbeat_ms}",
            ],
        )
        for number, url in enumerate(peers)
    ]


@contextlib.contextmanager
def etcd_members(folder: Path) -> Generator[list[EtcdServer]]:
    """Run the members of one cluster."""
    members = etcd_cluster(folder, 3)
    try:
        for member in members:
            member.launch()
        for member in members:
            member.wait()
        yield members
    finally:
        for member in members:
            member.kill()


def _is_stopped(thread: Path) -> bool:
    """Tell whether a thread is stopped: proc(5), the state in /proc/PID/task/TID/stat."""
    return (thread / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"
