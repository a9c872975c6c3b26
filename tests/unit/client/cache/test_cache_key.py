"""Keys of the cache: equal for one server and user, different for any other."""

import re

import pytest
from apidiscovery_client._server import Server, StaticAccess
from apidiscovery_client.cache import key, key_of

URL = "https://api.example:6443/k8s/clusters/c-1"


def user(token: str) -> StaticAccess:
    return StaticAccess(token=token)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://api.example", "https://api.example/"),
        ("https://api.example", "https://api.example:443"),
        ("https://api.example", "HTTPS://API.Example:443//"),
        ("http://127.0.0.1:80/", "http://127.0.0.1"),
        ("https://[FD00::1]:443", "https://[fd00::1]/"),
        ("https://[fd00::1]:6443/", "https://[fd00::1]:06443"),
        ("https://api.example:", "https://api.example"),
        (URL, "https://API.example:6443/k8s/clusters/c-1/"),
    ],
)
def test_spellings_of_one_url_have_one_key(one: str, other: str) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://api.example", "http://api.example"),
        ("https://api.example", "https://api.example:80"),
        ("https://api.example", "https://api.example.:443"),
        (URL, URL.replace("c-1", "C-1")),
        (URL, "https://api.example:6443"),
        ("https://a@api.example", "https://b@api.example"),
        ("https://api.example?x=1", "https://api.example?x=2"),
        ("https://[fd00::1]", "https://fd00"),
        ("https://[fd00::1%1]", "https://[fd00::1%2]"),
        ("grpc://api.example:443", "grpc://api.example"),
        ("unix:/run/A.sock", "unix:/run/a.sock"),
        ("host:50051", "host:50052"),
        ("https://a:port", "https://a"),
        ("https://a:99999", "https://a"),
        ("https://[a", "https://a"),
        ("", "https://"),
    ],
)
def test_other_servers_have_other_keys(one: str, other: str) -> None:
    assert key(one) != key(other)


def test_each_part_of_a_key_counts() -> None:
    keys = [
        key(URL),
        key(URL, "somebody"),
        key(URL, "somebody", trust="ca-1"),
        key(URL, "somebody", trust="ca-2"),
        key(URL, "somebodyca-1"),
        key(URL, "somebody", route="ca-1"),
        key(URL, "", trust="somebody"),
        key(URL, 'somebody", "ca-1'),
        key(URL, "somebody as somebody-else"),
    ]
    assert len(set(keys)) == len(keys)


def test_servers_with_other_credentials_trust_or_routes_have_other_keys() -> None:
    servers = [
        Server(url=URL),
        Server(url=URL, access=user("a")),
        Server(url=URL, access=user("b")),
        Server(url=URL, access=StaticAccess(certificate="a")),
        Server(url=URL, access=StaticAccess(trust="a")),
        Server(url=URL, access=StaticAccess(trust="b")),
        Server(url=URL, proxy_url="http://east.example:3128"),
        Server(url=URL, proxy_url="http://west.example:3128"),
        Server(url=URL, tls_server_name="east.example"),
        Server(url=URL, tls_server_name="west.example"),
    ]
    assert len({key_of(server) for server in servers}) == len(servers)
    assert key_of(servers[1]) == key_of(Server(url=f"{URL}/", access=user("a")))


def test_options_that_change_no_answer_change_no_key() -> None:
    assert key_of(Server(url=URL)) == key_of(
        Server(url=URL, compress=False, request_timeout_s=None)
    )


def test_no_secret_can_be_read_from_a_key() -> None:
    server = Server(url="https://me:pw@a", access=user("secret"))
    assert re.fullmatch("[0-9a-f]{64}", key_of(server))


@pytest.mark.parametrize("text", ["\ud800", "é", "\0", "a" * 100_000])
def test_any_text_has_a_key(text: str) -> None:
    assert key(text, text, trust=text, route=text) != key("", "", trust="", route="")
