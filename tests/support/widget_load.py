"""Clients that write widgets all the time, through API servers that stop and start."""

import asyncio
import itertools
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx2
from storage_version_checks import Write
from storage_version_cluster import ApiServer
from waiting import until

WIDGETS = "example.dev.widgets"
_PATH = "/apis/example.dev/v1/widgets"
_PAUSE_S = 0.05
_TIMEOUT_S = 5.0
_ACCEPTED_WITHIN_S = 40.0
_CREATED = 201
_REFUSED = 503


@dataclass(frozen=True, slots=True)
class Attempt:
    """A request for a write.

    Attributes:
        status: The HTTP status; 0 without an answer.
        life_began: When the server was started.
    """

    server: ApiServer
    name: str
    status: int
    life_began: float
    began: float
    ended: float

    @property
    def is_accepted(self) -> bool:
        return self.status == _CREATED

    @property
    def is_refused(self) -> bool:
        return self.status == _REFUSED


class Load:
    """Writes through servers, and records the outcome.

    Attributes:
        attempts: The attempts, in the order in which they ended.
    """

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []

    async def write(self, server: ApiServer) -> None:
        """Make widgets through a server until cancelled."""
        url = f"http://{server.address}{_PATH}"
        async with httpx2.AsyncClient(trust_env=False, timeout=_TIMEOUT_S) as client:
            for number in itertools.count():
                name = f"{server.name}-{number}"
                widget = {"metadata": {"name": name}, "spec": {"millimetres": number}}
                life_began, began = server.life_began, time.monotonic()
                status = await _status(client, url, widget)
                ended = time.monotonic()
                self.attempts.append(Attempt(server, name, status, life_began, began, ended))
                await asyncio.sleep(_PAUSE_S)

    def of(self, server: ApiServer) -> list[Attempt]:
        """Return the attempts since the last start of a server."""
        life = server.life_began
        return [one for one in self.attempts if one.server is server and one.life_began == life]

    def accepted(self, server: ApiServer) -> int:
        return sum(one.is_accepted for one in self.of(server))

    async def accepting(self, *servers: ApiServer, least: int = 1) -> None:
        """Wait until each server has accepted `least` writes since its start."""
        await until(
            lambda: all(self.accepted(server) >= least for server in servers),
            "writes are accepted",
            _ACCEPTED_WITHIN_S,
        )

    def written(self) -> list[Write]:
        """Return the writes that the servers have carried out, also those without an answer."""
        by_name = {one.name: one for one in self.attempts}
        writes = list[Write]()
        for name, version in _stored(self.attempts[0].server):
            one = by_name.get(name)
            if one is not None:
                writes.append(
                    Write(
                        one.server.server_id,
                        f"example.dev/{version}",
                        one.life_began,
                        one.began,
                        one.ended,
                    )
                )
        return writes

    def unkept(self) -> list[str]:
        """Return the names of accepted writes that are not stored."""
        there = {name for name, _ in _stored(self.attempts[0].server)}
        return [one.name for one in self.attempts if one.is_accepted and one.name not in there]


async def _status(client: httpx2.AsyncClient, url: str, widget: Mapping[str, object]) -> int:
    try:
        return (await client.post(url, json=widget)).status_code
    except httpx2.TransportError:
        return 0


def _stored(server: ApiServer) -> list[tuple[str, str]]:
    """Return name and version of all stored writes."""
    with sqlite3.connect(server.data) as file:
        rows = file.execute("SELECT name, version FROM writes ORDER BY revision").fetchall()
    file.close()
    return rows
