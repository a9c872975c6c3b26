"""The servers behind APIServices, as upstreams."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from apidiscovery_kubeconfig.credentials import Material
from apidiscovery_kubeconfig.tls import Tls

from apidiscovery_service.sources.api_service import ApiService, ServiceReference
from apidiscovery_service.sources.upstreams.endpoint import Endpoint
from apidiscovery_service.sources.upstreams.spec import (
    Timing,
    UpstreamKind,
    UpstreamLimits,
    UpstreamSpec,
)

# Upstreams, each with the APIServices that name it.
SpecsById: TypeAlias = dict[str, tuple[UpstreamSpec, tuple[ApiService, ...]]]


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """How the servers behind APIServices are reached.

    Attributes:
        urls: URLs to use in place of cluster names, by `namespace/name:port` or, after that,
            `namespace/name`.
        certificate: Proves that we may set `X-Remote-User`, as --proxy-client-cert-file of
            kube-apiserver; needs `key`.
        openapi: Whether to request their OpenAPI documents.
    """

    urls: Mapping[str, str] = field(default_factory=dict[str, str])
    certificate: Material | None = None
    key: Material | None = None
    limits: UpstreamLimits = field(default_factory=UpstreamLimits)
    timing: Timing = field(default_factory=Timing)
    openapi: bool = True


def service_specs(services: Iterable[ApiService], settings: ServiceSettings) -> SpecsById:
    """Return the upstreams behind APIServices by id, each with its APIServices.

    Group-versions of one service share an upstream only if they have the same CA bundle: a bundle
    for one group-version is not valid for the others.
    """
    found: SpecsById = {}
    for service in sorted(services, key=lambda service: service.name):
        if service.service is None:
            continue
        spec = _spec(service.service, service, settings)
        _, others = found.get(spec.id, (spec, ()))
        found[spec.id] = (spec, (*others, service))
    return found


def _spec(
    reference: ServiceReference, service: ApiService, settings: ServiceSettings
) -> UpstreamSpec:
    name = f"{reference.namespace}/{reference.name}"
    trust = hashlib.sha256(service.ca_bundle).hexdigest() if service.ca_bundle else ""
    return UpstreamSpec(
        name=f"{name}:{reference.port}",
        endpoint=_endpoint(reference, service, settings),
        kind=UpstreamKind.SERVICE,
        limits=settings.limits,
        timing=settings.timing,
        trust="insecure" if service.insecure_skip_tls_verify else trust,
        openapi=settings.openapi,
    )


def _endpoint(
    reference: ServiceReference, service: ApiService, settings: ServiceSettings
) -> Endpoint:
    name = f"{reference.namespace}/{reference.name}"
    # Source: k8s.io/kube-aggregator pkg/apiserver/handler_proxy.go:updateAPIService.
    host = f"{reference.name}.{reference.namespace}.svc"
    url = settings.urls.get(f"{name}:{reference.port}") or settings.urls.get(name)
    url = (url or f"https://{host}:{reference.port}").rstrip("/")
    if url.startswith("http:"):
        return Endpoint(url)
    tls = Tls(
        ca=Material("caBundle", data=service.ca_bundle) if service.ca_bundle else None,
        certificate=settings.certificate,
        key=settings.key,
        server_name=host,
        insecure=service.insecure_skip_tls_verify,
    )
    return Endpoint(url, tls=tls)
