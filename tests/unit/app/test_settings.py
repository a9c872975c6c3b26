"""Settings: addresses, flags that belong together, files that they name, and grants."""

import re
from pathlib import Path
from typing import Any

import pytest
from apidiscovery_service.access import Grant, Role
from apidiscovery_service.app.command import serve
from apidiscovery_service.app.settings import Address, Catalog, Security, Settings
from apidiscovery_service.app.structured import configured_grants
from apidiscovery_service.errors import InvalidConfiguration
from click.testing import CliRunner

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
def test_a_malformed_address_is_refused(text: str, message: str) -> None:
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
def test_loopback_addresses_are_those_of_this_machine(host: str, *, loopback: bool) -> None:
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
def test_contradictory_settings_are_refused(
    http: Address | None, grpc: Address | None, message: str
) -> None:
    with pytest.raises(InvalidConfiguration, match=message):
        Settings(http, grpc, Catalog())


def test_an_insecure_bind_must_be_asked_for() -> None:
    assert Settings(PUBLIC, PUBLIC, Catalog(), insecure_bind=True).http == PUBLIC
    with pytest.raises(InvalidConfiguration, match="--insecure-bind"):
        Settings(PUBLIC, PUBLIC, Catalog())
    with pytest.raises(InvalidConfiguration, match="both off"):
        Settings(None, None, Catalog(), insecure_bind=True)


@pytest.mark.parametrize("only", [{"http": LOCAL, "grpc": None}, {"http": None, "grpc": LOCAL}])
def test_one_of_the_two_may_be_off(only: dict[str, Any]) -> None:
    settings = Settings(**only, catalog=Catalog(), manifests=(Path("a"),))
    assert (settings.http, settings.grpc) == (only["http"], only["grpc"])


# Flags that belong together, and files that they name.


def refused(folder: Path, *flags: str) -> str:
    """Return what `apidiscovery serve` says of flags with which it does not start."""
    nowhere = ("--http=127.0.0.1:0", "--grpc=off", "--catalog=none", "--store=memory")
    result = CliRunner().invoke(serve, [*nowhere, *flags], env={"HOME": str(folder)})
    assert result.exit_code == 2, result.output
    return result.output


@pytest.fixture(name="file")
def fixture_file(tmp_path: Path) -> str:
    """Return a file with nothing of use in it."""
    path = tmp_path / "file"
    path.write_text("nothing of use\n")
    return str(path)


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        pytest.param(["--etcd-cafile=none"], ["--etcd-cafile", "none: cannot be read"], id="ca"),
        pytest.param(["--etcd-cafile=FILE"], ["--etcd-cafile", "FILE: not a usable"], id="no-pem"),
        pytest.param(
            ["--etcd-certfile=none", "--etcd-keyfile=FILE"],
            ["--etcd-certfile", "none: cannot be read"],
            id="certificate",
        ),
        pytest.param(
            ["--etcd-certfile=FILE", "--etcd-keyfile=FILE"],
            ["--etcd-certfile", "FILE: not a usable"],
            id="no-certificate",
        ),
        pytest.param(
            ["--etcd-username=ada", "--etcd-password-file=none"],
            ["--etcd-password-file", "none: cannot be read"],
            id="password-file",
        ),
        pytest.param(["--store=etcd://a:1"], ["--store", "the PREFIX is missing"], id="prefix"),
        pytest.param(["--store=redis://a"], ["--store", "it begins with 'redis'"], id="store"),
        pytest.param(
            ["--tls-cert-file=FILE", "--tls-private-key-file=FILE"], ["FILE: "], id="no-tls-pem"
        ),
        pytest.param(
            ["--max-requests-per-second=-1"], ["--max-requests-per-second", "-1"], id="rate"
        ),
        pytest.param(
            ["--max-requests-per-second=5"],
            ["--max-requests-per-second: needs authentication"],
            id="rate-of-nobody",
        ),
        pytest.param(["--upstream=east"], ["--upstream", "want NAME=URL", "'east'"], id="no-url"),
        pytest.param(["--upstream==http://a"], ["--upstream", "want NAME=URL"], id="no-name"),
        pytest.param(
            ["--upstream=east=ftp://a"],
            ["--upstream east: url: want a URL", "'ftp://a'"],
            id="scheme",
        ),
        pytest.param(
            ["--upstream=a=http://a", "--upstream=a=http://b"],
            ["2 upstreams are called a; want a name of its own"],
            id="twice",
        ),
        pytest.param(
            ["--kubeconfig=none"], ["--kubeconfig: ", "none", "cannot"], id="no-kubeconfig"
        ),
        pytest.param(["--kubeconfig=FILE"], ["--kubeconfig: ", "FILE"], id="no-kubeconfig-in-it"),
        pytest.param(
            ["--proxy-client-cert-file=none", "--proxy-client-key-file=FILE"],
            ["--proxy-client-cert-file: cannot read none"],
            id="no-proxy-certificate",
        ),
        pytest.param(
            ["--proxy-client-cert-file=FILE", "--proxy-client-key-file=FILE"],
            ["--proxy-client-cert-file: want a certificate and its key in PEM"],
            id="no-proxy-pem",
        ),
    ],
)
def test_a_flag_that_cannot_be_used_is_named(
    flags: list[str], named: list[str], file: str, tmp_path: Path
) -> None:
    output = refused(tmp_path, *(flag.replace("FILE", file) for flag in flags))
    for text in named:
        assert text.replace("FILE", file) in output
    assert not list(tmp_path.glob(".local"))


TLS: dict[str, Any] = {"tls_cert_file": Path("x"), "tls_private_key_file": Path("x")}


def test_a_server_that_identifies_callers_over_tls_may_listen_everywhere() -> None:
    safe = Security(**TLS, client_ca_file=Path("x"))
    assert Settings(PUBLIC, PUBLIC, Catalog(), security=safe).http == PUBLIC
    for unsafe in (Security(**TLS), Security()):
        with pytest.raises(InvalidConfiguration, match="callers are not identified over TLS"):
            Settings(PUBLIC, None, Catalog(), security=unsafe)


def test_only_callers_who_are_identified_are_limited_by_default() -> None:
    assert Security().limits.requests_per_second == 0
    assert Security(max_requests_per_second=0).limits.requests_per_second == 0
    for flag, limit in ((None, 1000), (7, 7), (0, 0)):
        identifying = Security(**TLS, token_auth_file=Path("x"), max_requests_per_second=flag)
        assert identifying.limits.requests_per_second == limit


@pytest.mark.parametrize("rate", [float("nan"), float("inf")])
def test_a_rate_that_is_no_number_is_refused(rate: float) -> None:
    with pytest.raises(InvalidConfiguration, match="--max-requests-per-second: want a number"):
        Security(**TLS, token_auth_file=Path("x"), max_requests_per_second=rate)


# Grants.


def test_grants_are_read() -> None:
    value = [
        {"role": "reader", "groups": ["system:authenticated"]},
        {"role": "publisher", "users": ["ann"], "api-groups": ["*.example.com", ""]},
        {"role": "admin", "users": ["bob"], "groups": ["system:masters"]},
        {"role": "reader", "users": ["eve"], "clusters": ["prod-*"]},
    ]
    assert configured_grants(value) == (
        Grant(Role.READER, groups=frozenset({"system:authenticated"})),
        Grant(Role.PUBLISHER, frozenset({"ann"}), api_groups=("*.example.com", "")),
        Grant(Role.ADMIN, frozenset({"bob"}), frozenset({"system:masters"})),
        Grant(Role.READER, frozenset({"eve"}), clusters=("prod-*",)),
    )
    assert configured_grants([]) == ()


READER, PUBLISHER, ADMIN = ({"role": r, "users": ["a"]} for r in ("reader", "publisher", "admin"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "access: want a list, got nothing"),
        ({}, "access: want a list, got a mapping"),
        (["x"], "access[0]: want keys and values, got text"),
        ([{"users": ["a"]}], "access[0].role: want one of reader, publisher, admin, got nothing"),
        ([READER, {**READER, "user": ["a"]}], "access[1].user: unknown key; did you mean users?"),
        ([{"role": "reader"}], "access[0]: want at least one name in users or groups, got none"),
        ([{**READER, "users": "a"}], "access[0].users: want a list, got text"),
        ([{**READER, "clusters": None}], "access[0].clusters: want a list of texts, got nothing"),
        ([{**READER, "groups": ["a", ""]}], "access[0].groups[1]: want a name, got an empty text"),
        ([PUBLISHER], "access[0].api-groups: want at least one pattern"),
        (
            [{**ADMIN, "api-groups": [""]}],
            "access[0].api-groups: only a publisher has API groups, this is 'admin'",
        ),
        (
            [{**ADMIN, "clusters": ["east"]}],
            "access[0].clusters: an admin may read about every cluster",
        ),
        ([{**READER, "clusters": "east"}], "access[0].clusters: want a list, got text"),
    ],
)
def test_wrong_grants_are_named_by_their_path(value: object, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=f"^{re.escape(message)}"):
        configured_grants(value)
