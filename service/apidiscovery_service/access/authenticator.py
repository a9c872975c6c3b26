"""From what a request brings to who calls and what they may do.

The order is kube-apiserver's: a client certificate, then a bearer token, then nobody. A token that
is nobody's is refused even where nobody would do. Sources: k8s.io/kubernetes
pkg/kubeapiserver/authenticator/config.go:Config.New; k8s.io/apiserver
pkg/authentication/request/bearertoken/bearertoken.go:AuthenticateRequest.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from apidiscovery_service.access import ANONYMOUS, Caller, Grant, Role
from apidiscovery_service.access.limits import Buckets, Counts, Limits, network
from apidiscovery_service.access.peers import Peer, Peers
from apidiscovery_service.access.roles import Roles
from apidiscovery_service.access.tokens import Tokens
from apidiscovery_service.errors import DiscoveryError

AUTHENTICATED = "system:authenticated"

Listener = Callable[[], None]


class Unauthenticated(DiscoveryError):
    """Nobody is known to call; the text says why, without what was brought.

    Attributes:
        limit_key: By which the attempts are limited; None when they do not come from the front.
    """

    def __init__(self, reason: str, limit_key: str | None = None) -> None:
        super().__init__(reason)
        self.limit_key = limit_key


class NoCredentials(Unauthenticated):
    """The caller sent no credentials, and anonymous access is off."""


@dataclass(frozen=True, slots=True, eq=False)
class Admission:
    """Who calls, and as what.

    Attributes:
        limit_key: By which requests are limited.
        valid_until: After this the credentials have expired, in seconds of Unix time.
        issued: What was known of tokens and grants when this was decided.
    """

    caller: Caller
    role: Role
    limit_key: str
    valid_until: float
    issued: object = field(repr=False)


class Access:
    """Identifies callers and decides what they may do.

    Nobody at all is a caller only if a grant names `system:anonymous` or
    `system:unauthenticated`.

    Args:
        grants: Who has which role.
        tokens: Whose bearer token is whose.
        peers: The connections of the front.
        limits: How much one caller may take.
        now: Unix time in seconds.
    """

    def __init__(
        self,
        grants: Sequence[Grant] = (),
        tokens: Tokens | None = None,
        peers: Peers | None = None,
        limits: Limits | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.peers = Peers() if peers is None else peers  # which is false while it is empty
        self.limits = limits or Limits()
        self._now = now
        self._roles = Roles(grants)
        self._tokens = tokens or Tokens()
        self._issue = object()
        self._listeners: list[Listener] = []
        self._requests: Buckets[str] = Buckets(self.limits.requests_per_second, self.limits.burst_s)
        self._watches: Counts[str] = Counts(self.limits.watches)

    def use_tokens(self, tokens: Tokens) -> None:
        """Take other tokens from now on."""
        self._tokens = tokens
        self._renew()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` whenever admissions may have changed, until undone.

        Returns:
            What to call to end the subscription.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def admit(self, connection: str, authorization: bytes | None) -> Admission:
        """Say who calls; the usual request costs two look-ups.

        Args:
            connection: The name of the connection from the front (`access.peers`).
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
        if not isinstance(known, Admission) or known.issued is not self._issue:
            known = self._admit(peer, authorization)
        if known.valid_until < self._now():
            raise Unauthenticated("the client certificate has expired", known.limit_key)
        return known

    def may_change(self, caller: Caller, api_groups: Iterable[str]) -> str | None:
        """Say why a caller may not change registrations of these API groups; None if it may."""
        return self._roles.may_change(caller, api_groups)

    def throttle(self, limit_key: str) -> float:
        """Count a request; return 0, or after how many seconds to come again instead."""
        return self._requests.take(limit_key)

    def begin_watch(self, limit_key: str) -> bool:
        """Count a stream; False if the caller has as many as it may have."""
        return self._watches.enter(limit_key)

    def end_watch(self, limit_key: str) -> None:
        """Count a stream less."""
        self._watches.leave(limit_key)

    def _renew(self) -> None:
        self._issue = object()
        for listener in tuple(self._listeners):
            listener()

    def _admit(self, peer: Peer, authorization: bytes | None) -> Admission:
        caller = peer.caller or self._token_caller(peer, authorization)
        if caller is None:
            caller, key = ANONYMOUS, f"address {network(peer.address)}"
            if self._roles.role(caller) is Role.NONE:
                raise NoCredentials("no credentials were given", key)
        else:
            caller, key = _authenticated(caller), f"user {caller.user}"
        admission = Admission(caller, self._roles.role(caller), key, peer.valid_until, self._issue)
        # Bounded by the tokens that there are, and whatever a client with a certificate makes up.
        if len(peer.admitted) > len(self._tokens):
            peer.admitted.clear()
        peer.admitted[authorization] = admission
        return admission

    def _token_caller(self, peer: Peer, authorization: bytes | None) -> Caller | None:
        """Return whose token it is; None if there is no token.

        Raises:
            Unauthenticated: It is nobody's.
        """
        parts = (authorization or b"").strip().split(b" ")
        if len(parts) < 2 or parts[0].lower() != b"bearer" or not parts[1]:  # noqa: PLR2004
            return None
        caller = self._tokens.caller(parts[1])
        if caller is None:
            key = f"address {network(peer.address)}"
            raise Unauthenticated("the bearer token is not known", key)
        return caller


def _authenticated(caller: Caller) -> Caller:
    """Return the caller in the group of all who are known.

    Source: k8s.io/apiserver pkg/authentication/group/authenticated_group_adder.go.
    """
    if AUTHENTICATED in caller.groups or caller.user == ANONYMOUS.user:
        return caller
    return replace(caller, groups=(*caller.groups, AUTHENTICATED))
