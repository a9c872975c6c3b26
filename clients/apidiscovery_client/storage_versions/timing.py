"""How often an API server says that it is alive and what it writes.

Sources, unless said otherwise: k8s.io/apiserver pkg/server/config.go and Kubernetes
pkg/controlplane/apiserver/server.go (lease of an hour, renewed every 10 s), and k8s.io/apiserver
pkg/storageversion (report retried after 1 s, repeated every 10 minutes).
"""

from dataclasses import dataclass

_MAX_LEASE_S = 86400  # storage_version.proto HeartbeatRequest
_LONGEST_WRITE_S = 60.0  # kube-apiserver --request-timeout
_WRITE_SHARE = 0.1
_HEARTBEATS_A_LEASE = 3  # so that one may be lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Durations, in seconds.

    Attributes:
        lease_duration_s: How long the server stays a member without a heartbeat.
        heartbeat_s: Between heartbeats, unless the service says another time, and never more than
            a third of the lease.
        jitter: By how much, as a share of it, that time differs at random, up or down.
        report_again_s: Between reports of what has been reported already, to repair what others
            have broken.
        retry_s: After a failure.
        not_a_member_s: Before another report when the service knows of no lease.
        call_timeout_s: For each call to each address, and never more than a third of the lease.
        write_within_s: How long a write may take that was let through: so much earlier than the
            lease can end the gate closes. None for a tenth of the lease, at most a minute.
    """

    lease_duration_s: int = 3600
    heartbeat_s: float = 10.0
    jitter: float = 0.04
    report_again_s: float = 600.0
    retry_s: float = 1.0
    not_a_member_s: float = 0.1
    call_timeout_s: float = 10.0
    write_within_s: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.lease_duration_s <= _MAX_LEASE_S:
            seen = self.lease_duration_s
            raise ValueError(f"a lease of {seen} s is not from 1 to {_MAX_LEASE_S} s")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"a jitter of {self.jitter} is not a share below 1")
        if not 0 <= self.margin_s < self.lease_duration_s:
            raise ValueError(
                f"writes of {self.margin_s} s do not fit into a lease of {self.lease_duration_s} s"
            )
        waits = (self.heartbeat_s, self.report_again_s, self.retry_s, self.not_a_member_s)
        if min(*waits, self.call_timeout_s) <= 0:
            raise ValueError("every wait has to be longer than nothing")

    @property
    def margin_s(self) -> float:
        """Return how much earlier than the lease can end the gate closes."""
        if self.write_within_s is not None:
            return self.write_within_s
        return min(_LONGEST_WRITE_S, self.lease_duration_s * _WRITE_SHARE)

    @property
    def longest_wait_s(self) -> float:
        """Return what neither a call nor the time between two heartbeats exceeds."""
        return self.lease_duration_s / _HEARTBEATS_A_LEASE


DEFAULT_TIMING = Timing()
