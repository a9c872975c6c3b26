"""Servers are known by their certificates, and know us by ours."""

import ssl
import subprocess
from pathlib import Path

import pytest
from command_line import run
from fake_api_server import FakeApiServer, builtin

from tools import find_tool

Capture = pytest.CaptureFixture[str]

NEW = builtin()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make self-signed server.crt (for the name api.example), local.crt (127.0.0.1), client.crt."""
    folder = tmp_path_factory.mktemp("certificates")
    for name, san in (
        ("server", "DNS:api.example"),
        ("local", "IP:127.0.0.1"),
        ("client", "DNS:me"),
    ):
        command = (
            f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
            f"-subj /CN={name} -addext subjectAltName={san} "
            f"-keyout {name}.key -out {name}.crt"
        )
        subprocess.run(  # noqa: S603
            [find_tool("openssl"), *command.split()], check=True, capture_output=True, cwd=folder
        )
    return folder


def serving(certificates: Path, name: str, *, client: bool = False) -> FakeApiServer:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificates / f"{name}.crt", certificates / f"{name}.key")
    if client:
        tls.verify_mode = ssl.CERT_REQUIRED
        tls.load_verify_locations(certificates / "client.crt")
    return FakeApiServer(NEW, tls)


def test_certificate_authority(capsys: Capture, certificates: Path) -> None:
    with serving(certificates, "local") as server:
        outcome = run(
            capsys,
            *("api-versions", "--server", server.url, "--token", "a"),
            f"--certificate-authority={certificates / 'local.crt'}",
        )
    assert (outcome.exit_code, outcome.stderr) == (0, "")


def test_unknown_certificate_is_refused(capsys: Capture, certificates: Path) -> None:
    with serving(certificates, "local") as server:
        outcome = run(capsys, "api-versions", "--server", server.url, "--token", "a")
    assert server.requests == []
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert outcome.stderr.startswith(f"error: GET {server.url}/api")
    assert outcome.stderr.endswith(
        ": the server's certificate is not trusted: self-signed certificate\n"
    )


def test_unknown_certificate_can_be_accepted(capsys: Capture, certificates: Path) -> None:
    with serving(certificates, "local") as server:
        outcome = run(capsys, "api-versions", "--server", server.url, "--insecure-skip-tls-verify")
    assert (outcome.exit_code, outcome.stderr) == (0, "")


def test_certificate_of_another_host_is_refused(capsys: Capture, certificates: Path) -> None:
    authority = f"--certificate-authority={certificates / 'server.crt'}"
    with serving(certificates, "server") as server:
        wrong = run(capsys, "api-versions", "--server", server.url, authority)
        right = run(
            capsys, "api-versions", "-s", server.url, authority, "--tls-server-name=api.example"
        )
    assert wrong.exit_code == 1
    assert "certificate is not trusted: IP address mismatch" in wrong.stderr
    assert (right.exit_code, right.stderr) == (0, "")


def test_client_certificate(capsys: Capture, certificates: Path) -> None:
    with serving(certificates, "local", client=True) as server:
        args = (
            "api-versions",
            f"--server={server.url}",
            f"--certificate-authority={certificates / 'local.crt'}",
        )
        without = run(capsys, *args)
        given = run(
            capsys,
            *args,
            f"--client-certificate={certificates / 'client.crt'}",
            f"--client-key={certificates / 'client.key'}",
        )
    assert without.exit_code == 1
    assert without.stderr.startswith(f"error: GET {server.url}/api")
    assert (given.exit_code, given.stderr) == (0, "")
