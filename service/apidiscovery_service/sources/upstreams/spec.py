"""The configuration of an upstream: endpoint, paths, filter, limits and timing."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from apidiscovery_service.sources.upstreams.endpoint import Endpoint

# The name of the core group in patterns, because its own name is empty.
CORE_IN_PATTERNS = "core"

_UNFIT_FOR_A_KEY = re.compile(r"[^A-Za-z0-9.-]+")
_SHOWN_OF_NAME = 60
_LONGEST_RETRY = 2  # poll intervals


class UpstreamKind(StrEnum):
    """The kind of an upstream.

    `SERVER` and `CLUSTER` are mirrored completely, `/api` and `/apis`: a cluster with a user's
    own credentials, a server with the headers of kube-aggregator. `SERVICE` is behind APIServices:
    only `/apis` is requested, and only their group-versions are served.
    """

    SERVER = "server"
    CLUSTER = "cluster"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class UpstreamLimits:
    """The limits of one upstream.

    Attributes:
        exchange_s: Time limit of a request with its complete answer; k8s.io/kube-aggregator
            pkg/apiserver/handler_discovery.go waits 5 s.
        body_bytes: Size of an answer, before and after decompression.
        group_versions: Group-versions in one document.
        concurrent: Concurrent requests to a server without aggregated discovery.
        versions_s: Time limit for all group-versions of such a server in one round.
        openapi_s: Time limit of a request for OpenAPI documents; k8s.io/kube-aggregator
            pkg/controllers/openapiv3/aggregator/aggregator.go waits 60 s.
        openapi_bytes: Size of the document of a group-version, or of the index.
        openapi_v2_bytes: Size of a v2 document, which has all group-versions.
        openapi_kept_bytes: Size of all documents together in the store, compressed; those of a
            large cluster take 5 MiB.
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
    """The polling intervals and retries of an upstream.

    Attributes:
        poll_s: Pause after success.
        first_retry_s: Pause after the first failure; doubles with each further one.
        last_retry_s: Maximum of that pause; another one is twice `poll_s`.
        empty_answers: How many answers without groups or documents in a row, a poll apart, are
            needed before they are accepted.
        openapi_s: Pause between requests for the index of OpenAPI documents, also after the first
            failure; doubles with each further one.
        openapi_last_retry_s: Maximum of that pause.
        openapi_after_s: Pause after a change of discovery before the request for the index, so
            that discovery comes first.

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
class VersionFilter:
    """Selects group-versions: those that match `allow`, or all, without those that match `deny`.

    Patterns may have `*` and `?`. A pattern with a slash is matched with `group/version`, others
    with the name of the group; the core group is called `core`.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    def takes(self, group: str, version: str) -> bool:
        """Tell whether a group-version is selected."""
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
        core_paths: Paths of the core group. Resources of the same version from several paths make
            one version, because discovery has only one core group: OpenShift 3 lists its own
            resources of version v1 at `/oapi`.
        named_paths: Paths of named groups; of a group-version in several, the first wins.
        trust: Distinguishes servers with the same URL, for example by a hash of a CA bundle.
        openapi: Whether to request its OpenAPI documents.
        merge: Whether it is merged into what we serve ourselves; if not, it is served only as a
            cluster of the fleet.
        labels: Of the cluster, as the operator gave them.
    """

    name: str
    endpoint: Endpoint
    kind: UpstreamKind = UpstreamKind.SERVER
    core_paths: tuple[str, ...] = ("/api",)
    named_paths: tuple[str, ...] = ("/apis",)
    filter: VersionFilter = field(default_factory=VersionFilter)
    limits: UpstreamLimits = field(default_factory=UpstreamLimits)
    timing: Timing = field(default_factory=Timing)
    trust: str = ""
    openapi: bool = True
    merge: bool = True
    labels: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)

    @property
    def paths(self) -> tuple[tuple[str, bool], ...]:
        """Each path to request, and whether it has the core group."""
        core = () if self.kind is UpstreamKind.SERVICE else self.core_paths
        return (*((path, True) for path in core), *((path, False) for path in self.named_paths))

    @property
    def id(self) -> str:
        """The name in the store, with a hash of the configuration.

        So processes with different configurations can share a store.
        """
        content = [self.name, self.endpoint.url, self.kind, self.paths, self.trust]
        content += [self.filter.allow, self.filter.deny]
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
        return f"{_UNFIT_FOR_A_KEY.sub('_', self.name)[:_SHOWN_OF_NAME]}-{digest}"
