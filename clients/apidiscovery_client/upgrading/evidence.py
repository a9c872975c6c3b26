"""Reads from a cluster what an upgrade depends on: objects, metrics, its release."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

from apidiscovery_client._errors import DiscoveryError, UnexpectedDocument
from apidiscovery_client._fields import Fields
from apidiscovery_client._http.reply import Reply
from apidiscovery_client._negotiation import ACCEPT_PLAIN
from apidiscovery_client.model import Snapshot
from apidiscovery_client.openapi.asking import FetchesPaths
from apidiscovery_client.openapi.json_documents import as_list, as_object, load
from apidiscovery_client.schema_diff.versions import versions_in
from apidiscovery_client.schemas.listing import listed
from apidiscovery_client.snapshots.releases import PREFIX

_T = TypeVar("_T")

_DEFINITIONS_IN_A_PAGE = 40  # the largest that are known have 1 MB
_RELEASE = re.compile(r"v(1\.\d{1,3})\.")
_ONLY_DISCOVERY = "only discovery is known of it"
_METRIC = "apiserver_requested_deprecated_apis"
_LINE = re.compile(rf"^{_METRIC}\{{(.*)\}} +([0-9.e+]+)", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"\\]*)"')
# A kube-apiserver has such metrics; servers that are like it, such as ours, have not.
_OF_KUBERNETES = re.compile(
    r"^(kubernetes_|apiserver_(admission|audit|flowcontrol|storage)_)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Definition:
    """The versions and the conversion of a CustomResourceDefinition, without its schemas.

    Attributes:
        name: Its plural and its group: `widgets.example.com`.
        served: Its versions, and whether each is served.
        deprecated: Its deprecated versions.
        storage: The version that new objects are stored in.
        stored: The versions in which objects may be stored, `status.storedVersions`.
        service: Namespace and name of the Service of its conversion webhook; None without one.
        url: Of a webhook without a Service; empty for none.
    """

    name: str
    group: str
    served: Mapping[str, bool]
    deprecated: frozenset[str]
    storage: str
    stored: tuple[str, ...]
    service: tuple[str, str] | None
    url: str


def definition_of(found: Fields) -> Definition:
    """Return the facts of a definition as the server returns it."""
    spec = _inner(found, "spec")
    versions = versions_in(spec)
    conversion = _inner(spec, "conversion")
    # Fields of a webhook are kept beside another strategy.
    is_called = conversion.get("strategy") == "Webhook"
    client = _inner(_inner(conversion, "webhook" if is_called else ""), "clientConfig")
    service = _inner(client, "service")
    return Definition(
        name=str(_inner(found, "metadata").get("name") or ""),
        group=str(spec.get("group") or ""),
        served={name: one.get("served") is True for name, one in versions.items()},
        deprecated=frozenset(name for name, one in versions.items() if one.get("deprecated")),
        storage=next((name for name, one in versions.items() if one.get("storage")), ""),
        stored=tuple(map(str, as_list(_inner(found, "status").get("storedVersions")))),
        service=(str(service.get("namespace")), str(service.get("name"))) if service else None,
        url=str(client.get("url") or ""),
    )


def _inner(fields: Fields, name: str) -> Fields:
    return as_object(fields.get(name))


@dataclass(frozen=True, slots=True, order=True)
class Called:
    """A deprecated resource that clients asked one kube-apiserver for since it started.

    Attributes:
        removed: The first release without it, such as `1.32`; empty where none is planned.
    """

    group: str
    version: str
    resource: str
    removed: str


def called_in(reply: Reply) -> tuple[Called, ...]:
    """Return the deprecated resources that were called, sorted; subresources count as their parent.

    Source: k8s.io/apiserver pkg/endpoints/metrics/metrics.go `deprecatedRequestGauge`.

    Raises:
        RequestRefused: The status is not 200.
        UnexpectedDocument: These are not metrics of Kubernetes.
    """
    text = reply.read(lambda _type, body: body.decode("utf-8", "replace"))
    if not _OF_KUBERNETES.search(text):
        raise UnexpectedDocument("these are not metrics of a kube-apiserver", url=reply.url)
    found = set[Called]()
    for line in _LINE.finditer(text):
        if float(line[2]) > 0:
            labels = {label[1]: label[2] for label in _LABEL.finditer(line[1])}
            names = ("group", "version", "resource", "removed_release")
            found.add(Called(*(labels.get(name, "") for name in names)))
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class Evidence:
    """The facts that were read from a cluster.

    Attributes:
        name: Of the cluster.
        snapshot: What it serves.
        release: Of Kubernetes, such as `1.31`; empty where it is not known.
        called: Deprecated resources that were called; None where that is not known.
        definitions: The CustomResourceDefinitions.
        api_services: Why an APIService is not available, by its name.
        lagging: Why a StorageVersion has no common encoding, by its name.
        webhooks: Why the Service of a conversion webhook does not answer, by namespace and name.
        unread: Why something could not be read, in one line, by what it is.
    """

    name: str
    snapshot: Snapshot
    release: str = ""
    called: tuple[Called, ...] | None = None
    definitions: tuple[Definition, ...] = ()
    api_services: Mapping[str, str] = field(default_factory=dict[str, str])
    lagging: Mapping[str, str] = field(default_factory=dict[str, str])
    webhooks: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    unread: Mapping[str, str] = field(default_factory=dict[str, str])


def read_cluster(name: str, snapshot: Snapshot, transport: object = None) -> Evidence:
    """Read a cluster; `unread` has what could not be read, and why.

    Nothing is written, and no webhook is called.

    Args:
        name: Of the cluster.
        snapshot: What it serves; of a release, that alone is read.
        transport: To the same server; unless it is over HTTP, only discovery is known.
    """
    if snapshot.server.startswith(PREFIX):
        return Evidence(name, snapshot, snapshot.server.removeprefix(PREFIX))
    if not isinstance(transport, FetchesPaths):
        return Evidence(name, snapshot, unread={"objects, metrics and release": _ONLY_DISCOVERY})
    return _Reader(snapshot, transport).read(name)


class _Reader:
    def __init__(self, snapshot: Snapshot, transport: FetchesPaths) -> None:
        self._snapshot = snapshot
        self._groups = {group.name for group in snapshot.groups}
        self._transport = transport
        self._unread = dict(snapshot.failures)

    def read(self, name: str) -> Evidence:
        definitions = self._objects(
            "apiextensions.k8s.io/v1",
            "customresourcedefinitions",
            definition_of,
            _DEFINITIONS_IN_A_PAGE,
        )
        api_services = self._objects(
            "apiregistration.k8s.io/v1", "apiservices", partial(_not_true, "Available")
        )
        storage_versions = self._objects(
            "internal.apiserver.k8s.io/v1alpha1",
            "storageversions",
            partial(_not_true, "AllEncodingVersionsEqual"),
        )
        return Evidence(
            name=name,
            snapshot=self._snapshot,
            release=self._tried("/version", self._release, ""),
            called=self._tried(
                "/metrics", lambda: called_in(self._transport.get("/metrics", "text/plain")), None
            ),
            definitions=tuple(definitions),
            api_services={each: why for each, why in api_services if why},
            lagging={each: why for each, why in storage_versions if why},
            webhooks=self._webhooks(definitions),
            unread=self._unread,
        )

    def _tried(self, what: str, read: Callable[[], _T], otherwise: _T) -> _T:
        """Return what was read; note why it could not be."""
        try:
            return read()
        except DiscoveryError as error:
            self._unread[what] = str(error)
            return otherwise

    def _release(self) -> str:
        reply = self._transport.get("/version", ACCEPT_PLAIN)
        told = reply.read(lambda _type, body: load(body, "the version")).get("gitVersion")
        found = _RELEASE.match(str(told))
        if found is None:
            raise UnexpectedDocument(
                f"gitVersion is {str(told)[:100]!r}, which is not a release of Kubernetes",
                url=reply.url,
            )
        return found[1]

    def _objects(
        self, group_version: str, resource: str, take: Callable[[Fields], _T], limit: int = 500
    ) -> list[_T]:
        """Return what `take` returns for each object; nothing where the group is not served.

        A list that breaks off yields nothing, because a part would look like the whole.
        """
        group = group_version.partition("/")[0]
        if group not in self._groups and not self._snapshot.failures:
            return []
        path = f"/apis/{group_version}/{resource}"
        what = f"{resource}.{group}"

        def read() -> list[_T]:
            return [take(one) for one in listed(self._transport, path, resource, limit=limit)]

        return self._tried(what, read, [])

    def _webhooks(self, definitions: Sequence[Definition]) -> dict[tuple[str, str], str]:
        found = dict[tuple[str, str], str]()
        for one in definitions:
            if one.url:
                self._unread[f"conversion webhook of {one.name}"] = (
                    f"it is at {one.url}, not in the cluster"
                )
        for service in sorted({one.service for one in definitions if one.service}):
            what = f"conversion webhook of the Service {'/'.join(service)}"
            if why := self._tried(what, partial(self._why_down, what, *service), ""):
                found[service] = why
        return found

    def _why_down(self, what: str, namespace: str, name: str) -> str:
        """Return why nothing answers behind a Service; empty where something is ready.

        Raises:
            DiscoveryError: That is not known.
        """
        inside = quote(namespace, safe="")
        slices = f"/apis/discovery.k8s.io/v1/namespaces/{inside}/endpointslices"
        selector = f"kubernetes.io/service-name={name}"
        found = listed(self._transport, slices, "endpointslices", selector=selector)
        if any(_has_ready(one) for one in found):
            return ""
        reply = self._transport.get(
            f"/api/v1/namespaces/{inside}/services/{quote(name, safe='')}", ACCEPT_PLAIN
        )
        if reply.status == HTTPStatus.NOT_FOUND:
            return "the Service does not exist"
        service = reply.read(lambda _type, body: load(body, "the Service"))
        if as_object(service.get("spec")).get("type") == "ExternalName":
            self._unread[what] = "it is an ExternalName, not in the cluster"
            return ""
        return "the Service has no ready endpoint"


def _has_ready(endpoint_slice: Fields) -> bool:
    """Tell whether an endpoint is ready; one that does not say counts.

    Source: k8s.io/api discovery/v1/types.go `EndpointConditions`.
    """
    endpoints = (as_object(one) for one in as_list(endpoint_slice.get("endpoints")))
    conditions = (as_object(one.get("conditions")) for one in endpoints)
    return any(one.get("ready") is not False for one in conditions)


def _not_true(wanted: str, found: Fields) -> tuple[str, str]:
    """Return the name of an object, and why a condition of it is not True; empty where it is."""
    name = str(as_object(found.get("metadata")).get("name") or "")
    told = as_list(as_object(found.get("status")).get("conditions"))
    conditions = {str(each.get("type")): each for each in map(as_object, told) if each}
    condition = conditions.get(wanted)
    if condition is None:
        return name, f"the condition {wanted} has not been reported"
    if condition.get("status") == "True":
        return name, ""
    parts = (condition.get("reason"), condition.get("message"))
    said = ": ".join(" ".join(str(part).split()) for part in parts if part)
    return name, said or f"{wanted} is {condition.get('status')}"
