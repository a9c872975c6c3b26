"""Runs an ASGI application on its own, with its lifespan, until a signal ends it.

Source: https://asgi.readthedocs.io/en/latest/specs/lifespan.html
"""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from apidiscovery_service.serving.http import HttpServer
from apidiscovery_service.serving.http.messages import Application, Message, Receive, Scope, Send
from apidiscovery_service.workers import leave

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_GRACE_S = 5.0


def run(
    app: Application, host: str = "127.0.0.1", port: int = 8080, *, grace_s: float = _GRACE_S
) -> NoReturn:
    """Serve an application over HTTP/1.1 and HTTP/2 until SIGTERM or SIGINT, then end the process.

    The application's lifespan begins before the first request and ends after the last one; handlers
    of `atexit` do not run. The address is printed to standard error once the server listens. There
    is no TLS here: an ASGI server that has it, such as uvicorn with `--ssl-certfile` and
    `--ssl-keyfile`, runs the same application.

    Args:
        app: The application.
        host: A name, or a literal IPv4 or IPv6 address.
        port: 0 for any free one.
        grace_s: How long running requests may continue after the signal, in seconds.

    Raises:
        OSError: The address cannot be listened on.
        RuntimeError: The lifespan of the application failed.
    """
    asyncio.run(serve(app, host, port, grace_s=grace_s))
    leave(0)


async def serve(app: Application, host: str, port: int, *, grace_s: float = _GRACE_S) -> None:
    """Serve as `run` does, and return after the signal."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    try:
        async with _lifespan(app) as state:
            server = HttpServer(_with_state(app, state), host, port)
            shown = f"[{host}]" if ":" in host else host
            sys.stderr.write(f"listening on http://{shown}:{server.port}\n")
            serving = asyncio.create_task(server.serve())
            waiting = asyncio.create_task(stopped.wait())
            try:
                await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                await server.stop(grace_s)
            await serving
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


def _with_state(app: Application, state: dict[str, Any]) -> Application:
    """Return an application whose requests have what its lifespan has made."""

    async def with_state(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = state.copy()
        await app(scope, receive, send)

    return with_state


@asynccontextmanager
async def _lifespan(app: Application) -> AsyncGenerator[dict[str, Any]]:
    """Run the lifespan of an application, if it has one; yield its state."""
    state: dict[str, Any] = {}
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    from_app: asyncio.Queue[Message] = asyncio.Queue()
    scope: Scope = {
        "type": "lifespan",
        "asgi": {"version": "3.0", "spec_version": "2.0"},
        "state": state,
    }
    running = asyncio.ensure_future(app(scope, to_app.get, from_app.put))
    try:
        has_lifespan = await _answered("startup", to_app, from_app, running)
        yield state
        if has_lifespan:
            await _answered("shutdown", to_app, from_app, running)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _answered(
    event: str,
    to_app: asyncio.Queue[Message],
    from_app: asyncio.Queue[Message],
    running: "asyncio.Future[None]",
) -> bool:
    """Send a lifespan event; return whether the application answered, and so has a lifespan.

    Raises:
        RuntimeError: The application reports a failure.
    """
    to_app.put_nowait({"type": f"lifespan.{event}"})
    answering = asyncio.ensure_future(from_app.get())
    await asyncio.wait((answering, running), return_when=asyncio.FIRST_COMPLETED)
    if not answering.done():
        answering.cancel()
        return False
    answer = answering.result()
    if answer["type"] == f"lifespan.{event}.failed":
        raise RuntimeError(f"the application's {event} failed: {answer.get('message', '')}")
    return True
