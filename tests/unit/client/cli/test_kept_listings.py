"""Listings are revalidated with the server each time, or read from the disk cache on request."""

import stat
from pathlib import Path

import pytest
from apidiscovery_client.testing import FakeApiServer, group, resource
from command_line import run

Capture = pytest.CaptureFixture[str]

WIDGETS = group("example.com", v1=[resource("widgets", "Widget")])
GADGETS = group("gadgets.example.com", v1=[resource("gadgets", "Gadget")])


def names(capsys: Capture, server: FakeApiServer, *args: str) -> set[str]:
    outcome = run(capsys, "api-resources", "-o", "name", "-s", server.url, *args)
    assert (outcome.exit_code, outcome.stderr) == (0, "")
    return set(outcome.stdout.split())


def test_the_second_time_the_server_only_confirms(capsys: Capture) -> None:
    with FakeApiServer() as server:
        first = names(capsys, server)
        server.forget_requests()
        assert names(capsys, server) == first
        assert [request.status for request in server.requests] == [304, 304]


def test_a_change_is_seen_at_once(capsys: Capture) -> None:
    with FakeApiServer([WIDGETS]) as server:
        assert names(capsys, server) == {"widgets.example.com"}
        server.add(GADGETS)
        assert names(capsys, server) == {"widgets.example.com", "gadgets.gadgets.example.com"}


def test_a_cached_listing_needs_no_request(capsys: Capture) -> None:
    with FakeApiServer([WIDGETS]) as server:
        names(capsys, server)
        server.add(GADGETS)
        server.forget_requests()
        assert names(capsys, server, "--cached") == {"widgets.example.com"}
        assert not server.requests
        server.down()
        assert names(capsys, server, "--cached") == {"widgets.example.com"}


@pytest.mark.parametrize("release", ["1.36", "1.25"])
def test_without_a_cached_listing_the_server_is_asked(capsys: Capture, release: str) -> None:
    with FakeApiServer([WIDGETS], release=release) as server:
        assert names(capsys, server, "--cached") == {"widgets.example.com"}
        server.forget_requests()
        assert names(capsys, server, "--cached") == {"widgets.example.com"}
        assert not server.requests


def test_cached_versions_do_not_hide_resources(capsys: Capture) -> None:
    with FakeApiServer([WIDGETS], release="1.25") as server:
        assert run(capsys, "api-versions", "-s", server.url).stdout == "example.com/v1\n"
        assert names(capsys, server, "--cached") == {"widgets.example.com"}
        assert run(capsys, "api-versions", "-s", server.url).stdout == "example.com/v1\n"
        assert names(capsys, server, "--cached") == {"widgets.example.com"}


def test_a_server_that_does_not_answer_is_an_error_whatever_is_kept(capsys: Capture) -> None:
    with FakeApiServer([WIDGETS]) as server:
        names(capsys, server)
        server.fail("/apis", status=503)
        outcome = run(capsys, "api-resources", "-s", server.url)
        assert (outcome.exit_code, outcome.stdout) == (1, "")
        assert outcome.stderr.startswith(f"error: GET {server.url}/apis: 503: ")
        server.down()
        outcome = run(capsys, "api-resources", "-s", server.url)
        assert (outcome.exit_code, outcome.stdout) == (1, "")
        assert "was refused" in outcome.stderr


@pytest.mark.parametrize("release", ["1.36", "1.25"])
def test_resources_that_are_only_remembered_are_not_listed(capsys: Capture, release: str) -> None:
    with FakeApiServer([WIDGETS, GADGETS], release=release) as server:
        names(capsys, server)
        server.fail("example.com/v1")
        outcome = run(capsys, "api-resources", "-o", "name", "-s", server.url)
    assert (outcome.exit_code, outcome.stdout) == (1, "gadgets.gadgets.example.com\n")
    assert outcome.stderr.startswith(
        "error: unable to retrieve the complete list of server APIs: example.com/v1: "
    )
    assert outcome.stderr.count("\n") == 1


def test_the_cache_is_off_or_in_the_folder_of_the_option(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECACHEDIR", str(tmp_path / "kube"))
    with FakeApiServer([WIDGETS]) as server:
        names(capsys, server, "--no-cache")
        assert not (tmp_path / "kube").exists()
        names(capsys, server, "--cache-dir", str(tmp_path / "own"))
        assert not (tmp_path / "kube").exists()
        names(capsys, server)
    own, default = tmp_path / "own", tmp_path / "kube" / "apidiscovery" / "discovery"
    assert [file.name for file in own.iterdir()] == [file.name for file in default.iterdir()]
    assert stat.S_IMODE(own.stat().st_mode) == 0o700


def test_another_user_does_not_get_a_cached_listing(capsys: Capture) -> None:
    with FakeApiServer([WIDGETS]) as server:
        names(capsys, server, "--token", "one")
        server.forget_requests()
        names(capsys, server, "--token", "two", "--cached")
        assert [request.status for request in server.requests] == [200, 200]


def test_a_folder_that_cannot_be_written_is_no_error(capsys: Capture) -> None:
    with FakeApiServer([WIDGETS]) as server:
        assert names(capsys, server, "--cache-dir", "/dev/null/none") == {"widgets.example.com"}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--cached", "--no-cache"), "--cached and --no-cache cannot be used together"),
        (("--cache-dir", "x", "--no-cache"), "--cache-dir and --no-cache cannot be used together"),
    ],
)
def test_contradicting_options_are_bad_usage(
    capsys: Capture, args: tuple[str, ...], message: str
) -> None:
    outcome = run(capsys, "api-resources", *args)
    assert (outcome.exit_code, outcome.stdout) == (2, "")
    assert message in outcome.stderr
