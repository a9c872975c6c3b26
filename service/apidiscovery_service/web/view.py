"""The input of pages: a request, the rights of its caller, and the state of the server."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias
from urllib.parse import quote

from apidiscovery_service.access import ALL_CLUSTERS, Role
from apidiscovery_service.access.grants import matching
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import SourceStatus
from apidiscovery_service.encoding import CurrentEncoding, EncodedSnapshot
from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.history.history import History
from apidiscovery_service.history.model import MERGED
from apidiscovery_service.openapi.body import DocumentSource
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http.respond import Site
from apidiscovery_service.sources.upstreams.openapi.cluster_documents import ClusterDocuments
from apidiscovery_service.storage_versions.state import StorageVersions
from apidiscovery_service.web.changes import ExplainedChanges
from apidiscovery_service.web.name_search import NamesCache
from apidiscovery_service.web.schema_cache import SchemaCache
from apidiscovery_service.web.search_building import IndexBuilder

CORE = "core"
"""The name of the core group in paths."""


@dataclass(frozen=True, slots=True)
class Served:
    """The parts of a server that pages show.

    Attributes:
        registry: The merged APIs, and their sources.
        encoding: The documents of the merged APIs.
        fleet: The clusters.
        cluster_documents: The OpenAPI documents of each cluster.
        site: The OpenAPI documents of the merged APIs, and the version.
        statuses: Returns the status of each source that can fail.
        checks: The health checks, with a warning for each problem.
        ready: Whether the local sources have been read.
        history: What was served before; None where nothing is remembered.
        storage_versions: What API servers report; None where they report nothing here.
        schemas: The schemas of the documents that were looked at last.
        fields: Finds fields in all documents.
        names: Finds kinds and groups.
        explained: Explains changes of the history.
    """

    registry: Registry
    encoding: CurrentEncoding
    fleet: Fleet
    cluster_documents: ClusterDocuments
    site: Site
    statuses: Callable[[], list[SourceStatus]]
    checks: Checks
    ready: Callable[[], bool] = lambda: True
    history: History | None = None
    storage_versions: StorageVersions | None = None
    schemas: SchemaCache = field(default_factory=SchemaCache)
    fields: IndexBuilder = field(default_factory=IndexBuilder)
    names: NamesCache = field(default_factory=NamesCache)
    explained: ExplainedChanges = field(default_factory=ExplainedChanges)


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at a page.

    Attributes:
        user: Its name; empty where callers are not identified.
        role: Its role.
        clusters: Patterns of the clusters that it may read about.
        form_token: The token that a form of this viewer must send back; empty without a session.
    """

    user: str = ""
    role: Role = Role.ADMIN
    clusters: tuple[str, ...] = ALL_CLUSTERS
    form_token: str = ""

    @property
    def sees_all(self) -> bool:
        """Whether it may read about every cluster."""
        return self.clusters == ALL_CLUSTERS


@dataclass(frozen=True, slots=True)
class View:
    """A request for a page.

    Attributes:
        served: What the server has.
        viewer: Who asks.
        scope: The clusters that it may see.
        snapshot: The merged APIs now.
        path: Below the prefix, such as `/ui/groups`.
        captured: The parts of the path that its route names, decoded.
        parameters: The first value of each parameter.
        root: The prefix under which the application is mounted.
        is_fragment: Whether only a part of the page is asked for, to be put into one that is open.
    """

    served: Served
    viewer: Viewer
    scope: Scope
    snapshot: EncodedSnapshot
    path: str
    captured: Mapping[str, str] = field(default_factory=dict[str, str])
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])
    root: str = ""
    is_fragment: bool = False

    def parameter(self, name: str) -> str:
        """Return a parameter without surrounding blanks; empty without one."""
        return self.parameters.get(name, "").strip()

    def flag(self, name: str) -> bool:
        """Return whether a parameter is given, and says neither `0` nor `false`."""
        return self.parameter(name) not in ("", "0", "false")

    def documents(self, cluster: str = "") -> DocumentSource | None:
        """Return the OpenAPI documents of a cluster, or of the merged APIs; None without any."""
        if not cluster:
            answers = self.served.site.openapi_v3
            return None if answers is None else answers.documents
        if cluster not in self.scope.clusters:
            return None
        return self.served.cluster_documents.of(cluster)

    def statuses(self) -> list[SourceStatus]:
        """Return the status of each source that can fail; those of hidden clusters are left out."""
        return [each for each in self.served.statuses() if self.sees_source(each.name)]

    def changes_filter(self) -> Callable[[str], bool] | None:
        """Return a test of the clusters whose changes the viewer may read; None for all.

        The merged APIs were made of clusters that everybody might read about then, by the grants
        of that time, so only a viewer who may read about every cluster sees its changes.
        """
        if self.viewer.sees_all:
            return None
        pattern = matching(self.viewer.clusters)
        return lambda name: name != MERGED and pattern.fullmatch(name) is not None

    def sees_source(self, source: str) -> bool:
        """Return whether the viewer may see a source, as ListSources of gRPC decides.

        A viewer of some clusters sees these, and sources that belong to no cluster. Files of
        clusters may name any cluster.
        """
        if self.viewer.sees_all:
            return True
        kind, _, name = source.partition(":")
        if kind == "upstream":
            return matching(self.viewer.clusters).fullmatch(name) is not None
        return kind != "clusters"


@dataclass(frozen=True, slots=True)
class Page:
    """A page, or a part of one, before it is rendered.

    Attributes:
        template: The file of the template.
        values: The values of the template.
        status: HTTP status code.
    """

    template: str
    values: Mapping[str, object] = field(default_factory=dict[str, object])
    status: HTTPStatus = HTTPStatus.OK


PageFunction: TypeAlias = Callable[[View], Awaitable[Page]]


class PageError(Exception):
    """There is no such page, or it cannot be made; the text says why and what to do.

    Attributes:
        status: HTTP status code.
    """

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def not_found(message: str) -> PageError:
    """Return the error for a page that is not there."""
    return PageError(HTTPStatus.NOT_FOUND, message)


def group_path(group: str) -> str:
    """Return the path of the page of a group."""
    return f"/ui/groups/{quote(group or CORE, safe='')}"


def kind_path(group: str, version: str, kind: str) -> str:
    """Return the path of the page of a kind."""
    parts = (quote(part, safe="") for part in (group or CORE, version, kind))
    return f"/ui/kinds/{'/'.join(parts)}"


def group_named(text: str) -> str:
    """Return the group that a path names."""
    return "" if text == CORE else text
