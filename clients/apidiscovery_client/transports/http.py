"""Asks a server for discovery over HTTP while the caller waits.

It imports neither asyncio nor an HTTP library, for a command line that is to be as fast as kubectl.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from threading import Lock

from apidiscovery_client._errors import ClientClosed, DiscoveryError, InvalidConfiguration
from apidiscovery_client._http.flow import (
    DEFAULT_OPTIONS,
    Ask,
    HttpOptions,
    Outcome,
    advanced,
    discovery,
)
from apidiscovery_client._http.reply import MAX_CONCURRENT_REQUESTS, Reply
from apidiscovery_client._interfaces import FetchedSnapshot, Traffic
from apidiscovery_client._server import Server
from apidiscovery_client.transports._side_by_side import side_by_side
from apidiscovery_client.transports._streams import Scope
from apidiscovery_client.transports._sync_session import SyncSession


class HttpTransport:
    """Implements `Transport` for any Kubernetes API server; may be used by several threads.

    Args:
        server: The server.
        options: How to ask it.
        progress: Called after each answer, from several threads, with how many have come of
            how many that are asked for at the same time.

    Raises:
        ServerUnreachable: The proxy that the environment names cannot be used.
    """

    def __init__(
        self,
        server: Server,
        options: HttpOptions = DEFAULT_OPTIONS,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        self._server = server
        self._options = options
        self._progress = progress
        self._session = SyncSession(server, max_body_bytes=options.max_body_bytes)
        self._lock = Lock()
        self._scopes: set[Scope] = set()
        self._is_closed = False

    @property
    def server(self) -> str:
        """Return the URL of the server."""
        return self._server.url

    @property
    def traffic(self) -> Traffic:
        """Return the counters, which go on counting."""
        return self._session.traffic

    @property
    def can_listen(self) -> bool:
        """Return that HTTP servers do not push."""
        return False

    def fetch(self, fetched: FetchedSnapshot | None) -> FetchedSnapshot:
        """Return what the server serves now; raise as `http.flow.discovery` does.

        Raises:
            ClientClosed: It was closed, maybe meanwhile.
        """
        with self._scope() as scope:
            flow = discovery(self.server, fetched, self._options)
            asks: Sequence[Ask] | FetchedSnapshot = next(flow)
            while not isinstance(asks, FetchedSnapshot):
                asks = advanced(flow, self._together(asks, scope))
            return asks

    def get(self, path: str, accept: str) -> Reply:
        """Return what the server answers, whatever its status; raise `DiscoveryError` else."""
        with self._scope() as scope:
            return self._session.get(path, accept, "", scope)

    @contextmanager
    def _scope(self) -> Generator[Scope]:
        """Give what ends requests under way when it is closed; raise `ClientClosed` after that."""
        scope = Scope()
        with self._lock:
            if self._is_closed:
                raise ClientClosed(self.server)
            self._scopes.add(scope)
        try:
            yield scope
        finally:
            with self._lock:
                self._scopes.discard(scope)
                is_last = self._is_closed and not self._scopes
            if is_last:
                self._session.close()

    def listen(self, fetched: FetchedSnapshot | None) -> Generator[FetchedSnapshot]:
        """Raise `NotImplementedError`: what has changed must be asked for."""
        raise NotImplementedError("HTTP servers do not push what has changed; fetch it again")

    def close(self) -> None:
        """Let go of all connections; requests under way fail. It may be called again."""
        with self._lock:
            self._is_closed = True
            scopes = tuple(self._scopes)
        for scope in scopes:
            scope.end()
        self._session.close()

    def _together(self, asks: Sequence[Ask], scope: Scope) -> list[Outcome]:
        """Return the outcomes of requests sent side by side, in their order."""
        answers = count(1)

        def answered(ask: Ask) -> Outcome:
            outcome = self._outcome(ask, scope)
            if self._progress:
                self._progress(next(answers), len(asks))
            return outcome

        calls = [partial(answered, ask) for ask in asks]
        return side_by_side(calls, MAX_CONCURRENT_REQUESTS, scope.end)

    def _outcome(self, ask: Ask, scope: Scope) -> Outcome:
        try:
            return self._session.get(ask.path, ask.accept, ask.etag, scope)
        except (InvalidConfiguration, ClientClosed):
            raise
        except DiscoveryError as error:
            return error
