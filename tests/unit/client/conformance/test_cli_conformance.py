"""`apidiscovery conformance`: its reports, its options, and servers that do not answer."""

import asyncio
import contextlib
import json
import ssl
import time
import xml.etree.ElementTree as ET
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from apidiscovery_cli.conformance.running import CHECKS
from apidiscovery_service.serving.http.messages import Receive, Scope, Send
from certificates import Authority
from command_line import Outcome
from command_line import run as run_here
from conforming import extension
from fake_api_server import Answer, FakeApiServer, listening
from http_server import served
from programs import free_port
from tampering import Answered, Seen, Tampered


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "APIDISCOVERY_SERVER", "APIDISCOVERY_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def without_ready(seen: Seen, answer: Answered) -> Answered:
    return Answered(500, (), b"<&>\x1b[31m]]>") if seen.path == "/readyz" else answer


@pytest.fixture
async def app() -> AsyncGenerator[tuple[Tampered, str]]:
    made = Tampered(extension())
    async with served(made) as url:
        yield made, url


async def conformance(capsys: pytest.CaptureFixture[str], *args: str) -> Outcome:
    return await asyncio.to_thread(run_here, capsys, "conformance", *args)


async def test_the_report_counts_and_lists_the_checks(
    app: tuple[Tampered, str], capsys: pytest.CaptureFixture[str]
) -> None:
    done = await conformance(capsys, app[1])
    assert (done.exit_code, done.stderr) == (0, "")
    summary, *lines = done.stdout.splitlines()
    about = f"{app[1]} (extension, aggregated v2)"
    assert summary == f"{about}: {len(CHECKS)} passed, 0 failed, 0 skipped"
    assert "  pass  1  It answers kube-aggregator, which accepts only aggregated JSON" in lines


async def test_what_failed_comes_first_with_advice(
    app: tuple[Tampered, str], capsys: pytest.CaptureFixture[str]
) -> None:
    app[0].tamper = without_ready
    done = await conformance(capsys, "--server", app[1], "--only", "60, 61")
    assert (done.exit_code, done.stderr) == (1, "")
    assert done.stdout.splitlines()[1:] == [
        "",
        "FAIL 61: /healthz, /livez and /readyz say ok",
        "  request: GET /readyz",
        "  seen:    500, no Content-Type, '<&>\\x1b[31m]]>'",
        "  wanted:  200 of a healthy server",
        "  why:     probes and load balancers ask there",
        "  advice:  answer 200 and the text ok",
        "",
        "Version and health",
        "  pass 60  /version has major, minor and gitVersion",
        "  fail 61  /healthz, /livez and /readyz say ok",
    ]


async def test_reports_for_programs_say_the_same(
    app: tuple[Tampered, str], capsys: pytest.CaptureFixture[str]
) -> None:
    app[0].tamper = without_ready
    done = await conformance(capsys, app[1], "-o", "json", "--only", "60,61")
    report = json.loads(done.stdout)
    assert (done.exit_code, report["passed"]) == (1, False)
    assert report["counts"] == {"pass": 1, "fail": 1, "skip": 0}
    assert [check["outcome"] for check in report["checks"]] == ["pass", "fail"]
    assert report["checks"][1]["advice"] == "answer 200 and the text ok"

    done = await conformance(capsys, app[1], "-o", "junit", "--only", "60,61")
    suite = ET.fromstring(done.stdout)  # noqa: S314 - we have written it
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    (failure,) = suite.iter("failure")
    assert "seen: 500, no Content-Type, '<&>\\x1b[31m]]>'" in (failure.text or "")

    done = await conformance(capsys, app[1], "-o", "markdown", "--only", "60,61")
    assert "| 61 | /healthz, /livez and /readyz say ok | fail |" in done.stdout.splitlines()
    assert "&lt;&amp;&gt;" in done.stdout


async def test_a_profile_and_a_release_can_be_given(
    app: tuple[Tampered, str], capsys: pytest.CaptureFixture[str]
) -> None:
    done = await conformance(capsys, app[1], "--profile", "kube-apiserver", "--release", "1.37")
    assert done.exit_code == 1
    assert "(kube-apiserver 1.37, aggregated v2)" in done.stdout
    assert "FAIL 45: /api has the core group, or nothing" in done.stdout


def test_the_checks_can_be_listed_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    done = run_here(capsys, "conformance", "--list")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "Behind kube-aggregator"
    assert all(f"{check.number:4}  {check.title}" in lines for check in CHECKS)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--only", "9"], "there is no check '9'; see --list"),
        (["--only", "4,x"], "there is no check 'x'; see --list"),
        (["--release", "new"], "'new' is not a release of Kubernetes such as 1.30"),
        (["--profile", "other"], "'other' is not one of"),
        (["-o", "xml"], "'xml' is not one of"),
        (["--server", "http://127.0.0.1:1"], "give the server as URL or by --server, not both"),
    ],
)
def test_bad_usage_is_an_error_before_any_request(
    args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_here(capsys, "conformance", "http://127.0.0.1:2", *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_server_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    done = run_here(capsys, "conformance", url)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"error: no answer to GET {url}/apis: Connection refused\n"


def test_a_server_with_another_certificate_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "ca")
    context = _server_context(authority, "127.0.0.1")
    with FakeApiServer({}, context) as fake:
        done = run_here(capsys, "conformance", fake.url)
        assert (done.exit_code, done.stdout) == (1, "")
        assert "TLS: " in done.stderr
        trusted = ("--certificate-authority", str(authority.ca_file))
        assert "passed" in run_here(capsys, "conformance", fake.url, *trusted).stdout
        other = run_here(capsys, "conformance", fake.url, *trusted, "--tls-server-name", "other")
        assert "TLS: Hostname mismatch" in other.stderr


def _server_context(authority: Authority, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server([name]))
    return context


def test_a_server_that_hangs_is_not_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeApiServer({"/apis": Answer(stalls=True)}) as fake:
        started = time.monotonic()
        done = run_here(capsys, "conformance", fake.url, "--request-timeout", "300ms")
        assert time.monotonic() - started < 20
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"error: no answer to GET {fake.url}/apis: not within 0.3 s\n"


async def test_a_path_that_hangs_costs_one_timeout_and_its_checks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    released = asyncio.Event()
    inner = Tampered(extension())

    async def stalling(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") == "/openapi/v3":
            await released.wait()
        await inner(scope, receive, send)

    async with served(stalling) as url:
        started = time.monotonic()
        done = await conformance(capsys, url, "--request-timeout", "3s", "-o", "json")
        took_s = time.monotonic() - started
        released.set()
    failed = {
        one["number"] for one in json.loads(done.stdout)["checks"] if one["outcome"] == "fail"
    }
    assert failed == {7, *range(50, 57)}
    assert took_s < 20


async def test_bytes_that_trickle_in_do_not_prolong_the_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while not reader.at_eof():
            writer.write(b"x: y\r\n")
            await writer.drain()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.05)

    async with listening(drip) as port:
        url = f"http://127.0.0.1:{port}"
        done = await conformance(capsys, url, "--request-timeout", "500ms")
    assert done.stderr == f"error: no answer to GET {url}/apis: not within 0.5 s\n"


def test_401_is_an_error_with_the_option_for_credentials(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with FakeApiServer({"/apis": Answer(b"{}", status=401)}) as fake:
        done = run_here(capsys, "conformance", fake.url)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "GET /apis was answered 401" in done.stderr
    assert "--token" in done.stderr


def test_a_token_goes_with_every_request(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeApiServer({}) as fake:
        run_here(capsys, "conformance", fake.url, "--token", "s3cret")
        assert {request.headers["authorization"] for request in fake.requests} == {"Bearer s3cret"}
        assert {request.headers["host"] for request in fake.requests} == {fake.url[7:]}


def test_pages_for_all_but_discovery_fail_their_checks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = Answer(b"<!DOCTYPE html><html></html>", "text/html")
    paths = ("/api", "/openapi/v3", "/openapi/v2", "/version", "/healthz")
    with FakeApiServer(dict.fromkeys(paths, page)) as fake:
        done = run_here(capsys, "conformance", fake.url, "-o", "json")
    assert done.exit_code == 1
    outcomes = {one["number"]: one["outcome"] for one in json.loads(done.stdout)["checks"]}
    assert {number for number, outcome in outcomes.items() if outcome == "pass"} <= {1, 8, 36, 46}
