"""Finds the resource that a user's word means, as kubectl finds it in discovery.

Source: client-go restmapper/discovery.go `NewDiscoveryRESTMapper`, restmapper/shortcut.go
`shortcutExpander`; apimachinery pkg/api/meta: restmapper.go, multirestmapper.go, priority.go.
"""

from collections.abc import Iterable, Iterator

from apidiscovery_client._kubectl.view import all_resources, listed_resources, listed_versions
from apidiscovery_client.model import (
    CURRENT,
    GroupVersion,
    GroupVersionResource,
    Resource,
    Snapshot,
)
from apidiscovery_client.openapi.errors import NotExplained, UnknownResource
from apidiscovery_client.openapi.field_path import nodes


def key_of(named: GroupVersion | GroupVersionResource) -> str:
    """Return the key of a group-version's document, such as `api/v1` or `apis/apps/v1`."""
    return f"apis/{named.group}/{named.version}" if named.group else f"api/{named.version}"


def parse_group_version(text: str) -> GroupVersion:
    """Return the group-version in a text such as `apps/v1` or `v1`; raise `NotExplained`.

    Source: apimachinery pkg/runtime/schema/group_version.go `ParseGroupVersion`.
    """
    group, slash, version = text.partition("/")
    if "/" in version:
        raise NotExplained(f"unexpected GroupVersion string: {text}")
    return GroupVersion(group, version) if slash else GroupVersion("", text)


class ResourceNames:
    """Every name under which the resources of a server are known.

    Attributes:
        warnings: What was told of the words looked up so far, in kubectl's words.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.warnings: list[str] = []

    def find(self, argument: str) -> tuple[GroupVersionResource, list[str]]:
        """Return the resource and the path of fields in `TYPE[.GROUP][.FIELD...]`.

        Source: kubectl pkg/explain/explain.go `SplitAndParseResourceRequestWithMatchingPrefix`.

        Raises:
            NotExplained: It is no such path.
            UnknownResource: There is no such resource.
        """
        path = nodes(argument)
        matching = self._matching(_first(path))
        for found in matching:
            prefix = found.group_resource
            if argument.startswith(prefix):
                rest = nodes(argument.removeprefix(prefix)) if argument != prefix else []
                return found, _fields(rest, "first node must be field node")
        return matching[0], _fields(path, "first node must be field node")

    def find_one(self, argument: str) -> tuple[GroupVersionResource, list[str]]:
        """Return the preferred resource and the path of fields in `TYPE[.FIELD...]`.

        Source: kubectl pkg/explain/explain.go `SplitAndParseResourceRequest`. Raises as `find`.
        """
        path = nodes(argument)
        word = _first(path)
        matching = self._matching(word)
        preferred = min(map(self._rank, matching))
        best = [found for found in matching if self._rank(found) == preferred]
        if len(best) > 1:
            partial = GroupVersionResource("", "", word)
            listed = " ".join(map(str, matching))
            raise NotExplained(f"{partial} matches multiple resources [{listed}]")
        return best[0], _fields(path, "all nodes must be field nodes")

    def find_type(self, argument: str) -> GroupVersionResource:
        """Return the preferred resource that `TYPE[.GROUP]` means; raise `UnknownResource`.

        Other than with kubectl a group may follow each name of a type, also a short one.
        """
        word, _, group = argument.partition(".")
        if not group:
            return self._matching(word)[0]
        for gv, found in all_resources(self._snapshot):
            if gv.group == group and "/" not in found.name and word.lower() in _words(found):
                return found.gvr
        raise UnknownResource(word, group)

    def _rank(self, found: GroupVersionResource) -> int:
        """Return how late the group-version comes: v1 first, then each group's preferred one."""
        order = [GroupVersion("", "v1")]
        for group in self._snapshot.groups:
            order.append(GroupVersion(group.name, group.preferred_version))
            order += (version.gv for version in listed_versions(group))
        return order.index(GroupVersion(found.group, found.version))

    def _matching(self, word: str) -> list[GroupVersionResource]:
        """Return the resources of that name in discovery order, at least one."""
        if not word:
            raise NotExplained("a resource must be present, got: /, Resource=")
        name, group = self._expanded(word)
        found = [
            GroupVersionResource(gv.group, gv.version, plural)
            for gv, plurals in self._by_version()
            if gv.group.startswith(group)
            for plural in sorted(plurals)
            if name.lower() in (plural, plurals[plural])
        ]
        if not found:
            raise UnknownResource(name, group)
        return found

    def _expanded(self, word: str) -> tuple[str, str]:
        """Return the resource and group that a short name stands for; any other word as it is."""
        resources = list(all_resources(self._snapshot))
        if any(word in (found.name, found.singular_name) for _, found in resources):
            return word, ""
        meant = dict.fromkeys(
            (found.name, gv.group) for gv, found in resources if word in found.short_names
        )
        if not meant:
            return word, ""
        chosen, *others = meant
        self.warnings += (
            f'short name "{word}" could also match lower priority resource '
            + GroupVersionResource(group, "", name).group_resource
            for name, group in others
        )
        return chosen

    def _by_version(self) -> Iterator[tuple[GroupVersion, dict[str, str]]]:
        """Yield each current group-version with the singular of each plural in it."""
        for version in self._snapshot.versions:
            if version.freshness == CURRENT:
                yield version.gv, _singulars(listed_resources(version))


def _words(resource: Resource) -> tuple[str, ...]:
    return (
        resource.name,
        resource.singular_name,
        resource.kind.lower(),
        *resource.short_names,
    )


def _singulars(resources: Iterable[Resource]) -> dict[str, str]:
    """Return singular names by plural ones, with those that client-go makes up for lists."""
    found: dict[str, str] = {}
    for resource in resources:
        if "/" not in resource.name:
            found[resource.name] = resource.singular_name or resource.kind.lower()
            found |= _guessed(f"{resource.kind}List")
    return found | _guessed("List")


def _guessed(kind: str) -> dict[str, str]:
    singular = kind.lower()  # ends in t, so that the plural just has an s
    return {f"{singular}s": singular}


def _first(path: list[str | None]) -> str:
    if not path or path[0] is None:
        raise NotExplained("invalid jsonpath syntax, first node must be field node")
    return path[0]


def _fields(path: list[str | None], rule: str) -> list[str]:
    """Return the names after the first node; raise `NotExplained` when one is no field."""
    names = [name for name in path[1:] if name is not None]
    if len(names) < len(path) - 1:
        raise NotExplained(f"invalid jsonpath syntax, {rule}")
    return names
