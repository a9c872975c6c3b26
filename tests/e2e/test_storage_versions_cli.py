"""`apidiscovery storage-versions` with real servers: on terminals, on pipes, and at their end."""

import json
import signal
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc
from click import unstyle
from command_line import Outcome, run
from object_server import PATH as OBJECTS
from programs import free_port, on_a_terminal
from raw_http import request
from server import COMMAND, DRAIN_S, START_S, Serve, Server, environment, serving
from waiting import WITHIN_S, eventually

GATE = ("--feature-gates", "StorageVersionAPI=true")
DEPLOYMENTS = "apps.deployments"
LINE = f"storageversion.internal.apiserver.k8s.io/{DEPLOYMENTS}"
# When an interrupted or refused command must have ended.
END_S = 20.0

Cli = Callable[..., Outcome]


class ApiServer:
    """An API server as the service sees it."""

    def __init__(self, address: str, hostname: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._stub = storage_version_pb2_grpc.StorageVersionServiceStub(self._channel)
        request = pb.HeartbeatRequest(hostname=hostname, instance="1")
        self.id = self._stub.Heartbeat(request, timeout=WITHIN_S).api_server_id

    def writes(self, version: str, resource: str = "deployments") -> None:
        """Report that a resource of the group apps is written in a version of it."""
        one = pb.ReportedResource(
            group="apps",
            resource=resource,
            encoding_version=f"apps/{version}",
            decodable_versions=[f"apps/{version}"],
        )
        request = pb.ReportRequest(api_server_id=self.id, resources=[one])
        self._stub.Report(request, timeout=WITHIN_S, wait_for_ready=True)

    def departs(self) -> None:
        self._stub.Depart(pb.DepartRequest(api_server_id=self.id), timeout=WITHIN_S)

    def __del__(self) -> None:
        self._channel.close()


Join = Callable[[str], ApiServer]


@pytest.fixture(scope="module", name="gated")
def fixture_gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server with the feature gate on; each test leaves it as it found it."""
    with serving(tmp_path_factory.mktemp("gated"), "--store", "memory", *GATE) as server:
        yield server


@pytest.fixture(name="join")
def fixture_join(gated: Server) -> Iterator[Join]:
    """Return what makes API servers members; at the end of the test nothing of them is left."""
    joined: list[ApiServer] = []

    def join(hostname: str) -> ApiServer:
        joined.append(ApiServer(gated.grpc, hostname))
        return joined[-1]

    yield join
    for one in joined:
        one.departs()
    assert request(gated.http_port, OBJECTS, method="DELETE").status == 200


@pytest.fixture(name="cli")
def fixture_cli(gated: Server, capsys: pytest.CaptureFixture[str]) -> Cli:
    return lambda *args: run(capsys, "storage-versions", *args, "--grpc-server", gated.grpc)


class Running:
    """A command that goes on.

    Attributes:
        process: The process.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", out: Path, err: Path) -> None:
        self.process = process
        self._out, self._err = out, err

    @property
    def stdout(self) -> str:
        return self._out.read_text(encoding="utf-8")

    @property
    def stderr(self) -> str:
        return self._err.read_text(encoding="utf-8")

    def prints(self, *texts: str) -> None:
        """Wait until all of these have been printed."""
        eventually(
            lambda: all(text in self.stdout + self.stderr for text in texts),
            f"{texts} in {self.stdout!r}, {self.stderr!r}",
        )


@contextmanager
def running(folder: Path, address: str, *args: str) -> Generator[Running]:
    """Run `apidiscovery storage-versions ARGS` meanwhile."""
    out, err = folder / "command.out", folder / "command.err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(  # noqa: S603 - our own arguments
            [str(COMMAND), "storage-versions", *args, "--grpc-server", address],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=environment(folder),
            cwd=folder,
        )
    try:
        yield Running(process, out, err)
    finally:
        process.kill()
        process.wait()


def on_terminal(folder: Path, address: str, *args: str, **env: str) -> str:
    """Return what `apidiscovery storage-versions ARGS` writes on a terminal."""
    return on_a_terminal(folder, "storage-versions", *args, "--grpc-server", address, env=env)


def test_who_writes_what(join: Join, cli: Cli) -> None:
    """Discovery says apps/v1, and servers that write something else are shown to differ."""
    first, second = join("node-1"), join("node-2")
    first.writes("v1beta1")
    second.writes("v1beta1")
    second.writes("v1", "daemonsets")
    outcome = cli()
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    head, daemon_sets, deployments = (line.split() for line in outcome.stdout.splitlines())
    # Members are by identity.
    hosts = ["NODE-1", "NODE-2"] if first.id < second.id else ["NODE-2", "NODE-1"]
    assert head == ["RESOURCE", *hosts, "COMMON", "AGREED", "HASH"]
    assert deployments == [DEPLOYMENTS, *["v1beta1"] * 3, "True", "DIFFERENT"]
    cells = ["-", "v1"] if first.id < second.id else ["v1", "-"]
    assert daemon_sets == ["apps.daemonsets", *cells, "v1", "True", "same"]
    wide = cli("-o", "wide", DEPLOYMENTS).stdout
    assert "v1beta1 [v1beta1]" in wide
    assert "want" in wide
    told = json.loads(cli("-o", "json").stdout)
    assert [one["metadata"]["name"] for one in told["storageVersions"]] == [
        "apps.daemonsets",
        DEPLOYMENTS,
    ]
    assert len(told["members"]) == 2
    assert [one["verdict"] for one in told["hashComparisons"]] == ["same", "different"]
    assert cli("apps.nothing").exit_code == 1


def test_colours_are_for_terminals(gated: Server, join: Join, cli: Cli, tmp_path: Path) -> None:
    join("node-1").writes("v1")
    plain = cli().stdout
    assert "\x1b" not in plain
    coloured = on_terminal(tmp_path, gated.grpc)
    assert "\x1b[32mv1\x1b[0m" in coloured
    assert unstyle(coloured) == plain
    assert on_terminal(tmp_path, gated.grpc, NO_COLOR="1") == plain
    assert on_terminal(tmp_path, gated.grpc, "--color", "never") == plain
    assert on_terminal(tmp_path, gated.grpc, "--color", "always", NO_COLOR="1") == coloured
    assert cli("--color", "always").stdout == coloured


def test_watch_ends_when_it_is_interrupted(gated: Server, join: Join, tmp_path: Path) -> None:
    one = join("node-1")
    one.writes("v1beta1")
    with running(tmp_path, gated.grpc, "--watch") as command:
        command.prints("v1beta1")
        one.writes("v1")
        command.prints("same")
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(END_S) == 130
        assert "Traceback" not in command.stderr
        assert command.stdout.count("RESOURCE") == 2


def test_a_watch_and_many_streams_end_with_their_server(serve: Serve, tmp_path: Path) -> None:
    """It stops at once, not when the time for calls is over."""
    server = serve(*GATE)
    ApiServer(server.grpc, "node-1").writes("v1")
    args = (tmp_path, server.grpc, "--watch", "--request-timeout", "3s")
    with running(*args) as command, grpc.insecure_channel(server.grpc) as channel:
        command.prints("NODE-1")
        stub = storage_version_pb2_grpc.StorageVersionServiceStub(channel)
        target = pb.AgreementTarget(name=DEPLOYMENTS, encoding_version="apps/v7")
        calls = [
            stub.WaitForAgreement(pb.WaitForAgreementRequest(targets=[target])) for _ in range(50)
        ]
        for call in calls:
            next(call)
        assert server.stop() < DRAIN_S
        for call in calls:
            assert call.code() is grpc.StatusCode.UNAVAILABLE
            assert call.details() == "the server is stopping"
        assert command.process.wait(WITHIN_S) == 1
        lines = command.stderr.splitlines()
    assert lines[0] == "warning: the server is stopping; trying again"
    assert lines[1].startswith("error: the connection to the server")
    assert len(lines) == 2


def test_wait(gated: Server, join: Join, cli: Cli, tmp_path: Path) -> None:
    """0 when all agree, 3 when the time has passed before, and who is waited for by hostname."""
    first, second = join("node-1"), join("node-2")
    first.writes("v1")
    second.writes("v1beta1")
    outcome = cli("wait", "apps.deployments=apps/v1", "--timeout", "3s")
    assert outcome == Outcome(
        3,
        "",
        f"{LINE} waiting: agreeing node-1; lagging node-2\n"
        f"error: timed out waiting for agreement on {DEPLOYMENTS}\n",
    )
    target = "apps.deployments=apps/v1"
    with running(tmp_path, gated.grpc, "wait", target, "--timeout", "0") as command:
        command.prints("lagging node-2")
        second.writes("v1")
        assert command.process.wait(WITHIN_S) == 0
        assert command.stdout == f"{LINE} condition met: all write apps/v1\n"
    assert cli("wait", "-q", DEPLOYMENTS).exit_code == 0
    assert cli("wait").exit_code == 2
    bad = cli("wait", "=v1", "a" * 400)
    assert bad.exit_code == 1
    assert bad.stderr.startswith("error: targets[")


def test_wait_is_interrupted(gated: Server, tmp_path: Path) -> None:
    with running(tmp_path, gated.grpc, "wait", DEPLOYMENTS, "--timeout", "0") as command:
        command.prints("no server has reported yet")
        command.process.send_signal(signal.SIGINT)
        assert command.process.wait(END_S) == 130
        assert "Traceback" not in command.stderr


def test_wait_goes_on_while_the_service_restarts(tmp_path: Path) -> None:
    """It is told once, and what is agreed upon afterwards ends the wait."""
    address = f"127.0.0.1:{free_port()}"
    flags = (*GATE, "--store", f"sqlite:{tmp_path}/store", "--http", "off", "--grpc", address)
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    with running_wait(tmp_path, folders, flags, address) as command:
        assert command.process.wait(START_S) == 0
        assert command.stderr.count("trying again") == 1
        assert "condition met: all write apps/v1" in command.stdout


@contextmanager
def running_wait(
    tmp_path: Path, folders: list[Path], flags: tuple[str, ...], address: str
) -> Generator[Running]:
    """Begin to wait at one life of a service, and have what is waited for happen in the next."""
    with serving(folders[0], *flags, addresses=False):
        ApiServer(address, "node-1").writes("v1beta1")
        wait = running(tmp_path, address, "wait", "apps.deployments=apps/v1", "--timeout", "1m")
        command = wait.__enter__()
        command.prints("lagging node-1")
    try:
        command.prints("trying again")
        with serving(folders[1], *flags, addresses=False):
            ApiServer(address, "node-1").writes("v1")
            yield command
    finally:
        wait.__exit__(None, None, None)


def test_a_server_that_departs_is_not_shown_for_long(join: Join, cli: Cli) -> None:
    first, second = join("node-1"), join("node-2")
    first.writes("v1")
    second.writes("v1beta1")
    second.departs()
    eventually(
        lambda: "NODE-2" not in cli().stdout and "(gone)" not in cli().stdout,
        "its entry has been collected",
    )
    assert cli().stdout.splitlines()[1].split() == [DEPLOYMENTS, "v1", "v1", "True", "same"]


def test_the_gate_is_off(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "storage-versions", "--grpc-server", server.grpc) == Outcome(
        1,
        "",
        "Error from server (MethodNotAllowed): storage versions are not served: the feature gate"
        " StorageVersionAPI is off\n",
    )
