"""The sides of comparisons: clusters, views, the merged APIs, releases; also at former times."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus

from apidiscovery_client.model import CORE_PATH, GROUPS_PATH, DiscoveryPath
from apidiscovery_client.snapshots.releases import known_releases
from apidiscovery_formats.negotiation import JSON, Representation
from apidiscovery_releases import Release, UnknownRelease

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.encoding import Aggregated, EncodedSnapshot
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.fleet.publisher import Publisher
from apidiscovery_service.history.model import MERGED, NotRecorded
from apidiscovery_service.openapi.body import DocumentForm, DocumentSource, PackedBody
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.sources.upstreams.openapi.cluster_documents import FixedRecipes
from apidiscovery_service.web.comparing import Discovery, Fields
from apidiscovery_service.web.view import PageError, View

SERVED = "served"
CLUSTER, VIEW, KUBERNETES = "cluster:", "view:", "kubernetes:"

_AT_ONCE = 4  # documents that are made side by side
_MAX_BYTES = 256 * 2**20  # of the documents of one side
_NOT_ASKED = "it has not answered yet"


@dataclass(frozen=True, slots=True)
class Side:
    """A side as it was typed, with its parts.

    Attributes:
        text: All of it, such as `cluster:east@2026-11-20T10:00:00Z`.
        kind: `served`, or one of the prefixes.
        name: Of the cluster, view or release.
        when: The time; None for now.
    """

    text: str
    kind: str
    name: str
    when: datetime | None = None


def parse_side(text: str, *, known: Mapping[str, object]) -> Side:
    """Return the parts of a side.

    Args:
        text: As it was typed.
        known: Clusters by name, which may have an `@`.

    Raises:
        PageError: It is not a side; the text says which forms are allowed.
    """
    rest, when = text, None
    if "@" in text and text.removeprefix(CLUSTER) not in known:
        rest, _, at = text.rpartition("@")
        when = _time(text, at)
    if rest == SERVED:
        return Side(text, SERVED, "", when)
    for prefix in (CLUSTER, VIEW, KUBERNETES):
        if rest.startswith(prefix) and rest != prefix:
            if when and prefix != CLUSTER:
                raise _bad(f"{text}: only clusters and {SERVED} have former times")
            return Side(text, prefix, rest.removeprefix(prefix), when)
    raise _bad(f"{text}: want {SERVED}, cluster:NAME, view:NAME or kubernetes:1.31")


def choices(view: View) -> list[str]:
    """Return the sides that a viewer may name, without times."""
    clusters = [f"{CLUSTER}{name}" for name in view.scope.clusters]
    views = [f"{VIEW}{name}" for name in view.scope.view_names()] if clusters else []
    releases = [f"{KUBERNETES}{name}" for name in reversed(known_releases())]
    return [SERVED, *clusters, *views, *releases]


async def discovery_of(view: View, side: Side) -> Discovery:
    """Return the discovery documents of a side.

    Raises:
        PageError: There is no such side, or nothing is known of it.
    """
    if side.kind == KUBERNETES:
        if side.name not in known_releases():
            first, last = known_releases()[0], known_releases()[-1]
            raise _bad(f"{side.text}: the known releases are {first} to {last}")
        return Discovery(side.text, side.name)
    if side.when is not None:
        past = await _cluster_at(view, side, side.when)
        made = EncodedSnapshot(await asyncio.to_thread(Publisher().snapshot, past))
        return await _discovery_of_cluster(side.text, past, made)
    if side.kind == SERVED:
        return Discovery(side.text, documents=await _documents(view.snapshot))
    if side.kind == VIEW:
        encoded = await view.scope.prepared_view(side.name)
        if encoded is None:
            raise _missing(side, "view")
        return Discovery(side.text, documents=await _documents(encoded))
    cluster = _cluster(view, side)
    return await _discovery_of_cluster(side.text, cluster, view.served.fleet.encoded(cluster.name))


async def fields_of(view: View, before: Side, after: Side) -> tuple[Fields, Fields]:
    """Return the OpenAPI documents of two sides: those that differ.

    Raises:
        PageError: A side has no such documents, or they take too much memory.
    """
    sources = [await _source(view, side) for side in (before, after)]
    hashes = [await _hashes(source) for source in sources]
    common = hashes[0].keys() & hashes[1].keys()
    equal = frozenset(key for key in common if hashes[0][key] and hashes[0][key] == hashes[1][key])
    wanted = sorted(common - equal)
    one, other = [
        await _fields(side, source, frozenset(found), wanted, equal)
        for side, source, found in zip((before, after), sources, hashes, strict=True)
    ]
    return one, other


async def _fields(
    side: Side,
    source: DocumentSource | Release,
    keys: frozenset[str],
    wanted: list[str],
    equal: frozenset[str],
) -> Fields:
    if isinstance(source, Release):
        return Fields(side.name, keys, {}, {}, equal)
    documents: dict[str, bytes] = {}
    failures: dict[str, str] = {}
    slots = asyncio.Semaphore(_AT_ONCE)

    async def read(key: str) -> None:
        async with slots:
            try:
                body = await source.body(key, DocumentForm.JSON, "identity")
            except DiscoveryError as error:
                failures[key] = str(error)
                return
        if body is None or isinstance(body, PackedBody):
            failures[key] = "it is not there any more"
        else:
            documents[key] = body.data
        if sum(map(len, documents.values())) > _MAX_BYTES:
            raise PageError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{side.text}: its documents are too large to be compared here; want apidiscovery"
                " diff --fields",
            )

    async with asyncio.TaskGroup() as tasks:
        for key in wanted:
            tasks.create_task(read(key))
    return Fields("", keys, documents, failures, equal)


async def _source(view: View, side: Side) -> DocumentSource | Release:
    if side.kind == KUBERNETES:
        try:
            return await asyncio.to_thread(Release.read, side.name)
        except UnknownRelease as error:
            raise _bad(f"{side.text}: fields: {error}") from None
    if side.kind == VIEW:
        raise _bad(f"{side.text}: fields are compared of clusters, releases and {SERVED}")
    if side.when is not None:
        return await _past_source(view, side, side.when)
    name = "" if side.kind == SERVED else _cluster(view, side).name
    documents = view.documents(name)
    if documents is None:
        raise _bad(f"{side.text}: its OpenAPI documents are not known yet; try again in a minute")
    return documents


async def _past_source(view: View, side: Side, when: datetime) -> DocumentSource:
    await _cluster_at(view, side, when)  # checks that the viewer may read it
    history = view.served.history
    name = MERGED if side.kind == SERVED else side.name
    recipes = None if history is None else await history.openapi_at(name, when)
    if not recipes:
        raise _bad(f"{side.text}: no OpenAPI documents of that time are remembered")
    return Documents(FixedRecipes(recipes), view.served.site.metrics.observe_openapi)


async def _hashes(source: DocumentSource | Release) -> Mapping[str, str]:
    if isinstance(source, Release):
        return source.openapi_hashes
    return (await source.index()).entries


async def _documents(encoded: EncodedSnapshot) -> dict[DiscoveryPath, bytes]:
    form = Representation(JSON, "v2")
    return {
        CORE_PATH: await encoded.body(Aggregated(core=True), form),
        GROUPS_PATH: await encoded.body(Aggregated(core=False), form),
    }


async def _discovery_of_cluster(text: str, cluster: Cluster, encoded: EncodedSnapshot) -> Discovery:
    status = cluster.status
    documents = await _documents(encoded)
    unknown: list[DiscoveryPath] = []
    if cluster.core is None:
        unknown.append(CORE_PATH)
    if cluster.named is None:
        unknown.append(GROUPS_PATH)
    is_stale = status.state is not SourceState.CURRENT
    reason = (status.error or _NOT_ASKED) if is_stale else ""
    missing: dict[str, str] = dict.fromkeys(unknown, reason or _NOT_ASKED)
    for path in unknown:
        del documents[path]
    return Discovery(text, "", documents, missing, status.since, reason)


def _cluster(view: View, side: Side) -> Cluster:
    found = view.scope.clusters.get(side.name)
    if found is None:
        raise _missing(side, "cluster")
    return found


async def _cluster_at(view: View, side: Side, when: datetime) -> Cluster:
    history = view.served.history
    if history is None:
        raise _bad(f"{side.text}: this server remembers nothing; start it with --history")
    name = MERGED if side.kind == SERVED else side.name
    may_read = view.changes_filter()
    if may_read is not None and not may_read(name):
        if name == MERGED:
            why = "it was merged of clusters that you may not read about"
            raise PageError(HTTPStatus.FORBIDDEN, f"{side.text}: {why}.")
        raise _missing(side, "cluster")
    try:
        return await history.cluster_at(name, when)
    except NotRecorded as error:
        raise PageError(HTTPStatus.NOT_FOUND, f"{side.text}: {error}.") from None


def _time(text: str, at: str) -> datetime:
    try:
        when = datetime.fromisoformat(at.replace(" ", "+"))  # a plus sign in a query is a space
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise _bad(f"{text}: want a time after the @ such as 2026-11-20T10:00:00Z")
    return when


def _bad(message: str) -> PageError:
    return PageError(HTTPStatus.BAD_REQUEST, f"{message[:500]}.")


def _missing(side: Side, what: str) -> PageError:
    return PageError(HTTPStatus.NOT_FOUND, f"{side.text[:200]}: there is no such {what}.")
