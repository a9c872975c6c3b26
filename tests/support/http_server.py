"""The HTTP server in this process."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from apidiscovery_service.serving.http import HttpServer
from apidiscovery_service.serving.http.messages import Application


@asynccontextmanager
async def running(server: HttpServer, grace_s: float = 1.0) -> AsyncGenerator[None]:
    """Run a server; at the end its requests have `grace_s` seconds to finish."""
    serving = asyncio.create_task(server.serve())
    try:
        yield
    finally:
        await server.stop(grace_s)
        await serving


@asynccontextmanager
async def served(app: Application) -> AsyncGenerator[str]:
    """Serve an application on a free port; yield its URL."""
    server = HttpServer(app, "127.0.0.1", 0)
    async with running(server):
        yield f"http://127.0.0.1:{server.port}"
