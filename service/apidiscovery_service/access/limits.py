"""Limits for one caller or address: token buckets for rates, counters for concurrent use."""

import ipaddress
import time
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

# A caller costs one number; callers beyond this share one.
_MAX_KEYS = 10_000
_SWEEP_EVERY_S = 1.0

# Rounding error of sums of times and intervals, also months after the clock began.
_ROUNDING_S = 1e-6

# A client with one address of an IPv6 network usually has all of the last 64 bits.
_IPV6_NETWORK_BITS = 64


@dataclass(frozen=True, slots=True)
class CallerLimits:
    """Limits of the front and of authenticated callers; 0 is no limit for each.

    Attributes:
        requests_per_second: HTTP requests and gRPC calls of one caller, on average; a caller is a
            user, or an address without credentials.
        burst_s: Burst of requests of one caller, in seconds of its average rate.
        watches: Streams of one caller at a time.
        connections: Connections of all clients.
        address_connections: Connections of one address (IPv6: one /64 network).
        connections_per_second: New connections of one address, on average.
        handshake_s: Time limit for the TLS handshake and the first request bytes.
        idle_s: Time without traffic after which a connection is cut.
    """

    requests_per_second: float = 1000.0
    burst_s: float = 2.0
    watches: int = 100
    connections: int = 4096
    address_connections: int = 512
    connections_per_second: float = 200.0
    handshake_s: float = 10.0
    idle_s: float = 300.0


class Buckets(Generic[Key]):
    """A token bucket for each key, in bounded memory.

    A bucket is stored as the time at which it will be full again (the generic cell rate algorithm,
    ITU-T I.371); a full bucket is not stored.

    Args:
        rate: Tokens a second; 0 for no limit.
        burst_s: Seconds that it takes to fill a bucket.
        clock: In seconds.
        max_keys: Number of stored buckets; keys beyond them share one bucket.
    """

    def __init__(
        self,
        rate: float,
        burst_s: float,
        clock: Callable[[], float] = time.monotonic,
        max_keys: int = _MAX_KEYS,
    ) -> None:
        self._interval_s = 1 / rate if rate else 0.0
        self._burst_s = max(burst_s, self._interval_s)
        self._clock = clock
        self._max_keys = max_keys
        self._full_at: dict[Key, float] = {}
        self._shared_full_at = 0.0
        self._swept = clock()

    def take(self, key: Key) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        if not self._interval_s:
            return 0.0
        now = self._clock()
        full_at = self._full_at.get(key)
        if full_at is None:
            if len(self._full_at) >= self._max_keys and not self._sweep(now):
                wait_s, self._shared_full_at = self._taken(self._shared_full_at, now)
                return wait_s
            full_at = now
        wait_s, self._full_at[key] = self._taken(full_at, now)
        return wait_s

    def _taken(self, full_at: float, now: float) -> tuple[float, float]:
        """Return the seconds to wait, 0 if a token was taken, and when the bucket is full then."""
        after = max(full_at, now) + self._interval_s
        wait_s = after - now - self._burst_s
        return (wait_s, full_at) if wait_s > _ROUNDING_S else (0.0, after)

    def _sweep(self, now: float) -> bool:
        """Drop full buckets, at most once a second; return whether there is room."""
        if now - self._swept >= _SWEEP_EVERY_S:
            self._swept = now
            self._full_at = {key: at for key, at in self._full_at.items() if at > now}
        return len(self._full_at) < self._max_keys

    def __len__(self) -> int:
        return len(self._full_at)


class Counts(Generic[Key]):
    """Counts the concurrent uses of each key.

    Args:
        most: Limit for each key; 0 for none.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: dict[Key, int] = {}

    def enter(self, key: Key) -> bool:
        """Count one more; return False and count nothing at the limit."""
        count = self._counts.get(key, 0)
        if self._most and count >= self._most:
            return False
        self._counts[key] = count + 1
        return True

    @contextmanager
    def counted(self, key: Key) -> Generator[bool]:
        """Count one while the body runs; yield False, and count nothing, at the limit."""
        is_counted = self.enter(key)
        try:
            yield is_counted
        finally:
            if is_counted:
                self.leave(key)

    def leave(self, key: Key) -> None:
        """Count one less."""
        count = self._counts.pop(key) - 1
        if count:
            self._counts[key] = count

    def __len__(self) -> int:
        return sum(self._counts.values())


def network(address: str) -> str:
    """Return the unit in which addresses are limited: IPv4 addresses, and /64 networks of IPv6."""
    if ":" not in address:
        return address
    parsed = ipaddress.IPv6Address(address.partition("%")[0])
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_NETWORK_BITS), strict=False))


def address_key(address: str) -> str:
    """Return the limit key of a caller without credentials."""
    return f"address {network(address)}"
