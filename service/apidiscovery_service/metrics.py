"""Metrics, in the text format of Prometheus.

Metrics of kube-apiserver have its names (k8s.io/apiserver
pkg/endpoints/discovery/aggregated/metrics.go, pkg/endpoints/metrics, staging/.../healthz); our own
begin with `apidiscovery_`.

The request path counts in plain integers (`RequestStats`), and a scrape turns them into samples:
a labelled counter of prometheus-client would cost a tenth of a whole answer.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from time import monotonic

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Suffix of `RequestLabels.representation` for requests with `profile=nopeer`.
NO_PEER_SUFFIX = ";profile=nopeer"

_BOUNDS_S = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0,
)  # fmt: skip

_HTTP_OK = 200
_HTTP_NOT_MODIFIED = 304


@dataclass(frozen=True, slots=True)
class RequestLabels:
    """Labels of requests.

    Attributes:
        method: The HTTP method, or `OTHER`: an invented one must not make a series.
        endpoint: The kind of path, such as `/apis/{group}`.
        representation: The media type of the answer, with the version when it is aggregated.
        coding: The content coding of the answer.
        code: The HTTP status.
        aggregated: `api` or `apis` when the answer is an aggregated document, else empty.
    """

    method: str
    endpoint: str
    representation: str
    coding: str
    code: int
    aggregated: str = ""


@dataclass(slots=True)
class RequestStats:
    """Durations of the requests with the same labels, as a histogram."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS_S) + 1))
    seconds: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one request."""
        self.seconds += seconds
        self.buckets[bisect_left(_BOUNDS_S, seconds)] += 1

    @property
    def count(self) -> int:
        return sum(self.buckets)

    def cumulative(self) -> list[tuple[str, float]]:
        """Return the cumulative buckets, by upper bound."""
        bounds = [*map(str, _BOUNDS_S), "+Inf"]
        return list(zip(bounds, map(float, accumulate(self.buckets)), strict=True))


class _Requests(Collector):
    """Turns request statistics into samples."""

    def __init__(self) -> None:
        self.stats: dict[RequestLabels, RequestStats] = {}

    def collect(self) -> Iterator[Metric]:
        yield from self._ours()
        yield from self._kubernetes()
        yield self._not_modified_share()

    def _ours(self) -> Iterator[Metric]:
        names = ["method", "endpoint", "representation", "coding", "code"]
        counts = CounterMetricFamily(
            "apidiscovery_http_requests", "HTTP requests answered", labels=names
        )
        durations = HistogramMetricFamily(
            "apidiscovery_http_request_duration_seconds",
            "From the request's arrival to the last byte handed to the server",
            labels=names,
        )
        for labels, stats in self.stats.items():
            values = [
                labels.method,
                labels.endpoint,
                labels.representation,
                labels.coding,
                str(labels.code),
            ]
            counts.add_metric(values, stats.count)
            durations.add_metric(values, stats.cumulative(), stats.seconds)
        yield counts
        yield durations

    def _kubernetes(self) -> Iterator[Metric]:
        names = ["verb", "dry_run", "group", "version", "resource", "subresource", "scope"]
        names.append("component")
        counts = CounterMetricFamily(
            "apiserver_request", "Requests for aggregated discovery", labels=[*names, "code"]
        )
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Response latency of requests for aggregated discovery",
            labels=names,
        )
        by_path: dict[str, RequestStats] = {}
        by_code: dict[tuple[str, int], int] = {}
        for labels, stats in self.stats.items():
            if not labels.aggregated:
                continue
            key = (labels.aggregated, labels.code)
            by_code[key] = by_code.get(key, 0) + stats.count
            total = by_path.setdefault(labels.aggregated, RequestStats())
            total.seconds += stats.seconds
            total.buckets = [a + b for a, b in zip(total.buckets, stats.buckets, strict=True)]
        for (path, code), count in by_code.items():
            counts.add_metric(["GET", "", "", "", "", path, "", "apiserver", str(code)], count)
        for path, stats in by_path.items():
            values = ["GET", "", "", "", "", path, "", "apiserver"]
            durations.add_metric(values, stats.cumulative(), stats.seconds)
        yield counts
        yield durations
        no_peer = CounterMetricFamily(
            "aggregator_discovery_nopeer_requests", "Requests with profile=nopeer"
        )
        count = sum(
            stats.count
            for labels, stats in self.stats.items()
            if labels.representation.endswith(NO_PEER_SUFFIX)
        )
        no_peer.add_metric([], count)
        yield no_peer

    def _not_modified_share(self) -> Metric:
        share = GaugeMetricFamily(
            "apidiscovery_http_not_modified_share",
            "304s among the successful requests for aggregated discovery since the start",
        )
        by_code = {_HTTP_OK: 0, _HTTP_NOT_MODIFIED: 0}
        for labels, stats in self.stats.items():
            if labels.aggregated and labels.code in by_code:
                by_code[labels.code] += stats.count
        total = sum(by_code.values())
        share.add_metric([], by_code[_HTTP_NOT_MODIFIED] / total if total else 0.0)
        return share


class UnavailableServices(Collector):
    """Unavailable APIServices.

    A collector, since prometheus-client takes the two metrics of kube-aggregator
    (pkg/controllers/status/metrics/metrics.go) for one name.
    """

    def __init__(self) -> None:
        self._unavailable: dict[str, bool] = {}
        self._total: dict[tuple[str, str], int] = {}

    def set(self, name: str, reason: str) -> None:
        """Set the reason why an APIService is unavailable; empty if it is available."""
        if reason and not self._unavailable.get(name):
            self._total[name, reason] = self._total.get((name, reason), 0) + 1
        self._unavailable[name] = bool(reason)

    def forget(self, name: str) -> None:
        """Drop the series of a removed APIService."""
        self._unavailable.pop(name, None)
        self._total = {key: count for key, count in self._total.items() if key[0] != name}

    def collect(self) -> Iterator[Metric]:
        name = "aggregator_unavailable_apiservice"
        now = GaugeMetricFamily(name, "1 for an APIService that is unavailable", labels=["name"])
        for service, is_unavailable in self._unavailable.items():
            now.add_metric([service], is_unavailable)
        total = CounterMetricFamily(
            name, "How often APIServices became unavailable", labels=["name", "reason"]
        )
        for labels, count in self._total.items():
            total.add_metric(labels, count)
        yield now
        yield total


class UpstreamMetrics:
    """Metrics of upstreams."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.api_services = UnavailableServices()
        registry.register(self.api_services)
        self.state = Gauge(
            "apidiscovery_upstream_state",
            "1 for the state that a source of another API server is in, 0 for the others",
            ["source", "state"],
            registry=registry,
        )
        self.polls = Counter(
            "apidiscovery_upstream_polls",
            "Polls of a path of another API server by this process",
            ["upstream", "result"],
            registry=registry,
        )
        self.openapi_polls = Counter(
            "apidiscovery_upstream_openapi_polls",
            "Polls of another API server for OpenAPI documents by this process",
            ["upstream", "result"],
            registry=registry,
        )
        self.bytes = Counter(
            "apidiscovery_upstream_received_bytes",
            "Bodies received from another API server, as they were sent",
            ["upstream"],
            registry=registry,
        )
        self._since_success = Gauge(
            "apidiscovery_upstream_seconds_since_success",
            "Since this process polled another API server and nothing failed",
            ["upstream"],
            registry=registry,
        )

    def succeeded(self, upstream: str) -> None:
        """Note that a poll has just succeeded."""
        now = monotonic()
        self._since_success.labels(upstream).set_function(lambda: monotonic() - now)

    def forget_upstream(self, name: str) -> None:
        """Drop the series of a removed upstream."""
        for metric in (self.polls, self.openapi_polls, self.bytes, self._since_success):
            metric.remove_by_labels({"upstream": name})

    def forget_source(self, source: str) -> None:
        """Drop the series of a removed source."""
        self.state.remove_by_labels({"source": source})


class StoreMetrics:
    """Metrics of the store."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.news_age = Gauge(
            "apidiscovery_store_news_age_seconds",
            "Since the store was last heard of by what follows it, be it that nothing has changed",
            registry=registry,
        )
        self._failures = Counter(
            "apidiscovery_store_failures",
            "Requests to the store that failed",
            ["operation", "reason"],
            registry=registry,
        )
        self._failing = Gauge(
            "apidiscovery_store_failing",
            "1 when the last request of this kind to the store failed for this reason",
            ["operation", "reason"],
            registry=registry,
        )

    def failed(self, operation: str, reason: str) -> None:
        """Count a failed request."""
        self._failures.labels(operation, reason).inc()
        self.works(operation)
        self._failing.labels(operation, reason).set(1)

    def works(self, operation: str) -> None:
        """Note that the last request succeeded."""
        self._failing.remove_by_labels({"operation": operation})


class Metrics:
    """All metrics of one server; not shared between servers of one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = _Requests()
        self._registry.register(self._requests)
        self.upstreams = UpstreamMetrics(self._registry)
        self.store = StoreMetrics(self._registry)
        self.aggregations = self._counter(
            "aggregator_discovery_aggregation_count", "Aggregated documents rebuilt"
        )
        self.groups = Gauge(
            "apidiscovery_groups", "Groups served, the core group included", registry=self._registry
        )
        self.document_bytes = Gauge(
            "apidiscovery_document_bytes",
            "Size of the aggregated document as last sent",
            ["document", "representation", "coding"],
            registry=self._registry,
        )
        self.manifest_errors = Gauge(
            "apidiscovery_manifest_file_error",
            "1 for a manifest file that cannot be read as it is now; its last good content serves",
            ["file"],
            registry=self._registry,
        )
        self.manifest_loads = self._counter(
            "apidiscovery_manifest_loads", "Manifest files read", "result"
        )
        self.grpc_requests = self._counter(
            "apidiscovery_grpc_requests", "gRPC calls ended", "method", "code"
        )
        self.grpc_watchers = Gauge(
            "apidiscovery_grpc_watchers", "WatchDiscovery streams open", registry=self._registry
        )
        self.crd_openapi = Histogram(
            "crd_openapi_v3_aggregation_duration_seconds",
            "Making the OpenAPI v3 document of one group-version of custom resources",
            registry=self._registry,
        )
        self._openapi = Histogram(
            "apidiscovery_openapi_seconds",
            "Making OpenAPI documents, their other forms and codings, and the index",
            ["what"],
            registry=self._registry,
        )
        self._healthcheck = Gauge(
            "kubernetes_healthcheck",
            "Result of the last run of a health check, 1 for success",
            ["name", "type"],
            registry=self._registry,
        )
        self._healthchecks = self._counter(
            "kubernetes_healthchecks", "Runs of health checks", "name", "type", "status"
        )

    def _counter(self, name: str, documentation: str, *labels: str) -> Counter:
        return Counter(name, documentation, labels, registry=self._registry)

    def register(self, collector: Collector) -> None:
        """Add the metrics of another part of the server."""
        self._registry.register(collector)

    def request_stats(self, labels: RequestLabels) -> RequestStats:
        """Return the statistics of requests with these labels."""
        stats = self._requests.stats.get(labels)
        if stats is None:
            stats = self._requests.stats[labels] = RequestStats()
        return stats

    def observe_openapi(self, what: str, seconds: float) -> None:
        """Observe the duration of an OpenAPI operation."""
        self._openapi.labels(what).observe(seconds)

    def observe_check(self, name: str, endpoint: str, passed: bool) -> None:  # noqa: FBT001
        """Count one run of a health check."""
        self._healthcheck.labels(name, endpoint).set(passed)
        self._healthchecks.labels(name, endpoint, "success" if passed else "error").inc()

    def text(self) -> bytes:
        """Return everything in the text format, version 0.0.4."""
        return generate_latest(self._registry)
