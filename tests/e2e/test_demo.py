"""`apidiscovery demo` as people run it: a fleet, its history and pages, until Ctrl-C."""

import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from apidiscovery_service.app.settings import Address
from command_line import run
from programs import kubectl, run_apidiscovery
from server import COMMAND, environment
from waiting import WITHIN_S, eventually

_READY_S = 90.0  # it takes some seconds on a machine that does nothing else


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="module")
def demo(folder: Path) -> Iterator[httpx2.Client]:
    """Return a client of a running demo, which is ended by Ctrl-C."""
    with subprocess.Popen(  # noqa: S603 - our own arguments
        [str(COMMAND), "demo", "--http", "127.0.0.1:0"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A variable of the user's own server does not reach those of the demo.
        env=environment(folder, {"TMPDIR": str(folder), "APIDISCOVERY_CATALOG": "none"}),
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            url = re.search(r"http://[0-9.:]+", process.stdout.readline())
            assert url is not None, process.stderr.read()
            with httpx2.Client(base_url=url[0], trust_env=False, timeout=WITHIN_S) as client:
                yield client
            process.send_signal(signal.SIGINT)
            assert process.wait(_READY_S) == 0
            assert process.stderr.read() == "Starting three clusters and a server over them ...\n"
        finally:
            process.kill()
    assert not list(folder.glob("apidiscovery-demo-*"))


def _resources(folder: Path, url: str) -> str:
    found = kubectl(folder, "api-resources", "--server", url)
    return found.stdout if found.exit_code == 0 else ""


def test_it_has_three_releases_of_which_one_lacks_a_kind(demo: httpx2.Client, folder: Path) -> None:
    def read(name: str) -> str:
        url = f"{demo.base_url}/clusters/{name}"
        return eventually(lambda: _resources(folder, url), f"{name} answers", _READY_S)

    assert "certificates " in read("east")
    assert "certificates " in read("north")
    assert "certificates " not in read("west")
    assert "gatewayclasses " in read("west")


def test_its_history_has_a_week_that_ends_with_what_is_served(demo: httpx2.Client) -> None:
    week_ago = datetime.now(UTC) - timedelta(days=6.9)
    then = demo.get("/clusters/east/version", params={"at": f"{week_ago:%Y-%m-%dT%H:%M:%SZ}"})
    assert "v1.34" in then.raise_for_status().text
    page = demo.get("/ui/", headers={"accept": "text/html"}).raise_for_status().text
    assert "first seen by this process" not in page


def test_something_changes_while_it_runs(demo: httpx2.Client) -> None:
    before = demo.get("/clusters/east/apis").text
    eventually(
        lambda: demo.get("/clusters/east/apis").text != before,
        "a definition of east changes",
        _READY_S,
    )


def test_an_address_that_others_can_reach_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run(capsys, "demo", "--http", "0.0.0.0:0")
    assert outcome.exit_code == 2
    assert "want a loopback address" in outcome.stderr


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def test_an_address_in_use_is_reported_before_anything_starts(
    family: socket.AddressFamily, tmp_path: Path
) -> None:
    host = "127.0.0.1" if family is socket.AF_INET else "::1"
    with socket.create_server((host, 0), family=family) as taken:
        address = Address(host, taken.getsockname()[1])
        outcome = run_apidiscovery(tmp_path, "demo", "--http", str(address))
    assert outcome.exit_code == 1
    assert outcome.stderr == (
        f"error: --http {address}: Address already in use; give another address, such as"
        " --http 127.0.0.1:0\n"
    )


_STARTS_A_SERVER = """\
import asyncio, sys
from pathlib import Path
from apidiscovery_service.demo.servers import DemoServer

async def main():
    server = DemoServer(Path(sys.argv[1]), *sys.argv[2:])
    print(await server.start(), flush=True)
    await server.ended()

asyncio.run(main())
"""


def test_no_server_outlives_a_demo_that_is_killed(tmp_path: Path) -> None:
    flags = ["--http", "127.0.0.1:0", "--grpc", "off", "--store", "memory", "--catalog", "none"]
    with subprocess.Popen(  # noqa: S603 - our own arguments
        [sys.executable, "-c", _STARTS_A_SERVER, str(tmp_path / "server"), *flags],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().strip().rpartition(":")
        socket.create_connection((host, int(port))).close()
        process.kill()
    eventually(lambda: not _listens(host, int(port)), "the server ends", _READY_S)


def _listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0
