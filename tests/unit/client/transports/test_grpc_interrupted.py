"""Ctrl-C reaches a caller that listens with the blocking gRPC transport, and ends the call."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process

from programs import python
from scripted_discovery import Hang, Scripted, changed, changes, group, scripted
from waiting import WITHIN_S

TIMES = 3  # each at another moment
APPS = changes(changed(group("apps", "deployments"), 0))
LISTENING = """
import sys, threading
from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client.transports.grpc import GrpcTransport

with GrpcTransport(GrpcServer(address=sys.argv[1])) as transport:
    try:
        for _ in transport.listen(None):
            print("told", flush=True)
    except KeyboardInterrupt:
        threads = [thread.name for thread in threading.enumerate()]
        print("interrupted", "watchdog" in threads, flush=True)
"""
# An interrupt at a random moment of each round; the second timer is for an end that never comes.
STORM = """
import signal
from apidiscovery_client.transports._grpcio_calls import Watchdog

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
for turn in range(300):
    watchdog = Watchdog(60.0, lambda: None)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003 + turn * 1e-6)
        while True:
            with watchdog.awake():
                pass
    except KeyboardInterrupt:
        pass
    signal.setitimer(signal.ITIMER_REAL, 10.0)
    watchdog.end()
    signal.setitimer(signal.ITIMER_REAL, 0)
print("ended")
"""


async def test_interrupt_reaches_who_listens_and_ends_the_call() -> None:
    async with scripted() as script:
        for _ in range(TIMES):
            assert await _interrupted(script) == (0, b"interrupted False\n", b"")


async def _interrupted(script: Scripted) -> tuple[int | None, bytes, bytes]:
    """Return how a process ends that listens, and is interrupted as soon as it was told."""
    script.watches.append([APPS, Hang()])
    script.gone.clear()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", LISTENING, script.address, stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(WITHIN_S):
            return await _interrupt(process, script)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _interrupt(process: Process, script: Scripted) -> tuple[int | None, bytes, bytes]:
    assert process.stdout is not None
    assert await process.stdout.readline() == b"told\n"
    process.send_signal(signal.SIGINT)
    stdout, stderr = await process.communicate()
    await script.gone.wait()
    return process.returncode, stdout, stderr


def test_watchdog_ends_wherever_its_reader_is_interrupted() -> None:
    outcome = python(STORM)
    assert (outcome.exit_code, outcome.stdout) == (0, "ended\n"), outcome.stderr
