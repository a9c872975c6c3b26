"""Synthetic groups like those of custom resources, the same at every run."""

import hashlib

import orjson
from apidiscovery_service.core.group_document import group_value
from apidiscovery_service.core.model import (
    Contribution,
    Group,
    GroupVersionKind,
    Offer,
    Precedence,
    Resource,
    Scope,
    Subresource,
    Version,
)

V2 = "apidiscovery.k8s.io/v2"

_SYLLABLES = (
    "ba", "cer", "clu", "da", "den", "fo", "gate", "har", "in", "jo", "ka", "li", "mes", "no",
    "op", "pi", "quo", "re", "sche", "ta", "tun", "ul", "vol", "wor", "xa", "yo", "zen", "bor",
    "dif", "ger", "lo", "pol",
)  # fmt: skip
_TEAMS = ("billing", "data", "edge", "identity", "network", "platform", "search", "storage")
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_STATUS_VERBS = ("get", "patch", "update")

# Coprime to every count of groups used here, so that steps of this size visit all of them.
_STRIDE = 1597


def groups(count: int, resources: int) -> list[Group]:
    """Return `count` groups in the order of their names, each with so many resources."""
    return sorted((group(number, resources) for number in range(count)), key=lambda g: g.name)


def group(number: int, resources: int, revision: int = 0) -> Group:
    """Return one group; another revision differs in a category of its first resource."""
    name = f"{_word(number, 0)}.{_TEAMS[number % len(_TEAMS)]}.example.com"
    kinds = [
        _resource(name, _word(number, place + 1), place, revision if place == 0 else 0)
        for place in range(resources)
    ]
    return Group(name, (Version("v1", tuple(kinds)),))


def _word(*seed: int) -> str:
    """Return a word that compresses as badly as real names."""
    digest = hashlib.sha256(repr(seed).encode()).digest()
    return "".join(_SYLLABLES[byte % len(_SYLLABLES)] for byte in digest[:6])


def _resource(group_name: str, singular: str, place: int, revision: int) -> Resource:
    kind = GroupVersionKind(group_name, "v1", singular.capitalize())
    return Resource(
        resource=f"{singular}s",
        response_kind=kind,
        scope=Scope.CLUSTER if place % 4 == 3 else Scope.NAMESPACED,  # noqa: PLR2004
        singular_resource=singular,
        verbs=_VERBS,
        short_names=(singular[:2] + singular[-2:],),
        categories=("all", f"revision{revision}") if revision else ("all",),
        subresources=(Subresource("status", kind, _STATUS_VERBS),),
    )


def contribution(content: Group) -> Contribution:
    """Return a contribution with a single group, as of a CustomResourceDefinition."""
    offers = tuple(Offer(content.name, version, 1000, 100) for version in content.versions)
    return Contribution(f"crd:{content.name}", Precedence.CRD, offers)


def change(number: int, count: int, resources: int) -> Contribution:
    """Return the `number`-th change (from 1) of one group somewhere among `count`."""
    return contribution(group(number * _STRIDE % count, resources, number))


def manifest(content: list[Group]) -> bytes:
    """Return an APIGroupDiscoveryList in JSON."""
    return orjson.dumps(
        {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": V2,
            "metadata": {},
            "items": [group_value(one) for one in content],
        }
    )
