"""Checks of the unaggregated documents, and that both forms have the same content."""

from typing import TypeAlias

from apidiscovery_client.model import GroupVersion
from apidiscovery_formats.media_types import JSON

from apidiscovery_cli.conformance.check import (
    FailedError,
    Node,
    Profile,
    Section,
    SkippedError,
    document,
    expect,
    some,
)
from apidiscovery_cli.conformance.subject import NOT_FOUND, OK, Subject, stale

SECTION = Section("Unaggregated documents")
_ABSENT = "apidiscovery-conformance.invalid"

# The fields of a resource or subresource that both forms have.
_Facts: TypeAlias = tuple[object, ...]


@SECTION.check(
    40,
    "Content-Type of unaggregated documents is application/json",
    why="client-go 0.26.0 to 0.27.1 compare it as text; with a charset their kubectl fails",
    advice="send exactly application/json",
)
def _exact_type(subject: Subject) -> None:
    paths = [*subject.document_paths, *(gv.path for gv in subject.current_versions())]
    for path in paths:
        reply = subject.get(path, JSON)
        expect(reply.content_type == JSON, reply, JSON, f"Content-Type is {reply.content_type}")


def _group(node: Node) -> None:
    """Check that a group is complete."""
    name = node["name"].text
    versions = node["versions"].items
    for version in versions:
        version["groupVersion"].one_of(f"{name}/{version['version'].text}")
    if not versions:
        raise node["versions"].fail("at least one version")
    preferred = node["preferredVersion"]
    preferred["groupVersion"].one_of(versions[0]["groupVersion"].value)
    preferred["version"].one_of(versions[0]["version"].value)


@SECTION.check(
    41,
    "/apis lists groups with their versions, the first of which is preferred",
    why="clients build paths of groupVersion, and take preferredVersion when none is named",
    advice="write name, versions (groupVersion and version) and preferredVersion of each group",
)
def _list(subject: Subject) -> None:
    root = document(subject.existing("/apis", JSON))
    root["kind"].one_of("APIGroupList")
    for group in root["groups"].items:
        _group(group)


@SECTION.check(
    42,
    "/apis/GROUP is what /apis lists",
    why="clients that look for one group ask there",
    advice="serve an APIGroup for each group",
)
def _single(subject: Subject) -> None:
    groups = document(subject.existing("/apis", JSON))["groups"].items
    for listed in some(groups, "group"):
        single = document(subject.existing(f"/apis/{listed['name'].text}", JSON))
        single["kind"].one_of("APIGroup")
        for name in ("name", "versions", "preferredVersion"):
            single[name].one_of(listed[name].value)


def _paths(subject: Subject) -> dict[GroupVersion, str]:
    """Return the path of each group-version that is Current."""
    paths = {gv: gv.path for gv in subject.current_versions()}
    if subject.profile is Profile.KUBE_APISERVER:
        for version in document(subject.existing("/api", JSON))["versions"].items:
            gv = GroupVersion("", version.text)
            paths[gv] = gv.path
    return paths


@SECTION.check(
    43,
    "/apis/GROUP/VERSION lists resources with name, kind, scope and verbs",
    why="every client without aggregated discovery reads these, and kube-aggregator too",
    advice="serve an APIResourceList with the groupVersion of its path",
)
def _resource_lists(subject: Subject) -> None:
    for gv, path in _paths(subject).items():
        root = document(subject.existing(path, JSON))
        root["kind"].one_of("APIResourceList")
        root["groupVersion"].one_of(str(gv))
        for resource in root["resources"].items:
            _ = resource["name"].text, resource["kind"].text, resource["verbs"].items_if_any
            if not isinstance(resource["namespaced"].value, bool):
                raise resource["namespaced"].fail("true or false")


@SECTION.check(
    44,
    "Both forms have the same groups and versions, in the same order",
    why="otherwise the version that kubectl uses depends on its age",
    advice="make both forms from the same data",
)
def _same_versions(subject: Subject) -> None:
    aggregated = {
        item["metadata"]["name"].text: [one["version"].text for one in item["versions"].items]
        for item in document(subject.aggregated())["items"].items
    }
    reply = subject.existing("/apis", JSON)
    plain = {group["name"].text: list[str]() for group in document(reply)["groups"].items}
    for gv in subject.listed():
        if gv.version in aggregated.get(gv.group, ()) or not subject.is_unserved(gv):
            plain[gv.group].append(gv.version)
    plain = {name: versions for name, versions in plain.items() if versions or name in aggregated}
    for name in sorted(aggregated.keys() | plain.keys()):
        seen = f"{name} has {_words(plain.get(name))}, aggregated {_words(aggregated.get(name))}"
        wanted = "the same versions in the same order"
        expect(aggregated.get(name) == plain.get(name), reply, wanted, seen)


def _words(versions: list[str] | None) -> str:
    return "nothing" if versions is None else ", ".join(versions)


@SECTION.check(
    48,
    "Both forms have the same resources",
    why="kube-aggregator falls back on the other form, and clients change between them",
    advice="make both forms from the same data",
)
def _same_resources(subject: Subject) -> None:
    documents = subject.documents()
    paths = _paths(subject)
    for reply in documents:
        for item in document(reply)["items"].items:
            group = str(item["metadata"]["name"].value or "")
            for version in item["versions"].items:
                gv = GroupVersion(group, version["version"].text)
                if not stale(version) and gv in paths:
                    _compare(subject, gv, version, paths[gv])


def _compare(subject: Subject, gv: GroupVersion, version: Node, path: str) -> None:
    """Check that both forms have the same resources of a group-version."""
    reply = subject.existing(path, JSON)
    plain = {one["name"].text: _plain_facts(one, gv) for one in document(reply)["resources"].items}
    aggregated: dict[str, _Facts] = {}
    for resource in version["resources"].items_if_any:
        name = resource["resource"].text
        if _is_parent(resource):
            aggregated[name] = _aggregated_facts(resource, resource, gv)
        for below in resource["subresources"].items_if_any:
            facts = _aggregated_facts(below, resource, gv)
            aggregated[f"{name}/{below['subresource'].text}"] = facts
    for name in sorted(aggregated.keys() | plain.keys()):
        if aggregated.get(name) != plain.get(name):
            seen = f"{name} of {gv} is {plain.get(name)}, aggregated {aggregated.get(name)}"
            raise FailedError(seen, "the same in both forms", reply.asked)


def _is_parent(resource: Node) -> bool:
    """Return whether it is a resource, not a placeholder for subresources without one.

    Source: k8s.io/apiserver pkg/endpoints/installer.go, `ConvertGroupVersionIntoToDiscovery`.
    """
    return bool(resource["responseKind"]["kind"].value or resource["verbs"].items_if_any)


def _plain_facts(one: Node, gv: GroupVersion) -> _Facts:
    kind = (one["group"].value or gv.group, one["version"].value or gv.version, one["kind"].value)
    return (
        kind,
        one["namespaced"].value is True,
        *(_texts(one[name]) for name in ("verbs", "shortNames", "categories")),
    )


def _aggregated_facts(one: Node, resource: Node, gv: GroupVersion) -> _Facts:
    stated = one["responseKind"]
    kind = (
        stated["group"].value or gv.group,
        stated["version"].value or gv.version,
        stated["kind"].value,
    )
    return (
        kind,
        resource["scope"].value == "Namespaced",
        *(_texts(one[name]) for name in ("verbs", "shortNames", "categories")),
    )


def _texts(node: Node) -> tuple[str, ...]:
    return tuple(sorted(item.text for item in node.items_if_any))


@SECTION.check(
    45,
    "/api has the core group, or nothing",
    why="clients ask there first; only kube-apiserver has something there",
    advice="answer 404 if this is not a kube-apiserver; else APIVersions with v1",
)
def _core(subject: Subject) -> None:
    reply = subject.get("/api", JSON)
    if subject.profile is Profile.EXTENSION:
        expect(reply.status in (OK, NOT_FOUND), reply, "404, as there is no core group")
        expect(not reply.is_html, reply, "404 as text or as a Status, not a page")
        if reply.status == OK:
            document(reply)["kind"].one_of("APIVersions")
        return
    expect(reply.status == OK, reply, "200")
    root = document(reply)
    root["kind"].one_of("APIVersions")
    if "v1" not in [version.value for version in root["versions"].items]:
        raise root["versions"].fail("a list with v1")
    if subject.version is not None:
        items = document(subject.aggregated("/api"))["items"]
        if len(items.items) != 1 or items.items[0]["metadata"]["name"].value:
            raise items.fail("one group, without a name")


@SECTION.check(
    46,
    "Missing groups and versions answer 404",
    why="clients take any other status for a failure, and a page for garbage",
    advice="answer 404 with a Status",
)
def _no_group(subject: Subject) -> None:
    for path in (f"/apis/{_ABSENT}", f"/apis/{_ABSENT}/v1"):
        _check_missing(subject, path)


@SECTION.check(
    47,
    "Missing resources answer 404",
    why="kubectl then says that the server does not have the resource",
    advice="answer 404 with a Status",
)
def _no_resource(subject: Subject) -> None:
    for gv in subject.current_versions()[:1]:
        _check_missing(subject, f"{gv.path}/apidiscovery-conformance-nothing")


def _check_missing(subject: Subject, path: str) -> None:
    reply = subject.get(path, JSON)
    expect(reply.status == NOT_FOUND, reply, "404")
    expect(not reply.is_html, reply, "404 as text or as a Status, not a page")
    if reply.content_type.startswith(JSON) and reply.body:
        root = document(reply)
        if "kind" not in root.names:
            raise SkippedError("404 has JSON without a kind, which clients take as text")
        root["kind"].one_of("Status")
        root["code"].one_of(NOT_FOUND)
