"""Snapshots to resolve names on: built up by hand, real ones, and one of every ambiguity."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Literal

from apidiscovery_client._reading import read_document
from apidiscovery_client._writing import (
    core_versions_fields,
    document_json,
    group_list_fields,
    resource_list_fields,
    write_aggregated,
)
from apidiscovery_client.model import (
    NAMESPACED,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Snapshot,
    Subresource,
    Version,
)
from fake_api_server import Answer, Routes
from media_types import aggregated_type
from repository import GOLDEN

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def resource(  # noqa: PLR0913 - one argument a field
    name: str,
    kind: str,
    *short_names: str,
    singular: str | None = None,
    categories: Sequence[str] = (),
    below: Sequence[str] = (),
    verbs: Sequence[str] = ("get", "list"),
    scope: str = NAMESPACED,
) -> Resource:
    """Return a resource of no group-version yet; an empty kind is none."""
    return Resource(
        gv=GroupVersion("", ""),
        name=name,
        singular_name=kind.lower() if singular is None else singular,
        scope=scope,
        response_kind=GroupVersionKind("", "", kind) if kind else None,
        verbs=tuple(verbs),
        short_names=short_names,
        categories=tuple(categories),
        subresources=tuple(
            Subresource(one, GroupVersionKind("", "", kind or "Part"), ("get", "patch"))
            for one in below
        ),
    )


def version(group: str, name: str, *resources: Resource) -> Version:
    """Return a version of these resources."""
    gv = GroupVersion(group, name)
    return Version(gv, tuple(_in(gv, one) for one in resources))


def _in(gv: GroupVersion, one: Resource) -> Resource:
    return Resource(
        gv=gv,
        name=one.name,
        singular_name=one.singular_name,
        scope=one.scope,
        response_kind=one.response_kind,
        verbs=one.verbs,
        short_names=one.short_names,
        categories=one.categories,
        subresources=one.subresources,
    )


def group(name: str, **versions: Sequence[Resource]) -> Group:
    """Return a group of these versions, the most preferred first."""
    return Group(name, tuple(version(name, key, *some) for key, some in versions.items()))


def snapshot(*groups: Group) -> Snapshot:
    return Snapshot(groups=groups, server="https://server.example.com", checked_at=NOW)


@cache
def builtin_groups() -> tuple[Group, ...]:
    """Return Kubernetes' own groups."""
    return (*_read("builtin/api.v2.json", "/api"), *_read("builtin/apis.v2.json", "/apis"))


@cache
def real_groups() -> tuple[Group, ...]:
    """Return Kubernetes' own groups and those of well-known CRDs."""
    own = builtin_groups()
    names = {one.name for one in own}
    crds = _read("crds/apis.v2.json", "/apis")
    return (*own, *(one for one in crds if one.name not in names))


def _read(name: str, path: Literal["/api", "/apis"]) -> tuple[Group, ...]:
    return read_document(path, aggregated_type(), (GOLDEN / name).read_bytes(), NOW).groups


WIDGETS = resource("widgets", "Widget", "wd", "w", categories=["all", "acme"], below=["status"])
GADGETS = resource("gadgets", "Gadget", "gd", "dup", categories=["acme"])


@cache
def ambiguous_groups() -> tuple[Group, ...]:
    """Return real groups among ones whose names clash with them and with each other."""
    core, *others = real_groups()
    core_v2 = version("", "v2", resource("pods", "Pod", "po"), resource("cores", "Core", "cr"))
    return (
        Group("", (core_v2, *core.versions)),
        _EARLY,
        *others,
        *_LATE,
    )


_EARLY = group(
    "early.io",
    v1=[
        resource("deployments", "Deployment", "deploy"),
        resource("events", "Event", "ev"),
        resource("cores", "Core", "cr"),
        resource("ingresses", "Ingress", "netpol"),
    ],
)
_LATE = (
    group(
        "acme.io",
        v1=[WIDGETS, resource("stuffs", "Stuff", "things"), resource("kinks", "Kink", "dup")],
        v1beta1=[WIDGETS, GADGETS, resource("oldies", "Oldie", "od", categories=["solo"])],
        v1alpha1=[WIDGETS, GADGETS],
    ),
    group("example.com", v1=[WIDGETS, GADGETS, resource("things", "Thing")]),
    group("example", v1=[WIDGETS, resource("things", "Thing", "dup")], v2=[WIDGETS]),
    group("example.com.other", v1=[WIDGETS, resource("extras", "Extra", "ex", "wdx")]),
    group(
        "twins.io",
        v1=[
            resource("foos", "Foo", "fo"),
            resource("bars", "Foo", "br", singular="bar"),
            resource("mice", "Mouse", "mi"),
            resource("mouse", "Mouser", "mo"),
            resource("rats", "Rat", singular="rodent"),
            resource("voles", "Vole", singular="rodent"),
        ],
    ),
    group(
        "odd.io",
        v1=[
            resource("fancythings", "Fancy", "fn", singular="fancything"),
            resource("shouts", "Shout", "SH", singular="Shout"),
            resource("nosingulars", "NoSingular", singular=""),
            resource("lowers", "lower", singular="low"),
            resource("sheep", "Sheep", "baa"),
        ],
        v2=[resource("fancythings", "Fancy", "fn", singular="fancything")],
    ),
    group("clash.io", v1=[resource("pods", "Pod", "po"), resource("deployments", "Deployment")]),
    group("ver.io", v2=[WIDGETS], v3=[WIDGETS, resource("verses", "Verse", "vs")]),
    group("v1.ver.io", v1=[WIDGETS]),
    group("both.io", v1=[WIDGETS, GADGETS], v2=[WIDGETS]),
    group("v1.both.io", v3=[WIDGETS, GADGETS]),
    group("gizmo.io", v1=[resource("gizmos", "Gizmo", categories=["gizmos", "all"])]),
)


def aggregated_routes(groups: Sequence[Group]) -> Routes:
    """Return what a server of these groups answers, aggregated."""
    return {
        "/api": Answer(write_aggregated(groups[:1]), aggregated_type()),
        "/apis": Answer(write_aggregated(groups[1:]), aggregated_type()),
    }


def plain_routes(groups: Sequence[Group]) -> Routes:
    """Return what an old server of these groups answers, in a document a group-version."""
    return {
        "/api": Answer(document_json(core_versions_fields(groups[0], "127.0.0.1:6443"))),
        "/apis": Answer(document_json(group_list_fields(groups[1:]))),
        **{
            one.gv.path: Answer(document_json(resource_list_fields(one)))
            for one in every_version(groups)
        },
    }


def every_version(groups: Iterable[Group]) -> list[Version]:
    return [one for some in groups for one in some.versions]
