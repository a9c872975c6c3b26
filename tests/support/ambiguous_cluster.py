"""Groups to resolve names in: real ones, and ones with every ambiguity."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

from apidiscovery_client import testing
from apidiscovery_client._reading import read_document
from apidiscovery_client._writing import (
    core_versions_fields,
    document_json,
    group_list_fields,
    resource_list_fields,
    write_aggregated,
)
from apidiscovery_client.model import Group, Resource
from apidiscovery_client.testing import group
from client_snapshots import WHEN
from fake_api_server import Answer, Routes
from media_types import aggregated_type
from repository import GOLDEN


def resource(  # noqa: PLR0913 - one argument a field
    name: str,
    kind: str,
    *short_names: str,
    singular: str | None = None,
    categories: Sequence[str] = (),
    below: Sequence[str] = (),
    verbs: Sequence[str] = ("get", "list"),
) -> Resource:
    """Return a resource with the subresources `below`; an empty kind stands for none."""
    made = testing.resource(
        name,
        kind,
        singular_name=singular,
        short_names=short_names,
        categories=categories,
        verbs=verbs,
        subresources=below,
    )
    return made if kind else replace(made, response_kind=None)


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
    return read_document(path, aggregated_type(), (GOLDEN / name).read_bytes(), WHEN).groups


WIDGETS = resource("widgets", "Widget", "wd", "w", categories=["all", "acme"], below=["status"])
GADGETS = resource("gadgets", "Gadget", "gd", "dup", categories=["acme"])


@cache
def ambiguous_groups() -> tuple[Group, ...]:
    """Return real groups, and others whose names clash with them and with each other."""
    core, *others = real_groups()
    core_v2 = group("", v2=[resource("pods", "Pod", "po"), resource("cores", "Core", "cr")])
    return (
        Group("", (*core_v2.versions, *core.versions)),
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
            for some in groups
            for one in some.versions
        },
    }
