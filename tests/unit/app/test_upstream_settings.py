"""Upstreams by flags and by keys of the configuration file."""

from pathlib import Path

import pytest
from apidiscovery_kubeconfig.connection import Impersonation
from apidiscovery_kubeconfig.credentials import Material, TokenFile
from apidiscovery_kubeconfig.tls import Tls
from apidiscovery_service.app.settings import (
    Address,
    Settings,
    UpstreamSettings,
    flagged_upstreams,
)
from apidiscovery_service.app.structured import (
    configured_cluster_options,
    configured_services,
    configured_upstreams,
)
from apidiscovery_service.app.upstream_specs import ClusterSpecs, service_settings
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.sources.upstreams.endpoint import Endpoint
from apidiscovery_service.sources.upstreams.spec import (
    Timing,
    UpstreamKind,
    UpstreamLimits,
    VersionFilter,
)
from certificates import Authority

URL = "https://127.0.0.1:6443"

KUBECONFIG = f"""\
current-context: west
contexts:
- name: west
  context: {{cluster: one}}
- name: south
  context: {{cluster: two}}
clusters:
- name: one
  cluster: {{server: {URL}}}
- name: two
  cluster: {{server: https://127.0.0.1:7443}}
"""


@pytest.fixture(name="kubeconfig")
def fixture_kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return path


def configured(options: dict[str, object]) -> UpstreamSettings:
    (settings,) = configured_upstreams({"east": {"url": URL, **options}})
    return settings


def test_a_url_alone_has_every_default() -> None:
    for settings in (
        *flagged_upstreams((("east", URL),), None, ()),
        *configured_upstreams({"east": URL}),
        configured({}),
        configured({"timeout": None, "allow": None, "core-paths": []}),
    ):
        spec = ClusterSpecs().upstream(settings)
        assert (spec.name, spec.endpoint.url, spec.kind) == ("east", URL, UpstreamKind.SERVER)
        assert (spec.core_paths, spec.named_paths) == (("/api",), ("/apis",))
        assert (spec.filter, spec.limits, spec.timing) == (
            VersionFilter(),
            UpstreamLimits(),
            Timing(),
        )


def test_each_option_arrives_where_it_belongs(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.client("me", [])
    (tmp_path / "token").write_text("hidden\n")
    options: dict[str, object] = {
        "allow": ["apps", "core"],
        "deny": ["apps/v1beta1"],
        "core-paths": ["/api", "/oapi"],
        "named-paths": ["/other"],
        "max-body-bytes": 1000,
        "poll-interval": "1.5m",
        "empty-answers": 3,
        "timeout": "250ms",
        "ca-file": str(authority.ca_file),
        "token-file": str(tmp_path / "token"),
        "client-certificate": str(pair.cert_file),
        "client-key": str(pair.key_file),
        "tls-server-name": "api.example",
        "proxy-url": "http://127.0.0.1:3128",
        "as": "jane",
    }
    spec = ClusterSpecs().upstream(configured(options))
    assert spec.filter == VersionFilter(("apps", "core"), ("apps/v1beta1",))
    assert spec.paths == (("/api", True), ("/oapi", True), ("/other", False))
    assert (spec.limits.body_bytes, spec.limits.exchange_s) == (1000, 0.25)
    assert (spec.timing.poll_s, spec.timing.empty_answers) == (90, 3)
    endpoint = spec.endpoint
    assert endpoint.tls == Tls(
        ca=Material("ca-file", file=authority.ca_file),
        certificate=Material("client-certificate", file=pair.cert_file),
        key=Material("client-key", file=pair.key_file),
        server_name="api.example",
    )
    assert isinstance(endpoint.credentials, TokenFile)
    assert endpoint.impersonation == Impersonation("jane")
    assert endpoint.proxy_url == "http://127.0.0.1:3128"
    assert "hidden" not in repr(spec)


@pytest.mark.parametrize(
    ("text", "seconds"), [("100ms", 0.1), ("1s", 1), ("0.5m", 30), ("24h", 86400)]
)
def test_durations_have_units(text: str, seconds: float) -> None:
    spec = ClusterSpecs().upstream(configured({"poll-interval": text, "timeout": text}))
    assert spec.timing.poll_s == pytest.approx(seconds)
    assert spec.limits.exchange_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "1", "s", "-1s", "1 s", "1m30s", "0ms", "1d", "24.1h", "\u0661s"]
)
def test_a_malformed_duration_is_refused(text: str) -> None:
    for key in ("poll-interval", "timeout"):
        with pytest.raises(
            InvalidConfiguration, match=rf"^upstreams\.east\.{key}: want a duration"
        ):
            ClusterSpecs().upstream(configured({key: text}))


def test_a_kubeconfig_without_a_context_means_its_current_one(kubeconfig: Path) -> None:
    (settings,) = flagged_upstreams((), kubeconfig, ())
    spec = ClusterSpecs().upstream(settings)
    assert (spec.name, spec.endpoint.url, spec.kind) == ("kubeconfig", URL, UpstreamKind.CLUSTER)


def test_each_context_is_an_upstream_of_its_name(kubeconfig: Path) -> None:
    found = [
        ClusterSpecs().upstream(each)
        for each in flagged_upstreams((), kubeconfig, ("south", "west"))
    ]
    urls = {spec.name: spec.endpoint.url for spec in found}
    assert urls == {"south": "https://127.0.0.1:7443", "west": URL}


def test_a_context_of_the_file_has_a_name_and_options_of_its_own(kubeconfig: Path) -> None:
    value = {"kubeconfig": str(kubeconfig), "context": "south", "deny": ["apps"]}
    (settings,) = configured_upstreams({"prod": value})
    spec = ClusterSpecs().upstream(settings)
    assert (spec.name, spec.endpoint.url) == ("prod", "https://127.0.0.1:7443")
    assert (spec.kind, spec.filter) == (UpstreamKind.CLUSTER, VersionFilter(deny=("apps",)))


def test_a_context_alone_is_looked_for_where_kubectl_looks(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    (flagged,) = flagged_upstreams((), None, ("south",))
    (settings,) = configured_upstreams({"south": {"context": "south"}})
    for each in (flagged, settings):
        assert ClusterSpecs().upstream(each).endpoint.url == "https://127.0.0.1:7443"


def test_without_flags_there_are_no_upstreams() -> None:
    assert flagged_upstreams((), None, ()) == []
    assert configured_upstreams({}) == []


def settings_with(**more: object) -> Settings:
    return Settings(Address("127.0.0.1", 0), None, "none", **more)  # type: ignore[arg-type] # fields of Settings


def test_services_have_the_addresses_of_the_file() -> None:
    urls = configured_services({"default/remote": f"{URL}/", "a/b:8443": "http://127.0.0.1:1"})
    found = service_settings(settings_with(services=urls))
    assert found.urls == {"default/remote": URL, "a/b:8443": "http://127.0.0.1:1"}
    assert (found.certificate, found.key) == (None, None)


@pytest.mark.parametrize("name", ["remote", "a/b/c", "A/b", "a/b:", "a/b:x", "a/b:123456", "/b"])
def test_a_service_is_named_as_in_a_cluster(name: str) -> None:
    with pytest.raises(InvalidConfiguration, match="want NAMESPACE/NAME"):
        configured_services({name: URL})


def test_without_a_certificate_for_services_the_system_trust_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(_: Tls) -> None:
        pytest.fail("it takes long")

    monkeypatch.setattr(Tls, "context", read)
    assert service_settings(settings_with()).certificate is None


def test_the_certificate_for_services_is_read(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair, other = authority.client("front-proxy", []), authority.client("other", [])
    files = {"proxy_client_cert_file": pair.cert_file, "proxy_client_key_file": pair.key_file}
    found = service_settings(settings_with(**files))
    assert found.certificate
    assert found.key
    assert found.certificate.read() == pair.cert_file.read_bytes()
    wrong = files | {"proxy_client_key_file": other.key_file}
    with pytest.raises(InvalidConfiguration, match=r"--proxy-client-cert-file: the key does not"):
        service_settings(settings_with(**wrong))


# Options by patterns of names.


def test_options_of_patterns_are_combined_and_the_last_counts() -> None:
    options = configured_cluster_options(
        {
            "*": {"poll-interval": "30s", "labels": {"env": "any", "team": "a"}, "deny": ["x"]},
            "prod-*": {"labels": {"env": "prod"}, "merge": False, "timeout": None},
            "dev": {"openapi": False},
        }
    )
    specs = ClusterSpecs(options)
    spec = specs.cluster("prod-east", Endpoint(URL))
    assert (spec.name, spec.kind, spec.endpoint.url) == ("prod-east", UpstreamKind.CLUSTER, URL)
    assert (spec.timing.poll_s, spec.filter.deny, spec.merge) == (30, ("x",), False)
    assert spec.labels == {"env": "prod", "team": "a"}
    assert (spec.openapi, specs.cluster("dev", Endpoint(URL)).openapi) == (True, False)
    value = {"url": URL, "labels": {"env": "own"}, "poll-interval": "10s", "merge": True}
    (settings,) = configured_upstreams({"prod-west": value})
    own = specs.upstream(settings)
    assert own.labels == {"env": "own", "team": "a"}
    assert (own.timing.poll_s, own.filter.deny, own.merge) == (10, ("x",), True)
    (flagged,) = flagged_upstreams((("prod-north", URL),), None, ())
    assert specs.upstream(flagged).labels == {"env": "prod", "team": "a"}


def test_an_option_overrides_the_default_of_merging() -> None:
    specs = ClusterSpecs({"prod": {"merge": True}}, merge=False)
    merged = {name: specs.cluster(name, Endpoint(URL)).merge for name in ("prod", "dev")}
    assert merged == {"prod": True, "dev": False}


def test_switched_off_documents_stay_off() -> None:
    specs = ClusterSpecs({"*": {"openapi": True}}, openapi=False)
    assert not specs.cluster("east", Endpoint(URL)).openapi


def test_labels_neither_change_the_id_nor_depend_on_their_order() -> None:
    one = ClusterSpecs({"*": {"labels": {"a": "", "b.example.com/x": "y"}}})
    two = ClusterSpecs({"*": {"labels": {"b.example.com/x": "y", "a": ""}}})
    first, second = (specs.cluster("east", Endpoint(URL)) for specs in (one, two))
    assert list(first.labels.items()) == list(second.labels.items())
    assert first.id == ClusterSpecs().cluster("east", Endpoint(URL)).id


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("region=eu", r"labels: want keys and values, got str"),
        ({1: "x"}, r"labels\.1: want text, got '1: x'; put it in quotes"),
        ({"a": None}, r"labels\.a: want text, got 'a: None'; put it in quotes"),
        ({"a" * 64: ""}, r"no key of a label: name part must be no more than 63"),
        ({"_/a": ""}, r"no key of a label: prefix part "),
        ({"a": "x" * 64}, r"no value of a label: must be no more than 63"),
    ],
)
def test_labels_are_those_of_kubernetes(labels: object, message: str) -> None:
    with pytest.raises(InvalidConfiguration, match=rf"^upstreams\.east\..*{message}"):
        ClusterSpecs().upstream(configured({"labels": labels}))
    with pytest.raises(InvalidConfiguration, match=rf"^cluster-options\.\*\..*{message}"):
        ClusterSpecs({"*": {"labels": labels}})


@pytest.mark.parametrize("name", ["", "a b", "-a", "a\n", "a?b"])
def test_an_invalid_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidConfiguration, match="want a name of letters"):
        ClusterSpecs().cluster(name, Endpoint(URL))


def test_with_patterns_the_current_context_is_no_upstream(kubeconfig: Path) -> None:
    assert flagged_upstreams((), kubeconfig, (), ("prod-*",)) == []
    (south,) = flagged_upstreams((), kubeconfig, ("south",), ("prod-*",))
    assert south.name == "south"
