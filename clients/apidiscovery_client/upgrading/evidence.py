"""Reads from a cluster what decides about an upgrade: objects, metrics, its release."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

from apidiscovery_client._errors import DiscoveryError, UnexpectedDocument
from apidiscovery_client._fields import Fields
from apidiscovery_client._negotiation import ACCEPT_PLAIN
from apidiscovery_client.model import Snapshot
from apidiscovery_client.openapi.asking import FetchesPaths
from apidiscovery_client.openapi.json_documents import as_array, as_object, load
from apidiscovery_client.schemas.listing import listed
from apidiscovery_client.snapshots.releases import PREFIX
from apidiscovery_client.upgrading.definitions import Definition, definition_of
from apidiscovery_client.upgrading.metrics import Called, called_in

_T = TypeVar("_T")

_DEFINITIONS_IN_A_PAGE = 40  # the largest that are known have 1 MB
_RELEASE = re.compile(r"v(1\.\d{1,3})\.")
_ONLY_DISCOVERY = "only discovery is known of it"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read of a cluster.

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
    """Return what can be read of a cluster; what cannot is in `unread`.

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
                f"gitVersion is {str(told)[:100]!r}, which is no release of Kubernetes",
                url=reply.url,
            )
        return found[1]

    def _objects(
        self, group_version: str, resource: str, take: Callable[[Fields], _T], limit: int = 500
    ) -> list[_T]:
        """Return what is taken of each object of a resource; nothing where its group is not served.

        A part of the objects would look like the whole: of a list that breaks off there is nothing.
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
            DiscoveryError: That cannot be told.
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
        if (as_object(service.get("spec")) or {}).get("type") == "ExternalName":
            self._unread[what] = "it is an ExternalName, not in the cluster"
            return ""
        return "the Service has no ready endpoint"


def _has_ready(endpoint_slice: Fields) -> bool:
    """Tell whether an endpoint is ready; one that does not say counts.

    Source: k8s.io/api discovery/v1/types.go `EndpointConditions`.
    """
    endpoints = (as_object(one) or {} for one in as_array(endpoint_slice.get("endpoints")) or ())
    conditions = (as_object(one.get("conditions")) or {} for one in endpoints)
    return any(one.get("ready") is not False for one in conditions)


def _not_true(wanted: str, found: Fields) -> tuple[str, str]:
    """Return the name of an object, and why a condition of it is not True; empty where it is."""
    name = str((as_object(found.get("metadata")) or {}).get("name") or "")
    told = as_array((as_object(found.get("status")) or {}).get("conditions")) or ()
    conditions = {str(each.get("type")): each for each in map(as_object, told) if each}
    condition = conditions.get(wanted)
    if condition is None:
        return name, f"the condition {wanted} has not been reported"
    if condition.get("status") == "True":
        return name, ""
    parts = (condition.get("reason"), condition.get("message"))
    said = ": ".join(" ".join(str(part).split()) for part in parts if part)
    return name, said or f"{wanted} is {condition.get('status')}"
