"""An API server behind the replicas that lives, dies, says nothing, or says that it has nothing."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

from fake_api_server import NOT_FOUND, Answer, FakeApiServer, Request, aggregated
from programs import free_port

from tests.robustness import documents

GROUP = "upstream.robust.test"
POLL_S = 1
_TIMEOUT_S = 2


class Listener:
    """A fake API server at one address, whether it listens or not.

    Args:
        answer: Returns the answer of a request.
    """

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        self._answer = answer
        self._port = free_port()
        self._server: FakeApiServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def listen(self) -> None:
        """Take connections, and continue with stalled requests."""
        if self._server is None:
            self._server = FakeApiServer(self._answer, port=self._port)
            self._server.__enter__()
        self._server.resume()

    def refuse(self) -> None:
        """Refuse connections."""
        if self._server is not None:
            self._server.__exit__()
            self._server = None


class Upstream:
    """An upstream with one group, at one address whether it lives or not.

    Attributes:
        value: What its group says.
    """

    def __init__(self) -> None:
        self.value = documents.value(0)
        self._listener = Listener(self._answer)
        self._hangs = False
        self._empty = 0

    def __enter__(self) -> Self:
        self.live()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def config(
        self,
        manifests: Sequence[Path] = (),
        catalog: str = "none",
        others: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    ) -> str:
        """Return the configuration of a server that follows it, and has these manifests."""
        upstream = {"url": self._listener.url, "poll-interval": f"{POLL_S}s"}
        upstream["timeout"] = f"{_TIMEOUT_S}s"
        upstreams = {"far": {**upstream, "openapi": False}, **others}
        local = {"catalog": catalog, "manifests": [str(path) for path in manifests]}
        return json.dumps({**local, "upstreams": upstreams})

    def live(self) -> None:
        """Listen and answer."""
        self._hangs = False
        self._listener.listen()

    def die(self) -> None:
        """Refuse connections."""
        self._listener.refuse()

    def hang(self) -> None:
        """Take connections and requests, and answer nothing until `live`."""
        self._hangs = True

    def be_empty(self, times: int) -> None:
        """Answer as one that has no groups, so many times."""
        self._empty = times

    async def change_forever(self, every_s: float) -> None:
        """Say something else every so often, until cancelled."""
        for number in range(10**6):
            self.value = documents.value(number)
            await asyncio.sleep(every_s)

    def _answer(self, request: Request) -> Answer:
        if self._hangs:
            return Answer(stalls=True)
        if request.path == "/api":
            return aggregated()
        if request.path != "/apis":
            return NOT_FOUND
        if self._empty:
            self._empty -= 1
            return aggregated()
        return aggregated(documents.discovery_item(GROUP, self.value))
