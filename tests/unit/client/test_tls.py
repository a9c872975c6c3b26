"""The options for TLS: which servers are trusted, and the certificate of the client."""

import pytest
from certificates import Authority
from command_line import Outcome, run
from fake_api_server import FakeApiServer, builtin, server_context

Capture = pytest.CaptureFixture[str]

NEW = builtin()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def asked(capsys: Capture, server: FakeApiServer, *args: str) -> Outcome:
    return run(capsys, "api-versions", "--server", server.url, *args)


def test_unknown_authority_is_trusted_only_when_that_is_asked_for(
    capsys: Capture, authority: Authority
) -> None:
    with FakeApiServer(NEW, server_context(authority.server(["127.0.0.1"]))) as server:
        refused = asked(capsys, server, "--token", "a")
        assert server.requests == []
        accepted = asked(capsys, server, "--insecure-skip-tls-verify")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"error: GET {server.url}/api")
    assert refused.stderr.endswith(
        ": the server's certificate is not trusted: unable to get local issuer certificate\n"
    )
    assert (accepted.exit_code, accepted.stderr) == (0, "")


def test_certificate_of_another_host_is_refused(capsys: Capture, authority: Authority) -> None:
    trusting = f"--certificate-authority={authority.ca_file}"
    with FakeApiServer(NEW, server_context(authority.server(["api.example"]))) as server:
        wrong = asked(capsys, server, trusting)
        right = asked(capsys, server, trusting, "--tls-server-name=api.example")
    assert wrong.exit_code == 1
    assert "certificate is not trusted: IP address mismatch" in wrong.stderr
    assert (right.exit_code, right.stderr) == (0, "")


def test_client_certificate(capsys: Capture, authority: Authority) -> None:
    trusting = f"--certificate-authority={authority.ca_file}"
    mine = authority.client("me", [])
    shown = (f"--client-certificate={mine.cert_file}", f"--client-key={mine.key_file}")
    tls = server_context(authority.server(["127.0.0.1"]), authority.ca_file)
    with FakeApiServer(NEW, tls) as server:
        without = asked(capsys, server, trusting)
        given = asked(capsys, server, trusting, *shown)
    assert without.exit_code == 1
    assert without.stderr.startswith(f"error: GET {server.url}/api")
    assert (given.exit_code, given.stderr) == (0, "")
    assert {request.user for request in server.requests} == {"me"}
