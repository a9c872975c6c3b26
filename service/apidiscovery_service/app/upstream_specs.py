"""Converts the settings of upstreams to specifications for sources; reads their files."""

import contextlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import cast

import structlog
from apidiscovery_kubeconfig.credentials import Material
from apidiscovery_kubeconfig.fields import Fields
from apidiscovery_kubeconfig.tls import Tls

from apidiscovery_service.app.settings import (
    UPSTREAM_NAME,
    Settings,
    UpstreamSettings,
    duration_s,
)
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.kube.objects.formats import label_value, qualified_name
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
    Timing,
    UpstreamKind,
    UpstreamLimits,
    UpstreamSpec,
    VersionFilter,
)

_SPEC_KEYS = (
    "allow",
    "core-paths",
    "deny",
    "empty-answers",
    "labels",
    "max-body-bytes",
    "max-openapi-bytes",
    "merge",
    "named-paths",
    "openapi",
    "openapi-interval",
    "poll-interval",
    "timeout",
)

# Where only options are validated, there is no server.
_NOWHERE = Endpoint("http://127.0.0.1")

_log = structlog.get_logger(__name__)


class ClusterSpecs:
    """Makes the specifications of clusters, with the options that patterns give to their names.

    Args:
        options: Options by a pattern of names, in order.
        openapi: Whether OpenAPI documents are polled; if not, no option can change that.
        merge: Whether clusters are merged by default.
        may_all_read: Returns whether every caller may read about a cluster, by name.

    Raises:
        InvalidConfiguration: An option of a pattern is unknown or not valid; the message begins
            with the path of its key.
    """

    def __init__(
        self,
        options: Mapping[str, Mapping[str, object]] | None = None,
        *,
        openapi: bool = True,
        merge: bool = True,
        may_all_read: Callable[[str], bool] = lambda _name: True,
    ) -> None:
        self._patterns = options or {}
        self._openapi = openapi
        self._merge = merge
        self._may_all_read = may_all_read
        for pattern, each in self._patterns.items():
            with _placed(f"cluster-options.{pattern}."):
                self._spec("any", _NOWHERE, each)

    def upstream(self, settings: UpstreamSettings) -> UpstreamSpec:
        """Return the specification of an upstream of the settings.

        Raises:
            InvalidConfiguration: A key is unknown or not valid, or a file that it names cannot be
                used; the message begins with the flag, or with the path of the key.
        """
        with _placed(settings.place):
            keys = ENDPOINT_KEYS if settings.url else ()
            Fields(settings.options).only((*_SPEC_KEYS, *keys))
            options = self._options(settings.name, _of(settings.options, _SPEC_KEYS))
            kind = UpstreamKind.SERVER if settings.url else UpstreamKind.CLUSTER
            return self._shared(self._spec(settings.name, _endpoint(settings), options, kind))

    def cluster(self, name: str, endpoint: Endpoint) -> UpstreamSpec:
        """Return the specification of a cluster of a folder or of a kubeconfig.

        Raises:
            InvalidConfiguration: The name is not valid.
        """
        if not UPSTREAM_NAME.fullmatch(name):
            raise InvalidConfiguration(
                f"want a name of letters, digits, dots and dashes, got {name[:100]!r}"
            )
        return self._shared(self._spec(name, endpoint, self._options(name, {})))

    def _options(self, name: str, own: Mapping[str, object]) -> dict[str, object]:
        """Return the options of a cluster: of each pattern that fits, in order, then its own.

        The last value of an option counts; labels are joined.
        """
        fitting = [each for pattern, each in self._patterns.items() if fnmatchcase(name, pattern)]
        options: dict[str, object] = {}
        for each in (*fitting, own):
            before, given = options.get("labels"), each.get("labels")
            options.update({key: value for key, value in each.items() if value is not None})
            if isinstance(before, Mapping) and isinstance(given, Mapping):
                options["labels"] = {
                    **cast("Mapping[object, object]", before),
                    **cast("Mapping[object, object]", given),
                }
        return options

    def _spec(
        self,
        name: str,
        endpoint: Endpoint,
        options: Mapping[str, object],
        kind: UpstreamKind = UpstreamKind.CLUSTER,
    ) -> UpstreamSpec:
        fields = Fields(options)
        fields.only(_SPEC_KEYS)
        return UpstreamSpec(
            name=name,
            endpoint=endpoint,
            kind=kind,
            core_paths=_paths(fields, "core-paths") or ("/api",),
            named_paths=_paths(fields, "named-paths") or ("/apis",),
            filter=VersionFilter(fields.texts("allow"), fields.texts("deny")),
            limits=UpstreamLimits(
                exchange_s=_duration_s(fields, "timeout", UpstreamLimits().exchange_s),
                body_bytes=_count(fields, "max-body-bytes", UpstreamLimits().body_bytes),
                openapi_bytes=_count(fields, "max-openapi-bytes", UpstreamLimits().openapi_bytes),
            ),
            timing=Timing(
                poll_s=_duration_s(fields, "poll-interval", Timing().poll_s),
                empty_answers=_count(fields, "empty-answers", Timing().empty_answers),
                openapi_s=_duration_s(fields, "openapi-interval", Timing().openapi_s),
            ),
            openapi=self._openapi and _flag(fields, "openapi", default=True),
            merge=_flag(fields, "merge", default=self._merge),
            labels=_labels(fields),
        )

    def _shared(self, spec: UpstreamSpec) -> UpstreamSpec:
        """Return a specification that is not merged if some caller may not read about it.

        All callers can read merged documents.
        """
        if not spec.merge or self._may_all_read(spec.name):
            return spec
        _log.warning("cluster is not merged, as not every grant has it", cluster=spec.name)
        return replace(spec, merge=False)


@contextlib.contextmanager
def _placed(place: str) -> Generator[None]:
    """Put the place of keys before the message of an error."""
    try:
        with translated():
            yield
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{place}{error}") from None


def _flag(fields: Fields, key: str, *, default: bool) -> bool:
    return fields.flag(key) if key in fields else default


def _labels(fields: Fields) -> dict[str, str]:
    """Return the labels, sorted by key; they are those of Kubernetes objects."""
    value = fields.raw("labels")
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise fields.wrong("labels", f"want keys and values, got {type(value).__name__}")
    labels: dict[str, str] = {}
    for key, text in cast("Mapping[object, object]", value).items():
        if not isinstance(key, str) or not isinstance(text, str):
            shown = f"{key}: {text}"
            raise fields.wrong(f"labels.{key}", f"want text, got {shown!r}; put it in quotes")
        for what, errors in (("key", qualified_name(key)), ("value", label_value(text))):
            if errors:
                raise fields.wrong(f"labels.{key}", f"no {what} of a label: {errors[0]}")
        labels[key] = text
    return dict(sorted(labels.items()))


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
