"""What an upstream is: where it is asked, for what, and within which limits."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Protocol

import httpx2

# How the core group is written in patterns, since its own name is empty.
CORE_IN_PATTERNS = "core"

_UNFIT_FOR_A_KEY = re.compile(r"[^A-Za-z0-9.-]+")
_SHOWN_OF_NAME = 60
# In intervals of polls.
_LONGEST_RETRY = 2


class Endpoint(Protocol):
    """Where a server is, and how to be let in."""

    @property
    def url(self) -> str:
        """The server's root, without credentials."""
        ...

    @property
    def proxy(self) -> str:
        """`HOST:PORT` of the proxy that is connected to in place of the server; empty for none."""
        ...

    def client(self) -> httpx2.AsyncClient:
        """Return the client, which has TLS and proxies set up; the same one until `aclose`."""
        ...

    async def headers(self) -> dict[str, str]:
        """Return credentials for one request, fresh."""
        ...

    def refresh(self, refused: Mapping[str, str] | None = None) -> None:
        """Drop credentials that were refused with a 401."""
        ...

    async def aclose(self) -> None:
        """Close the connections; the next client has new ones."""
        ...


class Kind(StrEnum):
    """What an upstream is taken for.

    `SERVER` and `CLUSTER` are mirrored whole, `/api` and `/apis`; a cluster is asked with a user's
    own credentials, a server as kube-aggregator asks. `SERVICE` is behind APIServices: only `/apis`
    is asked, and only their group-versions are served.
    """

    SERVER = "server"
    CLUSTER = "cluster"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one upstream may take.

    Attributes:
        exchange_s: Around each request with its whole answer; k8s.io/kube-aggregator
            pkg/apiserver/handler_discovery.go waits 5 s.
        body_bytes: Of an answer, before and after decompression.
        group_versions: Of one document.
        concurrent: Requests at once to one old server.
        versions_s: For all group-versions of an old server in one round.
        openapi_s: Around each request for OpenAPI documents;
            k8s.io/kube-aggregator pkg/controllers/openapiv3/aggregator/aggregator.go waits 60 s.
        openapi_bytes: Of one document of a group-version, or of the index of them.
        openapi_v2_bytes: Of the document of an old server, which has all group-versions.
        openapi_kept_bytes: Of all documents together as they are kept, which is compressed; those
            of a large cluster take 5 MiB.
    """

    exchange_s: float = 5.0
    body_bytes: int = 32 * 1024 * 1024
    group_versions: int = 10_000
    concurrent: int = 16
    versions_s: float = 30.0
    openapi_s: float = 60.0
    openapi_bytes: int = 32 * 1024 * 1024
    openapi_v2_bytes: int = 64 * 1024 * 1024
    openapi_kept_bytes: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Timing:
    """When an upstream is asked again.

    Attributes:
        poll_s: After success.
        first_retry_s: After the first failure; doubled after each further one.
        last_retry_s: What that never exceeds, nor twice `poll_s`.
        empty_answers: How often an upstream has to say that it has no groups any more, a poll
            apart, before that is believed.
        openapi_s: Between requests for the index of OpenAPI documents, and after the first failure
            of one; doubled after each further one.
        openapi_last_retry_s: What that never exceeds.
        openapi_after_s: How long after a change of discovery the index is asked for, so that
            discovery comes first.

    Source: k8s.io/kube-aggregator pkg/apiserver/handler_discovery.go:Run and
    pkg/controllers/openapiv3/controller.go.
    """

    poll_s: float = 60.0
    first_retry_s: float = 0.5
    last_retry_s: float = 60.0
    empty_answers: int = 2
    openapi_s: float = 60.0
    openapi_last_retry_s: float = 3600.0
    openapi_after_s: float = 0.5

    def pause_s(self, failures: int) -> float:
        """Return the pause before the next poll, after so many failures in a row."""
        if not failures:
            return self.poll_s
        longest = max(self.first_retry_s, min(self.last_retry_s, _LONGEST_RETRY * self.poll_s))
        return _doubled(self.first_retry_s, failures, longest)

    def openapi_pause_s(self, failures: int) -> float:
        """Return the pause before the next request for the index of OpenAPI documents."""
        longest = max(self.openapi_s, self.openapi_last_retry_s)
        return _doubled(self.openapi_s, failures, longest)


def _doubled(first_s: float, failures: int, longest_s: float) -> float:
    """Return a pause that doubles with each failure after the first."""
    return min(first_s * 2.0 ** min(max(failures - 1, 0), 32), longest_s)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which group-versions are taken: those that `allow` has, or all, without those of `deny`.

    A pattern has `*` and `?`. Without a slash it is matched with the name of the group, with one
    with `group/version`; the core group is called `core`.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def takes(self, group: str, version: str) -> bool:
        """Tell whether a group-version is taken."""
        name = group or CORE_IN_PATTERNS
        allowed = not self.allow or _matches(self.allow, name, version)
        return allowed and not _matches(self.deny, name, version)


def _matches(patterns: Iterable[str], group: str, version: str) -> bool:
    return any(
        fnmatchcase(f"{group}/{version}" if "/" in pattern else group, pattern)
        for pattern in patterns
    )


@dataclass(frozen=True, slots=True)
class UpstreamSpec:
    """One upstream as it is configured.

    Attributes:
        name: Unique among the upstreams of a process.
        core_paths: Where versions without a group are listed. Resources of the same version from
            several paths make one version, for discovery knows only one core group: OpenShift 3
            lists its own resources of version v1 at `/oapi`.
        named_paths: Where groups are listed; of a group-version that several have, the first wins.
        trust: What else tells servers apart that have the same URL, such as a hash of a CA bundle.
        openapi: Whether its OpenAPI documents are asked for.
    """

    name: str
    endpoint: Endpoint
    kind: Kind = Kind.SERVER
    core_paths: tuple[str, ...] = ("/api",)
    named_paths: tuple[str, ...] = ("/apis",)
    filter: Filter = field(default_factory=Filter)
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)
    trust: str = ""
    openapi: bool = True

    @property
    def paths(self) -> tuple[tuple[str, bool], ...]:
        """Each path that is asked, and whether it has the core group."""
        core = () if self.kind is Kind.SERVICE else self.core_paths
        return (*((path, True) for path in core), *((path, False) for path in self.named_paths))

    @property
    def id(self) -> str:
        """The name in the store: other content, other name.

        So servers that are configured differently can share a store.
        """
        content = [self.name, self.endpoint.url, self.kind, self.paths, self.trust]
        content += [self.filter.allow, self.filter.deny]
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
        return f"{_UNFIT_FOR_A_KEY.sub('_', self.name)[:_SHOWN_OF_NAME]}-{digest}"
