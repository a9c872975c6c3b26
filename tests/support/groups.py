"""Model objects to test with: a few builders, and hypothesis strategies for any of them."""

import re
from dataclasses import replace

from apidiscovery_service.core.chunks import PublishedGroup
from apidiscovery_service.core.model import (
    LAST_RANK,
    Contribution,
    Freshness,
    Group,
    GroupVersionKind,
    Offer,
    Precedence,
    Resource,
    Scope,
    Subresource,
    Version,
)
from apidiscovery_service.core.snapshot import Document
from hypothesis import strategies as st

CRD_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")

# --------------------------------------------------------------------------------------------------
# Builders.


def widget_group(name: str = "example.com", version: str = "v1") -> Group:
    """Return the group of the one-CRD document of Kubernetes' golden values."""
    kind = GroupVersionKind(name, version, "Widget")
    status = Subresource("status", kind, ("get", "patch", "update"))
    widgets = Resource(
        "widgets", kind, Scope.NAMESPACED, "widget", CRD_VERBS, ("wd",), ("all",), (status,)
    )
    return Group(name, (Version(version, (widgets,)),))


def document_of(*groups: Group) -> Document:
    """Return the aggregated document of these groups, in this order."""
    keyed = [(group, (-1000, place, group.name)) for place, group in enumerate(groups)]
    return Document.of(tuple(PublishedGroup(group, key, key) for group, key in keyed))


def resource(name: str = "widgets", *, kind: str = "Widget") -> Resource:
    return Resource(
        name, GroupVersionKind("", "", kind), Scope.NAMESPACED, kind.lower(), ("get", "list")
    )


def offer(  # noqa: PLR0913 - one argument a field
    group_version: str,
    *,
    priority: int = 1000,
    version_priority: int = 100,
    rank: int = LAST_RANK,
    version_rank: int = LAST_RANK,
    resources: tuple[Resource, ...] = (),
    freshness: str = Freshness.CURRENT,
) -> Offer:
    """Return an offer of `group/version`, or of `version` for the core group."""
    group, _, version = group_version.rpartition("/")
    content = Version(version, resources, freshness)
    return Offer(group, content, priority, version_priority, rank, version_rank)


def contribution(
    source: str, *offers: Offer | str, precedence: Precedence = Precedence.CRD
) -> Contribution:
    """Return a contribution; a text stands for a default offer of that group-version."""
    made = tuple(offer(o) if isinstance(o, str) else o for o in offers)
    return Contribution(source, precedence, made)


# --------------------------------------------------------------------------------------------------
# Any model object.

_AWKWARD = st.sampled_from("<>&\u2028\u2029\x00\x08\x0c\x1f\x7f\x85\"'\\/é漢😀: #-\n\t")
# Texts for which readers of YAML disagree about the need of quotes.
_DISPUTED = re.compile(r"[-+.0-9].*|=|<<", re.DOTALL)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | _AWKWARD, max_size=8).filter(
    lambda text: _DISPUTED.fullmatch(text) is None
)
NAMES = TEXTS.filter(bool)
VERBS = st.none() | st.lists(
    st.sampled_from([*CRD_VERBS, "<&>", "véréb"]), max_size=3, unique=True
).map(tuple)

KINDS = st.builds(GroupVersionKind, TEXTS, TEXTS, TEXTS)
SUBRESOURCES = st.builds(
    Subresource,
    NAMES,
    st.none() | KINDS,
    VERBS,
    st.lists(KINDS, max_size=2).map(tuple),
)
RESOURCES = st.builds(
    Resource,
    resource=NAMES,
    response_kind=st.none() | KINDS,
    scope=st.sampled_from([*Scope, "", "Else<where>"]),
    singular_resource=TEXTS,
    verbs=VERBS,
    short_names=st.lists(TEXTS, max_size=2).map(tuple),
    categories=st.lists(TEXTS, max_size=2).map(tuple),
    subresources=st.lists(SUBRESOURCES, max_size=2).map(tuple),
    storage_version_hash=st.sampled_from(["", "xPOwRZ+Yhw8="]),
)
VERSIONS = st.builds(
    Version,
    NAMES,
    st.lists(RESOURCES, max_size=3).map(tuple),
    st.sampled_from([*Freshness, ""]),
)
GROUPS = st.builds(
    Group,
    TEXTS,
    st.lists(VERSIONS, min_size=1, max_size=3, unique_by=lambda v: v.version).map(tuple),
)

# --------------------------------------------------------------------------------------------------
# Contributions that often conflict: few names, few numbers.

GROUP_NAMES = ("", "apiregistration.k8s.io", "apps", "a.example", "b.example", "c.example")
VERSION_NAMES = ("v1", "v01", "v2", "v10", "v1beta1", "v2alpha1", "foo")
SOURCES = ("catalog", "crd", "manifests:a", "manifests:b")

_CONTENTS = st.tuples(
    st.lists(st.sampled_from([resource(), resource("gadgets", kind="Gadget")]), max_size=2),
    st.sampled_from(Freshness),
)


@st.composite
def offers(draw: st.DrawFn) -> Offer:
    resources, freshness = draw(_CONTENTS)
    return Offer(
        draw(st.sampled_from(GROUP_NAMES)),
        Version(draw(st.sampled_from(VERSION_NAMES)), tuple(resources), freshness),
        draw(st.sampled_from([0, 1000, 2000])),
        draw(st.sampled_from([15, 100])),
        draw(st.sampled_from([0, 1, LAST_RANK])),
        draw(st.sampled_from([0, 1, LAST_RANK])),
    )


def contributions(source: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Contribution]:
    """Return contributions of one of `SOURCES`, or of those given."""
    unique = st.lists(offers(), max_size=6, unique_by=lambda o: (o.group, o.version.version))
    return st.builds(
        Contribution,
        st.sampled_from(SOURCES) if source is None else source,
        st.sampled_from(Precedence),
        unique.map(tuple),
    )


def without_hashes(group: Group) -> Group:
    """Return a group without hashes, which aggregated documents do not have."""
    versions = [
        replace(v, resources=tuple(replace(r, storage_version_hash="") for r in v.resources))
        for v in group.versions
    ]
    return replace(group, versions=tuple(versions))
