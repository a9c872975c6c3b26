"""Failures of listings are reported in one line."""

import os
import signal
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from apidiscovery_cli import group
from apidiscovery_cli.options import duration_s
from apidiscovery_cli.output import working
from apidiscovery_client._installing import install_command
from command_line import run
from fake_api_server import Answer, FakeApiServer, aggregated, builtin, document, legacy, status
from media_types import aggregated_type
from programs import refusing, running
from server import COMMAND
from waiting import eventually

Capture = pytest.CaptureFixture[str]

NEW, OLD = builtin(), legacy()


def test_server_below_a_path(capsys: Capture) -> None:
    with FakeApiServer({f"/clusters/one{path}": NEW[path] for path in NEW}) as server:
        outcome = run(capsys, "api-versions", "-s", f"{server.url}/clusters/one/")
    assert outcome.exit_code == 0
    assert outcome.stdout.endswith("storagemigration.k8s.io/v1beta1\nv1\n")


@pytest.mark.parametrize("command", ["api-resources", "api-versions"])
def test_stale_version_is_told(capsys: Capture, command: str) -> None:
    stale = {"version": "v1", "freshness": "Stale"}
    groups = [{"metadata": {"name": name}, "versions": [stale]} for name in ("b.io", "a.io")]
    with FakeApiServer({**NEW, "/apis": aggregated(*groups)}) as server:
        outcome = run(capsys, command, "-s", server.url)
    assert outcome.exit_code == 1
    assert "v1" in outcome.stdout
    assert outcome.stderr == (
        "error: unable to retrieve the complete list of server APIs: "
        "a.io/v1: stale GroupVersion discovery: a.io/v1, "
        "b.io/v1: stale GroupVersion discovery: b.io/v1\n"
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(
            Answer(b"service unavailable\n", "text/plain", 503),
            "the server is currently unable to handle the request",
            id="unavailable",
        ),
        pytest.param(status(403, "Forbidden", "forbidden: no"), "forbidden: no", id="forbidden"),
        pytest.param(
            Answer(b"", "text/plain", 404),
            "the server could not find the requested resource",
            id="not found",
        ),
        pytest.param(
            document({"kind": "APIGroup"}),
            "GET {url}/apis/apps/v1: the content type 'application/json' promises "
            "APIResourceList, but the body is APIGroup",
            id="wrong document",
        ),
        pytest.param(
            Answer(b"{}", aggregated_type()),
            "GET {url}/apis/apps/v1: the content type '" + aggregated_type() + "' promises "
            "APIGroupDiscoveryList apidiscovery.k8s.io/v2, but the body is of no kind",
            id="aggregated",
        ),
    ],
)
def test_failure_of_one_group_version_leaves_the_others(
    capsys: Capture, answer: Answer, reason: str
) -> None:
    with FakeApiServer({**OLD, "/apis/apps/v1": answer}) as server:
        outcome = run(capsys, "api-resources", "-o", "name", "-s", server.url)
    assert outcome.exit_code == 1
    assert {"pods", "deployments.apps"} <= set(outcome.stdout.splitlines())
    assert outcome.stderr == (
        "error: unable to retrieve the complete list of server APIs: "
        f"apps/v1: {reason.format(url=server.url)}\n"
    )


FORBIDDEN = 'forbidden: User "system:anonymous" cannot get path "/apis"'


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            Answer(b"Unauthorized", "text/plain", 401),
            "401: the server has asked for the client to provide credentials;"
            " no token or password was sent",
            id="401",
        ),
        pytest.param(status(403, "Forbidden", FORBIDDEN), f"403: {FORBIDDEN}", id="403"),
        pytest.param(
            Answer(b"404 page not found\n", "text/plain", 404),
            "404: there is no /apis, so this is not an API server",
            id="404",
        ),
        pytest.param(
            status(406, "NotAcceptable", "406: Not Acceptable\n\nAvailable: \x1b[1myaml"),
            "406: 406: Not Acceptable Available: \\x1b[1myaml",
            id="406",
        ),
        pytest.param(
            Answer(b"", None, 500),
            "500: the server gave no reason (Internal Server Error)",
            id="500",
        ),
        pytest.param(
            Answer(b"service unavailable\n", "text/plain", 503),
            "503: the server is currently unable to handle the request",
            id="503",
        ),
        pytest.param(
            Answer(b"", None, 302, {"Location": "https://sso.example.com/"}),
            "302: redirects are not followed, this one is to https://sso.example.com/",
            id="redirect",
        ),
        pytest.param(
            Answer(b"<html>Please log in</html>", "text/html; charset=utf-8"),
            "the server returned a web page: it is not an API server, or behind a sign-in page:"
            " the content type is 'text/html; charset=utf-8', not 'application/json'",
            id="HTML",
        ),
        pytest.param(
            Answer(b"<html>", "application/json"),
            "the body is not JSON: Expecting value: line 1 column 1 (char 0)",
            id="garbage",
        ),
        pytest.param(
            Answer(NEW["/apis"].body, "application/json"),
            "the content type 'application/json' promises APIGroupList, "
            "but the body is APIGroupDiscoveryList apidiscovery.k8s.io/v2",
            id="aggregated without saying so",
        ),
        pytest.param(
            Answer(OLD["/apis"].body, aggregated_type()),
            f"the content type {aggregated_type()!r} promises "
            "APIGroupDiscoveryList apidiscovery.k8s.io/v2, but the body is APIGroupList v1",
            id="unaggregated without saying so",
        ),
        pytest.param(
            Answer(b"{}", aggregated_type(), headers={"Content-Encoding": "gzip"}),
            "the body cannot be decoded: Error -3 while decompressing data: incorrect header check",
            id="wrongly compressed",
        ),
        pytest.param(
            Answer(b"{", aggregated_type(), length=100),
            "peer closed connection without sending complete message body "
            "(received 1 bytes, expected 100)",
            id="truncated",
        ),
        pytest.param(Answer(stalls=True), "no answer within 3 s", id="timeout"),
    ],
)
def test_failed_discovery_is_an_error_and_prints_nothing(
    capsys: Capture, answer: Answer, message: str
) -> None:
    timeout = "3s" if answer.stalls else "30s"
    with FakeApiServer({"/api": NEW["/api"], "/apis": answer}) as server:
        outcome = run(capsys, "api-resources", "-s", server.url, "--request-timeout", timeout)
    assert outcome.stderr == f"error: GET {server.url}/apis: {message}\n"
    assert (outcome.exit_code, outcome.stdout) == (1, "")


def test_core_group_that_is_refused_is_not_a_missing_one(capsys: Capture) -> None:
    with FakeApiServer({**NEW, "/api": status(403, "Forbidden", "no")}) as server:
        outcome = run(capsys, "api-versions", "-s", server.url)
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert outcome.stderr == f"error: GET {server.url}/api: 403: no\n"


@pytest.mark.parametrize(
    ("args", "where"),
    [
        (("api-versions", "-s", "http://nosuch.invalid"), "GET http://nosuch.invalid/api"),
        (
            ("conformance", "http://nosuch.invalid"),
            "no answer to GET http://nosuch.invalid/apis",
        ),
        (
            ("get", "sources", "--grpc-server", "nosuch.invalid:50051"),
            "ListSources nosuch.invalid:50051",
        ),
    ],
)
def test_unknown_host_name(capsys: Capture, args: tuple[str, ...], where: str) -> None:
    outcome = run(capsys, *args)
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert outcome.stderr == f"error: {where}: name not known: nosuch.invalid\n"


def test_refused_connection(capsys: Capture) -> None:
    with refusing() as address:
        outcome = run(capsys, "api-versions", "-s", f"http://{address}")
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert outcome.stderr == (
        f"error: the connection to the server {address} was refused"
        " - did you specify the right host or port?\n"
    )


def test_unusable_proxy(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "gopher://proxy.invalid")
    outcome = run(capsys, "api-versions", "-s", "http://host.invalid")
    assert outcome.exit_code == 1
    assert outcome.stderr.startswith("error: the proxy in the environment cannot be used: ")


NOWHERE = "api-versions -s http://[::1]:1"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("api-resources extra", "got unexpected extra argument (extra)"),
        ("api-resources --unknown", "no such option '--unknown'"),
        ("api-resources -o xml", "'xml' is not one of 'wide', 'name', 'json', 'yaml'"),
        ("api-resources --sort-by=age", "'age' is not one of 'name', 'kind'"),
        ("api-resources --namespaced=maybe", "'maybe' is not a valid boolean"),
        ("api-versions -s ftp://host", "begins with 'ftp', not http, https, grpc or grpcs"),
        ("api-versions -s http://", "has no host"),
        ("api-versions -s http://host:99999", "is not a URL: Port out of range"),
        ("api-versions -s http://[::1", "is not a URL"),
        ("api-versions -s http://user:word@host", "use --token"),
        ("api-versions -s http://host?a=b", "has a query or a fragment"),
        ("api-versions -s http://[::1]:1 --token=é", "--token: want a token of visible ASCII"),
        ("api-versions --request-timeout=soon", "'soon' is neither a number of seconds"),
        ("api-versions --request-timeout=-1s", "'-1s' is neither a number of seconds"),
        (f"api-versions --request-timeout={'9' * 30}", "is too long"),
        ("api-versions --certificate-authority=/nonexistent", "'/nonexistent' does not exist"),
        (
            f"{NOWHERE} --certificate-authority={__file__}",
            "--certificate-authority: no certificate in it",
        ),
        (
            f"{NOWHERE} --client-certificate={__file__}",
            "--client-key: want the key of the certificate",
        ),
        (
            f"{NOWHERE} --client-certificate={__file__} --client-key={__file__}",
            "--client-certificate: want a certificate and its key",
        ),
        (
            f"{NOWHERE} --insecure-skip-tls-verify --certificate-authority={__file__}",
            "--certificate-authority: an authority beside insecure-skip-tls-verify",
        ),
        ("api-thing", "no such command 'api-thing'"),
    ],
)
def test_bad_usage(capsys: Capture, args: str, message: str) -> None:
    outcome = run(capsys, *args.split())
    assert outcome.stderr.startswith("error: ")
    assert message in outcome.stderr
    assert (outcome.exit_code, outcome.stdout) == (2, "")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("5", 5),
        ("32s", 32),
        ("1m", 60),
        ("1h30m", 5400),
        ("1.5s", 1.5),
        ("500ms", 0.5),
        (".5m", 30),
    ],
)
def test_durations_are_gos(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


def listing(url: str, stdout: int) -> tuple[int, str]:
    """Return exit code and stderr of api-resources in a process of its own."""
    done = subprocess.run(  # noqa: S603 - our own arguments
        [str(COMMAND), "api-resources", "-s", url],
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
    )
    return done.returncode, done.stderr.decode()


def test_missing_extra_is_named(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("serve", "a_module_that_is_missing:serve", group.ENTRY_POINT_GROUP)
    monkeypatch.setattr(group, "_announced", lambda: {"serve": entry})
    outcome = run(capsys, "serve", "--help")
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith(
        "error: 'apidiscovery serve' needs the Python module 'a_module_that_is_missing', "
        f"which is not installed; run: {install_command('server')}\n"
    )


def test_announced_command_runs(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    target = "apidiscovery_cli.commands.protos:protos"
    entry = EntryPoint("other", target, group.ENTRY_POINT_GROUP)
    monkeypatch.setattr(group, "_announced", lambda: {"other": entry})
    assert "From apidiscovery_cli.commands.protos." in run(capsys, "--help").stdout
    assert run(capsys, "other", "--help").exit_code == 0


def test_reader_that_goes_away_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with FakeApiServer(NEW) as server:
        outcome = listing(server.url, writer)
    os.close(writer)
    assert outcome == (1, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")  # noqa: PTH110
def test_full_disk_is_an_error() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with FakeApiServer(NEW) as server:
        outcome = listing(server.url, full)
    os.close(full)
    assert outcome == (1, "error: [Errno 28] No space left on device\n")


def test_protos(capsys: Capture) -> None:
    folder = run(capsys, "protos").stdout.strip()
    assert os.path.isdir(os.path.join(folder, "apidiscovery"))  # noqa: PTH112, PTH118


def test_interrupt_is_no_traceback(tmp_path: Path) -> None:
    stalling = {"/api": Answer(stalls=True), "/apis": Answer(stalls=True)}
    with (
        FakeApiServer(stalling) as server,
        running(tmp_path, "api-resources", "-s", server.url) as process,
    ):
        eventually(lambda: server.requests, "a request")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate()
    assert (process.returncode, stderr.strip()) == (130, "")


def test_slow_work_is_announced_on_a_terminal_only(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with working("Comparing fields"):
        pass
    assert not capsys.readouterr().err
    words = ("diff", "kubernetes:1.35", "kubernetes:1.35", "--fields")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run(capsys, *words).stderr == "Comparing fields ...\r\x1b[K"
