"""The settings of upstreams into the specifications that sources take; reads their files."""

import contextlib
from collections.abc import Mapping

from apidiscovery_kubeconfig.credentials import Material
from apidiscovery_kubeconfig.fields import Fields
from apidiscovery_kubeconfig.tls import Tls

from apidiscovery_service.app.settings import Settings, UpstreamSettings, duration_s
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.serving.feature_gates import OPENAPI_V3
from apidiscovery_service.sources.upstreams.credentials import translated
from apidiscovery_service.sources.upstreams.endpoint import (
    SETTINGS as ENDPOINT_KEYS,
)
from apidiscovery_service.sources.upstreams.endpoint import (
    Endpoint,
    endpoint_from_kubeconfig,
    endpoint_from_settings,
    server_url,
)
from apidiscovery_service.sources.upstreams.services import ServiceSettings
from apidiscovery_service.sources.upstreams.spec import (
    Filter,
    Kind,
    Limits,
    Timing,
    UpstreamSpec,
)

_SPEC_KEYS = (
    "allow",
    "core-paths",
    "deny",
    "empty-answers",
    "max-body-bytes",
    "max-openapi-bytes",
    "named-paths",
    "openapi",
    "openapi-interval",
    "poll-interval",
    "timeout",
)


def upstream_specs(settings: Settings) -> list[UpstreamSpec]:
    """Return the specifications of all upstreams of the settings.

    Raises:
        InvalidConfiguration: As `upstream_spec`.
    """
    openapi = settings.gates[OPENAPI_V3]
    return [upstream_spec(upstream, openapi=openapi) for upstream in settings.upstreams]


def upstream_spec(settings: UpstreamSettings, *, openapi: bool = True) -> UpstreamSpec:
    """Return the specification of an upstream.

    Args:
        settings: The upstream.
        openapi: Whether OpenAPI documents are polled; if not, its options cannot change that.

    Raises:
        InvalidConfiguration: A key is unknown or not valid, or a file that it names cannot be used;
            the message begins with the flag, or with the path of the key.
    """
    try:
        with translated():
            return _spec(settings, openapi=openapi)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{settings.place}{error}") from None


def _spec(settings: UpstreamSettings, *, openapi: bool) -> UpstreamSpec:
    fields = Fields(settings.options)
    known = (*_SPEC_KEYS, *(ENDPOINT_KEYS if settings.url else ()))
    fields.only(known)
    return UpstreamSpec(
        name=settings.name,
        endpoint=_endpoint(settings),
        kind=Kind.SERVER if settings.url else Kind.CLUSTER,
        core_paths=_paths(fields, "core-paths") or ("/api",),
        named_paths=_paths(fields, "named-paths") or ("/apis",),
        filter=Filter(fields.texts("allow"), fields.texts("deny")),
        limits=Limits(
            exchange_s=_duration_s(fields, "timeout", Limits().exchange_s),
            body_bytes=_count(fields, "max-body-bytes", Limits().body_bytes),
            openapi_bytes=_count(fields, "max-openapi-bytes", Limits().openapi_bytes),
        ),
        timing=Timing(
            poll_s=_duration_s(fields, "poll-interval", Timing().poll_s),
            empty_answers=_count(fields, "empty-answers", Timing().empty_answers),
            openapi_s=_duration_s(fields, "openapi-interval", Timing().openapi_s),
        ),
        openapi=openapi and _openapi(fields),
    )


def _openapi(fields: Fields) -> bool:
    return fields.flag("openapi") if "openapi" in fields else True


def _endpoint(settings: UpstreamSettings) -> Endpoint:
    if settings.url:
        return endpoint_from_settings(settings.url, _of(settings.options, ENDPOINT_KEYS))
    file = str(settings.kubeconfig) if settings.kubeconfig else None
    try:
        return endpoint_from_kubeconfig(file, settings.context or None)
    except InvalidConfiguration as error:
        key = "context" if settings.context else "kubeconfig"
        raise InvalidConfiguration(f"{key}: {error}") from None


def _of(options: Mapping[str, object], keys: tuple[str, ...]) -> dict[str, object]:
    return {key: value for key, value in options.items() if key in keys}


def _paths(fields: Fields, key: str) -> tuple[str, ...]:
    paths = fields.texts(key)
    for path in paths:
        if not path.startswith("/") or path.endswith("/"):
            raise fields.wrong(key, f"want paths such as /apis, got {path!r}")
    return paths


def _duration_s(fields: Fields, key: str, default: float) -> float:
    if key not in fields:
        return default
    with contextlib.suppress(InvalidConfiguration):
        if seconds := duration_s(fields.text(key)):
            return seconds
    raise fields.wrong(key, f"want a duration such as 30s, up to 24h, got {fields.raw(key)!r}")


def _count(fields: Fields, key: str, default: int) -> int:
    value = fields.raw(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise fields.wrong(key, f"want a number above 0, got {value!r}")
    return value


def service_settings(settings: Settings) -> ServiceSettings:
    """Return how to connect to the servers behind APIServices.

    Raises:
        InvalidConfiguration: A URL is not valid, or a certificate cannot be used; the message
            begins with the flag, or with the path of the key.
    """
    certificate, key = settings.proxy_client_cert_file, settings.proxy_client_key_file
    tls = Tls(
        certificate=Material("--proxy-client-cert-file", file=certificate) if certificate else None,
        key=Material("--proxy-client-key-file", file=key) if key else None,
    )
    if certificate or key:  # the context is validated here; it also reads the system's trust
        with translated():
            tls.context()
    return ServiceSettings(
        urls={name: server_url(url, f"services.{name}") for name, url in settings.services.items()},
        certificate=tls.certificate,
        key=tls.key,
        openapi=settings.gates[OPENAPI_V3],
    )
