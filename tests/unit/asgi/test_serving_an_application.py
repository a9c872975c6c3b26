"""An application that `serve` runs: its lifespan, and the signals that end it."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from apidiscovery_service.extension_server import (
    ApiGroup,
    ApiResource,
    ApiVersion,
    discovery_app,
)
from apidiscovery_service.extension_server.running import serve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from waiting import WITHIN_S

GROUPS = [ApiGroup("example.dev", [ApiVersion("v1", [ApiResource("widgets", "Widget")])])]
PATH = "/apis/example.dev/v1/widgets"


def starlette(events: list[str], asked: asyncio.Event, *, mounts: bool) -> Starlette:
    """Return an application that records events; a request takes a moment."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[dict[str, Any]]:
        events.append("started")
        yield {"database": "open"}
        events.append("ended")

    async def widgets(request: Request) -> JSONResponse:
        asked.set()
        await asyncio.sleep(0.3)
        events.append("answered")
        return JSONResponse({"database": request.state.database})

    mount = [Mount("/", discovery_app(GROUPS))] if mounts else []
    return Starlette(routes=[Route(PATH, widgets), *mount], lifespan=lifespan)


async def listening(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the URL that is printed."""
    for _ in range(3000):
        if found := re.search(
            r"^listening on (http://\S+)$", capsys.readouterr().err, re.MULTILINE
        ):
            return found[1]
        await asyncio.sleep(0.01)
    raise TimeoutError


@pytest.mark.parametrize(
    ("number", "mounts"),
    [
        pytest.param(signal.SIGTERM, True, id="SIGTERM-mounted"),
        pytest.param(signal.SIGINT, False, id="SIGINT-wrapped"),
    ],
)
async def test_a_signal_ends_requests_and_then_the_lifespan(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], *, mounts: bool
) -> None:
    events: list[str] = []
    asked = asyncio.Event()
    own = starlette(events, asked, mounts=mounts)
    app: ASGIApp = own if mounts else discovery_app(GROUPS, app=own)
    serving = asyncio.create_task(serve(app, "127.0.0.1", 0))
    url = await listening(capsys)
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as http:
        assert (await http.get("/apis/example.dev")).json()["kind"] == "APIGroup"
        asking = asyncio.create_task(http.get(PATH))
        await asyncio.wait_for(asked.wait(), WITHIN_S)
        os.kill(os.getpid(), number)
        assert (await asking).json() == {"database": "open"}
    await asyncio.wait_for(serving, WITHIN_S)
    assert events == ["started", "answered", "ended"]


async def test_an_application_that_does_not_start_is_an_error() -> None:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        raise ValueError("no database")
        yield

    with pytest.raises(RuntimeError, match=r"startup failed: (.|\n)*no database"):
        await serve(Starlette(lifespan=lifespan), "127.0.0.1", 0)


async def test_an_application_without_lifespan_is_served(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def app(scope: Scope, _: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    serving = asyncio.create_task(serve(app, "127.0.0.1", 0))
    url = await listening(capsys)
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as http:
        assert (await http.get("/")).status_code == 204
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, WITHIN_S)


def test_a_process_ends_with_the_lifespan(tmp_path: Path) -> None:
    """Threads of Granian would abort it at times if the interpreter were finalized."""
    program = """
import contextlib
from apidiscovery_service.extension_server import run
from starlette.applications import Starlette

@contextlib.asynccontextmanager
async def lifespan(_):
    yield
    print("ended")

run(Starlette(lifespan=lifespan), port=0)
"""
    with subprocess.Popen(  # noqa: S603 - our own arguments
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("listening on http://127.0.0.1:")
        process.terminate()
        said, errors = process.communicate(timeout=30)
    assert (process.returncode, said, errors) == (0, "ended\n", "")


def test_without_the_extra_the_error_names_it(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['orjson'] = None\n"
        "try:\n    import apidiscovery_service.extension_server\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, "-c", program], check=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == (
        "orjson is not installed, which the extra `server` brings;"
        " run: pip install 'apidiscovery[server]'\n"
    )
