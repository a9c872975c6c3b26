"""Settings of the OpenAPI documents of upstreams."""

import pytest
from apidiscovery_service.app.command import serve, settings_of
from apidiscovery_service.app.settings import Settings
from apidiscovery_service.app.structured import configured_upstreams
from apidiscovery_service.app.upstream_specs import ClusterSpecs, service_settings
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.sources.upstreams.spec import UpstreamSpec


def _spec(**options: object) -> UpstreamSpec:
    (settings,) = configured_upstreams({"east": {"url": "http://127.0.0.1:1", **options}})
    return ClusterSpecs().upstream(settings)


def test_documents_are_requested_unless_configured_otherwise() -> None:
    assert _spec().openapi
    assert not _spec(openapi=False).openapi
    assert _spec(openapi=False).id == _spec().id


def _settings(gates: str) -> Settings:
    context = serve.make_context("serve", ["--feature-gates", gates, "--upstream", "east=http://x"])
    return settings_of(context.params, {"upstreams": {"west": "http://y"}})


@pytest.mark.parametrize(("gates", "asked"), [("", True), ("OpenAPIV3=false", False)])
def test_the_feature_gate_switches_documents_off(gates: str, asked: bool) -> None:  # noqa: FBT001
    settings = _settings(gates)
    specs = ClusterSpecs(openapi=settings.gates["OpenAPIV3"])
    assert [specs.upstream(each).openapi for each in settings.upstreams] == [asked, asked]
    assert service_settings(settings).openapi is asked


def test_limits_of_documents_are_read() -> None:
    spec = _spec(**{"max-openapi-bytes": 1000, "openapi-interval": "5s"})
    assert (spec.limits.openapi_bytes, spec.timing.openapi_s) == (1000, 5.0)
    assert (_spec().limits.openapi_bytes, _spec().timing.openapi_s) == (32 * 2**20, 60.0)


@pytest.mark.parametrize(
    ("key", "value"),
    [("openapi", "no"), ("max-openapi-bytes", 0), ("openapi-interval", "often")],
)
def test_invalid_settings_are_refused(key: str, value: object) -> None:
    with pytest.raises(InvalidConfiguration, match=rf"^upstreams\.east\.{key}: want"):
        _spec(**{key: value})
