"""Routes of paths, and parameters of queries."""

import pytest
from apidiscovery_service.encoding import APIGroup, APIGroupList, APIResourceList
from apidiscovery_service.serving.http.messages import Request
from apidiscovery_service.serving.http.routes import (
    DocumentRoute,
    HealthRoute,
    MissingRoute,
    Page,
    Route,
    route,
)


@pytest.mark.parametrize(
    ("path", "plain", "aggregated"),
    [
        ("/apis", APIGroupList(), True),
        ("/apis/", APIGroupList(), False),
        ("/apis/apps", APIGroup("apps"), False),
        ("/apis/apps/", APIGroup("apps"), False),
        ("/apis/apps/v1", APIResourceList("apps", "v1"), False),
        ("/apis/apps/v1/", APIResourceList("apps", "v1"), False),
        ("/api/v1", APIResourceList("", "v1"), False),
        ("/api/v1/", APIResourceList("", "v1"), False),
        ("/api", None, True),
        ("/api/", None, True),
    ],
)
def test_a_document_is_served_with_and_without_a_slash(
    path: str, plain: object, *, aggregated: bool
) -> None:
    target = route(path)
    assert isinstance(target, DocumentRoute)
    assert target.plain == plain
    assert (target.aggregated is not None) is aggregated


@pytest.mark.parametrize(
    ("path", "restful"),
    [("/apis/apps", False), ("/apis/apiregistration.k8s.io", True), ("/apis/apps/v1", True)],
)
def test_the_group_of_the_aggregator_goes_through_go_restful(path: str, *, restful: bool) -> None:
    target = route(path)
    assert isinstance(target, DocumentRoute)
    assert target.restful is restful


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/", Page.INDEX),
        ("/metrics", Page.METRICS),
        ("/version/", Page.VERSION),
        ("/healthz", HealthRoute("healthz")),
        ("/readyz/ping", HealthRoute("readyz", "ping")),
        ("/livez/a/b", HealthRoute("livez", "a/b")),
        ("/healthz/", MissingRoute()),
        ("/apis/apps/v1/deployments", MissingRoute("apps", "v1")),
        ("/api/v1/pods", MissingRoute("", "v1")),
        ("/apis//v1", MissingRoute()),
        ("/apis//v1/pods", MissingRoute()),
        ("//apis", MissingRoute()),
        ("/nope", MissingRoute()),
        ("*", MissingRoute()),
        ("", MissingRoute()),
    ],
)
def test_a_path_leads_to_its_route(path: str, target: Route) -> None:
    assert route(path) == target


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        pytest.param("", {}, id="empty"),
        pytest.param("a=1&b=2&a=3", {"a": ["1", "3"], "b": ["2"]}, id="several"),
        pytest.param("verbose", {"verbose": [""]}, id="no-value"),
        pytest.param("time%6fut=a+b", {"timeout": ["a b"]}, id="escaped"),
        pytest.param("a=%zz&b=%2", {}, id="malformed-escapes"),
        pytest.param("a;b=1&c=2", {"c": ["2"]}, id="semicolon"),
    ],
)
def test_a_query_is_read_as_go_reads_it(query: str, parameters: dict[str, list[str]]) -> None:
    assert Request("GET", "/", query).parameters() == parameters
