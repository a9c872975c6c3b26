"""Authenticates and authorizes callers, by connection and bearer token.

The order is kube-apiserver's: a client certificate, then a bearer token, then anonymous. An unknown
token is refused even where anonymous access is on. Sources: k8s.io/kubernetes
pkg/kubeapiserver/authenticator/config.go:Config.New; k8s.io/apiserver
pkg/authentication/request/bearertoken/bearertoken.go:AuthenticateRequest.
"""

import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from apidiscovery_service.access import ALL_CLUSTERS, ANONYMOUS, LOCAL, Caller, Grant, Role
from apidiscovery_service.access.credentials import Tokens
from apidiscovery_service.access.grants import Roles
from apidiscovery_service.access.limits import Buckets, CallerLimits, Counts, address_key
from apidiscovery_service.errors import DiscoveryError

_AUTHENTICATED = "system:authenticated"
_NAME_BYTES = 16

# Watches of one address at a time without authentication, as many as its calls over gRPC.
_OPEN_WATCHES = 6_000


class Unauthenticated(DiscoveryError):
    """The caller is unknown; the text has the reason, without the credentials.

    Attributes:
        limit_key: Key by which the attempts are limited; None for a connection that is not from
            the front.
    """

    def __init__(self, reason: str, limit_key: str | None = None) -> None:
        super().__init__(reason)
        self.limit_key = limit_key


class NoCredentials(Unauthenticated):
    """The caller sent no credentials, and anonymous access is off."""


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """A caller and its role.

    Attributes:
        caller: The caller.
        role: Its role.
        limit_key: Key by which requests are limited.
        valid_until: End of the credentials' validity, in seconds of Unix time.
        clusters: Patterns of the clusters that the caller may read about.
        issue: Identity of the tokens in force when this was decided.
    """

    caller: Caller
    role: Role
    limit_key: str
    valid_until: float
    issue: object = field(repr=False)
    clusters: tuple[str, ...] = ALL_CLUSTERS

    @property
    def user(self) -> str:
        """The name of the caller."""
        return self.caller.user


# The admission of every caller of a server without authentication.
EVERYTHING = Admission(LOCAL, Role.ADMIN, "", math.inf, None)


@dataclass(slots=True, eq=False)
class Peer:
    """The client of a connection.

    Attributes:
        address: IP address.
        caller: The user of the client certificate; None without one.
        valid_until: End of the certificate's validity, in seconds of Unix time.
        admitted: Cached decisions by Authorization header.
    """

    address: str
    caller: Caller | None = None
    valid_until: float = math.inf
    admitted: dict[bytes | None, Admission] = field(default_factory=dict[bytes | None, Admission])


class Peers:
    """The clients of the front's connections, by the name of the connection to the server.

    Each connection from the front to the server has a name: the last part of the path that its
    Unix socket is bound to. The front adds the name before it connects and removes it when the
    connection ends, so a connection whose name is missing is not the front's. Names are random and
    never reused: a request that is read late has no identity, never that of another client.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, Peer] = {}
        self.get = self._by_name.get  # called for every request

    def add(self, peer: Peer) -> str:
        """Add the client of a new connection; return the name of the connection."""
        name = secrets.token_hex(_NAME_BYTES)
        self._by_name[name] = peer
        return name

    def remove(self, name: str) -> None:
        """Remove a connection that has ended."""
        self._by_name.pop(name, None)

    def address_key(self, connection: str, host: str) -> str:
        """Return the limit key of the address that a connection comes from.

        Args:
            connection: The name of the connection.
            host: The address that the server sees, which counts for a connection that is not from
                the front.
        """
        peer = self.get(connection)
        return address_key(peer.address if peer is not None else host)

    def __iter__(self) -> Iterator[Peer]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def connection_name(path: str) -> str:
    """Return the name of a connection, given the path that its other end is bound to.

    Servers write the path differently (grpc begins it with `unix:` and escapes the folder); the
    name is hexadecimal digits everywhere. Empty, which is not a name, for an end without a path.
    """
    _, slash, name = path.rpartition("/")
    return name if slash else ""


class Access:
    """Authenticates callers and decides what they may do.

    Callers without credentials are admitted only if a grant names `system:anonymous` or
    `system:unauthenticated`.

    Args:
        grants: The roles of users and groups.
        tokens: The bearer tokens.
        peers: The connections of the front.
        limits: Limits for one caller.
        now: Unix time in seconds.

    Attributes:
        identifies: Whether callers are told apart.
        peers: The connections of the front.
        limits: Limits for one caller.
        watches: Counts the streams of each caller, by its limit key.
    """

    identifies: ClassVar[bool] = True

    def __init__(
        self,
        grants: Sequence[Grant] = (),
        tokens: Tokens | None = None,
        peers: Peers | None = None,
        limits: CallerLimits | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.peers = Peers() if peers is None else peers  # which is false while it is empty
        self.limits = limits or CallerLimits()
        self._now = now
        self._roles = Roles(grants)
        self._tokens = tokens or Tokens()
        self._issue = object()
        self._listeners: list[Callable[[], None]] = []
        self._requests: Buckets[str] = Buckets(self.limits.requests_per_second, self.limits.burst_s)
        self.watches: Counts[str] = Counts(self.limits.watches)

    def use_tokens(self, tokens: Tokens) -> None:
        """Replace the bearer tokens, and call the listeners."""
        self._tokens = tokens
        self._issue = object()
        for listener in tuple(self._listeners):
            listener()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` whenever admissions may have changed.

        Returns:
            A function that ends the subscription.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def admit(self, connection: str, authorization: bytes | None) -> Admission:
        """Authenticate a caller; the usual request costs two look-ups.

        Args:
            connection: The name of the connection from the front (see `Peers`).
            authorization: The first Authorization header field or metadata.

        Raises:
            NoCredentials: There are none.
            Unauthenticated: The connection is not the front's, or the credentials are wrong or
                have expired.
        """
        peer = self.peers.get(connection)
        if peer is None:
            raise Unauthenticated("the connection does not come through TLS")
        known = peer.admitted.get(authorization)
        if known is None or known.issue is not self._issue:
            known = self._admit(peer, authorization)
        if known.valid_until < self._now():
            raise Unauthenticated("the client certificate has expired", known.limit_key)
        return known

    def may_change(self, caller: Caller, api_groups: Iterable[str]) -> str | None:
        """Return why a caller may not change registrations of these API groups; None if it may.

        Without any group the right to change some is enough.
        """
        return self._roles.may_change(caller, api_groups)

    def all_may_read(self, cluster: str) -> bool:
        """Return whether every caller with a role may read about a cluster."""
        return self._roles.all_may_read(cluster)

    def throttle(self, limit_key: str) -> float:
        """Count a request; return 0, or the seconds after which to retry instead."""
        return self._requests.take(limit_key)

    def _admit(self, peer: Peer, authorization: bytes | None) -> Admission:
        caller = peer.caller or self._token_caller(peer, authorization)
        if caller is None:
            caller, key = ANONYMOUS, address_key(peer.address)
            if self._roles.role(caller) is Role.NONE:
                raise NoCredentials("no credentials were given", key)
        else:
            caller, key = _authenticated(caller), f"user {caller.user}"
        role, clusters = self._roles.role(caller), self._roles.clusters(caller)
        admission = Admission(caller, role, key, peer.valid_until, self._issue, clusters)
        # A client with a certificate may send any number of different headers.
        if len(peer.admitted) > len(self._tokens):
            peer.admitted.clear()
        peer.admitted[authorization] = admission
        return admission

    def _token_caller(self, peer: Peer, authorization: bytes | None) -> Caller | None:
        """Return the caller of a bearer token; None without a token.

        Raises:
            Unauthenticated: The token is unknown.
        """
        parts = (authorization or b"").strip().split(b" ")
        if len(parts) < 2 or parts[0].lower() != b"bearer" or not parts[1]:  # noqa: PLR2004
            return None
        caller = self._tokens.caller(parts[1])
        if caller is None:
            raise Unauthenticated("the bearer token is not known", address_key(peer.address))
        return caller


class OpenAccess(Access):
    """Admits every caller as an administrator: a server without authentication.

    Args:
        watches: Limit of the streams of one address at a time.
    """

    identifies = False

    def __init__(self, watches: int = _OPEN_WATCHES) -> None:
        super().__init__(limits=CallerLimits(requests_per_second=0, watches=watches))

    def admit(self, connection: str, authorization: bytes | None) -> Admission:  # noqa: ARG002 - as Access
        """Return `EVERYTHING`."""
        return EVERYTHING

    def may_change(self, caller: Caller, api_groups: Iterable[str]) -> str | None:  # noqa: ARG002 - as Access
        """Return None: every caller may."""
        return None

    def all_may_read(self, cluster: str) -> bool:  # noqa: ARG002 - as Access
        """Return True."""
        return True


def _authenticated(caller: Caller) -> Caller:
    """Return the caller with the group of all authenticated users.

    Source: k8s.io/apiserver pkg/authentication/group/authenticated_group_adder.go.
    """
    if _AUTHENTICATED in caller.groups or caller.user == ANONYMOUS.user:
        return caller
    return replace(caller, groups=(*caller.groups, _AUTHENTICATED))
