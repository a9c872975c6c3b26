"""Addresses and the rule that what nobody is identified at stays on this machine."""

from pathlib import Path
from typing import Any

import pytest
from apidiscovery_service.app.settings import Address, Settings
from apidiscovery_service.errors import InvalidConfiguration

LOCAL = Address("127.0.0.1", 8080)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param("127.0.0.1:8080", Address("127.0.0.1", 8080), id="ipv4"),
        pytest.param("localhost:0", Address("localhost", 0), id="any-port"),
        pytest.param("[::1]:65535", Address("::1", 65535), id="ipv6"),
        pytest.param("[::]:1", Address("::", 1), id="all-of-ipv6"),
        pytest.param("0.0.0.0:080", Address("0.0.0.0", 80), id="leading-zero"),  # noqa: S104
        pytest.param("host.example:443", Address("host.example", 443), id="name"),
    ],
)
def test_an_address_is_host_and_port(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "want HOST:PORT or", id="empty"),
        pytest.param("8080", "want HOST:PORT or", id="port-alone"),
        pytest.param(":8080", "want HOST:PORT or", id="no-host"),
        pytest.param("[]:8080", "want HOST:PORT or", id="no-host-in-brackets"),
        pytest.param("::1:8080", "want HOST:PORT or", id="ipv6-without-brackets"),
        pytest.param("[localhost]:8080", "want HOST:PORT or", id="name-in-brackets"),
        pytest.param("localhost", "want HOST:PORT or", id="no-port"),
        pytest.param("localhost:", "want a port from 0 to 65535, got ''", id="empty-port"),
        pytest.param("localhost:http", "want a port from 0 to 65535, got 'http'", id="service"),
        pytest.param("localhost:65536", "want a port from 0 to 65535", id="too-great"),
        pytest.param("localhost:-1", "want a port from 0 to 65535", id="negative"),
        pytest.param("localhost: 80", "want a port from 0 to 65535", id="space"),
        pytest.param("localhost:٨٠", "want a port from 0 to 65535", id="other-digits"),
        pytest.param("localhost:" + "9" * 5000, "want a port from 0 to 65535", id="many-digits"),
    ],
)
def test_what_is_no_address_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        Address.parse(text)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        pytest.param("127.0.0.1", True, id="ipv4"),
        pytest.param("127.255.0.7", True, id="all-of-127"),
        pytest.param("::1", True, id="ipv6"),
        pytest.param("localhost", True, id="localhost"),
        pytest.param("0.0.0.0", False, id="all-of-ipv4"),  # noqa: S104
        pytest.param("::", False, id="all-of-ipv6"),
        pytest.param("10.0.0.1", False, id="private"),
        pytest.param("localhost.example", False, id="name"),
        pytest.param("127.0.0.1.example", False, id="lookalike"),
        pytest.param("127.1", False, id="short-form"),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, *, loopback: bool) -> None:
    assert Address(host, 80).is_loopback is loopback


PUBLIC = Address("0.0.0.0", 8080)  # noqa: S104


@pytest.mark.parametrize(
    ("http", "grpc", "message"),
    [
        pytest.param(PUBLIC, LOCAL, r"--http 0\.0\.0\.0:8080 is reachable", id="http"),
        pytest.param(LOCAL, PUBLIC, r"--grpc 0\.0\.0\.0:8080 is reachable", id="grpc"),
        pytest.param(None, Address("::", 1), r"--grpc \[::\]:1 is reachable", id="grpc-alone"),
        pytest.param(None, None, "--http and --grpc are both off", id="nothing"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    http: Address | None, grpc: Address | None, message: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        Settings(http, grpc, "none")


def test_an_insecure_bind_must_be_asked_for() -> None:
    assert Settings(PUBLIC, PUBLIC, "none", insecure_bind=True).http == PUBLIC
    with pytest.raises(InvalidConfiguration, match="--insecure-bind"):
        Settings(PUBLIC, PUBLIC, "none")
    with pytest.raises(InvalidConfiguration, match="both off"):
        Settings(None, None, "none", insecure_bind=True)


@pytest.mark.parametrize("only", [{"http": LOCAL, "grpc": None}, {"http": None, "grpc": LOCAL}])
def test_one_of_the_two_may_be_off(only: dict[str, Any]) -> None:
    settings = Settings(**only, catalog="none", manifests=(Path("a"),))
    assert (settings.http, settings.grpc) == (only["http"], only["grpc"])
