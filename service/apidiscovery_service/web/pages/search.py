"""Kinds, groups and fields that a text finds; also as a part of the overview while one types."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from markupsafe import Markup

from apidiscovery_service.openapi.body import DocumentSource
from apidiscovery_service.web import descriptions
from apidiscovery_service.web.descriptions import visible_text
from apidiscovery_service.web.name_search import Match, Names
from apidiscovery_service.web.search_building import MERGED, Progress
from apidiscovery_service.web.search_fields import Use
from apidiscovery_service.web.search_index import FieldHit
from apidiscovery_service.web.view import Page, View

MAX_TEXT = 200
"""Characters of a text that are searched for."""

_MAX_KINDS = 40
_MAX_GROUPS = 10
_MAX_PLACES = 4  # of one field
_LEAST = 2  # characters of a text that fields are searched for


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """Where a kind has a field; the cluster is empty where the kind is merged."""

    group: str
    version: str
    kind: str
    path: str
    cluster: str


@dataclass(frozen=True, slots=True)
class FieldLine:
    """A field that was found, the kinds that have it, and how many more do."""

    places: tuple[FieldPlace, ...]
    more: int
    description: Markup


async def page(view: View) -> Page:
    """Make the page, or the part of it with what was found."""
    text = " ".join(view.parameter("q").replace("\0", " ").split())
    wanted = text[:MAX_TEXT].strip()
    names = await view.served.names.of(view.scope, view.snapshot)
    kinds = await asyncio.to_thread(names.find_kinds, wanted) if wanted else []
    groups = names.find_groups(wanted) if wanted else []
    builder = view.served.fields
    refresh_fields(view)
    lines: list[FieldLine] = []
    if len(wanted) >= _LEAST:
        lines = await asyncio.to_thread(_fields, view, names, wanted)
    values = {
        "text": visible_text(wanted),
        "is_cut": len(text) > MAX_TEXT,
        "kinds": [kind for _, kind in kinds[:_MAX_KINDS]],
        "kind_count": len(kinds),
        "groups": groups[:_MAX_GROUPS],
        "fields": lines,
        "progress": _visible(view, builder.progress),
        "unknown_clusters": len(view.scope.clusters.keys() - builder.documents.keys()),
        "is_short": len(wanted) < _LEAST,
    }
    return Page("found.html" if view.is_fragment else "search.html", values)


def refresh_fields(view: View) -> None:
    """Begin to read the fields of documents that are new."""
    view.served.fields.refresh(_state(view), lambda: _sources(view))


def _state(view: View) -> object:
    """Return a value that changes with the documents of any cluster and of the merged APIs."""
    openapi = view.served.site.openapi_v3
    generation = 0 if openapi is None else openapi.generation
    return generation, view.served.cluster_documents.revision


def _sources(view: View) -> dict[str, DocumentSource]:
    """Return all documents: one index serves all viewers, and results are filtered."""
    served = view.served
    found: dict[str, DocumentSource] = {}
    if served.site.openapi_v3 is not None:
        found[MERGED] = served.site.openapi_v3.documents
    for name in served.fleet.clusters:
        documents = served.cluster_documents.of(name)
        if documents is not None:
            found[name] = documents
    return found


def _visible(view: View, progress: Progress) -> Progress:
    """Return the progress without the failures of clusters that the viewer may not see."""
    failures = {
        (cluster, key): visible_text(why)
        for (cluster, key), why in progress.failures.items()
        if cluster == MERGED or cluster in view.scope.clusters
    }
    return Progress(progress.done, progress.total, failures, progress.is_building)


def _fields(view: View, names: Names, text: str) -> list[FieldLine]:
    """Return the fields that a text finds; its first word may be the name of a kind."""
    builder = view.served.fields
    clusters = {MERGED, *view.scope.clusters}
    visible = {name: found for name, found in builder.documents.items() if name in clusters}
    documents = frozenset[str]().union(*visible.values())
    first, _, rest = text.partition(" ")
    hits: list[FieldHit] = []
    if rest:
        kinds = _named(names, first)
        if kinds:
            hits = builder.index.find(rest, documents, _of_kinds(kinds))
    hits += builder.index.find(text, documents)
    lines: dict[FieldPlace, FieldLine] = {}
    for hit in hits:
        line = _line(hit, visible)
        place = line.places[0]
        # Clusters may describe one field in several ways; the merged APIs take precedence.
        key = replace(place, cluster=MERGED)
        known = lines.get(key)
        if known is None or (place.cluster == MERGED and known.places[0].cluster != MERGED):
            lines[key] = line
    return list(lines.values())


def _named(names: Names, text: str) -> frozenset[tuple[str, str]]:
    found = names.find_kinds(text)
    return frozenset((kind.group, kind.kind) for match, kind in found if match is Match.EXACT)


def _of_kinds(kinds: frozenset[tuple[str, str]]) -> Callable[[Use], bool]:
    return lambda use: (use[0], use[2]) in kinds


def _line(hit: FieldHit, visible: dict[str, frozenset[str]]) -> FieldLine:
    """Return a hit with its places: those merged first, then those with the shortest path."""
    found: dict[Use, str] = {}
    for cluster, hashes in visible.items():  # the merged APIs come first
        for document, uses in hit.documents.items():
            if document in hashes:
                for use in uses:
                    found.setdefault(use, cluster)
    ordered = sorted(found, key=lambda use: (found[use] != MERGED, use[3].count("."), use))
    places = tuple(FieldPlace(*use, found[use]) for use in ordered[:_MAX_PLACES])
    return FieldLine(places, len(ordered) - len(places), descriptions.short(hit.description))
