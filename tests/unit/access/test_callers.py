"""The caller by certificate or token, in the order of kube-apiserver."""

import time

import pytest
from apidiscovery_service.access import ANONYMOUS, Caller, Grant, Role
from apidiscovery_service.access.authenticator import (
    EVERYTHING,
    Access,
    Admission,
    NoCredentials,
    OpenAccess,
    Peer,
    Peers,
    Unauthenticated,
    connection_name,
)
from apidiscovery_service.access.credentials import certificate_caller, parse_tokens, valid_until

ALL = (Grant(Role.READER, groups=frozenset({"system:authenticated"})),)
TOKENS = parse_tokens(b"abc,ann,1,east\n", "t.csv")


class Served:
    """An access, and the name of a connection to it."""

    def __init__(self, peer: Peer | None = None, *grants: Grant) -> None:
        self.access = Access(grants or ALL, TOKENS)
        self.connection = self.access.peers.add(peer or Peer("192.0.2.1"))

    def admit(self, authorization: bytes | None) -> Admission:
        return self.access.admit(self.connection, authorization)


@pytest.mark.parametrize(
    "header",
    [b"Bearer abc", b"bearer abc", b"BEARER abc", b"  Bearer abc  ", b"Bearer abc more"],
)
def test_a_token_identifies_the_caller(header: bytes) -> None:
    admission = Served().admit(header)
    assert admission.caller == Caller("ann", ("east", "system:authenticated"))
    assert (admission.role, admission.limit_key) == (Role.READER, "user ann")


@pytest.mark.parametrize("header", [b"Bearer abcd", b"Bearer ab", b"Bearer ABC", b"bearer \xff"])
def test_an_unknown_token_is_refused_even_with_anonymous_access(header: bytes) -> None:
    anonymous = Grant(Role.READER, users=frozenset({ANONYMOUS.user}))
    with pytest.raises(Unauthenticated, match="the bearer token is not known") as caught:
        Served(None, anonymous).admit(header)
    assert not isinstance(caught.value, NoCredentials)
    assert caught.value.limit_key == "address 192.0.2.1"


def test_open_access_admits_every_caller_as_admin_at_any_rate() -> None:
    access = OpenAccess(watches=1)
    assert access.admit("no connection of a front", b"Bearer unheard-of") is EVERYTHING
    assert access.may_change(Caller("eve"), ["apps"]) is None
    assert access.all_may_read("east")
    assert not any(access.throttle("") for _ in range(10_000))
    assert access.watches.enter("address 192.0.2.1")
    assert not access.watches.enter("address 192.0.2.1")


@pytest.mark.parametrize("header", [None, b"", b"Bearer", b"Bearer ", b"Bearer  abc", b"Basic abc"])
def test_a_header_without_a_token_is_anonymous(header: bytes | None) -> None:
    with pytest.raises(NoCredentials):
        Served().admit(header)
    anonymous = Grant(Role.READER, groups=frozenset({"system:unauthenticated"}))
    admission = Served(None, anonymous).admit(header)
    assert admission.caller == ANONYMOUS
    assert admission.limit_key == "address 192.0.2.1"


def test_anonymous_is_not_in_the_group_of_authenticated_users() -> None:
    anonymous = Grant(Role.READER, users=frozenset({ANONYMOUS.user}))
    caller = Served(None, anonymous, *ALL).admit(None).caller
    assert "system:authenticated" not in caller.groups


def test_a_certificate_goes_before_a_token() -> None:
    peer = Peer("192.0.2.1", Caller("bob", ("west",)), time.time() + 60)
    for header in (None, b"Bearer abc", b"Bearer wrong"):
        assert Served(peer).admit(header).caller.user == "bob"


def test_the_cache_of_headers_is_bounded() -> None:
    peer = Peer("192.0.2.1", Caller("bob"))
    served = Served(peer)
    for number in range(1000):
        served.admit(b"Bearer %d" % number)
    assert len(peer.admitted) < 5


def test_an_expired_certificate_counts_no_more() -> None:
    clock = [100.0]
    served = Access(ALL, TOKENS, now=lambda: clock[0])
    name = served.peers.add(Peer("192.0.2.1", Caller("bob"), 200.0))
    assert served.admit(name, None).caller.user == "bob"
    clock[0] = 201.0
    with pytest.raises(Unauthenticated, match="the client certificate has expired"):
        served.admit(name, None)


def test_a_connection_past_the_front_is_refused() -> None:
    with pytest.raises(Unauthenticated, match="does not come through TLS") as caught:
        Served().access.admit("0" * 32, b"Bearer abc")
    assert caught.value.limit_key is None


def test_other_tokens_count_at_once_and_are_announced() -> None:
    served, heard = Served(), list[int]()
    undo = served.access.subscribe(lambda: heard.append(1))
    assert served.admit(b"Bearer abc") is served.admit(b"Bearer abc")
    served.access.use_tokens(parse_tokens(b"new,ann,1\n", "t.csv"))
    with pytest.raises(Unauthenticated):
        served.admit(b"Bearer abc")
    assert served.admit(b"Bearer new").caller.user == "ann"
    assert heard == [1]
    undo()
    served.access.use_tokens(TOKENS)
    assert heard == [1]


def test_no_two_connections_have_the_same_name() -> None:
    """The name of a connection that has ended is not used again: its requests may be read late."""
    peers = Peers()
    first = peers.add(Peer("a"))
    peers.remove(first)
    names = {peers.add(Peer("b")) for _ in range(1000)}
    assert len(names | {first}) == 1001
    assert peers.get(first) is None
    assert len(peers) == 1000


@pytest.mark.parametrize(
    ("end", "name"),
    [
        ("/run/a/0af3", "0af3"),
        ("unix:/run/a%20b/0af3", "0af3"),
        ("127.0.0.1", ""),
        ("ipv4:127.0.0.1:5", ""),
        ("ipv6:%5B::1%5D:5", ""),
        ("unix:", ""),
        ("", ""),
    ],
)
def test_connections_have_a_name_by_their_path_alone(end: str, name: str) -> None:
    assert connection_name(end) == name


def subject(*pairs: tuple[str, str]) -> dict[str, object]:
    return {"subject": tuple((pair,) for pair in pairs)}


def test_the_subject_of_a_certificate() -> None:
    full = subject(
        ("organizationName", "b"),
        ("organizationalUnitName", "x"),
        ("organizationName", "a"),
        ("commonName", "ann"),
    )
    assert certificate_caller(full) == Caller("ann", ("b", "a"))
    assert certificate_caller(subject(("organizationName", "a"))) is None
    assert certificate_caller(subject(("commonName", ""))) is None
    assert certificate_caller(None) is None
    assert valid_until({"notAfter": "Jan  2 00:00:01 1970 GMT"}) == 86401.0
