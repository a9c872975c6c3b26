"""Metrics: the names, the numbers and the text format."""

import pytest
from apidiscovery_service.metrics import CONTENT_TYPE, Metrics, RequestLabels, RequestStats
from prometheus_client.parser import text_string_to_metric_families

APIS = RequestLabels("GET", "/apis", "application/json;v2", "gzip", 200, "apis")
APIS_304 = RequestLabels("GET", "/apis", "", "", 304, "apis")
PLAIN = RequestLabels("GET", "/apis", "application/json", "identity", 200)

Labels = dict[str, str]


def samples(metrics: Metrics, name: str) -> list[tuple[Labels, float]]:
    """Return labels and value of each sample of that name."""
    families = text_string_to_metric_families(metrics.text().decode())
    return [(s.labels, s.value) for f in families for s in f.samples if s.name == name]


def value(metrics: Metrics, name: str, /, **labels: str) -> float:
    """Return the value of the one sample with these labels among others."""
    (found,) = [v for of, v in samples(metrics, name) if labels.items() <= of.items()]
    return found


def test_the_text_is_of_version_0_0_4() -> None:
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"
    assert Metrics().text().endswith(b"\n")


@pytest.mark.parametrize(
    "name",
    [
        "aggregator_discovery_aggregation_count_total",
        "aggregator_discovery_nopeer_requests_total",
        "apidiscovery_groups",
        "apidiscovery_grpc_watchers",
        "apidiscovery_http_not_modified_share",
    ],
)
def test_a_metric_without_labels_is_there_from_the_start(name: str) -> None:
    assert samples(Metrics(), name) == [({}, 0.0)]


def test_a_request_is_counted_with_its_labels() -> None:
    metrics = Metrics()
    for seconds in (0.0002, 0.02, 60.0):
        metrics.request_stats(APIS).observe(seconds)
    metrics.request_stats(PLAIN).observe(0.001)
    labels = {
        "method": "GET",
        "endpoint": "/apis",
        "representation": "application/json;v2",
        "coding": "gzip",
        "code": "200",
    }
    name = "apidiscovery_http_request_duration_seconds"
    assert (labels, 3.0) in samples(metrics, "apidiscovery_http_requests_total")
    assert value(metrics, f"{name}_count", coding="gzip") == 3
    assert value(metrics, f"{name}_sum", coding="gzip") == pytest.approx(60.0202)
    buckets = {"0.0001": 0, "0.00025": 1, "0.01": 1, "0.025": 2, "5.0": 2, "+Inf": 3}
    for bound, count in buckets.items():
        assert value(metrics, f"{name}_bucket", coding="gzip", le=bound) == count


def test_a_bucket_includes_its_bound() -> None:
    stats = RequestStats()
    stats.observe(0.001)
    assert dict(stats.cumulative())["0.001"] == 1
    assert dict(stats.cumulative())["0.0005"] == 0


def test_requests_with_the_same_labels_share_their_statistics() -> None:
    metrics = Metrics()
    same = RequestLabels("GET", "/apis", "application/json;v2", "gzip", 200, "apis")
    assert metrics.request_stats(APIS) is metrics.request_stats(same)
    assert metrics.request_stats(APIS) is not metrics.request_stats(PLAIN)


def test_aggregated_requests_have_the_metrics_of_kubernetes() -> None:
    metrics = Metrics()
    for labels, count in ((APIS, 2), (APIS_304, 3), (PLAIN, 5)):
        for _ in range(count):
            metrics.request_stats(labels).observe(0.001)
    wanted = {
        **dict.fromkeys(("dry_run", "group", "version", "resource", "scope"), ""),
        "verb": "GET",
        "subresource": "apis",
        "component": "apiserver",
    }
    told = samples(metrics, "apiserver_request_total")
    assert told == [(wanted | {"code": "200"}, 2.0), (wanted | {"code": "304"}, 3.0)]
    assert value(metrics, "apiserver_request_duration_seconds_count", **wanted) == 5


@pytest.mark.parametrize(
    ("requests", "share"),
    [
        pytest.param([], 0.0, id="none"),
        pytest.param([APIS], 0.0, id="all-200"),
        pytest.param([APIS, APIS_304, APIS_304, APIS_304], 0.75, id="most-304"),
        pytest.param([PLAIN, PLAIN, APIS_304], 1.0, id="plain-ones-do-not-count"),
    ],
)
def test_the_share_of_304_is_of_aggregated_requests(
    requests: list[RequestLabels], share: float
) -> None:
    metrics = Metrics()
    for labels in requests:
        metrics.request_stats(labels).observe(0.001)
    assert value(metrics, "apidiscovery_http_not_modified_share") == share


def test_a_health_check_has_its_last_result_and_its_runs() -> None:
    metrics = Metrics()
    for passed in (True, True, False):
        metrics.observe_check("ping", "readyz", passed)
    labels = {"name": "ping", "type": "readyz"}
    assert samples(metrics, "kubernetes_healthcheck") == [(labels, 0.0)]
    assert value(metrics, "kubernetes_healthchecks_total", **labels, status="success") == 2
    assert value(metrics, "kubernetes_healthchecks_total", **labels, status="error") == 1


def test_metrics_of_two_servers_are_apart() -> None:
    one, other = Metrics(), Metrics()
    one.groups.set(3)
    one.grpc_requests.labels("GetDiscovery", "OK").inc()
    assert value(other, "apidiscovery_groups") == 0
    assert samples(other, "apidiscovery_grpc_requests_total") == []


def test_a_label_may_hold_any_text() -> None:
    metrics = Metrics()
    metrics.manifest_errors.labels('a "b"\\c\nd').set(1)
    labels = {"file": 'a "b"\\c\nd'}
    assert samples(metrics, "apidiscovery_manifest_file_error") == [(labels, 1.0)]


@pytest.mark.parametrize("name", ["process_resident_memory_bytes", "process_cpu_seconds_total"])
def test_the_process_is_measured(name: str) -> None:
    assert len(samples(Metrics(), name)) == 1
