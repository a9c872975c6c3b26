"""The interface of pages for browsers: requests for pages, and their answers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol, TypeAlias

from apidiscovery_service.serving.http.admission import Credentials
from apidiscovery_service.serving.http.messages import Headers, Receive, Request, Response
from apidiscovery_service.serving.http.statuses import text_response

Events: TypeAlias = AsyncGenerator[bytes]

_PACKAGES = ("jinja2", "markdown_it")


@dataclass(frozen=True, slots=True)
class PageExchange:
    """A request for a page, before its caller is known, and the ways to answer it.

    Attributes:
        request: The request.
        headers: Its header fields by name in lower case; of several of a name the last.
        credentials: The credentials of its caller, without cookies.
        root: The prefix under which the application is mounted; empty for none.
        receive: As ASGI has it.
        answer: Answers, given the limit key of the caller.
        stream: Answers with header fields and events, each sent at once, until they end or the
            client has gone; given the limit key, too.
    """

    request: Request
    headers: Mapping[str, str]
    credentials: Credentials
    root: str
    receive: Receive
    answer: Callable[[str, Response], Awaitable[None]]
    stream: Callable[[str, Headers, Events], Awaitable[None]]


class UserInterface(Protocol):
    """Answers browsers."""

    def takes(self, path: str, accept: bytes | None) -> bool:
        """Return whether a request is answered here, given its path and its Accept field."""
        ...

    def stop(self) -> None:
        """End all streams."""
        ...

    async def serve(self, exchange: PageExchange) -> None:
        """Answer a request."""
        ...


def is_page(path: str, accept: bytes | None) -> bool:
    """Return whether a request is for a page: below `/ui`, or `/` from a browser."""
    if path.startswith("/ui"):
        return path == "/ui" or path.startswith("/ui/")
    return path == "/" and accept is not None and accept.startswith(b"text/html")


class PagesOnDemand:
    """Pages that are made when the first browser comes: they take 0.2 s and 7 MB.

    For the event loop's thread.

    Args:
        load: Imports what they need; called in a thread.
        make: Makes them, once that is imported.
    """

    def __init__(self, load: Callable[[], object], make: Callable[[], UserInterface]) -> None:
        self._load = load
        self._make = make
        self._turn = asyncio.Lock()
        self._made: UserInterface | None = None
        self._is_stopped = False

    def takes(self, path: str, accept: bytes | None) -> bool:
        """Return whether a request is for a page."""
        return is_page(path, accept)

    def stop(self) -> None:
        """End all streams."""
        self._is_stopped = True
        if self._made is not None:
            self._made.stop()

    async def serve(self, exchange: PageExchange) -> None:
        """Answer a request."""
        async with self._turn:
            if self._made is None:
                await asyncio.to_thread(self._load)
                self._made = self._make()
                if self._is_stopped:
                    self._made.stop()
        await self._made.serve(exchange)


def missing_packages() -> list[str]:
    """Return the packages of the extra `web` that are not installed."""
    return [name for name in _PACKAGES if find_spec(name) is None]


class NoPages:
    """Answers requests for pages with the reason why there are none.

    Args:
        missing: The packages that are not installed.
    """

    def __init__(self, missing: Sequence[str]) -> None:
        self._why = (
            f"pages for browsers need {' and '.join(missing)}, which the extra `web` brings: "
            "pip install 'apidiscovery[web]'"
        )

    def takes(self, path: str, accept: bytes | None) -> bool:  # noqa: ARG002 - as UserInterface
        """Return whether a path is that of a page; `/` is answered as without pages."""
        return path == "/ui" or path.startswith("/ui/")

    def stop(self) -> None:
        """End nothing: there are no streams."""

    async def serve(self, exchange: PageExchange) -> None:
        """Answer 404 with the reason."""
        await exchange.answer("", text_response(404, f"404 page not found: {self._why}\n"))
