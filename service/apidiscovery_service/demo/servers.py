"""Servers of the demo as processes: started, awaited, ended."""

import asyncio
import contextlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import cast

from apidiscovery_service.errors import DiscoveryError

_LOOK_S = 0.05
_START_S = 60.0
_STOP_S = 8.0
_SHOWN_LINES = 5


class ServerEnded(DiscoveryError):
    """A server of the demo has ended by itself, or does not get ready."""


class DemoServer:
    """`apidiscovery serve` in a process of its own, which may be stopped and started again.

    Args:
        folder: Its own, for the log and the ready file.
        flags: The flags of `serve`.
    """

    def __init__(self, folder: Path, *flags: str) -> None:
        self._folder = folder
        self._flags = flags
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> str:
        """Start it; return `host:port` of HTTP once it answers.

        Raises:
            ServerEnded: It does not get ready; the text has the end of its log.
        """
        self._folder.mkdir(exist_ok=True)
        ready, log = self._folder / "ready.json", self._folder / "log"
        # The caller's variables are meant for a server of their own.
        kept = {k: v for k, v in os.environ.items() if not k.startswith("APIDISCOVERY_")}
        command = [sys.executable, "-m", "apidiscovery_service.demo.child", *self._flags]
        with log.open("wb") as written:
            self._process = await asyncio.create_subprocess_exec(
                *command,
                *("--ready-file", str(ready), "--log-level", "warning"),
                stdin=asyncio.subprocess.PIPE,  # never written to; closed when the demo ends
                stdout=written,
                stderr=written,
                env=kept,
                # Ctrl-C reaches the demo alone, which ends its servers in order.
                start_new_session=True,
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                while self._process.returncode is None:
                    if ready.exists():
                        found = cast("dict[str, str]", json.loads(ready.read_bytes()))
                        return found["http"]
                    await asyncio.sleep(_LOOK_S)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise ServerEnded("\n".join(lines[-_SHOWN_LINES:]) or "a server does not get ready")

    async def ended(self) -> None:
        """Return when the process has ended."""
        if self._process is not None:
            await self._process.wait()

    async def stop(self) -> None:
        """End it, if it runs."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def free_address() -> str:
    """Return a loopback address with a port that is free now, for a server that starts again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"
