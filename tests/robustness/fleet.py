"""Clusters that flap, and readers of what replicas serve of each, and of all of them.

A cluster puts a word into everything that it says, `NAME-opNUMBER`, with another number every
moment. So every document tells which cluster said it, and whether it ever did.
"""

import asyncio
import json
import random
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import cast

import httpx2
from fake_api_server import (
    NOT_FOUND,
    Answer,
    Request,
    aggregated,
    document,
    openapi_routes,
)
from media_types import JSON_V2

from tests.robustness import documents
from tests.robustness.cluster import Replica
from tests.robustness.history import ClusterRead, ClusterSaid, ColumnRead, History
from tests.robustness.upstream import Listener

NAMES = ("f0", "f1", "f2")
POLL_S = 1
_TIMEOUT_S = 2
_CALL_S = 5.0
_WORD = re.compile(rb"f[0-9]-op[0-9]{6}")
_UNKNOWN = (b"is not known yet", b"has not been read")

_EMPTY = {"/apis": aggregated(), "/openapi/v3": document({"paths": {}})}
_ALWAYS = {
    "fail": Answer(b"", status=500),
    "miss": NOT_FOUND,
    "crawl": Answer(stalls=True),
    "stray": Answer(b"<html>Sign in</html>", "text/html"),
}


def group_of(name: str) -> str:
    """Return the only group of a cluster."""
    return f"{name}.flapping.test"


class Flapping:
    """A cluster that answers well, or in one of many wrong ways, at one address.

    Args:
        name: Its name.
        history: Gets what it says.
    """

    def __init__(self, name: str, history: History) -> None:
        self.name = name
        self._history = history
        self._listener = Listener(self._answer)
        self._number = 0
        self._mode = "well"
        self._emptied = set[str]()
        self._well: dict[str, Answer] = {}

    @property
    def config(self) -> dict[str, str]:
        """The configuration of the upstream."""
        often = f"{POLL_S}s"
        return {
            "url": self._listener.url,
            "poll-interval": often,
            "openapi-interval": often,
            "timeout": f"{_TIMEOUT_S}s",
        }

    def be(self, mode: str) -> None:
        """Answer in another way from now on, and say something else."""
        self._number += 1
        word = f"{self.name}-{documents.value(self._number)}"
        self._history.add(ClusterSaid(self.name, word, self._history.now()))
        self._well = _routes(group_of(self.name), word)
        self._mode = mode
        if mode == "refuse":
            self.stop()
        else:
            self._listener.listen()

    def stop(self) -> None:
        """Refuse connections."""
        self._listener.refuse()

    def _answer(self, request: Request) -> Answer:
        well = self._well.get(request.path, NOT_FOUND)
        half = well.body[: len(well.body) // 2]
        if self._mode in _ALWAYS:
            return _ALWAYS[self._mode]
        if self._mode == "break" and half:
            return Answer(half, well.content_type, well.status, length=len(well.body))
        if self._mode == "cut" and half:
            return Answer(half, well.content_type, well.status)
        if self._mode == "empty" and request.path in _EMPTY and request.path not in self._emptied:
            self._emptied.add(request.path)  # once: a second time in a row it would be believed
            return _EMPTY[request.path]
        if self._mode != "empty":
            self._emptied.discard(request.path)
        return well


_MODES = ("well", "well", "refuse", "fail", "miss", "break", "cut", "crawl", "stray", "empty")


def _routes(group: str, word: str) -> dict[str, Answer]:
    described: dict[str, object] = {
        "openapi": "3.0.0",
        "info": {"title": word, "version": "1"},
        "paths": {},
        "components": {"schemas": {}},
    }
    whole = {"swagger": "2.0", "info": {"title": word, "version": "1"}, "paths": {}}
    return {
        "/api": aggregated(),
        "/apis": aggregated(documents.discovery_item(group, word)),
        "/version": document({"major": "1", "minor": "30", "gitVersion": f"v1.30.0-{word}"}),
        "/openapi/v2": document(whole),
        **openapi_routes({f"apis/{group}/{documents.VERSION}": json.dumps(described).encode()}),
    }


class Fleet:
    """All clusters that flap.

    Args:
        history: Gets what they say.
    """

    def __init__(self, history: History) -> None:
        self.clusters = [Flapping(name, history) for name in NAMES]
        self._flaps = asyncio.Event()

    @property
    def config(self) -> dict[str, dict[str, str]]:
        """The configuration of all, by name."""
        return {cluster.name: cluster.config for cluster in self.clusters}

    def calm(self) -> None:
        """Let all be well until `resume`, so that replicas can come to serve the same."""
        self._flaps.clear()
        for cluster in self.clusters:
            cluster.be("well")

    def resume(self) -> None:
        """Let them flap again."""
        self._flaps.set()

    async def flap(self, seed: int) -> None:
        """Change how one of them answers every moment, until cancelled."""
        chance = random.Random(f"{seed} flapping")  # noqa: S311 - no secret
        while True:
            await asyncio.sleep(chance.uniform(0.2, 1.0))
            await self._flaps.wait()
            chance.choice(self.clusters).be(chance.choice(_MODES))


@asynccontextmanager
async def flapping(history: History) -> AsyncGenerator[Fleet]:
    """Run clusters that are well until they are told to flap."""
    fleet = Fleet(history)
    try:
        fleet.calm()
        yield fleet
    finally:
        for cluster in fleet.clusters:
            cluster.stop()


async def read(history: History, replicas: Sequence[Replica], seed: int, rate: float) -> None:
    """Read documents of clusters at replicas at random, until cancelled."""
    chance = random.Random(f"{seed} fleet")  # noqa: S311 - no secret
    async with httpx2.AsyncClient(trust_env=False, timeout=_CALL_S) as http:
        while True:
            await asyncio.sleep(chance.expovariate(rate))
            name, group = (picked := chance.choice(NAMES)), group_of(picked)
            version = f"{group}/{documents.VERSION}"
            paths = ("/apis", f"/apis/{version}", "/version", "/openapi/v2")
            path = chance.choice((*paths, "/openapi/v3", f"/openapi/v3/apis/{version}"))
            await _ask(history, http, chance.choice(replicas), name, path)


async def look(history: History, replicas: Sequence[Replica], seed: int, rate: float) -> None:
    """Look at the columns and cells of all clusters at replicas at random, until cancelled."""
    chance = random.Random(f"{seed} columns")  # noqa: S311 - no secret
    async with httpx2.AsyncClient(trust_env=False, timeout=_CALL_S) as http:
        while True:
            await asyncio.sleep(chance.expovariate(rate))
            path = chance.choice(("/fleet/clusters", "/fleet/matrix"))
            for read in await _columns(history, http, chance.choice(replicas), path):
                history.add(read)


async def _columns(
    history: History, http: httpx2.AsyncClient, replica: Replica, path: str
) -> list[ColumnRead]:
    began, status = history.now(), ""
    columns: dict[str, dict[str, object]] = {}
    cells = Counter[str]()
    with suppress(httpx2.HTTPError):
        answer = await http.get(f"http://{replica.http}{path}")
        status = str(answer.status_code)
        if answer.status_code == HTTPStatus.OK:
            told = cast("dict[str, list[dict[str, object]]]", answer.json())
            columns = {str(column["name"]): column for column in told["clusters"]}
            cells = _cells(told["rows"]) if path == "/fleet/matrix" else cells
    ended = history.now()
    return [
        ColumnRead(
            replica.name,
            name,
            path,
            began,
            ended,
            status,
            str(column.get("freshness", "")),
            str(column.get("since", "")),
            tuple(word.decode() for word in _WORD.findall(str(column.get("version")).encode())),
            min(
                int(str(column.get("resources", 0))),
                cells[name] if path == "/fleet/matrix" else sys.maxsize,
            ),
        )
        for name in NAMES
        for column in [columns.get(name, {})]
    ]


def _cells(rows: Iterable[Mapping[str, object]]) -> Counter[str]:
    """Return how many cells with versions each cluster has."""
    return Counter(
        name
        for row in rows
        for cell in cast("list[dict[str, list[str]]]", row["cells"])
        if cell.get("versions")
        for name in cell["clusters"]
    )


async def _ask(
    history: History, http: httpx2.AsyncClient, replica: Replica, name: str, path: str
) -> None:
    began, status, words, problem = history.now(), "", set[str](), ""
    try:
        url = f"http://{replica.http}/clusters/{name}{path}"
        answer = await http.get(url, headers={"Accept": JSON_V2} if path == "/apis" else {})
        status, body = str(answer.status_code), answer.content
        words = {found.decode() for found in _WORD.findall(body)}
        if path == "/openapi/v3" and group_of(name).encode() in body:
            words = {name}  # an index has no word, only the names of documents
        if any(text in body for text in _UNKNOWN):
            problem = "unknown"
    except httpx2.HTTPError as error:
        problem = f"{type(error).__name__}: {error}"
    history.add(
        ClusterRead(
            replica.name, name, path, began, history.now(), status, tuple(sorted(words)), problem
        )
    )
